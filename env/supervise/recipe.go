package supervise

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// recipe describes how to start the server of an environment from a checkout of
// AgentGym, and its requirements (protocol 1.1 and 6.2). Paths are relative to the
// checkout; {checkout} in a value is replaced by its path.
type recipe struct {
	folder string            // the package's folder: working folder and import path
	module string            // module that uvicorn serves
	path   []string          // further import paths
	env    map[string]string // environment variables
	data   []variable        // folders that the user must provide
	files  []string          // required files below folder
	needs  []string          // required programs in PATH
	slow   time.Duration     // start timeout, set only if it is longer than DefaultStartTimeout
	venv   []string          // packages for pip; nil: pip alone cannot install the server
	more   string            // requirements that pip cannot install
}

// variable is an environment variable that must name a folder.
type variable struct{ name, doc string }

// webPackages are the packages of all servers. A version is pinned if newer ones fail
// or change the game.
var webPackages = []string{"fastapi", "uvicorn"}

// lmrlgym is the recipe of the server of maze and wordle.
var lmrlgym = recipe{
	folder: "agentenv-lmrlgym", module: "agentenv_lmrlgym:app",
	path:  []string{"agentenv-lmrlgym/lmrlgym"},
	files: []string{"lmrlgym/LLM_RL", "lmrlgym/llm_rl_scripts"},
	venv:  []string{"numpy", "tqdm", "scikit-image", "ipython", "termcolor", "transformers<5"},
}

// tool returns the recipe of one of the servers in agentenv-tool. needs is the external
// requirement of its tools, or "".
func tool(name, needs string) recipe {
	r := recipe{
		folder: "agentenv-tool", module: "agentenv_" + name + ":app",
		path: []string{"agentenv-tool/Toolusage/toolusage"},
		env:  map[string]string{"PROJECT_PATH": "{checkout}/agentenv-tool/Toolusage"},
		more: needs,
	}
	if needs == "" {
		// The servers in the folder share one virtual environment.
		r.venv = []string{"requests", "geopy", "python-dotenv", "pandas", "jsonlines", "networkx"}
	}
	return r
}

var recipes = map[string]recipe{
	"textcraft": {
		folder: "agentenv-textcraft", module: "agentenv_textcraft:app",
		venv: []string{"gymnasium", "numpy"},
	},
	"babyai": {
		folder: "agentenv-babyai", module: "agentenv_babyai:app",
		venv: []string{"gym==0.26.2", "gymnasium==0.29.1", "minigrid==2.3.1", "matplotlib", "pillow", "numpy<2"},
	},
	"sciworld": {
		folder: "agentenv-sciworld", module: "agentenv_sciworld:app",
		needs: []string{"java"},
		venv:  []string{"scienceworld>=1.1.3,<1.3"},
	},
	"sqlgym": {
		folder: "agentenv-sqlgym", module: "agentenv_sqlgym:app",
		data: []variable{{"AGENTENV_SQLGYM_BIRD_PATH", "the BIRD folder, with dev/ and train/ in it"}},
		venv: []string{"sqlgym==0.1.2"},
	},
	"maze":     lmrlgym,
	"wordle":   lmrlgym,
	"weather":  tool("weather", ""),
	"movie":    tool("movie", ""),
	"academia": tool("academia", ""),
	"todo":     tool("todo", "a Todoist account and its key in TODO_KEY"),
	"sheet":    tool("sheet", "a Google service account and your spreadsheets"),
	"alfworld": {
		folder: "agentenv-alfworld", module: "agentenv_alfworld:app", slow: 10 * time.Minute,
		more: "the game files that alfworld-download fetches, and Python 3.9",
	},
	"webshop": {
		folder: "agentenv-webshop", module: "agentenv_webshop:app", slow: 10 * time.Minute,
		path: []string{"agentenv-webshop/webshop"},
		more: "Python 3.8, Java 11, a spaCy model, torch 1.11 and a search index that its setup.sh builds",
	},
	"webarena": {
		folder: "agentenv-webarena", module: "agentenv_webarena:app", slow: 10 * time.Minute,
		more: "the web sites of WebArena on your hosts, Playwright with browsers, and a model that judges answers",
	},
	"searchqa": {
		folder: "agentenv-searchqa", module: "agentenv_searchqa:app", slow: 30 * time.Minute,
		more: "an index and a corpus of Wikipedia, tens of gigabytes, an embedding model and a GPU",
	},
	"gaia": {
		folder: "agentenv-gaia", module: "agentenv_gaia:app",
		more: "the gated GAIA data set and browser tools; AgentGym has no folder for it, OpenManus-RL's archive branch has",
	},
}

