package check_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/check"
)

// exchange is a request to a correct server and its reply. A defect changes the reply.
type exchange struct {
	path, body string
	query      string
	status     int
	kind       string
	reply      string
}

// spoiled adds a defect to a correct server: spoil changes every reply before the client receives it.
func spoiled(next http.Handler, spoil func(x *exchange)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, _ := carry(next, r)
		spoil(&x)
		w.Header().Set("Content-Type", x.kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(x.reply)))
		w.WriteHeader(x.status)
		io.WriteString(w, x.reply)
	})
}

// carry sends a request to a correct server and returns the exchange.
func carry(next http.Handler, r *http.Request) (exchange, *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w := httptest.NewRecorder()
	next.ServeHTTP(w, r)
	return exchange{
		path: r.URL.Path, query: r.URL.RawQuery, body: string(body),
		status: w.Code, kind: w.Header().Get("Content-Type"), reply: w.Body.String(),
	}, r
}

// on applies spoil to the successful replies of one endpoint.
func on(endpoint string, spoil func(x *exchange)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return spoiled(next, func(x *exchange) {
			if endpointIs(endpoint, x.path) && x.status == 200 && !strings.Contains(x.reply, `"error"`) {
				spoil(x)
			}
		})
	}
}

// endpointIs reports whether a path ends in an endpoint, such as /step or
// /(reset|observation).
func endpointIs(endpoint, path string) bool {
	return regexp.MustCompile(endpoint + "$").MatchString(path)
}

// replace replaces a pattern in the replies of one endpoint.
func replace(endpoint, pattern, by string) func(http.Handler) http.Handler {
	re := regexp.MustCompile(pattern)
	return on(endpoint, func(x *exchange) { x.reply = re.ReplaceAllString(x.reply, by) })
}

// errorsLike applies spoil to the error objects whose text contains part.
func errorsLike(part string, spoil func(x *exchange)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return spoiled(next, func(x *exchange) {
			if strings.Contains(x.reply, `"error"`) && strings.Contains(x.reply, part) {
				spoil(x)
			}
		})
	}
}

// invalids applies spoil to replies with status 422.
func invalids(spoil func(x *exchange)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return spoiled(next, func(x *exchange) {
			if x.status == 422 {
				spoil(x)
			}
		})
	}
}

// instead replaces the server's handler of one endpoint by the function answer.
func instead(endpoint string, answer http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, endpoint) {
				answer(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// asID rewrites the id of requests before the server sees them.
func asID(endpoint string, id func(n int) int) func(http.Handler) http.Handler {
	re := regexp.MustCompile(`"id":(\d+)`)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			if strings.HasSuffix(r.URL.Path, endpoint) {
				body = re.ReplaceAllFunc(body, func(m []byte) []byte {
					n, err := strconv.Atoi(string(m[len(`"id":`):]))
					if err != nil {
						panic(err)
					}
					return []byte(`"id":` + strconv.Itoa(id(n)))
				})
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		})
	}
}

const page = "<!DOCTYPE html><html><body>Something went wrong</body></html>"

func asPage(x *exchange) { x.kind, x.reply = "text/html", page }

