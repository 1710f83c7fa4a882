// Package builtin implements AgentGym environment servers in Go: the maze and the
// wordle of lmrlgym, and TextCraft. They speak HTTP with the texts, error forms and
// number formats of AgentGym's servers (AgentGym protocol sections 2, 5.1, 5.5, 5.6).
// A run uses them if its configuration names no server; tests use them too.
//
// The package contains the games, the HTTP behaviour of FastAPI applications, and
// expert solutions. Clients are in env, the listening socket in env/listen and
// injected faults in env/fault. TextCraft uses the project's own recipe book, or
// recipe files in Minecraft's JSON format.
//
// A handler is safe for concurrent use; requests for the same instance are
// serialized. Books and vocabularies are read-only. A caller of Serve must call
// Server.Close, which waits for all goroutines.
package builtin
