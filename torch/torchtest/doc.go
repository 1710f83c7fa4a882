// Package torchtest helps to test code that computes with package torch: one shared CPU thread per test binary, checks
// that nothing stays alive, comparisons, and gradients checked against finite differences.
//
// It owns the shared thread, which [Main] ends. Its functions may be called from many tests at once.
package torchtest