// TestDefectsAreFound checks that Run finds every defect that breaks a client, in the check made for it.
func TestDefectsAreFound(t *testing.T) {
	for _, d := range []struct {
		name, env string
		status    check.Status
		check     string
		received  string // part of Result.Came
		plant     func(http.Handler) http.Handler
	}{
		{"one id for all", "maze", check.Fail, "ids", "returned twice", replace("/create", `\d+`, "0")},
		{"ids of concurrent creates", "maze", check.Fail, "ids", "returned twice", sharedCreates},
		{"id as text", "maze", check.Fail, "create", `"id" is the string`, replace("/create", `(\d+)`, `"$1"`)},
		{"id without object", "maze", check.Fail, "create", "want {", replace("/create", `.*?(\d+).*`, `$1`)},
		{"id below 0", "maze", check.Fail, "create", `"id" is -1`, replace("/create", `(\d+)`, `-1`)},
		{"id below 0", "weather", check.Fail, "create", "the reply is -1", replace("/create", `(\d+)`, `-1`)},
		{"two values", "maze", check.Fail, "create", "data after the value", replace("/create", `$`, `{}`)},
		{"steps go to one session", "maze", check.Fail, "two sessions", "together with another session", asID("/step", func(n int) int { return n &^ 1 })},
		{"a reset resets another session", "maze", check.Fail, "two sessions", "session", neighbourReset},
		{"concurrent steps are mixed up", "textcraft", check.Fail, "many at once", "session", mixedWhenBusy()},
		{"observation of another session", "maze", check.Fail, "observe", "want", on("/observation", func(x *exchange) { x.reply = `"You are elsewhere."` })},
		{"random text", "maze", check.Warn, "repeatable", "then", counted("/step")},
		{"reset as bare text", "maze", check.Fail, "reset", "want {", replace("/reset", `.*"observation":(".*").*`, `$1`)},
		{"reset of another id", "wordle", check.Fail, "reset", "names id 77", replace("/reset", `"id":\d+`, `"id":77`)},
		{"reset without observation", "maze", check.Fail, "reset", `no key "observation"`, replace("/reset", `"observation"`, `"text"`)},
		{"done from the start", "textcraft", check.Fail, "reset", "done before the first step", replace("/reset", `"done":false`, `"done":true`)},
		{"empty first text", "maze", check.Fail, "first text", "first text is empty", replace("/reset", `:".*"`, `:""`)},
		{"another first text", "maze", check.Fail, "first text", "Welcome", replace("/reset", `:".*"`, `:"Welcome."`)},
		{"no done", "maze", check.Fail, "step", `no key "done"`, replace("/step", `,"done":(true|false)`, ``)},
		{"done as number", "maze", check.Fail, "step", `"done" is 0`, replace("/step", `"done":false`, `"done":0`)},
		{"reward as text", "maze", check.Fail, "step", `"reward" is the string`, replace("/step", `"reward":([-0-9.]+)`, `"reward":"$1"`)},
		{"reward null", "maze", check.Fail, "step", `"reward" is null`, replace("/step", `"reward":[-0-9.]+`, `"reward":null`)},
		{"reward NaN", "maze", check.Fail, "step", "invalid JSON", replace("/step", `"reward":[-0-9.]+`, `"reward":NaN`)},
		{"reward of a thousand", "maze", check.Fail, "step", "reward 1000", replace("/step", `"reward":[-0-9.]+`, `"reward":1000`)},
		{"observation as array", "maze", check.Fail, "step", `"observation" is the array`, replace("/step", `"observation":(".*?")`, `"observation":[$1]`)},
		{"not UTF-8", "maze", check.Fail, "step", "not UTF-8", replace("/step", `position`, "p\xffsition")},
		{"page for a step", "maze", check.Fail, "step", "an HTML page", on("/step", asPage)},
		{"JSON with content type text", "maze", check.Warn, "step", `content type "text/plain"`, on("/step", func(x *exchange) { x.kind = "text/plain" })},
		{"step redirected", "maze", check.Fail, "step", "status 307", on("/step", func(x *exchange) { x.status, x.reply = 307, "" })},
		{"step unavailable", "maze", check.Fail, "step", "status 503", on("/step", func(x *exchange) { x.status, x.kind, x.reply = 503, "text/plain", "busy" })},
		{"non-ASCII text", "maze", check.Fail, "any text", "status 500", foreign},
		{"never done", "maze", check.Fail, "reward at the goal", "would never end", replace("/step", `"done":true`, `"done":false`)},
		{"a failure without end", "maze", check.Fail, "end of episode", "not ended after 51 steps", replace("/step", `-1\.0,"done":true`, `-1.0,"done":false`)},
		{"success without reward", "maze", check.Fail, "reward at the goal", "reward 0, want 1", replace("/step", `1\.0,"done":true`, `0,"done":true`)},
		{"failure without penalty", "maze", check.Fail, "end of episode", "reward 0, want -1", replace("/step", `-1\.0,"done":true`, `0,"done":true`)},
		{"goal without end", "textcraft", check.Fail, "reward at the goal", "would never end", replace("/step", `"done":true`, `"done":false`)},
		{"goal without reward", "textcraft", check.Fail, "reward at the goal", "reward 0, want 1", replace("/step", `"reward":1,`, `"reward":0,`)},
		{"a seventh guess", "wordle", check.Fail, "end of episode", "not ended after 6 steps", replace("/step", `"done":true`, `"done":false`)},
		{"four guesses", "wordle", check.Fail, "end of episode", "too early", fourGuesses()},
		{"lost game with reward", "wordle", check.Fail, "end of episode", "reward 1, want 0", replace("/step", `"reward":[0.]+,"done":true`, `"reward":1,"done":true`)},
		{"won game without reward", "wordle", check.Fail, "reward at the goal", "reward 0, want 1", replace("/step", `"reward":1(\.0)?,"done":true`, `"reward":0,"done":true`)},
		{"step after done", "maze", check.Fail, "step after done", "accepted", errorsLike("has finished", func(x *exchange) {
			x.reply = `{"observation":"Success\n","reward":1.0,"done":true}`
		})},
		{"500 after done", "maze", check.Fail, "step after done", "status 500", errorsLike("has finished", func(x *exchange) {
			x.status, x.kind, x.reply = 500, "text/plain; charset=utf-8", "Internal Server Error"
		})},
		{"no reset after done", "maze", check.Fail, "reset after done", "has finished", stuck()},
		{"unknown id accepted", "maze", check.Fail, "unknown id", "accepted", asID("/step", func(n int) int {
			if n > 1000 {
				return 0
			}
			return n
		})},
		{"500 for an unknown id", "maze", check.Fail, "unknown id", "status 500", errorsLike("is not valid", func(x *exchange) {
			x.status, x.kind, x.reply = 500, "text/plain", "Internal Server Error"
		})},
		{"404 for an unknown id", "maze", check.Warn, "unknown id", "status 404", errorsLike("is not valid", func(x *exchange) {
			x.status, x.reply = 404, `{"detail":"no such id"}`
		})},
		{"page for an unknown id", "maze", check.Fail, "unknown id", "an HTML page", errorsLike("is not valid", asPage)},
		{"task out of range accepted", "maze", check.Fail, "task out of range", "accepted", errorsLike("The game 26", func(x *exchange) {
			x.reply = `{"observation":"x"}`
		})},
		{"200 for malformed JSON", "maze", check.Fail, "malformed JSON", "accepted", invalids(func(x *exchange) {
			x.status, x.reply = 200, `{"observation":"x","reward":0,"done":false}`
		})},
		{"error object for malformed JSON", "maze", check.Fail, "malformed JSON", "accepted", invalids(func(x *exchange) { x.status, x.reply = 200, `{"error":"bad"}` })},
		{"400 for missing fields", "maze", check.Warn, "missing fields", "status 400", invalids(func(x *exchange) { x.status = 400 })},
		{"500 for wrong types", "maze", check.Fail, "wrong types", "status 500", invalids(func(x *exchange) { x.status, x.kind, x.reply = 500, "text/plain", "oops" })},
		{"pydantic 1", "maze", check.Warn, "422 dialect", "pydantic 1", invalids(func(x *exchange) {
			x.reply = `{"detail":[{"loc":["body","action"],"msg":"field required","type":"value_error.missing"}]}`
		})},
		{"pydantic 2 of 2023", "maze", check.Warn, "422 dialect", "url", invalids(func(x *exchange) {
			x.reply = `{"detail":[{"type":"missing","loc":["body","action"],"msg":"Field required","input":{},"url":"http://x"}]}`
		})},
		{"page for a 422", "maze", check.Fail, "malformed JSON", "an HTML page", invalids(asPage)},
		{"any content type", "maze", check.Warn, "content type", "accepted as JSON", jsonAlways},
		{"create without body", "textcraft", check.Warn, "create without body", "instance was created", bodyAlways},
		{"slashes joined", "maze", check.Warn, "double slash", "status 200", slashesJoined},
		{"page for 404", "maze", check.Warn, "unknown path", "an HTML page", func(next http.Handler) http.Handler {
			return spoiled(next, func(x *exchange) {
				if x.status == 404 {
					asPage(x)
				}
			})
		}},
		{"every path found", "maze", check.Warn, "unknown path", "status 200", func(next http.Handler) http.Handler {
			return spoiled(next, func(x *exchange) {
				if x.status == 404 {
					x.status, x.reply = 200, `{}`
				}
			})
		}},
		{"second close true", "textcraft", check.Fail, "close", "second close: true", replace("/close", "false", "true")},
		{"first close false", "textcraft", check.Fail, "close", "false for an instance in use", replace("/close", "true", "false")},
		{"closed instance still works", "textcraft", check.Fail, "close", "step after close: accepted", instead("/close", closeFirst())},
		{"no close", "textcraft", check.Warn, "close", "status 404", instead("/close", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(404)
			io.WriteString(w, `{"detail":"Not Found"}`)
		})},
		{"greeting of another environment", "maze", check.Warn, "greeting", "Welcome", on("/", func(x *exchange) {
			if x.path == "/" {
				x.reply = `"Welcome"`
			}
		})},
		{"no word list", "wordle", check.Fail, "reset", "status 500", on("/filtered_vocab", func(x *exchange) { x.status, x.reply = 500, "" })},
		{"word list that never shrinks", "wordle", check.Fail, "word list", "still possible", on("/filtered_vocab", func(x *exchange) { x.reply = `["panic","solar"]` })},
		{"connection closed mid-body", "maze", check.Fail, "step", "after 5 of 50 bytes", instead("/step", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "50")
			io.WriteString(w, `{"obs`)
		})},
		{"connection closed without reply", "maze", check.Fail, "step", "before a reply", instead("/step", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })},
		{"not HTTP", "maze", check.Fail, "step", "not an HTTP reply", instead("/step", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			io.WriteString(conn, "hello\r\n\r\n")
			conn.Close()
		})},
		{"endless reply", "maze", check.Fail, "step", "16 MiB", instead("/step", func(w http.ResponseWriter, _ *http.Request) {
			for range 17 {
				w.Write(make([]byte, 1<<20))
			}
		})},
		{"chunked", "maze", check.Warn, "lengths", "had none", instead("/available_actions", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `["move left","move right",`)
			w.(http.Flusher).Flush()
			io.WriteString(w, `"move up","move down"]`)
		})},

		// These defects are in stand-ins.
		{"observation as text", "babyai", check.Fail, "observe", "want {", replace("/observation", `.*"observation":(".*?[^\\\\]").*`, `$1`)},
		{"no score", "babyai", check.Fail, "step", `no key "score"`, replace("/step", `"score":[0-9.]+,`, ``)},
		{"half the score", "babyai", check.Fail, "reward at the goal", "score 0.4, want 0.8875", replace("/step", `"score":0.8875`, `"score":0.4`)},
		{"completed but not done", "babyai", check.Fail, "reward at the goal", "would never end", replace("/step", `"done":true`, `"done":false`)},
		{"endless episode", "sciworld", check.Fail, "end of episode", "not ended after 12 steps", asleep},
		{"no description", "sciworld", check.Fail, "reset", `no key "task_description"`, replace("/reset", `"task_description"`, `"task"`)},
		{"no actions", "alfworld", check.Fail, "step", `no key "available_actions"`, replace("/step", `"available_actions"`, `"actions"`)},
		{"reset as bare text", "webshop", check.Fail, "reset", "want [string, null]", replace("/reset", `^\[(.*),null\]$`, `$1`)},
		{"reset with an object in place of null", "sqlgym", check.Fail, "reset", "want null", replace("/reset", `null\]$`, `{}]`)},
		{"observation instead of state", "webshop", check.Fail, "step", `no key "state"`, replace("/step", `"state"`, `"observation"`)},
		{"id in an object", "sqlgym", check.Fail, "create", "want integer", replace("/create", `(.*)`, `{"id":$1}`)},
		{"unavailable twice", "sqlgym", check.Warn, "step", "status 503", unavailable(2)},
		{"always unavailable", "sqlgym", check.Fail, "step", "status 503", unavailable(1 << 30)},
		{"unavailable twice, but clients do not retry", "weather", check.Fail, "step", "status 503", unavailable(2)},
		{"a second statement", "sqlgym", check.Fail, "end of episode", "would never end", replace("/step", `"done":true`, `"done":false`)},
		{"no reward for the ground truth", "sqlgym", check.Fail, "reward at the goal", "reward 0, want 1", replace("/step", `"step (.*)"reward":1.0`, `"[$1"reward":0`)},
		{"the ninth create returns the first id", "sqlgym", check.Warn, "instance limit", "returned twice", func(next http.Handler) http.Handler { return next }},
		{"one id for all", "sqlgym", check.Fail, "ids", "returned twice", replace("/create", `.*`, `7`)},
		{"create as object", "weather", check.Fail, "create", "want integer", replace("/create", `(.*)`, `{"id":$1}`)},
		{"reset as object", "movie", check.Fail, "reset", "want string", replace("/reset", `(.*)`, `{"observation":$1}`)},
		{"observation of the last step", "weather", check.Fail, "observe", "want", followingSteps()},
		{"another opening", "academia", check.Fail, "first text", "New trial", replace("/reset", `Now new trial starts`, `New trial`)},
		{"finish without end", "todo", check.Fail, "end of episode", "would never end", replace("/step", `"done":true`, `"done":false`)},
		{"half a reward for a list", "todo", check.Fail, "reward at the goal", "reward 0.5, want 1", replace("/step", `"reward":1.0,"done":true`, `"reward":0.5,"done":true`)},
		{"answer without info", "searchqa", check.Fail, "step", `no key "info"`, replace("/step", `,"info":null`, ``)},
		{"no question", "searchqa", check.Fail, "first text", "Answer", replace("/reset", `Question: `, ``)},
		{"the browser's time limit", "webarena", check.Fail, "reset", "TimeoutError", replace("/reset", `"observation":"(.*?[^\\\\])"`, `"observation":"TimeoutError"`)},
		{"done instead of terminated", "webarena", check.Fail, "step", `no key "terminated"`, replace("/step", `"terminated"`, `"done"`)},
		{"500 for an unknown id of gaia", "gaia", check.Fail, "unknown id", "status 500", func(next http.Handler) http.Handler {
			return spoiled(next, func(x *exchange) {
				if x.status == 404 {
					x.status, x.kind, x.reply = 500, "text/plain", "Internal Server Error"
				}
			})
		}},
		{"terminate without end", "gaia", check.Fail, "end of episode", "would never end", replace("/step", `"done":true`, `"done":false`)},

		// These servers give wrong rewards, or are of another environment.
		{"goal without reward", "babyai", check.Fail, "reward at the goal", "reward 0, want 0.8875", scaled(0)},
		{"rewards times 5", "babyai", check.Fail, "reward at the goal", "reward 4.4375, want 0.8875", scaled(5)},
		{"rewards halved", "babyai", check.Fail, "reward at the goal", "want 0.8875", scaled(0.5)},
		{"task index ignored", "babyai", check.Fail, "reward at the goal", "task 130 begins with", sameTask},
		{"task index ignored", "babyai", check.Fail, "task index", "the same replies", sameTask},
		{"task index ignored", "maze", check.Fail, "task index", "the same replies", sameTask},
		{"task index ignored", "textcraft", check.Fail, "task index", "the same replies", sameTask},
		{"task index ignored", "webshop", check.Fail, "task index", "the same replies", sameTask},
		{"replies one step late", "babyai", check.Fail, "reward at the goal", "would never end", lateSteps()},
		{"replies one step late", "maze", check.Fail, "reward at the goal", "would never end", lateSteps()},
		{"replies one step late", "textcraft", check.Fail, "observe", "want", lateSteps()},
		{"replies one step late", "weather", check.Fail, "tools", "lists no tools", lateSteps()},
		{"first text of another goal", "babyai", check.Fail, "reward at the goal", "task 0 begins with", replace("/reset", "red ball", "blue ball")},
		{"other goals", "weather", check.Fail, "reward at the goal", "task 0 begins with", replace("/(reset|observation)", "yesterday", "tomorrow")},
		{"reward for every finish", "weather", check.Fail, "end of episode", "reward 1, want 0", replace("/step", `"reward":[0-9.]+,"done":true`, `"reward":1.0,"done":true`)},
		{"no reward for a right finish", "weather", check.Fail, "reward at the goal", "reward 0, want 1", replace("/step", `"reward":[0-9.]+,"done":true`, `"reward":0.0,"done":true`)},
		{"no reward for a right answer", "movie", check.Fail, "reward at the goal", "reward 0, want 1", replace("/step", `"reward":[0-9.]+,"done":true`, `"reward":0.0,"done":true`)},
		{"no reward for a right answer", "academia", check.Fail, "reward at the goal", "reward 0, want 1", replace("/step", `"reward":[0-9.]+,"done":true`, `"reward":0.0,"done":true`)},
		{"reward for every statement", "sqlgym", check.Fail, "end of episode", "reward 1, want 0", replace("/step", `"reward":[0-9.]+`, `"reward":1.0`)},
		{"reward before the goal", "babyai", check.Fail, "reward at the goal", "before the goal", replace("/step", `"reward":0,"score":0,`, `"reward":0.5,"score":0.5,`)},
		{"reward above the range", "alfworld", check.Fail, "step", "reward 5, want 0 to 1", replace("/step", `"reward":[0-9.]+`, `"reward":5`)},
		{"a tool is missing", "weather", check.Fail, "tools", "get_elevation", replace("/step", `'get_elevation', `, ``)},
		{"only one request per connection", "maze", check.Warn, "keep-alive", "after 1 request", func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "close")
				next.ServeHTTP(w, r)
			})
		}},
	} {
		t.Run(d.name, func(t *testing.T) {
			var good http.Handler
			if known, ok := standins[d.env]; ok {
				good = known.server(t, known.limit).Config.Handler
			} else {
				var err error
				if good, err = builtin.New(d.env, builtin.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			server := httptest.NewServer(d.plant(good))
			defer server.Close()
			report := run(t, check.Options{URL: server.URL, Env: d.env, Limit: d.check == "instance limit"})
			for _, r := range report.Results {
				if r.Check != d.check {
					continue
				}
				if r.Status != d.status || !strings.Contains(r.Came, d.received) {
					t.Errorf("%s: %s: %s; want %s: %s", r.Check, r.Status, r.Came, d.status, d.received)
				}
				if r.Expected == "" || !strings.HasPrefix(r.Protocol, "AgentGym protocol ") || r.Status == check.Warn && r.Reason == "" {
					t.Errorf("incomplete result: %+v", r)
				}
				return
			}
			t.Errorf("no check %q in the report", d.check)
		})
	}
}

// scaled multiplies the rewards and scores of steps.
func scaled(by float64) func(http.Handler) http.Handler {
	number := regexp.MustCompile(`"(reward|score)":([-0-9.]+)`)
	return on("/step", func(x *exchange) {
		x.reply = number.ReplaceAllStringFunc(x.reply, func(m string) string {
			parts := number.FindStringSubmatch(m)
			v, err := strconv.ParseFloat(parts[2], 64)
			if err != nil {
				panic(err)
			}
			return fmt.Sprintf("%q:%g", parts[1], v*by)
		})
	})
}

// sameTask resets to task 0, whatever the index is.
func sameTask(next http.Handler) http.Handler {
	index := regexp.MustCompile(`"(data_idx|game|session_id)":\d+`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(index.ReplaceAll(body, []byte(`"$1":0`))))
		next.ServeHTTP(w, r)
	})
}

