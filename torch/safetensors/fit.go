package safetensors

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Listing names and describes tensors. File and Folder implement it.
type Listing interface {
	Names() []string
	// Info describes the named tensor; ok is false if there is none.
	Info(name string) (info Info, ok bool)
}

// maxFaults bounds the tensors that an error of Fit lists; the error gives the number of the others.
const maxFaults = 8

// Fit returns an error if tensors of want are missing in src or have another
// shape or dtype there, or if src has tensors that are neither wanted nor
// redundant. A DType of "" in want accepts all floating-point types. If the
// function redundant is nil, no tensor is redundant.
func Fit(src Listing, want []Spec, redundant func(name string) bool) error {
	var faults []string
	expected := map[string]bool{}
	for _, w := range want {
		expected[w.Name] = true
		switch got, ok := src.Info(w.Name); {
		case !ok:
			faults = append(faults, fmt.Sprintf("tensor %s is missing", w.Name))
		case !slices.Equal(got.Shape, w.Info.Shape):
			faults = append(faults, fmt.Sprintf("tensor %s has shape %v, want %v", w.Name, got.Shape, w.Info.Shape))
		case w.Info.DType == "" && !slices.Contains([]DType{F64, F32, F16, BF16}, got.DType):
			faults = append(faults, fmt.Sprintf("tensor %s is stored as %s, want a floating-point type", w.Name, got.DType))
		case w.Info.DType != "" && got.DType != w.Info.DType:
			faults = append(faults, fmt.Sprintf("tensor %s is stored as %s, want %s", w.Name, got.DType, w.Info.DType))
		}
	}
	for _, n := range slices.Sorted(slices.Values(src.Names())) {
		if !expected[n] && (redundant == nil || !redundant(n)) {
			faults = append(faults, fmt.Sprintf("tensor %.80s is unexpected", n))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(faults, "; "))
}
