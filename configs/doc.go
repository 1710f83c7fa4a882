// Package configs owns the run configuration: its sections and keys, their
// defaults, what values are allowed, how TOML and --set overrides become a
// Config, and how a Config becomes TOML again.
//
// It does not own what the keys do: cli alone imports it and hands every other
// package a small options struct. It opens no files but the presets embedded
// in it.
//
// Everything here is a plain value; a Config may be copied after Clone and
// read by many goroutines, and nothing in the package starts one.
package configs
