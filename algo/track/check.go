package track

import "slices"

// Elsewhere names, for patterns of Table as they are expanded, the test that
// sees them written, such as "algo.TestFaults": those that need a failure which
// no whole run of the table's own test meets.
var Elsewhere = map[string]string{}

// SeenBy adds patterns to Elsewhere. Like Define it is called while the program
// starts.
func SeenBy(test string, patterns ...string) struct{} {
	for _, p := range patterns {
		for _, name := range expand(p) {
			Elsewhere[name] = test
		}
	}
	return struct{}{}
}

// Check compares names of metrics that runs wrote with Table: those that it
// does not have, and the patterns of it that match none of them and that no
// other test sees.
func Check(written []string) (unknown, unwritten []string) {
	for _, name := range written {
		if _, ok := Describe(name); !ok {
			unknown = append(unknown, name)
		}
	}
	for _, d := range Table {
		for _, pattern := range expand(d.Names) {
			if Elsewhere[pattern] == "" && !slices.ContainsFunc(written, func(name string) bool { return matches(pattern, name) }) {
				unwritten = append(unwritten, pattern)
			}
		}
	}
	return unknown, unwritten
}
