package dist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// patient is a time-out that passing tests do not reach, and short one that failing ranks wait for.
const patient, short = time.Minute, 3 * time.Second

// roles are the functions that the ranks of the tests run after they have joined.
var roles = map[string]func(context.Context, member) error{
	"collectives": collectives,
	"names the library": func(ctx context.Context, m member) error {
		name, err := m.Backend(ctx, m.s.Thread().Device())
		fmt.Println(name)
		return err
	},
	"reads after a failure": func(ctx context.Context, m member) error {
		t := m.s.Zeros(torch.Float32, 5)
		if err := m.AllReduce(ctx, t); err != nil {
			return err
		}
		if m.Rank() == 1 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if err := m.AllReduce(ctx, t); err == nil {
			return errors.New("a collective without rank 1 succeeded")
		}
		return fmt.Errorf("read %v", t.ToFloat64s())
	},
	"joins": func(context.Context, member) error { return nil },
	"kills the last": func(ctx context.Context, m member) error {
		return m.reduceUntil(ctx, m.Size()-1, syscall.SIGKILL)
	},
	"kills the first": func(ctx context.Context, m member) error { return m.reduceUntil(ctx, 0, syscall.SIGKILL) },
	"stops the last": func(ctx context.Context, m member) error {
		return m.reduceUntil(ctx, m.Size()-1, syscall.SIGSTOP)
	},
	"stops the first": func(ctx context.Context, m member) error { return m.reduceUntil(ctx, 0, syscall.SIGSTOP) },
	"confuses": func(ctx context.Context, m member) error {
		if m.Rank() == 0 {
			return m.Barrier(ctx)
		}
		return m.AllReduce(ctx, m.s.Zeros(torch.Float32, 5))
	},
	"cancels": func(ctx context.Context, m member) error {
		if m.Rank() == 0 {
			return m.AllReduce(ctx, m.s.Zeros(torch.Float32, 5))
		}
		// Rank 1 waits in a collective for rank 2, which is in none until rank 1 is gone.
		if m.Rank() == 2 {
			time.Sleep(time.Second)
			return m.AllReduce(ctx, m.s.Zeros(torch.Float32, 5))
		}
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if err := m.AllReduce(ctx, m.s.Zeros(torch.Float32, 5)); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%v, want a deadline exceeded", err)
		}
		return errors.New("cancelled")
	},
}

func init() {
	roles["fails"] = func(_ context.Context, m member) error {
		if m.Rank() == 1 {
			fmt.Fprint(os.Stderr, "the cause")
			os.Exit(7)
		}
		time.Sleep(patient) // until SIGTERM
		return nil
	}
	roles["ignores SIGTERM"] = func(_ context.Context, m member) error {
		if m.Rank() == 1 {
			os.Exit(7)
		}
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(patient) // until SIGKILL
		return nil
	}
	roles["is lost after rank 1 ends"] = func(_ context.Context, m member) error {
		if m.Rank() == 1 {
			os.Exit(7)
		}
		if m.Rank() == 0 {
			time.Sleep(patient) // until SIGKILL
		}
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		select {
		case <-c: // Launch has seen the end of rank 1
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case <-time.After(patient):
			return errors.New("no SIGTERM")
		}
	}
	roles["saves"] = func(_ context.Context, m member) error {
		if m.Rank() == 1 {
			os.Exit(7)
		}
		if m.Rank() == 2 {
			signal.Ignore(syscall.SIGTERM)
			time.Sleep(patient) // until SIGKILL
		}
		time.Sleep(time.Second)
		fmt.Println("saved")
		os.Exit(0)
		return nil
	}
	roles["waits for SIGINT"] = func(ctx context.Context, m member) error {
		c := make(chan os.Signal, 1)
		signal.Notify(c, os.Interrupt)
		if err := m.Barrier(ctx); err != nil {
			return err
		}
		fmt.Println("process", os.Getpid())
		<-c
		return nil
	}
	// For the benchmark: sums as many tensors as rank 0 says.
	roles["follows"] = func(ctx context.Context, m member) error {
		for {
			n, t := m.s.Empty(torch.Int64, 2), torch.Tensor{}
			if err := m.Broadcast(ctx, n, 0); err != nil {
				return err
			}
			v := n.ToInt64s()
			if v[0] == 0 {
				return nil
			}
			t = m.s.Zeros(torch.Float32, int(v[1]))
			for range v[0] {
				if err := m.AllReduce(ctx, t); err != nil {
					return err
				}
			}
		}
	}
}

// reduceUntil calls AllReduce without end. After the third, the rank `victim` sends itself a signal.
func (m member) reduceUntil(ctx context.Context, victim int, signal syscall.Signal) error {
	for i := 0; ; i++ {
		if i == 3 && m.Rank() == victim {
			if err := syscall.Kill(os.Getpid(), signal); err != nil {
				return err
			}
		}
		if err := m.AllReduce(ctx, m.s.Zeros(torch.Float32, 1000)); err != nil {
			return err
		}
	}
}

