package cli

import (
	"strings"
	"time"

	"github.com/openmanus/openmanus/data/dump"
)

// writesDate reports whether a chat template writes the day into prompts.
func writesDate(template string) bool { return strings.Contains(template, "strftime_now") }

// dayFrom is the day that a dump or a checkpoint recorded, else today: what was
// begun on another day goes on, and is played again, with the same prompts.
func (s *State) dayFrom(recorded string) time.Time {
	if day, err := time.Parse(time.DateOnly, recorded); err == nil {
		return day
	}
	return s.Now()
}

// dayOfDump is what the header of the dump at path has recorded as its day; ""
// where it says none or cannot be read.
func dayOfDump(path string) string {
	r, err := dump.Open(path)
	if err != nil {
		return ""
	}
	defer r.Close()
	day, _ := r.Header().Options[dayOption].(string)
	return day
}

// dayOption is the option of a dump's header that holds the day of its prompts,
// where the chat template writes it into them.
const dayOption = "day"
