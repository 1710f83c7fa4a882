package openai

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// Options of a Client. Only BaseURL and Model are required.
type Options struct {
	BaseURL string // such as https://api.openai.com/v1: the part before /chat/completions
	Model   string // the endpoint's name of the model
	Key     string // sent as a bearer token; "" sends none

	Concurrency int           // concurrent requests; 0: 16
	Timeout     time.Duration // of one attempt; 0: two minutes
	Attempts    int           // at one request; 0: 6
	Log         *slog.Logger  // nil: no log
}

// Limits of a Client.
const (
	firstPause   = 500 * time.Millisecond // after the first failed attempt; pauses double
	maxPause     = time.Minute            // between attempts; a longer Retry-After ends the retries
	checkTimeout = 10 * time.Second       // of Check's first request
	maxReply     = 16 << 20               // bytes of a reply
)

func (o Options) withDefaults() (Options, error) {
	base, err := BaseURL(o.BaseURL)
	var errs []error
	errs = append(errs, err)
	o.BaseURL = base
	if o.Model == "" {
		errs = append(errs, errors.New("no model: give the endpoint's name of the model"))
	}
	if strings.ContainsAny(o.Key, "\r\n\x00") {
		errs = append(errs, errors.New("the key contains a line break: give the bare key"))
	}
	if o.Concurrency < 0 || o.Attempts < 0 {
		errs = append(errs, fmt.Errorf("concurrency %d and attempts %d must not be negative", o.Concurrency, o.Attempts))
	}
	o.Concurrency = cmp.Or(o.Concurrency, 16)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.Attempts = cmp.Or(o.Attempts, 6)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(errs...)
}

// BaseURL returns the address to which an endpoint's paths are appended. It also
// accepts the address of /chat/completions. It rejects a key or a query in the
// address, because addresses are logged.
func BaseURL(raw string) (string, error) {
	const form = "write it as http://HOST:PORT/v1"
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("%q is not the address of an endpoint; %s", raw, form)
	case u.User != nil:
		return "", errors.New("the endpoint's address contains a user or a key: give the key in the environment variable instead")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("the endpoint's address at %s has a query or fragment, which has no meaning here; %s", u.Host, form)
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	path = strings.TrimRight(strings.TrimSuffix(path, chatPath), "/")
	return u.Scheme + "://" + u.Host + path, nil
}

const (
	chatPath   = "/chat/completions"
	modelsPath = "/models"
)
