package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/torch"
)

// int8Jobs returns decoding jobs of few rows, for which reading the weights takes most of the time.
func int8Jobs() []Job {
	job := Job{Kind: Decode, Context: 100, New: 96, Int8: true}
	var list []Job
	for i, rows := range []string{"1 row", "2 rows", "4 rows", "8 rows"} {
		job.Name, job.Batch = "decode, "+rows, 1<<i
		list = append(list, job)
	}
	return list
}

// measureInt8 compares decoding with int8 weights and with bfloat16 weights, both with activations in bfloat16. The two sides take turns.
func (r *report) measureInt8(ctx context.Context, o options, jobs []Job, log io.Writer) error {
	unquantised := slices.Clone(jobs)
	for i := range unquantised {
		unquantised[i].Int8 = false
	}
	quantised, err := OpenOurs(ctx, o.model, "cpu", torch.BFloat16, jobs)
	if err != nil {
		return fmt.Errorf("open %s with int8 weights: %w", o.model, err)
	}
	defer quantised.Close()
	plain, err := OpenOurs(ctx, o.model, "cpu", torch.BFloat16, unquantised)
	if err != nil {
		return fmt.Errorf("open %s: %w", o.model, err)
	}
	defer plain.Close()
	rivals := []Rival{{Form: Form{Peer: "bfloat16 weights"}, Side: plain}}
	for _, j := range jobs {
		fmt.Fprintf(log, "measuring %s, int8 weights\n", j.Name)
		c, err := compare(ctx, j, quantised, rivals, o.rounds, longRun, nil)
		if err != nil {
			return err
		}
		c.Type = "int8"
		fmt.Fprintln(log, strings.Join(c.row(), "  "))
		r.Speed = append(r.Speed, c)
	}
	return nil
}
