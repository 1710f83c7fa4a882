package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// Share is the share of the machine's bound that a row reached when it was stored. It falls short if it is smaller by more than Tolerance,
// a part of the share. Shares depend less on the machine than rates do.
type Share struct {
	Share     float64 `json:"share"`
	Tolerance float64 `json:"tolerance"`
}

// defaultTolerance is that of rows that are stored for the first time. Runs of a few seconds differ by several percent.
const defaultTolerance = 0.2

// Verdict compares the share of a row with the stored one.
type Verdict struct {
	Row       string  `json:"row"`
	Share     float64 `json:"share,omitempty"`
	Stored    float64 `json:"stored,omitempty"`
	Tolerance float64 `json:"tolerance,omitempty"`
	Problem   string  `json:"problem,omitempty"` // "": as fast as stored
}

// key names a row in the file.
func (c Comparison) key() string { return c.Job.Name + ", " + c.Type }

// readShares reads the file. A file that does not exist is empty.
func readShares(path string) (map[string]Share, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]Share{}, nil
	}
	if err != nil {
		return nil, err
	}
	var stored map[string]Share
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name, s := range stored {
		if !(s.Share > 0 && s.Tolerance > 0 && s.Tolerance < 1) {
			return nil, fmt.Errorf("%s: %q has the share %g and the tolerance %g; want a share above 0 and a tolerance between 0 and 1", path, name, s.Share, s.Tolerance)
		}
	}
	return stored, nil
}

// judge compares measured rows with the stored shares. If all rows were measured, stored rows that were not are a problem.
func judge(stored map[string]Share, measured []Comparison, all bool) (list []Verdict) {
	seen := map[string]bool{}
	for _, c := range measured {
		s, ok := stored[c.key()]
		v := Verdict{Row: c.key(), Share: c.Share, Stored: s.Share, Tolerance: s.Tolerance}
		switch {
		case !ok:
			v.Problem = "not stored"
		case c.Share < s.Share*(1-s.Tolerance):
			v.Problem = fmt.Sprintf("%.0f %% less than stored", 100*(1-c.Share/s.Share))
		}
		seen[c.key()] = true
		list = append(list, v)
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if all && !seen[name] {
			list = append(list, Verdict{Row: name, Stored: stored[name].Share, Tolerance: stored[name].Tolerance, Problem: "stored but not measured"})
		}
	}
	return list
}

// updateShares stores the measured shares and keeps the tolerances. If all rows were measured, other rows are removed.
func updateShares(path string, stored map[string]Share, measured []Comparison, all bool) error {
	updated := map[string]Share{}
	if !all {
		maps.Copy(updated, stored)
	}
	for _, c := range measured {
		s := Share{Share: float64(int(1000*c.Share+0.5)) / 1000, Tolerance: defaultTolerance}
		if before, ok := stored[c.key()]; ok {
			s.Tolerance = before.Tolerance
		}
		updated[c.key()] = s
	}
	text, err := json.MarshalIndent(updated, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// checkShares compares the rows with the file of the options, or writes it.
func (r *report) checkShares(o options) error {
	stored, err := readShares(o.shares)
	if err != nil {
		return err
	}
	all := o.rows == nil && !o.typed
	if o.update {
		return updateShares(o.shares, stored, r.Speed, all)
	}
	r.Verdicts = judge(stored, r.Speed, all)
	return nil
}
