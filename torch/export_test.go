package torch

// NativeThreads is the number of threads that libtorch uses on the calling OS thread.
func NativeThreads() int { return nativeThreads() }
