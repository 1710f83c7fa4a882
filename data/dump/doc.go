// Package dump reads, writes and continues dumps of episodes: files of JSON
// lines, plain or compressed with zstd, that only grow at their end. A process
// that dies while it writes leaves at most one incomplete last line, which
// readers drop and Continue cuts off.
//
// It also provides the two layers below: LineReader for files of lines, and
// Text for text that may be compressed.
//
// A Writer is safe for concurrent use; a Reader is not.
package dump
