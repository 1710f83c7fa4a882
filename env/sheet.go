package env

import "github.com/openmanus/openmanus/env/action"

// Sheet edits Google Sheets with the server's one credential. The reward is the
// share of cells that equal the reference.
//
// Every /create and /reset copies the reference spreadsheet for the instance, so
// instances do not share cells. They share the account: Google limits the
// account's requests per minute, and every action makes several. Above the limit
// the server gets an error, repeats the action up to three times (insertions too),
// and compares the sheet with the reference between the attempts. Concurrent
// episodes would exceed the limit, so there is one instance at a time.

func init() {
	toolEnv{
		name:  "sheet",
		doc:   "edit a spreadsheet with tools (AgentGym sheet server, Google Sheets)",
		about: "You edit a spreadsheet as the goal says.",
		tools: []string{
			"open_sheet(name): opens a sheet; do this first",
			"del_sheet(name): deletes a sheet",
			"get_all_values(): all cells",
			"get_range_values(start_position, end_position), get_cell_value(position), get_note(position): some cells, one, or its note",
			"filter_cells(query, in_row, in_column): where cells with a text are; in_row and in_column may be None",
			"get_value_by_formula(start_position, end_position, position_list, operator): computes SUM, AVERAGE, COUNT, MAX, MIN, MINUS or PRODUCT over a range or a list of cells",
			"get_A1_annotation(row, col): the name of a cell",
			"update_cell(position, value), update_range(start_position, end_position, values_list), update_note(position, content): write one cell, a range, a note",
			"update_cell_by_formula(start_position, end_position, position_list, result_position, operator): computes likewise and writes the result",
			"insert_rows(values_list, row_idx), insert_cols(values_list, col_idx): put rows or columns in; values_list is a list of lists",
			"delete_batch_data(dimension, index_list): deletes rows ('row') or columns ('col') by number",
			"sort_sheet_by_col(col_num, order): sorts, 'asc' or 'des'",
			"merge_cells(start_position, end_position): merges a range",
			"freeze_data(dimension, num): freezes so many 'rows' or 'columns'",
			"finish(): ends the task",
		},
		advice:  "Rows and columns count from 1, cells are named like B2; read the sheet before you change it, and freeze the first row before you sort.",
		example: `open_sheet with Action Input: {"name": "Sheet1"}`,
		ownCall: "Action: get_all_values with Action Input: {}", // without an open sheet the server does not call Google
		tasks:   20,
		turns:   15,
		most:    1, // a second server must not use the credential either; see todo.go
		answer:  action.SheetAnswer,
	}.register()
}
