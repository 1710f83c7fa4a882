package check

import (
	"context"
	"fmt"
	"net/http"
)

// This file contains the checks of closing instances and connections.

// checkClose closes the last session twice and then uses this session.
func checkClose(c *checker, n *notes) {
	last := len(c.sessions) - 1
	s := c.sessions[last]
	if last > 0 {
		c.sessions = c.sessions[:last]
	}
	// babyai's close answers false for an instance that was never reset.
	if _, ok := c.reset(n, s, c.env.tasks[0]); !ok {
		return
	}
	body := fmt.Sprintf(`{%q:%s}`, c.env.idKey, s.id)
	got, err := c.send("close", c.post("/close", body))
	if err != nil {
		n.fail("%v", err)
		return
	}
	if got.status == http.StatusNotFound || got.status == http.StatusMethodNotAllowed {
		why := "AgentGym's server has no close; instances are reused by reset"
		if c.env.closing != closeNone {
			why = "older versions of this server have no close; instances are reused by reset"
		}
		n.warn(why, "%s", show(got))
		return
	}
	want := shape(either{boolean, keys{{"closed", text}}})
	if c.env.closing == closeAny {
		want = anyValue
	}
	v, fault := c.judge(n, "close", got, want)
	if c.env.closing == closeObject && got.status == http.StatusOK && string(got.body) == "closed" {
		n.warn("older versions of this server reply with plain text", "%q", got.body)
	} else if fault != "" {
		n.fail("close: %s", fault)
		return
	} else if v == false && c.env.closing != closeAny {
		n.fail("close answered false for an instance in use")
	} else {
		n.pass("%s", show(got))
	}
	c.forget(s.id)
	c.closeAgain(n, body)
	c.refused(n, "step after close", c.post("/step", c.stepBody(s, "look")))
	c.refused(n, "reset after close", c.post("/reset", c.resetBody(s, c.env.tasks[0])))
}

// closeAgain closes an instance that is already closed.
func (c *checker) closeAgain(n *notes, body string) {
	got, ok := c.bad(n, "second close", c.post("/close", body))
	if !ok {
		return
	}
	v, decodeErr := decode(got.body)
	_, isError := errorText(v)
	switch {
	case looksLikeHTML(got.body) && !c.env.quart:
		n.fail("second close: %s", show(got))
	case c.env.closing == closeBool && got.status == http.StatusOK && decodeErr == nil && v == true:
		n.fail("second close: true, expected false")
	case got.status == http.StatusOK && decodeErr == nil && (c.env.closing == closeAny || v == false || isError || c.env.closing == closeObject || c.env.closing == closeNone):
		n.pass("second close: %s", short(string(got.body), 40))
	case got.status == http.StatusInternalServerError && c.env.closing == closeOnce:
		n.warn("AgentGym's server does the same; clients ignore a failed close", "second close: %s", show(got))
	case got.status >= 400 && got.status < 500:
		n.warn("clients ignore a failed close", "second close: %s", show(got))
	default:
		n.fail("second close: %s", show(got))
	}
}

// checkLimit creates one instance more than the server can create.
func checkLimit(c *checker, n *notes) {
	if !c.o.Limit {
		n.skip("skipped because it would exhaust shared instances; run with --limit to enable")
		return
	}
	seen := map[string]bool{}
	for _, s := range c.sessions {
		seen[s.id] = true
	}
	for range c.env.limit + 1 {
		s, ok := c.create(n)
		if !ok {
			return
		}
		if seen[s.id] {
			n.warn(fmt.Sprintf("AgentGym's server holds %d instances and then returns ids in use; stay below that number", c.env.limit),
				"id %s was returned twice", s.id)
			return
		}
		seen[s.id] = true
	}
	n.pass("%d instances, all different", len(seen))
}

func checkLengths(c *checker, n *notes) {
	if c.unsized > 0 {
		n.warn("a truncated reply cannot be detected", "%d of %d replies had none", c.unsized, c.requests)
	}
	n.pass("%d replies", c.requests)
}

// checkKeepAlive sends two requests on one connection, then tests whether the
// idle connection is still open.
func checkKeepAlive(c *checker, n *notes) {
	const shorter = "clients open a new connection, and close idle ones sooner themselves"
	over := keeping(func() {})
	defer over.CloseIdleConnections()
	for i := range 2 {
		got, err := c.root.do(c.ctx, over, request{method: "GET", target: "/"})
		switch {
		case err != nil && i == 0:
			n.fail("%v", err)
			return
		case err != nil || i == 1 && !got.reused:
			n.warn(shorter, "the server closes a connection after %d request(s)", i)
			return
		case got.closes:
			n.warn(shorter, "the server closes a connection after %d request(s)", i+1)
			return
		}
	}
	if c.idle == nil {
		n.pass("two requests on one connection")
		return
	}
	<-c.idle.Done()
	switch {
	case c.ctx.Err() != nil: // Run returns the context's error
	case context.Cause(c.idle) == errBroken:
		n.warn(shorter, "a connection without requests was closed within %v", c.o.Idle)
	default:
		n.pass("open after %v without requests", c.o.Idle)
	}
}

// watchIdle sends r on a connection and then leaves the connection idle. checkKeepAlive
// judges only the first Options.Idle of the idle time, however long the other checks take.
func (c *checker) watchIdle(r request) {
	idle, end := context.WithCancelCause(c.ctx)
	over := keeping(func() { end(errBroken) })
	stop := context.CancelFunc(func() {})
	if _, err := c.root.do(c.ctx, over, r); err == nil {
		c.idle, stop = context.WithTimeout(idle, c.o.Idle)
	}
	c.closeIdle = func() {
		over.CloseIdleConnections()
		end(nil)
		stop()
	}
}
