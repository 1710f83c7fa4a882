package hydra

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// values returns the texts of the overrides by key, with the missing variables after a !.
func values(c Command) map[string]string {
	out := map[string]string{}
	for _, o := range c.Overrides {
		out[o.Key] = o.Text
		if len(o.Missing) > 0 {
			out[o.Key] += " !" + strings.Join(o.Missing, " ")
		}
	}
	return out
}

func TestReadScript(t *testing.T) {
	const run = "\npython3 -m verl.trainer.main_ppo "
	environ := func(name string) string { return map[string]string{"FROM_ENV": "env", "BOTH": "env"}[name] }
	for _, tt := range []struct {
		name, text string
		want       map[string]string
	}{
		{"words", run + "a.b=1 +c='x y' d=\"[1, 2]\"", map[string]string{"a.b": "1", "c": "x y", "d": "[1, 2]"}},
		{"continued", run + "\\\n  a=1 \\\n  b=2 # rest\nc=3", map[string]string{"a": "1", "b": "2"}},
		{"blanks after the backslash", run + "a=1 \\  \n b=2 \\ # why\n c=3", map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"windows", strings.ReplaceAll(run+"a=1 \\\n b=2\n", "\n", "\r\n"), map[string]string{"a": "1", "b": "2"}},
		{"variables", "X=1\nexport Y=\"$X/2\"" + run + "a=$Y b=${X}0 c='$X'", map[string]string{"a": "1/2", "b": "10", "c": "$X"}},
		{"defaults", "X=\nA=${X:-d}\nB=${X-d}\nC=${NOT:-'e f'}" + run + "a=$A b=$B c=\"$C\"", map[string]string{"a": "d", "b": "", "c": "e f"}},
		{"environment", "BOTH=script\nD=${FROM_ENV:-x}" + run + "a=$FROM_ENV b=$BOTH d=$D", map[string]string{"a": "env", "b": "script", "d": "env"}},
		{"missing", run + "a=$NOT b=$1 c=$(date)", map[string]string{"a": "${NOT} !$NOT", "b": "${1} !${1}", "c": "$(date) !$(date)"}},
		{"missing through another", "X=$(date)" + run + "a=$X", map[string]string{"a": "$(date) !$X"}},
		{"names of files", "M=a/b/c" + run + "a=${M##*/} b=$(basename $M) c=$(dirname \"$M\") d=${M%/*}", map[string]string{"a": "c", "b": "c", "c": "a/b", "d": "a/b"}},
		{"a list", "L=(a=1 \"b=$X\")\nX=2\nL+=(c=$X)" + run + "\"${L[@]}\"", map[string]string{"a": "1", "b": "${X} !$X", "c": "2"}},
		{"several words of one variable", "ARGS='a=1 b=2'" + run + "$ARGS", map[string]string{"a": "1", "b": "2"}},
		{"no arguments", run + "a=1 \"$@\" $@", map[string]string{"a": "1"}},
		{"assignments in branches do not replace others", "X=1\nif true; then X=2; fi\nwhile :; do X=3; done\ncase a in b) X=4;; esac\nf() { X=5; }" + run + "a=$X", map[string]string{"a": "1"}},
		{"assignments only in branches", "if true; then X=2; else X=3; fi" + run + "a=$X", map[string]string{"a": "2 !$X"}},
		{"pipes and redirections", run + "a=1 2>&1 | tee log", map[string]string{"a": "1"}},
		{"a here-document", "cat <<END\npython3 -m verl.trainer.main_ppo a=2\nEND" + run + "a=1", map[string]string{"a": "1"}},
		{"flags of hydra", run + "--config-name ppo_trainer --config-path=config a=1", map[string]string{"a": "1"}},
		{"a file", "python3 verl/trainer/main_ppo.py a=1", map[string]string{"a": "1"}},
		{"variables before it", "X=1 Y=2 nohup python3 -m verl.trainer.main_ppo a=1 &", map[string]string{"a": "1"}},
		{"the first of two", run + "a=1" + run + "a=2", map[string]string{"a": "1"}},
		{"after && and ||", "B=1\n[ \"$D\" = 1 ] && B=2\ntest x ||\n  B=3\nC=4 && E=5\n[ x ] && F=6\nG=7" + run + "b=$B c=$C e=$E f=$F g=$G",
			map[string]string{"b": "1", "c": "4", "e": "5", "f": "6 !$F", "g": "7"}},
		{"braces after &&", "B=1\n[ x ] && {\n B=2\n}\nC=3" + run + "b=$B c=$C", map[string]string{"b": "1", "c": "3"}},
		{"a function without parentheses", "X=1\nfunction f {\n X=2\n Y=3\n}\nfunction g () {\n X=5\n}\nZ=4" + run + "x=$X y=$Y z=$Z",
			map[string]string{"x": "1", "y": "3 !$Y", "z": "4"}},
		{"the name in other commands", "pkill -f main_ppo\nmkdir -p logs/main_ppo\necho \"running verl.trainer.main_ppo\"\necho python3 -m verl.trainer.main_ppo a=7\n" +
			"cp main_ppo.py backup a=8" + run + "a=1", map[string]string{"a": "1"}},
		{"the command with settings", "python3 -m verl.trainer.main_ppo --help" + run + "a=1", map[string]string{"a": "1"}},
		{"the command that trains", "python3 -m verl.trainer.main_generation a=2" + run + "a=1", map[string]string{"a": "1"}},
		{"an interpreter from outside", "$PY -u -m verl.trainer.main_ppo a=1", map[string]string{"a": "1"}},
		{"arguments of the script", run + "a=${1:-8} b=${2-9} c=${10:=x}", map[string]string{"a": "8", "b": "9", "c": "x"}},
		{"arguments of a function", "f() {\n python3 -m verl.trainer.main_ppo a=${1:-8}\n}\nf 9", map[string]string{"a": "${1:-8} !${1:-8}"}},
		{"quotes in quotes", run + `a="$(echo "can't")" b="${NOT:-it's}" c='d'`, map[string]string{"a": `$(echo "can't") !$(echo "can't")`, "b": "it's", "c": "d"}},
		{"Hydra's own variables", run + "a.b=${c.d}/x", map[string]string{"a.b": "${c.d}/x"}},
		{"settings alone with variables", "a.b=${c.d}\ne=$FROM_ENV\nf=$NOT", map[string]string{"a.b": "${c.d}", "e": "env", "f": "${NOT} !$NOT"}},
		{"settings alone", "# mine\na.b=1\n\nmax_turns=2 +c=[1,2]\n~d", map[string]string{"a.b": "1", "max_turns": "2", "c": "[1,2]", "d": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ReadScript(tt.text, nil, environ)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, values(c)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestReadScriptFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "no command that trains",
		"echo hello\n":            "line 1: neither a command that trains",
		"a=1\nls -l":              "line 2: neither",
		"a='b":                    "line 1: ",
		"a=1\nb=\"${c\"":          "line 2: ",
		"\n\npython3 x \"a=$(b\"": "line 3: ",
		"x=$(a \"b) c":            "line 1: ",
		"python3 -m verl.trainer.main_generation a=1":       "line 1: verl.trainer.main_generation does not train",
		"\npython3 -m verl.trainer.main_eval data.path=a.b": "use openmanus score",
	} {
		if c, err := ReadScript(text, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %q", text, values(c), err, want)
		}
	}
}

// TestReadScriptWatchesBranches checks that overrides list the variables that a
// branch may change, and that a file of settings uses the variables of the user.
func TestReadScriptWatchesBranches(t *testing.T) {
	c, err := ReadScript(`X=1; Y=1; Z=1; L=(d=0)
if true; then X=2; Y=1; fi
case a in b) Z=2;; esac
W=$X-$Z; Z=3
L+=(e=$W)
python3 -m verl.trainer.main_ppo x=$X y=$Y z=$Z w="$(basename $W)" "${L[@]}"`, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range c.Overrides {
		got[o.Key] = o.Text + " " + strings.Join(o.Maybe, ",")
	}
	if diff := cmp.Diff(map[string]string{"x": "1 X", "y": "1 ", "z": "3 ", "w": "1-1 X,Z", "d": "0 ", "e": "1-1 X,Z"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r := Import(Command{Overrides: []Override{{Key: "max_turns", Text: "3", Value: int64(3), Maybe: []string{"X"}}}}, Options{Schema: schema})
	if row := rowOf(t, r, "max_turns"); row.Status != Mapped || !strings.Contains(row.Note, "$X") {
		t.Errorf("row %+v, want a note about $X", row)
	}
	c, err = ReadScript("a=$X b=${X:-2}", map[string]string{"X": "1"}, nil)
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "1"}, values(c)); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

func TestReadScriptNamesOtherCommands(t *testing.T) {
	c, err := ReadScript("if a; then\npython3 -m verl.trainer.main_ppo max_turns=1\nelse\ntorchrun -m verl.trainer.main_ppo max_turns=2\nfi\npython -m verl.trainer.main_eval x=1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"line 4: verl.trainer.main_ppo is started too and not imported; the imported command is on line 2",
		"line 6: verl.trainer.main_eval corresponds to openmanus score; the imported command is on line 2",
	}
	if diff := cmp.Diff(want, c.Others); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r := Import(c, Options{Schema: schema})
	if n := r.Doubtful(); n != 2 {
		t.Errorf("%d doubtful rows, want 2", n)
	}
}

func TestNames(t *testing.T) {
	got, err := Names("A=${B:-$C}\nD=1\nx=\"$(basename ${e##*/}) ${#F[@]}\" g='$H' i=$((J + 1))\n")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"B": true, "C": true, "e": true, "F": true, "J": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReadScriptOfOpenManusRL(t *testing.T) {
	environ := func(string) string { return "" }
	c, err := ReadScript(read(t, "train_ppo.sh"), nil, environ)
	if err != nil {
		t.Fatal(err)
	}
	got := values(c)
	for key, want := range map[string]string{
		"data.train_files":             "./data/webshop/train.parquet",
		"data.env_server_base":         "http://0.0.0.0",
		"data.train_batch_size":        "3",
		"data.env_ports":               `[$(IFS=,; echo "${PORTS[*]}")] !$PORT_LIST`,
		"actor_rollout_ref.model.path": "../model/Qwen2.5-3B",
		"trainer.experiment_name":      "OpenManus-rl-ppo-Qwen2.5-3B-webshop",
		"trainer.logger":               "['wandb']",
		"trainer.project_name":         "OpenManus-rl",
		"max_turns":                    "2",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if len(c.Overrides) != 63 || len(c.Faults) != 0 {
		t.Errorf("%d overrides, want 63; faults %v", len(c.Overrides), c.Faults)
	}

	c, err = ReadScript(read(t, "train_ppo.sh"), map[string]string{"ENV_NAME": "maze", "PORT_LIST": "36001,36002"}, environ)
	if err != nil {
		t.Fatal(err)
	}
	got = values(c)
	for key, want := range map[string]string{
		"data.env_name": "maze", "data.env_ports": "[36001,36002]", "data.val_files": "./data/maze/val.parquet",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
}

func FuzzReadScript(f *testing.F) {
	f.Add("X=${Y:-\"a b\"}\npython3 -m verl.trainer.main_ppo \\\n a=$X 2>&1 | tee x\n")
	f.Add("A=(b c)\nA+=($A)\nmain_ppo.py \"${A[@]}\"")
	f.Add("cat <<E\nE\nfor i in a; do x=$(basename $(dirname $y)); done")
	f.Add("x=$x$x\nx=${x:-${x:-$x}}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadScript(text, nil, func(string) string { return "" })
		if err == nil {
			Import(c, Options{Schema: schema, From: "fuzz", Defaults: true})
		}
	})
}
