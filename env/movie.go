package env

// Movie queries themoviedb.org with the server's API key. A step of a server without
// a network can take minutes.

func init() {
	toolEnv{
		name:  "movie",
		doc:   "answer questions about films and people with tools (AgentGym movie server)",
		about: "You answer questions about films and the people in them.",
		tools: []string{
			"get_search_movie(movie_name): finds a film and its id",
			"get_movie_details(movie_id), get_movie_cast(movie_id), get_movie_crew(movie_id), get_movie_keywords(movie_id): about a film",
			"get_movie_production_companies(movie_id), get_movie_production_countries(movie_id): who made it, and where",
			"get_movie_alternative_titles(movie_id), get_movie_translation(movie_id): its other titles and languages",
			"get_search_person(person_name): finds a person and their id",
			"get_person_details(person_id), get_person_cast(person_id), get_person_crew(person_id), get_person_external_ids(person_id): about a person",
			"check_valid_actions(): lists the tools",
			"finish(answer): gives the answer, a text, a number or a list, and ends the task",
		},
		advice:  "Take ids from a search, do not guess them.",
		example: `get_search_movie with Action Input: {"movie_name": "Metropolis"}`,
		tasks:   238,
		turns:   12,
	}.register()
}
