package hydra

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/configs"
)

// taker turns the value of a key into settings of ours.
type taker func(im *importer, r *Row, entry row, v any)

func (r *Row) ignored(why string) { r.Status, r.Note = Ignored, why }

func (r *Row) unsupported(instead string) { r.Status, r.Note = Unsupported, instead }

// ignore is the taker of keys whose value changes nothing.
func ignore(why string) taker {
	return func(_ *importer, r *Row, _ row, _ any) { r.ignored(why) }
}

// only takes values that mean what happens anyway.
func only(instead string, fine ...any) taker {
	return func(_ *importer, r *Row, _ row, v any) {
		if slices.ContainsFunc(fine, func(x any) bool { return reflect.DeepEqual(x, v) }) {
			r.ignored(instead)
			return
		}
		r.unsupported(instead)
	}
}

// hold leaves a key to one that is taken later, or to finish.
func hold(*importer, *Row, row, any) {}

// notNull maps a value as it is; null is the default.
func notNull(im *importer, r *Row, entry row, v any) {
	entry.take = nil
	im.convert(entry, r, v)
}

// filterMetric knows acc, by which DAPO's recipe filters: the outcome alone.
func filterMetric(im *importer, r *Row, entry row, v any) {
	if v == "acc" {
		v = "env_reward"
	}
	notNull(im, r, entry, v)
}

// where maps a value if a switch is on.
func where(on string) taker {
	return func(im *importer, r *Row, entry row, v any) {
		if im.val(on, false) != true {
			r.ignored(on + " is not on")
			return
		}
		notNull(im, r, entry, v)
	}
}

// limit is a number of which null, 0 and less are all.
func limit(im *importer, r *Row, entry row, v any) {
	if n, ok := v.(int64); v == nil || ok && n <= 0 {
		r.ignored("all of them, as by default")
		return
	}
	im.put(r, entry.to, v)
}

// every is a number of steps, of which 0 and less are never.
func every(im *importer, r *Row, entry row, v any) {
	if n, ok := v.(int64); v == nil || ok && n <= 0 {
		v = int64(0)
	}
	im.put(r, entry.to, v)
}

// criticWarmup takes the first step that trains the actor, counted from 1, for
// the number of steps before it.
func criticWarmup(im *importer, r *Row, entry row, v any) {
	if n, ok := v.(int64); ok && n > 0 {
		v = n - 1
	}
	im.put(r, entry.to, v)
}

func totalSteps(im *importer, r *Row, entry row, v any) {
	if v == nil {
		v = int64(0)
	}
	im.put(r, entry.to, v)
}

// envName takes AgentGym's names, and those of September 2025.
func envName(im *importer, r *Row, _ row, v any) {
	name := strings.ToLower(plain(v))
	for part, env := range map[string]string{"alfworld": "alfworld", "alfred": "alfworld", "webshop": "webshop", "tool_use": "gaia"} {
		if strings.Contains(name, part) {
			name = env
		}
	}
	im.put(r, "env.name", name)
}

// servers are the addresses of ports. 0.0.0.0 is where servers listen, and no
// address to go to.
func servers(im *importer, r *Row, _ row, v any) {
	base := strings.TrimRight(plain(im.val("data.env_server_base", "http://0.0.0.0")), "/")
	base = strings.Replace(base, "//0.0.0.0", "//127.0.0.1", 1)
	ports, ok := v.([]any)
	if !ok {
		ports = []any{v}
	}
	var urls []any
	for _, p := range ports {
		if _, ok := p.(int64); !ok {
			r.unsupported(fmt.Sprintf("%s is not a port", clip(plain(p))))
			return
		}
		urls = append(urls, base+":"+plain(p))
	}
	im.put(r, "env.servers", urls)
	if b := im.byKey["data.env_server_base"]; b != nil && b.Status == Mapped {
		b.To, b.Note = []string{"env.servers"}, "a part of the addresses"
	}
}

