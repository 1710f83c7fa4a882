package torch

// #include "openmanus_torch.h"
import "C"

import "fmt"

// supportedLibtorch is the release of libtorch that the program requires.
const supportedLibtorch = "2.11.0"

// VersionInfo holds the versions of the loaded native libraries.
type VersionInfo struct {
	Libtorch string // release of the loaded libtorch
	Compiled string // release whose headers the shim was compiled with
	ABI      int    // version of the shim's C interface
	Source   string // hash of the shim's sources
}

// Version loads the native libraries and returns their versions.
func Version() (VersionInfo, error) {
	if err := load(); err != nil {
		return VersionInfo{}, err
	}
	return version(), nil
}

// version returns the versions of the libraries that load has loaded.
func version() VersionInfo {
	return VersionInfo{
		Libtorch: C.GoString(C.om_libtorch_loaded()),
		Compiled: C.GoString(C.om_libtorch_compiled()),
		ABI:      int(C.om_abi_version()),
		Source:   C.GoString(C.om_source_hash()),
	}
}

// abi is the version of the C interface that the program was compiled with.
const abi = C.OM_ABI

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
