// Package fault injects faults into a server: error statuses, hanging, slow, truncated
// and missing replies, and requests that are executed twice.
//
// It contains the notation of faults (Parse), the random draw of the faults of a
// request, and a handler (New) that injects them in front of any other handler: a game
// (env/builtin) or another server (env/proxy).
//
// Concurrency: a Plan is read-only after Parse. A handler serves concurrent requests
// and draws their faults in the order of arrival.
package fault
