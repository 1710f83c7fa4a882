package data

import (
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// leaf puts the values of one leaf column into a row. Columns are bound by
// hand, because the library's conversion to a struct turns absent columns into
// zero values: a file without a loss column would read as loss = false.
type leaf struct {
	// exists is the definition level from which a list has an element.
	exists int
	kind   parquet.Kind
	scalar func(*sourceRow, parquet.Value)
	list   func(*sourceRow) *[]sourceMessage // with member, in place of scalar
	member func(*sourceMessage, parquet.Value)
}

// read takes all values that a row has in the column.
func (l leaf) read(r *sourceRow, values []parquet.Value) {
	if l.list == nil {
		if !values[0].IsNull() {
			l.scalar(r, values[0])
		}
		return
	}
	list := l.list(r)
	for i, v := range values {
		if v.DefinitionLevel() < l.exists { // the list is empty or null
			return
		}
		if i == len(*list) {
			*list = append(*list, sourceMessage{})
		}
		if !v.IsNull() {
			l.member(&(*list)[i], v)
		}
	}
}

func text(v parquet.Value) string { return string(v.ByteArray()) }

func textPointer(v parquet.Value) *string {
	s := text(v)
	return &s
}

var members = map[string]leaf{
	"from":    {kind: parquet.ByteArray, member: func(m *sourceMessage, v parquet.Value) { m.From = textPointer(v) }},
	"value":   {kind: parquet.ByteArray, member: func(m *sourceMessage, v parquet.Value) { m.Value = textPointer(v) }},
	"role":    {kind: parquet.ByteArray, member: func(m *sourceMessage, v parquet.Value) { m.Role = textPointer(v) }},
	"content": {kind: parquet.ByteArray, member: func(m *sourceMessage, v parquet.Value) { m.Content = textPointer(v) }},
	"loss": {kind: parquet.Boolean, member: func(m *sourceMessage, v parquet.Value) {
		loss := v.Boolean()
		m.Loss = &loss
	}},
}

var scalars = map[string]leaf{
	"data_source": {kind: parquet.ByteArray, scalar: func(r *sourceRow, v parquet.Value) { r.DataSource = text(v) }},
	"item_id":     {kind: parquet.ByteArray, scalar: func(r *sourceRow, v parquet.Value) { r.ItemID = text(v) }},
	"reward_model.ground_truth": {kind: parquet.ByteArray, scalar: func(r *sourceRow, v parquet.Value) {
		r.RewardModel = &sourceReward{GroundTruth: textPointer(v)}
	}},
	"extra_info.index": {kind: parquet.Int64, scalar: func(r *sourceRow, v parquet.Value) {
		index := v.Int64()
		r.ExtraInfo = &sourceExtra{Index: &index}
	}},
}

var lists = map[string]func(*sourceRow) *[]sourceMessage{
	"conversations": func(r *sourceRow) *[]sourceMessage { return &r.Conversations },
	"prompt":        func(r *sourceRow) *[]sourceMessage { return &r.Prompt },
}

// bindLeaves finds the columns that are wanted among a file's, by number.
func bindLeaves(s *parquet.Schema) (map[int]leaf, error) {
	out := map[int]leaf{}
	column := 0
	var walk func(n parquet.Node, first, path string, defined, repeated, exists int) error
	walk = func(n parquet.Node, first, path string, defined, repeated, exists int) error {
		if n.Optional() {
			defined++
		}
		if n.Repeated() {
			defined++
			repeated++
			exists = defined
		}
		if !n.Leaf() {
			for _, f := range n.Fields() {
				p, top := f.Name(), f.Name()
				if path != "" {
					p, top = path+"."+p, first
				}
				if err := walk(f, top, p, defined, repeated, exists); err != nil {
					return err
				}
			}
			return nil
		}
		l, wanted := scalars[path]
		depth := 0
		if list, ok := lists[first]; ok {
			l, wanted = members[lastName(path)]
			l.list, l.exists, depth = list, exists, 1
		}
		if wanted {
			if got := n.Type().Kind(); got != l.kind || repeated != depth {
				return fmt.Errorf("column %s is %s with %d levels of lists, want %s with %d", path, got, repeated, l.kind, depth)
			}
			out[column] = l
		}
		column++
		return nil
	}
	return out, walk(s, "", "", 0, 0, 0)
}

// lastName is the name of a leaf inside its lists and structs; what a list and
// its element are called in between differs by writer.
func lastName(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' {
			return path[i+1:]
		}
	}
	return path
}
