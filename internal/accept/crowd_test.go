package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/env/builtin"
)

// playServer is the environment variable that makes the test binary serve the maze, as `openmanus env serve maze`
// does.
const playServer = "ACCEPT_TEST_SERVER"

func fakeServer() {
	s, err := builtin.Serve(context.Background(), "maze", "127.0.0.1:0", builtin.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("serving maze at", s.URL)
	<-s.Done() // blocks until an interrupt ends the process
}

// TestCrowd checks that a small rollout plays all turns on servers in separate processes.
func TestCrowd(t *testing.T) {
	t.Setenv(playServer, "1")
	c, err := measureCrowd(t.Context(), os.Args[0], CrowdOptions{Episodes: 20, Turns: 3, Servers: 2, Rounds: 1}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	r := c.Best
	if c.Turns != 60 || len(c.Rounds) != 1 || !(r.Seconds > 0 && r.Episodes > 0 && r.Turns > 0 && r.TurnCPU > 0) || c.GoroutinesBefore == 0 || c.BytesBefore == 0 {
		t.Errorf("%+v", c)
	}
	var out strings.Builder
	if err := c.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"20 episodes at once on 2 servers, 60 turns", "goroutines"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
}

func TestCrowdJudge(t *testing.T) {
	for _, c := range []struct {
		name         string
		crowd        Crowd
		cheap, clean bool
	}{
		{"all well", Crowd{Rounds: []CrowdRound{{TurnCPU: 0.9e-3}, {TurnCPU: 0.4e-3}}, GoroutinesBefore: 5, GoroutinesAfter: 4, BytesAfter: mostLeft}, true, true},
		{"too much CPU time", Crowd{Rounds: []CrowdRound{{TurnCPU: 0.6e-3}}}, false, true},
		{"goroutines are left", Crowd{Rounds: []CrowdRound{{}}, GoroutinesBefore: 5, GoroutinesAfter: 6}, true, false},
		{"memory is left", Crowd{Rounds: []CrowdRound{{}}, BytesBefore: 1, BytesAfter: mostLeft + 2}, true, false},
	} {
		if c.crowd.judge(); c.crowd.Cheap != c.cheap || c.crowd.Clean != c.clean {
			t.Errorf("%s: got cheap %t and clean %t, want %t and %t", c.name, c.crowd.Cheap, c.crowd.Clean, c.cheap, c.clean)
		}
		if c.crowd.kept() != (c.cheap && c.clean) {
			t.Errorf("%s: got kept %t, want %t", c.name, c.crowd.kept(), c.cheap && c.clean)
		}
	}
}

// TestServerFails checks that a program that cannot start or prints no address is an error.
func TestServerFails(t *testing.T) {
	for _, program := range []string{"/no/such/program", "/bin/false", "/bin/echo"} {
		if c, err := startServer(t.Context(), nil, program, "env", "serve"); err == nil {
			c.stop()
			t.Errorf("no error for the server program %s", program)
		}
	}
}
