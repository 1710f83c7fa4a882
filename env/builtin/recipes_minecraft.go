package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// LoadBook reads the recipe files of a Minecraft data folder: every .json file in
// dir/recipes if that folder exists, as in AgentGym's textcraft package, and in dir
// otherwise. It reads shaped and shapeless crafting recipes and skips other kinds.
// Files are read in the order of their names, so that task numbers are the same
// everywhere; AgentGym uses the order of the directory listing.
func LoadBook(fsys fs.FS, dir string) (*Book, error) {
	dir = path.Clean(dir)
	if info, err := fs.Stat(fsys, path.Join(dir, "recipes")); err == nil && info.IsDir() {
		dir = path.Join(dir, "recipes")
	}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("recipes: %w", err)
	}
	var list []recipe
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		text, err := fs.ReadFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("recipes: %w", err)
		}
		r, ok, err := parseMinecraft(text)
		if err != nil {
			return nil, fmt.Errorf("recipe file %s: %w", e.Name(), err)
		}
		if ok {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("recipes: no .json file in %s has a crafting_shaped or crafting_shapeless recipe", dir)
	}
	return newBook(list)
}

// minecraftRecipe has the keys of a recipe file that LoadBook reads.
type minecraftRecipe struct {
	Type        string            `json:"type"`
	Group       string            `json:"group"`
	Pattern     []string          `json:"pattern"`
	Key         json.RawMessage   `json:"key"`
	Ingredients []json.RawMessage `json:"ingredients"`
	Result      json.RawMessage   `json:"result"`
}

// parseMinecraft parses a recipe file. ok is false if it is not a crafting recipe.
func parseMinecraft(text []byte) (r recipe, ok bool, err error) {
	var m minecraftRecipe
	if err := json.Unmarshal(text, &m); err != nil {
		return recipe{}, false, err
	}
	switch m.Type {
	case "minecraft:crafting_shaped":
		r.in, err = shapedIngredients(m)
	case "minecraft:crafting_shapeless":
		r.in, err = shapelessIngredients(m)
	default:
		return recipe{}, false, nil
	}
	if err != nil {
		return recipe{}, false, err
	}
	if len(r.in) == 0 {
		return recipe{}, false, errors.New("no ingredients")
	}
	if r.item, r.count, err = resultOf(m.Result); err != nil {
		return recipe{}, false, err
	}
	if m.Group != "" {
		r.group = idPrefix + m.Group
	}
	return r, true, nil
}

// shapedIngredients counts each key's letter in the pattern. The ingredients are in
// the order of the keys, as in recipe lines.
func shapedIngredients(m minecraftRecipe) ([]ingredient, error) {
	dec := json.NewDecoder(bytes.NewReader(m.Key))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New(`"key" is not an object`)
	}
	var in []ingredient
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		letter, _ := t.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, fmt.Errorf("key %q: %w", letter, err)
		}
		one, err := oneIngredient(raw)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", letter, err)
		}
		one.count = 0
		for _, line := range m.Pattern {
			if letter != "" {
				one.count += int64(strings.Count(line, letter))
			}
		}
		if one.count == 0 {
			return nil, fmt.Errorf("key %q does not occur in the pattern", letter)
		}
		in = append(in, one)
	}
	return in, nil
}

// shapelessIngredients merges equal ingredients.
func shapelessIngredients(m minecraftRecipe) ([]ingredient, error) {
	var in []ingredient
	at := map[string]int{}
	for i, raw := range m.Ingredients {
		one, err := oneIngredient(raw)
		if err != nil {
			return nil, fmt.Errorf("ingredient %d: %w", i+1, err)
		}
		if j, seen := at[one.id]; seen {
			in[j].count++
			continue
		}
		at[one.id] = len(in)
		in = append(in, one)
	}
	return in, nil
}

// oneIngredient parses {"item": id}, {"tag": id}, or the first element of a list of
// these.
func oneIngredient(raw json.RawMessage) (ingredient, error) {
	var choices []json.RawMessage
	if json.Unmarshal(raw, &choices) == nil {
		if len(choices) == 0 {
			return ingredient{}, errors.New("the list of choices is empty")
		}
		raw = choices[0]
	}
	var one struct{ Item, Tag string }
	if err := json.Unmarshal(raw, &one); err != nil {
		return ingredient{}, err
	}
	switch {
	case one.Item != "":
		return ingredient{id: one.Item, count: 1}, nil
	case one.Tag != "":
		return ingredient{id: one.Tag, group: true, count: 1}, nil
	}
	return ingredient{}, errors.New(`neither "item" nor "tag" is set`)
}

// resultOf parses "id" or {"item": id, "count": n}.
func resultOf(raw json.RawMessage) (item string, count int64, err error) {
	if json.Unmarshal(raw, &item) == nil && item != "" {
		return item, 1, nil
	}
	const maxResult = 1 << 20
	var r struct {
		Item  string
		Count int64
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.Item == "" {
		return "", 0, errors.New(`"result" is neither an item id nor an object with "item"`)
	}
	if r.Count < 0 || r.Count > maxResult {
		return "", 0, fmt.Errorf("result count %d is not from 0 to %d", r.Count, maxResult)
	}
	return r.Item, max(r.Count, 1), nil
}
