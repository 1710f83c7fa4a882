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

// Contract lists every setting that can change a result, except the compared
// weights and the seed. Two results with equal contracts were taken under the
// same conditions.
type Contract struct {
	Hash  string            `json:"hash"`
	Parts map[string]string `json:"parts"`
}

// NewContract returns the contract with the given parts.
func NewContract(parts map[string]string) Contract {
	return Contract{Hash: hashOf(parts), Parts: parts}
}

// hashOf hashes the parts as JSON, whose keys encoding/json sorts.
func hashOf(parts map[string]string) string {
	b, err := json.Marshal(parts)
	if err != nil { // a map of strings can always be encoded
		panic("eval: " + err.Error())
	}
	return Digest(b)
}

// Digest returns the digest of a text that is too long for a part.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Check returns an error if the hash does not match the parts.
func (c Contract) Check() error {
	if len(c.Parts) == 0 {
		return errors.New("no evaluation contract")
	}
	if want := hashOf(c.Parts); c.Hash != want {
		return fmt.Errorf("the contract was edited: its hash is %s, but the parts have %s", c.Hash, want)
	}
	return nil
}

// Difference is a part in which the contracts A and B differ. If a contract does
// not have the part, its value is "".
type Difference struct {
	Part string `json:"part"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// String returns the part and both values.
func (d Difference) String() string { return fmt.Sprintf("%s: %q, %q", d.Part, d.A, d.B) }

// Diff returns the differences of two contracts, sorted by part.
func Diff(a, b Contract) []Difference {
	either := map[string]string{}
	maps.Copy(either, a.Parts)
	maps.Copy(either, b.Parts)
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(either)) {
		x, inA := a.Parts[name]
		y, inB := b.Parts[name]
		if x != y || inA != inB {
			out = append(out, Difference{name, x, y})
		}
	}
	return out
}

// String returns the hash and the parts, one per line.
func (c Contract) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "contract %s\n", c.Hash)
	for _, name := range slices.Sorted(maps.Keys(c.Parts)) {
		fmt.Fprintf(&b, "  %-20s %s\n", name, c.Parts[name])
	}
	return b.String()
}
