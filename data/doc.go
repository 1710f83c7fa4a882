// Package data holds the plain types that travel through a run (Task, Turn,
// Episode, Batch), reads and writes them as parquet, JSON and dumps, and owns
// the order in which tasks are drawn. Files are told by their content, and
// read row by row.
//
// It knows no tensors and no network. Values are not safe for concurrent
// mutation; an Episode is owned by one goroutine until it is handed on.
package data
