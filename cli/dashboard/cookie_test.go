package dashboard

import (
	"net/http"
	"net/url"
)

// oneCookie is a jar for one site.
type oneCookie struct{ all []*http.Cookie }

func (j *oneCookie) SetCookies(_ *url.URL, all []*http.Cookie) { j.all = all }
func (j *oneCookie) Cookies(*url.URL) []*http.Cookie           { return j.all }
