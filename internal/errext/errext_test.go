package errext

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestWith(t *testing.T) {
	if With(Disk, "hint", nil) != nil {
		t.Error("With(nil) is not nil")
	}
	cause := errors.New("open x: not found")
	err := With(Input, "use another", cause)
	if err.Error() != "open x: not found: use another" || !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestCodeOfReturnsTheOutermostCode(t *testing.T) {
	inner := With(Disk, "", errors.New("full"))
	if code, ok := CodeOf(fmt.Errorf("save: %w", With(Input, "", inner))); code != Input || !ok {
		t.Errorf("got %d, %v", code, ok)
	}
	if code, ok := CodeOf(errors.New("plain")); code != Internal || ok {
		t.Errorf("got %d, %v", code, ok)
	}
}

func TestCodesAreAscending(t *testing.T) {
	for i, c := range Codes[1:] {
		if c.Code <= Codes[i].Code || c.Meaning == "" {
			t.Errorf("code %d is out of order or has no meaning", c.Code)
		}
	}
	if !slices.ContainsFunc(Codes, func(c Meaning) bool { return c.Code == Interrupted }) {
		t.Error("Codes lacks Interrupted")
	}
}
