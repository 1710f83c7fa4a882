package generate

import (
	"errors"
	"reflect"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
)

// TestRelease frees the cache while a sequence uses it. The memory returns to the device, and the next step computes the same as before.
func TestRelease(t *testing.T) {
	d := torch.Device{Protected: true}
	m := openModelOn(t, d, torch.Float32)
	b := newBackend(t, m, Options{KVTokens: 4096, BlockSize: 16})
	allocated := func() int64 {
		m, err := d.Memory()
		if err != nil {
			t.Fatal(err)
		}
		return m.Allocated
	}
	kv, capacity := int64(4096*m.CacheBytesPerToken()), b.Capacity()
	var first []engine.Sampled
	for range 3 {
		got := step(t, b, sampling(1, ids(40, 1), 0, 0), sampling(2, ids(25, 2), 0, 0))
		if first == nil {
			first = got
		}
		if !reflect.DeepEqual(got, first) {
			t.Errorf("got %v after a release, want %v", got, first)
		}
		reserved := allocated()
		for range 2 {
			if err := b.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if freed := reserved - allocated(); freed < kv {
				t.Errorf("%d bytes were freed, want at least the %d of the cache", freed, kv)
			}
		}
		if b.Capacity() != capacity {
			t.Errorf("the capacity is %d after a release, want %d", b.Capacity(), capacity)
		}
		checkNothingInUse(t, b)
	}
	owner := torch.NewOwner(m.Thread(), "other tensors")
	err := torch.Run(t.Context(), m.Thread(), func(s *torch.Scope) error {
		m, err := d.Memory()
		if err == nil {
			owner.Own(s.Empty(torch.Uint8, int(m.Free-kv/2)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = b.Reserve(t.Context())
	if e, ok := errors.AsType[*torch.Error](err); !ok || !e.OutOfMemory() {
		t.Errorf("error %v, want one that reports too little memory", err)
	}
	owner.Close()
	if got := step(t, b, sampling(1, ids(40, 1), 0, 0), sampling(2, ids(25, 2), 0, 0)); !reflect.DeepEqual(got, first) {
		t.Errorf("got %v after a failed reservation, want %v", got, first)
	}
}
