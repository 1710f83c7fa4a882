package supervise

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// recipe is how the server of an environment is started from a checkout of
// AgentGym, and what it needs (protocol 1.1 and 6.2). Paths are relative to
// the checkout; {checkout} in a value stands for it.
type recipe struct {
	folder string            // of the package: working folder and import path
	module string            // what uvicorn serves
	path   []string          // folders to import from beside folder
	env    map[string]string // environment variables
	data   []variable        // folders that only the user knows
	files  []string          // below folder; without them it cannot start
	needs  []string          // programs in PATH
	slow   time.Duration     // time to start, where DefaultStartTimeout is too short
	venv   []string          // what pip installs; nil: install says more
	more   string            // what else is needed, and no package has
}

// variable is an environment variable that must name a folder.
type variable struct{ name, doc string }

// The packages of all servers. Versions are given where newer ones are known
// to fail or to play another game.
var webPackages = []string{"fastapi", "uvicorn"}

var (
	textcraft = recipe{
		folder: "agentenv-textcraft", module: "agentenv_textcraft:app",
		venv: []string{"gymnasium", "numpy"},
	}
	babyai = recipe{
		folder: "agentenv-babyai", module: "agentenv_babyai:app",
		venv: []string{"gym==0.26.2", "gymnasium==0.29.1", "minigrid==2.3.1", "matplotlib", "pillow", "numpy<2"},
	}
	sciworld = recipe{
		folder: "agentenv-sciworld", module: "agentenv_sciworld:app",
		needs: []string{"java"},
		venv:  []string{"scienceworld>=1.1.3,<1.3"},
	}
	sqlgym = recipe{
		folder: "agentenv-sqlgym", module: "agentenv_sqlgym:app",
		data: []variable{{"AGENTENV_SQLGYM_BIRD_PATH", "the BIRD folder, with dev/ and train/ in it"}},
		venv: []string{"sqlgym==0.1.2"},
	}
	lmrlgym = recipe{
		folder: "agentenv-lmrlgym", module: "agentenv_lmrlgym:app",
		path:  []string{"agentenv-lmrlgym/lmrlgym"},
		files: []string{"lmrlgym/LLM_RL", "lmrlgym/llm_rl_scripts"},
		venv:  []string{"numpy", "tqdm", "scikit-image", "ipython", "termcolor", "transformers<5"},
	}
)

// tool is the recipe of one of the servers that share agentenv-tool. needs
// says what its tools want from outside; "" where they can do without.
func tool(name, needs string) recipe {
	r := recipe{
		folder: "agentenv-tool", module: "agentenv_" + name + ":app",
		path: []string{"agentenv-tool/Toolusage/toolusage"},
		env:  map[string]string{"PROJECT_PATH": "{checkout}/agentenv-tool/Toolusage"},
		more: needs,
	}
	if needs == "" {
		// One venv for all that share the folder.
		r.venv = []string{"requests", "geopy", "python-dotenv", "pandas", "jsonlines", "networkx"}
	}
	return r
}