// lateSteps delays replies by one step: each step of an instance gets the reply to the previous step, and the first
// step after a reset gets an empty reply.
func lateSteps() func(http.Handler) http.Handler {
	var mu sync.Mutex
	held := map[string]string{}
	id := regexp.MustCompile(`"(?:id|env_idx)":\d+}$`)
	return func(next http.Handler) http.Handler {
		return spoiled(next, func(x *exchange) {
			mu.Lock()
			defer mu.Unlock()
			who := id.FindString(x.body)
			switch {
			case x.status != 200:
			case strings.HasSuffix(x.path, "/reset"):
				delete(held, who)
			case strings.HasSuffix(x.path, "/step"):
				before, ok := held[who]
				if !ok {
					before = `{"observation":"Ready.","reward":0,"score":0,"done":false}`
				}
				held[who], x.reply = x.reply, before
			}
		})
	}
}

// sharedCreates returns the same id to concurrent creates, as a counter without a lock does. Other creates get distinct
// ids.
func sharedCreates(next http.Handler) http.Handler {
	var mu sync.Mutex
	made := 0
	return spoiled(next, func(x *exchange) {
		if strings.HasSuffix(x.path, "/create") && x.status == 200 {
			mu.Lock()
			defer mu.Unlock()
			if made++; made > 2 { // only the third and later creates are concurrent
				x.reply = `{"id":2}`
			}
		}
	})
}

