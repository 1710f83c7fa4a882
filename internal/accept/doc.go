// Command accept runs the long acceptance checks of openmanus: it starts the
// built program many times and judges the results. `./build.sh accept`
// builds and starts it. Speed is measured by bench, not here.
//
// Each check is one file with its runs, bounds and report. The exit status is 1 if
// a bound is not met.
//
// Concurrency: learning and agentgym do one run at a time; other checks do
// --jobs runs at a time, which share the cores.
package main
