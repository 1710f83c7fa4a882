package model

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// family is what the package knows about one model_type.
type family struct {
	architecture string // the class transformers loads it with
	attention    func(*Config) selfAttention
	headDim      int  // default of head_dim; 0 is hidden_size / num_attention_heads
	idleWindow   bool // config.json carries a sliding_window that is switched off elsewhere
	writesBias   bool // config.json has attention_bias
	ggufPermuted bool // GGUF files hold q and k with the rows of a head interleaved
}

var registry = map[string]family{}

// register adds a family; each calls it from the file that describes it.
func register(modelType string, f family) {
	if _, twice := registry[modelType]; twice {
		panic("model: " + modelType + " is registered twice")
	}
	registry[modelType] = f
}

// ModelTypes returns the supported values of config.json's model_type.
func ModelTypes() []string {
	names := make([]string, 0, len(registry))
	for n := range registry {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

func known(modelType string) bool { return slices.Contains(ModelTypes(), modelType) }

func unknownModelType(t string) error {
	return fmt.Errorf("model_type %q is not supported (%s are)", clip(t), strings.Join(ModelTypes(), ", "))
}
