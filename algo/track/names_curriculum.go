package track

// Metrics of a curriculum.

const whenSampled = "with curriculum.sampler or curriculum.failures"

var _ = Define(
	Definition{"curriculum/max_turns", "turn limit of the step's episodes", "with curriculum.max_turns"},
	Definition{"curriculum/tasks_seen", "number of training tasks played so far", whenSampled},
	Definition{"curriculum/tasks_resting", "tasks excluded from this step because their episodes failed too often in a row", whenSampled},
	Definition{"curriculum/drawn_success_rate", "estimated success rate of the drawn tasks, before the step; 0.5 for a task that was never played", whenSampled},
)
