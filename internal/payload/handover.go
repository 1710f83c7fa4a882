package payload

import (
	"os"
	"strconv"
	"syscall"
)

// Environment variables by which the launcher informs the program. Inherited removes them from the environment.
const (
	exeVariable  = "OPENMANUS_EXE"  // path of the one-file executable
	lockVariable = "OPENMANUS_LOCK" // descriptor of the lock on the unpacked program
)

// Environ returns the environment of the program: env without the launcher's variables, and new values of them. The process
// must execute the program with the descriptor of in.Lock open.
func (in *Installed) Environ(env []string, exe string) ([]string, error) {
	fd := in.Lock.Fd()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_SETFD, 0); errno != 0 { // clears FD_CLOEXEC
		return nil, os.NewSyscallError("fcntl", errno)
	}
	return append(env, exeVariable+"="+exe, lockVariable+"="+strconv.Itoa(int(fd))), nil
}

// Inherited returns the path of the one-file executable whose launcher started this process, or "". Child processes inherit
// neither the lock nor the variables: only this process keeps its program in the cache. Call Inherited before the process
// starts child processes.
func Inherited() string {
	exe := os.Getenv(exeVariable)
	fd, err := strconv.Atoi(os.Getenv(lockVariable))
	if exe == "" || err != nil {
		return ""
	}
	for _, name := range []string{exeVariable, lockVariable} {
		_ = os.Unsetenv(name) // cannot fail for a valid name
	}
	syscall.CloseOnExec(fd)
	return exe
}
