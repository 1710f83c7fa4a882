package registry

import (
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	r := New[int]("loss")
	r.Register("vanilla", 1)
	r.Register("gspo", 2)
	if v, err := r.Lookup("gspo"); v != 2 || err != nil {
		t.Fatalf("Lookup(gspo) = %d, %v", v, err)
	}
	_, err := r.Lookup("vanila")
	if err == nil || !strings.Contains(err.Error(), `unknown loss "vanila" (known: gspo, vanilla)`) {
		t.Fatalf("Lookup of an unknown name: %v", err)
	}
}

func TestRegisterTwicePanics(t *testing.T) {
	r := New[int]("loss")
	r.Register("a", 1)
	defer func() {
		if recover() == nil {
			t.Fatal("the second registration of a name did not panic")
		}
	}()
	r.Register("a", 2)
}

func TestNearest(t *testing.T) {
	words := []string{"constant", "linear", "cosine", "k3"}
	for in, want := range map[string]string{"consine": "cosine", "lienar": "linear", "k1": "k3", "banana": "", "COSINE": "cosine", "": ""} {
		if got := Nearest(in, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
}
