package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"sync"
)

// supportedLibtorch is the release of libtorch that the program requires.
const supportedLibtorch = "2.11.0"

// VersionInfo holds the versions of the loaded native libraries.
type VersionInfo struct {
	Libtorch string // release of the loaded libtorch
	Compiled string // release whose headers the shim was compiled with
	ABI      int    // version of the shim's C interface
	Source   string // hash of the shim's sources
}

// Version returns the versions of the loaded native libraries.
func Version() VersionInfo {
	return VersionInfo{
		Libtorch: C.GoString(C.om_libtorch_loaded()),
		Compiled: C.GoString(C.om_libtorch_compiled()),
		ABI:      int(C.om_abi_version()),
		Source:   C.GoString(C.om_source_hash()),
	}
}

var checkVersions = sync.OnceValue(func() error { return Version().check(C.OM_ABI) })

// check returns an error if the libraries do not match each other or a program compiled with the C interface abi.
func (v VersionInfo) check(abi int) error {
	if v.ABI != abi {
		return fmt.Errorf("torch: libopenmanus_torch.so has ABI %d, this program needs %d; run ./build.sh again", v.ABI, abi)
	}
	if v.Compiled != supportedLibtorch {
		return fmt.Errorf("torch: libopenmanus_torch.so was compiled for libtorch %s, this program needs %s; run ./build.sh again", v.Compiled, supportedLibtorch)
	}
	if v.Libtorch != v.Compiled {
		return fmt.Errorf("torch: libtorch %s is loaded but libopenmanus_torch.so was compiled for %s; check LD_LIBRARY_PATH", v.Libtorch, v.Compiled)
	}
	return nil
}
