package run

import (
	"strings"
	"time"

	"github.com/openmanus/openmanus/data/dump"
)

// WritesDate reports whether a chat template writes the day into prompts.
func WritesDate(template string) bool { return strings.Contains(template, "strftime_now") }

// PromptDay is the day that a dump or a checkpoint recorded, else today: what was
// begun on another day goes on, and is played again, with the same prompts.
func PromptDay(h *Host, recorded string) time.Time {
	if day, err := time.Parse(time.DateOnly, recorded); err == nil {
		return day
	}
	return h.Now()
}

// DumpDay is what the header of the dump at path has recorded as its day; ""
// where it says none or cannot be read.
func DumpDay(path string) string {
	r, err := dump.Open(path)
	if err != nil {
		return ""
	}
	defer r.Close()
	day, _ := r.Header().Options[DayOption].(string)
	return day
}

// DayOption is the option of a dump's header that holds the day of its prompts,
// where the chat template writes it into them.
const DayOption = "day"
