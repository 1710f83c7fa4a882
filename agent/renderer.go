package agent

import "github.com/openmanus/openmanus/data"

// Renderer turns messages into token ids with a model's chat template. A
// conversation only ever grows at its end: ids once given are never changed.
type Renderer interface {
	// Start renders the first messages and what asks for the first reply.
	Start(messages []data.Message) ([]int32, error)
	// Next renders what comes between a reply and the next one: the end of
	// the reply's turn, as far as the reply did not bring it itself, the
	// messages, and what asks for a reply. stoppedByEOS says that the reply
	// ended with a stop token, lastID, the last id of the reply.
	Next(stoppedByEOS bool, lastID int32, messages []data.Message) ([]int32, error)
	// StopTokens are the ids that end a reply.
	StopTokens() []int32
	// Decode is the text of ids.
	Decode(ids []int32) string
}
