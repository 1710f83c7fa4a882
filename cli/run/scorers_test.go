package run

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/reward"
)

func TestConfiguredScoreFunctionsAreThere(t *testing.T) {
	fns := configs.ScoreFns()
	for _, name := range reward.Functions.Names() {
		f, err := reward.Functions.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		keys, ok := fns[name]
		if !ok {
			t.Errorf("%s cannot be configured: add it to scoreFns in configs/components.go, with the parameters that it reads", name)
		}
		a, b := slices.Sorted(slices.Values(keys)), slices.Sorted(slices.Values(f.Keys))
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s reads other keys than it may be given: %s", name, d)
		}
	}
	// One more than there are: the reward model's.
	if _, ok := fns[configs.ModelScoreFn]; !ok || len(fns) != len(reward.Functions.Names())+1 {
		t.Errorf("%v can be configured, there are %v and %s", slices.Sorted(maps.Keys(fns)), reward.Functions.Names(), configs.ModelScoreFn)
	}
	if d := cmp.Diff(reward.DefaultParams(), scoreParams(configs.DefaultComponent("x"))); d != "" {
		t.Errorf("the defaults of configuration and functions differ: %s", d)
	}
}
