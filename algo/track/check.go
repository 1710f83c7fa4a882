package track

import "slices"

// Elsewhere maps patterns of Table, expanded, to the test that checks them, such as
// "algo.TestFaults". It lists the metrics of failures that no whole run of the
// table's own test has.
var Elsewhere = map[string]string{}

func init() {
	seenBy("algo.TestFilterOverlong", OverlongTasks)
	seenBy("cli.TestTrainThroughFaults", ServerFaults+"/http_*", ServerFaults+"/{truncated,reset,slow,duplicate}")
	seenBy("env/proxy.TestPoolCountsAgree", ServerFaults+"/timeout")
	seenBy("env.TestSeen", ServerFaults+"/{refused,restarted,malformed,oversize,environment_error}")
	seenBy("env/pool.TestRowOfFailures", Servers+"quarantines")
	seenBy("cli.TestMixture", Env+"*/{episodes,success_rate,mean_score,mean_turns,dropped}", Servers+"*/{requests,instances_created,quarantines}", Servers+"*/faults/*")
	seenBy("cli.TestTrainWithRewardModel", MemoryBytes+"/reward_model")
}

// seenBy adds patterns to Elsewhere.
func seenBy(test string, patterns ...string) {
	for _, p := range patterns {
		for _, name := range expand(p) {
			Elsewhere[name] = test
		}
	}
}

// Check compares the names of metrics that runs wrote with Table. It returns names
// that Table does not have, and patterns of Table without a name, except those of
// Elsewhere.
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
