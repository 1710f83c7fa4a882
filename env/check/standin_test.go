package check_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/check"
)

// standin is a server with the replies of the protocol's transcripts, for an environment without a built-in server. It
// keeps a task and a number of steps for each instance and includes both in its texts, so that a test detects instances
// that are mixed up.
type standin struct {
	greeting string
	needs    bool                  // create requires a body
	created  func(id int) string   // the reply to create
	id       func(n int) string    // the nth id as JSON; nil: n
	idKey    string                // key of the id in requests
	taskKey  string                // key of the task in a reset
	tasks    int                   // number of tasks; 0: any index is a task
	first    func(task int) string // the first text of a task
	reset    func(id string, text string) string
	step     func(text string, reward string, done bool) string
	observe  func(first, last string) string // the reply to GET /observation as JSON
	done     func(action string, steps int) bool
	reward   func(action string) string // reward of an action that ends the episode; nil: "1.0"
	recorded string                     // the environment whose recording the server replays; "": none
	finished bool                       // whether the server refuses a step after the end
	unknown  func(w http.ResponseWriter, id string)
	// close returns the reply to close number n of an instance. "" stands for a missing endpoint, "500" for status 500.
	close func(n int) string
	html  bool // whether errors are HTML pages
	more  func(w http.ResponseWriter, r *http.Request) bool
}

// recording contains the replies of AgentGym's own server of an environment; see recorded/record.py.
type recording struct {
	Tools string
	Tasks map[int]struct {
		Reset json.RawMessage
		Steps []struct {
			Action string
			Reply  json.RawMessage
		}
	}
}

// recordings reads recorded/solutions.json.
func recordings(t *testing.T) map[string]recording {
	t.Helper()
	b, err := os.ReadFile("recorded/solutions.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]recording
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// texts decodes a recorded reply, which is a text or an object with a text.
func texts(raw json.RawMessage) (text string, done bool) {
	var o struct {
		Observation string
		Done        bool
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, false
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		panic(err)
	}
	return o.Observation, o.Done
}

// compact returns JSON on one line, as servers send it.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		panic(err)
	}
	return b.String()
}

// seat is the state of an instance.
type seat struct {
	task, steps int
	solved      int // number of recorded actions played so far; -1: another action was played
	first, last string
	over        bool
	closed      int
}

