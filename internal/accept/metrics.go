package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// eachLine calls f with every line of a run's metrics.jsonl.
func eachLine(metrics io.Reader, f func(line map[string]any)) error {
	scan := bufio.NewScanner(metrics)
	scan.Buffer(nil, 1<<20)
	for n := 1; scan.Scan(); n++ {
		var line map[string]any
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		f(line)
	}
	return scan.Err()
}
