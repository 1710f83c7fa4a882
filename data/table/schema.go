package table

import (
	"slices"

	"github.com/parquet-go/parquet-go"
)

// recordSchema returns the schema of OpenManus-RL's parquet files (protocol 7.1):
// every column is nullable, lists have three levels, the fields of structs are in
// alphabetical order and the columns in the order of OpenManus-RL's generator.
func recordSchema() *parquet.Schema {
	text := func() parquet.Node { return parquet.Optional(parquet.String()) }
	word := func() parquet.Node { // a text that many rows share
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

// columns is a group whose fields are in the order of names. Fields of a parquet.Group
// are in alphabetical order.
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

// deconstruct appends the values of recordSchema's leaf columns in r to row, each
// with its repetition and definition level. It adds 1 to the definition level in list
// elements, because the library does not count that the element itself is nullable.
func deconstruct(schema *parquet.Schema, row parquet.Row, r *Record) parquet.Row {
	full := *r
	full.Conversations = inBothNotations(r.Conversations)
	full.Prompt = inBothNotations(r.Prompt)
	row = schema.Deconstruct(row, &full)
	const emptyList = 1 // definition level
	for i, v := range row {
		inList := len(schema.Columns()[v.Column()]) > 2 // "prompt", "list", "element", "role"
		if level := v.DefinitionLevel(); inList && level > emptyList {
			row[i] = v.Level(v.RepetitionLevel(), level+1, v.Column())
		}
	}
	return row
}

// inBothNotations returns messages with the fields of AgentTraj and of chat formats.
func inBothNotations(in []RecordMessage) []RecordMessage {
	out := slices.Clone(in)
	for i := range in {
		m := &in[i]
		out[i] = RecordMessage{From: m.from(), Value: m.text(), Role: m.role(), Content: m.text(), Loss: m.Loss}
	}
	return out
}
