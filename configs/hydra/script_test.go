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

// texts of the overrides by key, with what is missing behind a !.
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
		{"blanks behind the backslash", run + "a=1 \\  \n b=2 \\ # why\n c=3", map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"windows", strings.ReplaceAll(run+"a=1 \\\n b=2\n", "\n", "\r\n"), map[string]string{"a": "1", "b": "2"}},
		{"variables", "X=1\nexport Y=\"$X/2\"" + run + "a=$Y b=${X}0 c='$X'", map[string]string{"a": "1/2", "b": "10", "c": "$X"}},
		{"defaults", "X=\nA=${X:-d}\nB=${X-d}\nC=${NOT:-'e f'}" + run + "a=$A b=$B c=\"$C\"", map[string]string{"a": "d", "b": "", "c": "e f"}},
		{"environment", "BOTH=script\nD=${FROM_ENV:-x}" + run + "a=$FROM_ENV b=$BOTH d=$D", map[string]string{"a": "env", "b": "script", "d": "env"}},
		{"missing", run + "a=$NOT b=$1 c=$(date)", map[string]string{"a": "${NOT} !$NOT", "b": "${1} !${1}", "c": "$(date) !$(date)"}},
		{"missing through another", "X=$(date)" + run + "a=$X", map[string]string{"a": "$(date) !$X"}},
		{"names of files", "M=a/b/c" + run + "a=${M##*/} b=$(basename $M) c=$(dirname \"$M\") d=${M%/*}", map[string]string{"a": "c", "b": "c", "c": "a/b", "d": "a/b"}},
		{"a list", "L=(a=1 \"b=$X\")\nX=2\nL+=(c=$X)" + run + "\"${L[@]}\"", map[string]string{"a": "1", "b": "${X} !$X", "c": "2"}},
		{"several words of one variable", "ARGS='a=1 b=2'" + run + "$ARGS", map[string]string{"a": "1", "b": "2"}},
		{"nothing given", run + "a=1 \"$@\" $@", map[string]string{"a": "1"}},
		{"branches do not count against what is set", "X=1\nif true; then X=2; fi\nwhile :; do X=3; done\ncase a in b) X=4;; esac\nf() { X=5; }" + run + "a=$X", map[string]string{"a": "1"}},
		{"branches alone leave it open", "if true; then X=2; else X=3; fi" + run + "a=$X", map[string]string{"a": "2 !$X"}},
		{"pipes and redirections", run + "a=1 2>&1 | tee log", map[string]string{"a": "1"}},
		{"a here-document", "cat <<END\npython3 -m verl.trainer.main_ppo a=2\nEND" + run + "a=1", map[string]string{"a": "1"}},
		{"flags of hydra", run + "--config-name ppo_trainer --config-path=config a=1", map[string]string{"a": "1"}},
		{"a file", "python3 verl/trainer/main_ppo.py a=1", map[string]string{"a": "1"}},
		{"variables before it", "X=1 Y=2 nohup python3 -m verl.trainer.main_ppo a=1 &", map[string]string{"a": "1"}},
		{"the first of two", run + "a=1" + run + "a=2", map[string]string{"a": "1"}},
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

func TestReadScriptRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "no command that trains",
		"echo hello\n":            "line 1: neither a command that trains",
		"a=1\nls -l":              "line 2: neither",
		"a='b":                    "line 1: a ' has no other",
		"a=1\nb=\"${c\"":          "line 2: a ${ is not closed",
		"\n\npython3 x \"a=$(b\"": "line 3: a $( is not closed",
	} {
		if c, err := ReadScript(text, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %q", text, values(c), err, want)
		}
	}
}

func TestReadScriptOfTheOriginalsForm(t *testing.T) {
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
			Import(c, Options{From: "fuzz", Defaults: true})
		}
	})
}
