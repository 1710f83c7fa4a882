package builtin

import (
	"fmt"
	"strings"
)

// idPrefix begins the id of every item and group.
const idPrefix = "minecraft:"

// itemID returns the id of a name: "oak log" becomes "minecraft:oak_log".
func itemID(name string) string { return idPrefix + strings.ReplaceAll(name, " ", "_") }

// itemName is the inverse of itemID.
func itemName(id string) string {
	return strings.ReplaceAll(strings.ReplaceAll(id, idPrefix, ""), "_", " ")
}

// ingredient is a number of one item, or of any items of a group. AgentGym calls a
// group a tag.
type ingredient struct {
	id    string
	group bool
	count int64
}

// recipe lists the ingredients (in) for a number of units (count) of an item. group is the item's group, or "".
type recipe struct {
	item  string
	group string
	count int64
	in    []ingredient
}

// String returns the craft command, as in a task's observation.
func (r *recipe) String() string {
	var parts []string
	for _, in := range r.in {
		parts = append(parts, fmt.Sprintf("%d %s", in.count, itemName(in.id)))
	}
	return fmt.Sprintf("craft %d %s using %s", r.count, itemName(r.item), strings.Join(parts, ", "))
}
