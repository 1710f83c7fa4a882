package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/pool"
)

// trials returns a task with the outcomes named by letters: s success, d done,
// t turn limit, e environment error, g engine error.
func trials(id, family, letters string) Task {
	t := Task{ID: id, Family: family}
	for i, c := range letters {
		x := Trial{Turns: i + 1, Outcome: map[rune]data.Outcome{
			's': data.Success, 'd': data.Done, 't': data.TurnLimit, 'e': data.EnvError, 'g': data.EngineError,
		}[c]}
		switch x.Outcome {
		case data.Success:
			x.Score = 1
		case data.Done:
			x.Score = -0.5
		}
		t.Trials = append(t.Trials, x)
	}
	return t
}

func TestPassAtK(t *testing.T) {
	// count returns the share of the k-subsets of n samples that contain at least
	// one of the first c samples.
	count := func(n, c, k int) float64 {
		var all, some float64
		for set := range 1 << n {
			bits, hit := 0, false
			for i := range n {
				if set>>i&1 == 1 {
					bits++
					hit = hit || i < c
				}
			}
			if bits == k {
				all++
				if hit {
					some++
				}
			}
		}
		return some / all
	}
	for n := 1; n <= 7; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				if got, want := PassAtK(n, c, k), count(n, c, k); math.Abs(got-want) > 1e-12 {
					t.Errorf("pass@%d with %d successes in %d samples: %v, want %v", k, c, n, got, want)
				}
			}
		}
	}
	if got := PassAtK(100000, 1, 50000); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("pass@50000 of 100000 samples: %v", got)
	}
	for n, want := range map[int]string{1: "[1]", 2: "[1 2]", 6: "[1 2 4 6]", 8: "[1 2 4 8]"} {
		if got := fmt.Sprint(PassKs(n)); got != want {
			t.Errorf("k of %d samples: %s", n, got)
		}
	}
}

func TestFigures(t *testing.T) {
	tasks := []Task{trials("a", "", "ssdt"), trials("b", "", "tttt"), trials("c", "", "segg")}
	got := map[string]float64{}
	for name, f := range Figures(tasks, 4, 1) {
		got[name] = f.Value
		if !(f.Low <= f.Value && f.Value <= f.High) {
			t.Errorf("%s: the value %v is outside its interval %v to %v", name, f.Value, f.Low, f.High)
		}
	}
	want := map[string]float64{
		"success_rate":    3. / 9, // task c has three lost episodes
		"mean_score":      (1 + 1 - 0.5 + 1) / 9.,
		"mean_turns":      (10 + 10 + 1) / 9.,
		"mean@4":          (1.5/4 + 0 + 1) / 3,
		"best@4":          (1. + 0) / 2,             // excludes task c, which lost episodes
		"pass@1":          (0.5 + 0 + 1) / 3,        // mean over tasks
		"pass@2":          ((1 - 2./4*1/3) + 0) / 2, // excludes task c, which has one sample
		"pass@4":          (1. + 0) / 2,
		"outcome/success": 3. / 12, "outcome/done": 1. / 12, "outcome/turn_limit": 5. / 12,
		"outcome/env_error": 1. / 12, "outcome/engine_error": 2. / 12,
	}
	for name, w := range want {
		if g, ok := got[name]; !ok || math.Abs(g-w) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, g, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d metrics, want %d: %v", len(got), len(want), got)
	}
	all := Figures([]Task{trials("a", "", "ee")}, 2, 1)
	if diff := cmp.Diff(map[string]Figure{"outcome/env_error": {1, 1, 1}}, all); diff != "" {
		t.Errorf("metrics of a task with only lost episodes (-want +got):\n%s", diff)
	}
	if n := len(Figures(nil, 2, 1)); n != 0 {
		t.Errorf("Figures returned %d metrics without tasks, want 0", n)
	}
}

