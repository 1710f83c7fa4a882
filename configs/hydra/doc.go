// Package hydra reads the command lines with which OpenManus-RL and verl are
// started, and writes them as a configuration of this program.
//
// It reads three things: start scripts (parse.go, script.go, expand.go; the Bash
// grammar is mvdan.cc/sh's), Hydra's overrides (override.go, value.go), and the
// table that maps every key of the originals (keys.go).
//
// It executes no command and opens no file. A value that a script computes while
// it runs is reported as missing. The package starts no goroutine.
package hydra
