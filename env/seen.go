package env

import (
	"errors"
	"strconv"
)

// The names under which failed exchanges are counted, beside http_N for an
// answer with status N. They say what a client can see; what a server, or the
// fault-injecting proxy (env/proxy), did to bring it about is for it to say.
const (
	SeenTimeout     = "timeout"           // no complete reply within the call's time
	SeenTruncated   = "truncated"         // the connection ended behind the status line
	SeenReset       = "reset"             // it ended before any reply
	SeenRefused     = "refused"           // no connection came about
	SeenRestarted   = "restarted"         // not sent, or not taken: the instance's server was started anew
	SeenMalformed   = "malformed"         // not the reply of this environment
	SeenOversize    = "oversize"          // more than Options.MaxReply
	SeenEnvironment = "environment_error" // E1: a status 200 that names an error
	SeenSlow        = "slow"              // a good reply that says it was held up on purpose
	SeenDuplicate   = "duplicate"         // one that says its request was carried out twice
)

// injectedHeader is where env/fault names the faults a reply has met (its
// Header; this package may not import it). A good reply shows no other trace of
// a pause or of a request that was carried out twice.
const injectedHeader = "X-Openmanus-Fault"

// Seen names the failure for counting; "" where the caller's own context ended
// the call, which is no fault of anybody's.
func (e *Error) Seen() string {
	switch e.Kind {
	case KindTimeout:
		return SeenTimeout
	case KindConnection:
		switch {
		case errors.Is(e.Err, ErrRestarted):
			return SeenRestarted
		case !e.Sent:
			return SeenRefused
		case e.Status == 0:
			return SeenReset
		}
		return SeenTruncated
	case KindOversize:
		return SeenOversize
	case KindEnvironment:
		return SeenEnvironment
	case KindMalformed:
		return SeenMalformed
	case KindServer, KindValidation, KindRouting:
		return "http_" + strconv.Itoa(e.Status)
	}
	return ""
}
