// Package listen serves an HTTP handler on a port and stops it cleanly. env/builtin and
// env/proxy provide the handlers.
//
// Concurrency: the caller of Serve must call Server.Close, which returns when all
// goroutines of the server have ended. The methods of a Server are safe for concurrent
// use.
package listen
