package cli

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/internal/errext"
)

// earlierRollout is the command that wrote testdata/endpoint-0.1.jsonl with an earlier version. Dumps of that version
// have other option names.
const earlierRollout = "rollout --api-model small --env maze --tasks 16-18 --skip-tasks 18 --temperature 0.7 --format history --max-turns 2 --max-parse-failures 2 --concurrency 1 --dump d.jsonl"

// TestDumpOfAnEarlierVersion checks that a dump of an earlier version can be replayed, and can be continued only with the
// same settings.
func TestDumpOfAnEarlierVersion(t *testing.T) {
	s := openaitest.Serve(t, walker)
	text := strings.ReplaceAll(one(t, "testdata", "endpoint-0.1.jsonl"), "http://127.0.0.1:36999", strings.TrimSuffix(s.URL, "/v1"))
	lines := strings.SplitAfter(text, "\n")
	dir := t.TempDir()
	writeFile(t, dir, "d.jsonl", text)
	if r := replayJSON(t, dir, errext.OK, "d.jsonl", "--no-model"); r.Replayed != 2 || r.Differ != 0 {
		t.Errorf("%+v", r)
	}
	writeFile(t, dir, "d.jsonl", lines[0]+lines[1])
	resume := append(strings.Fields(earlierRollout), "--base-url", s.URL, "--continue", "--seed")
	code, _, stderr := inProcess(t, dir, append(resume, "7")...)
	if code != int(errext.Input) || !strings.Contains(stderr, "trainer.seed: 18446744073709551615 then, 7 now") {
		t.Errorf("with another seed: exit code %d\n%s", code, stderr)
	}
	code, out, stderr := inProcess(t, dir, append(resume, "18446744073709551615")...)
	if code != 0 || !strings.HasPrefix(out, "d.jsonl: 2 of 2 episodes, 0 lost") {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	if now := one(t, dir, "d.jsonl"); !strings.HasPrefix(now, lines[0]+lines[1]) {
		t.Errorf("the existing lines changed:\n%s", now)
	}
}
