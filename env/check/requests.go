package check

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// This file contains the checks of invalid requests.

// bad sends an invalid request. Without a reply ok is false, and n contains the
// failure.
func (c *checker) bad(n *notes, what string, r request) (got reply, ok bool) {
	got, err := c.send(opBad, r)
	if err != nil {
		n.fail("%s: %v", what, err)
	}
	return got, err == nil
}

// invalid sends a request that a server must reject with status 422.
func (c *checker) invalid(n *notes, what string, r request) {
	got, ok := c.bad(n, what, r)
	switch {
	case !ok:
	case got.status == http.StatusUnprocessableEntity && looksLikeHTML(got.body):
		n.fail("%s: %s", what, show(got))
	case got.status == http.StatusUnprocessableEntity:
		n.pass("%s: status 422", what)
	case got.status == http.StatusBadRequest:
		n.warn("rejected with another status", "%s: %s", what, show(got))
	case got.status == http.StatusOK:
		n.fail("%s: accepted, with %s", what, show(got))
	default:
		n.fail("%s: %s", what, show(got))
	}
}

func checkBeyond(c *checker, n *notes) {
	c.refused(n, "reset", c.post("/reset", c.resetBody(c.sessions[0], c.env.beyond)))
	if _, ok := c.restart(n); ok {
		n.pass("the instance can be reset again")
	}
}

func checkUnknownID(c *checker, n *notes) {
	s := c.unknownSession()
	c.refused(n, "step", c.post("/step", c.stepBody(s, "look")))
	c.refused(n, "reset", c.post("/reset", c.resetBody(s, c.env.tasks[0])))
	if c.env.observe != nil {
		c.refused(n, "observation", c.get("/observation", c.query(s)))
	}
}

func checkMalformed(c *checker, n *notes) {
	body := c.stepBody(c.sessions[0], "look")
	c.invalid(n, "a body cut short", c.post("/step", body[:len(body)-1]))
	c.invalid(n, "a body that is not JSON", c.post("/step", "action=look"))
	c.invalid(n, "an array", c.post("/step", "["+body+"]"))
	c.invalid(n, "a reset cut short", c.post("/reset", "{"))
}

func checkMissing(c *checker, n *notes) {
	s := c.sessions[0]
	c.invalid(n, "a step without action", c.post("/step", fmt.Sprintf(`{%q:%s}`, c.env.idKey, s.id)))
	c.invalid(n, "a step without id", c.post("/step", `{"action":"look"}`))
	c.invalid(n, "a step without body", c.post("/step", ""))
	c.invalid(n, "a reset without id", c.post("/reset", fmt.Sprintf(`{%q:%d}`, c.env.taskKey, c.env.tasks[0])))
	if c.env.observe != nil {
		c.invalid(n, "an observation without id", c.get("/observation", ""))
	}
}

func checkTypes(c *checker, n *notes) {
	s := c.sessions[0]
	if !s.named() {
		c.invalid(n, "an id that is a word", c.post("/step", fmt.Sprintf(`{"action":"look",%q:"x"}`, c.env.idKey)))
	}
	c.invalid(n, "an action that is an object", c.post("/step", fmt.Sprintf(`{"action":{},%q:%s}`, c.env.idKey, s.id)))
	got, ok := c.bad(n, "an action that is a number", c.post("/step", fmt.Sprintf(`{"action":5,%q:%s}`, c.env.idKey, s.id)))
	switch {
	case !ok:
	case got.status == http.StatusOK:
		n.warn("pydantic 1 converts a number to a string", "an action that is a number: %s", show(got))
	case got.status != http.StatusUnprocessableEntity:
		n.fail("an action that is a number: %s", show(got))
	}
}

