package configs

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/configs/vocabulary"
)

var schema = New(vocabulary.New())

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
