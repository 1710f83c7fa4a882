package doctor

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/openmanus/openmanus/torch"
)

func libraries(context.Context, *Machine) []Finding {
	v, err := torch.Version()
	if err != nil {
		return []Finding{{Name: "libtorch", Level: Fail, Value: err.Error(), Advice: "install openmanus again; without the source, the one file and the archive contain the libraries"}}
	}
	files, err := torch.LoadedFiles()
	if err != nil {
		return []Finding{{Name: "libtorch", Level: Warn, Value: v.Libtorch, Advice: "where it was loaded from is unknown: " + err.Error()}}
	}
	from := func(name string) string {
		for _, f := range files {
			if strings.HasPrefix(filepath.Base(f), name) {
				return f
			}
		}
		return "an unknown path"
	}
	const digits = 12
	shim := v.Source[:min(digits, len(v.Source))]
	return []Finding{
		ok("libtorch", "%s from %s", v.Libtorch, from("libtorch_cpu.so")),
		ok("shim", "%s from %s", shim, from("libopenmanus_torch.so")),
	}
}
