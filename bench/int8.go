package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/openmanus/openmanus/torch"
)

// int8Jobs returns decoding jobs of few rows, for which reading the weights takes most of the time.
func int8Jobs() []Job {
	var list []Job
	for _, rows := range []int{1, 2, 4, 8} {
		list = append(list, Job{Name: fmt.Sprintf("decode, %d rows", rows), Kind: Decode, Batch: rows, Context: 100, New: 96, Int8: true})
	}
	list[0].Name = "decode, 1 row"
	return list
}

// measureInt8 compares decoding with int8 weights and with bfloat16 weights, both with activations in bfloat16. The two sides take turns.
func (r *report) measureInt8(ctx context.Context, o options, jobs []Job, log io.Writer) error {
	plain := make([]Job, len(jobs))
	for i, j := range jobs {
		j.Int8 = false
		plain[i] = j
	}
	int8, err := OpenOurs(ctx, o.model, "cpu", torch.BFloat16, jobs)
	if err != nil {
		return fmt.Errorf("open %s with int8 weights: %w", o.model, err)
	}
	defer int8.Close()
	bfloat16, err := OpenOurs(ctx, o.model, "cpu", torch.BFloat16, plain)
	if err != nil {
		return fmt.Errorf("open %s: %w", o.model, err)
	}
	defer bfloat16.Close()
	rivals := []Rival{{Form: Form{Peer: "bfloat16 weights"}, Side: bfloat16}}
	for _, j := range jobs {
		fmt.Fprintf(log, "measuring %s, int8 weights\n", j.Name)
		c, err := compare(ctx, j, int8, rivals, o.rounds, longRun, nil)
		if err != nil {
			return err
		}
		c.Type = "int8"
		fmt.Fprintln(log, strings.Join(c.row(), "  "))
		r.Speed = append(r.Speed, c)
	}
	return nil
}
