package track

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/data/registry"
)

// Metrics are sent to MLflow's REST API 2.0 (mlflow.org/docs/latest/api_reference/rest-api.html): experiments/get-by-name
// and create, runs/get, create, log-batch and update. metrics.jsonl is the queue: a goroutine sends the lines after
// mlflowState.Offset, so a server that is down costs training neither time nor memory, and a later process
// sends the rest.

func init() {
	Sinks.Add(registry.Entry{Name: "mlflow", Doc: "a run on the MLflow server of MLFLOW_TRACKING_URI"}, openMLflow)
}

// Bounds of the API and of waiting.
const (
	maxMetrics   = 1000 // in a request
	maxParams    = 100  // in a request
	maxParamSize = 6000 // bytes of a value
	maxReply     = 1 << 20

	requestTimeout = 10 * time.Second
	flushTimeout   = 10 * time.Second // of the rest when training ends
	firstPause     = time.Second / 2  // after a failure; doubled after each further failure
	longestPause   = time.Minute
	strictTries    = 3 // of a strict sink, after which Close returns the error
)

// mlflowState is the content of the run folder's mlflow.json.
type mlflowState struct {
	URI        string `json:"tracking_uri"`
	Experiment string `json:"experiment_id"`
	RunID      string `json:"run_id"`
	Offset     int64  `json:"offset"` // number of bytes of metrics.jsonl that were sent
	Params     bool   `json:"params"` // whether the settings were sent
}

// mlflow sends lines to a server.
type mlflow struct {
	run      Run
	path     string // of mlflow.json
	state    mlflowState
	client   *http.Client
	running  bool // the server was told that the run goes on
	warned   bool
	wake     chan struct{} // a line was written
	closing  chan struct{}
	ended    chan error // result of the goroutine
	finished bool       // Close was called
}

func openMLflow(ctx context.Context, r Run) (Sink, error) {
	uri := strings.TrimRight(r.Getenv("MLFLOW_TRACKING_URI"), "/")
	if u, err := url.Parse(uri); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("MLFLOW_TRACKING_URI is %q: set it to the http:// or https:// address of an MLflow server", uri)
	}
	s := &mlflow{
		run: r, path: filepath.Join(r.Folder, "mlflow.json"), client: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()},
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan error, 1),
	}
	if _, err := r.settings(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(s.path)
	if err == nil {
		err = json.Unmarshal(text, &s.state)
	}
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("read mlflow.json: %w", err)
	}
	if s.state.URI != uri {
		s.state = mlflowState{URI: uri}
	}
	info, err := os.Stat(r.Metrics)
	if err != nil {
		return nil, err
	}
	s.state.Offset = min(s.state.Offset, info.Size()) // a resumed run has removed lines
	go func() { s.ended <- s.work(ctx) }()
	return s, nil
}

