package configs

import (
	"encoding/json"
	"testing"
)

// TestWeightDTypeOfPlay checks that results and dumps of int8 weights are told from others, and that those of earlier versions, which
// lack the key, are like those of "auto".
func TestWeightDTypeOfPlay(t *testing.T) {
	const key = "rollout.weight_dtype"
	plain, err := schema.Load("a.toml", []byte(minimal), nil)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := plain.ContractValues()[key]; ok {
		t.Errorf("the contract has the default of %s: %v", key, v)
	}
	quantised, err := schema.Load("a.toml", []byte(minimal), []string{key + "=int8"})
	if err != nil {
		t.Fatal(err)
	}
	if v := quantised.ContractValues()[key]; v != Int8 {
		t.Errorf("%s in the contract is %v, want int8", key, v)
	}
	for want, values := range map[string]map[string]any{Int8: quantised.EpisodeValues(), "auto": plain.EpisodeValues()} {
		header := map[string]json.RawMessage{}
		for k, v := range values {
			if header[k], err = json.Marshal(v); err != nil {
				t.Fatal(err)
			}
		}
		played, err := schema.FromEpisodeValues(header)
		if err != nil || played.Rollout.WeightDType != want {
			t.Errorf("the header of %s gives %q (%v)", want, played.Rollout.WeightDType, err)
		}
	}
}
