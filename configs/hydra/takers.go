package hydra

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// taker converts the value of a key into settings of ours.
type taker func(im *importer, r *Row, entry row, v any)

func (r *Row) ignored(why string) { r.Status, r.Note = Ignored, why }

func (r *Row) unsupported(instead string) { r.Status, r.Note = Unsupported, instead }

// ignore returns the taker of keys whose value has no effect.
func ignore(why string) taker {
	return func(_ *importer, r *Row, _ row, _ any) { r.ignored(why) }
}

// only returns a taker that ignores the values in fine and refuses all others.
func only(instead string, fine ...any) taker {
	return func(_ *importer, r *Row, _ row, v any) {
		if slices.ContainsFunc(fine, func(x any) bool { return reflect.DeepEqual(x, v) }) {
			r.ignored(instead)
			return
		}
		r.unsupported(instead)
	}
}

// hold leaves a key to a later taker or to finish.
func hold(*importer, *Row, row, any) {}

// assign sets our key to the value.
func assign(im *importer, r *Row, entry row, v any) { im.put(r, entry.to, v) }

// constant returns a taker that sets our key to value.
func constant(value any) taker {
	return func(im *importer, r *Row, entry row, _ any) { im.put(r, entry.to, value) }
}

// skip returns take for values that do not match. The others have no effect.
func skip(match func(v any) bool, why string, take taker) taker {
	return func(im *importer, r *Row, entry row, v any) {
		if match(v) {
			r.ignored(why)
			return
		}
		take(im, r, entry, v)
	}
}

func isNull(v any) bool { return v == nil }

func notTrue(v any) bool { return v != true }

func notPositive(v any) bool {
	n, ok := v.(int64)
	return v == nil || ok && n <= 0
}

// notNull returns take for values other than null. null means the default.
func notNull(take taker) taker { return skip(isNull, nullIsDefault, take) }

// orZero returns a taker that converts values that match to 0.
func orZero(match func(v any) bool) taker {
	return func(im *importer, r *Row, entry row, v any) {
		if match(v) {
			v = int64(0)
		}
		im.put(r, entry.to, v)
	}
}

// renamed returns a taker that translates one name.
func renamed(from, to string) taker {
	return func(im *importer, r *Row, entry row, v any) {
		if v == from {
			v = to
		}
		im.put(r, entry.to, v)
	}
}

// unlessGiven returns take for command lines without the key other.
func unlessGiven(other, why string, take taker) taker {
	return func(im *importer, r *Row, entry row, v any) {
		if _, given := im.given[other]; given {
			r.ignored(why)
			return
		}
		take(im, r, entry, v)
	}
}

// withFormat returns a taker that sets key and the format of the agent's turns.
func withFormat(key, format string) taker {
	return func(im *importer, r *Row, _ row, v any) {
		im.put(r, key, v)
		im.put(r, "agent.format", format)
	}
}

var (
	// limit takes a number; null, 0 and negative numbers mean no limit.
	limit = skip(notPositive, "no limit, the default", assign)
	// every takes a number of steps; null, 0 and negative numbers mean never.
	every      = orZero(notPositive)
	totalSteps = orZero(isNull)
	// filterMetric translates acc, the metric of DAPO's recipe, which is the outcome.
	filterMetric = notNull(renamed("acc", "env_reward"))
	estimator    = renamed("rloo_vectorized", "rloo")
	// warmupSteps takes 0 and more; with null or a negative number the ratio applies.
	warmupSteps = skip(func(v any) bool { return v != int64(0) && notPositive(v) }, "the ratio applies", assign)

	invalidPenalty = skip(notTrue, penaltySet, unlessGiven(penaltyCoef, penaltySet, constant(0.1)))
	// gigpoSimilarity sets verl-agent's default if no threshold is given.
	gigpoSimilarity = skip(notTrue, "turns with equal observations are compared, the default", unlessGiven("algorithm.gigpo.similarity_thresh", "algorithm.gigpo.similarity_thresh sets the similarity", constant(0.95)))

	valGreedy    = skip(func(v any) bool { return v != false }, "validation samples, unless rollout.val.temperature is 0", constant(0.0))
	history      = skip(notPositive, "every reply sees the whole conversation, the default", withFormat("agent.history_length", "history"))
	summary      = skip(notTrue, "past turns are not summarised, the default", withFormat("env.use_summary", "history"))
	staged       = skip(func(v any) bool { return v == nil || v == "" }, "no file, the default", withFormat("agent.memory_file", "staged"))
	stagedFormat = skip(notTrue, "agent.format sets how the model writes actions", constant("staged"))
)

