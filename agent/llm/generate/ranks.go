package generate

// Decoding with a tensor-parallel model (model.Options.Ranks). The scheduler runs on rank 0 only. Before a step rank 0 sends
// the batch to the other ranks, which run the same step on their parts of the model and of the KV cache. Only rank 0 samples.

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// message is sent by rank 0 to the other ranks. The zero message has no effect.
type message struct {
	Drops []engine.SeqID // sequences to drop before the step
	Batch []engine.Work
	End   bool // Follow returns
}

// packetBytes is the size of the first packet of a message. In most decoding steps it holds the whole message.
const packetBytes = 4096

// link connects the backends of the ranks. A nil link belongs to a whole model.
type link struct {
	group  *dist.Group
	thread *torch.Thread

	mu      sync.Mutex // held during a step with its message
	leading bool       // between Lead and Dismiss
	failed  error      // the first error, after which the group cannot be used
	drops   []engine.SeqID
	stop    func() // ends the goroutine of Lead and waits for it

	stream bytes.Buffer // messages that are written or read
	write  *gob.Encoder
	read   *gob.Decoder
}

func newLink(m *model.Model) *link {
	if m.Ranks() == nil {
		return nil
	}
	l := &link{group: m.Ranks(), thread: m.Thread()}
	l.write, l.read = gob.NewEncoder(&l.stream), gob.NewDecoder(&l.stream)
	return l
}

// Lead begins a phase of generation on rank 0 of a tensor-parallel model: until Dismiss, the other ranks run Follow. While there is no
// step it sends an empty message in every third of the group's time-out, so that the others do not time out.
// With a whole model it does nothing.
func (b *Backend) Lead() error {
	l := b.link
	if l == nil {
		return nil
	}
	if l.group.Rank() != 0 {
		return fmt.Errorf("generate: rank %d cannot lead; it follows rank 0", l.group.Rank())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leading {
		return errors.New("generate: rank 0 is leading already")
	}
	l.leading = true
	quit, ended := make(chan struct{}), make(chan struct{})
	l.stop = func() { close(quit); <-ended }
	go func() {
		defer close(ended)
		tick := time.NewTicker(max(l.group.Timeout()/3, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			l.mu.Lock()
			_ = l.send(message{}) // the next step returns the error
			l.mu.Unlock()
		}
	}()
	return nil
}

// Dismiss ends a phase that Lead began: Follow returns on the other ranks. Without Lead it does nothing.
func (b *Backend) Dismiss() error {
	l := b.link
	if l == nil {
		return nil
	}
	l.mu.Lock()
	stop := l.stop
	l.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading, l.stop = false, nil
	if err := l.send(message{Drops: l.takeDrops(), End: true}); err != nil {
		return fmt.Errorf("generate: dismiss the other ranks: %w", err)
	}
	return nil
}

// Follow runs the steps of rank 0 until Dismiss. An error ends the group: rank 0 and the other ranks
// fail too.
func (b *Backend) Follow(ctx context.Context) error {
	l := b.link
	if l == nil || l.group.Rank() == 0 {
		return errors.New("generate: only ranks other than 0 of a tensor-parallel model follow")
	}
	for {
		m, err := l.receive(ctx)
		if err == nil {
			for _, id := range m.Drops {
				b.Drop(id)
			}
			if m.End {
				return nil
			}
			err = b.follow(ctx, m.Batch)
		}
		if err != nil {
			l.abort()
			return fmt.Errorf("generate: rank %d follows rank 0: %w", l.group.Rank(), err)
		}
	}
}

// follow runs a step of rank 0 without sampling.
func (b *Backend) follow(ctx context.Context, batch []engine.Work) error {
	if len(batch) == 0 {
		return nil
	}
	p, err := b.pack(batch)
	if err != nil {
		return err
	}
	if err := b.Reserve(ctx); err != nil {
		return err
	}
	err = torch.Run(ctx, b.model.Thread(), func(s *torch.Scope) error {
		s.NoGrad(func() {
			b.cache.CopySlots(s, p.from, p.to)
			if hidden := b.model.Decode(s, b.cache, p.decode); len(p.decode.Draws) > 0 {
				b.model.Logits(hidden)
			}
		})
		return nil
	})
	if err != nil {
		return err
	}
	for i := range batch {
		b.seqs[batch[i].Seq].length += len(batch[i].Tokens)
	}
	return nil
}

// begin sends a batch to the other ranks. The caller then runs the step with the context step and calls done. That context is never
// cancelled, because the other ranks wait for the step.
func (l *link) begin(ctx context.Context, batch []engine.Work) (step context.Context, done func(), err error) {
	if l == nil {
		return ctx, func() {}, nil
	}
	if err := ctx.Err(); err != nil {
		return ctx, nil, err
	}
	l.mu.Lock()
	if !l.leading {
		l.mu.Unlock()
		return ctx, nil, errors.New("a step of a tensor-parallel model, outside Lead and Dismiss")
	}
	if err := l.send(message{Drops: l.takeDrops(), Batch: batch}); err != nil {
		l.mu.Unlock()
		return ctx, nil, err
	}
	return context.WithoutCancel(ctx), l.mu.Unlock, nil
}

// drop records a dropped sequence for the next message.
func (l *link) drop(id engine.SeqID) {
	if l != nil && l.group.Rank() == 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.drops = append(l.drops, id)
	}
}

func (l *link) takeDrops() []engine.SeqID {
	drops := l.drops
	l.drops = nil
	return drops
}

// abort ends the group after a failed step. Otherwise the other ranks would wait in its collectives.
func (l *link) abort() {
	if l != nil {
		l.group.Abort()
	}
}

// send broadcasts a message as packets: its length and its beginning, then the rest if there is one. The caller has locked l.mu.
func (l *link) send(m message) error {
	if l.failed != nil {
		return l.failed
	}
	l.stream.Reset()
	l.stream.Write(make([]byte, 8))
	if l.failed = l.write.Encode(m); l.failed != nil {
		return l.failed
	}
	data := l.stream.Bytes()
	binary.LittleEndian.PutUint64(data, uint64(len(data)))
	first := make([]byte, packetBytes)
	copy(first, data)
	// The limit of the wait is the group's time-out. A context would end the group.
	ctx := context.Background()
	l.failed = torch.Run(ctx, l.thread, func(s *torch.Scope) error {
		for _, packet := range [][]byte{first, data[min(packetBytes, len(data)):]} {
			if len(packet) == 0 {
				break
			}
			if err := l.group.Broadcast(ctx, s.Bytes(packet, torch.Uint8, len(packet)).ToDevice(torch.Device{}), 0); err != nil {
				return err
			}
		}
		return nil
	})
	return l.failed
}

// receive returns the next message of rank 0.
func (l *link) receive(ctx context.Context) (m message, err error) {
	err = torch.Run(ctx, l.thread, func(s *torch.Scope) error {
		packet := func(n int) ([]byte, error) {
			t := s.Empty(torch.Uint8, n).ToDevice(torch.Device{})
			if err := l.group.Broadcast(ctx, t, 0); err != nil {
				return nil, err
			}
			return t.ToBytes(), nil
		}
		data, err := packet(packetBytes)
		if err != nil {
			return err
		}
		size := int(binary.LittleEndian.Uint64(data))
		if size > packetBytes {
			rest, err := packet(size - packetBytes)
			if err != nil {
				return err
			}
			data = append(data, rest...)
		}
		l.stream.Write(data[8:size])
		return nil
	})
	if err == nil {
		err = l.read.Decode(&m)
	}
	return m, err
}
