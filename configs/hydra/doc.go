// Package hydra reads the command lines with which OpenManus-RL and verl are
// started, and writes them as a configuration of this program.
//
// It owns three grammars, each in a file: the little of the shell that start
// scripts use to name settings (lexer.go, expand.go, script.go), Hydra's overrides
// (override.go, value.go), and the table of what became of every key (keys.go).
// It runs nothing: a value that a script only knows when it runs is said to be
// missing. It opens no files.
//
// Everything here is a plain value, and nothing in the package starts a
// goroutine.
package hydra
