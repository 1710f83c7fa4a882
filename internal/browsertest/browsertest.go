// Package browsertest opens pages of the program in headless Chromium, for tests.
package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
	"time"
)

// Page is a page in a frame of a browser.
type Page struct {
	Handler http.Handler // serves the page
	Path    string       // path of the page, "" for "/"
	Host    string       // the Host header that Handler receives; "": that of the test's server
	Width   int          // of the frame in pixels; a window cannot be as narrow as a phone
	Dark    bool         // the browser prefers dark colours
	// Script is the body of an async function. Its parameter page is the window of the
	// page, and wait(f) resolves to the first result of f that is not false. The value that it returns
	// is decoded into the argument result of Run.
	Script string
}

// frame shows the page in a frame and runs the script of the test. The page is of the same origin,
// so that the script can read it, and its own content security policy stays in force.
const frame = `<!doctype html><iframe src="%s" style="width: %dpx; height: 900px; border: 0"></iframe><script>
addEventListener("load", async function () {
  const wait = async function (f) {
    for (;;) {
      const r = f();
      if (r) return r;
      await new Promise(function (done) { setTimeout(done, 20); });
    }
  };
  const page = document.querySelector("iframe").contentWindow;
  let result;
  try {
    result = { value: await (async function (page, wait) { %s })(page, wait) };
  } catch (e) {
    result = { error: String(e && e.stack || e) };
  }
  await fetch("/-result", { method: "POST", body: JSON.stringify(result) });
});
</script>`

// timeout bounds a run of the browser.
const timeout = time.Minute

// Run opens the page and stores the result of its script in result. It skips the test if
// Chromium is not installed.
func Run(t *testing.T, p Page, result any) {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	if p.Path == "" {
		p.Path = "/"
	}
	results := make(chan []byte, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-frame", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, frame, p.Path, p.Width, p.Script)
	})
	mux.HandleFunc("POST /-result", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an incomplete body is no JSON
		select {
		case results <- body:
		default:
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if p.Host != "" {
			r.Host = p.Host
		}
		p.Handler.ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	defer func() {
		server.CloseClientConnections()
		server.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	scheme := 1
	if p.Dark {
		scheme = 0
	}
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--user-data-dir="+t.TempDir(),
		fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme), "--window-size=1500,1000", server.URL+"/-frame")
	cmd.WaitDelay = 5 * time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var body []byte
	select {
	case body = <-results:
		cancel()
		<-ended
	case err := <-ended:
		t.Fatalf("%s ended without a result: %v\n%.2000s", browser, err, log.String())
	}
	var reply struct {
		Value json.RawMessage
		Error string
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		t.Fatalf("the browser returned %.300q: %v", body, err)
	}
	if reply.Error != "" {
		t.Fatalf("the script failed: %s", reply.Error)
	}
	if err := json.Unmarshal(reply.Value, result); err != nil {
		t.Fatalf("the script returned %.300s: %v", reply.Value, err)
	}
}
