// Package hydra converts command lines of OpenManus-RL and verl to a configuration
// of this program.
//
// It reads three things: start scripts (parse.go, script.go, expand.go; the Bash
// grammar is mvdan.cc/sh's), Hydra's overrides (override.go, value.go), and the
// table that maps every key of these trainers (keys.go).
//
// It executes no command and opens no file. A value that a script computes at run
// time is reported as missing. The package starts no goroutine.
package hydra
