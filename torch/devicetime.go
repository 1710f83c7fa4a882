package torch

// #include "openmanus_torch.h"
import "C"

import "context"

// timed runs a job between two marks in the device's stream, which measure the time that the device takes for the job.
func (t *Thread) timed(f func(*Scope) error) error {
	if t.device.IsCPU() {
		return f(t.open())
	}
	kind, index := t.device.c()
	mark := func(begins bool) error { return cerror("Run", C.om_mark_job(kind, index, cbool(begins))) }
	if err := mark(true); err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // f panicked
			_ = mark(false) // the panic tells what failed
		}
	}()
	err := f(t.open())
	ended = true
	if failed := mark(false); err == nil {
		err = failed
	}
	return err
}

// DeviceSeconds returns the time that the device took for the jobs of t since the previous call, by the device's own clock: for each
// job, from its first operation to its last. It is 0 on the CPU. It waits for the jobs before.
func (t *Thread) DeviceSeconds(ctx context.Context) (seconds float64, err error) {
	if t.device.IsCPU() {
		return 0, nil
	}
	err = Run(ctx, t, func(*Scope) error {
		var s C.double
		check("DeviceSeconds", C.om_job_seconds(&s))
		seconds = float64(s)
		return nil
	})
	return seconds, err
}
