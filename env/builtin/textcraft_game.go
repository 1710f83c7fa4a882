package builtin

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// crafter is the state of a TextCraft game: a goal and an inventory.
type crafter struct {
	book  *Book
	goal  string // id of the item to craft
	names []string
	held  map[string]int64 // counts by item id; names lists the ids in the order of first receipt
}

// maxCount bounds counts, since an action may contain any number.
const maxCount = 1 << 40

var (
	craftForm = regexp.MustCompile(`^craft (.*) using (.*)$`) // split at the last " using "
	countForm = regexp.MustCompile(`(?s)^([0-9]+) (.*)$`)
)

// refused is the reply to an action that has no effect.
type refused string

func (r refused) Error() string { return string(r) }

// act performs an action. As with Python's re.match, the verb must be at the start,
// and text after a line break is ignored.
func (c *crafter) act(action string) (text string, won bool) {
	line, _, _ := strings.Cut(action, "\n")
	var item string
	var err error = refused("Could not execute " + action)
	if m := craftForm.FindStringSubmatch(line); m != nil {
		text, item, err = c.craft(m[1], m[2])
	} else if rest, ok := strings.CutPrefix(line, "get "); ok {
		if n, name, ok := cutCount(rest); ok {
			text, item, err = c.get(n, name)
		}
	} else if strings.HasPrefix(line, "inventory") {
		text, err = c.inventory(), nil
	}
	if err != nil {
		return err.Error(), false
	}
	return text, item == c.goal
}

// cutCount parses "COUNT NAME".
func cutCount(s string) (n int64, name string, ok bool) {
	m := countForm.FindStringSubmatch(s)
	if m == nil {
		return 0, "", false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > maxCount {
		n = maxCount
	}
	return n, m[2], true
}

// get adds n of an item to the inventory. Items that a recipe makes cannot be taken.
func (c *crafter) get(n int64, name string) (text, item string, err error) {
	id := itemID(name)
	if !c.book.gettable(id) {
		return "", "", refused("Could not find " + name)
	}
	c.add(id, n)
	return fmt.Sprintf("Got %d %s", n, name), id, nil
}

// craft performs the recipe that the command names. The recipe, not the command,
// determines the count of the output.
func (c *crafter) craft(out, in string) (text, item string, err error) {
	n, name, ok := cutCount(out)
	if !ok {
		n, name = 1, out
	}
	want := c.thing(n, name)
	var given []ingredient
	for _, part := range strings.Split(in, ",") {
		part = strings.TrimSpace(part)
		n, name, ok := cutCount(part)
		if !ok {
			return "", "", refused("Wrong item format: " + part)
		}
		given = append(given, c.thing(n, name))
	}
	if !c.holds(given) {
		id := want.id
		if want.group {
			id = "None"
		}
		return "", "", refused("Could not find enough items to craft " + id)
	}
	var r *recipe
	if !want.group {
		r = c.book.match(want.id, given)
	}
	if r == nil {
		return "", "", refused("Could not find a valid recipe for " + pythonText(want))
	}
	for _, g := range given {
		c.add(g.id, -g.count)
		if c.held[g.id] == 0 {
			delete(c.held, g.id)
			c.names = slices.DeleteFunc(c.names, func(id string) bool { return id == g.id })
		}
	}
	c.add(r.item, r.count)
	return fmt.Sprintf("Crafted %d %s", r.count, r.item), r.item, nil
}

// thing returns the ingredient for n units of the item or group called name.
func (c *crafter) thing(n int64, name string) ingredient {
	id := itemID(name)
	return ingredient{id: id, group: c.book.groups[id], count: n}
}

// holds reports whether the inventory contains all given ingredients together.
// AgentGym's server checks each ingredient alone: if an item is named twice, a check
// may succeed although the items do not suffice, and the craft raises an exception.
func (c *crafter) holds(given []ingredient) bool {
	total := map[string]int64{}
	for _, g := range given {
		if total[g.id] += g.count; g.group || total[g.id] > c.held[g.id] {
			return false
		}
		if _, has := c.held[g.id]; !has {
			return false
		}
	}
	return true
}

func (c *crafter) add(id string, n int64) {
	if _, has := c.held[id]; !has {
		c.names = append(c.names, id)
	}
	c.held[id] = min(c.held[id]+n, maxCount)
}

func (c *crafter) inventory() string {
	if len(c.names) == 0 {
		return "Inventory: You are not carrying anything."
	}
	var b strings.Builder
	b.WriteString("Inventory: ")
	for _, id := range c.names {
		fmt.Fprintf(&b, "[%s] (%d) ", itemName(id), c.held[id])
	}
	return b.String()
}

// pythonText formats an ingredient as AgentGym prints its data class.
func pythonText(in ingredient) string {
	tag, item := "None", pythonQuote(in.id)
	if in.group {
		tag, item = item, tag
	}
	return fmt.Sprintf("ItemTagWithCount(item_tag=ItemTag(tag=%s, item_id=%s), count=%d)", tag, item, in.count)
}

// pythonQuote returns Python's repr of a string, for the characters that occur.
func pythonQuote(s string) string {
	quote := `'`
	if strings.Contains(s, `'`) && !strings.Contains(s, `"`) {
		quote = `"`
	}
	s = strings.ReplaceAll(s, `\`, `\\`)
	if quote == `'` {
		s = strings.ReplaceAll(s, `'`, `\'`)
	}
	s = strings.NewReplacer("\r", `\r`, "\t", `\t`).Replace(s)
	return quote + s + quote
}
