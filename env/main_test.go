package env

import (
	"testing"

	"go.uber.org/goleak"
)

// tests runs the tests and closes the connections of the shared transport before the leak check.
type tests struct{ m *testing.M }

func (t tests) Run() int {
	code := t.m.Run()
	CloseIdle()
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }
