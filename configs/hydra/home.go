package hydra

import "strings"

// paths lists our keys whose values are files or folders.
var paths = []string{
	"model.path", "model.tokenizer_path", "critic.path", "ref.path", "env.tasks", "env.val_tasks", "agent.memory_file",
	"sft.files", "sft.val_files", "trainer.output_dir",
}

// atHome expands ~/ in paths, as the original does when it opens a file. In a
// configuration ~ would name a folder.
func (im *importer) atHome(v any) any {
	switch v := v.(type) {
	case string:
		if rest, ok := strings.CutPrefix(v, "~/"); ok && im.home != "" {
			return im.home + "/" + rest
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = im.atHome(v[i])
		}
		return out
	}
	return v
}
