package builtin

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Book is a set of recipes with the depth of each item and the list of tasks. The
// depth is the number of crafts that must follow one another to make the item; an
// item without a recipe has depth 0. A Book is read-only.
type Book struct {
	byItem  map[string][]*recipe
	byGroup map[string][]*recipe
	groups  map[string]bool
	items   map[string]bool // all items that recipes name
	groupOf map[string]string
	uses    map[string][]*recipe // recipes by ingredient
	depth   map[string]int       // depth of items and groups that can be made
	tasks   []string             // craftable items by depth, then in the order of the recipes
}

// newBook builds a book as AgentGym's loader does. It skips recipes that only
// split a block, and recipes that would close a cycle with earlier ones. A group
// without a craftable item counts as an item. The result depends on the order of
// the list, so callers must keep the order fixed.
func newBook(list []recipe) (*Book, error) {
	b := &Book{
		byItem: map[string][]*recipe{}, byGroup: map[string][]*recipe{},
		groups: map[string]bool{}, items: map[string]bool{}, groupOf: map[string]string{},
		uses: map[string][]*recipe{}, depth: map[string]int{},
	}
	below := map[string]map[string]bool{} // maps an item to its direct and indirect ingredients
	var order []string
	for i := range list {
		r := &list[i]
		if len(r.in) == 0 || r.count <= 0 {
			return nil, fmt.Errorf("recipe of %s has no ingredients or makes 0 items", itemName(r.item))
		}
		for _, in := range r.in {
			if in.group {
				b.groups[in.id] = true
			} else {
				b.items[in.id] = true
			}
		}
		b.items[r.item] = true
		if len(r.in) == 1 && strings.HasSuffix(r.in[0].id, "_block") {
			continue
		}
		if r.group != "" && r.group != r.item {
			b.groups[r.group] = true
			b.groupOf[r.item] = r.group
		}
		if below[r.item] == nil {
			below[r.item] = map[string]bool{}
		}
		if slices.ContainsFunc(r.in, func(in ingredient) bool { return in.id == r.item || below[in.id][r.item] }) {
			continue
		}
		if b.byItem[r.item] == nil {
			order = append(order, r.item)
		}
		b.byItem[r.item] = append(b.byItem[r.item], r)
		if r.group != "" {
			b.byGroup[r.group] = append(b.byGroup[r.group], r)
		}
		for _, in := range r.in {
			below[r.item][in.id] = true
			for id := range below[in.id] {
				below[r.item][id] = true
			}
		}
	}
	b.settleGroups(order)
	b.measure()
	for _, item := range order {
		if b.depth[item] > 0 {
			b.tasks = append(b.tasks, item)
		}
	}
	sort.SliceStable(b.tasks, func(i, j int) bool { return b.depth[b.tasks[i]] < b.depth[b.tasks[j]] })
	if len(b.tasks) == 0 {
		return nil, fmt.Errorf("no recipe can be made from items without a recipe")
	}
	return b, nil
}

// settleGroups turns groups without a craftable item into items, and fills b.uses.
func (b *Book) settleGroups(order []string) {
	for _, item := range order {
		for _, r := range b.byItem[item] {
			for i := range r.in {
				in := &r.in[i]
				if in.group && len(b.byGroup[in.id]) == 0 {
					in.group = false
					b.items[in.id] = true
					delete(b.groups, in.id)
				}
				b.uses[in.id] = append(b.uses[in.id], r)
			}
		}
	}
}

// measure computes the least depth of every item and group: one more than the deepest
// ingredient of the best recipe. It repeats until no depth changes. Items of a cycle
// through a group get no depth; newBook does not detect such a cycle.
func (b *Book) measure() {
	for changed := true; changed; {
		changed = false
		for name, recipes := range b.byItem {
			changed = b.lower(name, recipes) || changed
		}
		for name, recipes := range b.byGroup {
			if b.byItem[name] == nil { // an item has precedence over a group with its name
				changed = b.lower(name, recipes) || changed
			}
		}
	}
}

// lower lowers the depth of name to the least depth of its recipes and reports whether it changed.
func (b *Book) lower(name string, recipes []*recipe) (changed bool) {
	for _, r := range recipes {
		d, ok := b.recipeDepth(r)
		if old, had := b.depth[name]; ok && (!had || d < old) {
			b.depth[name] = d
			changed = true
		}
	}
	return changed
}

// recipeDepth returns the depth of the item that r makes. ok is false if r cannot be
// made.
func (b *Book) recipeDepth(r *recipe) (depth int, ok bool) {
	for _, in := range r.in {
		d := 0
		if b.crafted(in.id) {
			if d, ok = b.depth[in.id]; !ok {
				return 0, false
			}
		}
		depth = max(depth, d+1)
	}
	return depth, true
}

// crafted reports whether a recipe makes the named item or an item of the named
// group.
func (b *Book) crafted(name string) bool { return len(b.byItem[name]) > 0 || len(b.byGroup[name]) > 0 }

// gettable reports whether the action "get" provides the item.
func (b *Book) gettable(id string) bool { return b.items[id] && !b.groups[id] && !b.crafted(id) }

// Len returns the number of tasks.
func (b *Book) Len() int { return len(b.tasks) }

// Goal returns the name of the item to craft in task index. The index is taken
// modulo Len.
func (b *Book) Goal(index int) string { return itemName(b.goal(index)) }

// Depth returns the depth of the goal of task index.
func (b *Book) Depth(index int) int { return b.depth[b.goal(index)] }

func (b *Book) goal(index int) string {
	n := len(b.tasks)
	return b.tasks[((index%n)+n)%n]
}

// match returns the recipe that makes item from exactly the given ingredients and
// counts, or nil.
func (b *Book) match(item string, given []ingredient) *recipe {
	for _, r := range b.byItem[item] {
		left := slices.Clone(given)
		fits := true
		for _, want := range r.in {
			i := slices.IndexFunc(left, func(g ingredient) bool { return b.serves(want, g) })
			if i < 0 || left[i].count != want.count {
				fits = false
				break
			}
			left = slices.Delete(left, i, i+1)
		}
		if fits && len(left) == 0 {
			return r
		}
	}
	return nil
}

// serves reports whether the given ingredient satisfies the wanted ingredient.
func (b *Book) serves(want, given ingredient) bool {
	if want.group {
		return given.group && given.id == want.id || !given.group && b.groupOf[given.id] == want.id
	}
	return !given.group && given.id == want.id
}
