package torch

// #include "openmanus_torch.h"
import "C"

import "errors"

// Memory describes the memory of a device, in bytes.
type Memory struct {
	Total     int64 // of the device
	Free      int64 // that this process may still allocate
	Allocated int64 // by tensors of this process
	Peak      int64 // the largest Allocated since the previous call of Device.Memory
}

// EmptyCache returns the memory that libtorch's allocator holds for later tensors to the device. On a CPU it does nothing.
func (d Device) EmptyCache() error {
	if err := load(); err != nil {
		return err
	}
	kind, _ := d.c()
	if msg := C.om_empty_cache(kind); msg != nil {
		return errors.New("torch: return cached memory of " + d.String() + ": " + takeText(msg))
	}
	return nil
}

// Memory returns the memory of a device other than the CPU, whose memory FreeMemory estimates.
func (d Device) Memory() (Memory, error) {
	if err := load(); err != nil {
		return Memory{}, err
	}
	kind, index := d.c()
	var m C.om_memory
	if msg := C.om_device_memory(kind, index, &m); msg != nil {
		return Memory{}, errors.New("torch: memory of " + d.String() + ": " + takeText(msg))
	}
	return Memory{Total: int64(m.total), Free: int64(m.free), Allocated: int64(m.allocated), Peak: int64(m.peak)}, nil
}