// values returns the elements of the tensor of a rank: small numbers, whose sums are exact in every type.
func values(rank, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64((rank+1)*(i%5) + i%3)
	}
	return v
}

// collectives compares every collective, for every type, with the values that this rank computes from the ranks' values.
func collectives(ctx context.Context, m member) error {
	const n = 6
	sum := make([]float64, n*m.Size())
	var all []float64
	for r := range m.Size() {
		for i, v := range values(r, len(sum)) {
			sum[i] += v
		}
		all = append(all, values(r, n)...)
	}
	for _, dt := range []torch.DType{torch.Float32, torch.Float64, torch.Float16, torch.BFloat16, torch.Int64, torch.Int32, torch.Uint8} {
		mine := func(n int) torch.Tensor { return m.s.Float64s(values(m.Rank(), n), n/2, 2).To(dt) }
		check := func(op string, err error, got torch.Tensor, want []float64) error {
			if err != nil {
				return err
			}
			if v := got.ToFloat64s(); !slices.Equal(v, want) {
				return fmt.Errorf("rank %d: %s of %v: %v, want %v", m.Rank(), op, dt, v, want)
			}
			return nil
		}
		for root := range m.Size() {
			t := mine(n)
			if err := check("broadcast", m.Broadcast(ctx, t, root), t, values(root, n)); err != nil {
				return err
			}
		}
		t := mine(n)
		if err := check("all-reduce", m.AllReduce(ctx, t), t, sum[:0:0]); err == nil {
			return errors.New("a wrong sum was accepted")
		}
		t = mine(n * m.Size())
		if err := check("all-reduce", m.AllReduce(ctx, t), t, sum); err != nil {
			return err
		}
		part := m.s.Empty(dt, n/2, 2)
		if err := check("reduce-scatter", m.ReduceScatter(ctx, part, mine(n*m.Size())), part, sum[m.Rank()*n:][:n]); err != nil {
			return err
		}
		whole := m.s.Empty(dt, m.Size()*n/2, 2)
		if err := check("all-gather", m.AllGather(ctx, whole, mine(n)), whole, all); err != nil {
			return err
		}
		// The operand may be a view of the result.
		inside := m.s.Zeros(dt, m.Size()*n/2, 2)
		view := inside.Narrow(0, m.Rank()*n/2, n/2)
		view.Copy_(mine(n))
		if err := check("all-gather in place", m.AllGather(ctx, inside, view), inside, all); err != nil {
			return err
		}
	}
	// An empty slice, slices of different lengths, and slices at the bound of one collective.
	for _, scale := range []int{0, 1, shortBytes, shortBytes + 1, 5000} {
		data := func(r int) []byte { return bytes.Repeat([]byte{byte('a' + r)}, r*scale) }
		got, err := m.GatherBytes(ctx, m.s, data(m.Rank()))
		if err != nil {
			return err
		}
		for r := range m.Size() {
			if !bytes.Equal(got[r], data(r)) {
				return fmt.Errorf("rank %d: %d bytes of rank %d differ, want %d", m.Rank(), len(got[r]), r, r*scale)
			}
		}
	}
	return m.Barrier(ctx)
}

func TestCollectives(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4} {
		t.Run(fmt.Sprintf("%d processes", n), func(t *testing.T) {
			for _, p := range startRanks(t, n, "collectives", patient) {
				p.succeed(t)
			}
		})
	}
}

// onProtected makes processes compute on the protected device, whose collectives are those of another library, as for GPUs.
const onProtected = deviceVariable + "=protected"

func TestCollectivesOnDevice(t *testing.T) {
	for name, variables := range map[string][]string{
		"a device for each rank": {onProtected},
		"a shared device":        {onProtected, "OPENMANUS_PROTECTED_NAME=the only one"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 3} {
				for _, p := range startRanks(t, n, "collectives", patient, variables...) {
					p.succeed(t)
				}
			}
		})
	}
}