// Write tells the goroutine that metrics.jsonl has a new line.
func (s *mlflow) Write(Line) error {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// Close sends the lines that are not sent yet. If the sink is not strict, it gives up after flushTimeout or the first failure.
func (s *mlflow) Close() error {
	if s.finished {
		return nil
	}
	s.finished = true
	close(s.closing)
	err := <-s.ended
	s.client.CloseIdleConnections()
	if err == nil || s.run.Strict {
		return err
	}
	s.run.Log.Warn("MLflow lacks the latest metrics: when the server answers, send them with openmanus export --to mlflow",
		"folder", s.run.Folder, "uri", s.state.URI, "error", err)
	return nil
}

// work sends lines until Close is called, and then the rest.
func (s *mlflow) work(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pause, tries := firstPause, 0
	var limit <-chan time.Time
	closing := s.closing
	begin := func() { // Close was called
		closing = nil
		if !s.run.Strict {
			timer := time.AfterFunc(flushTimeout, stop)
			context.AfterFunc(ctx, func() { timer.Stop() })
		}
	}
	for {
		select {
		case <-closing:
			begin()
		default:
		}
		err := s.send(ctx)
		if err == nil && closing == nil {
			err = s.end(ctx)
		}
		switch {
		case err == nil && closing == nil:
			return nil
		case err == nil:
			pause, tries, limit = firstPause, 0, nil
		default:
			if tries++; ctx.Err() != nil || closing == nil && (tries >= strictTries || !s.run.Strict) {
				return err
			}
			if !s.warned && !s.run.Strict {
				s.warned = true
				s.run.Log.Warn("metrics were not sent to MLflow: training goes on, and they are sent when the server answers", "uri", s.state.URI, "error", err)
			}
			limit = time.After(pause)
			pause = min(2*pause, longestPause)
		}
		wake := s.wake
		if limit != nil {
			wake = nil // wait for the end of the pause
		}
		select {
		case <-wake:
		case <-limit:
		case <-closing:
			begin()
		case <-ctx.Done():
			return cmp.Or(err, ctx.Err())
		}
	}
}

// send sends the complete lines of metrics.jsonl after the offset.
func (s *mlflow) send(ctx context.Context) error {
	f, err := os.Open(s.run.Metrics)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, s.state.Offset, math.MaxInt64-s.state.Offset))
	if err != nil {
		return err
	}
	var batch []metricEntry
	sent := s.state.Offset
	flush := func() error {
		var start int64
		if len(batch) > 0 {
			start = batch[0].Timestamp
		} else if s.state.RunID == "" || s.run.Strict { // only a run that trains on is shown as running without a new line
			return nil
		}
		if err := s.begin(ctx, start); err != nil {
			return err
		}
		for part := range slices.Chunk(batch, maxMetrics) {
			if err := s.call(ctx, "runs/log-batch", map[string]any{"run_id": s.state.RunID, "metrics": part}, nil); err != nil {
				return err
			}
		}
		batch, s.state.Offset = nil, sent
		return s.save()
	}
	for {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		if !complete {
			return flush()
		}
		l, err := decode(line)
		if err != nil {
			return fmt.Errorf("read metrics %s after byte %d: %w", s.run.Metrics, sent, err)
		}
		if len(batch) > 0 && len(batch)+len(l.Metrics) > maxMetrics {
			if err := flush(); err != nil {
				return err
			}
		}
		batch = append(batch, entriesOf(l)...)
		sent += int64(len(line)) + 1
		text = rest
	}
}

// metricEntry is a value in a request.
type metricEntry struct {
	Key       string `json:"key"`
	Value     any    `json:"value"` // number, or "NaN"
	Timestamp int64  `json:"timestamp"`
	Step      int    `json:"step"`
}

// otherCharacters matches the characters that MLflow does not allow in names.
var otherCharacters = regexp.MustCompile(`[^\w\-. :/]`)

func entriesOf(l Line) []metricEntry {
	var at int64
	if !l.Time.IsZero() {
		at = l.Time.UnixMilli()
	}
	var out []metricEntry
	for _, name := range l.names() {
		var value any = l.Metrics[name]
		if math.IsNaN(l.Metrics[name]) {
			value = "NaN"
		}
		out = append(out, metricEntry{otherCharacters.ReplaceAllString(l.Name(name), "_"), value, at, l.Step})
	}
	return out
}

// begin creates the run on the server, or continues it.
func (s *mlflow) begin(ctx context.Context, start int64) error {
	if s.running {
		return nil
	}
	if s.state.RunID != "" {
		if err := s.update(ctx, map[string]any{"status": "RUNNING"}); err != nil {
			return err
		}
	} else if err := s.create(ctx, start); err != nil {
		return err
	}
	if !s.state.Params {
		if err := s.sendParams(ctx); err != nil {
			return err
		}
		s.state.Params = true
	}
	s.running = true
	return s.save()
}

