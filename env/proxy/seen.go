package proxy

// SeenAs returns the name under which clients of package env count a fault of that
// kind (env.Error.Seen).
func SeenAs(kind string) string {
	switch kind {
	case "hang":
		return "timeout"
	case "truncate":
		return "truncated"
	case "reset", "slow", "duplicate":
		return kind
	}
	return "http_" + kind
}
