package env

// Weather queries open-meteo.com. The reward for any sub-goal is 1.

func init() {
	toolEnv{
		name:  "weather",
		doc:   "answer questions about weather and places with tools (AgentGym weather server)",
		about: "You answer questions about the weather, air quality and places.",
		tools: []string{
			"get_user_current_date(): today, as YYYY-MM-DD",
			"get_user_current_location(): the user's city",
			"get_latitude_longitude(name): where a place lies; ask it, do not guess",
			"get_distance(latitude1, longitude1, latitude2, longitude2): kilometres between two places",
			"get_elevation(latitude, longitude): height above the sea",
			"get_historical_temp(latitude, longitude, start_date, end_date), get_historical_rain(...), get_historical_snow(...): what was measured, with the same parameters for all three",
			"get_temp_forecast(latitude, longitude, start_date, end_date), get_rain_forecast(...), get_snow_forecast(...): what is forecast, likewise",
			"get_current_temp(latitude, longitude, current_date), get_current_rain(...), get_current_snow(...): today's, likewise",
			"get_historical_air_quality_index(latitude, longitude, start_date, end_date): the index of past days",
			"get_current_air_quality_index(latitude, longitude, current_date): today's index",
			"get_air_quality_level(air_quality_index): the name of a level, from good to extremely poor",
			"check_valid_actions(): lists the tools",
			"finish(answer): gives the answer, a text, a number or a list, and ends the task",
		},
		advice:  "Dates are written YYYY-MM-DD.",
		example: `get_latitude_longitude with Action Input: {"name": "Oslo"}`,
		tasks:   343,
		turns:   10,
	}.register()
}
