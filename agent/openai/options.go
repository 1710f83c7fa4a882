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

// Options configure a Client. Only BaseURL and Model are required.
type Options struct {
	BaseURL string // the part before /chat/completions, such as https://api.openai.com/v1
	Model   string // model name at the endpoint
	Key     string // sent as a bearer token; "" sends none

	Concurrency int           // concurrent requests; 0: 16
	Timeout     time.Duration // limit of one attempt; 0: two minutes
	Attempts    int           // attempts per request; 0: 6
	Log         *slog.Logger  // may be nil
}

// Limits of a Client.
const (
	firstPause   = 500 * time.Millisecond // pause after the first failed attempt; later pauses double
	maxPause     = time.Minute            // longest pause; a longer Retry-After ends the retries
	checkTimeout = 10 * time.Second       // timeout of Check's first request
	maxReply     = 16 << 20               // longest reply in bytes
)

func (o Options) withDefaults() (Options, error) {
	base, err := BaseURL(o.BaseURL)
	var errs []error
	errs = append(errs, err)
	o.BaseURL = base
	if o.Model == "" {
		errs = append(errs, errors.New("no model: give the model's name at the endpoint"))
	}
	if strings.ContainsAny(o.Key, "\r\n\x00") {
		errs = append(errs, errors.New("the key contains a line break: give the key without it"))
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