// neighbourReset resets session 0 whenever session 1 is reset.
func neighbourReset(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, r := carry(next, r)
		if strings.HasSuffix(x.path, "/reset") && strings.Contains(x.body, `"id":1}`) {
			other := r.Clone(r.Context())
			other.Body = io.NopCloser(strings.NewReader(`{"game":5,"id":0}`))
			next.ServeHTTP(httptest.NewRecorder(), other)
		}
		w.Header().Set("Content-Type", x.kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(x.reply)))
		w.WriteHeader(x.status)
		io.WriteString(w, x.reply)
	})
}

// mixedWhenBusy redirects a step to session 0 if another step is in progress.
func mixedWhenBusy() func(http.Handler) http.Handler {
	var mu sync.Mutex
	busy := 0
	return func(next http.Handler) http.Handler {
		mixed := asID("/step", func(int) int { return 0 })(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/step") {
				next.ServeHTTP(w, r)
				return
			}
			mu.Lock()
			busy++
			mu.Unlock()
			time.Sleep(2 * time.Millisecond) // gives other steps time to arrive
			mu.Lock()
			h := next
			if busy > 1 {
				h = mixed
			}
			mu.Unlock()
			h.ServeHTTP(w, r)
			mu.Lock()
			busy--
			mu.Unlock()
		})
	}
}

