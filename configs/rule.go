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

// The ranges that only configuration keys have. package registry has the others.

// topK is off at -1 and 0 and a count above.
var topK = registry.Numbers("-1 or 0 (off), or at least 1", func(x float64) bool { return x >= -1 })

// orAll allows integers of at least 0, and -1 for all.
var orAll = registry.Numbers("-1 (all), or at least 0", func(x float64) bool { return x >= -1 })

// thresholds allows numbers above 0, and two of them with _ between.
var thresholds = registry.Range{Allowed: "a list of texts such as \"2\" and \"0.5_2\"", Check: func(v any) string {
	for _, s := range v.([]string) {
		for part := range strings.SplitSeq(s, "_") {
			if x, err := strconv.ParseFloat(part, 64); err != nil || !(x > 0) || strings.Count(s, "_") > 1 {
				return fmt.Sprintf("%q is not allowed; allowed: a number above 0, or for k1 two ratios such as \"0.5_2\"", s)
			}
		}
	}
	return ""
}}

var betas = registry.Range{Allowed: "two numbers from 0 to below 1", Check: func(v any) string {
	for _, b := range v.([2]float64) {
		if !(b >= 0 && b < 1) {
			return fmt.Sprintf("%v is not allowed; allowed: two numbers from 0 to below 1", b)
		}
	}
	return ""
}}

var device = registry.Range{Allowed: "auto | cpu | cuda | cuda:N", Check: func(v any) string { return DeviceName(v.(string)) }}

// DeviceName returns the fault of a device's name, or "". It does not check that
// the device exists.
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

var serverURLs = registry.Range{Allowed: "http:// or https:// addresses", Check: func(v any) string {
	for _, s := range v.([]string) {
		if msg := ServerURL(s); msg != "" {
			return msg
		}
	}
	return ""
}}

// ServerURL returns the fault of a server's address, or "".
func ServerURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Sprintf("%q is not a server's address; an example is http://127.0.0.1:36001", s)
	}
	return ""
}

// endpointURL allows an address, or none.
var endpointURL = registry.Range{Allowed: "empty, or an http:// or https:// address", Check: func(v any) string {
	if s := v.(string); s != "" {
		return ServerURL(s)
	}
	return ""
}}

// tasks allows task files and index ranges.
var tasks = registry.Range{Allowed: "index ranges such as \"0-9,17\", or files ending in .parquet, .jsonl or .json", Check: func(v any) string {
	for _, s := range v.([]string) {
		if msg := TaskSpec(s); msg != "" {
			return msg
		}
	}
	return ""
}}

var indices = registry.Range{Allowed: "index ranges such as \"0-9,17\"", Check: func(v any) string {
	for _, s := range v.([]string) {
		if _, err := ParseIndices(s); err != nil {
			return err.Error()
		}
	}
	return ""
}}

// variables allows names that an environment variable can have.
var variables = registry.Range{Allowed: "", Check: func(v any) string {
	for _, name := range slices.Sorted(maps.Keys(v.(map[string]string))) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(v.(map[string]string)[name], "\x00") {
			return fmt.Sprintf("%q is not an environment variable", name)
		}
	}
	return ""
}}

// taskFiles allows files of recorded trajectories only.
var taskFiles = registry.Range{Allowed: "files ending in .parquet, .jsonl or .json", Check: func(v any) string {
	for _, s := range v.([]string) {
		if !IsTaskFile(s) {
			return fmt.Sprintf("%q is not allowed; allowed: files ending in .parquet, .jsonl or .json", s)
		}
	}
	return ""
}}

// folderName keeps a name that becomes a folder inside its parent.
var folderName = registry.Range{Allowed: "a name without / or \\", Check: func(v any) string {
	s := v.(string)
	if s != "" && (!filepath.IsLocal(s) || s == "." || strings.ContainsAny(s, "/\\\x00\n")) {
		return fmt.Sprintf("%q is not allowed; it names a folder under trainer.output_dir: a name without / or \\", s)
	}
	return ""
}}

var notEmpty = registry.Range{Allowed: "not empty", Check: func(v any) string {
	if v.(string) == "" {
		return "empty is not allowed"
	}
	return ""
}}

// keyVariable allows the name of the environment variable that holds a key,
// and refuses a key.
var keyVariable = registry.Range{Allowed: notEmpty.Allowed, Check: func(v any) string {
	if strings.HasPrefix(v.(string), "sk-") {
		return "this looks like a key: put it into an environment variable, and give the variable's name"
	}
	return notEmpty.Problem(v)
}}
