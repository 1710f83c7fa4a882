package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/internal/errext"
)

// evalJSON runs eval --json and returns the result and the output.
func evalJSON(t *testing.T, dir string, args ...string) (eval.Result, string) {
	t.Helper()
	code, stdout, stderr := inProcess(t, dir, append([]string{"eval", "--json"}, args...)...)
	if code != 0 {
		t.Fatalf("%q: exit code %d\n%s", args, code, stderr)
	}
	var r eval.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	return r, stdout
}

// copyModel copies a model's folder, so that a test may change it.
func copyModel(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestEval(t *testing.T) {
	tiny := tinyModel(t)
	dir := t.TempDir()
	play := []string{"--model", tiny, "--env", "maze", "--tasks", "17,18", "--samples", "2", "--max-turns", "2", "--max-new-tokens", "8", "--deterministic", "--device", "cpu"}
	with := func(more ...string) []string { return append(append([]string{}, play...), more...) }

	first, text := evalJSON(t, dir, with("--episodes", "episodes.jsonl", "--out", "out.json")...)
	if kept, err := os.ReadFile(filepath.Join(dir, "out.json")); err != nil || string(kept) != text {
		t.Errorf("file of --out: %s, %v", kept, err)
	}
	for _, taken := range [][]string{{"--out", "out.json"}, {"--episodes", "episodes.jsonl"}} {
		if code, _, stderr := inProcess(t, dir, append([]string{"eval"}, with(taken...)...)...); code != int(errext.Usage) || !strings.Contains(stderr, "exists") {
			t.Errorf("%s: exit code %d\n%s", taken, code, stderr)
		}
	}
	if !strings.HasPrefix(text, `{"env":"maze","tasks":2,"samples":2,"success_rate":`) {
		t.Errorf("the JSON starts with other keys:\n%s", text)
	}
	if err := first.Contract.Check(); err != nil || first.Weights == "" || first.Seed != 1 || first.Model != tiny {
		t.Errorf("%v: %+v", err, first)
	}
	if len(first.PerTask) != 2 || len(first.PerTask[0].Trials) != 2 || first.Metrics["pass@2"] != (eval.Figure{}) && first.Outcomes["success"] == 0 {
		t.Errorf("got %s", text)
	}
	if dump, err := dump.Open(filepath.Join(dir, "episodes.jsonl")); err != nil {
		t.Error(err)
	} else {
		defer dump.Close()
		ep, err := dump.Next()
		if err != nil || dump.Header().Weights != first.Weights || len(ep.Turns) == 0 || len(ep.Exchanges) > 0 {
			t.Errorf("episodes: %v, %+v, %+v", err, dump.Header(), ep)
		}
	}
	t.Run("repeated", func(t *testing.T) {
		if _, again := evalJSON(t, dir, play...); again != text {
			t.Errorf("two deterministic evaluations differ:\n%s", cmp.Diff(text, again))
		}
	})
	t.Run("settings outside the contract", func(t *testing.T) {
		other, _ := evalJSON(t, dir, with("--seed", "2")...)
		if other.Contract.Hash != first.Contract.Hash || other.Seed != 2 {
			t.Errorf("with another seed: %v", eval.Diff(first.Contract, other.Contract))
		}
	})
	t.Run("another chat template", func(t *testing.T) {
		changed := copyModel(t, tiny)
		path := filepath.Join(changed, "tokenizer_config.json")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := json.Unmarshal(b, &config); err != nil {
			t.Fatal(err)
		}
		template := config["chat_template"].(string)
		if config["chat_template"] = strings.Replace(template, " %}", "  %}", 1); config["chat_template"] == template { // add a space that the template does not output
			t.Fatalf("the template contains no \" %%}\":\n%s", template)
		}
		if b, err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		other, _ := evalJSON(t, dir, append(with(), "--model", changed)...)
		diff := eval.Diff(first.Contract, other.Contract)
		if len(diff) != 1 || diff[0].Part != "chat_template" || other.Weights != first.Weights {
			t.Errorf("differs in %v", diff)
		}
	})
	t.Run("compare", func(t *testing.T) {
		writeFile(t, dir, "a.json", text)
		_, b := evalJSON(t, dir, with("--seed", "2")...)
		writeFile(t, dir, "b.json", b)
		_, c := evalJSON(t, dir, with("--max-turns", "1")...)
		writeFile(t, dir, "c.json", c)
		code, out, stderr := inProcess(t, dir, "eval", "compare", "a.json", "b.json")
		if code != 0 || !strings.Contains(out, "2 tasks in both") || !strings.Contains(out, "success_rate") {
			t.Errorf("exit code %d\n%s%s", code, out, stderr)
		}
		code, out, stderr = inProcess(t, dir, "eval", "compare", "a.json", "c.json", "--json")
		if code != int(errext.Input) || out != "" || !strings.Contains(stderr, `max_turns: "2", "1"`) || !strings.Contains(stderr, "--anyway") {
			t.Errorf("exit code %d\n%s%s", code, out, stderr)
		}
		code, out, stderr = inProcess(t, dir, "eval", "compare", "a.json", "c.json", "--json", "--anyway")
		if code != 0 || !strings.Contains(out, `"contract_differences":[{"part":"env.max_turns"`) {
			t.Errorf("exit code %d\n%s%s", code, out, stderr)
		}
		for want, args := range map[errext.ExitCode][]string{
			errext.Usage: {"a.json"},
			errext.Input: {"a.json", "episodes.jsonl"},
		} {
			if code, _, stderr := inProcess(t, dir, append([]string{"eval", "compare"}, args...)...); code != int(want) {
				t.Errorf("%q: exit code %d, want %d\n%s", args, code, want, stderr)
			}
		}
	})
	t.Run("other first observations", func(t *testing.T) {
		ours := builtinServer(t, "maze", "")
		theirs := builtinServer(t, "maze", "another goal than ours")
		a, text := evalJSON(t, dir, with("--server", ours)...)
		b, other := evalJSON(t, dir, with("--server", theirs)...)
		writeFile(t, dir, "ours.json", text)
		writeFile(t, dir, "theirs.json", other)
		if a.Contract.Hash != b.Contract.Hash || a.Starts == b.Starts || a.Starts == "" {
			t.Errorf("got contracts %s and %s, want equal; got first observations %q and %q, want different", a.Contract.Hash, b.Contract.Hash, a.Starts, b.Starts)
		}
		code, out, stderr := inProcess(t, dir, "eval", "compare", "ours.json", "theirs.json")
		if code != int(errext.Input) || !strings.Contains(stderr, "2 of 2 tasks have different first observations (maze_17, maze_18)") {
			t.Errorf("exit code %d\n%s%s", code, out, stderr)
		}
	})
	t.Run("dry run", func(t *testing.T) {
		code, out, stderr := inProcess(t, dir, append([]string{"eval", "--dry-run"}, play...)...)
		if code != 0 || !strings.Contains(out, "contract "+first.Contract.Hash) || !strings.Contains(out, "chat_template") {
			t.Errorf("exit code %d\n%s%s", code, out, stderr)
		}
	})
}

// TestContractParts checks that each flag with an effect on the result changes the part of the contract that is named
// after the flag's key, and that other flags change no part.
func TestContractParts(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "words.txt", "crane\nslate\n")
	writeFile(t, dir, "instruction.txt", "Walk.")
	s := openaitest.Serve(t, walker)
	of := func(t *testing.T, args ...string) eval.Contract {
		t.Helper()
		line := append([]string{"eval", "--dry-run", "--json", "--base-url", s.URL, "--api-model", "m", "--env", "maze", "--tasks", "17,18"}, args...)
		code, out, stderr := inProcess(t, dir, line...)
		var c eval.Contract
		if code != 0 || json.Unmarshal([]byte(out), &c) != nil || c.Check() != nil {
			t.Fatalf("%q: exit code %d\n%s%s", args, code, out, stderr)
		}
		return c
	}
	base := of(t)
	for line, want := range map[string]string{
		"--tasks 18,17":                      "tasks",
		"--tasks 17":                         "instruction tasks", // the digest of the instructions also changes: it covers the instruction of task 17 only
		"--samples 2":                        "rollout.val.group_size",
		"--max-turns 3":                      "env.max_turns",
		"--max-new-tokens 7":                 "rollout.max_new_tokens",
		"--max-context-tokens 700":           "rollout.max_context_tokens",
		"--temperature 0.5":                  "rollout.val.temperature",
		"--greedy":                           "rollout.val.temperature",
		"--top-p 0.9":                        "rollout.top_p",
		"--top-k 4":                          "rollout.top_k",
		"--parser g1":                        "env.parser",
		"--format action_tags":               "env.final_ends env.format instruction",
		"--instruction Walk.":                "instruction",
		"--instruction-file instruction.txt": "instruction",
		"--env wordle --tasks 17,18":         "env.max_turns env.name instruction tasks",
		"--seed 9 --concurrency 2":           "",
		"--timeout 9 --wait-healthy 9":       "",
		"--api-timeout 9 --max-lost 0.5":     "",
	} {
		t.Run(line, func(t *testing.T) {
			c := of(t, strings.Fields(line)...)
			var got []string
			for _, d := range eval.Diff(base, c) {
				got = append(got, d.Part)
			}
			if strings.Join(got, " ") != want || (c.Hash == base.Hash) != (want == "") {
				t.Errorf("differs in %q, want %q", got, want)
			}
		})
	}
	if a, b := of(t, "--instruction", "Walk."), of(t, "--instruction", "Walk!"); a.Hash == b.Hash {
		t.Error("instructions that differ in one character have the same contract hash")
	}
	c := of(t, "--env", "wordle", "--vocabulary", "words.txt", "--tasks", "0")
	if !strings.HasPrefix(c.Parts["vocabulary"], "sha256:") {
		t.Errorf("parts %v", c.Parts)
	}
}

