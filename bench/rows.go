package main

import (
	"regexp"
	"strings"

	"github.com/openmanus/openmanus/torch"
)

// Row is one line of the table of speeds: a job of a real model, a smaller job of the same kind that `bench --quick` measures, and
// the peers that also do the job.
type Row struct {
	Job   Job
	Quick Job
	Peers []Form
}

// Form is a peer and, if it has several ways to do a job, the name of one.
type Form struct {
	Peer string
	Form string
}

func (f Form) String() string { return strings.TrimSpace(f.Peer + " " + f.Form) }

// The peers that do jobs. TRL, the peer of GRPO steps, is in trl.go.
const (
	transformers = "transformers"
	llamaCPP     = "llama.cpp"
)

// types are the types that every row is measured in: of the weights in generation, of the arithmetic in training.
var types = []torch.DType{torch.Float32, torch.BFloat16}

// rows returns the table, without the GRPO step and the start, which are processes of their own.
func rows() []Row {
	both := []Form{{Peer: transformers}, {Peer: llamaCPP}}
	var list []Row
	for _, d := range []struct {
		name       string
		batch, new int
	}{{"decode, 1 row", 1, 64}, {"decode, 8 rows", 8, 48}, {"decode, 16 rows", 16, 48}, {"decode, 32 rows", 32, 32}, {"decode, 64 rows", 64, 32}} {
		list = append(list, Row{
			Job:   Job{Name: d.name, Kind: Decode, Batch: d.batch, Context: 128, New: d.new},
			Quick: Job{Name: d.name, Kind: Decode, Batch: d.batch, Context: 16, New: max(8, 32/d.batch)},
			Peers: both,
		})
	}
	return append(list,
		Row{
			Job:   Job{Name: "prefill, 8 prompts of 512", Kind: Prefill, Batch: 8, Tokens: 512},
			Quick: Job{Name: "prefill, 2 prompts of 512", Kind: Prefill, Batch: 2, Tokens: 512},
			Peers: both,
		},
		Row{
			Job:   Job{Name: "training, 4 rows of 512", Kind: Train, Batch: 4, Tokens: 512, Master: true},
			Quick: Job{Name: "training, 1 row of 512", Kind: Train, Batch: 1, Tokens: 512, Master: true},
			Peers: []Form{{Peer: transformers}},
		},
		Row{
			Job:   Job{Name: "training, 16 rows of 64 to 1024", Kind: Train, Batch: 16, Tokens: 1024, Ragged: true, Shortest: 64, Master: true},
			Quick: Job{Name: "training, 4 rows of 32 to 160", Kind: Train, Batch: 4, Tokens: 160, Ragged: true, Shortest: 32, Master: true},
			Peers: []Form{{transformers, "padded"}, {transformers, "sorted"}, {transformers, "single"}},
		},
		Row{
			Job:   Job{Name: "16 episodes, 116 turns of 64 + 64", Kind: Turns, Batch: 16, Turns: 10, Fewest: 5, Prompt: 64, New: 64, Observation: 64},
			Quick: Job{Name: "16 episodes, 24 turns of 16 + 16", Kind: Turns, Batch: 16, Turns: 2, Fewest: 1, Prompt: 16, New: 16, Observation: 16},
			Peers: []Form{{Peer: transformers}, {transformers, "re-encoding"}, {Peer: llamaCPP}},
		})
}

// chosen returns the rows whose name, in full or in quick, matches. A nil pattern matches all.
func chosen(list []Row, pattern *regexp.Regexp) []Row {
	if pattern == nil {
		return list
	}
	var out []Row
	for _, r := range list {
		if pattern.MatchString(r.Job.Name) || pattern.MatchString(r.Quick.Name) {
			out = append(out, r)
		}
	}
	return out
}
