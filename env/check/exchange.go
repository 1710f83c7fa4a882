package check

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/openmanus/openmanus/data"
)

// Exchange checks that a recorded request and its reply have the form of AgentGym's
// own client and server of the environment. It returns the kind of call, and the
// fault or "".
//
// It complements Run: it judges real clients against a real server, turn by
// turn. It accepts only requests that AgentGym's clients send.
func Exchange(name string, x data.Exchange) (call, fault string) {
	e, err := lookup(name)
	if err != nil {
		return "", err.Error()
	}
	path, query, _ := strings.Cut(strings.TrimPrefix(x.Path, e.spec.PathSuffix), "?")
	w, ok := e.calls()[x.Method+" "+path]
	if !ok || !strings.HasPrefix(x.Path, e.spec.PathSuffix) {
		return "", fmt.Sprintf("%s %s: AgentGym's client does not send this request", x.Method, x.Path)
	}
	if fault = w.fault(e, x, query); fault != "" {
		fault = fmt.Sprintf("%s %s: %s", x.Method, x.Path, fault)
	}
	return w.call, fault
}

// fault returns the first fault of an exchange of kind w, or "".
func (w wanted) fault(e environment, x data.Exchange, query string) string {
	if fault := w.request(x.Body, query, e.idKey); fault != "" {
		return "the request: " + fault
	}
	switch {
	case x.Err != "":
		return x.Err
	case w.call == "close" && (x.Status == http.StatusNotFound || x.Status == http.StatusMethodNotAllowed):
		return "" // a server without /close is valid
	case e.retry503 && x.Status == http.StatusServiceUnavailable:
		return "" // the client sends the request again
	}
	v, fault := success(reply{status: x.Status, body: []byte(x.Reply)}, w.reply)
	if fault != "" || w.call != "step" {
		return fault
	}
	return e.rangeFault(e.playedOf(v).reward)
}

// Played returns the observation and the done flag in the reply to a step. Call it only
// for replies that Exchange accepted.
func Played(name, body string) (text string, done bool, err error) {
	e, err := lookup(name)
	if err != nil {
		return "", false, err
	}
	v, fault := success(reply{status: http.StatusOK, body: []byte(body)}, e.step)
	if fault != "" {
		return "", false, errors.New(fault)
	}
	p := e.playedOf(v)
	return p.text, p.done, nil
}

// wanted describes a call.
type wanted struct {
	call  string
	body  shape // shape of the body; nil: no body
	ids   bool  // whether the query contains the instance's id
	reply shape
}

// calls returns the requests of AgentGym's client of the environment.
func (e environment) calls() map[string]wanted {
	id := key{e.idKey, either{integer, text}}
	all := map[string]wanted{
		"POST /create": {call: "create", reply: e.created},
		"POST /reset":  {call: "reset", body: keys{{e.taskKey, integer}, id}, reply: e.reset},
		"POST /step":   {call: "step", body: keys{{"action", text}, id}, reply: e.step},
		"POST /close":  {call: "close", body: keys{id}, reply: either{boolean, keys{{"closed", text}}}},
	}
	if e.createBody != "" {
		all["POST /create"] = wanted{call: "create", body: object, reply: e.created}
	}
	if e.observe != nil {
		all["GET /observation"] = wanted{call: "observe", ids: true, reply: e.observe}
	}
	if e.name == "wordle" {
		all["GET /filtered_vocab"] = wanted{call: "observe", ids: true, reply: every{text}}
	}
	return all
}

// request checks a request and returns the fault, or "".
func (w wanted) request(body, query, idKey string) string {
	switch {
	case w.ids && !strings.HasPrefix(query, idKey+"="):
		return fmt.Sprintf("the query %q does not give the instance as %s", query, idKey)
	case w.body == nil && body != "":
		return fmt.Sprintf("it has the body %s; AgentGym's client sends none", short(body, 60))
	case w.body == nil:
		return ""
	}
	v, err := decode([]byte(body))
	if err != nil {
		return fmt.Sprintf("the body %q is invalid JSON: %v", short(body, 60), err)
	}
	return w.body.fault("the body", v)
}
