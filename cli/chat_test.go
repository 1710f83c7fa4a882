package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
)

// chatWith runs chat on a pipe.
func chatWith(t *testing.T, model, input string, args ...string) (code int, stdout, stderr string, dir string) {
	t.Helper()
	ts := newTestState(t, append([]string{"chat", model, "--device", "cpu", "--max-new-tokens", "12"}, args...)...)
	ts.Stdin = strings.NewReader(input)
	code = Main(ts.State)
	return code, ts.out.String(), ts.err.String(), ts.Dir
}

// TestChatEqualsGenerate checks that first replies equal the replies of generate for the rows of a file, and that a
// second reply continues the conversation.
func TestChatEqualsGenerate(t *testing.T) {
	tiny := tinyModel(t)
	dir := t.TempDir()
	writeFile(t, dir, "in.jsonl", `{"prompt":"hello"}`+"\n"+`{"prompt":"go up"}`+"\n")
	if code, _, stderr := inProcess(t, dir, "generate", "in.jsonl", "out.jsonl", "--model", tiny, "--device", "cpu", "--max-new-tokens", "12", "--samples", "1", "--seed", "5"); code != 0 {
		t.Fatalf("generate: exit code %d\n%s", code, stderr)
	}
	var want string
	for line := range bytes.Lines(read(t, dir, "out.jsonl")) {
		var row struct{ Responses []string }
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		want += row.Responses[0] + "\n"
	}
	code, stdout, stderr, _ := chatWith(t, tiny, "hello\n/reset\ngo up\n", "--seed", "5")
	if code != 0 || stdout != want {
		t.Errorf("exit code %d, replies %q, want %q\n%s", code, stdout, want, stderr)
	}
	if _, second, _, _ := chatWith(t, tiny, "hello\ngo up\n", "--seed", "5"); second == want || !strings.HasPrefix(second, want[:strings.Index(want, "\n")]) {
		t.Errorf("a conversation of two messages: %q", second)
	}
	if _, other, _, _ := chatWith(t, tiny, "hello\n", "--seed", "6"); strings.HasPrefix(want, other) {
		t.Errorf("another seed gives the same reply %q", other)
	}
	if _, system, _, _ := chatWith(t, tiny, "hello\n", "--seed", "5", "--system", "be brief"); strings.HasPrefix(want, system) {
		t.Errorf("a system prompt gives the same reply %q", system)
	}
	_, bySystem, _, _ := chatWith(t, tiny, "hello\n", "--seed", "5", "--greedy", "--system", "be brief")
	if _, byCommand, _, _ := chatWith(t, tiny, "/system be brief\nhello\n", "--greedy"); byCommand != bySystem {
		t.Errorf("/system gives %q, --system %q", byCommand, bySystem)
	}
}

func TestChatMessages(t *testing.T) {
	tiny := tinyModel(t)
	input := "one\n" + `"""first` + "\nsecond\n\n" + `third"""` + "\n" + `"""alone"""` + "\n" + `"""` + "\nblock\n" + `"""` + "\n /slash\n/save out.json\n/exit\nunread\n"
	code, stdout, stderr, dir := chatWith(t, tiny, input)
	if code != 0 || strings.Count(stdout, "\n") < 5 {
		t.Fatalf("exit code %d, %q\n%s", code, stdout, stderr)
	}
	var saved struct{ Messages []data.Message }
	if err := json.Unmarshal(read(t, dir, "out.json"), &saved); err != nil {
		t.Fatal(err)
	}
	var users []string
	replies := ""
	for _, m := range saved.Messages {
		if m.Role == "user" {
			users = append(users, m.Content)
		} else {
			replies += m.Content + "\n"
		}
	}
	if d := cmp.Diff([]string{"one", "first\nsecond\n\nthird", "alone", "block", " /slash"}, users); d != "" {
		t.Errorf("messages (-want +got)\n%s", d)
	}
	if replies != stdout {
		t.Errorf("the saved replies are %q, shown were %q", replies, stdout)
	}
	_, whole, _, _ := chatWith(t, tiny, "one\ntwo\n", "--whole-input")
	if _, block, _, _ := chatWith(t, tiny, `"""one`+"\n"+`two"""`+"\n"); whole != block {
		t.Errorf("--whole-input gives %q, the same message in quotes %q", whole, block)
	}
}

