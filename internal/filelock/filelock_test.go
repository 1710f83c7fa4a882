package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := func(want bool) {
		t.Helper()
		if got, err := Held(path); got != want || err != nil {
			t.Errorf("Held = %v, %v, want %v", got, err, want)
		}
	}
	held(false)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("Held created the file: %v", err)
	}
	f, err := Open(path, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	held(true)
	other, err := Open(path, os.O_RDWR)
	if !errors.Is(err, ErrLocked) {
		t.Errorf("a second Open returned %v, want ErrLocked", err)
	}
	if err := errors.Join(other.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	held(false)
}

// TestOpenWhileTested opens the file while another goroutine keeps calling Held.
func TestOpenWhileTested(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
				if _, err := Held(path); err != nil {
					ended <- err
					return
				}
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	for range 50 {
		f, err := Open(path, os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
