package configs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data"
)

// maxIndices bounds the indices of a list and so its memory.
const maxIndices = 1 << 20

// IsTaskFile reports whether a task entry names a file rather than a range.
func (s *Schema) IsTaskFile(name string) bool {
	return slices.Contains(s.words.TaskFiles, filepath.Ext(name))
}

// taskSpec returns the error text for an invalid task entry, or "". An entry is a
// comma-separated list of indices, ranges and files; files are opened later.
func (s *Schema) taskSpec(entry string) string {
	var ranges []string
	for part := range strings.SplitSeq(entry, ",") {
		if !s.IsTaskFile(strings.TrimSpace(part)) {
			ranges = append(ranges, part)
		}
	}
	if len(ranges) == 0 {
		return ""
	}
	if _, err := ParseIndices(strings.Join(ranges, ",")); err != nil {
		return err.Error() + ", or name " + s.taskFiles()
	}
	return ""
}

// taskFiles describes the names of task files.
func (s *Schema) taskFiles() string {
	return "files ending in " + orList(s.words.TaskFiles)
}

// ParseIndices reads a list of task indices such as "0-9,17", in the order written.
// An index may occur only once.
func ParseIndices(list string) ([]int, error) {
	bad := func(why string) error {
		return fmt.Errorf("%q is not a list of task indices: %s; write it as 0-9,17", list, why)
	}
	var out []int
	seen := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		first, last, err := data.ParseRange(part)
		if err != nil {
			return nil, bad(err.Error())
		}
		if last-first >= maxIndices-len(out) {
			return nil, bad(fmt.Sprintf("more than %d indices", maxIndices))
		}
		for i := first; i <= last; i++ {
			if seen[i] {
				return nil, bad(fmt.Sprintf("%d occurs twice", i))
			}
			seen[i] = true
			out = append(out, i)
		}
	}
	return out, nil
}