const (
	penaltyCoef = actorAt + "invalid_action_penalty_coef"
	penaltySet  = penaltyCoef + " sets it"
)

const nullIsDefault = "null: the default applies"

// unchanged maps a value as it is.
func unchanged(im *importer, r *Row, entry row, v any) {
	entry.take = nil
	im.convert(entry, r, v)
}

// where returns a taker that maps a value if the key on is true.
func where(on string) taker {
	return func(im *importer, r *Row, entry row, v any) {
		if im.val(on, false) != true {
			r.ignored(on + " is off")
			return
		}
		unchanged(im, r, entry, v)
	}
}

// criticWarmup converts the first step that trains the actor, counted from 1, to
// the number of steps before it.
func criticWarmup(im *importer, r *Row, entry row, v any) {
	if n, ok := v.(int64); ok && n > 0 {
		v = n - 1
	}
	im.put(r, entry.to, v)
}

// envName takes the names of AgentGym and of OpenManus-RL in September 2025.
func envName(im *importer, r *Row, _ row, v any) {
	name := strings.ToLower(plain(v))
	for part, env := range map[string]string{"alfworld": "alfworld", "alfred": "alfworld", "webshop": "webshop", "tool_use": "gaia"} {
		if strings.Contains(name, part) {
			name = env
		}
	}
	im.put(r, "env.name", name)
}

// servers makes addresses of ports. Servers listen at 0.0.0.0; clients connect to
// 127.0.0.1.
func servers(im *importer, r *Row, _ row, v any) {
	base := strings.TrimRight(plain(im.val("data.env_server_base", "http://0.0.0.0")), "/")
	base = strings.Replace(base, "//0.0.0.0", "//127.0.0.1", 1)
	var urls []any
	for _, p := range asList(v) {
		if _, ok := p.(int64); !ok {
			r.unsupported(fmt.Sprintf("%s is not a port", clip(plain(p))))
			return
		}
		urls = append(urls, base+":"+plain(p))
	}
	im.put(r, "env.servers", urls)
	if b := im.byKey["data.env_server_base"]; b != nil && b.Status == Mapped {
		b.To, b.Note = []string{"env.servers"}, "part of the addresses"
	}
}

// promptLength bounds three lengths upstream: the first prompt, the conversation
// shown to the model, and a training row. The last reply is not included.
func promptLength(im *importer, r *Row, _ row, v any) {
	n, ok := v.(int64)
	if !ok || n < 1 || n > 1<<30 {
		r.unsupported(clip(plain(v)) + " is not a number of tokens")
		return
	}
	reply, _ := im.val("data.max_response_length", int64(512)).(int64)
	im.put(r, "data.max_prompt_tokens", n)
	im.put(r, "rollout.max_context_tokens", n+max(0, min(reply, 1<<30)))
	r.Note = "bounds the conversation before a reply; a whole episode may be longer by data.max_response_length"
}

// truncation has no effect together with filter_overlong_prompts, upstream and here.
func truncation(im *importer, r *Row, _ row, v any) {
	if im.val("data.filter_overlong_prompts", false) == true {
		r.ignored("data.filter_overlong_prompts removes the prompts that it would shorten")
		return
	}
	im.put(r, "data.truncation", v)
}

func modelPath(im *importer, r *Row, entry row, v any) {
	s := plain(v)
	switch {
	case s == "":
		r.ignored("empty: the default applies")
		return
	case strings.Contains(s, "://"):
		r.unsupported("copy the folder of the model to this machine")
		return
	}
	if len(s) > 1 {
		s = strings.TrimRight(s, "/")
	}
	im.put(r, entry.to, s)
}

// computeDtype takes the format of the loaded weights. Upstream the optimiser uses
// it as well; here the optimiser updates float32 weights.
func computeDtype(im *importer, r *Row, entry row, v any) {
	name := strings.TrimPrefix(plain(v), "torch.")
	if full, ok := map[string]string{"bf16": "bfloat16", "fp32": "float32", "float": "float32"}[name]; ok {
		name = full
	}
	im.put(r, entry.to, name)
	if r.Status == Mapped {
		r.Note = "used by forward and backward passes; the optimiser updates float32 weights"
	}
}

func engine(im *importer, r *Row, entry row, v any) {
	switch plain(v) {
	case "vllm", "sglang", "hf":
		im.put(r, entry.to, "local")
		r.Note = "replies are generated in this process with the weights in training"
	default:
		r.unsupported("replies are generated in this process")
	}
}

