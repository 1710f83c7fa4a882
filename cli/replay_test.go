package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
)

// replayJSON returns the report of `openmanus replay --json`.
func replayJSON(t *testing.T, dir string, want errext.ExitCode, args ...string) run.ReplayReport {
	t.Helper()
	code, stdout, stderr := inProcess(t, dir, append([]string{"replay", "--json"}, args...)...)
	if code != int(want) {
		t.Fatalf("%q: exit code %d, want %d\n%s%s", args, code, want, stdout, stderr)
	}
	var r run.ReplayReport
	if code == int(errext.OK) || code == int(errext.Check) {
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatalf("%v in %s", err, stdout)
		}
	}
	return r
}

// TestReplay checks that all episodes of a dump, or a single one, replay without differences, and that a replay finds a
// changed character.
func TestReplay(t *testing.T) {
	tiny := tinyModel(t)
	for _, tt := range []struct {
		name, dump string
		more       []string
	}{
		{"not deterministic", "d.jsonl", []string{"--top-k", "20", "--temperature", "0.8"}},
		{"deterministic", "d.jsonl.zst", []string{"--deterministic", "--max-obs-tokens", "60"}},
		{"new prompt every turn", "d.jsonl", []string{"--format", "history", "--history-length", "1"}},
		{"new prompt every turn, deterministic", "d.jsonl", []string{"--format", "staged", "--history-length", "1", "--deterministic"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			link(t, tiny, dir, "m")
			if code, _, stderr := inProcess(t, dir, rolloutArgs(tt.dump, tt.more...)...); code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			sampled := 0
			var episodes []*data.Episode
			src, err := table.ReadSource(t.Context(), filepath.Join(dir, tt.dump), func(e *table.Entry) error {
				sampled += e.Episode.SampledTokens()
				episodes = append(episodes, e.Episode)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			r := replayJSON(t, dir, errext.OK, tt.dump)
			if r.Replayed != 12 || r.Draws != sampled || r.MaxGap > 1e-4 {
				t.Errorf("got %+v, want 12 replayed episodes and %d drawn ids", r, sampled)
			}
			deterministic := src.Header.Options["rollout.deterministic"] == true
			if deterministic && (r.MaxGap != 0 || r.NearTies != 0) {
				t.Errorf("the replay of a deterministic rollout differs: %+v", r)
			}
			one := replayJSON(t, dir, errext.OK, tt.dump, "--episode", "7")
			if one.Replayed != 1 || one.Draws != episodes[7].SampledTokens() || one.MaxGap > 1e-4 || deterministic && one.MaxGap != 0 {
				t.Errorf("got %+v, want one replayed episode and %d drawn ids", one, episodes[7].SampledTokens())
			}
			if r := replayJSON(t, dir, errext.OK, tt.dump, "--no-model"); r.Replayed != 12 || r.Draws != 0 {
				t.Errorf("without the model: %+v", r)
			}

			// Change one character of a server's observation.
			reply := &episodes[7].Exchanges[len(episodes[7].Exchanges)-1].Reply
			*reply = strings.Replace(*reply, "goal", "coal", 1)
			write(t, filepath.Join(dir, "changed.jsonl"), src.Header, episodes)
			for _, flags := range [][]string{nil, {"--no-model"}, {"--episode", "7"}} {
				r := replayJSON(t, dir, errext.Check, append([]string{"changed.jsonl"}, flags...)...)
				if r.Differ != 1 || r.Differences[0].Episode != 7 || r.Differences[0].What != "observation" || r.Differences[0].Turn != 3 {
					t.Errorf("%q: %+v", flags, r)
				}
			}
			if r := replayJSON(t, dir, errext.OK, "changed.jsonl", "--episode", "6"); r.Differ != 0 {
				t.Errorf("with another episode: %+v", r)
			}

			// Change one sampled id to another token, and to an invalid id.
			for _, id := range []int32{1, 1 << 30} {
				*reply = strings.Replace(*reply, "coal", "goal", 1)
				turn := episodes[3].Turns[1]
				was := episodes[3].Tokens[turn.Start]
				episodes[3].Tokens[turn.Start] = (was + id) & (1<<30 | 255)
				write(t, filepath.Join(dir, "changed.jsonl"), src.Header, episodes)
				r = replayJSON(t, dir, errext.Check, "changed.jsonl", "--episode", "3")
				if d := r.Differences[0]; d.What != "ids" || d.Turn != 2 || d.At != turn.Start {
					t.Errorf("id %d for %d: %s", episodes[3].Tokens[turn.Start], was, d.Difference)
				}
				episodes[3].Tokens[turn.Start] = was
			}
		})
	}
}

func write(t *testing.T, path string, h dump.Header, episodes []*data.Episode) {
	t.Helper()
	if err := dump.WriteFile(path, h, episodes); err != nil {
		t.Fatal(err)
	}
}

func TestReplayErrors(t *testing.T) {
	dir := t.TempDir()
	link(t, tinyModel(t), dir, "m")
	if code, _, stderr := inProcess(t, dir, rolloutArgs("d.jsonl")...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "d.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	header, rest, _ := bytes.Cut(text, []byte("\n"))
	writeFile(t, dir, "other.jsonl", strings.Replace(string(text), `"weights":"`, `"weights":"0`, 1))
	writeFile(t, dir, "training.jsonl", `{"format":"openmanus-episodes","version":1,"weights":""}`+"\n"+string(rest))
	writeFile(t, dir, "torn.jsonl", string(text[:len(text)-9]))
	writeFile(t, dir, "only.jsonl", string(header)+"\n")
	lost := readDump(t, filepath.Join(dir, "d.jsonl"))
	h, err := dump.Open(filepath.Join(dir, "d.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	lost[1].Outcome = data.EnvError
	write(t, filepath.Join(dir, "lost.jsonl"), h.Header(), lost)
	lost[0].Outcome, lost[2].Replays, lost[3].Outcome = data.EngineError, 1, data.EnvError
	write(t, filepath.Join(dir, "alllost.jsonl"), h.Header(), lost[:4])
	if code, _, stderr := inProcess(t, dir, rolloutArgs("staged.jsonl", "--format", "staged", "--memory-file", "notes.txt")...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, tt := range []struct {
		args string
		code errext.ExitCode
		want string
	}{
		{"", errext.Usage, "needs FILE"},
		{"gone.jsonl", errext.Input, "give a dump"},
		{"other.jsonl", errext.Input, "was played by a model with weights 0"},
		{"training.jsonl", errext.Input, "lacks the settings"},
		{"d.jsonl --episode 12", errext.Input, "has 12 episodes and no episode 12"},
		{"d.jsonl --model gone", errext.Model, "--no-model"},
		{"d.jsonl --no-model --model m", errext.Usage, "--no-model: "},
		{"d.jsonl --margin 2", errext.Usage, "--margin"},
		{"staged.jsonl", errext.Input, "memory file"},
		{"torn.jsonl", errext.OK, "last line"},
		{"only.jsonl", errext.Input, "nothing was replayed"},
		{"lost.jsonl", errext.OK, ""},
		{"lost.jsonl --episode 1", errext.Input, "nothing was replayed: episode 1: it failed because of a server or the engine"},
		{"lost.jsonl --no-model --json --episode 1", errext.Input, "nothing was replayed: episode 1"},
		{"alllost.jsonl", errext.Input, "nothing was replayed: episodes 0, 1, 3: it failed because of a server or the engine; episode 2: it lost an instance and continued on another one"},
	} {
		code, _, stderr := inProcess(t, dir, append([]string{"replay"}, strings.Fields(tt.args)...)...)
		if code != int(tt.code) || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, want %d with %q\n%s", tt.args, code, tt.code, tt.want, stderr)
		}
	}
}