// TestLibrary compares the names of the libraries that compute. It logs those for the tests' device, which torch/gpu_check.py records.
func TestLibrary(t *testing.T) {
	type row struct {
		ranks     int
		variables []string
		want      string
	}
	rows := []row{
		{2, []string{deviceVariable + "=cpu"}, "gloo"},
		{1, []string{onProtected}, "protected"},
		{3, []string{onProtected}, "protected"},
		{3, []string{onProtected, "OPENMANUS_PROTECTED_NAME=the only one"}, "gloo through host memory: ranks 0, 1, 2 share one device"},
	}
	switch device := os.Getenv(deviceVariable); {
	case strings.HasPrefix(device, "cuda"):
		gpus := 1
		for ; device == "cuda"; gpus++ {
			if _, err := torch.ParseDevice(fmt.Sprintf("cuda:%d", gpus)); err != nil {
				break
			}
		}
		for n := range gpus {
			rows = append(rows, row{n + 1, nil, "nccl"})
		}
		rows = append(rows, row{gpus + 1, nil, "gloo through host memory: ranks 0"}) // the last rank has no GPU of its own
	case device == "" || device == "cpu":
		rows = append(rows, row{2, nil, "gloo"})
	default:
		rows = append(rows, row{2, nil, device})
	}
	for _, r := range rows {
		for _, p := range startRanks(t, r.ranks, "names the library", patient, r.variables...) {
			p.succeed(t)
			name := strings.TrimSpace(p.stdout.String())
			if exact := !strings.HasSuffix(r.want, " 0"); exact && name != r.want || !strings.HasPrefix(name, r.want) {
				t.Errorf("%d ranks, %v: the library is %q, want %q", r.ranks, r.variables, name, r.want)
			}
			if r.variables == nil {
				t.Logf("with %d ranks: %s", r.ranks, name)
			}
		}
	}
}

func TestLibraryWithoutGPU(t *testing.T) {
	if _, err := torch.ParseDevice("cuda"); err == nil {
		t.Skip("this machine has a GPU")
	}
	g, err := Join(t.Context(), Env{Rank: 0, Size: 1, Host: "127.0.0.1", Port: freePort(t)}, patient)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Abort()
	name, err := g.Backend(t.Context(), torch.Device{CUDA: true})
	if err == nil || !regexp.MustCompile("libtorch_cuda|driver|GPU").MatchString(err.Error()) {
		t.Errorf("%q, %v; want an error that names the missing library, driver or GPU", name, err)
	}
}

func TestReadingFailsAfterFailureOnDevice(t *testing.T) {
	ps := startRanks(t, 2, "reads after a failure", patient, onProtected)
	ps[0].fails(t, "rank 1", "all-reduce")
	if strings.Contains(ps[0].stderr.String(), "read [") {
		t.Errorf("the result of a failed collective was read: %s", &ps[0].stderr)
	}
}

func TestLostRankIsNamed(t *testing.T) {
	for _, c := range []struct {
		role      string
		victim    int
		timeout   time.Duration
		variables []string
	}{
		{"kills the last", 2, patient, nil}, // noticed before the time-out
		{"kills the first", 0, patient, nil},
		{"stops the last", 2, short, nil},
		{"stops the first", 0, short, nil}, // its store does not answer
		{"kills the first", 0, patient, []string{onProtected}},
		{"stops the last", 2, short, []string{onProtected}},
	} {
		t.Run(fmt.Sprint(c.role, c.variables), func(t *testing.T) {
			t.Parallel()
			ps := startRanks(t, 3, c.role, c.timeout, c.variables...)
			for r, p := range ps {
				if r != c.victim {
					p.fails(t, fmt.Sprintf("rank %d", c.victim), fmt.Sprintf("rank %d of 3", r), "all-reduce", c.timeout.String()[:1])
				}
			}
		})
	}
}

func TestCollectivesThatDifferAreNamed(t *testing.T) {
	t.Parallel()
	ps := startRanks(t, 2, "confuses", short)
	ps[0].fails(t, "barrier", "all-reduce")
	ps[1].fails(t, "barrier", "all-reduce")
}

func TestContextEndsCollective(t *testing.T) {
	for name, variables := range map[string][]string{"tests' device": nil, "protected": {onProtected}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ps := startRanks(t, 3, "cancels", patient, variables...)
			ps[1].fails(t, "cancelled")
			ps[0].fails(t, "rank 1", "all-reduce")
			ps[2].fails(t, "rank 1", "all-reduce")
		})
	}
}

func TestMissingRankIsNamed(t *testing.T) {
	for _, missing := range []int{0, 2} {
		t.Run(fmt.Sprintf("rank %d", missing), func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			var ps []*process
			for r := range 3 {
				if r != missing {
					ps = append(ps, startRank(t, "joins", short, Env{Rank: r, Size: 3, Host: "127.0.0.1", Port: port}))
				}
			}
			for _, p := range ps {
				p.fails(t, fmt.Sprintf("rank %d", missing), "3")
			}
		})
	}
}

func TestSizesThatDiffer(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	first := startRank(t, "joins", short, Env{Rank: 0, Size: 2, Host: "127.0.0.1", Port: port})
	startRank(t, "joins", short, Env{Rank: 1, Size: 3, Host: "127.0.0.1", Port: port})
	first.fails(t, "rank 1", "world size 3")
}

