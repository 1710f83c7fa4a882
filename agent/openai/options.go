package openai

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options say which endpoint a Client talks to, and how patiently. Only
// BaseURL and Model are needed.
type Options struct {
	BaseURL string // such as https://api.openai.com/v1: what comes before /chat/completions
	Model   string // the name the endpoint knows the model by
	Key     string // sent as a bearer token; "" sends none

	Concurrency int           // requests at once; 0: 16
	Timeout     time.Duration // of one attempt; 0: two minutes
	Attempts    int           // at one request; 0: 6
	Backoff     time.Duration // pause after the first failed attempt, doubling; 0: half a second
	// MaxWait is the longest pause: back-off stops growing there, and an
	// endpoint whose Retry-After asks for more is given up. 0: a minute.
	MaxWait      time.Duration
	CheckTimeout time.Duration // of Check's first question; 0: ten seconds
	MaxReply     int64         // bytes of a reply; 0: 16 MiB

	Transport http.RoundTripper // nil: one of its own
	Log       *slog.Logger      // nil: silent
}

func (o Options) withDefaults() (Options, error) {
	base, err := BaseURL(o.BaseURL)
	var errs []error
	errs = append(errs, err)
	o.BaseURL = base
	if o.Model == "" {
		errs = append(errs, errors.New("no model: give the name that the endpoint knows it by"))
	}
	if strings.ContainsAny(o.Key, "\r\n\x00") {
		errs = append(errs, errors.New("the key holds a line break: give the bare key"))
	}
	if o.Concurrency < 0 || o.Attempts < 0 {
		errs = append(errs, fmt.Errorf("concurrency %d and attempts %d may not be negative", o.Concurrency, o.Attempts))
	}
	o.Concurrency = cmp.Or(o.Concurrency, 16)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.Attempts = cmp.Or(o.Attempts, 6)
	o.Backoff = cmp.Or(o.Backoff, 500*time.Millisecond)
	o.MaxWait = cmp.Or(o.MaxWait, time.Minute)
	o.CheckTimeout = cmp.Or(o.CheckTimeout, 10*time.Second)
	o.MaxReply = cmp.Or(o.MaxReply, 16<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(errs...)
}

// BaseURL is the address that an endpoint's paths hang under. It takes the
// address of /chat/completions itself, too. A key or a query in it is refused:
// addresses are logged.
func BaseURL(raw string) (string, error) {
	const form = "write it as http://HOST:PORT/v1"
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("%q is not the address of an endpoint; %s", raw, form)
	case u.User != nil:
		return "", errors.New("the endpoint's address holds a user or a key: give the key in the environment variable instead")
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
