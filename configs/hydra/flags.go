package hydra

import "strings"

// flagRow says what became of a flag of Hydra's. A file of settings that
// --config-name chooses is not read, but the trainers' own is known.
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
		r.Note = "the file of settings is not read: give what it says as key=value after the file"
	case "--config-path", "-cp", "--config-dir", "-cd":
		if value == "config" || value == "./config" {
			r.ignored("where the original's own files are")
			return r
		}
		r.Note = "no file of settings is read there: give what it says as key=value after the file"
	default:
		r.ignored("a flag of Hydra's, which sets nothing")
	}
	return r
}
