package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/torch"
)

// playPeer is the environment variable that makes the test binary stand in for the peer.
const playPeer = "BENCH_TEST_PEER"

func TestMain(m *testing.M) {
	if how := os.Getenv(playPeer); how != "" {
		fakePeer(how)
		return
	}
	if slices.Contains(os.Args, "--be-busy") {
		if err := beBusy(os.Stdin); err != nil {
			panic(err)
		}
		return
	}
	torch.SetNumThreads(1)
	goleak.VerifyTestMain(clean{m})
}

// clean fails the test binary if tensors remain.
type clean struct{ m *testing.M }

func (c clean) Run() int {
	code := c.m.Run()
	env.CloseIdle()
	if n := torch.LiveTensors(); n != 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "%d tensors are alive after the tests: %v\n", n, torch.Live())
		return 1
	}
	return code
}

// fakePeer implements the protocol of peer_transformers.py.
func fakePeer(how string) {
	if how == "broken" {
		fmt.Fprintln(os.Stderr, "No module named 'transformers'")
		os.Exit(1)
	}
	fmt.Printf(`{"versions": {"transformers": "5", "type": "%s"}, "threads": %s}`+"\n", os.Args[len(os.Args)-1], os.Args[len(os.Args)-2])
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var j struct {
			Job
			Lengths []int `json:"lengths"`
		}
		if err := json.Unmarshal(in.Bytes(), &j); err != nil {
			panic(err)
		}
		switch how {
		case "dies":
			os.Exit(3)
		case "mumbles":
			fmt.Println("warming up")
		default:
			fmt.Printf(`{"seconds": %d}`+"\n", sum(j.Lengths))
		}
	}
	if err := in.Err(); err != nil && err != io.EOF {
		panic(err)
	}
}
