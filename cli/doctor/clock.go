package doctor

import (
	"context"
	"syscall"
	"time"
)

// earliest is a time before the program was written.
var earliest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// unsynchronised is STA_UNSYNC of adjtimex(2): no program sets the clock from the network.
const unsynchronised = 0x40

func clock(_ context.Context, m *Machine) []Finding {
	f := ok("clock", "%s", m.Now.Format(time.RFC3339))
	if m.Now.Before(earliest) {
		f.Level, f.Advice = Warn, "the clock is wrong: certificates of the hub are rejected, and prompts get a wrong date; set it"
		return []Finding{f}
	}
	var t syscall.Timex
	if _, err := syscall.Adjtimex(&t); err == nil && t.Status&unsynchronised != 0 { // an error: the container forbids the question
		f.Value += ", not synchronised with the network"
	}
	return []Finding{f}
}
