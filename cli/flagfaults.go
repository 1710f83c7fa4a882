package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// flagFaults collects all errors of a command line, to report them together.
type flagFaults struct {
	errs  []error
	flags []string // flags with an error
}

func (f *flagFaults) add(flag, format string, args ...any) {
	f.flags = append(f.flags, flag)
	f.errs = append(f.errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
}

// about reports whether the given flag has an error.
func (f *flagFaults) about(flag string) bool { return slices.Contains(f.flags, flag) }

func (f *flagFaults) need(flag, value, expected string) bool {
	if value == "" && !f.about(flag) {
		f.add(flag, "missing; give %s", expected)
	}
	return value != ""
}

func (f *flagFaults) oneOf(flag, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		f.add(flag, "%q is not allowed; allowed: %s", value, strings.Join(allowed, ", "))
	}
}

func (f *flagFaults) atLeast(flag string, value, lo int) {
	if value < lo {
		f.add(flag, "%d is not allowed; allowed: at least %d", value, lo)
	}
}

func (f *flagFaults) device(value string) {
	if msg := configs.DeviceName(value); msg != "" {
		f.add("device", "%s", msg)
	}
}

func (f *flagFaults) dtype(value string) { f.oneOf("dtype", value, "float32", "bfloat16") }

func (f *flagFaults) err() error {
	return errext.With(errext.Usage, "", errors.Join(f.errs...))
}
