package view

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strconv"

	"github.com/openmanus/openmanus/data"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

var templates = template.Must(template.New("page").Funcs(template.FuncMap{"visible": visible, "inc": func(i int) int { return i + 1 }}).Parse(pageHTML))

// Options configures a page.
type Options struct {
	Title string
	Note  string // text above the list, such as the number of omitted episodes
	// Pieces returns the text of each token id: "" for an incomplete character,
	// which a later id completes. If Pieces is nil, ids are shown as numbers.
	Pieces func(ids []int32) []string
}

// Page writes a page, one episode at a time.
type Page struct {
	w      io.Writer
	pieces func(ids []int32) []string
	n      int
}

// NewPage writes the beginning of a page.
func NewPage(w io.Writer, o Options) (*Page, error) {
	// The browser only runs the script and applies the styles with these hashes,
	// so that injected text remains text.
	policy := fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; base-uri 'none'; form-action 'none'", hashOf(pageJS), hashOf(pageCSS))
	err := templates.ExecuteTemplate(w, "head", map[string]any{
		"Title": visible(o.Title), "Note": visible(o.Note), "Policy": policy, "CSS": template.CSS(pageCSS),
	})
	if err != nil {
		return nil, fmt.Errorf("write page: %w", err)
	}
	return &Page{w: w, pieces: o.Pieces}, nil
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// episodePart is an episode for the template.
type episodePart struct {
	*data.Episode
	Nr      int    // number of the episode on the page
	Row     int    // row of the episode in Source
	Source  string // file of the episode
	Origin  string
	Sampled int
	Opening []data.Message
	Turns   []turnPart
	Stream  tokenStream
}

type turnPart struct {
	*data.Turn
	Facts turnFacts
}

// tokenStream contains the tokens that the page's script colours. It is escaped as JSON
// in a script element that browsers do not run.
type tokenStream struct {
	IDs   []int32   `json:"ids"`
	Mask  string    `json:"mask"`
	LogP  []logProb `json:"lp"`
	Texts []string  `json:"text,omitempty"` // nil without a tokenizer
}

// logProb is a log-prob with the digits that a tooltip shows.
type logProb float32

// MarshalJSON encodes the rounded number, null for NaN.
func (l logProb) MarshalJSON() ([]byte, error) {
	if l != l { // NaN
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, max(float64(l), -1e9), 'g', 4, 32), nil
}

// Add writes the episode e, which is in the given row of the file named by the argument source.
func (p *Page) Add(source string, row int, e *data.Episode) error {
	part := episodePart{
		Episode: e, Nr: p.n, Row: row, Source: source, Origin: Origin(source), Sampled: e.SampledTokens(), Opening: opening(e),
		Stream: tokenStream{IDs: append([]int32{}, e.Tokens...), LogP: []logProb{}},
	}
	p.n++
	for i := range e.Turns {
		part.Turns = append(part.Turns, turnPart{&e.Turns[i], factsOf(e, &e.Turns[i])})
	}
	mask := make([]byte, len(e.Mask))
	for i, m := range e.Mask {
		mask[i] = '0' + m&1
	}
	part.Stream.Mask = string(mask)
	for _, lp := range e.LogProbs {
		part.Stream.LogP = append(part.Stream.LogP, logProb(lp))
	}
	if p.pieces != nil {
		part.Stream.Texts = p.pieces(e.Tokens)
		for i, s := range part.Stream.Texts {
			part.Stream.Texts[i] = visible(s)
		}
	}
	if err := templates.ExecuteTemplate(p.w, "episode", part); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// Close writes the end of the page. It does not close the io.Writer.
func (p *Page) Close() error {
	if err := templates.ExecuteTemplate(p.w, "foot", map[string]any{"JS": template.JS(pageJS)}); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