func TestChatErrors(t *testing.T) {
	tiny := tinyModel(t)
	bare := t.TempDir()
	if err := os.CopyFS(bare, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, bare, "tokenizer_config.json", `{"eos_token":"<|im_end|>"}`)
	long := strings.Repeat("word ", 60) + "\n"
	for name, tt := range map[string]struct {
		model, input string
		args         []string
		code         errext.ExitCode
	}{
		"no such model":            {"gone", "x\n", nil, errext.Model},
		"two models":               {tiny, "x\n", []string{"--model", tiny}, errext.Usage},
		"no template":              {bare, "x\n", nil, errext.Model},
		"no template, but --plain": {bare, "x\n", []string{"--plain"}, 0},
		"--plain with a system":    {tiny, "x\n", []string{"--plain", "--system", "y"}, errext.Usage},
		"temperature 0":            {tiny, "x\n", []string{"--temperature", "0"}, errext.Usage},
		"an unknown command":       {tiny, "/what\n", nil, errext.Input},
		"an unknown setting":       {tiny, "/set colour red\n", nil, errext.Input},
		"a wrong value":            {tiny, "/set temperature hot\n", nil, errext.Input},
		"a wrong seed":             {tiny, "/set seed -1\n", nil, errext.Input},
		"an enormous limit":        {tiny, "/set max_new_tokens 9000000000000000000\nx\n", []string{"--max-context-tokens", "64"}, 0},
		"an unfinished block":      {tiny, `"""x` + "\n", nil, errext.Input},
		"a full context":           {tiny, long, []string{"--max-context-tokens", "64"}, errext.Input},
		"/save of nothing":         {tiny, "/save x\n", nil, errext.Input},
		"nothing":                  {tiny, "", nil, 0},
	} {
		code, stdout, stderr, _ := chatWith(t, tt.model, tt.input, tt.args...)
		if code != int(tt.code) || code != 0 && stdout != "" {
			t.Errorf("%s: exit code %d, want %d\n%s%s", name, code, tt.code, stdout, stderr)
		}
		if strings.Contains(stderr, "strconv") {
			t.Errorf("%s: the error names a function of Go: %s", name, stderr)
		}
	}
	code, _, stderr, _ := chatWith(t, tiny, "/set temperature 0.5\n/set top_p 0.9\n/set top_k 3\n/set max_new_tokens 7\n/set seed 9\n/set\n")
	if code != 0 {
		t.Errorf("settings: exit code %d", code)
	}
	mustContain(t, "stderr", stderr, "temperature 0.5, top-p 0.9, top-k 3, seed 9, replies of at most 7 tokens")
	code, _, stderr, _ = chatWith(t, tiny, "hello\n/save twice.json\n/save twice.json\n")
	if code == 0 {
		t.Error("/save overwrites a file")
	}
	mustContain(t, "stderr", stderr, "/save: twice.json exists: choose another name")
	// A reply ends at the limit of the context, and the next message does not fit.
	code, stdout, stderr, _ := chatWith(t, tiny, "hello\nhello\nhello\nhello\nhello\nhello\nhello\nhello\n", "--max-context-tokens", "64")
	if code != int(errext.Input) || stdout == "" {
		t.Errorf("a conversation that fills the context: exit code %d\n%s", code, stderr)
	}
}

