// Package external asks score functions of the user's that are not written in
// Go: a server behind an address, or a program that reads and writes lines.
// docs/rewards.md states what both are told and what they answer.
//
// Every batch has a time limit and a largest reply. A server that does not
// answer is asked once more, and a program that dies or hangs is started once
// more; after that, and at once for an answer that makes no sense, the batch
// fails with an *Error. Nothing is ever scored 0 because something failed.
//
// A program is started without a shell, in a process group of its own. Close
// ends the group, and the kernel ends the program when this one is killed.
//
// Concurrency: a scorer is used by one goroutine at a time.
package external
