// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// logFile is where the output of a step goes; it is shown only when it fails.
func (a Assets) logFile(step string) string { return filepath.Join(a.dir, step+".log") }

// run runs a program of the host. Its output is appended to logfile, and the
// end of it is part of the error.
func run(ctx context.Context, logfile, name string, args ...string) error {
	return runIn(ctx, logfile, "", name, args...)
}

func runIn(ctx context.Context, logfile, dir, name string, args ...string) error {
	out, err := os.OpenFile(logfile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	cmd.Stdout, cmd.Stderr = out, out
	// A group of its own: Ctrl-C must reach children through the context, which
	// lets mmdebstrap clean up after itself before it is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	if err := cmd.Run(); err != nil {
		if cmd.Process != nil {
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w; the end of %s:\n%s", err, logfile, tailFile(logfile, 15))
	}
	return nil
}

// tailFile returns the last lines of a file, or a word on why not.
func tailFile(name string, lines int) string {
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return "(no such file)"
	}
	if err != nil {
		return "(" + err.Error() + ")"
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
