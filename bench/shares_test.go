package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func measuredRow(name string, share float64) Comparison {
	return Comparison{Job: Job{Name: name}, Type: "float32", Share: share}
}

func TestJudge(t *testing.T) {
	stored := map[string]Share{"fast, float32": {0.5, 0.1}, "slow, float32": {0.5, 0.1}, "gone, float32": {0.5, 0.1}}
	measured := []Comparison{measuredRow("fast", 0.46), measuredRow("slow", 0.44), measuredRow("new", 0.9)}
	problems := func(all bool) map[string]string {
		out := map[string]string{}
		for _, v := range judge(stored, measured, all) {
			out[v.Row] = v.Problem
		}
		return out
	}
	want := map[string]string{"fast, float32": "", "slow, float32": "12 % less than stored", "new, float32": "not stored"}
	if d := cmp.Diff(want, problems(false)); d != "" {
		t.Error(d)
	}
	want["gone, float32"] = "stored but not measured"
	if d := cmp.Diff(want, problems(true)); d != "" {
		t.Error(d)
	}
	r := report{Verdicts: judge(stored, measured[:1], false)}
	if !r.kept() {
		t.Error("a share within the tolerance is a problem")
	}
	r.Verdicts = judge(stored, measured[1:2], false)
	if r.kept() {
		t.Error("a share beyond the tolerance is no problem")
	}
}

// TestCheckShares updates the file, compares with it, and keeps tolerances that were edited.
func TestCheckShares(t *testing.T) {
	o := options{shares: filepath.Join(t.TempDir(), "shares.json"), update: true}
	r := report{CPU: "AVX2", Speed: []Comparison{measuredRow("a", 0.5), measuredRow("b", 0.25)}}
	check := func(want string) {
		t.Helper()
		r.Verdicts = nil
		stored, err := openShares(o, r.CPU)
		if err == nil {
			err = r.checkShares(o, stored)
		}
		if err != nil {
			t.Fatal(err)
		}
		var problems []string
		for _, v := range r.Verdicts {
			if v.Problem != "" {
				problems = append(problems, v.Row+": "+v.Problem)
			}
		}
		if got := strings.Join(problems, "; "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	check("")
	o.update = false
	check("")
	r.Speed[0].Share = 0.3
	check("a, float32: 40 % less than stored")
	text, err := os.ReadFile(o.shares)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.shares, []byte(strings.Replace(string(text), "0.2\n", "0.45\n", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	check("")

	o.update, o.rows = true, regexp.MustCompile("b")
	r.Speed = []Comparison{measuredRow("b", 0.75)}
	check("")
	stored, err := readShares(o.shares)
	want := Shares{"AVX2": {"a, float32": {0.5, 0.45}, "b, float32": {0.75, defaultTolerance}}}
	if d := cmp.Diff(want, stored); err != nil || d != "" {
		t.Error(err, d)
	}
	o.rows = nil
	check("")
	if stored, err = readShares(o.shares); err != nil || len(stored["AVX2"]) != 1 {
		t.Errorf("after an update with all rows: %v, %v", stored, err)
	}

	o.update = false
	if _, err := openShares(o, "AMX"); err == nil || !strings.Contains(err.Error(), "no shares of AMX") {
		t.Errorf("an instruction set without shares: %v", err)
	}
	o.update, r.CPU = true, "AMX"
	if err := r.checkShares(o, stored); err != nil {
		t.Fatal(err)
	}
	if stored, err = readShares(o.shares); err != nil || len(stored) != 2 || len(stored["AVX2"]) != 1 {
		t.Errorf("after an update of another instruction set: %v, %v", stored, err)
	}
}

func TestReadSharesRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shares.json")
	for text, want := range map[string]string{"{": "shares.json", `{"AVX2": {"a": {"share": 0.5, "tolerance": 0}}}`: "tolerance"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readShares(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestStoredShares checks that each instruction set in the file of the repository has all rows of the table.
func TestStoredShares(t *testing.T) {
	stored, err := readShares("shares.json")
	if err != nil {
		t.Fatal(err)
	}
	for set, shares := range stored {
		for _, dt := range types {
			for _, r := range rows() {
				if _, ok := shares[(Comparison{Job: r.Quick, Type: dt.String()}).key()]; !ok {
					t.Errorf("%s: %s, %v has no share; store it with --quick --update", set, r.Quick.Name, dt)
				}
			}
		}
	}
}