// TestIntervals checks that the interval of a success rate of 1/4 over 100 tasks
// has the width of the normal approximation.
func TestIntervals(t *testing.T) {
	var tasks []Task
	for i := range 100 {
		tasks = append(tasks, trials(fmt.Sprint(i), "", map[bool]string{true: "s", false: "t"}[i%4 == 0]))
	}
	f := Figures(tasks, 1, 7)[SuccessRate]
	half := 1.96 * math.Sqrt(0.25*0.75/100)
	if math.Abs(f.Value-0.25) > 1e-12 || math.Abs(f.Low-(0.25-half)) > 0.025 || math.Abs(f.High-(0.25+half)) > 0.025 {
		t.Errorf("got %+v, want 0.25 ± %.3f", f, half)
	}
	if second := Figures(tasks, 1, 7)[SuccessRate]; second != f {
		t.Errorf("two calls with the same seed return %+v and %+v, want equal intervals", f, second)
	}
	// More samples of the same tasks do not narrow the interval.
	var same []Task
	for _, x := range tasks {
		x.Trials = append(append(append([]Trial{}, x.Trials...), x.Trials...), x.Trials...)
		same = append(same, x)
	}
	if g := Figures(same, 3, 7)[SuccessRate]; math.Abs((g.High-g.Low)-(f.High-f.Low)) > 1e-9 {
		t.Errorf("the interval with three times the trials is %+v, want the width of %+v", g, f)
	}
}

