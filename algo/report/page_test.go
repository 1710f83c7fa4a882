package report

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/internal/browsertest"
)

// hostile is text that would break out of HTML, attributes or scripts if it were not escaped.
const hostile = `</script><script>document.title="broken"</script><img src=x onerror="document.title='broken'">"'&\u2028`

func pageOf(t *testing.T, runs ...*Run) []byte {
	t.Helper()
	var b bytes.Buffer
	check(t, Write(&b, runs, Options{Title: "runs " + hostile, Made: hostile, Now: time.Unix(1790001000, 0)}))
	return b.Bytes()
}

func serve(page []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
}

// twoRuns returns a finished run with hostile texts in its folder and a shorter run.
func twoRuns(t *testing.T) []*Run {
	t.Helper()
	var runs []*Run
	for i, n := range []int{24, 12} {
		f := newFolder(t, fmt.Sprint("run-", i))
		f.metrics(steps(1, n)...)
		f.metrics(track.Line{Phase: track.PhaseTrain, Step: n, Metrics: track.Metrics{"reward/" + hostile + "/mean": 1}})
		f.metrics(track.Line{Phase: track.PhaseTrain, Step: n, Metrics: track.Metrics{track.ValidationLoss: 2}}) // a validation without episodes
		f.metrics(track.Line{Phase: track.PhaseTrain, Step: n, Metrics: track.Metrics{                           // a validation whose scores are not finite
			"val/bad/success_rate": math.NaN(), "val/bad/episodes": 4, "val/bad/mean_score": math.Inf(1)}})
		f.file(f.Log(), fmt.Sprintf("{\"msg\":\"the run ended\",\"error\":%q}\n", hostile))
		f.file(f.Config(), fmt.Sprintf("[trainer]\nexperiment = %q\ntotal_steps = %d\n", "<b>"+hostile[:20], n))
		f.checkpoint(rundir.State{Step: n, Finished: true})
		r, err := Open(f.Dir)
		check(t, err)
		r.Name += " " + hostile
		r.Episodes = []EpisodeLink{{Label: hostile, Href: "javascript:document.title='broken'"}, {Label: "step 1", Href: "e.html#e0", Note: hostile}}
		runs = append(runs, r)
	}
	return runs
}

