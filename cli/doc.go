// Package cli owns the command line: one file for every command, State (all
// that a command may know of the process it runs in), exit codes, logging and
// progress. It turns a configs.Config into the option structs of the packages
// that do the work, and their errors into one line with what to do.
//
// It owns no algorithm and no format. Nothing outside state.go touches package
// os, so a test runs whole commands with a State of its own.
//
// A command runs on the goroutine that called Main and waits for what it starts.
// Stderr, the logger and progress bars may be used by any goroutine; Stdout and
// Stdin by one at a time.
package cli
