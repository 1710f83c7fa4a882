package configs

import (
	"fmt"
	"strings"
)

// presetDocs is the section of the documentation on presets.
func (s *Schema) presetDocs() string {
	var b strings.Builder
	b.WriteString("\n## Presets\n\n`--preset NAME` starts from a built-in configuration, and `--env NAME` puts the tasks and servers of an environment in\n" +
		"place of its own; given again, they are a mixture. `openmanus config show --preset ppo --env maze` prints the two together,\n" +
		"`config init` writes them to a file. Files of rows are OpenManus-RL's, in the folder data; for environments that have none\n" +
		"the tasks are index ranges.\n\n| --preset | |\n| --- | --- |\n")
	for _, name := range PresetNames() {
		text, _ := Preset(name) // it is there: its name is
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
	b.WriteString("\nThe presets " + strings.Join(whole[:len(whole)-1], ", ") + " and " + whole[len(whole)-1] + " have an environment of their own and take no `--env`.\n")
	return b.String()
}

// firstSentence is that of the comment a preset begins with.
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
	const name = 4 // of Dr. GRPO
	if i := strings.Index(all[min(name, len(all)):], ". "); i >= 0 {
		all = all[:name+i]
	}
	return strings.TrimSuffix(all, ".")
}
