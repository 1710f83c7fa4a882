package env

// families are ranges of task indices with a name each, by where they begin.
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
