// Package dashboard serves the page of algo/report for the run that this process trains,
// and keeps it up to date: curves, the current phase with its remaining time, the episodes
// that are being played turn by turn, and the log.
//
// A Dashboard receives the run's events (algo.Events), its episodes (rollout.Observer) and its
// log (Log), and reads the run folder for everything else. Its methods only record a change
// and never wait for a browser. One goroutine passes changes to the browsers as server-sent
// events, a few times a second, and drops a browser that does not keep up.
//
// The server answers only GET requests and changes nothing. The type access describes the readers that it admits.
package dashboard
