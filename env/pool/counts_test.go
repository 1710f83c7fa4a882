package pool

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/envtest"
)

// TestRowOfFailures checks that a server is quarantined only after a number of failures in a row if it answers its
// greeting, and that a successful exchange resets the count.
func TestRowOfFailures(t *testing.T) {
	answers := func(codes ...int) (list []envtest.Reply) {
		for _, code := range codes {
			body := `{"observation":"","reward":0,"done":false}`
			if code != http.StatusOK {
				body = "no"
			}
			list = append(list, envtest.Reply{Status: code, Body: body})
		}
		return list
	}
	for _, c := range []struct {
		name  string
		steps []int
		after int
		want  int64 // number of quarantines
	}{
		{"never three in a row", []int{500, 500, 200, 500, 500, 200}, 3, 0},
		{"three in a row", []int{500, 200, 500, 500, 500, 200}, 3, 1},
		{"nine in a row", []int{500, 500, 500, 500, 500, 500, 500, 500, 500, 200}, 0, 0},
		{"ten in a row", []int{500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 200}, 0, 1},
		{"limit of one failure", []int{500, 200, 500, 200}, 1, 2},
		{"a refused request is no fault", []int{422, 422, 422, 422}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := envtest.New(t, map[string][]envtest.Reply{
				"POST /create": envtest.OK(`{"id":0}`), "POST /step": answers(c.steps...), "GET /": envtest.OK(`"up"`), "POST /close": envtest.OK("true"),
			})
			s.Overlap = true // a probe may overlap with another request
			p := newPool(t, Options{QuarantineAfter: c.after}, s.URL)
			l := acquire(t, p)
			faults := map[string]int64{}
			for _, code := range c.steps {
				until(t, "the server is in service", func() bool { return !p.servers[0].isDown(p) })
				_, err := l.Client().Step(context.Background(), "")
				if (err == nil) != (code == http.StatusOK) {
					t.Fatalf("status %d gave %v", code, err)
				}
				var e *env.Error
				if errors.As(err, &e) {
					faults[e.Seen()]++
				}
			}
			l.Fail(&env.Error{Kind: env.KindServer, Observed: true}) // the client has observed this failure
			got := p.Counts()
			if got.Quarantines != c.want {
				t.Errorf("%d quarantines, want %d", got.Quarantines, c.want)
			}
			if d := cmp.Diff(faults, got.Faults); d != "" {
				t.Errorf("faults (-want +got): %s", d)
			}
			if got.Exchanges < int64(len(c.steps))+1 || got.Instances != 1 {
				t.Errorf("counts %+v", got)
			}
		})
	}
}

// TestWatchedOnce checks that an exchange is counted once, whatever its result is.
func TestWatchedOnce(t *testing.T) {
	s := envtest.New(t, map[string][]envtest.Reply{
		"POST /create": {{Drop: true}, {Body: `{"id":0}`}},
		"POST /step":   {{Cut: true, Body: `{"observation":""}`}, {Body: `{"observation":"","reward":0,"done":false}`, Head: map[string]string{"X-Openmanus-Fault": "slow"}}},
		"GET /":        envtest.OK(`"up"`), "POST /close": envtest.OK("true"),
	})
	s.Overlap = true
	p := newPool(t, Options{}, s.URL)
	l := acquire(t, p)
	_, lost := l.Client().Step(context.Background(), "")
	if _, err := l.Client().Step(context.Background(), ""); err != nil {
		t.Error(err)
	}
	l.Fail(lost)
	want := map[string]int64{env.SeenReset: 1, env.SeenTruncated: 1, env.SeenSlow: 1}
	if d := cmp.Diff(want, p.Counts().Faults); d != "" {
		t.Error(d)
	}
}

func TestCountsSince(t *testing.T) {
	before := Counts{Exchanges: 5, Instances: 1, Faults: map[string]int64{env.SeenReset: 2, env.SeenSlow: 1}}
	now := Counts{Exchanges: 9, Instances: 1, Quarantines: 2, Faults: map[string]int64{env.SeenReset: 2, env.SeenSlow: 4, env.SeenTimeout: 1}}
	want := Counts{Exchanges: 4, Quarantines: 2, Faults: map[string]int64{env.SeenSlow: 3, env.SeenTimeout: 1}}
	got := now.Since(before)
	if d := cmp.Diff(want, got); d != "" || got.AllFaults() != 4 {
		t.Errorf("%d faults, -want +got:\n%s", got.AllFaults(), d)
	}
	if d := cmp.Diff(now, now.Since(Counts{})); d != "" {
		t.Errorf("Since of zero counts: -want +got:\n%s", d)
	}
}

// TestRecallOfAnEndIsNoFault loses the reply to a winning move and checks that only this loss counts as a
// fault, although the server answers the Recall with the error that the task has finished.
func TestRecallOfAnEndIsNoFault(t *testing.T) {
	s := envtest.New(t, map[string][]envtest.Reply{
		"POST /maze/create": envtest.OK(`{"id":0}`), "POST /maze/reset": envtest.OK(`{"observation":"first","reward":-1,"done":false}`),
		"POST /maze/step": {{Drop: true}}, "GET /maze/detail": envtest.OK(`{"error":"The task with environment 0 has finished."}`),
		"GET /": envtest.OK(`"up"`),
	})
	s.Overlap = true // a probe may overlap with another request
	spec, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(spec, []string{s.URL}, Options{Client: env.Options{Backoff: 1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	defer func() {
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	l := acquire(t, p)
	defer l.Fail(nil)
	if _, err := l.Client().Reset(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Client().Step(ctx, "Action: move up"); !errors.Is(err, env.KindConnection) {
		t.Fatalf("the step returned %v, want a connection failure", err)
	}
	if _, ok, err := l.Client().(env.Recaller).Recall(ctx); ok || err != nil {
		t.Errorf("recalled: %t, %v", ok, err)
	}
	if d := cmp.Diff(map[string]int64{env.SeenReset: 1}, p.Counts().Faults); d != "" {
		t.Error(d)
	}
}
