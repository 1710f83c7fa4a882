package torch

import (
	"errors"
	"fmt"
	"strings"
)

// ErrClosed is returned by Run on a closed thread.
var ErrClosed = errors.New("torch: the thread is closed")

// Error is a failed operation.
type Error struct {
	Op     string  // the method or function, as MatMul
	Msg    string  // the message of libtorch or of this package
	Shapes [][]int // shapes of the operands
	Err    error   // argument of FailWith; nil: none
}

// Unwrap returns the error that FailWith was called with.
func (e *Error) Unwrap() error { return e.Err }

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("torch: ")
	b.WriteString(e.Op)
	for i, s := range e.Shapes {
		if i == 0 {
			b.WriteString(" of ")
		} else {
			b.WriteString(" and ")
		}
		fmt.Fprint(&b, s)
	}
	b.WriteString(": ")
	b.WriteString(e.Msg)
	return b.String()
}

// OutOfMemory reports whether the operation failed because the device, or the host, has too little memory left.
func (e *Error) OutOfMemory() bool {
	return strings.Contains(e.Msg, "out of memory") || strings.Contains(e.Msg, "can't allocate memory")
}

// opPanic carries the error of a failed operation to Run.
type opPanic struct{ err *Error }

// Error returns the text that Go prints if a failed operation outside Run ends the program.
func (p opPanic) Error() string { return p.err.Error() }

// Fail ends the function that Run is running; Run returns an *Error. Packages that add operations (nn, optim) use it for
// operands that do not fit.
func Fail(op, msg string, operands ...Tensor) { fail(&Error{Op: op, Msg: msg}, operands) }

// FailWith is Fail for an error of a part of the operation, such as a collective.
func FailWith(op string, err error, operands ...Tensor) {
	fail(&Error{Op: op, Msg: err.Error(), Err: err}, operands)
}

func fail(e *Error, operands []Tensor) {
	for _, t := range operands {
		if t.h != nil && t.h.ptr != nil {
			e.Shapes = append(e.Shapes, t.Shape())
		}
	}
	panic(opPanic{e})
}

// threadPanic carries a panic from the thread to the caller of Run.
type threadPanic struct {
	value any
	stack []byte
}

func (p *threadPanic) Error() string {
	return fmt.Sprintf("%v\n\nstack of the torch thread:\n%s", p.value, p.stack)
}

func (p *threadPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
