// Command pictures makes the pictures of the report and of the dashboard in this folder, with
// Chromium:
//
//	go run ./docs/pictures -report report.html -dashboard http://127.0.0.1:7860/
//
// make.sh trains the runs that the pictures show. Without -dashboard only the pictures of the report are made.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// maxSize bounds the bytes of a picture.
const maxSize = 150_000

// picture is a picture of a page.
type picture struct {
	name          string
	width, height int
	dark          bool
	wait          string // expression that is true when the page is ready
}

const drawn = `document.querySelector("#chart-success path.curve")`

var reports = []picture{
	{"report-light", 1280, 900, false, drawn},
	{"report-dark", 1280, 900, true, drawn},
	{"report-phone", 390, 844, false, drawn},
}

const playing = drawn + ` && parseInt(document.getElementById("live-running").textContent) > 5 && document.querySelectorAll("#live-turns pre").length > 6`

var dashboards = []picture{
	{"dashboard-light", 1280, 860, false, playing},
	{"dashboard-dark", 1280, 860, true, playing},
	{"dashboard-phone", 390, 844, true, playing},
}

func main() {
	report := flag.String("report", "", "`FILE` of openmanus report --html")
	dashboard := flag.String("dashboard", "", "`URL` of a dashboard, which openmanus train --dashboard prints")
	out := flag.String("out", "docs/pictures", "`FOLDER` for the pictures")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := makeAll(ctx, *report, *dashboard, *out); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func makeAll(ctx context.Context, report, dashboard, out string) (err error) {
	b, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if report != "" {
		path, err := filepath.Abs(report)
		if err != nil {
			return err
		}
		for _, p := range reports {
			if err := b.shoot("file://"+path, p, out); err != nil {
				return err
			}
		}
	}
	if dashboard != "" {
		for _, p := range dashboards {
			if err := b.shoot(dashboard, p, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// browser is a Chromium that is driven by the DevTools protocol over pipes: JSON messages that end with a zero byte.
type browser struct {
	cmd  *exec.Cmd
	to   *os.File
	from *os.File
	rest []byte // received bytes after the last message
	dir  string
	next int // id of the next call
}

func open(ctx context.Context) (*browser, error) {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return nil, err
	}
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, outPipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &browser{to: to, from: from, dir: dir}
	b.cmd = exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+dir)
	b.cmd.ExtraFiles = []*os.File{in, outPipe} // descriptors 3 and 4
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	return b, errors.Join(in.Close(), outPipe.Close())
}

func (b *browser) close() error {
	err := b.cmd.Process.Kill()
	_ = b.cmd.Wait() // reports the kill
	return errors.Join(err, b.to.Close(), b.from.Close(), os.RemoveAll(b.dir))
}

// call calls a method of the protocol and stores its result. session is "" for the browser itself.
func (b *browser) call(session, method string, params, result any) error {
	b.next++
	id := b.next
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	if err != nil {
		return err
	}
	if session != "" {
		text = append(text[:len(text)-1], fmt.Sprintf(`,"sessionId":%q}`, session)...)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return err
	}
	for {
		message, err := b.read()
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		var reply struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(message, &reply); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		switch {
		case reply.ID != id: // an event
		case reply.Error != nil:
			return fmt.Errorf("%s: %s", method, reply.Error.Message)
		case result != nil:
			return json.Unmarshal(reply.Result, result)
		default:
			return nil
		}
	}
}

// read returns the next message.
func (b *browser) read() ([]byte, error) {
	for {
		if message, rest, ok := bytes.Cut(b.rest, []byte{0}); ok {
			b.rest = rest
			return message, nil
		}
		part := make([]byte, 1<<16)
		n, err := b.from.Read(part)
		if n == 0 && err != nil {
			return nil, errors.Join(err, io.ErrUnexpectedEOF)
		}
		b.rest = append(b.rest, part[:n]...)
	}
}

// shoot writes a picture of the page at url.
func (b *browser) shoot(url string, p picture, out string) error {
	var target struct{ TargetID string }
	if err := b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	scheme := "light"
	if p.dark {
		scheme = "dark"
	}
	wait := `new Promise(function (done) { const look = function () { if (` + p.wait + `) setTimeout(done, 300); else setTimeout(look, 50); }; look(); }).then(function () { return true; })`
	var shot struct{ Data string }
	for _, c := range []struct {
		method string
		params map[string]any
		result any
	}{
		{"Emulation.setDeviceMetricsOverride", map[string]any{"width": p.width, "height": p.height, "deviceScaleFactor": 1, "mobile": false}, nil},
		{"Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil},
		{"Page.enable", map[string]any{}, nil},
		{"Page.navigate", map[string]any{"url": url}, nil},
		{"Runtime.evaluate", map[string]any{"expression": `new Promise(function (done) { setTimeout(done, 1000); })`, "awaitPromise": true}, nil},
		{"Runtime.evaluate", map[string]any{"expression": wait, "awaitPromise": true}, nil},
		{"Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": false}, &shot},
		{"Page.close", map[string]any{}, nil},
	} {
		if err := b.call(attached.SessionID, c.method, c.params, c.result); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	image, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if len(image) > maxSize {
		return fmt.Errorf("%s has %d bytes, more than %d", p.name, len(image), maxSize)
	}
	fmt.Printf("%s.png: %d bytes\n", p.name, len(image))
	return os.WriteFile(filepath.Join(out, p.name+".png"), image, 0o644)
}