// Recipes returns the environments whose servers this package can start.
func Recipes() []string { return slices.Sorted(maps.Keys(recipes)) }

// Launch contains the user's settings for starting servers. Unset fields are taken
// from the recipe. If Command is set, neither recipe nor checkout is needed.
type Launch struct {
	Checkout string            // folder of AgentGym, which contains agentenv-textcraft
	Workdir  string            // working folder
	Command  []string          // may contain {python}, {checkout}, {host} and {port}
	Python   string            // name or path of the interpreter
	Venv     string            // virtual environment, if Python is not set
	Set      map[string]string // environment variables; values may contain {checkout}, {host} and {port}
}

// Plan is a completed Launch.
type Plan struct {
	Command      Command
	StartTimeout time.Duration

	// uninstalled means that the server runs with a Python in PATH, because VenvOf
	// has not created its virtual environment.
	uninstalled bool
}

// NotInstalled reports whether a start failed with err because VenvOf has not created
// the server's virtual environment.
func (p Plan) NotInstalled(err error) bool {
	if err == nil || !p.uninstalled {
		return false
	}
	return errors.Is(err, errNoProgram) || strings.Contains(err.Error(), "No module named")
}

// Check returns an error if the working folder or the program of the command does not exist.
func (p Plan) Check() error { return p.Command.resolve() }

// NewPlan completes a Launch of the named environment. environ is the environment of
// this process; paths in l are relative to its working folder. NewPlan returns an
// error for missing requirements and starts nothing.
func NewPlan(name string, l Launch, environ []string) (Plan, error) {
	p, err := newPlan(name, l, environ)
	if err != nil {
		return Plan{}, fmt.Errorf("launch %s: %w", name, err)
	}
	return p, nil
}

func newPlan(name string, l Launch, environ []string) (Plan, error) {
	r, known := recipes[name]
	for _, path := range []*string{&l.Checkout, &l.Workdir, &l.Venv} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return Plan{}, err
		}
		*path = abs
	}
	p := Plan{StartTimeout: max(r.slow, DefaultStartTimeout)}
	c := &p.Command
	c.Env = environ
	c.Set = map[string]string{
		"PYTHONUNBUFFERED": "1", // so that the log contains the last output of a dead server
		// Without a fixed seed, textcraft's tasks would differ between servers and
		// restarts: their distractor recipes depend on the order of a Python set.
		"PYTHONHASHSEED": "0",
	}
	if l.Checkout != "" && known {
		if err := r.inCheckout(l.Checkout); err != nil {
			return Plan{}, err
		}
		r.apply(l.Checkout, c)
	}
	if l.Workdir != "" {
		c.Dir = l.Workdir
	}
	for key, v := range l.Set {
		c.Set[key] = strings.ReplaceAll(v, "{checkout}", l.Checkout)
	}
	python, err := r.interpreter(l, c)
	if err != nil {
		return Plan{}, err
	}
	switch {
	case len(l.Command) > 0:
		c.Args = ownCommand(l.Command, python, l.Checkout)
	case !known:
		return Plan{}, fmt.Errorf("no recipe: give a command (there are recipes for %s)", strings.Join(Recipes(), ", "))
	case l.Checkout == "":
		return Plan{}, fmt.Errorf("no checkout of AgentGym: give the folder that contains %s, or a command", r.folder)
	default:
		c.Args = []string{python, "-m", "uvicorn", r.module, "--host", "{host}", "--port", "{port}", "--no-access-log"}
		p.uninstalled = r.venv != nil && l.Python == "" && l.Venv == "" && r.made(l.Checkout) == ""
		err = r.needed(c)
	}
	return p, err
}

