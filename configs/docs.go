package configs

import (
	"fmt"
	"strings"
)

// Documentation returns the table of keys as Markdown; docs/configuration.md
// is its output.
func (s *Schema) Documentation() string {
	var b strings.Builder
	b.WriteString(`# Configuration

A run is described by a TOML file. Every key has a default; unknown keys and bad
values are all reported at once, with their lines. ` + "`--set key=value`" + ` overrides a
key from the command line; a key of an ` + "`[[env]]`" + ` table is written with the
environment's name or number (` + "`--set env.maze.max_turns=5`" + `), or without either for all
tables. Paths are relative to the folder the program is started in.

A key that nothing reads is an error: ` + "`only with`" + ` below says which settings read it. This is about keys of your file and of
--set. Keys of a preset that nothing reads are left at their defaults, and so are keys of a file that --set makes useless, as
--set algo.adv_estimator=grpo does with the [critic] of a file for PPO. A key with its default value is no error, since
` + "`config show`" + ` and the config.toml of a run list every key. Keys for a GPU do nothing on a CPU and are allowed there:
one file is for both.

A default, or a value of a preset, that does not fit what you set is derived from it: ` + "`actor.mini_batch_size`" + ` for a step of few
episodes, ` + "`data.max_prompt_tokens`" + ` for a small context, and the micro-batches of a batch. The run logs each such value with the
reason, ` + "`config show`" + ` and the run's config.toml mark it with ` + "`# derived`" + `, and ` + "`config check`" + ` lists it. A value
in your file or in --set is never changed: it is an error if it does not fit.

` + "`openmanus config init`" + ` writes a file to start from, ` + "`config check`" + ` says what is wrong
with one and which files it names are missing, ` + "`config show`" + ` prints it with every key filled in.

This page is generated from the table of keys in ` + "`configs`" + ` (` + "`go test ./configs -update`" + `).
`)
	b.WriteString(s.presetDocs())
	sec := ""
	var fixed, moved, later []Key
	for _, k := range s.Keys() {
		switch k.Status {
		case Fixed:
			fixed = append(fixed, k)
			continue
		case Moved:
			moved = append(moved, k)
			continue
		case Later:
			later = append(later, k)
			continue
		}
		if at := sectionOf(k.Name); at != sec {
			sec = at
			head := "[" + sec + "]"
			if sec == "env" {
				head = "[[env]]"
			}
			if sec+"." == components {
				head = "[" + components + "NAME]"
			}
			fmt.Fprintf(&b, "\n## %s\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n", head)
		}
		doc := k.Doc
		if k.With != "" {
			doc += "; only with " + k.With
		}
		if k.Allowed != "" {
			doc += "; allowed: " + k.Allowed
		}
		def := ""
		if k.Default != "" {
			def = "`" + k.Default + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", k.Name[len(sec)+1:], k.Type, def, cell(doc))
	}
	b.WriteString(`
## Resuming

The same command goes on from the newest checkpoint. A key that belongs to the experiment must then have the value it had:
a run that finds another one in the checkpoint's config.toml lists the differences and ends with exit code 3. So does one
whose tasks, instructions, recorded conversations, files of score functions or weights of the KL's reference are others than
they were under the same name. To train on with other settings, give trainer.experiment another name, and, to start from these weights, set model.path to the
checkpoint's actor folder (with sft.epochs = 0, and without [model.fresh]). Any value is right for the keys that decide

`)
	for _, group := range mayChange {
		fmt.Fprintf(&b, "- %s: `%s`\n", group.decides, strings.Join(group.keys, "`, `"))
	}
	b.WriteString(`
With trainer.resume = "PATH", PATH being one of the run's own older checkpoints, the run goes on from there. Newer
checkpoints, their episodes and the metrics so far are moved to set-aside/N in the run folder, with a message, so that
` + "`auto`" + ` does not go back to them; nothing is deleted.

Every file of a checkpoint is listed with its SHA-256. One that is damaged or cut short is refused with the reason, and the
one before it is taken. The process may be killed at any moment; to see that yours goes on, let it die between two writes
that belong together with OPENMANUS_CRASH_AT=checkpoint/rename in its environment (a point that does not exist is answered
with the list of those there are).
`)
	b.WriteString("\n## Keys with one value so far\n\nThey may be written; any other value is an error that says \"not implemented yet\".\n\n| key | value | meaning |\n| --- | --- | --- |\n")
	for _, k := range fixed {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", k.Name, k.Default, cell(k.Doc))
	}
	b.WriteString("\n## Keys that live elsewhere\n\nNames from other trainers; writing one is an error that says this:\n\n| key | instead |\n| --- | --- |\n")
	for _, k := range moved {
		fmt.Fprintf(&b, "| %s | %s |\n", k.Name, cell(k.Doc))
	}
	b.WriteString("\n## Not implemented yet\n\nPart of the plan; writing one is an error that says \"not implemented yet\": ")
	for i, k := range later {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("`" + k.Name + "`")
	}
	b.WriteString("; and the sections `" + strings.Join(laterSections, "`, `") + "`.\n")
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
