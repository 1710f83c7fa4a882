package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The size of a picture and of the plot's margins, in pixels.
const (
	curveWidth, curveHeight = 560, 320
	curveLeft, curveRight   = 48, 16
	curveTop, curveBottom   = 36, 44
)

// curveColors are the colours of the seeds. They are readable on a light and on a dark page.
var curveColors = []string{"#2f7ed8", "#d9822b", "#2e9e5b", "#a855c7", "#c0392b"}

// writeCurves writes a picture NAME.svg of each lesson to the folder dir.
func (l *Learns) writeCurves(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	byLesson := map[string][]LessonRun{}
	for _, r := range l.Runs {
		byLesson[r.Lesson] = append(byLesson[r.Lesson], r)
	}
	for name, runs := range byLesson {
		if err := os.WriteFile(filepath.Join(dir, name+".svg"), []byte(curve(name, l.Model, runs)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// curve draws the success rate of each validation against the step as SVG: a line for each seed, with the 95 % intervals.
func curve(name, model string, runs []LessonRun) string {
	last, longest := 1, runs[0]
	for _, r := range runs {
		last = max(last, r.after().Step)
		if r.after().Step > longest.after().Step {
			longest = r
		}
	}
	x := func(step int) float64 {
		return curveLeft + float64(step)/float64(last)*(curveWidth-curveLeft-curveRight)
	}
	y := func(p float64) float64 { return curveTop + (1-p)*(curveHeight-curveTop-curveBottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", curveWidth, curveHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", curveWidth, curveHeight)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="14">%s, %s: success on held-out tasks</text>`+"\n", curveLeft, name, strings.TrimSuffix(model, ".gguf"))
	for i := range 5 {
		p := float64(i) / 4
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#d0d0d0"/><text x="%d" y="%.1f" text-anchor="end">%.2f</text>`+"\n",
			curveLeft, y(p), curveWidth-curveRight, curveLeft-6, y(p)+4, p)
	}
	apart := (len(longest.Points) + 7) / 8 // at most eight labels
	for i := 0; i < len(longest.Points); i += apart {
		step := longest.Points[i].Step
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(step), curveHeight-curveBottom+18, step)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">step</text>`+"\n", (curveLeft+curveWidth-curveRight)/2, curveHeight-8)
	for i, r := range runs {
		color := curveColors[i%len(curveColors)]
		var line []string
		for _, p := range r.Points {
			at := x(p.Step) + 3*(float64(i)-float64(len(runs)-1)/2) // intervals of several seeds stand side by side
			line = append(line, fmt.Sprintf("%.1f,%.1f", at, y(p.Success)))
			fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="%s" stroke-opacity="0.5" stroke-width="2"/><circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n",
				at, y(p.Low), y(p.High), color, at, y(p.Success), color)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.Join(line, " "), color)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" text-anchor="end">seed %d</text>`+"\n", curveWidth-curveRight-56*(len(runs)-1-i), curveHeight-8, color, r.Seed)
	}
	return b.String() + "</svg>\n"
}
