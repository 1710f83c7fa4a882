package run

import (
	"testing"

	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestMain(m *testing.M) { torchtest.Main(m) }
