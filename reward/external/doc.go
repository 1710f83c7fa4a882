// Package external calls score functions outside of this process: an HTTP server, or
// a program that reads requests and writes replies as lines. docs/rewards.md
// describes the requests and replies.
//
// A time limit and a size limit apply to the reply to each batch. A failed batch is
// sent once more, to a new process if the function is a program; after a second
// failure Score returns an *Error. For an invalid reply Score returns an *Error at
// once, without a second attempt. A failure never becomes a score of 0.
//
// A program is started without a shell, in a new process group. Close ends the
// group, and the kernel kills the program when this process dies.
//
// A scorer is not safe for concurrent use.
package external
