package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
)

// AnyName, as a name of the model, makes the server accept every name.
const AnyName = "*"

// Options configure a Handler.
type Options struct {
	Engine    engine.Engine
	Renderer  *chat.Renderer
	Tokenizer *tokenizer.Tokenizer
	// Version returns the version of the weights for system_fingerprint. nil: always 0.
	Version func() int64

	Names      []string      // names of the model; the first is listed. AnyName accepts every name.
	MaxContext int           // tokens of prompt and reply
	Concurrent int           // replies generated at once
	Queue      int           // requests that wait for their turn
	MaxBody    int64         // bytes of a request's body; 0 means DefaultMaxBody
	Timeout    time.Duration // time of a request, with its wait; 0 means no limit
	APIKey     string        // key that requests must have; "": none
	Sessions   Sessions      // answers requests with a session; nil: they are refused
	Log        *slog.Logger  // nil: no log
}

// DefaultMaxBody is the default of Options.MaxBody.
const DefaultMaxBody = 8 << 20

// Headers of requests.
const (
	SessionHeader = "X-Session-Id"
	TaskHeader    = "X-Task-Id"
)

// Handler answers the requests of the API.
type Handler struct {
	o       Options
	mux     *http.ServeMux
	key     [sha256.Size]byte
	places  *semaphore.Weighted   // a place for each reply
	waiting atomic.Int64          // requests that wait for places
	ending  atomic.Pointer[Error] // answer to new requests; nil: they are taken
	began   time.Time
	counts  counts
}

// New returns a Handler.
func New(o Options) (*Handler, error) {
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Version == nil {
		o.Version = func() int64 { return 0 }
	}
	var errs []error
	for name, n := range map[string]int{"the context": o.MaxContext, "the number of concurrent replies": o.Concurrent, "the length of the queue": o.Queue + 1} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%s is too small", name))
		}
	}
	if len(o.Names) == 0 || o.Names[0] == AnyName {
		errs = append(errs, errors.New("the first name of the model must be a name"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	h := &Handler{o: o, mux: http.NewServeMux(), key: sha256.Sum256([]byte(o.APIKey)), places: semaphore.NewWeighted(int64(o.Concurrent)), began: time.Now()}
	h.mux.HandleFunc("GET /health", h.health)
	h.Handle("GET /v1/models", h.models)
	h.Handle("GET /v1/models/{name...}", h.model)
	h.Handle("POST /v1/chat/completions", h.chatCompletions)
	h.Handle("POST /v1/completions", h.completions)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		message := fmt.Sprintf("%s %s: the server has no such endpoint", r.Method, r.URL.Path)
		if !strings.HasPrefix(r.URL.Path, "/v1/") {
			message += fmt.Sprintf("; its endpoints begin with /v1, so the base_url of a client is http://%s/v1", r.Host)
		}
		(&Error{Status: http.StatusNotFound, Type: invalidRequest, Message: message}).write(w)
	})
	return h, nil
}

// Handle adds an endpoint, which needs the API key. The error of f is sent to the client,
// unless f has begun its reply.
func (h *Handler) Handle(pattern string, f func(w http.ResponseWriter, r *http.Request) error) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := h.admit(w, r)
		if err == nil {
			err = f(w, r)
		}
		if err == nil {
			return
		}
		if errors.Is(err, errLeft) || context.Cause(r.Context()) == context.Canceled {
			h.counts.left.Add(1)
			return
		}
		e := asError(err)
		if e.Status >= http.StatusInternalServerError && e.Status != http.StatusServiceUnavailable { // 503: the server ends, or a step is complete
			h.o.Log.Warn("request failed", "path", r.URL.Path, "status", e.Status, "error", e.Message)
		} else {
			h.o.Log.Debug("request refused", "path", r.URL.Path, "status", e.Status, "error", e.Message)
		}
		h.counts.failed.Add(1)
		e.write(w)
	})
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A connection keeps the deadline of its last reply. A writer without deadlines needs no reset.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	h.mux.ServeHTTP(w, r)
}

// End makes the handler refuse new requests with e. Requests that have begun go on. A second
// call has no effect.
func (h *Handler) End(e *Error) { h.ending.CompareAndSwap(nil, e) }

// admit checks the key of a request.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) error {
	if h.o.APIKey != "" {
		key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		given := sha256.Sum256([]byte(key))
		if subtle.ConstantTimeCompare(given[:], h.key[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			return &Error{Status: http.StatusUnauthorized, Type: invalidRequest, Code: "invalid_api_key",
				Message: "the API key is missing or wrong; send it as Authorization: Bearer KEY"}
		}
	}
	if e := h.ending.Load(); e != nil {
		w.Header().Set("Connection", "close")
		return e
	}
	return nil
}

// health reports whether the server takes requests.
func (h *Handler) health(w http.ResponseWriter, _ *http.Request) {
	if h.ending.Load() != nil {
		WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "ending"})
		return
	}
	WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// listed is the form of a model in the list of models.
type listed struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Length  int    `json:"max_model_len"` // as in vLLM
}

