package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/algo/rundir"
)

// TestDeploymentUnit checks the systemd unit of docs/deployment.md with systemd's own reader.
func TestDeploymentUnit(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("this test needs systemd-analyze")
	}
	m := regexp.MustCompile("(?s)```ini\n(.*?)```").FindStringSubmatch(pages(t)["deployment.md"])
	if m == nil {
		t.Fatal("the page has no unit")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	check := func(unit string) string {
		path := filepath.Join(t.TempDir(), "my-run.service")
		writeFile(t, filepath.Dir(path), filepath.Base(path), strings.Replace(unit, "/usr/local/bin/openmanus", program, 1))
		out, _ := exec.Command(verify, "verify", "--man=no", path).CombinedOutput() // the output has the faults
		var mine []string
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "my-run") {
				mine = append(mine, line)
			}
		}
		return strings.Join(mine, "")
	}
	if out := check(m[1]); out != "" {
		t.Errorf("systemd reports:\n%s", out)
	}
	if out := check(strings.Replace(m[1], "Restart=on-failure", "Restart=sometimes", 1)); out == "" {
		t.Skip("systemd-analyze reports nothing about a wrong unit")
	}
}

// TestMovedRun follows docs/deployment.md: a run is copied without its episodes to another folder and resumed there, with the first folder
// out of reach.
func TestMovedRun(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	for _, dir := range []string{from, to} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, from, "run.toml", tinyRun)
	train := func(dir, steps string) string {
		t.Helper()
		code, _, stderr := inProcess(t, dir, append([]string{"train", "run.toml"}, append(shortRun, "--set", "trainer.total_steps="+steps)...)...)
		if code != 0 {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		return stderr
	}
	train(from, "1")
	for _, name := range []string{"run.toml", "runs"} {
		if out, err := exec.Command("cp", "-a", filepath.Join(from, name), to).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := os.RemoveAll(filepath.Join(to, "runs", "tiny", "rollouts")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(from, from+"-away"); err != nil {
		t.Fatal(err)
	}
	train(to, "2")
	folder := rundir.Folder{Dir: filepath.Join(to, "runs", "tiny")}
	st, err := rundir.ReadState(folder.Latest())
	if err != nil || st.Step != 2 {
		t.Errorf("state %+v, error %v, want step 2", st, err)
	}
	if lines := strings.Count(one(t, folder.Dir, "metrics.jsonl"), `"training/global_step":`); lines != 2 {
		t.Errorf("the metrics have %d steps, want the first step and the second", lines)
	}
}
