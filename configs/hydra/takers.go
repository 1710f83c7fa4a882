package hydra

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// taker converts the value of a key to the value of our keys in its row, or to
// several settings. It returns nil if there is nothing to set.
type taker func(im *importer, r *Row, v any) any

// several is a list of settings of our keys.
type several []struct {
	key   string
	value any
}

func (r *Row) ignored(why string) { r.Status, r.Note = Ignored, why }

func (r *Row) unsupported(instead string) { r.Status, r.Note = Unsupported, instead }

// ignore returns the taker of keys whose value has no effect.
func ignore(why string) taker {
	return func(_ *importer, r *Row, _ any) any {
		r.ignored(why)
		return nil
	}
}

// only(...) returns a taker that ignores the listed values and rejects all others.
func only(instead string, fine ...any) taker {
	return func(_ *importer, r *Row, v any) any {
		r.unsupported(instead)
		if slices.ContainsFunc(fine, func(x any) bool { return reflect.DeepEqual(x, v) }) {
			r.ignored(instead)
		}
		return nil
	}
}

// hold sets nothing: a later taker or the function finish reads the value.
func hold(*importer, *Row, any) any { return nil }

// unchanged maps a value as it is.
func unchanged(_ *importer, r *Row, v any) any {
	if v == nil {
		r.ignored(nullIsDefault)
	}
	return v
}

// constant returns a taker that sets our key to value.
func constant(value any) taker {
	return func(*importer, *Row, any) any { return value }
}

// condition selects values of a command line.
type condition func(im *importer, v any) bool

// skip returns a taker that ignores matching values and applies take to the others.
func skip(match condition, why string, take taker) taker {
	return func(im *importer, r *Row, v any) any {
		if match(im, v) {
			r.ignored(why)
			return nil
		}
		return take(im, r, v)
	}
}

func isNull(_ *importer, v any) bool { return v == nil }

func notTrue(_ *importer, v any) bool { return v != true }

func notPositive(_ *importer, v any) bool {
	n, ok := v.(int64)
	return v == nil || ok && n <= 0
}

// given(key) returns the condition that the command line has a value of this key.
func given(key string) condition {
	return func(im *importer, _ any) bool {
		_, ok := im.given[key]
		return ok
	}
}

// notNull applies take to values other than null, which means the default.
func notNull(take taker) taker { return skip(isNull, nullIsDefault, take) }

// orZero returns a taker that replaces matching values by 0.
func orZero(match condition) taker {
	return func(im *importer, _ *Row, v any) any {
		if match(im, v) {
			return int64(0)
		}
		return v
	}
}

// renamed returns a taker that replaces one value by another and keeps all others.
func renamed(from, to string) taker {
	return notNull(func(_ *importer, _ *Row, v any) any {
		if v == from {
			return to
		}
		return v
	})
}

// where(on) returns a taker that copies a value if the key whose name is in on is true, and ignores the value otherwise.
func where(on string) taker {
	return skip(func(im *importer, _ any) bool { return im.val(on, false) != true }, on+" is off", unchanged)
}

// withFormat returns a taker that sets key and the format of the agent's turns.
func withFormat(key, format string) taker {
	return func(_ *importer, _ *Row, v any) any { return several{{key, v}, {"agent.format", format}} }
}

