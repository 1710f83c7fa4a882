package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/openmanus/openmanus/internal/errext"
)

// statusError is a reply with a status other than 2xx.
type statusError struct {
	url        string
	status     int
	code       string // X-Error-Code: RepoNotFound, RevisionNotFound, EntryNotFound, GatedRepo
	message    string // X-Error-Message, or the start of the body
	retryAfter time.Duration
	storage    bool // the reply is not from Endpoint: an address with a signature, which ends after some time
}

// newStatusError reads the fields from a response and closes its body.
func newStatusError(address string, resp *http.Response) *statusError {
	defer resp.Body.Close()
	e := &statusError{
		url: withoutQuery(address), status: resp.StatusCode,
		code: resp.Header.Get("X-Error-Code"), message: resp.Header.Get("X-Error-Message"), retryAfter: retryAfter(resp.Header, time.Now()),
	}
	if e.message == "" {
		const most = 200
		text, _ := io.ReadAll(io.LimitReader(resp.Body, most)) // the status is reported in any case
		if !strings.HasPrefix(strings.TrimSpace(string(text)), "<") {
			e.message = strings.Join(strings.Fields(string(text)), " ")
		}
	}
	return e
}

// withoutQuery removes the query, which in addresses of storage contains a signature.
func withoutQuery(address string) string {
	before, _, _ := strings.Cut(address, "?")
	return before
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("%s: status %d %s", e.url, e.status, http.StatusText(e.status))
	if note := cmp.Or(e.message, e.code); note != "" {
		text += ": " + note
	}
	return text
}

func (e *statusError) temporary() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.status >= 500 || e.storage
}

// limitReset matches the seconds until the window of a rate limit ends, as in `RateLimit: "api";r=0;t=55`.
var limitReset = regexp.MustCompile(`;\s*r=0;\s*t=(\d{1,6})`)

// retryAfter returns the pause that a reply asks for, or 0.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		if m := limitReset.FindStringSubmatch(h.Get("RateLimit")); m != nil {
			value = m[1]
		}
	}
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// explain adds the exit code and an action for the user to an error of a request about a model.
func (c *Client) explain(n Name, err error) error {
	if err == nil {
		return nil
	}
	page := c.Endpoint + "/" + n.ID
	s, ok := errors.AsType[*statusError](err)
	if !ok {
		if _, ok := errors.AsType[*connectError](err); ok && c.answered.Load() {
			return errext.With(errext.Model, "run the same command again; finished parts are kept", err)
		} else if ok {
			return errext.With(errext.Model, OfflineHint(n), fmt.Errorf("the hub cannot be asked for %s: %w", n, err))
		}
		return errext.WithDefault(errext.Model, err)
	}
	hint := ""
	switch {
	case s.storage:
		hint = "a proxy or a firewall may reject the storage of the hub; run the same command again, finished parts are kept"
	case s.code == "RevisionNotFound":
		err = fmt.Errorf("%s has no revision %s (%w)", n.ID, n.Revision, err)
		hint = "give a branch, a tag or a commit that " + page + " lists"
	case s.code == "EntryNotFound":
		hint = "the model's files may have changed while they were fetched: run the same command again"
	case s.status == http.StatusUnauthorized && c.Token != "":
		hint = "the token of " + c.TokenFrom + " is not accepted: make a new one on " + c.Endpoint + "/settings/tokens"
	case s.status == http.StatusUnauthorized && s.code == "GatedRepo", s.status == http.StatusForbidden && c.Token == "":
		hint = "accept the licence on " + page + " and set HF_TOKEN to a token of your account (" + c.Endpoint + "/settings/tokens)"
	case s.status == http.StatusUnauthorized:
		err = fmt.Errorf("the hub shows no model %s without a token (%w)", n.ID, err)
		hint = "check the name; a private or gated model needs HF_TOKEN, and a gated one also that its licence is accepted on " + page
	case s.status == http.StatusForbidden:
		hint = "accept the licence on " + page + " with the account of the token of " + c.TokenFrom + ", and let the token read gated models"
	case s.status == http.StatusNotFound:
		err = fmt.Errorf("the hub has no model %s (%w)", n.ID, err)
		hint = "check the name on " + page
		if c.Token == "" {
			hint += "; a private model needs HF_TOKEN"
		}
	case s.status == http.StatusTooManyRequests:
		hint = "run the same command later; finished parts are kept"
		if c.Token == "" {
			hint += "; with HF_TOKEN the hub allows more requests"
		}
	case s.status >= 500:
		hint = "run the same command later; finished parts are kept"
	}
	return errext.With(errext.Model, hint, err)
}
