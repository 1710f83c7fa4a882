package hub

import (
	"regexp"
	"strings"
)

// Name is the name of a model on the hub.
type Name struct {
	ID       string // ORG/NAME
	File     string // a .gguf file of the repository; "": the model is the whole repository
	Revision string // branch, tag or commit
}

// DefaultRevision is the branch of a name without a revision.
const DefaultRevision = "main"

var (
	nameForm     = regexp.MustCompile(`^([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:/([\w./-]+\.gguf))?(?:@([\w./-]+))?$`)
	revisionForm = regexp.MustCompile(`^[A-Za-z0-9][\w./-]*$`)
)

// ParseName parses ORG/NAME, ORG/NAME@REVISION, ORG/NAME/FILE.gguf and ORG/NAME/FILE.gguf@REVISION. It returns
// false for other texts.
func ParseName(s string) (Name, bool) {
	m := nameForm.FindStringSubmatch(s)
	if m == nil {
		return Name{}, false
	}
	n := Name{ID: m[1], File: m[2], Revision: m[3]}
	if n.Revision == "" && !strings.Contains(s, "@") {
		n.Revision = DefaultRevision
	}
	return n, n.valid()
}

func (n Name) valid() bool {
	const longest = 96 // the hub's limit of an ID
	return len(n.ID) <= longest && !strings.Contains(n.ID, "..") && !strings.Contains(n.ID, "--") && !strings.Contains(n.File, "..") &&
		len(n.Revision) <= 256 && revisionForm.MatchString(n.Revision) && !strings.Contains(n.Revision, "..")
}

// String returns the text that ParseName parses.
func (n Name) String() string {
	s := n.ID
	if n.File != "" {
		s += "/" + n.File
	}
	if n.Revision != DefaultRevision {
		s += "@" + n.Revision
	}
	return s
}
