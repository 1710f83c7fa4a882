package env

import (
	"fmt"
	"net/url"
	"strings"
)

// BaseURL returns the address of an environment's endpoints: raw without trailing
// slashes, and with suffix (such as "/maze") unless raw already ends in it.
// Upstream's client always adds the suffix, so the address in its documentation
// answers 404.
func BaseURL(raw, suffix string) (string, error) {
	s := strings.TrimSpace(raw)
	if s == "" {
		return "", fmt.Errorf("environment server address is empty: give one such as http://127.0.0.1:36001")
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", fmt.Errorf("environment server address %q: %w", raw, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("environment server address %q: want http://HOST:PORT", raw)
	}
	if u.Hostname() == "" {
		return "", fmt.Errorf("environment server address %q: no host", raw)
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", fmt.Errorf("environment server address %q: a query or fragment has no meaning here", raw)
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if suffix != "" && !strings.HasSuffix(path, suffix) {
		path += suffix
	}
	base := u.Scheme + "://" + u.Host + path
	if u.User != nil {
		base = u.Scheme + "://" + u.User.String() + "@" + u.Host + path
	}
	return base, nil
}

// RootURL returns base without the environment's suffix: the root of a server, where
// GET returns its greeting.
func RootURL(base, suffix string) string {
	return strings.TrimSuffix(base, suffix) + "/"
}

// WithoutUser returns an address without the user name and password in it, for
// records and messages.
func WithoutUser(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "" // not reached: base is a result of BaseURL
	}
	u.User = nil
	return u.String()
}
