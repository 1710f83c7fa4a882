package main

import (
	"fmt"
	"syscall"
)

// Memory is the memory of a job, in bytes.
type Memory struct {
	KVCache int64 `json:"kv_cache"`
	Process int64 `json:"process"`             // the largest resident size of the process
	GPU     int64 `json:"gpu,omitempty"`       // the largest size of all tensors
	Total   int64 `json:"gpu_total,omitempty"` // of the GPU
}

// memory returns the memory that all runs so far took.
func (o *Ours) memory() (*Memory, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return nil, fmt.Errorf("read the memory of this process: %w", err)
	}
	m := &Memory{KVCache: o.sampler.KVBytes, Process: u.Maxrss * 1024}
	if d := o.thread.Device(); d.CUDA {
		gpu, err := d.Memory()
		if err != nil {
			return nil, err
		}
		m.GPU, m.Total = gpu.Peak, gpu.Total
	}
	return m, nil
}
