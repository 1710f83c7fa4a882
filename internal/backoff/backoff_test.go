package backoff

import (
	"context"
	"testing"
	"time"
)

func TestDelayGrowsToItsLimit(t *testing.T) {
	most := 10 * time.Second
	for n, want := range map[int]time.Duration{0: 0, 1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: most, 60: most} {
		for range 20 {
			if d := Delay(time.Second, most, n); d < want/2 || d > want {
				t.Errorf("delay %d is %v, want from %v to %v", n, d, want/2, want)
			}
		}
	}
}

func TestSleep(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if !Sleep(ctx, time.Nanosecond) {
		t.Error("Sleep returns false after the pause")
	}
	cancel()
	if Sleep(ctx, time.Hour) || Sleep(ctx, 0) {
		t.Error("Sleep returns true after the end of the context")
	}
}
