package run

import (
	"fmt"
	"testing"

	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestExpertBeyondRecipes checks that an expert task above the last index of the
// built-in textcraft server is an error.
func TestExpertBeyondRecipes(t *testing.T) {
	n := builtin.OwnBook().Len()
	_, err := opened(t, nil, tinyRun+"\n[[env]]\nname = \"textcraft\"\ntasks = \"0\"\nformat = \"react\"\n", "model.fresh.walks=0", fmt.Sprintf("env.textcraft.expert_tasks=%d", n))
	if CodeOf(t.Context(), err) != errext.Input {
		t.Errorf("got %v", err)
	}
}