var recipes = map[string]recipe{
	"textcraft": textcraft,
	"babyai":    babyai,
	"sciworld":  sciworld,
	"sqlgym":    sqlgym,
	"maze":      lmrlgym,
	"wordle":    lmrlgym,
	"weather":   tool("weather", ""),
	"movie":     tool("movie", ""),
	"academia":  tool("academia", ""),
	"todo":      tool("todo", "a Todoist account and its key in TODO_KEY"),
	"sheet":     tool("sheet", "a Google service account and spreadsheets of one's own"),
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
		more: "the web sites of WebArena on hosts of one's own, Playwright with browsers, and a model that judges",
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

// Recipes lists the environments whose servers this package knows how to start.
func Recipes() []string { return slices.Sorted(maps.Keys(recipes)) }

// Launch says how a user wants servers started. What it leaves open is the
// recipe's; a Command of one's own needs no recipe and no checkout.
type Launch struct {
	Checkout string            // of AgentGym: the folder that holds agentenv-textcraft and the others
	Workdir  string            // working folder
	Command  []string          // may contain {python}, {checkout}, {host} and {port}
	Python   string            // interpreter
	Venv     string            // virtual environment, instead of Python
	Set      map[string]string // environment variables; values may contain {checkout}, {host} and {port}
}

// Plan is what becomes of a Launch.
type Plan struct {
	Command      Command
	StartTimeout time.Duration

	// uninstalled says that VenvOf can make a virtual environment for the server,
	// and has not: a Python of the PATH runs it.
	uninstalled bool
}

// NotInstalled reports whether a start failed with err because VenvOf never made
// the server's virtual environment.
func (p Plan) NotInstalled(err error) bool {
	if err == nil || !p.uninstalled {
		return false
	}
	return strings.Contains(err.Error(), "No module named") || strings.Contains(err.Error(), "there is no program")
}

// NewPlan completes a Launch of the named environment. environ is the
// environment of this process; all paths of l start from its working folder.
// It reports what is missing before anything is started.
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
		"PYTHONUNBUFFERED": "1", // a dead server's last words are in its log
		// All servers show the same tasks, also when they are started again: the
		// distractor recipes of textcraft's tasks follow the order of a set.
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
	if l.Venv != "" {
		c.Set["VIRTUAL_ENV"] = l.Venv
		c.Set["PATH"] = filepath.Join(l.Venv, "bin") + ":" + c.path()
	}
	python, err := r.interpreter(l, c)
	if err != nil {
		return Plan{}, err
	}
	switch {
	case len(l.Command) > 0:
		c.Args = ownCommand(l.Command, python, l.Checkout)
	case !known:
		return Plan{}, fmt.Errorf("no recipe starts a server of it: give the command (there are recipes for %s)", strings.Join(Recipes(), ", "))
	case l.Checkout == "":
		return Plan{}, fmt.Errorf("no checkout of AgentGym: give the folder that holds %s, or a command", r.folder)
	default:
		c.Args = []string{python, "-m", "uvicorn", r.module, "--host", "{host}", "--port", "{port}", "--no-access-log"}
		p.uninstalled = r.venv != nil && l.Python == "" && l.Venv == "" && r.made(l.Checkout) == ""
		err = r.needed(c)
	}
	return p, err
}

// ownCommand fills a user's command in. The programs of AgentGym all take
// --host and --port, so a command that says nothing of a port gets them.
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

// apply sets the working folder and the environment.
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

// interpreter is the one that was named, else that of the venv that Install
// made, else the first python3 of the PATH.
func (r recipe) interpreter(l Launch, c *Command) (string, error) {
	switch {
	case l.Python != "" && l.Venv != "":
		return "", fmt.Errorf("both python and venv are given: take out one of the two")
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
	if _, ok := c.Set["VIRTUAL_ENV"]; !ok {
		c.Set["VIRTUAL_ENV"] = venv
		c.Set["PATH"] = filepath.Join(venv, "bin") + ":" + c.path()
	}
	return python, nil
}

// needed reports what a recipe wants of the machine and does not find.
func (r recipe) needed(c *Command) error {
	for _, v := range r.data {
		dir := c.value(v.name)
		if dir == "" {
			return fmt.Errorf("%s is not set: it names %s", v.name, v.doc)
		}
		dir, err := filepath.Abs(dir) // the server has another working folder
		if err != nil {
			return err
		}
		c.Set[v.name] = dir
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return fmt.Errorf("%s: there is no folder %s: it names %s", v.name, dir, v.doc)
		}
	}
	for _, program := range r.needs {
		if _, err := lookPath(program, c.Dir, c.path()); err != nil {
			return fmt.Errorf("%w, and the server needs it: install it with your system's packages", err)
		}
	}
	return nil
}

// value reads a variable of the server's environment.
func (c *Command) value(key string) string {
	if v, ok := c.Set[key]; ok {
		return v
	}
	return lookup(c.Env, key)
}
