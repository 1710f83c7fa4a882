package track

// Metrics of the episodes of a step or of a validation.

const whenGroups = "steps with a group of at least two episodes"

var _ = Define(
	Definition{Outcomes + "/*", "share of episodes with the outcome", ""},
	Definition{"episode/attempts/mean", "attempts per episode; an episode that a server or the engine failed is attempted again", ""},
	Definition{"episode/reward" + stats, "reward of an episode as the environment reports it, before score functions", ""},
	Definition{"episode/length" + stats, "tokens of an episode: prompts, observations and replies", ""},
	Definition{"episode/success_rate", "share of episodes whose reward exceeds the environment's success threshold", ""},
	Definition{ResponseLength + stats, "sampled tokens per episode", ""},
	Definition{ResponseClipRatio, "share of replies that reached the limit on new tokens", ""},
	Definition{AbortedRatio, "share of episodes without any sampled token", ""},
	Definition{PromptLength + stats, "tokens before an episode's first reply", ""},
	Definition{PromptClipRatio, "share of episodes whose first prompt was shortened, see data.truncation", ""},
	Definition{NumberOfActions + stats, "turns per episode", ""},
	Definition{NumTurns + stats, "messages per episode: the prompt, the replies and the observations between them", ""},
	Definition{FinishRatio, "share of episodes that the environment ended", ""},
	Definition{NumberOfValidAction, "mean number of turns per episode whose reply contains an action", ""},
	Definition{RatioOfValidAction, "share of turns whose reply contains an action, of the turns that the environment answered", ""},
	Definition{"env/ratio_of_truncated_observations", "share of observations that were shortened for the model", ""},
	Definition{"env/step_ms/{mean,max,min,p50,p90,p99}", "time of the environment per turn, in milliseconds", ""},
	Definition{"env/generate_ms" + stats, "time of the model per turn, in milliseconds, including the wait for a batch", ""},
	Definition{"group/reward_std", "standard deviation of the rewards within a group, mean over groups", whenGroups},
	Definition{"group/zero_spread_ratio", "share of groups whose rewards are all equal", whenGroups},
	Definition{"group/mixed_starts", "groups that were played on one server because the servers had different tasks for the index", ""},
	Definition{"group/different_starts", "groups whose episodes have different first observations: the environment's resets are random, or the dump contains such groups", whenGroups},
	Definition{"group/dropped_rows", "episodes excluded from the update because all rewards of their group are equal, or the group has one episode", ""},
	Definition{"group/single", "groups with only one usable episode", ""},
	Definition{"rollout/{retries,replays,dropped}", "attempts beyond the first; instances replaced within an attempt; episodes dropped after the last attempt", ""},
	Definition{"rollout/bad_tasks", "tasks excluded because their reset failed in the same way on every server", ""},
	Definition{OverlongTasks, "tasks excluded because their first prompt is too long, and replaced by the next ones", "with data.filter_overlong"},
	Definition{"rollout/{turns,tokens,sampled_tokens}", "total over all episodes of the step", ""},
	Definition{"rollout/rows_without_reply", "episodes without a reply because the first messages fill the context", ""},
	Definition{"engine/steps", "batches computed by the engine", ""},
	Definition{"engine/{prefill_tokens,decode_tokens}", "tokens computed in prefill and in decoding", ""},
	Definition{"engine/shared_tokens", "prompt tokens reused from the KV cache of a context with the same prefix (rollout.enable_prefix_caching)", ""},
	Definition{"engine/parked", "times the KV cache of a session was evicted to make room for others", ""},
	Definition{"engine/rows_per_step", "mean number of sequences per batch", ""},
	Definition{Validation + "/*/{success_rate,mean_score,mean_turns}", "validation results by environment; `overall` covers all episodes", "validations"},
	Definition{Validation + "/*/episodes", "episodes of a validation, without those lost to failures", "validations"},
	Definition{Validation + "/*/outcome/*", "share of a validation's episodes with the outcome", "validations"},
	Definition{"untrained/" + Validation + "/*/{success_rate,mean_score,mean_turns,episodes}", "results of the validation before the warm start", "step 0 of a run with a warm start"},
	Definition{"untrained/" + Validation + "/*/outcome/*", "outcomes of the validation before the warm start", "step 0 of a run with a warm start"},
	Definition{BestValue, "best value of trainer.best_metric in a validation so far", "validations"},
	Definition{BestStep, "step of the best validation; its checkpoint is kept", "validations"},
)

var _ = SeenBy("algo.TestFilterOverlong", OverlongTasks)
