package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/internal/errext"
)

// oneStep is tinyRun with checkpoints only at the start and the end.
var oneStep = []string{"train", "run.toml", "--set", "trainer.save_every=0", "--set", "trainer.test_every=0", "--set", "sft.epochs=2"}

// TestTrainSavesOnHangup checks that a run saves the current step when the terminal closes, and can be resumed.
func TestTrainSavesOnHangup(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	master, slave := pty(t)
	// Under nohup, SIGHUP is ignored in the test and in the processes that it starts. A handler prevents this.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	cmd := exec.Command("openmanus", append(oneStep, "--set", "trainer.total_steps=10000")...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	shown := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(master) // reads until master is closed
		shown <- b
	}()
	p := &process{cmd: cmd, dir: dir}
	p.signalWhen(t, syscall.SIGHUP, func() bool {
		if !bytes.Contains(metricsText(dir), []byte(`"training/global_step":1`)) {
			return false
		}
		if err := master.Close(); err != nil { // the kernel sends SIGHUP; later writes fail
			t.Error(err)
		}
		return true
	})
	if text := <-shown; cmd.ProcessState.ExitCode() != int(errext.Interrupted) {
		t.Errorf("the process ended with %v, want exit code %d\n%s", cmd.ProcessState, errext.Interrupted, text)
	}
	run := rundir.Folder{Dir: filepath.Join(dir, "runs", "tiny")}
	st, err := rundir.ReadState(run.Latest())
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(metricsText(dir), []byte(`"training/global_step"`)); st.Step == 0 || st.Step != lines {
		t.Errorf("the metrics have %d steps, but the checkpoint has step %d", lines, st.Step)
	}
}

// TestTrainIgnoresHangup checks that a run continues if it ignores SIGHUP, as under nohup, or if the pipe of its standard
// error is closed.
func TestTrainIgnoresHangup(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("sh", append([]string{"-c", `trap "" HUP; exec openmanus "$@"`, "sh"}, oneStep...)...)
	cmd.Dir, cmd.Stderr = dir, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, dir: dir}
	p.signalWhen(t, syscall.SIGHUP, func() bool {
		if len(metricsText(dir)) == 0 {
			return false
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		return true
	})
	if !cmd.ProcessState.Success() {
		t.Errorf("the process ended with %v", cmd.ProcessState)
	}
}

// metricsText returns metrics.jsonl of the run "tiny", or "" if the file does not exist.
func metricsText(dir string) []byte {
	b, _ := os.ReadFile(filepath.Join(dir, "runs", "tiny", "metrics.jsonl"))
	return b
}

// pty opens a pseudoterminal.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("pseudoterminals are not available: ", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	ioctl := func(request uintptr, arg *uint32) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	var unlock, number uint32
	ioctl(syscall.TIOCSPTLCK, &unlock)
	ioctl(syscall.TIOCGPTN, &number)
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
