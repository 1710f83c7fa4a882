package configs

import "fmt"

// Derived is a value that replaces a default or a preset's value which is
// inconsistent with the user's settings.
type Derived struct {
	Key            string
	Default, Value string // as TOML
	Reason         string // the setting that requires the value
}

// derive replaces the values that the user did not set if they are inconsistent
// with other values. If the user's own values are inconsistent, loading fails.
func (l *loader) derive() {
	c := &l.cfg
	rows := c.Data.TrainBatchSize * c.Rollout.GroupSize
	context := c.Rollout.MaxContextTokens
	if context >= 4 && c.Rollout.MaxNewTokens >= context {
		l.put("rollout.max_new_tokens", context/4, "rollout.max_context_tokens %d", context)
	}
	if environments.met(c, 0) && c.Data.MaxPromptTokens >= context && context > 1 {
		room := context - c.Rollout.MaxNewTokens // longer replies end at the context's limit
		l.put("data.max_prompt_tokens", max(room, context/2), "rollout.max_context_tokens %d", context)
	}
	if !c.Evolves() {
		l.fitBatches("actor.", rows)
	}
	if c.updatesCritic() {
		l.fitBatches("critic.", rows)
	}
	if c.Actor.DynamicBatch && c.Actor.MaxTokensPerMicroBatch < context {
		l.put("actor.max_tokens_per_micro_batch", context, "rollout.max_context_tokens %d", context)
	}
	if c.SFT.Epochs == 0 {
		return
	}
	if c.SFT.DynamicBatch && c.SFT.MaxTokens < c.SFT.MaxLength {
		l.put("sft.max_tokens_per_micro_batch", c.SFT.MaxLength, "sft.max_length %d", c.SFT.MaxLength)
	}
	if !c.SFT.DynamicBatch {
		l.fitMicroBatch("sft.train_batch_size", "sft.micro_batch_size", 0)
	}
}

// fitBatches fits a section's mini-batches to the episodes of a step, and its
// micro-batches to the mini-batches.
func (l *loader) fitBatches(section string, rows int) {
	mini := section + "mini_batch_size"
	if rows > 0 && l.number(mini) > rows {
		l.put(mini, 0, "the %d episodes of a step, which form one mini-batch (data.train_batch_size %d x rollout.group_size %d)",
			rows, l.cfg.Data.TrainBatchSize, l.cfg.Rollout.GroupSize)
	}
	if !l.cfg.Actor.DynamicBatch {
		l.fitMicroBatch(mini, section+"micro_batch_size", rows)
	}
}

// fitMicroBatch makes the micro-batch divide the batch. It changes the
// micro-batch, or the batch if the user set the micro-batch. The parameter most
// is the upper limit of the batch; 0 means no limit.
func (l *loader) fitMicroBatch(batch, micro string, most int) {
	large, small := l.number(batch), l.number(micro)
	if large <= 0 || small <= 0 || large%small == 0 {
		return
	}
	if !l.given(micro) {
		n := min(small, large)
		for large%n != 0 {
			n--
		}
		l.put(micro, n, "%s %d, which it must divide", batch, large)
		return
	}
	n := max(large-large%small, small)
	if most > 0 && n > most {
		return
	}
	l.put(batch, n, "%s %d, which must divide it", micro, small)
}

func (l *loader) given(key string) bool { return l.inFile[key] || l.bySet[key] }

func (l *loader) number(key string) int { return int(l.cfg.field(key).Int()) }

// put replaces the value of a key, unless the user set it.
func (l *loader) put(key string, value int, reason string, args ...any) {
	if l.given(key) {
		return
	}
	f := l.cfg.field(key)
	d := Derived{Key: key, Default: literal(f), Reason: fmt.Sprintf(reason, args...)}
	f.SetInt(int64(value))
	d.Value = literal(f)
	l.cfg.Derived = append(l.cfg.Derived, d)
}
