package table

import "github.com/parquet-go/parquet-go"

// recordSchema returns the schema of OpenManus-RL's parquet files (protocol 7.1):
// every column is nullable, lists have three levels, the fields of structs are in
// alphabetical order and the columns in the order of their generator.
func recordSchema() *parquet.Schema {
	text := func() parquet.Node { return parquet.Optional(parquet.String()) }
	word := func() parquet.Node { // repeats from row to row
		return parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary))
	}
	list := func(element parquet.Group) parquet.Node {
		return parquet.Optional(parquet.List(parquet.Optional(element)))
	}
	return parquet.NewSchema("schema", columns{
		names: []string{"data_source", "item_id", "conversations", "prompt", "ability", "reward_model", "extra_info"},
		Group: parquet.Group{
			"data_source": word(),
			"item_id":     word(),
			"conversations": list(parquet.Group{
				"from":  word(),
				"loss":  parquet.Optional(parquet.Leaf(parquet.BooleanType)),
				"value": text(),
			}),
			"prompt":       list(parquet.Group{"content": word(), "role": word()}),
			"ability":      word(),
			"reward_model": parquet.Optional(parquet.Group{"ground_truth": text(), "style": word()}),
			"extra_info": parquet.Optional(parquet.Group{
				"conversations": text(),
				"index":         parquet.Optional(parquet.Leaf(parquet.Int64Type)),
				"split":         word(),
			}),
		},
	})
}

// columns is a group whose fields are in the order of names; the library's are in
// alphabetical order.
type columns struct {
	parquet.Group
	names []string
}

// Fields returns the fields in the order of names.
func (c columns) Fields() []parquet.Field {
	byName := map[string]parquet.Field{}
	for _, f := range c.Group.Fields() {
		byName[f.Name()] = f
	}
	out := make([]parquet.Field, len(c.names))
	for i, name := range c.names {
		out[i] = byName[name]
	}
	return out
}

// shredder splits a record into the values of recordSchema's leaf columns, each
// with its repetition and definition level (Dremel, Melnik et al. 2010).
type shredder struct {
	row    parquet.Row
	column int
	bytes  int // of text, in the row group so far
}

func (s *shredder) add(v parquet.Value, repeated, defined int) {
	s.row = append(s.row, v.Level(repeated, defined, s.column))
}

// text adds the value of a nullable column in a list element or struct that is
// present from definition level inside.
func (s *shredder) text(v *string, repeated, inside int) {
	if v == nil {
		s.add(parquet.NullValue(), repeated, inside)
		return
	}
	s.bytes += len(*v)
	s.add(parquet.ByteArrayValue([]byte(*v)), repeated, inside+1)
}

// member adds the values of one field in a list of messages.
func (s *shredder) member(list []RecordMessage, value func(m *RecordMessage, repeated, inside int)) {
	const absent, empty, element = 0, 1, 3
	switch {
	case list == nil:
		s.add(parquet.NullValue(), 0, absent)
	case len(list) == 0:
		s.add(parquet.NullValue(), 0, empty)
	}
	for i := range list {
		value(&list[i], min(i, 1), element)
	}
	s.column++
}

func (s *shredder) scalar(v *string) {
	s.text(v, 0, 0)
	s.column++
}

// record splits r. The row is valid until the next call.
func (s *shredder) record(r *Record) parquet.Row {
	s.row, s.column = s.row[:0], 0
	field := func(list []RecordMessage, of func(*RecordMessage) *string) {
		s.member(list, func(m *RecordMessage, repeated, inside int) { s.text(of(m), repeated, inside) })
	}
	s.scalar(r.DataSource)
	s.scalar(r.ItemID)
	field(r.Conversations, (*RecordMessage).from)
	s.member(r.Conversations, func(m *RecordMessage, repeated, inside int) {
		if m.Loss == nil {
			s.add(parquet.NullValue(), repeated, inside)
			return
		}
		s.add(parquet.BooleanValue(*m.Loss), repeated, inside+1)
	})
	field(r.Conversations, (*RecordMessage).text)
	field(r.Prompt, (*RecordMessage).text)
	field(r.Prompt, (*RecordMessage).role)
	s.scalar(r.Ability)
	var reward RecordReward
	var extra RecordExtra
	inReward, inExtra := 0, 0
	if r.RewardModel != nil {
		reward, inReward = *r.RewardModel, 1
	}
	if r.ExtraInfo != nil {
		extra, inExtra = *r.ExtraInfo, 1
	}
	for _, v := range []*string{reward.GroundTruth, reward.Style} {
		s.text(v, 0, inReward)
		s.column++
	}
	s.text(extra.Conversations, 0, inExtra)
	s.column++
	if extra.Index == nil {
		s.add(parquet.NullValue(), 0, inExtra)
	} else {
		s.add(parquet.Int64Value(*extra.Index), 0, inExtra+1)
	}
	s.column++
	s.text(extra.Split, 0, inExtra)
	return s.row
}