// TestPageIsSelfContained checks that the page names no other host and that its only scripts and styles are
// the ones that its policy allows.
func TestPageIsSelfContained(t *testing.T) {
	page := string(pageOf(t, twoRuns(t)...))
	for _, bad := range []string{"<img", "<b>", `href="javascript:`} {
		if strings.Contains(strings.Replace(page, "<b>?</b>", "", 1), bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("the page has %d script elements, want the data and the script", n)
	}
	if urls := regexp.MustCompile(`https?://[^\s"'<]+`).FindAllString(page, -1); len(urls) != 1 || urls[0] != "http://www.w3.org/2000/svg" {
		t.Errorf("addresses in the page: %q, want only the namespace of SVG", urls)
	}
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil || !strings.Contains(policy[1], "default-src &#39;none&#39;") || strings.Contains(policy[1], "connect-src") || strings.Contains(policy[1], "unsafe") {
		t.Errorf("policy %q", policy)
	}
}

// look reads the layout and the curves of the page.
const look = `
  const d = page.document;
  const count = function (q) { return d.querySelectorAll(q).length; };
  await wait(function () { return d.querySelector("#chart-success path.curve"); });
  const success = d.querySelector("#chart-success");
  const out = { Width: page.innerWidth, Scroll: d.documentElement.scrollWidth, Title: d.title, Charts: count("#charts figure:not([hidden])"),
    Paths: count("#chart-success path.curve"), Points: count("#chart-success .plot circle.hollow"), Buttons: count("#runs button"),
    Bars: count("#times figure:not([hidden]) rect"), Back: page.getComputedStyle(d.body).backgroundColor, Label: success.querySelector(".plot svg").getAttribute("aria-label"),
    Images: count("img"), Marked: count("#settings tr.differs"), Rows: Array.from(d.querySelectorAll("#settings tbody tr")).filter(function (r) { return !r.hidden; }).length };
  const svg = success.querySelector(".plot svg"), box = svg.getBoundingClientRect();
  svg.dispatchEvent(new page.PointerEvent("pointermove", { bubbles: true, clientX: box.right - 11, clientY: box.top + 20 }));
  out.Tip = success.querySelector(".tip").textContent;
  const tip = success.querySelector(".tip").getBoundingClientRect();
  out.TipInside = tip.left >= 0 && tip.right <= page.innerWidth;
  out.Crossed = count(".cursor");
  svg.dispatchEvent(new page.KeyboardEvent("keydown", { bubbles: true, key: "Home" }));
  out.Said = d.getElementById("said").textContent;
  const button = d.querySelector("#runs button");
  if (button) button.click();
  out.PathsWithoutFirst = count("#chart-success path.curve");
  d.getElementById("smooth").value = "0.5";
  d.getElementById("smooth").dispatchEvent(new page.Event("input"));
  out.Raw = count("#chart-success path.raw");
  d.getElementById("all").open = true;
  await wait(function () { return count("#all-charts figure"); });
  out.All = count("#all-charts figure");
  out.ScrollAll = d.documentElement.scrollWidth;
  out.Title = d.title;
  return out;`

type looked struct {
	Width, Scroll, ScrollAll, Charts, Paths, Points, Buttons, Bars, Images, Marked, Rows, PathsWithoutFirst, Raw, All, Crossed int
	Title, Back, Label, Tip, Said                                                                                              string
	TipInside                                                                                                                  bool
}

// TestPageInBrowser opens the page of two runs at the widths of a phone and of a desktop, light and dark.
func TestPageInBrowser(t *testing.T) {
	page := pageOf(t, twoRuns(t)...)
	for _, width := range []int{390, 1400} {
		for _, dark := range []bool{false, true} {
			t.Run(fmt.Sprint(width, map[bool]string{true: " dark", false: " light"}[dark]), func(t *testing.T) {
				var l looked
				browsertest.Run(t, browsertest.Page{Handler: serve(page), Width: width, Dark: dark, Script: look}, &l)
				if l.Width != width || l.Scroll > width || l.ScrollAll > width {
					t.Errorf("the width of the page is %d, with all metrics %d, in a frame of %d", l.Scroll, l.ScrollAll, width)
				}
				if want := "runs " + hostile; l.Title != strings.TrimSpace(want) || l.Images != 0 {
					t.Errorf("title %q and %d images: text of a run was run as markup", l.Title, l.Images)
				}
				if l.Charts < 7 || l.Paths != 2 || l.Points != 6 || l.Bars == 0 || l.Buttons != 2 {
					t.Errorf("%d charts, %d curves and %d validations of success, %d bars, %d buttons; want at least 7, 2, 6, some, 2", l.Charts, l.Paths, l.Points, l.Bars, l.Buttons)
				}
				if !strings.HasPrefix(l.Tip, "step 24") || !strings.Contains(l.Tip, "0.9817") || !strings.Contains(l.Tip, "1 (0.9434 to 1)") || !l.TipInside || l.Crossed < 7 {
					t.Errorf("the tooltip shows %q (inside: %v, %d charts are crossed), want the values of step 24", l.Tip, l.TipInside, l.Crossed)
				}
				if !strings.HasPrefix(l.Said, "step 1: ") || !strings.Contains(l.Said, "0.1535") {
					t.Errorf("the keyboard reads %q, want the values of step 1", l.Said)
				}
				if !strings.Contains(l.Label, "0.9817 at step 24") {
					t.Errorf("the text of the chart is %q", l.Label)
				}
				if l.PathsWithoutFirst != 1 || l.Raw != 1 || l.All < 10 {
					t.Errorf("%d curves without the first run, %d unsmoothed curves, %d charts of all metrics; want 1, 1, at least 10", l.PathsWithoutFirst, l.Raw, l.All)
				}
				if l.Marked != 1 || l.Rows != 1 {
					t.Errorf("%d settings are marked and %d shown, want the one that differs", l.Marked, l.Rows)
				}
				if want := map[bool]string{true: "rgb(16, 19, 24)", false: "rgb(246, 247, 249)"}[dark]; l.Back != want {
					t.Errorf("the background is %s, want %s", l.Back, want)
				}
			})
		}
	}
}

// TestLongRunInBrowser opens a run of 10,000 steps. The page stays small, and a chart has at most two points per pixel.
func TestLongRunInBrowser(t *testing.T) {
	f := newFolder(t, "long")
	var text strings.Builder
	for n := 1; n <= 10000; n++ {
		fmt.Fprintf(&text, `{"step":%d,"phase":"train","%s":%g,"%s":%g,"%s":%g}`+"\n", n, track.SuccessRate, float64(n%100)/100, track.ActorGradNorm, float64(n%7)+0.01, track.Timing("gen"), float64(n%5))
		if n%100 == 0 {
			fmt.Fprintf(&text, `{"step":%d,"phase":"train","val/maze/success_rate":0.5,"val/maze/episodes":8}`+"\n", n)
		}
	}
	f.file(f.Metrics(), text.String())
	r, err := Open(f.Dir)
	check(t, err)
	page := pageOf(t, r)
	if len(page) > 400<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
	var got struct{ Points, Bars, Intervals, Validations int }
	browsertest.Run(t, browsertest.Page{Handler: serve(page), Width: 1400, Script: `
	  const d = page.document;
	  const path = await wait(function () { return d.querySelector("#chart-success path.curve"); });
	  return { Points: path.getAttribute("d").split(/[ML]/).length - 1, Bars: d.querySelectorAll("#times rect").length,
	    Intervals: d.querySelectorAll("#chart-success path.bar").length, Validations: d.querySelectorAll("#chart-success svg circle").length };`}, &got)
	if got.Points < 200 || got.Points > 2*1400 || got.Bars < 50 || got.Bars > 1400 {
		t.Errorf("%d points and %d bars, want at most two points per pixel and fewer bars than pixels", got.Points, got.Bars)
	}
	if got.Intervals != 0 || got.Validations < 100 {
		t.Errorf("%d intervals and %d validations, want 100 validations without their intervals, which would cover the curve", got.Intervals, got.Validations)
	}
}
