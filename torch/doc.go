// Package torch calls libtorch: tensors, their owners, and the operations that the program uses.
//
// It owns all native code. No other package imports "C" or gotorch. The C++ sources are in torch/shim behind one plain C
// header; gotorch provides simple single-call operations, whose results this package adopts. The package does not depend
// on models, tokens or training.
//
// The native libraries are loaded by the first call that needs them (load.c). A library that is missing or does not match the
// program is an error of [NewThread] and [ParseDevice].
//
// # Threads and scopes
//
// All libtorch work of a device happens on one OS thread, a [Thread], through [Run]. Inside Run every result belongs to
// the innermost open [Scope] and is freed when the scope ends, unless it was kept ([Scope.Keep]) or given to an [Owner].
// A [Tensor] is used only inside Run on its thread. Many goroutines may call Run; their functions run one after
// the other. Freed tensors and calls outside Run panic; the build tag torchdebug (and the race detector) adds
// checks of the calling thread, of scopes closed out of order and of double closes, and remembers where live tensors
// were made.
//
// # Errors
//
// An operation that fails panics with a type of this package, which Run turns into an [*Error]; the panic never leaves Run.
// Programmer errors (a freed tensor, Run inside Run) are ordinary panics and reach the caller of Run with the stack of the
// thread. A call into libtorch cannot be cancelled while it runs: a context only ends the wait for the thread.
package torch
