package track

// What the episodes of a step, and of a validation, write.

const whenGroups = "where a group has two episodes"

var _ = Define(
	Definition{Outcomes + "/*", "share of episodes with the outcome", ""},
	Definition{"episode/attempts/mean", "tries an episode took; failures of the infrastructure are tried again", ""},
	Definition{"episode/reward" + stats, "the environment's reward of an episode, before any score function", ""},
	Definition{"episode/length" + stats, "tokens of a whole episode", ""},
	Definition{"episode/success_rate", "share of episodes that reached the environment's threshold of success", ""},
	Definition{ResponseLength + stats, "sampled tokens of an episode", ""},
	Definition{ResponseClipRatio, "share of replies cut by the limit on new tokens", ""},
	Definition{AbortedRatio, "share of episodes without a single sampled token", ""},
	Definition{PromptLength + stats, "tokens before an episode's first reply", ""},
	Definition{PromptClipRatio, "share of episodes whose first prompt was shortened, see data.truncation", ""},
	Definition{NumberOfActions + stats, "turns of an episode", ""},
	Definition{NumTurns + stats, "messages of an episode: the prompt, the replies, and the observations between them", ""},
	Definition{FinishRatio, "share of episodes that the environment ended", ""},
	Definition{NumberOfValidAction, "mean number of turns with an action in them", ""},
	Definition{RatioOfValidAction, "turns with an action in them / turns that the environment judged", ""},
	Definition{"env/ratio_of_truncated_observations", "share of observations that the model saw shortened", ""},
	Definition{"env/step_ms/{mean,max,min,p50,p90,p99}", "milliseconds the environment took for a turn", ""},
	Definition{"env/generate_ms" + stats, "milliseconds the model took for a turn, waiting for its place in a batch included", ""},
	Definition{"group/reward_std", "standard deviation of the rewards inside a group, mean over groups", whenGroups},
	Definition{"group/zero_spread_ratio", "share of groups whose rewards are all equal", whenGroups},
	Definition{"group/mixed_starts", "groups whose task differed between servers, so that each was played on one of them", ""},
	Definition{"group/different_starts", "groups compared although their episodes began differently: each reset of the task begins differently, or a dump holds such groups", whenGroups},
	Definition{"group/dropped_rows", "episodes left out of the update because their group has no spread, or is of one episode", ""},
	Definition{"group/single", "groups that have one episode left", ""},
	Definition{"rollout/{retries,replays,dropped}", "attempts beyond the first; instances replaced in the middle of one; episodes given up after the last", ""},
	Definition{"rollout/bad_tasks", "tasks left out since no server could reset them: each failed the same way", ""},
	Definition{OverlongTasks, "tasks left out because their first prompt is too long, and replaced by the next ones", "with data.filter_overlong"},
	Definition{"rollout/{turns,tokens,sampled_tokens}", "in all episodes of the step", ""},
	Definition{"rollout/rows_without_reply", "episodes whose first messages fill the context already", ""},
	Definition{"engine/steps", "batches that the engine ran", ""},
	Definition{"engine/{prefill_tokens,decode_tokens}", "tokens that went through the model in prompts and one at a time", ""},
	Definition{"engine/shared_tokens", "tokens of prompts that were taken from a context that began alike instead, see rollout.enable_prefix_caching", ""},
	Definition{"engine/parked", "times a session lost its KV cache to others", ""},
	Definition{"engine/rows_per_step", "sequences in a batch, mean", ""},
	Definition{Validation + "/*/{success_rate,mean_score,mean_turns}", "validation over all its tasks and samples, by environment, and of all episodes as overall", "validations"},
	Definition{Validation + "/*/episodes", "episodes of a validation that count", "validations"},
	Definition{Validation + "/*/outcome/*", "share of a validation's episodes with the outcome", "validations"},
	Definition{"untrained/" + Validation + "/*/{success_rate,mean_score,mean_turns,episodes}", "the validation before a warm start", "step 0 of a run with a warm start"},
	Definition{"untrained/" + Validation + "/*/outcome/*", "its outcomes", "step 0 of a run with a warm start"},
	Definition{BestValue, "the best validation so far, by trainer.best_metric", "validations"},
	Definition{BestStep, "the step it came after, whose checkpoint is kept", "validations"},
)

var _ = SeenBy("algo.TestFilterOverlong", OverlongTasks)
