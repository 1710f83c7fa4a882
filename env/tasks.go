package env

import "fmt"

// below returns a Spec.IndexValid for n tasks, which noun names in the plural.
func below(n int, noun string) func(int) error {
	return func(i int) error {
		if i >= n {
			return fmt.Errorf("the %s are 0 to %d", noun, n-1)
		}
		return nil
	}
}

// families names ranges of task indices by the first index of each, ascending.
type families []struct {
	from int
	name string
}

// at is a Spec.Family.
func (fs families) at(index int) string {
	name := ""
	for _, f := range fs {
		if index >= f.from {
			name = f.name
		}
	}
	return name
}