// server starts a stand-in. If limit > 0, ids repeat after limit creates.
func (d standin) server(t *testing.T, limit int) *httptest.Server {
	t.Helper()
	var mu sync.Mutex
	made := 0
	seats := map[string]*seat{}
	rec := recordings(t)[d.recorded]
	say := func(w http.ResponseWriter, status int, body string) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
	refuse := func(w http.ResponseWriter, where, kind string) {
		say(w, 422, `{"detail":[{"type":"`+kind+`","loc":["`+where+`"],"msg":"no","input":null}]}`)
	}
	id := func(n int) string {
		if limit > 0 {
			n %= limit
		}
		if d.id != nil {
			return d.id(n)
		}
		return strconv.Itoa(n)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		path := r.Method + " " + r.URL.Path
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		var body map[string]any
		parsed := json.Unmarshal(raw, &body)
		has := func(keys ...string) bool {
			if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
				refuse(w, "body", "model_attributes_type")
				return false
			}
			if parsed != nil {
				refuse(w, "body", "json_invalid")
				return false
			}
			for _, k := range keys {
				_, number := body[k].(float64)
				_, word := body[k].(string)
				if k == "action" && !word || k == d.idKey && d.id == nil && !number || k == d.idKey && d.id != nil && !word || k == d.taskKey && !number {
					refuse(w, k, "missing")
					return false
				}
			}
			return true
		}
		named := func(name string) *seat {
			s := seats[name]
			if s == nil || s.closed > 0 {
				d.unknown(w, name)
				return nil
			}
			return s
		}
		idOf := func() string {
			b, err := json.Marshal(body[d.idKey])
			if err != nil {
				panic(err)
			}
			return string(b)
		}
		switch path {
		case "GET /":
			say(w, 200, d.greeting)
		case "POST /create":
			if d.needs && !has() {
				return
			}
			name := id(made)
			seats[name] = &seat{}
			var n int
			if limit > 0 {
				n = made % limit
			} else {
				n = made
			}
			made++
			say(w, 200, d.created(n))
		case "POST /reset":
			if !has(d.idKey, d.taskKey) {
				return
			}
			s := named(idOf())
			if s == nil {
				return
			}
			task := int(body[d.taskKey].(float64))
			if d.tasks > 0 && task >= d.tasks {
				d.unknown(w, "task")
				return
			}
			*s = seat{task: task, first: d.first(task)}
			reply := d.reset(idOf(), s.first)
			if known, ok := rec.Tasks[task]; ok {
				reply = compact(known.Reset)
				s.first, _ = texts(known.Reset)
			}
			s.last = s.first
			say(w, 200, reply)
		case "POST /step":
			if !has(d.idKey, "action") {
				return
			}
			s := named(idOf())
			if s == nil {
				return
			}
			if s.over && d.finished {
				say(w, 200, `{"error":"The task with environment `+idOf()+` has finished."}`)
				return
			}
			s.steps++
			action := body["action"].(string)
			if steps := rec.Tasks[s.task].Steps; s.solved >= 0 && s.solved < len(steps) && steps[s.solved].Action == action {
				reply := steps[s.solved].Reply
				s.solved++
				s.last, s.over = texts(reply)
				say(w, 200, compact(reply))
				return
			}
			s.solved = -1
			s.last = fmt.Sprintf("step %d of task %d", s.steps, s.task)
			if rec.Tools != "" && strings.Contains(action, "check_valid_actions") {
				s.last = rec.Tools
			}
			s.over = d.done(action, s.steps)
			reward := "0"
			if s.over {
				reward = "1.0"
			}
			if s.over && d.reward != nil {
				reward = d.reward(action)
			}
			say(w, 200, d.step(s.last, reward, s.over))
		case "GET /observation":
			if !r.URL.Query().Has(d.idKey) {
				refuse(w, "query", "missing")
				return
			}
			name := r.URL.Query().Get(d.idKey)
			if d.id != nil {
				name = strconv.Quote(name)
			}
			s := named(name)
			if s == nil {
				return
			}
			if s.over && d.finished {
				say(w, 200, `{"error":"The task with environment `+name+` has finished."}`)
				return
			}
			say(w, 200, d.observe(s.first, s.last))
		case "POST /close":
			if d.close(0) == "" {
				say(w, 404, `{"detail":"Not Found"}`)
				return
			}
			s := seats[idOf()]
			s.closed++
			if answer := d.close(s.closed); answer == "500" {
				fail500(w, "")
			} else {
				say(w, 200, answer)
			}
		default:
			switch {
			case d.more != nil && d.more(w, r):
			case slices.Contains([]string{"GET /create", "GET /reset", "GET /step"}, path):
				say(w, 405, `{"detail":"Method Not Allowed"}`)
			case d.html:
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(404)
				io.WriteString(w, page)
			default:
				say(w, 404, `{"detail":"Not Found"}`)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// The following functions reply to unknown ids or tasks.

func fail500(w http.ResponseWriter, _ string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", "21")
	w.WriteHeader(500)
	io.WriteString(w, "Internal Server Error")
}

func failObject(w http.ResponseWriter, id string) {
	body := `{"error":"The id ` + strings.Trim(id, `"`) + ` is not valid."}`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	io.WriteString(w, body)
}

func failDetail(w http.ResponseWriter, _ string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(404)
	io.WriteString(w, `{"detail":"Environment with ID x does not exist"}`)
}

// The following functions return successful replies.

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func bareID(n int) string   { return strconv.Itoa(n) }
func objectID(n int) string { return fmt.Sprintf(`{"id":%d}`, n) }

func noClose(int) string { return "" }

func trueThenFalse(n int) string { return strconv.FormatBool(n < 2) }

func never(string, int) bool { return false }

func about(words string) func(int) string {
	return func(task int) string { return strings.ReplaceAll(words, "#", strconv.Itoa(task)) }
}

func toolStep(text, reward string, done bool) string {
	return fmt.Sprintf(`{"observation":%s,"reward":%s,"done":%t}`, quoted(text), reward, done)
}

func scoreStep(text, reward string, done bool) string {
	return fmt.Sprintf(`{"observation":%s,"reward":%s,"score":%s,"done":%t}`, quoted(text), reward, reward, done)
}

func stateStep(info string) func(text, reward string, done bool) string {
	return func(text, reward string, done bool) string {
		return fmt.Sprintf(`{"state":%s,"reward":%s,"done":%t,"info":%s}`, quoted(text), reward, done, info)
	}
}

func pair(_, text string) string { return "[" + quoted(text) + ",null]" }
func bare(_, text string) string { return quoted(text) }

func sayFirst(first, _ string) string { return quoted(first) }
func sayLast(_, last string) string   { return quoted(last) }

// toolStandin returns a tool server that rewards only the recorded answer of a task.
func toolStandin(name string) standin {
	return standin{
		recorded: name, reward: func(string) string { return "0.0" },
		greeting: `"ok"`, needs: true, created: bareID, idKey: "env_idx", taskKey: "id", tasks: 343,
		first: about("Now new trial starts.\nYou should perform actions to accomplish the goal: number #\nGive me one action."),
		reset: bare, step: toolStep, observe: sayFirst, done: func(a string, _ int) bool { return strings.Contains(a, "finish") },
		unknown: fail500, close: noClose,
	}
}

// alone lists the checks that are skipped on a server for one instance.
var alone = []string{"ids", "two sessions", "many at once"}

// goal is the check that is skipped in environments without a known solution.
const goal = "reward at the goal"

// standins maps an environment to its stand-in and to the checks that must warn or be skipped, as with AgentGym's own
// servers.
var standins = map[string]struct {
	standin
	limit int
	warns []string
	skips []string
}{
	"babyai": {standin: standin{
		recorded: "babyai",
		greeting: `"This is environment BabyAI."`, created: objectID, idKey: "id", taskKey: "data_idx",
		first: about("Your goal: go to the red ball\nYou see task #.\nAvailable actions: [\"turn left\", \"go to red ball 1\"]"),
		reset: func(_, text string) string {
			return `{"observation":` + quoted(text) + `,"reward":0,"score":0,"deleted":false,"done":false}`
		},
		step: scoreStep,
		observe: func(_, last string) string {
			return `{"observation":` + quoted(last) + `,"reward":0,"score":0,"done":false,"deleted":false}`
		},
		done:     func(a string, _ int) bool { return a == "go to red ball 1" },
		finished: true, unknown: failObject, close: trueThenFalse,
	}},
	"sciworld": {standin: standin{
		greeting: `"This is environment ScienceWorld."`, created: objectID, idKey: "id", taskKey: "data_idx", tasks: 4639,
		first: about("#"),
		reset: func(_, text string) string {
			return `{"task_name":"boil","var_num":30,"task_description":"Your task is to boil ` + text + `.","observation":` + quoted(text) + `,"reward":0,"score":0,"deleted":false,"done":false}`
		},
		step: scoreStep, observe: sayLast, done: func(a string, n int) bool { return a == "wait" && n >= 10 },
		finished: true, unknown: failObject, close: func(n int) string {
			if n < 2 {
				return "true"
			}
			return "500"
		},
	}, warns: []string{"close"}, skips: []string{goal}},
	"alfworld": {standin: standin{
		greeting: `"This is environment AlfWorld."`, created: objectID, idKey: "id", taskKey: "game", tasks: 2620,
		first: about("You are in the middle of a room. You see #.\nYour task is to: look."),
		reset: func(id, text string) string {
			return `{"id":` + id + `,"observation":` + quoted(text) + `,"available_actions":["go to bed 1","look"],"task_type":"look/trial"}`
		},
		step: func(text, reward string, done bool) string {
			return fmt.Sprintf(`{"observation":%s,"reward":%s,"available_actions":["look"],"done":%t}`, quoted(text), reward, done)
		},
		observe: sayLast, done: never, finished: true, unknown: failObject, close: noClose,
	}, warns: []string{"close"}, skips: []string{goal}},
	"webshop": {standin: standin{
		greeting: `"ok"`, created: bareID, idKey: "env_idx", taskKey: "session_id", tasks: 6910,
		first: about("WebShop [SEP] Instruction: [SEP] Find me # B012345678 [SEP] Search"),
		reset: pair, step: stateStep("null"), observe: sayLast,
		done:    func(a string, _ int) bool { return a == "click[buy now]" },
		unknown: fail500, close: noClose,
		more: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/available_actions" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "44")
			io.WriteString(w, `{"has_search_bar":true,"clickables":["buy"]}`)
			return true
		},
	}, warns: []string{"close", "unknown id", "task out of range"}, skips: []string{"end of episode", "step after done", "reset after done", goal}},
	"sqlgym": {standin: standin{
		greeting: `"ok"`, created: bareID, idKey: "env_idx", taskKey: "item_id", tasks: 10962,
		first: about("shop contains tables such as item. Table item has columns such as id.\n\nWhat is #?"),
		reset: pair, step: stateStep(`{"ground_truth":"SELECT 1"}`), observe: sayFirst,
		done: func(string, int) bool { return true }, unknown: fail500, close: noClose,
		reward: func(action string) string {
			if action == "SELECT 1" {
				return "1.0"
			}
			return "0.0"
		},
	}, limit: 8, warns: []string{"close", "unknown id", "task out of range"}, skips: []string{"instance limit"}},
	"weather":  {standin: toolStandin("weather"), warns: []string{"close", "unknown id", "task out of range"}},
	"movie":    {standin: toolStandin("movie"), warns: []string{"close", "unknown id", "task out of range"}},
	"academia": {standin: toolStandin("academia"), warns: []string{"close", "unknown id", "task out of range"}},
	"todo":     {standin: toolStandin("todo"), warns: []string{"close", "unknown id", "task out of range"}, skips: alone},
	"sheet":    {standin: toolStandin("sheet"), warns: []string{"close", "unknown id", "task out of range"}, skips: append([]string{goal}, alone...)},
	"searchqa": {standin: standin{
		greeting: `"ok"`, needs: true, created: bareID, idKey: "env_idx", taskKey: "id", tasks: 221328,
		first: about("Answer the question.\nQuestion: what is #?"), reset: bare,
		step: func(text, reward string, done bool) string {
			return fmt.Sprintf(`{"observation":%s,"reward":%s,"done":%t,"info":null}`, quoted(text), reward, done)
		},
		observe: sayFirst, done: never, unknown: fail500, close: trueThenFalse,
	}, warns: []string{"unknown id", "task out of range", "close"}, skips: []string{goal}},
	"webarena": {standin: standin{
		greeting: "ok", created: func(n int) string { return fmt.Sprintf(`{"env_idx":%d}`, n) }, idKey: "env_idx", taskKey: "idx",
		first: about("OBSERVATION:\n[#] RootWebArea\nURL: http://luma.com/\nOBJECTIVE: tell me\nPREVIOUS ACTION: None"),
		reset: func(_, text string) string {
			return `{"object":"tell me","observation":` + quoted(text) + `,"sites":["shopping"]}`
		},
		step: func(text, reward string, done bool) string {
			return fmt.Sprintf(`{"info":{"page":{}},"observation":%s,"reward":1.0,"terminated":%t,"truncated":false}`, quoted(text), done)
		},
		observe: sayLast, done: never, html: true,
		unknown: func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(500)
			io.WriteString(w, page)
		},
		close: func(int) string { return `{"closed":"closed"}` },
	}, warns: []string{"unknown id", "unknown path", "slash at the end", "double slash", "close"}, skips: []string{goal}},
	"gaia": {standin: standin{
		greeting: `{"status":"ok"}`, needs: true, created: func(n int) string { return uuid(n) }, id: uuid, idKey: "env_idx", taskKey: "id",
		first: about("New task starts.\n\nQuestion: #?\nGive me one action."), reset: bare,
		step: func(text, reward string, done bool) string {
			return fmt.Sprintf(`{"observation":%s,"reward":%s,"done":%t,"info":{"steps_taken":1}}`, quoted(text), reward, done)
		},
		observe: sayFirst, done: func(a string, _ int) bool { return strings.HasPrefix(a, "Action: terminate") },
		unknown: failDetail, close: noClose,
	}, warns: []string{"close"}, skips: []string{goal}},
}

func uuid(n int) string { return fmt.Sprintf(`"%08d-1111-4222-8333-444455556666"`, n) }

// TestEveryEnvironment checks that a server with the protocol's shapes passes every check of its environment, and that
// known defects of AgentGym's servers are warnings.
func TestEveryEnvironment(t *testing.T) {
	for _, name := range check.Names() {
		if slices.Contains([]string{"maze", "textcraft", "wordle", env.KindAgentGym}, name) {
			continue // TestBuiltinServers, TestOwnServer
		}
		t.Run(name, func(t *testing.T) {
			d, ok := standins[name]
			if !ok {
				t.Fatal("no stand-in")
			}
			report := run(t, check.Options{URL: d.server(t, d.limit).URL, Env: name})
			none(t, report, check.Fail)
			none(t, report, check.Warn, d.warns...)
			none(t, report, check.Skip, d.skips...)
		})
	}
	if n := len(check.Names()); n != 17 {
		t.Errorf("%d environments, want AgentGym's fifteen, gaia and servers of one's own", n)
	}
}