var (
	// The taker limit converts a bound; null, 0 and negative numbers mean no limit.
	limit = skip(notPositive, "no limit, the default", unchanged)
	// The taker every converts a number of steps; null, 0 and negative numbers mean never.
	every      = orZero(notPositive)
	totalSteps = orZero(isNull)
	// filterMetric translates acc, the outcome in DAPO's recipe, to env_reward.
	filterMetric = renamed("acc", "env_reward")
	estimator    = renamed("rloo_vectorized", "rloo")
	// warmupSteps accepts 0 and more; with null or a negative number the warm-up ratio applies.
	warmupSteps = skip(func(im *importer, v any) bool { return v != int64(0) && notPositive(im, v) }, "the ratio applies", unchanged)

	invalidPenalty = skip(notTrue, penaltySet, skip(given(penaltyCoef), penaltySet, constant(0.1)))
	// gigpoSimilarity sets verl-agent's default if no threshold is given.
	gigpoSimilarity = skip(notTrue, "turns with equal observations are compared, the default", skip(given(similarity), similarity+" sets the similarity", constant(0.95)))
	pfPPO           = skip(notTrue, "episodes are not reweighted, the default", pfPPOMethod)

	// truncation ignores the key if filter_overlong_prompts is true: upstream and here it then has no effect.
	truncation = skip(func(im *importer, _ any) bool { return im.val("data.filter_overlong_prompts", false) == true },
		"data.filter_overlong_prompts removes the prompts that it would shorten", unchanged)
	resumePath = skip(func(im *importer, v any) bool {
		return v == nil || v == false || im.val("trainer.resume_mode", "auto") != "resume_path"
	}, "trainer.resume_mode is not resume_path", only("verl's checkpoints cannot be read: convert the actor to a Hugging Face folder and set model.path to it"))

	valGreedy    = skip(func(_ *importer, v any) bool { return v != false }, "validation samples, unless rollout.val.temperature is 0", constant(0.0))
	history      = skip(notPositive, "every reply sees the whole conversation, the default", withFormat("agent.history_length", "history"))
	summary      = skip(notTrue, "past turns are not summarised, the default", withFormat("env.use_summary", "history"))
	staged       = skip(func(_ *importer, v any) bool { return v == nil || v == "" }, "no file, the default", withFormat("agent.memory_file", "staged"))
	stagedFormat = skip(notTrue, "agent.format sets how the model writes actions", constant("staged"))
)

const (
	penaltyCoef = actorAt + "invalid_action_penalty_coef"
	penaltySet  = penaltyCoef + " sets it"
	similarity  = "algorithm.gigpo.similarity_thresh"
)

const nullIsDefault = "null: the default applies"

// criticWarmup converts the first step that trains the actor, counted from 1, to
// the number of steps before it.
func criticWarmup(_ *importer, _ *Row, v any) any {
	if n, ok := v.(int64); ok && n > 0 {
		return n - 1
	}
	return v
}

// envName accepts the names of AgentGym and of OpenManus-RL in September 2025.
func envName(_ *importer, _ *Row, v any) any {
	name := strings.ToLower(plain(v))
	for part, env := range map[string]string{"alfworld": "alfworld", "alfred": "alfworld", "webshop": "webshop", "tool_use": "gaia"} {
		if strings.Contains(name, part) {
			return env
		}
	}
	return name
}

// servers converts ports to addresses. The servers listen at 0.0.0.0; clients connect to
// 127.0.0.1.
func servers(im *importer, r *Row, v any) any {
	base := strings.TrimRight(plain(im.val("data.env_server_base", "http://0.0.0.0")), "/")
	base = strings.Replace(base, "//0.0.0.0", "//127.0.0.1", 1)
	var urls []any
	for _, p := range asList(v) {
		if _, ok := p.(int64); !ok {
			r.unsupported(fmt.Sprintf("%s is not a port", clip(plain(p))))
			return nil
		}
		urls = append(urls, base+":"+plain(p))
	}
	if b := im.byKey["data.env_server_base"]; b != nil && b.Status == Mapped {
		b.To, b.Note = []string{"env.servers"}, "part of the addresses"
	}
	return urls
}

// promptLength converts a bound that applies upstream to the first prompt, to the
// conversation shown to the model, and to a training row without the last reply.
func promptLength(im *importer, r *Row, v any) any {
	n, ok := v.(int64)
	if !ok || n < 1 || n > 1<<30 {
		r.unsupported(clip(plain(v)) + " is not a number of tokens")
		return nil
	}
	reply, _ := im.val("data.max_response_length", int64(512)).(int64)
	return several{{"data.max_prompt_tokens", n}, {"rollout.max_context_tokens", n + max(0, min(reply, 1<<30))}}
}

func modelPath(_ *importer, r *Row, v any) any {
	s := plain(v)
	switch {
	case s == "":
		r.ignored("empty: the default applies")
		return nil
	case strings.Contains(s, "://"):
		r.unsupported("copy the folder of the model to this machine")
		return nil
	}
	return s[:1] + strings.TrimRight(s[1:], "/")
}

// computeDtype converts the name of a dtype, such as bf16. Upstream the optimiser uses
// this dtype too; here the optimiser updates float32 weights.
func computeDtype(_ *importer, _ *Row, v any) any {
	name := strings.TrimPrefix(plain(v), "torch.")
	return cmp.Or(map[string]string{"bf16": "bfloat16", "fp32": "float32", "float": "float32"}[name], name)
}

