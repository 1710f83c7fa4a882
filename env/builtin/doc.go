// Package builtin holds AgentGym environment servers written in Go: the maze
// and the wordle of lmrlgym, and TextCraft, served over real HTTP with the originals' texts,
// error forms and number formats (agentgym protocol sections 2, 5.1, 5.5, 5.6).
// They are what a run uses when it names no server, and what tests play.
//
// It owns the games, the HTTP behaviour of the FastAPI servers they stand in
// for, and expert solutions of the games. It does not own clients (env), the
// listening socket (env/listen) or injected faults (env/fault). TextCraft's recipe book is the project's own; recipe files in
// Minecraft's JSON form can be loaded in its place.
//
// Concurrency: a handler serves any number of requests at once. Instances are
// found under one lock and played under their own, so two requests for one
// instance wait for each other. Books are read-only once loaded. Whoever
// calls Serve calls Server.Close, which waits for every goroutine.
package builtin