// counted inserts a running number into every observation.
func counted(endpoint string) func(http.Handler) http.Handler {
	var mu sync.Mutex
	n := 0
	return on(endpoint, func(x *exchange) {
		mu.Lock()
		defer mu.Unlock()
		n++
		x.reply = strings.Replace(x.reply, "The goal", strconv.Itoa(n)+". The goal", 1)
	})
}

// stuck refuses every reset after an episode has ended.
func stuck() func(http.Handler) http.Handler {
	var mu sync.Mutex
	over := false
	return func(next http.Handler) http.Handler {
		return spoiled(next, func(x *exchange) {
			mu.Lock()
			defer mu.Unlock()
			over = over || strings.Contains(x.reply, `"done":true`)
			if over && strings.HasSuffix(x.path, "/reset") {
				x.reply = `{"error":"The task with environment 0 has finished."}`
			}
		})
	}
}

// foreign replies with status 500 if the request contains a character that is not ASCII.
func foreign(next http.Handler) http.Handler {
	return spoiled(next, func(x *exchange) {
		for _, b := range []byte(x.body) {
			if b >= 0x80 {
				x.status, x.kind, x.reply = 500, "text/plain", "Internal Server Error"
			}
		}
	})
}

func jsonAlways(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Content-Type", "application/json")
		next.ServeHTTP(w, r)
	})
}

