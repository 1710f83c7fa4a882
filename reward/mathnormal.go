package reward

import (
	"regexp"
	"strings"
)

// normalizeMath normalises an answer so that most equal answers have the same text
// (_strip_string of the MATH code, spec 6.3): no newlines, spacing or
// units; no degree, dollar or per cent signs; \frac{a}{b} for every spelling
// of a fraction; \sqrt{3} for \sqrt3; the right side of "k = 7".
func normalizeMath(s string) string {
	s = strings.NewReplacer("\n", "", `\!`, "").Replace(s)
	s = strings.ReplaceAll(s, `\\`, `\`)
	s = strings.NewReplacer("tfrac", "frac", "dfrac", "frac", `\left`, "", `\right`, "", `^{\circ}`, "", `^\circ`, "", `\$`, "").Replace(s)
	if parts := strings.Split(s, `\text{ `); len(parts) == 2 { // a unit
		s = parts[0]
	}
	s = strings.NewReplacer(`\%`, "", "%", "", " .", " 0.", "{.", "{0.").Replace(s)
	if strings.HasPrefix(s, ".") {
		s = "0" + s
	}
	if parts := strings.Split(s, "="); len(parts) == 2 && len(strings.TrimSpace(parts[0])) <= 2 {
		s = parts[1]
	}
	s = bareRoot.ReplaceAllString(s, `\sqrt{$1}`)
	s = strings.ReplaceAll(s, " ", "")
	s = braceFractions(s)
	if s == "0.5" {
		return `\frac{1}{2}`
	}
	if m := slash.FindStringSubmatch(s); m != nil {
		s = `\frac{` + m[1] + `}{` + m[2] + `}`
	}
	return s
}

var (
	bareRoot = regexp.MustCompile(`\\sqrt\s*([^{\[\s\\])`)
	slash    = regexp.MustCompile(`^(-?[0-9]+)/(-?[0-9]+)$`)
)

// braceFractions writes \frac12 and \frac1{72} as \frac{1}{2} and
// \frac{1}{72}.
func braceFractions(s string) string {
	parts := strings.Split(s, `\frac`)
	var b strings.Builder
	b.WriteString(parts[0])
	for _, p := range parts[1:] {
		b.WriteString(`\frac`)
		if p == "" || p[0] == '{' || len(p) < 2 {
			b.WriteString(p)
			continue
		}
		b.WriteString("{" + p[:1] + "}")
		if p[1] == '{' {
			b.WriteString(p[1:])
		} else {
			b.WriteString("{" + p[1:2] + "}" + p[2:])
		}
	}
	return b.String()
}
