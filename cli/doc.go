// Package cli is the command line: the commands with their flags and output,
// progress, signals and the exit status. Package cli/run opens and runs a
// configuration.
//
// Only state.go imports package os, so that tests can run commands in-process with
// another State.
//
// A command runs on the goroutine that calls Main and waits for the goroutines
// that it starts. Stderr, the logger and progress bars may be used concurrently,
// Stdout and Stdin may not.
package cli
