package configs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseIndices(t *testing.T) {
	tests := []struct {
		in   string
		want []int // nil if the list is invalid
	}{
		{"0-3,17", []int{0, 1, 2, 3, 17}},
		{"5", []int{5}},
		{" 5 , 1 - 2 ", []int{5, 1, 2}},
		{"", nil},
		{"1,", nil},
		{"3-1", nil},
		{"-1", nil},
		{"1-2,2", nil},
		{"0-99999999", nil},
		{"0-9999999999999999999999", nil},
		{"rows.parquet", nil},
		{"1.5", nil},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := ParseIndices(tt.in)
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTaskSpec(t *testing.T) {
	for in, ok := range map[string]bool{
		"0-3": true, "a.parquet": true, "a.jsonl,b.json": true, "0-3, a.parquet,9": true,
		"": false, "a.csv": false, "0-3,a.parquet,2": false, "a.parquet,": false,
	} {
		if msg := schema.taskSpec(in); (msg == "") != ok {
			t.Errorf("%q: %q", in, msg)
		}
	}
}
