package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/openmanus/openmanus/internal/plainjson"
)

// Setting is a key of a configuration and its value.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// settings returns the keys of a configuration. An array of tables has its entries' labels
// or names in its keys: env.maze.tasks.
func settings(text []byte) ([]Setting, error) {
	var root map[string]any
	if err := toml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	var out []Setting
	var walk func(prefix string, v any) error
	walk = func(prefix string, v any) error {
		switch v := v.(type) {
		case map[string]any:
			if len(v) == 0 {
				return nil
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if err := walk(prefix+"."+key, v[key]); err != nil {
					return err
				}
			}
		case []map[string]any:
			for i, table := range v {
				label, _ := table["label"].(string)
				name, _ := table["name"].(string)
				if err := walk(prefix+"."+cmp.Or(label, name, fmt.Sprint(i)), table); err != nil {
					return err
				}
			}
		case string:
			out = append(out, Setting{prefix[1:], v})
		default:
			value, err := plainjson.Marshal(v)
			if err != nil {
				return fmt.Errorf("%s: %w", prefix[1:], err)
			}
			out = append(out, Setting{prefix[1:], strings.TrimSpace(string(value))})
		}
		return nil
	}
	return out, walk("", root)
}

// Difference is a setting that differs between runs. Values has one entry for each run, "" if the
// run lacks the key.
type Difference struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// Differences returns the settings that are not equal in all runs.
func Differences(runs []*Run) []Difference {
	values, keys := map[string][]string{}, map[string]bool{}
	for i, r := range runs {
		for _, s := range r.Config {
			if values[s.Key] == nil {
				values[s.Key] = make([]string, len(runs))
			}
			values[s.Key][i], keys[s.Key] = s.Value, true
		}
	}
	out := []Difference{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if v := values[key]; len(slices.Compact(slices.Clone(v))) > 1 {
			out = append(out, Difference{key, v})
		}
	}
	return out
}
