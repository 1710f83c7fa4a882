package hydra

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/configs/vocabulary"
)

var schema = configs.New(vocabulary.New())

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
