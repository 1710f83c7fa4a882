package pool

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/env"
)

// tests closes the shared transport's connections before leaks are counted.
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
