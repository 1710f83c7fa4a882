// Command accept runs the long acceptance checks of openmanus: it starts the
// built program many times and judges what the runs did. `./build.sh accept`
// builds and starts it. Speed is measured by bench, not here.
//
// Each check has a file of its own: what it runs, the bounds it judges by, and
// its report. A check whose bound is not met makes the exit status 1.
//
// Concurrency: learning and agentgym do one run at a time; other checks do
// --jobs runs at a time, which share the cores.
package main