func TestLostEpisodes(t *testing.T) {
	fails := 0
	s := openaitest.Serve(t, func(n int, r openaitest.Request) openaitest.Answer {
		if n >= 1 && n <= 3 { // fail all three attempts of the first episode
			fails++
			return openaitest.Answer{Status: 500, Body: "boom"}
		}
		return walker(n, r)
	})
	args := []string{"eval", "--base-url", s.URL, "--api-model", "m", "--api-retries", "0", "--env", "maze", "--tasks", "14-18", "--max-turns", "2", "--concurrency", "1", "--json"}
	dir := t.TempDir()
	code, out, stderr := inProcess(t, dir, append(args, "--max-lost", "0.2")...)
	var r eval.Result
	if code != 0 || json.Unmarshal([]byte(out), &r) != nil {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	if r.Lost != 1 || r.Outcomes["engine_error"] != 1 || r.Metrics["outcome/engine_error"].Value != 0.2 || fails != 3 {
		t.Errorf("got %s", out)
	}
	played := r.Outcomes["success"] + r.Outcomes["turn_limit"]
	if played != 4 || r.SuccessRate != float64(r.Outcomes["success"])/4 {
		t.Errorf("got success rate %v, want the share of successes in the 4 played episodes of %v", r.SuccessRate, r.Outcomes)
	}
	var usage struct{ Requests, Retries int }
	if b, err := json.Marshal(r.Usage); err != nil || json.Unmarshal(b, &usage) != nil || usage.Requests != len(s.Requests())+1 { // usage also counts the request for the list of models
		t.Errorf("usage %v after %d requests", r.Usage, len(s.Requests()))
	}
	s = openaitest.Serve(t, func(n int, r openaitest.Request) openaitest.Answer {
		if n >= 1 && n <= 3 {
			return openaitest.Answer{Status: 500, Body: "boom"}
		}
		return walker(n, r)
	})
	args[2] = s.URL
	code, out, stderr = inProcess(t, dir, args...)
	if code != int(errext.Env) || out != "" || !strings.Contains(stderr, "1 of 5 episodes failed") || !strings.Contains(stderr, "boom") {
		t.Errorf("with one lost episode of five: exit code %d\n%s%s", code, out, stderr)
	}
}

// builtinServer serves a built-in environment and appends the text in more to the observation of each reset.
func builtinServer(t *testing.T, name, more string) (url string) {
	t.Helper()
	server, err := builtin.Serve(context.WithoutCancel(t.Context()), name, "127.0.0.1:0", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	target, err := neturl.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.URL.Path, "/reset") {
			return nil
		}
		var reply map[string]any
		if err := json.NewDecoder(r.Body).Decode(&reply); err != nil {
			return err
		}
		reply["observation"] = reply["observation"].(string) + more
		text, err := json.Marshal(reply)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", strconv.Itoa(len(text)))
		return err
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(func() {
		front.Close()
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return front.URL
}
