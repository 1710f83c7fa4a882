package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Config is the part of tokenizer_config.json that openmanus uses. A token that
// the file lacks is "".
type Config struct {
	BOS, EOS, Pad, Unk string
	ChatTemplate       string            // the default template; "" if the file has none
	Templates          map[string]string // templates by name; "default" is the default template
	ModelMaxLength     int               // 0 if unknown
}

// maxConfig bounds the size of tokenizer_config.json and of a template file.
const maxConfig = 16 << 20

// LoadConfig reads tokenizer_config.json of a model folder and the chat
// template. As in transformers, chat_template.jinja takes precedence over the
// template in tokenizer_config.json. For a folder with neither file it returns
// the zero Config.
func LoadConfig(dir string) (Config, error) {
	var c Config
	data, err := readSmall(filepath.Join(dir, "tokenizer_config.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Config{}, err
	default:
		if c, err = ParseConfig(data); err != nil {
			return Config{}, fmt.Errorf("%s: %w", dir, err)
		}
	}
	data, err = readSmall(filepath.Join(dir, "chat_template.jinja"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Config{}, err
	default:
		c.setTemplate("default", string(data))
	}
	return c, nil
}

func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxConfig {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), maxConfig)
	}
	return os.ReadFile(path)
}

func (c *Config) setTemplate(name, src string) {
	if c.Templates == nil {
		c.Templates = map[string]string{}
	}
	c.Templates[name] = src
	if name == "default" {
		c.ChatTemplate = src
	}
}

// ParseConfig reads the bytes of a tokenizer_config.json.
func ParseConfig(data []byte) (Config, error) {
	var raw struct {
		BOS          tokenField      `json:"bos_token"`
		EOS          tokenField      `json:"eos_token"`
		Pad          tokenField      `json:"pad_token"`
		Unk          tokenField      `json:"unk_token"`
		ChatTemplate json.RawMessage `json:"chat_template"`
		MaxLength    float64         `json:"model_max_length"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Config{}, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	c := Config{BOS: string(raw.BOS), EOS: string(raw.EOS), Pad: string(raw.Pad), Unk: string(raw.Unk)}
	// transformers writes 1e30 for an unknown length.
	if raw.MaxLength > 0 && raw.MaxLength < 1<<31 {
		c.ModelMaxLength = int(raw.MaxLength)
	}
	if absent(raw.ChatTemplate) {
		return c, nil
	}
	var one string
	if json.Unmarshal(raw.ChatTemplate, &one) == nil {
		c.setTemplate("default", one)
		return c, nil
	}
	var named []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(raw.ChatTemplate, &named); err != nil {
		return Config{}, errors.New("tokenizer_config.json: chat_template is neither a string nor a list of {name, template}")
	}
	for _, n := range named {
		c.setTemplate(n.Name, n.Template)
	}
	return c, nil
}

// tokenField is a token given as a string, as an object with its content, or as null.
type tokenField string

// UnmarshalJSON reads any of the three forms.
func (f *tokenField) UnmarshalJSON(data []byte) error {
	var s string // stays "" for null
	if json.Unmarshal(data, &s) == nil {
		*f = tokenField(s)
		return nil
	}
	var o struct {
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(data, &o); err != nil || o.Content == nil {
		return errors.New("neither a string nor an object with a content")
	}
	*f = tokenField(*o.Content)
	return nil
}

// TemplateVars returns the variables of tokenizer_config.json that transformers
// passes to a chat template. A token that is "" is left undefined.
func (c Config) TemplateVars() map[string]any {
	vars := map[string]any{}
	for name, token := range map[string]string{"bos_token": c.BOS, "eos_token": c.EOS, "pad_token": c.Pad, "unk_token": c.Unk} {
		if token != "" {
			vars[name] = token
		}
	}
	return vars
}

// JSON returns a tokenizer_config.json that transformers opens together with
// any tokenizer.json. Its tokenizer_class is the generic class, because
// model-specific classes may replace the pre-tokenizer of tokenizer.json.
func (c Config) JSON() ([]byte, error) {
	doc := struct {
		Class    string `json:"tokenizer_class"`
		BOS      string `json:"bos_token,omitempty"`
		EOS      string `json:"eos_token,omitempty"`
		Pad      string `json:"pad_token,omitempty"`
		Unk      string `json:"unk_token,omitempty"`
		MaxLen   int    `json:"model_max_length,omitempty"`
		CleanUp  bool   `json:"clean_up_tokenization_spaces"`
		Template any    `json:"chat_template,omitempty"`
	}{Class: "PreTrainedTokenizerFast", BOS: c.BOS, EOS: c.EOS, Pad: c.Pad, Unk: c.Unk, MaxLen: c.ModelMaxLength}
	switch {
	case len(c.Templates) > 1 || len(c.Templates) == 1 && c.ChatTemplate == "":
		var list []map[string]string
		for _, name := range slices.Sorted(maps.Keys(c.Templates)) {
			list = append(list, map[string]string{"name": name, "template": c.Templates[name]})
		}
		doc.Template = list
	case c.ChatTemplate != "":
		doc.Template = c.ChatTemplate
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	return append(data, '\n'), err
}
