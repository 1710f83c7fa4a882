package model

import (
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// family is what the package knows about one model_type.
type family struct {
	architecture string // the class transformers loads it with
	qkvBias      bool   // queries, keys and values have biases
	headNorm     bool   // the heads of queries and keys are normed
	headDim      int    // default of head_dim; 0 is hidden_size / num_attention_heads
	idleWindow   bool   // config.json carries a sliding_window that is switched off elsewhere
	writesBias   bool   // config.json has attention_bias
	ggufPermuted bool   // GGUF files hold q and k with the rows of a head interleaved
}

// classifier is the class of the family's sequence classifiers.
func (f family) classifier() string {
	return strings.TrimSuffix(f.architecture, "ForCausalLM") + "ForSequenceClassification"
}

// families holds them by model_type; each is registered in the file that
// describes it.
var families = registry.New[family]("model_type")

// ModelTypes returns the supported values of config.json's model_type.
func ModelTypes() []string { return families.Names() }

func known(modelType string) bool {
	_, err := families.Lookup(modelType)
	return err == nil
}

// familyOf is the family of a model_type that is known.
func familyOf(modelType string) family {
	f, err := families.Lookup(modelType)
	if err != nil {
		panic("model: " + err.Error())
	}
	return f
}

func unknownModelType(t string) error {
	return fmt.Errorf("model_type %q is not supported (%s are)", clip(t), strings.Join(ModelTypes(), ", "))
}
