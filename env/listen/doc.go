// Package listen runs an HTTP handler on a port and ends it cleanly.
//
// It owns the listener, the connections and the order in which they end. It
// does not own what is served: env/builtin and env/proxy bring their handlers.
//
// Concurrency: whoever calls Serve calls Server.Close, which returns when
// every goroutine of the server has ended. A Server's methods may be called
// from any goroutine.
package listen
