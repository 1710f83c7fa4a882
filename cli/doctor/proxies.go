package doctor

import (
	"context"
	"net/url"
	"strings"
)

// proxies examines the proxy of requests to the hub and to environment servers on other machines. Requests to 127.0.0.1 never use it.
func proxies(_ context.Context, m *Machine) []Finding {
	var set []string
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"} {
		value := m.Getenv(name)
		if value == "" {
			value = m.Getenv(strings.ToLower(name))
		}
		if value == "" {
			continue
		}
		if name != "NO_PROXY" {
			u, err := url.Parse(value)
			if err != nil {
				return []Finding{{"proxy", Fail, name + " is not an address", "set it to an address such as http://proxy:3128, or unset it"}}
			}
			value = u.Redacted()
		}
		set = append(set, name+"="+value)
	}
	f := ok("proxy", "%s", strings.Join(set, " "))
	switch text := strings.Join(set, " "); {
	case text == "":
		f.Value = "none"
	case strings.Contains(text, "HTTP_PROXY=") && !strings.Contains(text, "NO_PROXY="):
		f.Level, f.Advice = Warn, "environment servers on other machines are reached through the proxy: list their hosts in NO_PROXY"
	}
	return []Finding{f}
}
