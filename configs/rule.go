package configs

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// Ranges that only configuration keys use. Package registry has the others.

// topK allows -1 and 0, which mean all tokens, and counts of at least 1.
var topK = registry.Numbers("-1 or 0 (off), or at least 1", func(x float64) bool { return x >= -1 })

// orAll allows integers of at least 0, and -1 for all.
var orAll = registry.Numbers("-1 (all), or at least 0", func(x float64) bool { return x >= -1 })

// text allows the strings for which the function problem returns "".
func text(allowed string, problem func(s string) string) registry.Range {
	return registry.Range{Allowed: allowed, Check: func(v any) string { return problem(v.(string)) }}
}

// each allows lists of strings for which the function problem returns "".
func each(allowed string, problem func(s string) string) registry.Range {
	return registry.Range{Allowed: allowed, Check: func(v any) string {
		for _, s := range v.([]string) {
			if msg := problem(s); msg != "" {
				return msg
			}
		}
		return ""
	}}
}

// thresholds allows numbers above 0, and pairs of them joined by _.
var thresholds = each("a list of texts such as \"2\" and \"0.5_2\"", func(s string) string {
	for part := range strings.SplitSeq(s, "_") {
		if x, err := strconv.ParseFloat(part, 64); err != nil || !(x > 0) || strings.Count(s, "_") > 1 {
			return fmt.Sprintf("%q is not allowed; allowed: a number above 0, or for k1 two ratios such as \"0.5_2\"", s)
		}
	}
	return ""
})

var betas = registry.Range{Allowed: "two numbers from 0 to below 1", Check: func(v any) string {
	for _, b := range v.([2]float64) {
		if !(b >= 0 && b < 1) {
			return fmt.Sprintf("%v is not allowed; allowed: two numbers from 0 to below 1", b)
		}
	}
	return ""
}}

var device = text("auto | cpu | cuda | cuda:N", DeviceName)

// DeviceName returns the error text for an invalid device name, or "". It does not check that
// the device exists. The device of tests, protected, is valid but not offered.
func DeviceName(s string) string {
	if s == "auto" || s == "cpu" || s == "cuda" || s == "protected" {
		return ""
	}
	if n, ok := strings.CutPrefix(s, "cuda:"); ok {
		if _, err := strconv.ParseUint(n, 10, 8); err == nil {
			return ""
		}
	}
	return fmt.Sprintf("%q is not allowed; allowed: auto | cpu | cuda | cuda:N", s)
}

var serverURLs = each("http:// or https:// addresses", ServerURL)

// ServerURL returns the error text for an invalid server address, or "".
func ServerURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Sprintf("%q is not a server's address; an example is http://127.0.0.1:36001", s)
	}
	return ""
}

// endpointURL allows an address, or an empty string.
var endpointURL = text("empty, or an http:// or https:// address", func(s string) string {
	if s == "" {
		return ""
	}
	return ServerURL(s)
})

// tasks allows task files and index ranges.
func (s *Schema) tasks() registry.Range {
	return each("index ranges such as \"0-9,17\", or "+s.taskFiles(), s.taskSpec)
}

var indices = each("index ranges such as \"0-9,17\"", func(s string) string {
	if _, err := ParseIndices(s); err != nil {
		return err.Error()
	}
	return ""
})

// variables allows names that an environment variable can have.
var variables = registry.Range{Allowed: "", Check: func(v any) string {
	for _, name := range slices.Sorted(maps.Keys(v.(map[string]string))) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(v.(map[string]string)[name], "\x00") {
			return fmt.Sprintf("%q is not an environment variable", name)
		}
	}
	return ""
}}

// trajectories allows files of recorded trajectories only.
func (s *Schema) trajectories() registry.Range {
	return each(s.taskFiles(), func(name string) string {
		if s.IsTaskFile(name) {
			return ""
		}
		return fmt.Sprintf("%q is not allowed; allowed: %s", name, s.taskFiles())
	})
}

// folderName allows names of folders directly inside a parent folder.
var folderName = text("a name without / or \\", func(s string) string {
	if s != "" && (!filepath.IsLocal(s) || s == "." || strings.ContainsAny(s, "/\\\x00\n")) {
		return fmt.Sprintf("%q is not allowed; it names a folder under trainer.output_dir: a name without / or \\", s)
	}
	return ""
})

var notEmpty = text("not empty", func(s string) string {
	if s == "" {
		return "empty is not allowed"
	}
	return ""
})

// keyVariable allows the name of an environment variable. It rejects an API key.
var keyVariable = text(notEmpty.Allowed, func(s string) string {
	if strings.HasPrefix(s, "sk-") {
		return "this looks like a key: put it into an environment variable, and give the variable's name"
	}
	return notEmpty.Problem(s)
})
