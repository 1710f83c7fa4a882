package track

// What scoring writes.

const whenScored = "runs with reward.score_fn or reward.components"

var _ = Define(
	Definition{"episode/valid_action_ratio", "turns whose action went to the environment / turns that the environment judged, which a reply cut off by the context is not; reward.invalid_action_penalty spares them", ""},
	Definition{"reward/*/*", "mean of a component's scores (reward/NAME/mean) over every episode that the step played, and of every extra number that its function gave", whenScored},
	Definition{Validation + "/*/reward/mean", "mean score of a validation's episodes, all components together", whenScored},
	Definition{Validation + "/*/reward/*/*", "mean of a component, and of its extra numbers, in a validation", whenScored},
	Definition{"untrained/" + Validation + "/*/reward/mean", "the same before a warm start", whenScored},
	Definition{"untrained/" + Validation + "/*/reward/*/*", "the same before a warm start", whenScored},
)
