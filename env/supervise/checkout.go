package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// venvName is the folder of a virtual environment in the folder of the package.
const venvName = ".venv"

// VenvIn returns the virtual environment that VenvOf made in a checkout for the
// server of an environment, or "" if it does not exist. The error describes what the
// checkout lacks.
func VenvIn(name, checkout string) (string, error) {
	r, ok := recipes[name]
	if !ok {
		return "", fmt.Errorf("no recipe for %s; there are recipes for %s", name, strings.Join(Recipes(), ", "))
	}
	if err := r.inCheckout(checkout); err != nil {
		return "", err
	}
	return r.made(checkout), nil
}

// made returns the virtual environment in a checkout, or "".
func (r recipe) made(checkout string) string {
	venv := filepath.Join(checkout, r.folder, venvName)
	if _, err := os.Stat(venv); err != nil {
		return ""
	}
	return venv
}

// inCheckout returns an error if the package is missing in a checkout.
func (r recipe) inCheckout(checkout string) error {
	st, err := os.Stat(filepath.Join(checkout, r.folder))
	if err != nil || !st.IsDir() {
		return fmt.Errorf("no folder %s in %s: give the checkout of AgentGym that contains it", r.folder, checkout)
	}
	for _, f := range r.files {
		if _, err := os.Stat(filepath.Join(checkout, r.folder, f)); err != nil {
			return fmt.Errorf("%s in %s is empty: fetch the checkout's submodules (git submodule update --init)",
				filepath.Dir(filepath.Join(r.folder, f)), checkout)
		}
	}
	return nil
}
