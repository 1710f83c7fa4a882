package track

// What a curriculum writes.

const whenSampled = "with curriculum.sampler or curriculum.failures"

var _ = Define(
	Definition{"curriculum/max_turns", "turns an episode of the step might take", "with curriculum.max_turns"},
	Definition{"curriculum/tasks_seen", "training tasks that were played so far", whenSampled},
	Definition{"curriculum/tasks_resting", "tasks that were lost too often in a row to be drawn in this step", whenSampled},
	Definition{"curriculum/drawn_success_rate", "estimated success rate, before the step, of the tasks it drew; 0.5 for a task nobody has seen", whenSampled},
)
