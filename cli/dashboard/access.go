package dashboard

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// DefaultAddr is the address without a setting. If its port is in use, another one is chosen.
const DefaultAddr = "127.0.0.1:7860"

// ParseAddr completes an address: a port alone means this machine only, and :PORT every interface.
func ParseAddr(text string) (string, error) {
	if text == "" {
		return DefaultAddr, nil
	}
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return "127.0.0.1:" + text, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		if _, err = strconv.ParseUint(port, 10, 16); err != nil {
			err = fmt.Errorf("%q is not a port", port)
		}
	}
	if err != nil {
		return "", fmt.Errorf("%q is not an address: give PORT, HOST:PORT, or :PORT for every interface", text)
	}
	return net.JoinHostPort(host, port), nil
}

// local reports whether only programs of this machine reach the address.
func local(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && loopback(host)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// access decides which requests may read the dashboard.
//
// On a loopback address without a token every program of the machine may read. A web page of
// another site may not: its requests carry its own name in Host, if it has rebound its name
// to 127.0.0.1, or in Origin or Sec-Fetch-Site.
//
// With a token, which every other address needs, a request must have the token in its
// query, from the printed address, or in the cookie that the reply to that address sets.
type access struct{ token string }

// newToken returns a random token.
func newToken() string { return rand.Text() }

// guard refuses requests that may not read, and passes the others to next.
func (a access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "frame-ancestors 'self'")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the dashboard is read only", http.StatusMethodNotAllowed)
		case r.Header.Get("Origin") != "" && r.Header.Get("Origin") != "http://"+r.Host && r.Header.Get("Origin") != "https://"+r.Host:
			http.Error(w, "requests of other sites are refused", http.StatusForbidden)
		case a.token == "" && !loopback(hostOf(r)):
			http.Error(w, "open the dashboard by the address 127.0.0.1 or localhost", http.StatusForbidden)
		case a.token == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
			http.Error(w, "requests of other sites are refused", http.StatusForbidden)
		case a.token == "":
			next.ServeHTTP(w, r)
		case r.URL.Query().Has("token"):
			if !a.correct(r.URL.Query().Get("token")) {
				a.refuse(w)
				return
			}
			// The cookie keeps the token out of the history of the browser.
			http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: a.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, "./", http.StatusSeeOther)
		default:
			c, err := r.Cookie(cookieName(r))
			if err != nil || !a.correct(c.Value) {
				a.refuse(w)
				return
			}
			next.ServeHTTP(w, r)
		}
	})
}

func (a access) correct(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(a.token)) == 1
}

func (a access) refuse(w http.ResponseWriter) {
	http.Error(w, "the token is missing or wrong: open the address that openmanus train printed", http.StatusUnauthorized)
}

func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return r.Host
}

// cookieName depends on the port, because the dashboards of one machine share cookies.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "openmanus-dashboard-" + port
}

// shownURL returns the address to print for a server at url.
func (a access) shownURL(url string) string {
	if addr, ok := strings.CutPrefix(url, "http://"); ok {
		if host, port, err := net.SplitHostPort(addr); err == nil {
			if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
				if name, err := os.Hostname(); err == nil {
					url = "http://" + net.JoinHostPort(name, port)
				}
			}
		}
	}
	if a.token != "" {
		return url + "/?token=" + a.token
	}
	return url + "/"
}
