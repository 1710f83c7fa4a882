package pool

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/env"
)

// tests runs the tests and closes the connections of the shared transport before the leak check.
type tests struct{ m *testing.M }

func (t tests) Run() int {
	code := t.m.Run()
	env.CloseIdle()
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// allDown returns the last failures of all servers, nil if one is in service.
func (p *Pool) allDown() error {
	_, _, failures := p.down(Place{})
	return failures
}