func (h *Handler) listed() []listed {
	var list []listed
	for _, name := range h.o.Names {
		if name != AnyName {
			list = append(list, listed{ID: name, Object: "model", Created: h.began.Unix(), OwnedBy: "openmanus", Length: h.o.MaxContext})
		}
	}
	return list
}

func (h *Handler) models(w http.ResponseWriter, _ *http.Request) error {
	WriteJSON(w, http.StatusOK, struct {
		Object string   `json:"object"`
		Data   []listed `json:"data"`
	}{"list", h.listed()})
	return nil
}

func (h *Handler) model(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	for _, m := range h.listed() {
		if m.ID == name {
			WriteJSON(w, http.StatusOK, m)
			return nil
		}
	}
	return h.unknownModel(name)
}

func (h *Handler) unknownModel(name string) error {
	return &Error{Status: http.StatusNotFound, Type: invalidRequest, Code: "model_not_found", Param: "model",
		Message: fmt.Sprintf("the model %q is not served here; the server has %s", name, strings.Join(h.o.Names, ", "))}
}

// body reads the body of a request.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	// A page in a browser can send other types to this address without asking the server.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Type: invalidRequest,
			Message: "the Content-Type must be application/json"}
	}
	c := http.NewResponseController(w)
	// A writer without deadlines, as in tests, has no slow clients. The deadline is removed
	// after the body, because the server goes on reading to see whether the client leaves.
	_ = c.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Type: invalidRequest,
			Message: fmt.Sprintf("the body has more than %d bytes", h.o.MaxBody)}
	}
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, Type: invalidRequest, Message: "read the body: " + err.Error()}
	}
	return body, nil
}

// bodyTimeout bounds the time in which a client sends the body of a request.
const bodyTimeout = 60 * time.Second

// check completes a request with the headers, and checks it against the options.
func (h *Handler) check(r *request, header http.Header) error {
	if r.model != "" && !slices.Contains(h.o.Names, r.model) && !slices.Contains(h.o.Names, AnyName) {
		return h.unknownModel(r.model)
	}
	r.session, r.task = header.Get(SessionHeader), header.Get(TaskHeader)
	if r.session == "" {
		if r.task != "" {
			return Invalid(TaskHeader, "the header %s needs %s", TaskHeader, SessionHeader)
		}
		return nil
	}
	if h.o.Sessions == nil {
		return Invalid(SessionHeader, "the server records no sessions: remove the header %s, or use openmanus train --serve", SessionHeader)
	}
	for name, value := range map[string]string{SessionHeader: r.session, TaskHeader: r.task} {
		if len(value) > maxID || strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c > '~' || c == '/' }) {
			return Invalid(name, "the header %s is %.60q, want at most %d characters of ASCII without blanks and slashes", name, value, maxID)
		}
	}
	return nil
}

// maxID bounds the length of ids of sessions and tasks.
const maxID = 200

// enter waits for the places of n replies. The caller calls leave when they have ended.
func (h *Handler) enter(ctx context.Context, n int) (leave func(), err error) {
	if n > h.o.Concurrent {
		return nil, Invalid("n", "the request asks for %d replies, the server generates %d at once", n, h.o.Concurrent)
	}
	leave = func() { h.places.Release(int64(n)) }
	if h.places.TryAcquire(int64(n)) {
		return leave, nil
	}
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > int64(h.o.Queue) {
		return nil, &Error{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Code: "rate_limit_exceeded", RetryAfter: time.Second,
			Message: fmt.Sprintf("%d replies are being generated and %d requests wait; send the request again later", h.o.Concurrent, h.o.Queue)}
	}
	if err := h.places.Acquire(ctx, int64(n)); err != nil {
		return nil, timedOut(ctx)
	}
	return leave, nil
}

// errLeft is the error of a reply that cannot be continued: the client has left, or it has
// received an error within a stream.
var errLeft = errors.New("the reply was broken off")

// errTimeout is the cause of the end of a request's context after Options.Timeout.
var errTimeout = &Error{Status: http.StatusGatewayTimeout, Type: serverError, Code: "timeout", Message: "the time limit of requests was reached"}

// timedOut returns the error of a request whose context has ended.
func timedOut(ctx context.Context) error {
	if e, ok := errors.AsType[*Error](context.Cause(ctx)); ok {
		return e
	}
	return Unavailable(5*time.Second, "the request was cancelled: %v", context.Cause(ctx))
}

// limited returns ctx with the time limit of requests.
func (h *Handler) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.o.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, h.o.Timeout, errTimeout)
}

// randomSeed returns the seed of a request without one.
func randomSeed() uint64 { return rand.Uint64() }

// WriteJSON sends v as the whole reply.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // every reply can be encoded; a NaN among the log-probs cannot
		status = http.StatusInternalServerError
		b = []byte(`{"error":{"message":"the reply cannot be encoded","type":"server_error","param":null,"code":null}}`)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client may have left
}

// writeTimeout bounds the time in which a client takes a reply or a part of a stream.
const writeTimeout = 30 * time.Second
