package torch

// NativeThreads returns the number of threads that libtorch uses on the calling OS thread.
func NativeThreads() int { return nativeThreads() }

// ShareOut runs a parallel region of n chunks with a nested region each, on the calling OS thread and its workers. Chunk bad fails.
func ShareOut(n, bad int) ([]int64, error) { return shareOut(n, bad) }

// Len returns the number of tensors in o.
func (o *Owner) Len() int { return len(o.hs) }

// LinearSkinny calls LinearsSkinny with one layer.
func LinearSkinny(x, w, bias Tensor) Tensor {
	return LinearsSkinny(x, []Tensor{w}, []Tensor{bias})[0]
}
