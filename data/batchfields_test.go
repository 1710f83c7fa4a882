package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// with returns a copy of b whose rows have a field, filled with x.
func withField(t *testing.T, b Batch, key string, x float32) Batch {
	t.Helper()
	out := b.with(slices.Clone(b.Rows))
	for i := range out.Rows {
		into, err := out.Rows[i].field(key)
		if err != nil {
			t.Fatal(err)
		}
		*into = slices.Repeat([]float32{x}, len(out.Rows[i].Tokens))
	}
	return out
}

// DataProto has oddities (spec 4.1); each is here as what is right.
func TestDataProtoOddities(t *testing.T) {
	b := testBatch(t, 4)
	ok := func(b Batch, err error) Batch {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	t.Run("a slice is a batch", func(t *testing.T) { // not a DataProtoItem without methods
		if got := samples(ok(ok(b.Slice(1, 4)).Reorder([]int{2, 1, 0}))); got != "3 2 1" {
			t.Errorf("rows %s", got)
		}
	})
	t.Run("meta is not shared", func(t *testing.T) {
		ok(b.Slice(0, 2)).Meta["step"] = "changed"
		pieces, err := b.Chunk(2)
		if err != nil {
			t.Fatal(err)
		}
		pieces[0].Meta["step"] = "changed"
		if b.Meta["step"] != "1" || pieces[1].Meta["step"] != "1" {
			t.Errorf("meta %v, %v", b.Meta, pieces[1].Meta)
		}
	})
	t.Run("concat keeps the meta of all", func(t *testing.T) { // not the first one's only
		one, two := ok(b.Slice(0, 2)), ok(b.Slice(2, 4))
		two.Meta["loss"] = "2"
		if got := ok(Concat(one, two)).Meta; got["loss"] != "2" || got["step"] != "1" {
			t.Errorf("meta %v", got)
		}
	})
	t.Run("reorder moves uid with its row", func(t *testing.T) {
		for _, r := range ok(b.Reorder([]int{3, 2, 1, 0})).Rows {
			if r.UID != fmt.Sprintf("u%d", r.Sample) {
				t.Errorf("row %d has uid %s", r.Sample, r.UID)
			}
		}
	})
	t.Run("repeat copies what belongs to a row", func(t *testing.T) { // meta lists had the wrong length
		if got := samples(ok(ok(b.Slice(0, 2)).Tile(2))); got != "0 1 0 1" {
			t.Errorf("abab gives %s", got)
		}
		if got := samples(ok(ok(b.Slice(0, 2)).Repeat(2))); got != "0 0 1 1" {
			t.Errorf("aabb gives %s", got)
		}
	})
	t.Run("a batch smaller than the workers is spread", func(t *testing.T) { // padding was wrong for B < pad size
		pieces, err := b.Spread(7)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, p := range pieces {
			all = append(all, samples(p))
			if p.Len() > 1 || p.Meta["step"] != "1" {
				t.Errorf("piece %+v", p)
			}
		}
		if got := strings.Join(strings.Fields(strings.Join(all, " ")), " "); got != "0 1 2 3" {
			t.Errorf("rows %s", got)
		}
		pieces, err = b.Spread(3)
		if err != nil || len(pieces) != 3 || samples(pieces[0])+"|"+samples(pieces[1])+"|"+samples(pieces[2]) != "0|1|2 3" {
			t.Errorf("pieces %v (%v)", pieces, err)
		}
	})
	t.Run("union changes neither", func(t *testing.T) { // it was in place
		one, two := withField(t, b, "rewards", 1), withField(t, b, "values", 2)
		u := ok(one.Union(two))
		if u.Rows[2].Rewards[0] != 1 || u.Rows[2].Values[0] != 2 || one.Rows[2].Values != nil || two.Rows[2].Rewards != nil {
			t.Error("the union is wrong, or in place")
		}
	})
	t.Run("union adds the baseline", func(t *testing.T) {
		known := b.with(slices.Clone(b.Rows))
		baseline := .75
		known.Rows[1].Baseline = &baseline
		for _, u := range []Batch{ok(b.Union(known)), ok(known.Union(b)), ok(known.Union(known))} {
			if got := u.Rows[1].Baseline; got == nil || *got != baseline || u.Rows[0].Baseline != nil {
				t.Errorf("the baselines are %v and %v", u.Rows[0].Baseline, got)
			}
		}
		if b.Rows[1].Baseline != nil {
			t.Error("the union is in place")
		}
	})
	t.Run("pop leaves the original", func(t *testing.T) {
		one := withField(t, b, "old_log_probs", 1)
		if got := ok(one.Without("old_log_probs")); got.Rows[0].OldLogProbs != nil || one.Rows[0].OldLogProbs == nil {
			t.Error("the field is still there, or gone from the original")
		}
	})
	t.Run("mini-batches depend on the seed alone", func(t *testing.T) {
		draw := func(seed uint64) (all []string) {
			minis, err := b.MiniBatches(2, 2, seed)
			if err != nil {
				t.Fatal(err)
			}
			for m := range minis {
				all = append(all, samples(m))
			}
			return all
		}
		first := draw(1)
		if d := cmp.Diff(first, draw(1)); d != "" || len(first) != 4 {
			t.Errorf("%v: %s", first, d)
		}
		for epoch := range 2 { // every row once in each
			rows := strings.Fields(strings.Join(first[2*epoch:2*epoch+2], " "))
			slices.Sort(rows)
			if strings.Join(rows, " ") != "0 1 2 3" {
				t.Errorf("epoch %d has %v", epoch, rows)
			}
		}
	})
	t.Run("size", func(t *testing.T) {
		// 6 ids, 6 mask bytes and 6 recorded log-probs a row, and then rewards.
		if got, more := b.Bytes(), withField(t, b, "rewards", 1).Bytes(); got != 4*(24+6+24) || more != got+4*24 {
			t.Errorf("%d and %d bytes", got, more)
		}
	})
}

func TestBatchFieldErrors(t *testing.T) {
	b := testBatch(t, 4)
	other := b.with(slices.Clone(b.Rows))
	other.Rows[1].Seed++
	low, high := 0., 1.
	baselines := [2]Batch{b.with(slices.Clone(b.Rows)), b.with(slices.Clone(b.Rows))}
	baselines[0].Rows[2].Baseline, baselines[1].Rows[2].Baseline = &low, &high
	meta := b.with(b.Rows)
	meta.Meta["step"] = "2"
	short, err := b.Slice(0, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		f          func() error
	}{
		{"pop unknown", `no field "reward"; there are rollout_log_probs, old_log_probs`, func() error { _, err := b.Without("reward"); return err }},
		{"pop missing", "row 0 (u0) has no rewards", func() error { _, err := b.Without("rewards"); return err }},
		{"union sizes", "4 and 3 rows", func() error { _, err := b.Union(short); return err }},
		{"union rows", "row 1 is sample 1 of u1", func() error { _, err := b.Union(other); return err }},
		{"union baselines", "row 2 (u2): its baseline is 0 in one and 1", func() error { _, err := baselines[0].Union(baselines[1]); return err }},
		{"union meta", `meta "step"`, func() error { _, err := b.Union(meta); return err }},
		{"union values", "row 0 (u0): rewards differs", func() error {
			_, err := withField(t, b, "rewards", 1).Union(withField(t, b, "rewards", 2))
			return err
		}},
		{"pick outside", "index 4 at 1", func() error { _, err := b.Pick([]int{0, 4}); return err }},
		{"pick twice", "there twice", func() error { _, err := b.Pick([]int{1, 1}); return err }},
		{"tile 0", "tile 0", func() error { _, err := b.Tile(0); return err }},
		{"spread 0", "over 0", func() error { _, err := b.Spread(0); return err }},
		{"mini uneven", "divides the rows", func() error { _, err := b.MiniBatches(3, 1, 1); return err }},
		{"mini of nothing", "0 rows", func() error { _, err := Batch{}.MiniBatches(1, 1, 1); return err }},
	} {
		if err := c.f(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	if got, err := b.Pick([]int{3, 0}); err != nil || samples(got) != "3 0" {
		t.Errorf("pick: %v (%v)", samples(got), err)
	}
}