// promptLength is three things upstream: the longest first prompt, the longest
// conversation that is shown to the model, and the width of a training row. The
// last reply comes on top of it.
func promptLength(im *importer, r *Row, _ row, v any) {
	n, ok := v.(int64)
	if !ok || n < 1 || n > 1<<30 {
		r.unsupported(clip(plain(v)) + " is not a number of tokens")
		return
	}
	reply, _ := im.val("data.max_response_length", int64(512)).(int64)
	im.put(r, "data.max_prompt_tokens", n)
	im.put(r, "rollout.max_context_tokens", n+max(0, min(reply, 1<<30)))
	r.Note = "of the conversation before a reply; a whole episode may have data.max_response_length more"
}

// truncation has no effect beside filter_overlong_prompts, upstream as here.
func truncation(im *importer, r *Row, _ row, v any) {
	if im.val("data.filter_overlong_prompts", false) == true {
		r.ignored("data.filter_overlong_prompts leaves out the prompts that it would shorten")
		return
	}
	im.put(r, "data.truncation", v)
}

func modelPath(im *importer, r *Row, entry row, v any) {
	s := plain(v)
	switch {
	case v == nil || s == "":
		r.ignored("none: the default holds")
		return
	case strings.Contains(s, "://"):
		r.unsupported("copy the model's folder to this machine")
		return
	}
	if len(s) > 1 {
		s = strings.TrimRight(s, "/")
	}
	im.put(r, entry.to, s)
}

// computeDtype: the number format of the loaded weights is that of the
// optimiser too upstream; here the weights that are stepped are float32.
func computeDtype(im *importer, r *Row, entry row, v any) {
	switch s := strings.TrimPrefix(plain(v), "torch."); s {
	case "null":
		r.ignored("null: the default holds")
	case "bf16":
		im.put(r, entry.to, "bfloat16")
	case "fp32", "float":
		im.put(r, entry.to, "float32")
	default:
		im.put(r, entry.to, s)
	}
	if r.Status == Mapped {
		r.Note = "of forward and backward passes; the weights that are stepped are float32"
	}
}

func invalidPenalty(im *importer, r *Row, entry row, v any) {
	const coef = actorAt + "invalid_action_penalty_coef"
	if _, given := im.given[coef]; given || v != true {
		r.ignored("what it says is in " + coef)
		return
	}
	im.put(r, entry.to, 0.1)
}

// warmupSteps: none is a number of them too; only below it the ratio holds.
func warmupSteps(im *importer, r *Row, entry row, v any) {
	if n, ok := v.(int64); v == nil || ok && n < 0 {
		r.ignored("the ratio holds")
		return
	}
	im.put(r, entry.to, v)
}

func engine(im *importer, r *Row, entry row, v any) {
	switch plain(v) {
	case "vllm", "sglang", "hf":
		im.put(r, entry.to, "local")
		r.Note = "replies are generated in this process, by the weights that are trained"
	default:
		r.unsupported("replies are generated in this process")
	}
}

func groupSize(im *importer, r *Row, entry row, v any) {
	if v == nil {
		r.ignored("null: the default holds")
		return
	}
	im.put(r, entry.to, v)
}

func valGreedy(im *importer, r *Row, entry row, v any) {
	if v == false {
		im.put(r, entry.to, 0.0)
		return
	}
	r.ignored("validation samples, unless rollout.val.temperature is 0")
}

func history(im *importer, r *Row, _ row, v any) {
	if n, ok := v.(int64); v == nil || ok && n <= 0 {
		r.ignored("every reply sees the whole conversation")
		return
	}
	im.put(r, "agent.history_length", v)
	im.put(r, "agent.format", "history")
}

func summary(im *importer, r *Row, _ row, v any) {
	if v != true {
		r.ignored("past turns are shown as they were")
		return
	}
	im.put(r, "env.use_summary", true)
	im.put(r, "agent.format", "history")
}

func staged(im *importer, r *Row, _ row, v any) {
	if v == nil || v == "" {
		r.ignored("none, as by default")
		return
	}
	im.put(r, "agent.memory_file", v)
	im.put(r, "agent.format", "staged")
}

func stagedFormat(im *importer, r *Row, entry row, v any) {
	if v != true {
		r.ignored("agent.format says how the model writes actions")
		return
	}
	im.put(r, entry.to, "staged")
}

func estimator(im *importer, r *Row, entry row, v any) {
	if v == "rloo_vectorized" {
		v = "rloo"
	}
	im.put(r, entry.to, v)
}