func (s *mlflow) create(ctx context.Context, start int64) error {
	var experiment struct {
		ID         string `json:"experiment_id"` // reply of create
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"` // reply of get-by-name
	}
	settings, err := s.run.settings()
	if err != nil {
		return err
	}
	name := cmp.Or(s.run.Getenv("MLFLOW_EXPERIMENT_NAME"), project(settings))
	err = s.call(ctx, "experiments/get-by-name?experiment_name="+url.QueryEscape(name), nil, &experiment)
	if e := (*replyError)(nil); errors.As(err, &e) && e.Code == "RESOURCE_DOES_NOT_EXIST" {
		err = s.call(ctx, "experiments/create", map[string]any{"name": name}, &experiment)
	}
	if err != nil {
		return err
	}
	s.state.Experiment = cmp.Or(experiment.ID, experiment.Experiment.ID)
	var made struct {
		Run struct {
			Info struct {
				ID string `json:"run_id"`
			} `json:"info"`
		} `json:"run"`
	}
	err = s.call(ctx, "runs/create", map[string]any{
		"experiment_id": s.state.Experiment, "run_name": s.run.Name, "start_time": start,
		"tags": []map[string]string{{"key": "mlflow.source.name", "value": "openmanus"}},
	}, &made)
	if err != nil {
		return err
	}
	if s.state.RunID = made.Run.Info.ID; s.state.RunID == "" {
		return errors.New("the reply to runs/create has no run_id: MLFLOW_TRACKING_URI must be the address of an MLflow server")
	}
	return s.save()
}

// sendParams sends the settings of the run.
func (s *mlflow) sendParams(ctx context.Context) error {
	settings, err := s.run.settings()
	if err != nil {
		return err
	}
	var params []map[string]string
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		value := fmt.Sprint(settings[key])
		value = strings.ToValidUTF8(value[:min(len(value), maxParamSize)], "")
		params = append(params, map[string]string{"key": otherCharacters.ReplaceAllString(key, "_"), "value": value})
	}
	for part := range slices.Chunk(params, maxParams) {
		if err := s.call(ctx, "runs/log-batch", map[string]any{"run_id": s.state.RunID, "params": part}, nil); err != nil {
			return err
		}
	}
	return nil
}

// end tells the server how the run ended.
func (s *mlflow) end(ctx context.Context) error {
	status, over := map[End]string{Finished: "FINISHED", Interrupted: "KILLED", Failed: "FAILED"}[s.run.ended()]
	if s.state.RunID == "" || !over {
		return nil
	}
	return s.update(ctx, map[string]any{"status": status, "end_time": time.Now().UnixMilli()})
}

// update changes the run on the server.
func (s *mlflow) update(ctx context.Context, fields map[string]any) error {
	fields["run_id"] = s.state.RunID
	err := s.call(ctx, "runs/update", fields, nil)
	if e := (*replyError)(nil); errors.As(err, &e) && e.Code == "RESOURCE_DOES_NOT_EXIST" {
		s.state, s.running = mlflowState{URI: s.state.URI}, false
		return errors.New("the run was deleted on the server: a new one is made")
	}
	return err
}

// replyError is an error that the server returned.
type replyError struct {
	Status  int
	Code    string `json:"error_code"`
	Message string `json:"message"`
}

func (e *replyError) Error() string {
	return fmt.Sprintf("status %d %s: %s", e.Status, e.Code, e.Message)
}

// call posts a request, or gets it if body is nil, and decodes the reply into result unless it is nil.
func (s *mlflow) call(ctx context.Context, endpoint string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
		method = http.MethodPost
	}
	name, _, _ := strings.Cut(endpoint, "?")
	req, err := http.NewRequestWithContext(ctx, method, s.state.URI+"/api/2.0/mlflow/"+endpoint, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if user, password := s.run.Getenv("MLFLOW_TRACKING_USERNAME"), s.run.Getenv("MLFLOW_TRACKING_PASSWORD"); user != "" {
		req.SetBasicAuth(user, password)
	} else if token := s.run.Getenv("MLFLOW_TRACKING_TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("MLflow: %w", err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return fmt.Errorf("MLflow: %s: %w", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		e := &replyError{Status: resp.StatusCode}
		if json.Unmarshal(reply, e) != nil {
			e.Message = string(reply[:min(len(reply), 200)])
		}
		return fmt.Errorf("MLflow: %s: %w", name, e)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(reply, result); err != nil {
		return fmt.Errorf("MLflow: %s: %w", name, err)
	}
	return nil
}

// save writes mlflow.json.
func (s *mlflow) save() error {
	text, err := json.MarshalIndent(s.state, "", "  ")
	if err == nil {
		err = os.WriteFile(s.path+".tmp", append(text, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(s.path+".tmp", s.path)
	}
	return err
}