func engine(_ *importer, r *Row, v any) any {
	if !slices.Contains([]string{"vllm", "sglang", "hf"}, plain(v)) {
		r.unsupported("replies are generated in this process")
		return nil
	}
	return "local"
}

func gamma(im *importer, _ *Row, v any) any {
	set := several{{"algo.gamma", v}}
	if im.val("algorithm.reward_allocation", "") == "discounted" {
		set = append(set, several{{"reward.gamma", v}}...)
	}
	return set
}

// pfPPOMethod sets verl's default unless the method is given.
func pfPPOMethod(im *importer, _ *Row, v any) any {
	if given("algorithm.pf_ppo.reweight_method")(im, v) {
		return nil
	}
	return "pow"
}

// isThreshold converts a number or the two bounds of IcePop: "0.5_5.0".
func isThreshold(_ *importer, r *Row, v any) any {
	const at = "algo.rollout_correction.rollout_is_threshold"
	text, ok := v.(string)
	if !ok {
		return several{{at, v}}
	}
	lower, upper, two := strings.Cut(text, "_")
	if !two {
		lower, upper = "0", text
	}
	low, err := strconv.ParseFloat(strings.TrimSpace(lower), 64)
	high, err2 := strconv.ParseFloat(strings.TrimSpace(upper), 64)
	switch {
	case err != nil || err2 != nil:
		r.unsupported(fmt.Sprintf("%s is not a number or two bounds such as 0.5_5.0", clip(text)))
		return nil
	case two:
		return several{{at, high}, {at + "_lower", low}}
	}
	return several{{at, high}}
}

// asList returns a list unchanged, and any other value as a list with one entry.
func asList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

// texts converts a value or a list of values to a list of strings.
func texts(_ *importer, _ *Row, v any) any {
	out := slices.Clone(asList(v))
	for i := range out {
		out[i] = plain(out[i])
	}
	return out
}

// folder converts a path to a single folder name.
func folder(_ *importer, _ *Row, v any) any {
	return strings.NewReplacer("/", "-", `\`, "-").Replace(plain(v))
}

// loggers keeps the trackers that exist here.
func loggers(im *importer, r *Row, v any) any {
	have, want := []any{"console", "jsonl"}, []string(nil)
	for _, x := range asList(v) {
		switch name := plain(x); {
		case slices.Contains(have, any(name)), name == "file", name == "null":
		case im.schema.CheckValue("log.backends", []any{name}) == "":
			have = append(have, name)
		default:
			want = append(want, clip(name))
		}
	}
	if len(want) > 0 {
		r.unsupported(strings.Join(want, ", ") + ": no such tracker; metrics.jsonl in the run folder has every metric")
	}
	return have
}

// localDir converts the folder of one run to the folder of all runs.
func localDir(im *importer, _ *Row, v any) any {
	dir, run := path.Clean(plain(v)), plain(im.val("trainer.experiment_name", ""))
	if run != "" && path.Base(dir) == run {
		return path.Dir(dir)
	}
	return dir
}

func resumeMode(_ *importer, r *Row, v any) any {
	switch v {
	case "auto":
		return "auto"
	case "disable":
		return "never"
	case "resume_path":
		r.ignored("trainer.resume_from_path names the checkpoint")
	default:
		r.unsupported("write trainer.resume = \"auto\", \"never\" or the path of a checkpoint")
	}
	return nil
}

// inStruct returns a taker for a field of a struct column, as in "extra_info.question".
func inStruct(column string) taker {
	return func(im *importer, r *Row, v any) any {
		list, _ := v.([]any)
		if len(list) == 0 {
			r.ignored("empty: the column is the text")
			return nil
		}
		return plain(im.val(column, "question")) + "." + plain(list[0])
	}
}

// paths lists our keys whose values are files or folders.
var paths = []string{
	"model.path", "model.tokenizer_path", "critic.path", "ref.path", "env.tasks", "env.val_tasks", "agent.memory_file",
	"sft.files", "sft.val_files", "trainer.output_dir",
}

// atHome expands ~/ in paths, as the original does when it opens a file. In a
// configuration, ~ is the name of a folder.
func (im *importer) atHome(v any) any {
	switch v := v.(type) {
	case string:
		if rest, ok := strings.CutPrefix(v, "~/"); ok && im.home != "" {
			return im.home + "/" + rest
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = im.atHome(v[i])
		}
		return out
	}
	return v
}
