package configs

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// maxIndices bounds a range, so that "0-999999999999" is an error and not a
// full memory.
const maxIndices = 1 << 20

// IsTaskFile reports whether a task entry names a file rather than a range.
func IsTaskFile(s string) bool {
	switch filepath.Ext(s) {
	case ".parquet", ".jsonl", ".json":
		return true
	}
	return false
}

// TaskSpec returns the fault of a task entry, or "". An entry is a
// comma-separated list of indices, ranges and files; files are opened later.
func TaskSpec(s string) string {
	var ranges []string
	for part := range strings.SplitSeq(s, ",") {
		if !IsTaskFile(strings.TrimSpace(part)) {
			ranges = append(ranges, part)
		}
	}
	if len(ranges) == 0 {
		return ""
	}
	if _, err := ParseIndices(strings.Join(ranges, ",")); err != nil {
		return err.Error()
	}
	return ""
}

// ParseIndices reads a list of task indices such as "0-9,17", in the order written.
// An index may be named once only.
func ParseIndices(s string) ([]int, error) {
	bad := func(why string) error {
		return fmt.Errorf("%q is not a list of task indices: %s; write it as 0-9,17, or name a file ending in .parquet, .jsonl or .json", s, why)
	}
	var out []int
	seen := map[int]bool{}
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		first, last, isRange := strings.Cut(part, "-")
		lo, err := index(first)
		if err != nil {
			return nil, bad(err.Error())
		}
		hi := lo
		if isRange {
			if hi, err = index(last); err != nil {
				return nil, bad(err.Error())
			}
		}
		if hi < lo {
			return nil, bad(fmt.Sprintf("%s runs backwards", part))
		}
		if hi-lo >= maxIndices-len(out) {
			return nil, bad(fmt.Sprintf("more than %d indices", maxIndices))
		}
		for i := lo; i <= hi; i++ {
			if seen[i] {
				return nil, bad(fmt.Sprintf("%d is in it twice", i))
			}
			seen[i] = true
			out = append(out, i)
		}
	}
	return out, nil
}

func index(s string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is not an index", s)
	}
	return int(n), nil
}
