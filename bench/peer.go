package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/openmanus/openmanus/torch"
)

// Peer runs jobs in a process of peer_transformers.py or peer_llamacpp.py. Each job is a line of
// JSON; the answer is a line with the duration of the job in seconds.
type Peer struct {
	Ready PeerReady

	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

// PeerReady is the first line of the peer, sent when it is ready.
type PeerReady struct {
	Versions map[string]string `json:"versions"` // of its packages
	Threads  int               `json:"threads"`
}

// peerPatience is the time limit for the process to exit.
const peerPatience = 10 * time.Second

// OpenPeer starts the peer and waits until its model is loaded. The process ends
// when ctx ends. Its stderr goes to log.
func OpenPeer(ctx context.Context, command []string, model string, threads int, dtype torch.DType, log io.Writer) (*Peer, error) {
	args := append(command[1:len(command):len(command)], model, strconv.Itoa(threads), dtype.String())
	cmd := exec.CommandContext(ctx, command[0], args...)
	cmd.Env = peerEnv(threads)
	cmd.Stderr = log
	cmd.WaitDelay = peerPatience
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the peer: %w", err)
	}
	p := &Peer{cmd: cmd, stdin: in, out: bufio.NewReader(out)}
	if err := p.read(&p.Ready); err != nil {
		return nil, errors.Join(fmt.Errorf("load the peer's model: %w", err), p.Close())
	}
	return p, nil
}

// peerEnv returns the environment of a peer's process.
func peerEnv(threads int) []string {
	return append(os.Environ(), "OMP_NUM_THREADS="+strconv.Itoa(threads), "HF_HUB_OFFLINE=1", "TOKENIZERS_PARALLELISM=false",
		"TQDM_DISABLE=1") // no progress bars on stderr
}

// Run runs a job once on the peer and returns the duration of the timed part.
func (p *Peer) Run(_ context.Context, j Job) (time.Duration, error) {
	line, err := json.Marshal(struct {
		Job
		Lengths []int `json:"lengths"` // tokens of each row
		Played  []int `json:"played"`  // turns of each conversation
	}{j, j.lengths(), j.played()})
	if err != nil {
		return 0, err
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return 0, fmt.Errorf("%s: send the job to the peer: %w", j.Name, err)
	}
	var answer struct {
		Seconds float64 `json:"seconds"`
	}
	if err := p.read(&answer); err != nil {
		return 0, fmt.Errorf("%s by the peer: %w", j.Name, err)
	}
	if !(answer.Seconds > 0) {
		return 0, fmt.Errorf("%s by the peer: it reported %v seconds, want more than 0", j.Name, answer.Seconds)
	}
	return time.Duration(answer.Seconds * float64(time.Second)), nil
}

// read parses the next line.
func (p *Peer) read(v any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the process ended without an answer (%w); its output is above", err)
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("it answered %q: %w", line, err)
	}
	return nil
}

// Close ends the process.
func (p *Peer) Close() error {
	err := p.stdin.Close()
	if waitErr := p.cmd.Wait(); waitErr != nil {
		err = errors.Join(err, fmt.Errorf("the peer: %w", waitErr))
	}
	return err
}