func bodyAlways(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/create") {
			r.Body = io.NopCloser(strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
		}
		next.ServeHTTP(w, r)
	})
}

func slashesJoined(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.ReplaceAll(r.URL.Path, "//", "/")
		next.ServeHTTP(w, r)
	})
}

// closeFirst replies true to the first close, then false, and closes nothing.
func closeFirst() http.HandlerFunc {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		n++
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, strconv.FormatBool(n == 1))
	}
}

// fourGuesses ends a game with the fourth step after a reset.
func fourGuesses() func(http.Handler) http.Handler {
	var mu sync.Mutex
	made := 0
	return func(next http.Handler) http.Handler {
		return spoiled(next, func(x *exchange) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case strings.HasSuffix(x.path, "/reset"):
				made = 0
			case strings.HasSuffix(x.path, "/step"):
				if made++; made == 4 {
					x.reply = strings.Replace(x.reply, `"done":false`, `"done":true`, 1)
				}
			}
		})
	}
}

// unavailable replies to the first steps with status 503 and does not execute them.
func unavailable(times int64) func(http.Handler) http.Handler {
	var n atomic.Int64
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/step" && n.Add(1) <= times {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// followingSteps updates /observation after every step.
func followingSteps() func(http.Handler) http.Handler {
	var mu sync.Mutex
	stepped := false
	return func(next http.Handler) http.Handler {
		return spoiled(next, func(x *exchange) {
			mu.Lock()
			defer mu.Unlock()
			switch x.path {
			case "/reset":
				stepped = false
			case "/step":
				stepped = true
			case "/observation":
				if stepped {
					x.reply = `"Observation: something. Give me one action."`
				}
			}
		})
	}
}

// asleep executes "look" instead of the action "wait".
func asleep(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(`"wait"`), []byte(`"look"`))))
		next.ServeHTTP(w, r)
	})
}

