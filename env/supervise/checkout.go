package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// venvName is where Install puts a virtual environment and Launch finds it:
// in the folder of the package.
const venvName = ".venv"

// VenvIn returns the virtual environment that VenvOf makes in a checkout for
// the server of an environment, "" while there is none. Its error says what
// the checkout lacks.
func VenvIn(name, checkout string) (string, error) {
	r, ok := recipes[name]
	if !ok {
		return "", fmt.Errorf("there is no recipe of %s (there are: %s)", name, strings.Join(Recipes(), ", "))
	}
	if err := r.inCheckout(checkout); err != nil {
		return "", err
	}
	return r.made(checkout), nil
}

// made is the virtual environment that lies in a checkout, "" without one.
func (r recipe) made(checkout string) string {
	venv := filepath.Join(checkout, r.folder, venvName)
	if _, err := os.Stat(venv); err != nil {
		return ""
	}
	return venv
}

// inCheckout reports what a checkout lacks.
func (r recipe) inCheckout(checkout string) error {
	st, err := os.Stat(filepath.Join(checkout, r.folder))
	if err != nil || !st.IsDir() {
		return fmt.Errorf("there is no folder %s in %s: give the checkout of AgentGym that holds it", r.folder, checkout)
	}
	for _, f := range r.files {
		if _, err := os.Stat(filepath.Join(checkout, r.folder, f)); err != nil {
			return fmt.Errorf("%s in %s is empty: fetch the checkout's submodules (git submodule update --init)",
				filepath.Dir(filepath.Join(r.folder, f)), checkout)
		}
	}
	return nil
}