func TestSameRankTwice(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	start := func(r int) *process {
		return startRank(t, "joins", patient, Env{Rank: r, Size: 3, Host: "127.0.0.1", Port: port})
	}
	first, twins := start(0), []*process{start(1), start(1)}
	ended := make(chan int, len(twins))
	for i, p := range twins {
		go func() {
			_ = p.Wait() // the exit status is examined below
			ended <- i
		}()
	}
	i := <-ended // the second that comes, while the others wait for rank 2
	if p := twins[i]; p.ProcessState.ExitCode() != 1 || !bytes.Contains(p.stderr.Bytes(), []byte("same rank")) {
		t.Errorf("%v, want an error that names the cause: %s", p.ProcessState, &p.stderr)
	}
	last := start(2)
	if p := twins[<-ended]; !p.ProcessState.Success() {
		t.Errorf("%v: %s", p.ProcessState, &p.stderr)
	}
	first.succeed(t)
	last.succeed(t)
}

// TestStoreOfTheStarter joins ranks at a store that none of them opened, as torchrun does it.
func TestStoreOfTheStarter(t *testing.T) {
	starter := Env{Rank: 0, Size: 1, Host: "127.0.0.1", Port: freePort(t), Attempt: "starter"}
	g, err := Join(t.Context(), starter, patient)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Abort()
	var ps []*process
	for r := range 2 {
		ps = append(ps, startRank(t, "collectives", patient,
			Env{Rank: r, Size: 2, Host: "127.0.0.1", Port: starter.Port, StarterStore: true, Attempt: "0"}))
	}
	for _, p := range ps {
		p.succeed(t)
	}
}

func TestOperandsThatDoNotFit(t *testing.T) {
	g, err := Join(t.Context(), Env{Rank: 0, Size: 1, Host: "127.0.0.1", Port: freePort(t)}, patient)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Abort()
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	protected, err := torch.ParseDevice("protected")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	err = torch.Run(ctx, th, func(s *torch.Scope) error {
		a := s.Zeros(torch.Float32, 4, 2)
		for name, err := range map[string]error{
			"bool":               g.AllReduce(ctx, s.Zeros(torch.Bool, 2)),
			"not contiguous":     g.AllReduce(ctx, a.Narrow(1, 0, 1)),
			"root":               g.Broadcast(ctx, a, 1),
			"negative root":      g.Broadcast(ctx, a, -1),
			"other types":        g.AllGather(ctx, a, s.Zeros(torch.Float64, 4, 2)),
			"other sizes":        g.ReduceScatter(ctx, s.Zeros(torch.Float32, 3, 2), a),
			"other inner sizes":  g.AllGather(ctx, a, s.Zeros(torch.Float32, 4, 1)),
			"other devices":      g.AllGather(ctx, a, s.Zeros(torch.Float32, 4, 2).ToDevice(protected)),
			"without dimensions": g.AllGather(ctx, s.Zeros(torch.Float32), s.Zeros(torch.Float32)),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		return g.AllReduce(ctx, a) // the group is still usable
	})
	if err != nil {
		t.Error(err)
	}
	if err := g.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := g.Barrier(ctx); err == nil {
		t.Error("a collective of a closed group succeeded")
	}
	if err := g.Close(ctx); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func TestContextEndsJoin(t *testing.T) {
	for r, name := range []string{"rank 0 waits for others", "rank 1 waits for the store"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := Join(ctx, Env{Rank: r, Size: 2, Host: "127.0.0.1", Port: freePort(t)}, time.Hour)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want a deadline exceeded", err)
			}
		})
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = Join(t.Context(), Env{Rank: 0, Size: 2, Host: "127.0.0.1", Port: port}, short)
	if err == nil || !bytes.Contains([]byte(err.Error()), fmt.Appendf(nil, "port %d", port)) {
		t.Errorf("%v, want an error that names port %d", err, port)
	}
}

func BenchmarkAllReduce(b *testing.B) {
	for _, n := range []int{250, 25_000_000} { // 1 kB, 100 MB
		b.Run(fmt.Sprintf("%d bytes, 2 processes", 4*n), func(b *testing.B) {
			env := Env{Rank: 0, Size: 2, Host: "127.0.0.1", Port: freePort(b)}
			other := env
			other.Rank = 1
			startRank(b, "follows", patient, other)
			g, err := Join(b.Context(), env, patient)
			if err != nil {
				b.Fatal(err)
			}
			torchtest.Run(b, func(s *torch.Scope) {
				b.SetBytes(int64(4 * n))
				if err := g.Broadcast(b.Context(), s.Int64s([]int64{int64(b.N), int64(n)}, 2), 0); err != nil {
					b.Fatal(err)
				}
				t := s.Zeros(torch.Float32, n)
				b.ResetTimer()
				for range b.N {
					if err := g.AllReduce(b.Context(), t); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				if err := g.Broadcast(b.Context(), s.Int64s([]int64{0, 0}, 2), 0); err != nil {
					b.Fatal(err)
				}
			})
			if err := g.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
