package hydra

import "strings"

// flagRow reports the result for a flag of Hydra. A configuration file named by
// --config-name is not read; the trainers' own files are known.
func flagRow(f Override) Row {
	r := Row{Key: f.Key, Value: f.Text, Status: Open, Source: "Hydra"}
	value := strings.Trim(f.Text, `'"`)
	switch f.Key {
	case "--config-name", "-cn":
		name := strings.TrimSuffix(strings.TrimSuffix(value, ".yaml"), ".yml")
		if name == "ppo_trainer" || name == "sft_trainer" {
			r.ignored("the original's own file, whose values are known")
			return r
		}
		r.Note = "the configuration file is not read: give its settings as key=value after the script"
	case "--config-path", "-cp", "--config-dir", "-cd":
		if value == "config" || value == "./config" {
			r.ignored("the folder of the original's own files")
			return r
		}
		r.Note = "configuration files are not read: give their settings as key=value after the script"
	default:
		r.ignored("a flag of Hydra that sets no key")
	}
	return r
}
