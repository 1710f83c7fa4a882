package env

// Todo edits the server's Todoist account. Every /create and /reset erases the
// account and fills it again, so there is one instance per account.

func init() {
	toolEnv{
		name:  "todo",
		doc:   "look after a to-do list with tools (AgentGym todo server, Todoist)",
		about: "You look after a to-do list: you answer questions about it or change it.",
		tools: []string{
			"get_user_current_date(): today, as YYYY-MM-DD",
			"get_user_current_location(): the user's city",
			"get_projects(): all projects with their ids",
			"update_project(project_id, is_favorite): marks a project as a favourite or not; is_favorite is True or False",
			"get_tasks(project_id): the tasks of a project with their ids, priority (1 to 4, 4 is urgent) and due date",
			"get_task_description(task_id): what a task says about place, hints and so on",
			"get_task_duration(task_id): how long a task takes",
			"complete_task(task_id): ticks a task off",
			"update_task(task_id, due_date): gives a task another due date",
			"delete_task(task_id): deletes a task",
			"check_valid_actions(): lists the tools",
			"finish(answer): gives the answer, or 'done' when something was to be changed, and ends the task",
		},
		advice:  "Take ids from get_projects and get_tasks, do not guess them.",
		example: `get_tasks with Action Input: {"project_id": "12345"}`,
		tasks:   155,
		turns:   15,
		most:    1, // no second server may use the account; the client cannot check this
	}.register()
}