func gamma(im *importer, r *Row, _ row, v any) {
	im.put(r, "algo.gamma", v)
	if im.val("algorithm.reward_allocation", "") == "discounted" {
		im.put(r, "reward.gamma", v)
	}
}

func pfPPO(im *importer, r *Row, entry row, v any) {
	if v != true {
		r.ignored("episodes are not reweighted, the default")
		return
	}
	if _, given := im.given["algorithm.pf_ppo.reweight_method"]; !given {
		im.put(r, entry.to, "pow")
	}
}

// isThreshold takes a number or the two bounds of IcePop: "0.5_5.0".
func isThreshold(im *importer, r *Row, _ row, v any) {
	const at = "algo.rollout_correction.rollout_is_threshold"
	text, ok := v.(string)
	if !ok {
		im.put(r, at, v)
		return
	}
	lower, upper, two := strings.Cut(text, "_")
	if !two {
		lower, upper = "0", text
	}
	low, err := strconv.ParseFloat(strings.TrimSpace(lower), 64)
	high, err2 := strconv.ParseFloat(strings.TrimSpace(upper), 64)
	if err != nil || err2 != nil {
		r.unsupported(fmt.Sprintf("%s is not a number or two bounds such as 0.5_5.0", clip(text)))
		return
	}
	im.put(r, at, high)
	if two {
		im.put(r, at+"_lower", low)
	}
}

// asList returns a list as it is and any other value as a list of one.
func asList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

// texts converts a value or a list of values to a list of strings.
func texts(im *importer, r *Row, entry row, v any) {
	out := slices.Clone(asList(v))
	for i := range out {
		out[i] = plain(out[i])
	}
	im.put(r, entry.to, out)
}

// folder converts a path to a single folder name.
func folder(im *importer, r *Row, entry row, v any) {
	im.put(r, entry.to, strings.NewReplacer("/", "-", `\`, "-").Replace(plain(v)))
}

// loggers keeps the trackers that exist here.
func loggers(im *importer, r *Row, entry row, v any) {
	have, want := []any{"console", "jsonl"}, []string(nil)
	for _, x := range asList(v) {
		switch name := plain(x); {
		case slices.Contains(have, any(name)), name == "file", name == "null":
		case im.schema.CheckValue(entry.to, []any{name}) == "":
			have = append(have, name)
		default:
			want = append(want, clip(name))
		}
	}
	im.put(r, entry.to, have)
	if len(want) > 0 {
		r.unsupported(strings.Join(want, ", ") + ": no such tracker; metrics.jsonl in the run folder has every metric")
	}
}

// localDir takes the folder of one run and sets the folder of all runs.
func localDir(im *importer, r *Row, entry row, v any) {
	im.put(r, entry.to, dirOf(plain(v), plain(im.val("trainer.experiment_name", ""))))
	if r.Status == Mapped {
		r.Note = "the folder of all runs; each run has a folder in it"
	}
}

func resumeMode(im *importer, r *Row, entry row, v any) {
	switch v {
	case "auto":
		im.put(r, entry.to, "auto")
	case "disable":
		im.put(r, entry.to, "never")
	case "resume_path":
		r.ignored("trainer.resume_from_path names the checkpoint")
	default:
		r.unsupported("write trainer.resume = \"auto\", \"never\" or the path of a checkpoint")
	}
}

func resumePath(im *importer, r *Row, entry row, v any) {
	if v == nil || v == false || im.val("trainer.resume_mode", "auto") != "resume_path" {
		r.ignored("trainer.resume_mode is not resume_path")
		return
	}
	r.unsupported("verl's checkpoints cannot be read: convert the actor to a Hugging Face folder and set model.path to it")
}

// inStruct returns a taker for a field of a struct column, as in "extra_info.question".
func inStruct(column string) taker {
	return func(im *importer, r *Row, entry row, v any) {
		list, _ := v.([]any)
		if len(list) == 0 {
			r.ignored("empty: the column is the text")
			return
		}
		im.put(r, entry.to, plain(im.val(column, "question"))+"."+plain(list[0]))
	}
}

// dirOf returns the parent of the run's folder.
func dirOf(dir, run string) string {
	dir = path.Clean(dir)
	if run != "" && path.Base(dir) == run {
		return path.Dir(dir)
	}
	return dir
}

// paths lists our keys whose values are files or folders.
var paths = []string{
	"model.path", "model.tokenizer_path", "critic.path", "ref.path", "env.tasks", "env.val_tasks", "agent.memory_file",
	"sft.files", "sft.val_files", "trainer.output_dir",
}

// atHome expands ~/ in paths, as the original does when it opens a file. In a
// configuration ~ would name a folder.
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
