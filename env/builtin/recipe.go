package builtin

import (
	"fmt"
	"strings"
)

// idPrefix stands before every item and group on the wire.
const idPrefix = "minecraft:"

// itemID makes an id of a name as people write it.
func itemID(name string) string { return idPrefix + strings.ReplaceAll(name, " ", "_") }

// itemName is the way back: what recipes and inventories show.
func itemName(id string) string {
	return strings.ReplaceAll(strings.ReplaceAll(id, idPrefix, ""), "_", " ")
}

// ingredient is what one craft takes: count of one item, or of any item of a
// group (the originals call a group a tag).
type ingredient struct {
	id    string
	group bool
	count int64
}

// recipe makes count of item out of its ingredients. group is the one the
// item belongs to, "" for none.
type recipe struct {
	item  string
	group string
	count int64
	in    []ingredient
}

// String gives the command line the model is shown.
func (r *recipe) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "craft %d %s using ", r.count, itemName(r.item))
	for i, in := range r.in {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d %s", in.count, itemName(in.id))
	}
	return b.String()
}