func gamma(im *importer, r *Row, _ row, v any) {
	im.put(r, "algo.gamma", v)
	if im.val("algorithm.reward_allocation", "") == "discounted" {
		im.put(r, "reward.gamma", v)
	}
}

func pfPPO(im *importer, r *Row, entry row, v any) {
	if v != true {
		r.ignored("every episode is taken once, as by default")
		return
	}
	if _, given := im.given["algorithm.pf_ppo.reweight_method"]; !given {
		im.put(r, entry.to, "pow")
	}
}

// isThreshold is a number, or the two bounds of IcePop: "0.5_5.0".
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
		r.unsupported(fmt.Sprintf("%s is neither a number nor two such as 0.5_5.0", clip(text)))
		return
	}
	im.put(r, at, high)
	if two {
		im.put(r, at+"_lower", low)
	}
}

// gigpoSimilarity sets verl-agent's default where no threshold is given.
func gigpoSimilarity(im *importer, r *Row, entry row, v any) {
	if v != true {
		r.ignored("turns of equal observations are compared, as by default")
		return
	}
	if _, given := im.given["algorithm.gigpo.similarity_thresh"]; !given {
		im.put(r, entry.to, 0.95)
		return
	}
	r.ignored("algorithm.gigpo.similarity_thresh says how similar")
}

// texts makes a list of texts of whatever is there.
func texts(im *importer, r *Row, entry row, v any) {
	if v == nil {
		r.ignored("null: the default holds")
		return
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := make([]any, len(list))
	for i := range list {
		out[i] = plain(list[i])
	}
	im.put(r, entry.to, out)
}

// folder makes one name of what may be a path.
func folder(im *importer, r *Row, entry row, v any) {
	if v == nil {
		r.ignored("null: the default holds")
		return
	}
	im.put(r, entry.to, strings.NewReplacer("/", "-", `\`, "-").Replace(plain(v)))
}

// loggers keeps the trackers that there are.
func loggers(im *importer, r *Row, entry row, v any) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	have, want := []any{"console", "jsonl"}, []string(nil)
	for _, x := range list {
		switch name := plain(x); {
		case slices.Contains(have, any(name)), name == "file", name == "null":
		case configs.CheckValue(entry.to, []any{name}) == "":
			have = append(have, name)
		default:
			want = append(want, clip(name))
		}
	}
	im.put(r, entry.to, have)
	if len(want) > 0 {
		r.unsupported(strings.Join(want, ", ") + ": there is no such tracker; every metric is in the run folder's metrics.jsonl")
	}
}

// localDir is the folder of all runs, where upstream names that of one.
func localDir(im *importer, r *Row, entry row, v any) {
	if v == nil {
		r.ignored("null: the default holds")
		return
	}
	im.put(r, entry.to, dirOf(plain(v), plain(im.val("trainer.experiment_name", ""))))
	if r.Status == Mapped {
		r.Note = "the folder of all runs; each has one of its own in it"
	}
}

func resumeMode(im *importer, r *Row, entry row, v any) {
	switch v {
	case "auto":
		im.put(r, entry.to, "auto")
	case "disable":
		im.put(r, entry.to, "never")
	case "resume_path":
		r.ignored("trainer.resume_from_path says where")
	default:
		r.unsupported("write trainer.resume = \"auto\", \"never\" or the path of a checkpoint")
	}
}

func resumePath(im *importer, r *Row, entry row, v any) {
	if v == nil || v == false || im.val("trainer.resume_mode", "auto") != "resume_path" {
		r.ignored("trainer.resume_mode does not ask for it")
		return
	}
	r.unsupported("checkpoints of verl are not read: convert its actor to a Hugging Face folder and set model.path to that")
}

// inStruct is a column of a struct, "extra_info.question".
func inStruct(column string) taker {
	return func(im *importer, r *Row, entry row, v any) {
		list, _ := v.([]any)
		if len(list) == 0 {
			r.ignored("none: the column is the text")
			return
		}
		im.put(r, entry.to, plain(im.val(column, "question"))+"."+plain(list[0]))
	}
}

// dirOf is the folder above the run's own.
func dirOf(dir, run string) string {
	dir = path.Clean(dir)
	if run != "" && path.Base(dir) == run {
		return path.Dir(dir)
	}
	return dir
}
