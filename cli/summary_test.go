package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

// summaryRun is endpointRun with a second endpoint for summaries.
func summaryRun(player, writer string) string {
	text := strings.Replace(endpointRun, "http://127.0.0.1:1/v1", player, 1)
	text = strings.Replace(text, "[rollout]", fmt.Sprintf("[agent.summary]\nbase_url = %q\nmodel = \"writer\"\nkey_env = \"SUMMARY_KEY\"\nmax_tokens = 77\n[rollout]", writer), 1)
	return strings.Replace(text, `format = "react"`, "format = \"history\"\nuse_summary = true", 1)
}

// withKeys runs a command with an API key for each endpoint.
func withKeys(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ts := newTestState(t, args...)
	ts.Dir = dir
	ts.Getenv = func(key string) string {
		return map[string]string{"MY_KEY": "sk-mine", "SUMMARY_KEY": "sk-summary"}[key]
	}
	code = Main(ts.State)
	return code, ts.out.String(), ts.err.String()
}

// TestSummariesInRollout checks that rollout shows summaries of the configured endpoint, as the validation of a run does,
// and that the endpoints get different keys.
func TestSummariesInRollout(t *testing.T) {
	player := openaitest.Serve(t, walker)
	writer := openaitest.Serve(t, func(n int, _ openaitest.Request) openaitest.Answer {
		return openaitest.Answer{Text: fmt.Sprintf("KeyEvents: note %d", n)}
	})
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", summaryRun(player.URL, writer.URL))
	code, out, stderr := withKeys(t, dir, "rollout", "run.toml", "--env", "maze", "--tasks", "1,2", "--max-turns", "4", "--dump", "d.jsonl")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	turns, shown := 0, 0
	for _, ep := range episodesOf(t, filepath.Join(dir, "d.jsonl")) {
		for i, turn := range ep.Turns {
			turns++
			has := strings.Contains(turn.Prompt[0].Content, "in short:\nKeyEvents: note ")
			if has != (i > 1) {
				t.Errorf("turn %d of %s: the prompt has a summary: got %t, want %t\n%s", i+1, ep.Task.ID, has, i > 1, turn.Prompt[0].Content)
			}
			if has {
				shown++
			}
		}
	}
	requests := writer.Requests() // the first request checks that the endpoint responds
	if shown == 0 || len(requests) != 1+shown {
		t.Errorf("got %d requests for %d summaries in %d turns, want a check request and one request per summary", len(requests), shown, turns)
	}
	if r := requests[len(requests)-1]; r.Model != "writer" || r.Key != "Bearer sk-summary" || r.Raw["max_tokens"] != 77.0 || r.Raw["temperature"] != 0.1 {
		t.Errorf("request for a summary: %+v", r)
	}
	if r := player.Requests()[1]; r.Key != "Bearer sk-mine" {
		t.Errorf("request to the endpoint that plays has the key %q", r.Key)
	}
	dump, err := dump.Open(filepath.Join(dir, "d.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Close()
	h := dump.Header().Options
	if h["env.use_summary"] != true || h["agent.summary.base_url"] != writer.URL || h["agent.summary.model"] != "writer" ||
		fmt.Sprint(h["agent.summary.max_tokens"], " ", h["agent.summary.temperature"]) != "77 0.1" {
		t.Errorf("header: %v", h)
	}
	if all := out + stderr + one(t, dir, "d.jsonl"); strings.Contains(all, "sk-summary") || strings.Contains(all, "sk-mine") {
		t.Error("a key was printed or written")
	}
	code, out, stderr = inProcess(t, dir, "replay", "d.jsonl", "--no-model")
	if code != int(errext.Input) || out != "" || !strings.Contains(stderr, "without --use-summary") {
		t.Errorf("replay: exit code %d\n%s%s", code, out, stderr)
	}
}

// TestContractOfSummaries checks that keys and flags of summaries change the contract in the same way, and that --dry-run
// requests no summary.
func TestContractOfSummaries(t *testing.T) {
	player := openaitest.Serve(t, walker)
	answers := func(int, openaitest.Request) openaitest.Answer { return openaitest.Answer{Text: "ok"} }
	writer, another := openaitest.Serve(t, answers), openaitest.Serve(t, answers)
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", summaryRun(player.URL, writer.URL))
	opened := 0
	of := func(t *testing.T, args ...string) eval.Contract {
		t.Helper()
		opened++
		code, out, stderr := withKeys(t, dir, append([]string{"eval", "--dry-run", "--json"}, args...)...)
		var c eval.Contract
		if code != 0 || json.Unmarshal([]byte(out), &c) != nil || c.Check() != nil {
			t.Fatalf("%q: exit code %d\n%s%s", args, code, out, stderr)
		}
		if strings.Contains(out+stderr, "sk-") {
			t.Errorf("a key was printed:\n%s%s", out, stderr)
		}
		return c
	}
	base := of(t, "run.toml", "--env", "maze")
	flags := of(t, "--base-url", player.URL, "--api-model", "small", "--env", "maze", "--tasks", "16-18", "--max-turns", "10", "--max-context-tokens", "8192",
		"--temperature", "0.4", "--format", "history", "--use-summary", "--summary-base-url", writer.URL, "--summary-model", "writer", "--summary-max-tokens", "77")
	if base.Hash != flags.Hash {
		t.Errorf("the contracts of keys and of flags differ: %v", eval.Diff(base, flags))
	}
	for line, want := range map[string]string{
		"--summary-model w":                                "agent.summary.model",
		"--summary-max-tokens 78":                          "agent.summary.max_tokens",
		"--summary-temperature 0.5":                        "agent.summary.temperature",
		"--use-summary=false":                              "agent.summary.max_tokens agent.summary.model agent.summary.temperature env.use_summary prompts",
		"--set env.maze.use_summary=false":                 "agent.summary.max_tokens agent.summary.model agent.summary.temperature env.use_summary prompts",
		"--summary-concurrency 2 --summary-timeout 9":      "",
		"--summary-base-url " + another.URL:                "",
		"--summary-key-env OTHER --summary-temperature .1": "",
	} {
		t.Run(line, func(t *testing.T) {
			c := of(t, append([]string{"run.toml", "--env", "maze"}, strings.Fields(line)...)...)
			var got []string
			for _, d := range eval.Diff(base, c) {
				got = append(got, d.Part)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("differs in %q, want %q", got, want)
			}
		})
	}
	for _, r := range append(writer.Requests(), another.Requests()...) {
		if strings.Contains(r.Last(), "An agent works on a task") {
			t.Errorf("--dry-run requested a summary: %s", r.Last())
		}
	}
	if n := len(writer.Requests()) + len(another.Requests()); n != opened-2 { // two of the commands use no summaries
		t.Errorf("got %d requests of %d commands, want one check request per command with summaries", n, opened)
	}
}
