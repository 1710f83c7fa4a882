package track

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/BurntSushi/toml"
)

// settings returns the settings of the run by dotted key: strings, numbers, booleans,
// and lists of them. An [[env]] table has its name in place of an index.
func (r Run) settings() (map[string]any, error) {
	var tree map[string]any
	if err := toml.Unmarshal([]byte(r.Config), &tree); err != nil {
		return nil, fmt.Errorf("read config.toml: %w", err)
	}
	out := map[string]any{}
	flatten(out, "", tree)
	return out, nil
}

// project returns the name of the group of runs: the project of W&B and the experiment of MLflow.
func project(settings map[string]any) string {
	name, _ := settings["trainer.project"].(string)
	return cmp.Or(name, "openmanus")
}

// flatten adds the values below v to out.
func flatten(out map[string]any, key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if key != "" {
				name = key + "." + name
			}
			flatten(out, name, x)
		}
	case []map[string]any:
		for i, table := range v {
			name, ok := table["name"].(string)
			if !ok {
				name = strconv.Itoa(i)
			}
			flatten(out, key+"."+name, table)
		}
	default:
		out[key] = v
	}
}
