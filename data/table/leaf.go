package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// leaf stores the values of one leaf column in a Record. The library's conversion
// to a struct would turn missing columns into zero values: a file without a loss
// column would read as loss = false.
type leaf struct {
	kind parquet.Kind
	// integers accepts integer columns besides kind. A column of that name with
	// another type or in a list is ignored.
	integers bool
	scalar   func(*Record, parquet.Value)
	// parent creates the struct that contains the column. The struct is present
	// from definition level inside, even if the column is null.
	parent func(*Record)
	inside int
	// list and member replace scalar for a column in a list of messages. The list
	// has an element from definition level exists.
	list   func(*Record) *[]RecordMessage
	member func(*RecordMessage, parquet.Value)
	exists int
}

// read stores the values of one row in the column.
func (l leaf) read(r *Record, values []parquet.Value) {
	if l.list == nil {
		if l.parent != nil && values[0].DefinitionLevel() >= l.inside {
			l.parent(r)
		}
		if !values[0].IsNull() {
			l.scalar(r, values[0])
		}
		return
	}
	list := l.list(r)
	for i, v := range values {
		if v.DefinitionLevel() < l.exists { // the list is empty or null
			if v.DefinitionLevel() == l.exists-1 && *list == nil {
				*list = []RecordMessage{}
			}
			return
		}
		if i == len(*list) {
			*list = append(*list, RecordMessage{})
		}
		if !v.IsNull() {
			l.member(&(*list)[i], v)
		}
	}
}

func textPointer(v parquet.Value) *string {
	s := string(v.ByteArray())
	return &s
}

var members = map[string]leaf{
	"from":    {kind: parquet.ByteArray, member: func(m *RecordMessage, v parquet.Value) { m.From = textPointer(v) }},
	"value":   {kind: parquet.ByteArray, member: func(m *RecordMessage, v parquet.Value) { m.Value = textPointer(v) }},
	"role":    {kind: parquet.ByteArray, member: func(m *RecordMessage, v parquet.Value) { m.Role = textPointer(v) }},
	"content": {kind: parquet.ByteArray, member: func(m *RecordMessage, v parquet.Value) { m.Content = textPointer(v) }},
	"loss": {kind: parquet.Boolean, member: func(m *RecordMessage, v parquet.Value) {
		loss := v.Boolean()
		m.Loss = &loss
	}},
}

var scalars = map[string]leaf{
	"data_source": textLeaf(nil, func(r *Record) **string { return &r.DataSource }),
	"item_id": idLeaf(func(r *Record, id string) {
		if id != "" || r.ItemID == nil {
			r.ItemID = &id
		}
	}),
	"id": idLeaf(func(r *Record, id string) {
		if deref(r.ItemID) == "" {
			r.ItemID = &id
		}
	}),
	"index":   idLeaf(func(r *Record, id string) { r.Index = integer(id) }),
	"ability": textLeaf(nil, func(r *Record) **string { return &r.Ability }),

	"reward_model.ground_truth": textLeaf(inReward, func(r *Record) **string { return &r.RewardModel.GroundTruth }),
	"reward_model.style":        textLeaf(inReward, func(r *Record) **string { return &r.RewardModel.Style }),

	"extra_info.conversations": textLeaf(inExtra, func(r *Record) **string { return &r.ExtraInfo.Conversations }),
	"extra_info.split":         textLeaf(inExtra, func(r *Record) **string { return &r.ExtraInfo.Split }),
	"extra_info.index": {kind: parquet.Int64, parent: inExtra, scalar: func(r *Record, v parquet.Value) {
		index := v.Int64()
		r.ExtraInfo.Index = &index
	}},
}

func textLeaf(parent func(*Record), field func(*Record) **string) leaf {
	return leaf{kind: parquet.ByteArray, parent: parent, scalar: func(r *Record, v parquet.Value) { *field(r) = textPointer(v) }}
}

// idLeaf is a column of strings or integers, read as text.
func idLeaf(set func(r *Record, id string)) leaf {
	return leaf{kind: parquet.ByteArray, integers: true, scalar: func(r *Record, v parquet.Value) {
		switch v.Kind() {
		case parquet.Int32:
			set(r, strconv.Itoa(int(v.Int32())))
		case parquet.Int64:
			set(r, strconv.FormatInt(v.Int64(), 10))
		default:
			set(r, string(v.ByteArray()))
		}
	}}
}

func inReward(r *Record) {
	if r.RewardModel == nil {
		r.RewardModel = &RecordReward{}
	}
}

func inExtra(r *Record) {
	if r.ExtraInfo == nil {
		r.ExtraInfo = &RecordExtra{}
	}
}

var lists = map[string]func(*Record) *[]RecordMessage{
	"conversations": func(r *Record) *[]RecordMessage { return &r.Conversations },
	"prompt":        func(r *Record) *[]RecordMessage { return &r.Prompt },
}

// bindLeaves returns the leaves of a Record's columns by their number in the file,
// and the names of the other columns.
func bindLeaves(s *parquet.Schema) (out map[int]leaf, others []string, err error) {
	out = map[int]leaf{}
	column := 0
	var walk func(n parquet.Node, first, path string, defined, repeated, exists int) error
	walk = func(n parquet.Node, first, path string, defined, repeated, exists int) error {
		inside := defined
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
		if kind := n.Type().Kind(); l.integers && wanted {
			wanted = repeated == 0 && slices.Contains([]parquet.Kind{parquet.ByteArray, parquet.Int32, parquet.Int64}, kind)
			l.kind = kind
		}
		if wanted {
			if got := n.Type().Kind(); got != l.kind || repeated != depth {
				return fmt.Errorf("column %s is %s with %d levels of lists, want %s with %d", path, got, repeated, l.kind, depth)
			}
			l.inside = inside
			out[column] = l
		} else {
			others = append(others, path)
		}
		column++
		return nil
	}
	err = walk(s, "", "", 0, 0, 0)
	return out, others, err
}

// lastName returns the name of a leaf without the lists and structs around it.
// Writers name lists and their elements differently.
func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
