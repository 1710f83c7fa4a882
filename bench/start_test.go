package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/configs/vocabulary"
)

func TestStartConfig(t *testing.T) {
	c, err := configs.New(vocabulary.New()).Load("start.toml", []byte(startConfig), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Trainer.TotalSteps != 1 || c.Trainer.Experiment != "start" {
		t.Errorf("got %+v", c.Trainer)
	}
}

// TestMeasureStart uses programs that do not train.
func TestMeasureStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program := func(rows string) string {
		return write("ours"+rows, `#!/bin/sh
for a; do case $a in trainer.output_dir=*) out=${a#*=}/start ;; esac; done
mkdir -p "$out" && echo '{"step":1,"actor/updated_rows":`+rows+`}' >"$out/metrics.jsonl"
`)
	}
	o := options{program: program("8"), python: write("python", "#!/bin/sh\n[ \"$1\" = -c ]\n"), rounds: 2}
	s, err := measureStart(t.Context(), o, t.TempDir())
	if err != nil || len(s.Ours) != 2 || len(s.Import) != 2 || !(s.Ratio > 0) || !strings.Contains(s.print(), "import trl") {
		t.Errorf("got %+v, %v", s, err)
	}
	o.python = ""
	if s, err = measureStart(t.Context(), o, t.TempDir()); err != nil || s.Import != nil || strings.Contains(s.print(), "import trl") {
		t.Errorf("without a peer: got %+v, %v", s, err)
	}
	o.program = program("0")
	if _, err = measureStart(t.Context(), o, t.TempDir()); err == nil || !strings.Contains(err.Error(), "learned from no episode") {
		t.Errorf("got %v, want an error because the step learned nothing", err)
	}
}
