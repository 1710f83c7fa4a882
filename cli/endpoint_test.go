package cli

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

// walker plays the maze with moves that have not failed yet. Its episodes have different outcomes.
func walker(_ int, r openaitest.Request) openaitest.Answer {
	moves := []string{"move up", "move left", "move down", "move right"}
	return openaitest.Answer{Text: "Thought: on.\nAction: " + moves[len(r.Messages)/2%len(moves)], Tokens: len(r.Messages) * 10}
}

func endpointState(t *testing.T, url string, args ...string) *testState {
	t.Helper()
	ts := newTestState(t, append(args, "--base-url", url, "--api-model", "small", "--env", "maze", "--tasks", "16-18", "--max-turns", "3")...)
	ts.Getenv = func(key string) string {
		return map[string]string{"OPENAI_API_KEY": "sk-top", "MY_KEY": "sk-mine"}[key]
	}
	return ts
}

func TestRolloutOfAnEndpoint(t *testing.T) {
	s := openaitest.Serve(t, walker)
	ts := endpointState(t, s.URL, "rollout", "--dump", "episodes.jsonl", "--samples", "2", "--temperature", "0.7", "--api-key-env", "MY_KEY")
	if code := Main(ts.State); code != 0 {
		t.Fatalf("exit code %d\n%s", code, ts.err)
	}
	dump, err := dump.Open(filepath.Join(ts.Dir, "episodes.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Close()
	h := dump.Header()
	if h.Weights != "" || h.Options["rollout.engine"] != "openai" || h.Options["rollout.api.model"] != "small" || h.Options["rollout.api.base_url"] != s.URL {
		t.Errorf("header: %+v", h)
	}
	n := 0
	for {
		ep, err := dump.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
		if ep.Outcome != data.TurnLimit && ep.Outcome != data.Success || len(ep.Turns) == 0 || ep.Turns[0].Action == "" || len(ep.Exchanges) == 0 {
			t.Errorf("%s: %s %s, %d turns, %d exchanges", ep.Task.ID, ep.Outcome, ep.Err, len(ep.Turns), len(ep.Exchanges))
		}
		if len(ep.Tokens)+len(ep.Mask)+len(ep.LogProbs) > 0 {
			t.Errorf("%s has token ids: %v", ep.Task.ID, ep.Tokens)
		}
	}
	if n != 6 {
		t.Errorf("%d episodes, want 6", n)
	}
	seeds := map[any]bool{}
	for i, r := range s.Requests() {
		if r.Key != "Bearer sk-mine" || r.Model != "small" || r.Raw["temperature"] != 0.7 {
			t.Errorf("request %d: key %q, %v", i, r.Key, r.Raw)
		}
		seeds[r.Raw["seed"]] = true
	}
	if len(seeds) < 6 {
		t.Errorf("only %d seeds", len(seeds))
	}
	if all := ts.out.String() + ts.err.String(); strings.Contains(all, "sk-mine") {
		t.Errorf("the key was printed:\n%s", all)
	}
	// Commands that view and convert episodes need no token ids.
	for _, args := range [][]string{{"view", "episodes.jsonl", "--text"}, {"data", "info", "episodes.jsonl"}, {"data", "convert", "episodes.jsonl", "rows.parquet"}} {
		if code, _, stderr := inProcess(t, ts.Dir, args...); code != 0 {
			t.Errorf("%q: exit code %d\n%s", args, code, stderr)
		}
	}
}

// TestReplayOfAnEndpoint checks that a replay of an endpoint's episodes compares texts and finds changes.
func TestReplayOfAnEndpoint(t *testing.T) {
	for _, more := range [][]string{nil, {"--format", "history"}} {
		t.Run(strings.Join(more, " "), func(t *testing.T) {
			s := openaitest.Serve(t, walker)
			ts := endpointState(t, s.URL, append([]string{"rollout", "--dump", "d.jsonl", "--samples", "2"}, more...)...)
			if code := Main(ts.State); code != 0 {
				t.Fatalf("exit code %d\n%s", code, ts.err)
			}
			asked := len(s.Requests())
			r := replayJSON(t, ts.Dir, errext.OK, "d.jsonl", "--no-model")
			if r.Replayed != 6 || r.Differ != 0 || r.Draws != 0 || !r.ByText || len(r.Skipped) > 0 || len(s.Requests()) != asked {
				t.Errorf("%+v", r)
			}
			code, out, stderr := inProcess(t, ts.Dir, "replay", "d.jsonl", "--no-model")
			if code != 0 || !strings.Contains(out, "6 episodes replayed, 0 differ") || !strings.Contains(out, "by the endpoint's texts") {
				t.Errorf("exit code %d, %s%s", code, out, stderr)
			}
			code, _, stderr = inProcess(t, ts.Dir, "replay", "d.jsonl")
			if code != int(errext.Input) || !strings.Contains(stderr, "played by small at "+s.URL) || !strings.Contains(stderr, "give --no-model") {
				t.Errorf("without --no-model: exit code %d, %s", code, stderr)
			}
			path := filepath.Join(ts.Dir, "d.jsonl")
			dump, err := dump.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer dump.Close()
			for part, change := range map[string]func(e *data.Episode){
				"action":      func(e *data.Episode) { e.Turns[1].Action = "move around" },
				"observation": func(e *data.Episode) { e.Turns[1].Observation += "x" },
				"reward":      func(e *data.Episode) { e.Turns[1].Reward++ },
				"outcome":     func(e *data.Episode) { e.Outcome = data.ParseLimit },
				"request": func(e *data.Episode) {
					x := &e.Exchanges[len(e.Exchanges)-1]
					x.Body = strings.Replace(x.Body, "move", "go", 1)
				},
			} {
				episodes := readDump(t, path)
				change(episodes[4])
				write(t, filepath.Join(ts.Dir, "changed.jsonl"), dump.Header(), episodes)
				r := replayJSON(t, ts.Dir, errext.Check, "changed.jsonl", "--no-model")
				if r.Differ != 1 || r.Differences[0].Episode != 4 || r.Differences[0].What != part {
					t.Errorf("%s: %+v", part, r)
				}
			}
		})
	}
}

func TestEndpointErrors(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	says := func(status int, body string) string {
		return openaitest.Serve(t, func(int, openaitest.Request) openaitest.Answer {
			return openaitest.Answer{Status: status, Body: body}
		}).URL
	}
	tests := []struct{ name, url, words string }{
		{"dead", gone.URL, "is the endpoint up"},
		{"wrong key", says(401, `{"error":{"message":"bad key sk-top"}}`), "is the key in its environment variable"},
		{"wrong name", says(404, `{"error":{"message":"no model small"}}`), "no model small"},
		{"unknown parameter", says(400, `{"error":{"message":"temperature must be 1"}}`), "temperature must be 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ts := endpointState(t, tt.url, "eval")
			code := Main(ts.State)
			if code != int(errext.Env) || !strings.Contains(ts.err.String(), tt.words) || ts.out.String() != "" {
				t.Errorf("exit code %d, stdout %q\n%s", code, ts.out, ts.err)
			}
			if strings.Contains(ts.err.String(), "sk-top") {
				t.Errorf("the key was printed:\n%s", ts.err)
			}
		})
	}
}

func TestEndpointFailsDuringRollout(t *testing.T) {
	// The first request checks that the endpoint responds.
	from := func(n int, a openaitest.Answer) func(int, openaitest.Request) openaitest.Answer {
		return func(i int, r openaitest.Request) openaitest.Answer {
			if i >= n {
				return a
			}
			return walker(i, r)
		}
	}
	t.Run("revoked key", func(t *testing.T) {
		s := openaitest.Serve(t, from(3, openaitest.Answer{Status: 401, Body: `{"error":{"message":"expired"}}`}))
		ts := endpointState(t, s.URL, "eval", "--concurrency", "1", "--samples", "9")
		if code := Main(ts.State); code != int(errext.Env) || !strings.Contains(ts.err.String(), "expired") {
			t.Errorf("exit code %d\n%s", code, ts.err)
		}
		if n := len(s.Requests()); n != 4 {
			t.Errorf("got %d requests, want 4: the command continued after all episodes were lost", n)
		}
	})
	t.Run("broken replies", func(t *testing.T) {
		s := openaitest.Serve(t, from(1, openaitest.Answer{Body: `{"choices":[]}`}))
		ts := endpointState(t, s.URL, "eval", "--api-retries", "0")
		if code := Main(ts.State); code != int(errext.Env) || !strings.Contains(ts.err.String(), "no choices") {
			t.Errorf("exit code %d\n%s", code, ts.err)
		}
	})
}

func TestParseEndpoint(t *testing.T) {
	const base = "--env maze --tasks 1 "
	for line, want := range map[string]string{
		"--base-url http://a/v1":       "--api-model: missing",
		"--api-model m --model d":      "--api-model: only used with --base-url",
		"--base-url a:1 --api-model m": "--base-url: \"a:1\" is not the address",
		"--base-url http://a --api-model m --model d --dtype float32 --deterministic --max-obs-tokens 3": "--model: ",
		"--base-url http://a --api-model m --api-key-env sk-abc":                                         "--api-key-env: this looks like a key",
		"--base-url http://a --api-model m --api-timeout 0 --api-retries -1":                             "--api-timeout: 0",
	} {
		if _, code, text := parsed(t, strings.Fields(base+line), evalFlags(), (*State).parseEval); code != errext.Usage || !strings.Contains(text, want) {
			t.Errorf("%s: %s", line, text)
		}
	}
	got, code, text := parsed(t, strings.Fields(base+"--base-url http://a:1/v1/ --api-model m --api-concurrency 2"), evalFlags(), (*State).parseEval)
	if code != errext.OK || got.Rollout.API != (configs.RolloutAPI{BaseURL: "http://a:1/v1", Model: "m", KeyEnv: "OPENAI_API_KEY", Concurrency: 2, TimeoutS: 120, Retries: 5}) {
		t.Errorf("%s %+v", text, got.Rollout.API)
	}
}

func TestTrainRejectsEndpoint(t *testing.T) {
	whole := []string{"--set", "rollout.api.base_url=http://127.0.0.1:1/v1", "--set", "rollout.api.model=m", "--set", "agent.max_obs_tokens=0"}
	for _, command := range []string{"train", "sft"} {
		for _, more := range [][]string{nil, whole} {
			ts := newTestState(t, append([]string{command, "--set", "rollout.engine=openai"}, more...)...)
			if code := Main(ts.State); code != int(errext.Input) || !strings.Contains(ts.err.String(), "rollout.") || !strings.Contains(ts.err.String(), "cannot be trained") {
				t.Errorf("%s %q: exit code %d\n%s", command, more, code, ts.err)
			}
		}
	}
}

// TestTrainRejectsEndpointEpisodes checks the error for training on episodes without token ids.
func TestTrainRejectsEndpointEpisodes(t *testing.T) {
	ep := &data.Episode{
		UID: "u", Outcome: data.Success, Tokens: []int32{1, 2}, Mask: []uint8{0, 1}, LogProbs: []float32{0, -1},
		Turns: []data.Turn{{Start: 1, End: 2, Text: "go"}},
	}
	if _, err := data.Rows([]*data.Episode{ep}); err != nil {
		t.Fatal(err)
	}
	ep.ForgetIDs()
	if _, err := data.Rows([]*data.Episode{ep}); err == nil {
		t.Error("an episode without token ids was accepted")
	}
}
