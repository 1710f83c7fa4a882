package builtin

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Book is a set of recipes and what follows from it: what can be had only by
// crafting, how deep each item lies, and the list of tasks. It is read-only.
type Book struct {
	byItem  map[string][]*recipe
	byGroup map[string][]*recipe
	groups  map[string]bool
	items   map[string]bool // every item named anywhere
	groupOf map[string]string
	uses    map[string][]*recipe // recipes by what they take
	depth   map[string]int       // of items and groups; absent: cannot be made
	tasks   []string             // craftable items by depth, then in reading order
}

// newBook orders recipes the way the original's loader does: it passes over a
// recipe that only takes a block apart, and one that would close a cycle with
// those read before; a group none of whose items can be crafted counts as an
// item. Hence the reading order matters, and callers fix it.
func newBook(list []recipe) (*Book, error) {
	b := &Book{
		byItem: map[string][]*recipe{}, byGroup: map[string][]*recipe{},
		groups: map[string]bool{}, items: map[string]bool{}, groupOf: map[string]string{},
		uses: map[string][]*recipe{}, depth: map[string]int{},
	}
	below := map[string]map[string]bool{} // all an item is made of, at any depth
	var order []string
	for i := range list {
		r := &list[i]
		if len(r.in) == 0 || r.count <= 0 {
			return nil, fmt.Errorf("recipe of %s takes nothing or makes nothing", itemName(r.item))
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
		return nil, fmt.Errorf("no recipe makes anything from things that can be had")
	}
	return b, nil
}

// settleGroups turns a group nobody can craft a member of into an item, and
// notes what every recipe takes.
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

// measure finds the least depth of everything: 0 for what no recipe makes,
// else one more than the deepest ingredient of the best recipe. It goes round
// until nothing changes, so that a cycle through a group, which newBook
// cannot see, leaves its items without a depth instead of without an end.
func (b *Book) measure() {
	for changed := true; changed; {
		changed = false
		for name, recipes := range b.byItem {
			changed = b.lower(name, recipes) || changed
		}
		for name, recipes := range b.byGroup {
			if b.byItem[name] == nil { // a group named like an item is that item
				changed = b.lower(name, recipes) || changed
			}
		}
	}
}

// lower applies recipes to the depth of name and reports whether it changed.
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

// recipeDepth is the depth an item has by r, false if r cannot be carried out.
func (b *Book) recipeDepth(r *recipe) (int, bool) {
	depth := 0
	for _, in := range r.in {
		d := 0
		if b.crafted(in.id) {
			var ok bool
			if d, ok = b.depth[in.id]; !ok {
				return 0, false
			}
		}
		depth = max(depth, d+1)
	}
	return depth, true
}

// crafted reports whether a recipe makes the item, or an item of the group.
func (b *Book) crafted(name string) bool { return len(b.byItem[name]) > 0 || len(b.byGroup[name]) > 0 }

// gettable reports whether the item is had by get.
func (b *Book) gettable(id string) bool { return b.items[id] && !b.groups[id] && !b.crafted(id) }

// Len is the number of tasks.
func (b *Book) Len() int { return len(b.tasks) }

// Goal names the item of task index, which counts round from the end of the
// list to its beginning, in both directions.
func (b *Book) Goal(index int) string { return itemName(b.goal(index)) }

func (b *Book) goal(index int) string {
	n := len(b.tasks)
	return b.tasks[((index%n)+n)%n]
}

// match finds the recipe a craft command means: one that makes item from
// exactly these ingredients and counts. It is nil if there is none.
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

// serves reports whether what was given is of the kind wanted.
func (b *Book) serves(want, given ingredient) bool {
	if want.group {
		return given.group && given.id == want.id || !given.group && b.groupOf[given.id] == want.id
	}
	return !given.group && given.id == want.id
}
