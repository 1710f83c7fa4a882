package view

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/data"
)

// probe is a script that sends the positions of the elements to the enclosing page
// after the layout.
const probe = `<script>addEventListener("load", function () { setTimeout(function () {
  const rect = function (e) { const r = e && e.getBoundingClientRect(); return r ? { Left: r.left, Top: r.top, Right: r.right, Bottom: r.bottom } : null; };
  const on = document.querySelector("article.on");
  parent.postMessage(JSON.stringify({
    Width: innerWidth, Height: innerHeight, Scroll: document.documentElement.scrollWidth, Shown: on && on.id, Hash: location.hash,
    Nav: rect(document.querySelector("nav")), Article: rect(on), Reply: rect(on && on.querySelector(".reply")),
    List: rect(document.getElementById("list")), Button: rect(document.querySelector("#list .on")), Text: document.querySelector("#list .on")?.textContent,
  }), "*");
}, 100); });</script></body>`

// frame shows the page in an iframe, because a window cannot be as narrow as a phone.
const frame = `<script>addEventListener("message", function (m) { document.documentElement.dataset.probe = m.data; });</script>
<iframe src="page.html%s" style="width: %dpx; height: 900px; border: 0"></iframe>`

type box struct{ Left, Top, Right, Bottom float64 }

type layout struct {
	Width, Height, Scroll             float64
	Shown, Hash, Text                 string
	Nav, Article, Reply, List, Button *box
}

// laidOut opens a page in a browser and returns the positions of the elements. It skips
// the test if Chromium is not installed.
func laidOut(t *testing.T, page, hash string, width int) layout {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	page = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(page, "")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"page.html": strings.Replace(page, "</body>", probe, 1), "frame.html": fmt.Sprintf(frame, hash, width),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+dir, "--virtual-time-budget=2000",
		"--window-size=1400,1000", "--dump-dom", "file://"+filepath.Join(dir, "frame.html")).Output()
	if err != nil {
		t.Fatalf("%s: %v", browser, err)
	}
	m := regexp.MustCompile(`data-probe="([^"]*)"`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("the browser returned no layout: %.300s", out)
	}
	var l layout
	if err := json.Unmarshal([]byte(html.UnescapeString(string(m[1]))), &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLayout opens a run's page on a wide and on a narrow screen, with and
// without the hash of an episode.
func TestLayout(t *testing.T) {
	var episodes []*data.Episode
	for range 60 {
		episodes = append(episodes, testEpisode(""))
	}
	page := render(t, Options{Title: "episodes of a run", Pieces: letters}, episodes...)
	for _, width := range []int{420, 1280} {
		for _, hash := range []string{"", "#e40"} {
			t.Run(fmt.Sprint(width, strings.TrimPrefix(hash, "#")), func(t *testing.T) {
				l := laidOut(t, page, hash, width)
				if l.Article == nil || l.Reply == nil || l.Button == nil {
					t.Fatalf("the page shows no episode: %+v", l)
				}
				if l.Width != float64(width) || l.Scroll > l.Width {
					t.Errorf("the width of the page is %v on a screen of %v", l.Scroll, l.Width)
				}
				if w := l.Reply.Right - l.Reply.Left; w < 0.6*min(l.Width, 800) {
					t.Errorf("the width of a reply is %v on a screen of %v", w, l.Width)
				}
				if !strings.Contains(l.Text, "step 1") {
					t.Errorf("the entry of an episode in the list is %q, want its step in it", l.Text)
				}
				if l.Button.Top < l.List.Top-1 || l.Button.Bottom > l.List.Bottom+1 {
					t.Errorf("the list does not show the selected episode: %+v in %+v", *l.Button, *l.List)
				}
				want := "e0"
				if hash != "" {
					want = "e40"
				}
				if l.Shown != want || l.Hash != hash {
					t.Errorf("got episode %s and hash %q, want %s and %q", l.Shown, l.Hash, want, hash)
				}
				if hash == "" && l.Nav.Top != 0 {
					t.Errorf("the page opens scrolled to %v", -l.Nav.Top)
				}
				if hash != "" && (l.Article.Top < 0 || l.Article.Top > 100) {
					t.Errorf("the top of the episode is at %v", l.Article.Top)
				}
			})
		}
	}
}
