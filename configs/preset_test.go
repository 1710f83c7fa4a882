package configs

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func preset(t *testing.T, name string, sets ...string) Config {
	t.Helper()
	text, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := schema.Load(name+".toml", text, sets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPresetsLoad(t *testing.T) {
	if diff := cmp.Diff([]string{"agentevol", "dapo", "dr_grpo", "gigpo", "grpo", "ppo", "quickstart", "reinforce_plus_plus", "rlvr", "sft", "smollm2-maze"}, PresetNames()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, name := range PresetNames() {
		t.Run(name, func(t *testing.T) { preset(t, name) })
	}
}

func TestPresetUnknown(t *testing.T) {
	for _, name := range []string{"quikstart", "../presets/grpo", ""} {
		if _, err := Preset(name); err == nil {
			t.Errorf("Preset(%q) returns no error", name)
		}
	}
	_, err := Preset("quikstart")
	if want := "did you mean quickstart?"; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want an error that ends with %q", err, want)
	}
}

func indicesOf(t *testing.T, entries []string) []int {
	t.Helper()
	var all []int
	for _, e := range entries {
		is, err := ParseIndices(e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, is...)
	}
	return all
}

// TestQuickstartHoldsCellsOut checks that neither GRPO nor the initial solutions
// start from validation cells.
func TestQuickstartHoldsCellsOut(t *testing.T) {
	e := preset(t, "quickstart").Env[0]
	train, val, expert := indicesOf(t, e.Tasks), indicesOf(t, e.ValTasks), indicesOf(t, e.ExpertTasks)
	if len(val) != 8 {
		t.Errorf("%d validation cells, want 8", len(val))
	}
	for _, end := range []int{0, 4, 5, 9} { // the cells (1,1), (1,5), (1,7) and (1,11)
		if !slices.Contains(val, end) {
			t.Errorf("the corridor end with index %d is not a validation cell", end)
		}
	}
	for _, i := range val {
		if slices.Contains(train, i) {
			t.Errorf("cell %d is used in training and in validation", i)
		}
		if slices.Contains(expert, i) {
			t.Errorf("validation cell %d is the start of a training solution", i)
		}
	}
}

func TestSmolLM2MazeHoldsCellsOut(t *testing.T) {
	e := preset(t, "smollm2-maze").Env[0]
	want := append([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 23, 24)
	if diff := cmp.Diff(want, indicesOf(t, e.ValTasks)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]int{25}, indicesOf(t, e.SkipTasks)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
