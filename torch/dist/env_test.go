package dist

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadEnv(t *testing.T) {
	torchrun := "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node0 MASTER_PORT=29500"
	slurm := "SLURM_PROCID=3 SLURM_NTASKS=5 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_JOB_ID=4711 SLURM_STEP_ID=0 " +
		"SLURM_TASKS_PER_NODE=2(x2),1 SLURM_JOB_NODELIST=gpu[07-09,12],big1 SLURM_LAUNCH_NODE_IPADDR=10.0.0.9"
	for _, c := range []struct {
		name  string
		env   string
		want  Env
		found bool
		fault string // part of the error
	}{
		{name: "a batch script of Slurm", env: "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_JOB_ID=1 SLURM_JOB_NODELIST=a"},
		{name: "none", env: "MASTER_ADDR=node0 SLURM_NTASKS=4 LOCAL_RANK=1"},
		{name: "torchrun", env: torchrun, found: true,
			want: Env{Rank: 3, Size: 8, LocalRank: 1, LocalSize: 2, Host: "node0", Port: 29500}},
		{name: "torchrun's own store", env: torchrun + " TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT=2", found: true,
			want: Env{Rank: 3, Size: 8, LocalRank: 1, LocalSize: 2, Host: "node0", Port: 29500, StarterStore: true, Attempt: "2"}},
		{name: "PyTorchJob", env: "RANK=1 WORLD_SIZE=2 MASTER_ADDR=job-master-0 MASTER_PORT=23456", found: true,
			want: Env{Rank: 1, Size: 2, Host: "job-master-0", Port: 23456}},
		{name: "Slurm", env: slurm, found: true,
			want: Env{Rank: 3, Size: 5, LocalRank: 1, LocalSize: 2, Host: "gpu07", Port: 10000 + 4711*7%20000}},
		{name: "Slurm with an address", env: slurm + " MASTER_ADDR=10.1.2.3 MASTER_PORT=5000", found: true,
			want: Env{Rank: 3, Size: 5, LocalRank: 1, LocalSize: 2, Host: "10.1.2.3", Port: 5000}},
		{name: "Slurm without a list of hosts", found: true,
			env:  "SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_JOB_ID=1 SLURM_LAUNCH_NODE_IPADDR=10.0.0.9",
			want: Env{Rank: 0, Size: 2, Host: "10.0.0.9", Port: 10007}},
		{name: "torchrun inside Slurm", env: slurm + " " + torchrun, found: true,
			want: Env{Rank: 3, Size: 8, LocalRank: 1, LocalSize: 2, Host: "node0", Port: 29500}},

		{name: "no world size", env: "RANK=0 MASTER_ADDR=a MASTER_PORT=1", found: true, fault: "WORLD_SIZE"},
		{name: "no rank", env: "WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", found: true, fault: "RANK"},
		{name: "no address", env: "RANK=0 WORLD_SIZE=2 MASTER_PORT=1", found: true, fault: "MASTER_ADDR"},
		{name: "no port", env: "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a", found: true, fault: "MASTER_PORT"},
		{name: "local size without local rank", env: "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 LOCAL_WORLD_SIZE=2", found: true, fault: "LOCAL_RANK"},
		{name: "all faults at once", env: "RANK=x WORLD_SIZE=2 MASTER_ADDR=a", found: true, fault: `"x"; want a number` + "\ndist: the variable MASTER_PORT"},
		{name: "negative rank", env: "RANK=-1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", found: true, fault: `"-1"`},
		{name: "rank beyond the size", env: "RANK=2 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", found: true, fault: "rank 2 of 2"},
		{name: "more local processes than processes", env: "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3 MASTER_ADDR=a MASTER_PORT=1", found: true, fault: "3 processes"},
		{name: "local rank beyond the local size", env: "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=1", found: true, fault: "local rank 1 of 1"},
		{name: "port out of range", env: "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=70000", found: true, fault: "70000"},
		{name: "address with a port", env: "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a:29500 MASTER_PORT=1", found: true, fault: "a:29500"},
		{name: "Slurm without the number of tasks", env: "SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_JOB_ID=1 SLURM_JOB_NODELIST=a", found: true, fault: "SLURM_NTASKS"},
		{name: "Slurm without a host", env: "SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_JOB_ID=1", found: true, fault: "MASTER_ADDR"},
		{name: "Slurm with a node outside the list", env: strings.Replace(slurm, "NODEID=1", "NODEID=3", 1), found: true, fault: "SLURM_NODEID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			vars := map[string]string{}
			for _, assignment := range strings.Fields(c.env) {
				name, value, _ := strings.Cut(assignment, "=")
				vars[name] = value
			}
			got, found, err := ReadEnv(func(name string) string { return vars[name] })
			if found != c.found {
				t.Errorf("found: %v, want %v", found, c.found)
			}
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Fatalf("error %v, want one with %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVariablesAreWhatReadEnvReads(t *testing.T) {
	want := Env{Rank: 1, Size: 4, LocalRank: 1, LocalSize: 2, Host: "fd00::1", Port: 12345, StarterStore: true, Attempt: "3"}
	vars := map[string]string{}
	for _, v := range want.Variables() {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	got, found, err := ReadEnv(func(name string) string { return vars[name] })
	if err != nil || !found || got != want {
		t.Errorf("%+v, %v, %v, want %+v", got, found, err, want)
	}
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{
		"":                       "",
		"node1":                  "node1",
		"node1,node2":            "node1",
		"node[001-128]":          "node001",
		"node[5,7-9],gpu1":       "node5",
		"rack[0-1]node[3-4]-ib0": "rack0node3-ib0",
	} {
		if got := firstHost(list); got != want {
			t.Errorf("firstHost(%q) = %q, want %q", list, got, want)
		}
	}
}

func TestLoopbackAddressForOtherMachinesIsAnError(t *testing.T) {
	env := Env{Rank: 0, Size: 4, LocalSize: 2, Host: "127.0.0.1", Port: 29500}
	if _, err := Join(t.Context(), env, short); err == nil || !strings.Contains(err.Error(), "MASTER_ADDR") {
		t.Errorf("%v, want an error that names MASTER_ADDR", err)
	}
}

func TestInterfaceAddress(t *testing.T) {
	env := Env{Rank: 0, Size: 4, LocalSize: 2, Host: "127.0.0.1", Port: 29500}
	if got, err := interfaceAddress(t.Context(), env, "lo"); err != nil || got != "127.0.0.1" && got != "::1" {
		t.Errorf("address %q of lo, %v", got, err)
	}
	if _, err := interfaceAddress(t.Context(), env, "none0"); err == nil || !strings.Contains(err.Error(), "none0") {
		t.Errorf("%v, want an error that names the interface", err)
	}
}
