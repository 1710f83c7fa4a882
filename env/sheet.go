package env

import "github.com/openmanus/openmanus/env/action"

// Sheet works on Google Sheets with the one credential of the server's. The
// reward is the share of cells that equal the reference.
//
// Every create and every reset copies the reference spreadsheet for the
// instance, so instances do not see each other's cells. What they share is the
// account: Google counts its requests by the minute, and every action makes
// several. What is over the limit comes back as the words of an error; the
// server then makes the same action again, up to three times, insertions
// included, and compares the sheet with the reference in between. So the episode
// of one is spoiled by the haste of others: one instance at a time.

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
		ownCall: "Action: get_all_values with Action Input: {}", // no sheet is open yet: Google is not asked
		tasks:   20,
		turns:   15,
		most:    1, // and no second server on the credential, as with todo
		answer:  action.SheetAnswer,
	}.register()
}
