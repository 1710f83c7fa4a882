package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/openmanus/openmanus/algo/track"
)

// Memory compares the memory of a training run at two steps.
type Memory struct {
	From   int     `json:"from"`
	To     int     `json:"to"`
	Before float64 `json:"before_bytes"`
	After  float64 `json:"after_bytes"`
	Ratio  float64 `json:"ratio"`
	Limit  float64 `json:"limit"`
	Steady bool    `json:"steady"` // Ratio is within Limit
}

func runMemory(_ context.Context, o *options, args []string, _ io.Writer) (result, error) {
	if len(args) != 1 {
		return nil, errors.New("memory needs one argument, the metrics.jsonl of a run")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := measureMemory(f, o.from, o.to, o.limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return &m, nil
}

func (m *Memory) kept() bool { return m.Steady }

func (m *Memory) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "memory: %.1f MB at step %d, %.1f MB at step %d: %.3f times, at most %.3f allowed: %s\n",
		m.Before/1e6, m.From, m.After/1e6, m.To, m.Ratio, m.Limit, verdict(m.Steady))
	return err
}

// measureMemory reads a run's metrics.jsonl.
func measureMemory(metrics io.Reader, from, to int, limit float64) (Memory, error) {
	m := Memory{From: from, To: to, Limit: limit}
	err := eachLine(metrics, func(line map[string]any) {
		rss, ok := line[track.ProcessBytes].(float64)
		if phase, _ := line["phase"].(string); !ok || phase != "" && phase != string(track.PhaseTrain) {
			return
		}
		switch step, _ := line["step"].(float64); int(step) {
		case from:
			m.Before = rss
		case to:
			m.After = rss
		}
	})
	if err != nil {
		return m, err
	}
	for step, bytes := range map[int]float64{from: m.Before, to: m.After} {
		if bytes <= 0 {
			return m, fmt.Errorf("no %s of step %d", track.ProcessBytes, step)
		}
	}
	m.Ratio = m.After / m.Before
	m.Steady = m.Ratio <= limit
	return m, nil
}
