package builtin

import "fmt"

// TextcraftExpert returns actions that win task index of OwnBook.
func TextcraftExpert(index int) []string { return OwnBook().Expert(index) }

// Expert returns actions that win task index: first all gets, then the crafts, each
// after the crafts of its ingredients. For a group it uses the item of least depth.
func (b *Book) Expert(index int) []string {
	p := plan{book: b, free: map[string]int64{}, gets: map[string]int64{}}
	p.need(b.goal(index), 1)
	var actions []string
	for _, id := range p.order {
		actions = append(actions, fmt.Sprintf("get %d %s", p.gets[id], itemName(id)))
	}
	return append(actions, p.crafts...)
}

// plan collects the actions that make an item.
type plan struct {
	book   *Book
	free   map[string]int64 // by item id: number of items made or taken and not reserved
	gets   map[string]int64
	order  []string // ids of gets, in order
	crafts []string
}

// need raises free[id] to at least n. It terminates because the ingredients of a
// craft have a smaller depth than its result.
func (p *plan) need(id string, n int64) {
	if !p.book.crafted(id) {
		if short := n - p.free[id]; short > 0 {
			if p.gets[id] == 0 {
				p.order = append(p.order, id)
			}
			p.gets[id] += short
			p.free[id] += short
		}
		return
	}
	r := p.book.easiest(p.book.byItem[id])
	for p.free[id] < n {
		craft := recipe{item: r.item, count: r.count}
		for _, in := range r.in {
			kind := in.id
			if in.group {
				kind = p.book.easiest(p.book.byGroup[in.id]).item
			}
			p.need(kind, in.count)
			p.free[kind] -= in.count // reserves the items, so that the next ingredients cannot use them
			craft.in = append(craft.in, ingredient{id: kind, count: in.count})
		}
		p.crafts = append(p.crafts, craft.String())
		p.free[id] += r.count
	}
}

// easiest returns the first recipe of least depth.
func (b *Book) easiest(recipes []*recipe) *recipe {
	var best *recipe
	least := 0
	for _, r := range recipes {
		if d, ok := b.recipeDepth(r); ok && (best == nil || d < least) {
			best, least = r, d
		}
	}
	return best
}
