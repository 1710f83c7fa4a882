package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Error is an error with an HTTP status. It is sent in the form of OpenAI's API.
type Error struct {
	Status  int
	Type    string // the class of the error, such as invalid_request_error
	Code    string // a name that programs compare; "" if there is none
	Param   string // the field of the request that is wrong, ""  if none
	Message string
	// RetryAfter, if not 0, tells the client when to send the request again.
	RetryAfter time.Duration
	// Final tells clients of OpenAI's API not to send the request again, although
	// they do by default for this status.
	Final bool
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

const (
	invalidRequest = "invalid_request_error"
	serverError    = "server_error"
)

// Invalid returns the error of a wrong value in a field of the request.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: invalidRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Unavailable returns the error of a request that can succeed later.
func Unavailable(after time.Duration, format string, args ...any) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Type: serverError, Code: "unavailable", Message: fmt.Sprintf(format, args...), RetryAfter: after}
}

// asError returns err as an Error. Other errors become an internal error.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Status: http.StatusInternalServerError, Type: serverError, Message: err.Error()}
}

// MarshalJSON returns the form of OpenAI's API: an object with the key error.
func (e *Error) MarshalJSON() ([]byte, error) {
	type inner struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	orNull := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return json.Marshal(struct {
		Error inner `json:"error"`
	}{inner{e.Message, e.Type, orNull(e.Param), orNull(e.Code)}})
}

// write sends the error as the whole reply.
func (e *Error) write(w http.ResponseWriter) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(e.RetryAfter.Seconds()))))
	}
	if e.Final {
		w.Header().Set("X-Should-Retry", "false")
	}
	WriteJSON(w, e.Status, e)
}
