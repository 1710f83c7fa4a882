package track

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a protocol buffer in its wire format. Each method appends a field and
// returns the longer message.
type message []byte

func (m message) bytes(n protowire.Number, v []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, n, protowire.BytesType), v)
}

func (m message) text(n protowire.Number, v string) message { return m.bytes(n, []byte(v)) }

func (m message) integer(n protowire.Number, v int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, n, protowire.VarintType), uint64(v))
}

func (m message) double(n protowire.Number, v float64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, n, protowire.Fixed64Type), math.Float64bits(v))
}

func (m message) float(n protowire.Number, v float32) message {
	return protowire.AppendFixed32(protowire.AppendTag(m, n, protowire.Fixed32Type), math.Float32bits(v))
}