// ownCommand completes a user's command. If the command does not contain {port},
// ownCommand appends --host and --port, which all programs of AgentGym accept.
func ownCommand(args []string, python, checkout string) []string {
	fill := strings.NewReplacer("{python}", python, "{checkout}", checkout)
	var out []string
	port := false
	for _, a := range args {
		port = port || strings.Contains(a, "{port}")
		out = append(out, fill.Replace(a))
	}
	if !port {
		out = append(out, "--host", "{host}", "--port", "{port}")
	}
	return out
}

// apply sets the working folder and the environment variables of c.
func (r recipe) apply(checkout string, c *Command) {
	c.Dir = filepath.Join(checkout, r.folder)
	path := []string{c.Dir}
	for _, p := range r.path {
		path = append(path, filepath.Join(checkout, p))
	}
	if more := c.value("PYTHONPATH"); more != "" {
		path = append(path, more)
	}
	c.Set["PYTHONPATH"] = strings.Join(path, ":")
	for key, v := range r.env {
		c.Set[key] = strings.ReplaceAll(v, "{checkout}", checkout)
	}
}

// interpreter returns the user's interpreter, or the one in the virtual environment,
// or python3. The user's virtual environment precedes the one in the checkout.
func (r recipe) interpreter(l Launch, c *Command) (string, error) {
	switch {
	case l.Python != "" && l.Venv != "":
		return "", fmt.Errorf("both python and venv are set: remove one of them")
	case l.Python != "" && strings.Contains(l.Python, "/"):
		return filepath.Abs(l.Python)
	case l.Python != "":
		return l.Python, nil
	}
	venv := l.Venv
	if venv == "" && l.Checkout != "" && r.folder != "" {
		venv = r.made(l.Checkout)
	}
	if venv == "" {
		return "python3", nil
	}
	python := filepath.Join(venv, "bin", "python")
	if _, err := os.Stat(python); err != nil {
		return "", fmt.Errorf("venv %s has no bin/python", venv)
	}
	if _, ok := c.Set["VIRTUAL_ENV"]; !ok || l.Venv != "" {
		c.Set["VIRTUAL_ENV"] = venv
		c.Set["PATH"] = filepath.Join(venv, "bin") + ":" + c.value("PATH")
	}
	return python, nil
}

// needed returns an error for the first missing requirement of a recipe.
func (r recipe) needed(c *Command) error {
	for _, v := range r.data {
		dir := c.value(v.name)
		if dir == "" {
			return fmt.Errorf("%s is not set; set it to %s", v.name, v.doc)
		}
		dir, err := filepath.Abs(dir) // absolute, because the server runs in another working folder
		if err != nil {
			return err
		}
		c.Set[v.name] = dir
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return fmt.Errorf("%s: no folder %s; set it to %s", v.name, dir, v.doc)
		}
	}
	for _, program := range r.needs {
		if _, err := lookPath(program, c.Dir, c.value("PATH")); err != nil {
			return fmt.Errorf("%w, which the server needs: install it with the package manager of your system", err)
		}
	}
	return nil
}

// value returns the value of an environment variable of the server.
func (c *Command) value(key string) string {
	if v, ok := c.Set[key]; ok {
		return v
	}
	return lookup(c.Env, key)
}

// venvName is the folder of a virtual environment in the folder of the package.
const venvName = ".venv"

// VenvIn returns the virtual environment that VenvOf made in a checkout for the
// server of an environment, or "" if it does not exist. It returns an error if the
// server is missing in the checkout.
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

// made returns the virtual environment that VenvOf made in a checkout, or "".
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