// screenText collects the output of a terminal.
type screenText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// waitFor waits until the output after from contains text, and returns the offset after it.
func (s *screenText) waitFor(t *testing.T, from int, text string) int {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		s.mu.Lock()
		all := s.b.String()
		s.mu.Unlock()
		if i := strings.Index(all[from:], text); i >= 0 {
			return from + i + len(text)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the terminal does not show %q after byte %d:\n%s", text, from, all)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// startOnPty starts the program on a pseudoterminal.
func startOnPty(t *testing.T, dir string, args ...string) (keys *os.File, shown *screenText, wait func() int) {
	t.Helper()
	master, slave := pty(t)
	cmd := exec.Command("openmanus", args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	shown = &screenText{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			shown.mu.Lock()
			shown.b.Write(buf[:n])
			shown.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // fails if the process has ended
	return master, shown, func() int {
		_ = cmd.Wait() // the exit code says more
		<-read
		return cmd.ProcessState.ExitCode()
	}
}

func typeKeys(t *testing.T, keys io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(keys, text); err != nil {
		t.Fatal(err)
	}
}

// TestChatOnTerminal types messages and commands, stops a reply with Ctrl-C, and ends with Ctrl-C at the prompt.
func TestChatOnTerminal(t *testing.T) {
	tiny, dir := tinyModel(t), t.TempDir()
	keys, shown, wait := startOnPty(t, dir, "chat", tiny, "--device", "cpu", "--max-new-tokens", "4000", "--greedy")
	at := shown.waitFor(t, 0, "> ")
	typeKeys(t, keys, "/set max_new_tokens 3\r")
	at = shown.waitFor(t, at, "at most 3 tokens")
	at = shown.waitFor(t, at, "> ")
	typeKeys(t, keys, "helo\x1b[Dl\r") // the left arrow, and the missing letter
	at = shown.waitFor(t, at, "cut after 3 tokens")
	at = shown.waitFor(t, at, "> ")
	typeKeys(t, keys, "/set max_new_tokens 4000\r")
	at = shown.waitFor(t, at, "> ")
	typeKeys(t, keys, "talk\r\n") // the second key is typed during the reply
	at = shown.waitFor(t, at, "talk\r\n")
	typeKeys(t, keys, "\x03")
	at = shown.waitFor(t, at, "(stopped)")
	at = shown.waitFor(t, at, "> ")
	typeKeys(t, keys, "/save saved.json\r")
	at = shown.waitFor(t, at, "saved.json)")
	at = shown.waitFor(t, at, "> ")
	typeKeys(t, keys, "half a line\x03")
	at = shown.waitFor(t, at, "Ctrl-C again")
	shown.waitFor(t, at, "> ")
	typeKeys(t, keys, "\x03")
	if code := wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	var saved struct{ Messages []data.Message }
	if err := json.Unmarshal(read(t, dir, "saved.json"), &saved); err != nil {
		t.Fatal(err)
	}
	if len(saved.Messages) < 2 || saved.Messages[0].Content != "hello" {
		t.Errorf("saved messages: %+v", saved.Messages)
	}
}

// TestChatInterrupted checks that a signal ends chat at the prompt and during a reply on a pipe.
func TestChatInterrupted(t *testing.T) {
	ts := newTestState(t, "chat", tinyModel(t), "--device", "cpu")
	in, user := io.Pipe()
	ts.Stdin = in
	defer user.Close()
	code := make(chan int)
	go func() { code <- Main(ts.State) }()
	if _, err := io.WriteString(user, "/set\n"); err != nil {
		t.Fatal(err)
	}
	ts.signals <- os.Interrupt
	if got := <-code; got != int(errext.Interrupted) {
		t.Errorf("exit code %d, want %d\n%s", got, errext.Interrupted, ts.err)
	}
}

// TestChatWithRun talks to the best checkpoint of a run.
func TestChatWithRun(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	train(t, dir).wait(t)
	p := openmanus(t, dir, "chat", filepath.Join("runs", "tiny"), "--device", "cpu", "--max-new-tokens", "5", "--greedy")
	p.wait(t)
}
