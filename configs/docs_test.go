package configs

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocumentation checks that docs/configuration.md matches the table of keys.
func TestDocumentation(t *testing.T) {
	const path = "../docs/configuration.md"
	got := schema.documentation()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s is out of date: run go test ./configs -update", path)
	}
}

// documentation returns the content of docs/configuration.md.
func (s *Schema) documentation() string {
	var b strings.Builder
	b.WriteString(`# Configuration

A TOML file describes a run. Every key has a default. Unknown keys and invalid
values are all reported at once, with their lines. ` + "`--set key=value`" + ` overrides a
key from the command line; a key of an ` + "`[[env]]`" + ` table is written with the
environment's name or number (` + "`--set env.maze.max_turns=5`" + `), or without either for all
tables. Paths are relative to the folder the program is started in.

A key of your file or of --set that the run does not read is an error: ` + "`only with`" + ` below names the settings that read it.
Unread keys of a preset are ignored, and so are keys of a file that become unread by --set: for example, with
--set algo.adv_estimator=grpo the [critic] in a file for PPO is ignored. A key with its default value is never an error, because
` + "`config show`" + ` and the config.toml of a run list every key. Keys for a GPU are allowed on a CPU, where they do nothing, so that
one file works on both.

If a default or a preset's value does not fit your settings, another value is derived from them: ` + "`actor.mini_batch_size`" + ` for a step of few
episodes, ` + "`data.max_prompt_tokens`" + ` for a small context, and the micro-batches of a batch. The run logs each such value with the
reason, ` + "`config show`" + ` and the run's config.toml mark it with ` + "`# derived`" + `, and ` + "`config check`" + ` lists it. A value
in your file or in --set is never changed: it is an error if it does not fit.

` + "`openmanus config init`" + ` writes a file to start from, with ` + "`--full`" + ` one with every key; ` + "`config check`" + ` lists the faults
of a file and the missing files that it names, and ` + "`config show`" + ` prints it with every key filled in. Before a long run,
` + "`openmanus config check my.toml --deep`" + ` also opens the models (without their weights), reads the tasks, starts a task on every
server, and scores a sample with every score function.

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

The same command resumes from the newest checkpoint. The keys that define the experiment must then have their old values: if
one differs from the checkpoint's config.toml, the run lists the differences and ends with exit code 3. It does the same if the
content of its tasks, instructions, recorded conversations, score function files or KL reference weights has changed under the
same name. To continue with other settings, give trainer.experiment another name and, to start from these weights, set model.path
to the checkpoint's actor folder (with sft.epochs = 0, and without [model.fresh]). Keys of these groups may change:

`)
	for _, group := range mayChange {
		fmt.Fprintf(&b, "- %s: `%s`\n", group.decides, strings.Join(group.keys, "`, `"))
	}
	b.WriteString(`
trainer.resume = "PATH" resumes from one of the run's own older checkpoints. The newer checkpoints, their episodes and the
metrics so far are moved to set-aside/N in the run folder, with a message, so that ` + "`auto`" + ` does not select them again; nothing
is deleted.

Every file of a checkpoint is listed with its SHA-256. A damaged or truncated checkpoint is rejected with the reason, and the
previous one is used. The process may be killed at any moment. To test that a run of yours resumes, set
OPENMANUS_CRASH_AT=checkpoint/rename in its environment, which ends the process between two writes that belong together (for
an unknown point, the error lists the known ones).
`)
	b.WriteString("\n## Keys with a single value\n\nAny other value is an error, \"not implemented yet\".\n\n| key | value | meaning |\n| --- | --- | --- |\n")
	for _, k := range fixed {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", k.Name, k.Default, cell(k.Doc))
	}
	b.WriteString("\n## Moved keys\n\nNames from other trainers; setting one is an error with this advice:\n\n| key | instead |\n| --- | --- |\n")
	for _, k := range moved {
		fmt.Fprintf(&b, "| %s | %s |\n", k.Name, cell(k.Doc))
	}
	b.WriteString("\n## Not implemented yet\n\nSetting one of these is an error: ")
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

// presetDocs returns the section on presets.
func (s *Schema) presetDocs() string {
	var b strings.Builder
	b.WriteString("\n## Presets\n\n`--preset NAME` starts from a built-in configuration, and `--env NAME` replaces its tasks and servers by an\n" +
		"environment's; several `--env` make a mixture. `openmanus config show --preset ppo --env maze` prints the two together,\n" +
		"`config init` writes them to a file. The tasks of built-in environments are index ranges, and they are played on the\n" +
		"built-in servers. The data files of other environments are OpenManus-RL's, in the folder data.\n\n| --preset | |\n| --- | --- |\n")
	for _, name := range PresetNames() {
		text, _ := Preset(name)
		fmt.Fprintf(&b, "| %s | %s |\n", name, cell(firstSentence(text)))
	}
	b.WriteString("\n| --env | | tasks | validated on |\n| --- | --- | --- | --- |\n")
	for _, name := range EnvPresetNames() {
		text, _ := EnvPreset(name)
		l := s.newLoader("", written)
		if err := l.envTable(text); err != nil {
			panic("configs: preset of environment " + name + ": " + err.Error())
		}
		_, what, _ := strings.Cut(firstSentence(text), ": ")
		e := l.cfg.Env[0]
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, cell(what), strings.Join(e.Tasks, ", "), strings.Join(e.ValTasks, ", "))
	}
	b.WriteString("\nThe presets " + strings.Join(specificPresets[:len(specificPresets)-1], ", ") + " and " + specificPresets[len(specificPresets)-1] + " have their own environment and do not accept `--env`.\n")
	return b.String()
}

// firstSentence returns the first sentence of the comment at the head of a preset.
func firstSentence(text []byte) string {
	var words []string
	for line := range strings.SplitSeq(string(text), "\n") {
		line, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		words = append(words, line)
	}
	all := strings.Join(words, " ")
	const name = 4 // skips the dot of "Dr. GRPO", which ends no sentence
	if i := strings.Index(all[min(name, len(all)):], ". "); i >= 0 {
		all = all[:name+i]
	}
	return strings.TrimSuffix(all, ".")
}
