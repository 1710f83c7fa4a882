package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
)

// maxRecipeFile bounds one recipe file; real ones have a few hundred bytes.
const maxRecipeFile = 1 << 20

// LoadBook reads the recipe files of a Minecraft data folder: every .json
// file of dir in fsys, or of dir/recipes if there is such a folder, which is
// how AgentGym's textcraft package lays them out. Shaped and shapeless
// crafting recipes count, other kinds are passed over. Files are read in the
// order of their names: the original takes whatever order the folder lists
// them in, so that its task numbers differ from machine to machine.
func LoadBook(fsys fs.FS, dir string) (*Book, error) {
	if dir == "" {
		dir = "."
	}
	if sub := path.Join(dir, "recipes"); isDir(fsys, sub) {
		dir = sub
	}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("recipes: %w", err)
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
	var list []recipe
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		r, ok, err := readRecipe(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("recipe file %s: %w", e.Name(), err)
		}
		if ok {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("recipes: no .json file in %s holds a crafting_shaped or crafting_shapeless recipe", dir)
	}
	return newBook(list)
}

func isDir(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

func readRecipe(fsys fs.FS, name string) (r recipe, ok bool, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return recipe{}, false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecipeFile+1))
	if err != nil {
		return recipe{}, false, err
	}
	if len(text) > maxRecipeFile {
		return recipe{}, false, fmt.Errorf("larger than %d bytes", maxRecipeFile)
	}
	return parseMinecraft(text)
}

// minecraftRecipe is the part of a recipe file that matters here.
type minecraftRecipe struct {
	Type        string            `json:"type"`
	Group       string            `json:"group"`
	Pattern     []string          `json:"pattern"`
	Key         json.RawMessage   `json:"key"`
	Ingredients []json.RawMessage `json:"ingredients"`
	Result      json.RawMessage   `json:"result"`
}

// parseMinecraft reads one recipe file. ok is false for kinds of recipe that
// are no crafting.
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

// shapedIngredients counts each key's letters in the pattern, in the order
// the keys are written, which is the order recipe lines name them in.
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

// shapelessIngredients adds up equal ingredients.
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

// oneIngredient reads {"item": id}, {"tag": id}, or a list of such, of which
// the first is taken.
func oneIngredient(raw json.RawMessage) (ingredient, error) {
	var choices []json.RawMessage
	if json.Unmarshal(raw, &choices) == nil {
		if len(choices) == 0 {
			return ingredient{}, errors.New("an empty list of choices")
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
	return ingredient{}, errors.New(`neither "item" nor "tag"`)
}

// resultOf reads "id" or {"item": id, "count": n}.
func resultOf(raw json.RawMessage) (item string, count int64, err error) {
	if json.Unmarshal(raw, &item) == nil && item != "" {
		return item, 1, nil
	}
	var r struct {
		Item  string
		Count int64
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.Item == "" {
		return "", 0, errors.New(`"result" is neither an item id nor an object with "item"`)
	}
	if r.Count < 0 || r.Count > 1<<20 {
		return "", 0, fmt.Errorf("result count %d", r.Count)
	}
	return r.Item, max(r.Count, 1), nil
}
