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
// a part of the share. Shares depend less on the speed of the machine than rates do.
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

// Shares are the stored shares of each instruction set, see torch.InstructionSet, by the key of the row. The same row reaches different shares
// with different instruction sets.
type Shares map[string]map[string]Share

// readShares reads the file. A file that does not exist is empty.
func readShares(path string) (Shares, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Shares{}, nil
	}
	if err != nil {
		return nil, err
	}
	var stored Shares
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for set, rows := range stored {
		for name, s := range rows {
			if !(s.Share > 0 && s.Tolerance > 0 && s.Tolerance < 1) {
				return nil, fmt.Errorf("%s: %s: %q has the share %g and the tolerance %g; want a share above 0 and a tolerance between 0 and 1",
					path, set, name, s.Share, s.Tolerance)
			}
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

// update replaces the shares of the instruction set by the measured ones, which keep their tolerances. If only some rows were measured, the
// others stay.
func (s Shares) update(set string, measured []Comparison, all bool) {
	updated := map[string]Share{}
	if !all {
		maps.Copy(updated, s[set])
	}
	for _, c := range measured {
		share := Share{Share: float64(int(1000*c.Share+0.5)) / 1000, Tolerance: defaultTolerance}
		if before, ok := s[set][c.key()]; ok {
			share.Tolerance = before.Tolerance
		}
		updated[c.key()] = share
	}
	s[set] = updated
}

// openShares reads the file of the options. It refuses a file without shares of the instruction set, unless they are to be stored.
func openShares(o options, set string) (Shares, error) {
	stored, err := readShares(o.shares)
	if err == nil && stored[set] == nil && !o.update {
		err = fmt.Errorf("%s has no shares of %s; store them with --quick --update", o.shares, set)
	}
	return stored, err
}

// checkShares compares the rows with the stored shares of the report's instruction set, or stores them.
func (r *report) checkShares(o options, stored Shares) error {
	all := o.rows == nil && !o.typed
	if !o.update {
		r.Verdicts = judge(stored[r.CPU], r.Speed, all)
		return nil
	}
	stored.update(r.CPU, r.Speed, all)
	text, err := json.MarshalIndent(stored, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.shares, append(text, '\n'), 0o644)
}