// checkDialect identifies the format of a 422: pydantic 1, FastAPI 0.103 or
// current FastAPI.
func checkDialect(c *checker, n *notes) {
	got, ok := c.bad(n, "a step without action", c.post("/step", fmt.Sprintf(`{%q:%s}`, c.env.idKey, c.sessions[0].id)))
	if !ok {
		return
	}
	const harmless = "clients show the text and only use the status"
	v, err := decode(got.body)
	fault := keys{{"detail", every{keys{{"type", text}, {"loc", list}, {"msg", text}}}}}.fault("the reply", v)
	switch {
	case got.status != http.StatusUnprocessableEntity:
		n.skip("the reply to a missing field does not have status 422")
	case err != nil || fault != "":
		n.warn(harmless, "%s", show(got))
	default:
		entry, _ := v.(map[string]any)["detail"].([]any)
		if len(entry) == 0 {
			n.warn(harmless, "detail has no entry")
			return
		}
		e := entry[0].(map[string]any)
		switch {
		case strings.HasPrefix(field(e, "type"), "value_error"):
			n.warn(harmless, "pydantic 1's form: type %q", field(e, "type"))
		case field(e, "url") != "":
			n.warn(harmless, "pydantic 2's form with a url in every entry, as in FastAPI 0.103")
		default:
			n.pass("type %q, msg %q", field(e, "type"), field(e, "msg"))
		}
	}
}

func checkContentType(c *checker, n *notes) {
	s, ok := c.restart(n)
	if !ok {
		return
	}
	r := c.post("/step", c.stepBody(s, "look"))
	r.kind = "application/json; charset=utf-8"
	if _, ok := c.require(n, "step", r, c.env.step); !ok {
		return
	}
	r.kind = "text/plain"
	got, ok := c.bad(n, "text/plain", r)
	switch {
	case !ok:
	case got.status == http.StatusOK:
		n.warn("a server that is more lenient than AgentGym's is harmless", "text/plain: accepted as JSON")
	case got.status != http.StatusUnprocessableEntity && got.status != http.StatusUnsupportedMediaType && got.status != http.StatusBadRequest:
		n.fail("text/plain: %s", show(got))
	}
	// FastAPI up to 0.103 accepts a body without content type, FastAPI 0.165 does not.
	r.kind = ""
	switch got, ok := c.bad(n, "no content type", r); {
	case !ok:
	case got.status >= 500:
		n.fail("no content type: %s", show(got))
	default:
		n.pass("without a content type status %d", got.status)
	}
}

func checkBodyNeeded(c *checker, n *notes) {
	got, ok := c.bad(n, "a create without body", c.post("/create", ""))
	switch {
	case !ok:
	case got.status == http.StatusOK:
		c.adopt(got)
		n.warn("a server that is more lenient than AgentGym's is harmless", "an instance was created: %s", show(got))
	case got.status == http.StatusUnprocessableEntity || got.status == http.StatusBadRequest:
		n.pass("status %d", got.status)
	default:
		n.fail("%s", show(got))
	}
}

// wrongAddress returns a check that sends a request to a wrong address, where the
// server must answer with one of the statuses.
func wrongAddress(method, path string, want ...int) func(*checker, *notes) {
	return func(c *checker, n *notes) {
		r := c.get(path, "")
		if method == http.MethodPost {
			r = c.post(path, c.env.createBody)
		}
		c.routed(n, r, want)
	}
}

func (c *checker) routed(n *notes, r request, want []int) {
	got, ok := c.bad(n, r.method+" "+r.target, r)
	if !ok {
		return
	}
	if r.method == http.MethodPost && got.status == http.StatusOK { // the server created an instance
		c.adopt(got)
	}
	_, decodeErr := decode(got.body)
	wanted := slices.Contains(want, got.status)
	switch {
	case wanted && decodeErr != nil && len(got.body) > 0:
		n.warn("clients only use the status", "%s", show(got))
	case wanted:
		n.pass("%s", show(got))
	case got.status == http.StatusOK:
		n.warn("a wrong address would go unnoticed", "%s", show(got))
	case got.status >= 300 && got.status < 500:
		n.warn("rejected with another status than by AgentGym's server", "%s", show(got))
	default:
		n.fail("%s", show(got))
	}
}
