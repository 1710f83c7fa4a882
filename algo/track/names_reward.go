package track

// Metrics of score functions.

const whenScored = "runs with reward.score_fn or reward.components"

var _ = Define(
	Definition{"episode/valid_action_ratio", "share of turns whose action was valid, of the turns that the environment answered; reward.invalid_action_penalty applies to the others", ""},
	Definition{"reward/*/*", "mean score of a component (reward/NAME/mean) over all episodes of the step, and means of the extra values that its function returns", whenScored},
	Definition{Validation + "/*/reward/mean", "mean total score of a validation's episodes", whenScored},
	Definition{Validation + "/*/reward/*/*", "mean score and extra values of a component in a validation", whenScored},
	Definition{"untrained/" + Validation + "/*/reward/mean", "the same before a warm start", whenScored},
	Definition{"untrained/" + Validation + "/*/reward/*/*", "the same before a warm start", whenScored},
)