// TestSwappedToolServersAreFound checks every pair of tool servers: Run finds that the server is not the declared one.
func TestSwappedToolServersAreFound(t *testing.T) {
	tools := []string{"weather", "movie", "academia", "todo", "sheet"}
	for _, is := range tools {
		for _, name := range tools {
			if is == name {
				continue
			}
			t.Run(is+" as "+name, func(t *testing.T) {
				report := run(t, check.Options{URL: standins[is].server(t, 0).URL, Env: name})
				if r := find(t, report, "tools"); r.Status != check.Fail || !strings.Contains(r.Came, "belong to "+is) {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// TestUnjudgedRewards checks that the report states the reason if no solution is known.
func TestUnjudgedRewards(t *testing.T) {
	for _, name := range []string{"sciworld", "alfworld", "webshop", "sheet", "searchqa", "webarena", "gaia"} {
		report := run(t, check.Options{URL: standins[name].server(t, 0).URL, Env: name})
		if r := find(t, report, "reward at the goal"); r.Status != check.Skip || !strings.Contains(r.Reason, "not judged") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// No solution is recorded for these tasks.
	report := run(t, check.Options{URL: standins["weather"].server(t, 0).URL, Env: "weather", Tasks: []int{5, 6}})
	if r := find(t, report, "reward at the goal"); r.Status != check.Skip || !strings.Contains(r.Reason, "tasks [0 1]") {
		t.Errorf("%+v", r)
	}
}
