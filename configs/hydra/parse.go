package hydra

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// script is a parsed Bash script.
type script struct {
	src  string // as parsed: see normalize
	file *syntax.File
}

// parseScript parses a script. Nothing in it is run.
func parseScript(text string) (*script, error) {
	src := normalize(text)
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
	if fault, ok := errors.AsType[syntax.ParseError](err); ok {
		return nil, fmt.Errorf("line %d: %s", fault.Pos.Line(), fault.Text)
	}
	return &script{src, file}, err
}

// Private runes replace characters that the parser would misread. Two of them
// replace the $ of Hydra's ${...} forms, which published scripts do not quote
// although they are not shell variables.
const (
	hydraKey   = "\uE000" // ${section.key}
	hydraOther = "\uE001" // a resolver, such as ${now:%Y}: its value is unknown
	apostrophe = "\uE002" // the ' in "${NAME:-it's}", which the parser takes for a quote
)

var (
	// spacedContinuation is a backslash with blanks or a comment before the end
	// of the line. A shell ends the command there, but authors of start scripts
	// intend to continue it.
	spacedContinuation = regexp.MustCompile(`(?m)((?:^|[^\\])(?:\\\\)*\\)[ \t]+(?:#.*)?$`)
	braced             = regexp.MustCompile(`(\\*)\$(\{([^{}\s"'\x60\\]+)\})`)
	shellForm          = regexp.MustCompile(`^[!#]?(\w+|[@*#?$!-])(\[[^\]]*\])?(:?[-=?+].*|[#%/^,@].*|:[\w$(].*)?$`)
	defaulted          = regexp.MustCompile(`\$\{\w+:?[-=][^{}"$]*\}`)
	unknownForm        = regexp.MustCompile(hydraOther + `\{[^}]*\}`)
)

// normalize rewrites those constructs of published start scripts that a shell
// would reject. It keeps line numbers.
func normalize(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = spacedContinuation.ReplaceAllString(text, "$1")
	text = defaulted.ReplaceAllStringFunc(text, func(s string) string {
		if strings.Count(s, "'")%2 == 0 {
			return s
		}
		return strings.ReplaceAll(s, "'", apostrophe)
	})
	return braced.ReplaceAllStringFunc(text, func(s string) string {
		m := braced.FindStringSubmatch(s)
		switch {
		case len(m[1])%2 == 1 || shellForm.MatchString(m[3]):
			return s
		case isKey(m[3]):
			return m[1] + hydraKey + m[2]
		}
		return m[1] + hydraOther + m[2]
	})
}

// restore is the inverse of normalize for a piece of text.
func restore(s string) string {
	return strings.NewReplacer(hydraKey, "$", hydraOther, "$", apostrophe, "'").Replace(s)
}

// text returns the source of a node.
func (s *script) text(n syntax.Node) string {
	return restore(s.src[n.Pos().Offset():n.End().Offset()])
}
