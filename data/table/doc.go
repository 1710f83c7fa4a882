// Package table reads and writes files of rows: OpenManus-RL's parquet files,
// JSON lines, JSON arrays, and dumps of episodes as one more source of rows.
// The format of a file is recognized by its content.
//
// ReadSource visits the rows of any such file as Records; LoadTasks, LoadPairs,
// Inspect and Convert build on it. Table reads files with arbitrary columns and
// adds columns to them. Files are untrusted input: sizes are limited, and a
// malformed file is an error.
//
// Nothing here is safe for concurrent use.
package table
