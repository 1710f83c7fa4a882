package hydra

import "strings"

// paths are the keys of ours that name files and folders.
var paths = []string{
	"model.path", "model.tokenizer_path", "critic.path", "ref.path", "env.tasks", "env.val_tasks", "agent.memory_file",
	"sft.files", "sft.val_files", "trainer.output_dir",
}

// atHome writes ~/ out, as the original does when it opens a file. In a
// configuration it would be the name of a folder.
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
