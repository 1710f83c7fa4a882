package configs

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A rule says which values of a key are allowed. check gets a string, int,
// uint64, float64, bool or []string or
// map[string]string and returns what is wrong with it, or "".
type rule struct {
	allowed string
	check   func(v any) string
}

var anything = rule{}

// oneOf allows the given words. Words in later are those of the specification
// that this version does not know yet.
func oneOf(words []string, later ...string) rule {
	allowed := strings.Join(words, " | ")
	return rule{allowed, func(v any) string {
		s := v.(string)
		switch {
		case slices.Contains(words, s):
			return ""
		case slices.Contains(later, s):
			return fmt.Sprintf("%q is not implemented yet; allowed now: %s", s, allowed)
		}
		msg := fmt.Sprintf("%q is not allowed; allowed: %s", s, allowed)
		if n := Nearest(s, words); n != "" {
			msg += fmt.Sprintf("; did you mean %q?", n)
		}
		return msg
	}}
}

// eachOf is oneOf for every element.
func eachOf(words []string, later ...string) rule {
	one := oneOf(words, later...)
	return rule{"a list of " + one.allowed, func(v any) string {
		for i, s := range v.([]string) {
			if msg := one.check(s); msg != "" {
				return msg
			}
			if slices.Contains(v.([]string)[:i], s) {
				return fmt.Sprintf("%q is listed twice", s)
			}
		}
		return ""
	}}
}

func number(v any) float64 {
	switch n := v.(type) {
	case int:
		return float64(n)
	case uint64:
		return float64(n)
	case float64:
		return n
	}
	panic(fmt.Sprintf("configs: a number rule on a %T", v))
}

func numeric(allowed string, ok func(x float64) bool) rule {
	return rule{allowed, func(v any) string {
		x := number(v)
		if math.IsNaN(x) || math.IsInf(x, 0) || !ok(x) {
			return fmt.Sprintf("%v is not allowed; allowed: %s", v, allowed)
		}
		return ""
	}}
}

func atLeast(lo float64) rule {
	return numeric(fmt.Sprintf("at least %v", lo), func(x float64) bool { return x >= lo })
}

func above(lo float64) rule {
	return numeric(fmt.Sprintf("above %v", lo), func(x float64) bool { return x > lo })
}

func between(lo, hi float64) rule {
	return numeric(fmt.Sprintf("from %v to %v", lo, hi), func(x float64) bool { return x >= lo && x <= hi })
}

// aboveTo allows lo < x <= hi.
func aboveTo(lo, hi float64) rule {
	return numeric(fmt.Sprintf("above %v, at most %v", lo, hi), func(x float64) bool { return x > lo && x <= hi })
}

// topK is off at -1 and 0 and a count above.
var topK = numeric("-1 or 0 (off), or at least 1", func(x float64) bool { return x >= -1 })

// orOff allows -1, which stands for "not set", beside at least 0.
var orOff = numeric("-1 (not set), or at least 0", func(x float64) bool { return x >= -1 })

// orAll allows -1, which stands for all, beside at least 0.
var orAll = numeric("-1 (all), or at least 0", func(x float64) bool { return x >= -1 })

// thresholds allows numbers above 0, and two of them with _ between.
var thresholds = rule{"a list of texts such as \"2\" and \"0.5_2\"", func(v any) string {
	for _, s := range v.([]string) {
		for part := range strings.SplitSeq(s, "_") {
			if x, err := strconv.ParseFloat(part, 64); err != nil || !(x > 0) || strings.Count(s, "_") > 1 {
				return fmt.Sprintf("%q is not allowed; allowed: a number above 0, or for k1 two ratios such as \"0.5_2\"", s)
			}
		}
	}
	return ""
}}

var betas = rule{"two numbers from 0 to below 1", func(v any) string {
	for _, b := range v.([2]float64) {
		if !(b >= 0 && b < 1) {
			return fmt.Sprintf("%v is not allowed; allowed: two numbers from 0 to below 1", b)
		}
	}
	return ""
}}

var device = rule{"auto | cpu | cuda | cuda:N", func(v any) string { return DeviceName(v.(string)) }}

// DeviceName says what is wrong with the name of a device, or "". Whether the
// machine has it is for torch to say.
func DeviceName(s string) string {
	if s == "auto" || s == "cpu" || s == "cuda" {
		return ""
	}
	if n, ok := strings.CutPrefix(s, "cuda:"); ok {
		if _, err := strconv.ParseUint(n, 10, 8); err == nil {
			return ""
		}
	}
	return fmt.Sprintf("%q is not allowed; allowed: auto | cpu | cuda | cuda:N", s)
}

var serverURLs = rule{"http:// or https:// addresses", func(v any) string {
	for _, s := range v.([]string) {
		if msg := ServerURL(s); msg != "" {
			return msg
		}
	}
	return ""
}}

// ServerURL says what is wrong with the address of an environment server, or "".
func ServerURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Sprintf("%q is not a server's address; write it as http://127.0.0.1:36001", s)
	}
	return ""
}

// endpointURL allows an address, or none.
var endpointURL = rule{"empty, or an http:// or https:// address", func(v any) string {
	if s := v.(string); s != "" {
		return ServerURL(s)
	}
	return ""
}}

// tasks allows task files and index ranges.
var tasks = rule{"index ranges such as \"0-9,17\", or files ending in .parquet, .jsonl or .json", func(v any) string {
	for _, s := range v.([]string) {
		if msg := TaskSpec(s); msg != "" {
			return msg
		}
	}
	return ""
}}

var indices = rule{"index ranges such as \"0-9,17\"", func(v any) string {
	for _, s := range v.([]string) {
		if _, err := ParseIndices(s); err != nil {
			return err.Error()
		}
	}
	return ""
}}

// variables allows names that an environment variable can have.
var variables = rule{"", func(v any) string {
	for _, name := range slices.Sorted(maps.Keys(v.(map[string]string))) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(v.(map[string]string)[name], "\x00") {
			return fmt.Sprintf("%q is not an environment variable", name)
		}
	}
	return ""
}}

// taskFiles allows files of recorded trajectories only.
var taskFiles = rule{"files ending in .parquet, .jsonl or .json", func(v any) string {
	for _, s := range v.([]string) {
		if !IsTaskFile(s) {
			return fmt.Sprintf("%q is not allowed; allowed: files ending in .parquet, .jsonl or .json", s)
		}
	}
	return ""
}}

// folderName keeps a name that becomes a folder inside its parent.
var folderName = rule{"a name without / or \\", func(v any) string {
	s := v.(string)
	if s != "" && (!filepath.IsLocal(s) || s == "." || strings.ContainsAny(s, "/\\\x00\n")) {
		return fmt.Sprintf("%q is not allowed; it names a folder under trainer.output_dir: a name without / or \\", s)
	}
	return ""
}}

var notEmpty = rule{"not empty", func(v any) string {
	if v.(string) == "" {
		return "empty is not allowed"
	}
	return ""
}}

// keyVariable allows the name of the environment variable that holds a key,
// and refuses a key.
var keyVariable = rule{notEmpty.allowed, func(v any) string {
	if strings.HasPrefix(v.(string), "sk-") {
		return "this looks like a key: put it into an environment variable, and give the variable's name"
	}
	return notEmpty.check(v)
}}
