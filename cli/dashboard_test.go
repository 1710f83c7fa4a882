package cli

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTrainWithDashboard trains with a dashboard and reads its stream until the run has ended.
func TestTrainWithDashboard(t *testing.T) {
	ts := newTestState(t)
	writeFile(t, ts.Dir, "run.toml", tinyRun)
	ts.Now = time.Now
	ts.Args = append(ts.Args, "train", "--dashboard", "0", "run.toml", "--set", "trainer.total_steps=1", "--set", "sft.epochs=1", "--set", "model.fresh.walks=0", "--quiet")
	code := make(chan int, 1)
	go func() { code <- Main(ts.State) }()
	var url string
	for range 2000 {
		if m := regexp.MustCompile(`dashboard at (http://127.0.0.1:\d+/)`).FindStringSubmatch(ts.err.String()); m != nil {
			url = m[1]
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if url == "" {
		t.Fatalf("no address was printed: %s", ts.err.String())
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get(url + "events")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
	_ = reply.Body.Close()
	if c := <-code; c != 0 {
		t.Fatalf("exit code %d: %s", c, ts.err.String())
	}
	mustContain(t, "stream", string(stream), "event: run", "event: phase", `"task":"maze_`, "checkpoint saved", `"state":"finished"`)
	if i := strings.LastIndex(string(stream), "event: "); !strings.HasPrefix(string(stream)[i:], "event: end") {
		t.Errorf("the stream ends with %.100s", string(stream)[i:])
	}
}

// TestDashboardFlag checks the forms of the flag and its errors.
func TestDashboardFlag(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // arguments after arrange
	}{
		{[]string{"--dashboard", "my.toml"}, "--dashboard -- my.toml"},
		{[]string{"--dashboard", "8080", "my.toml"}, "--dashboard=8080 -- my.toml"},
		{[]string{"my.toml", "--dashboard", "0.0.0.0:80", "--quiet"}, "--dashboard=0.0.0.0:80 --quiet -- my.toml"},
		{[]string{"my.toml", "--dashboard"}, "--dashboard -- my.toml"},
		{[]string{"--dashboard=:80", "my.toml"}, "--dashboard=:80 -- my.toml"},
	} {
		ts := newTestState(t)
		got := strings.Join(arrange(newApp(ts.State), append([]string{"openmanus", "train"}, c.args...))[2:], " ")
		if got != c.want {
			t.Errorf("%q is arranged as %q, want %q", c.args, got, c.want)
		}
	}
	code, _, stderr := inProcess(t, t.TempDir(), "train", "--dashboard=here", "my.toml")
	if code != 2 || !strings.Contains(stderr, `"here" is not an address`) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