func TestTasks(t *testing.T) {
	ep := func(uid, id string, index int, o data.Outcome, turns int) *data.Episode {
		return &data.Episode{UID: uid, Task: data.Task{ID: id, Index: index}, Outcome: o, Reward: float64(turns), Turns: make([]data.Turn, turns)}
	}
	got := Tasks([]*data.Episode{
		ep("0/a", "a", 1, data.Success, 1), ep("0/a", "a", 1, data.Done, 2), ep("0/b", "b", 9, data.EnvError, 0), ep("0/a#2", "a", 1, data.Done, 3),
	}, func(i int) string { return map[bool]string{true: "small", false: "big"}[i < 5] })
	want := []Task{
		{ID: "a", Family: "small", Trials: []Trial{{data.Success, 1, 1}, {data.Done, 2, 2}}},
		{ID: "b", Family: "big", Trials: []Trial{{data.EnvError, 0, 0}}},
		{ID: "a#2", Family: "small", Trials: []Trial{{data.Done, 3, 3}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func result(weights string, parts map[string]string, tasks ...Task) Result {
	r := New("maze", tasks, len(tasks[0].Trials), 5)
	r.Weights, r.Contract = weights, NewContract(parts)
	return r
}

func TestResult(t *testing.T) {
	r := result("w", map[string]string{"format": "react"}, trials("a", "up", "ss"), trials("b", "down", "te"))
	if r.Lost != 1 || r.SuccessRate != 2./3 || r.Families["up"].Metrics[SuccessRate].Value != 1 || r.Families["down"].Tasks != 1 || len(r.Families) != 2 {
		t.Errorf("got %+v", r)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const fixed = `{"env":"maze","tasks":2,"samples":2,"success_rate":0.6666666666666666,"mean_score":0.6666666666666666,"mean_turns":1.3333333333333333,` +
		`"outcomes":{"env_error":1,"success":2,"turn_limit":1},"lost":1,"metrics":{`
	if !strings.HasPrefix(string(b), fixed) {
		t.Errorf("the JSON is %s, want it to begin with %s", b, fixed)
	}
	var back Result
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("the decoded result (-want +got):\n%s", diff)
	}
	text := r.String()
	for _, want := range []string{
		"maze: 2 tasks x 2 samples: success 0.667, mean score 0.667, mean turns 1.3;\n    env_error 1, success 2, turn_limit 1\n",
		"and not scored: 1 episode\n", "pass@2", "  up (1 task)", "contract sha256:",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Index(text, "pass@1") > strings.Index(text, "pass@2") || strings.Index(text, "success_rate") > strings.Index(text, "mean@") || strings.Index(text, "outcome/") < strings.Index(text, "pass@2") {
		t.Errorf("the metrics are out of order:\n%s", text)
	}
}

func TestContract(t *testing.T) {
	c := NewContract(map[string]string{"a": "1", "b": "2"})
	// The hash of a contract in an older file must not change.
	if want := "sha256:21f76dfbfe6dfe21f762080ef484112cf2952974cef30741fd1931e1c6d92112"; c.Hash != want {
		t.Errorf("hash %s, want %s", c.Hash, want)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	for _, other := range []map[string]string{{"a": "1", "b": "3"}, {"a": "1"}, {"a": "1", "b": "2", "c": ""}, {"a": "12", "b": ""}} {
		d := NewContract(other)
		if d.Hash == c.Hash || len(Diff(c, d)) == 0 {
			t.Errorf("the contracts with the parts %v and %v are equal, want a difference", other, c.Parts)
		}
	}
	c.Parts["a"] = "9"
	if err := c.Check(); err == nil {
		t.Error("an edited contract was accepted")
	}
	if err := (Contract{}).Check(); err == nil {
		t.Error("an empty contract was accepted")
	}
}

func TestCompare(t *testing.T) {
	same := map[string]string{"format": "react"}
	a := result("old", same, trials("a", "", "st"), trials("b", "", "tt"), trials("c", "", "ss"), trials("d", "", "tt"))
	b := result("new", same, trials("d", "", "ss"), trials("a", "", "ss"), trials("b", "", "tt"), trials("c", "", "ss"))
	c, err := Compare(a, b, false)
	if err != nil {
		t.Fatal(err)
	}
	m := c.Metrics[SuccessRate]
	if c.Tasks != 4 || c.Better != 2 || c.Worse != 0 || c.Equal != 2 || m.A != 3./8 || m.B != 6./8 || m.Difference != 3./8 {
		t.Errorf("got %+v", c)
	}
	// In a paired resample B is never worse than A, although the success rates of A and B vary.
	if m.Low < 0 || m.High <= m.Difference {
		t.Errorf("the paired interval is %v to %v, want no value below 0", m.Low, m.High)
	}
	if self, err := Compare(a, a, false); err != nil || self.Metrics[SuccessRate] != (Change{A: 3. / 8, B: 3. / 8}) {
		t.Errorf("a result compared with itself: %+v, error %v; want 3/8 twice without a difference", self.Metrics[SuccessRate], err)
	}
	back, err := Compare(b, a, false)
	if err != nil || back.Metrics[SuccessRate].Difference != -m.Difference {
		t.Errorf("B compared with A: %+v, %v, want the negated difference", back.Metrics[SuccessRate], err)
	}
	if text := c.String(); !strings.Contains(text, "B scores better on 2, worse on 0, alike on 2") || !strings.Contains(text, "+0.375") {
		t.Errorf("text:\n%s", text)
	}
}

func TestCompareRefuses(t *testing.T) {
	a := result("w", map[string]string{"format": "react", "template": "x"}, trials("a", "", "st"), trials("b", "", "ss"))
	other := result("w", map[string]string{"format": "action_tags", "template": "x", "parser": "g1"}, trials("b", "", "tt"), trials("z", "", "tt"))
	_, err := Compare(a, other, false)
	var contract *ContractError
	if !errors.As(err, &contract) || !strings.Contains(err.Error(), `format: "react", "action_tags"`) || !strings.Contains(err.Error(), "parser") || strings.Contains(err.Error(), "template") {
		t.Errorf("got %v", err)
	}
	c, err := Compare(a, other, true)
	if err != nil || c.Tasks != 1 || c.OnlyA != 1 || c.OnlyB != 1 || len(c.Contract) != 2 || c.Metrics[SuccessRate].Difference != -1 {
		t.Errorf("with anyway: %+v, %v", c, err)
	}
	disjoint := result("w", a.Contract.Parts, trials("y", "", "tt"), trials("z", "", "st"))
	c, err = Compare(a, disjoint, false)
	if m := c.Metrics[SuccessRate]; err != nil || c.Tasks != 0 || m.Difference != -0.5 || !(m.Low < -0.5 && m.High > -0.5) {
		t.Errorf("results without a common task: %+v, error %v; want 0 tasks, a difference of -0.5 and an interval around it", c, err)
	}
	if !strings.Contains(c.String(), "no task in both") {
		t.Error(c.String())
	}
	for name, spoil := range map[string]func(r *Result){
		"no tasks":    func(r *Result) { r.PerTask = nil },
		"no trials":   func(r *Result) { r.PerTask[0].Trials = nil },
		"no contract": func(r *Result) { r.Contract = Contract{} },
		"edited":      func(r *Result) { r.Contract.Hash = "sha256:0" },
	} {
		bad := result("w", map[string]string{"format": "react", "template": "x"}, trials("a", "", "st"))
		spoil(&bad)
		if _, err := Compare(a, bad, true); err == nil || !strings.Contains(err.Error(), "the second result") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInfrastructureLine checks that Line reports failures in one line, and returns "" if there are none.
func TestInfrastructureLine(t *testing.T) {
	for _, c := range []struct {
		name string
		i    Infrastructure
		want string // pattern
	}{
		{"nothing", Infrastructure{Servers: pool.Counts{Exchanges: 9, Instances: 2, Faults: map[string]int64{}}}, ""},
		{"one of each", Infrastructure{Retries: 1, Replays: 1, Servers: pool.Counts{Quarantines: 1, Faults: map[string]int64{"reset": 1}}, MixedStarts: 1, BadTasks: []string{"sqlgym_3"}},
			`: 1 server fault \(reset 1\), 1 \D+, 1 \D+, 1 \D+, 1 \D+, 1 \D+ \(sqlgym_3\)\n$`},
		{"many", Infrastructure{Retries: 3, Servers: pool.Counts{Quarantines: 2, Faults: map[string]int64{"http_500": 2, "reset": 4, "cut": 2}}},
			`: 8 server faults \(reset 4, cut 2, http_500 2\), 2 \D+, 3 \D+\n$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			line := c.i.Line()
			if !regexp.MustCompile(c.want).MatchString(line) || (c.want == "") != (line == "") || strings.Count(line, "\n") > 1 {
				t.Errorf("got %q, want %q", line, c.want)
			}
			r := Result{Infrastructure: c.i}
			if got := r.String(); !strings.HasSuffix(got, "\n"+line) {
				t.Errorf("the report does not end with the line of failures: %q", got)
			}
		})
	}
}

// TestStarts checks that results of servers with different tasks under the same
// ids are not comparable, even if their contracts are equal.
func TestStarts(t *testing.T) {
	play := func(goals ...string) Result {
		var episodes []*data.Episode
		for i, goal := range goals {
			for range 2 {
				id := fmt.Sprintf("maze_%d", i)
				episodes = append(episodes, &data.Episode{UID: id, Task: data.Task{ID: id}, Outcome: data.Success, Reward: 1, FirstObservation: goal})
			}
		}
		r := New("maze", Tasks(episodes, nil), 2, 5)
		r.Contract = NewContract(map[string]string{"format": "react"})
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var read Result
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		return read
	}
	a, same, other := play("the goal is 8, 6", "the goal is 1, 1"), play("the goal is 8, 6", "the goal is 1, 1"), play("the goal is 8, 6", "the goal is 2, 2")
	if a.Starts == "" || a.Starts != same.Starts || a.Starts == other.Starts || !strings.Contains(a.String(), a.Starts) {
		t.Errorf("digests %q, %q and %q", a.Starts, same.Starts, other.Starts)
	}
	c, err := Compare(a, same, false)
	if err != nil || c.UnknownStarts != 0 || strings.Contains(c.String(), "first observation") {
		t.Errorf("the same tasks: %+v, %v", c, err)
	}
	_, err = Compare(a, other, false)
	var contract *ContractError
	if !errors.As(err, &contract) || !strings.Contains(err.Error(), "1 of 2 tasks have different first observations (maze_1)") {
		t.Errorf("other tasks: %v", err)
	}
	if c, err = Compare(a, other, true); err != nil || len(c.Contract) != 1 || c.Tasks != 2 {
		t.Errorf("with anyway: %+v, %v", c, err)
	}
	// Results of older versions, and tasks with random starts, can be compared. The
	// comparison then contains a note.
	old := play("the goal is 8, 6", "the goal is 1, 1")
	old.Starts = ""
	for i := range old.PerTask {
		old.PerTask[i].Start = ""
	}
	c, err = Compare(a, old, false)
	if err != nil || c.UnknownStarts != 2 || !strings.Contains(c.String(), "the first observations of 2 tasks are not known") {
		t.Errorf("an old result: %+v, %v", c, err)
	}
	random := Tasks([]*data.Episode{
		{UID: "a", Task: data.Task{ID: "a"}, Outcome: data.Success, FirstObservation: "x"}, {UID: "a", Task: data.Task{ID: "a"}, Outcome: data.Success, FirstObservation: "y"},
		{UID: "b", Task: data.Task{ID: "b"}, Outcome: data.EnvError, FirstObservation: "z"}, {UID: "b", Task: data.Task{ID: "b"}, Outcome: data.Done, FirstObservation: "x"},
	}, nil)
	if random[0].Start != "" || random[1].Start != Digest([]byte("x")) {
		t.Errorf("starts %q and %q", random[0].Start, random[1].Start)
	}
}
