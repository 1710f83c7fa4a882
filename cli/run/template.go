package run

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// setTemplate replaces a model's chat template by model.chat_template, and puts the
// variables of model.chat_template_kwargs at its start. A checkpoint contains the
// resulting template, so that every program renders prompts as in training.
func setTemplate(h *Host, b *model.Bundle, m configs.Model) error {
	template := &b.TokenizerConfig.ChatTemplate
	if m.ChatTemplate != "" {
		text := m.ChatTemplate
		if strings.HasSuffix(text, ".jinja") {
			read, err := h.ReadFile(text, MaxInstruction)
			if err != nil {
				return errext.With(errext.Input, "give a file with a Jinja template", fmt.Errorf("model.chat_template: %w", err))
			}
			text = string(read)
		}
		if _, err := chat.Parse(text); err != nil {
			return errext.With(errext.Input, "", fmt.Errorf("model.chat_template: %w", err))
		}
		*template = text
	}
	if len(m.ChatTemplateKwargs) == 0 || *template == "" {
		return nil
	}
	var prefix strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.ChatTemplateKwargs)) {
		fmt.Fprintf(&prefix, "{%% if %[1]s is not defined %%}{%% set %[1]s = %[2]s %%}{%% endif %%}", name, jinjaValue(m.ChatTemplateKwargs[name]))
	}
	if strings.HasPrefix(*template, "\n") { // which the end of a block would remove
		prefix.WriteByte('\n')
	}
	if !strings.HasPrefix(*template, prefix.String()) { // a checkpoint has the variables already
		*template = prefix.String() + *template
	}
	if _, err := chat.Parse(*template); err != nil {
		return errext.With(errext.Input, "a name consists of letters, digits and _, a value is JSON or text", fmt.Errorf("model.chat_template_kwargs: %w", err))
	}
	return nil
}

// jinjaValue writes text that is JSON as its value, and other text as a string.
func jinjaValue(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		quoted, _ := json.Marshal(text) // text can always be encoded
		return string(quoted)
	}
	if v == nil {
		return "none"
	}
	return text
}
