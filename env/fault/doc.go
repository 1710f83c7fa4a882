// Package fault makes a server fail on purpose: error statuses, replies that
// never come, come late, come in half or not at all, requests carried out
// twice.
//
// It owns the language in which faults are written (Parse), the draw that
// decides which request meets one, and the Handler that carries them out in
// front of any other handler. It does not know what it stands in front of: a
// game (env/builtin) or another server (env/proxy).
//
// Concurrency: a Plan is read-only once parsed. A Handler serves any number of
// requests at once and draws for them one after the other, in the order of
// their arrival.
package fault
