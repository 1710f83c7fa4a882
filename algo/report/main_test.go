package report

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// folder is a run folder that a test fills.
type folder struct {
	*rundir.Folder
	t *testing.T
}

func newFolder(t *testing.T, name string) folder {
	t.Helper()
	f := folder{&rundir.Folder{Dir: filepath.Join(t.TempDir(), name)}, t}
	check(t, f.Make())
	f.file(f.Config(), "[trainer]\nexperiment = \"x\"\ntotal_steps = 24\n\n[[env]]\nname = \"maze\"\ntasks = [\"0-3\"]\n")
	return f
}

func (f folder) file(path, text string) {
	f.t.Helper()
	check(f.t, os.WriteFile(path, []byte(text), 0o644))
}

// metrics appends lines to the metrics.
func (f folder) metrics(lines ...track.Line) {
	f.t.Helper()
	sink, err := track.OpenJSONL(f.Metrics())
	check(f.t, err)
	for _, l := range lines {
		check(f.t, sink.Write(l))
	}
	check(f.t, sink.Close())
}

// checkpoint adds a checkpoint with the state.
func (f folder) checkpoint(st rundir.State) {
	f.t.Helper()
	dir := filepath.Join(f.Checkpoints(), fmt.Sprintf("step_%06d", st.Step))
	check(f.t, os.MkdirAll(dir, 0o755))
	check(f.t, st.Write(dir))
}

// step returns the line of a training step of a plausible run.
func step(n int) track.Line {
	x := float64(n)
	m := track.Metrics{
		track.SuccessRate: 1 - math.Exp(-x/6), track.EpisodeReward + "/mean": 1 - math.Exp(-x/6), track.ActorGradNorm: math.Pow(10, math.Mod(x, 3)-2),
		track.LogProbGap + "_mean": 1e-7 * (1 + math.Mod(x, 3)), track.ActorEntropyLoss: 2 * math.Exp(-x/10), track.Throughput: 5000 + 10*x,
		track.ProcessBytes: 1.2e9, track.Timing("gen"): 2 + math.Mod(x, 2), track.Timing("update_actor"): 1, track.TimingStep: 4,
	}
	if n == 5 {
		m[track.ActorGradNorm], m[track.Throughput] = math.NaN(), math.Inf(1)
	}
	if n%8 == 0 {
		m["val/maze/success_rate"], m["val/maze/episodes"], m["val/maze/mean_score"], m["val/maze/mean_turns"] = min(1, x/16), 64, min(1, x/16), 20-x/2
	}
	return track.Line{Phase: track.PhaseTrain, Step: n, Time: time.Unix(1790000000+int64(n), 0), Metrics: m}
}

func steps(from, to int) (out []track.Line) {
	for n := from; n <= to; n++ {
		out = append(out, step(n))
	}
	return out
}

// episodes returns two episodes of each of three tasks, of which the first `solved` succeed.
func episodes(solved int) (out []*data.Episode) {
	for i := range 6 {
		e := &data.Episode{Task: data.Task{ID: fmt.Sprint("maze_", i/2), Env: "maze", Index: i / 2}, UID: fmt.Sprint(i / 2), Sample: i % 2,
			FirstObservation: fmt.Sprint("start ", i/2), Outcome: data.TurnLimit, Turns: []data.Turn{{Text: "go"}}}
		if i < solved {
			e.Outcome, e.Reward = data.Success, 1
		}
		out = append(out, e)
	}
	return out
}
