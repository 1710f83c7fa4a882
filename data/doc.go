// Package data defines the plain types of a run (Task, Turn, Episode, Row)
// and the order in which tasks are drawn. Its subpackages read and write them:
// data/dump the dumps of episodes, data/table the parquet and JSON files.
//
// It uses no tensors, no files and no network. Values are not safe for
// concurrent mutation. One goroutine owns an Episode at a time.
package data
