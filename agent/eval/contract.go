package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Contract is everything that can change the number beside what is compared:
// the model's weights, and chance, which the seed stands for. Two results with
// one contract were taken under the same conditions.
type Contract struct {
	Hash  string            `json:"hash"`
	Parts map[string]string `json:"parts"`
}

// NewContract makes the contract of some conditions.
func NewContract(parts map[string]string) Contract {
	return Contract{Hash: hashOf(parts), Parts: parts}
}

// hashOf hashes the parts as JSON, whose keys encoding/json sorts.
func hashOf(parts map[string]string) string {
	b, err := json.Marshal(parts)
	if err != nil { // a map of strings always has a form
		panic("eval: " + err.Error())
	}
	return Digest(b)
}

// Digest names a text that is too long for a part.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Check reports whether the hash is that of the parts.
func (c Contract) Check() error {
	if len(c.Parts) == 0 {
		return errors.New("it has no evaluation contract")
	}
	if want := hashOf(c.Parts); c.Hash != want {
		return fmt.Errorf("its contract was changed: the hash says %s, the parts give %s", c.Hash, want)
	}
	return nil
}

// Difference is a part in which two contracts differ. A side that lacks the
// part is "".
type Difference struct {
	Part string `json:"part"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// String names the part and both values on one line.
func (d Difference) String() string { return fmt.Sprintf("%s: %q, %q", d.Part, d.A, d.B) }

// Diff lists where two contracts differ, in the order of the names.
func Diff(a, b Contract) []Difference {
	names := map[string]bool{}
	for name := range a.Parts {
		names[name] = true
	}
	for name := range b.Parts {
		names[name] = true
	}
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, inA := a.Parts[name]
		y, inB := b.Parts[name]
		if x != y || inA != inB {
			out = append(out, Difference{name, x, y})
		}
	}
	return out
}

// String lists the parts, a line each, and the hash.
func (c Contract) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "contract %s\n", c.Hash)
	for _, name := range slices.Sorted(maps.Keys(c.Parts)) {
		fmt.Fprintf(&b, "  %-20s %s\n", name, c.Parts[name])
	}
	return b.String()
}
