// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/podslice/podslice/test/differential/scenario"
)

// The kubelet's own manager runs in child processes: it may never return, and
// it may crash. A child is this test binary, told so by the environment.
const childVariable = "PODSLICE_DIFFERENTIAL_CHILD"

func TestMain(m *testing.M) {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	if os.Getenv(childVariable) != "" {
		runChild()
		return
	}
	os.Exit(m.Run())
}

// request asks a child to play calls, on a state file or without one, and to
// tell where the outcomes are not the expected ones.
type request struct {
	Scenario *scenario.Scenario
	Calls    []call
	Expected []string // keys
	File     []byte
	Deadline time.Duration
}

// difference is an unexpected outcome. The child goes on after different hints,
// which change nothing, and stops after anything else.
type difference struct {
	Index   int
	Outcome outcome
}

type response struct {
	Differences []difference
	// Played is how many calls were played.
	Played int
}

// runChild answers requests until its input ends. A call that does not return
// within the deadline ends the child.
func runChild() {
	dir := os.Getenv(childVariable)
	in := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	out := json.NewEncoder(os.Stdout)
	debug.SetGCPercent(400)
	for {
		var r request
		if err := in.Decode(&r); err != nil {
			return
		}
		if err := out.Encode(playRequest(&r, dir, func(partial response) {
			_ = out.Encode(partial)
			os.Exit(0)
		})); err != nil {
			return
		}
	}
}

func playRequest(r *request, dir string, hung func(response)) response {
	path := filepath.Join(dir, stateFile)
	_ = os.Remove(path)
	if r.File != nil {
		if err := os.WriteFile(path, r.File, 0o600); err != nil {
			panic(err)
		}
	}
	setGates(r.Scenario.Settings.PodLevel)
	s := newUpstream(&side{kubelet: newKubelet(r.Scenario, dir)})
	var answer response
	for i, c := range r.Calls {
		var done atomic.Bool
		timer := time.AfterFunc(r.Deadline, func() {
			if !done.Swap(true) {
				hung(response{append(answer.Differences, difference{i, outcome{Hang: true}}), i + 1})
			}
		})
		o := playSafely(s, c)
		if done.Swap(true) {
			select {} // the child is about to exit
		}
		timer.Stop()
		answer.Played = i + 1
		if o.key() == r.Expected[i] {
			continue
		}
		answer.Differences = append(answer.Differences, difference{i, o})
		if (c.Op != opHints && c.Op != opPodHints) || o.Panic != "" {
			return answer
		}
	}
	return answer
}

func playSafely(s *side, c call) (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			o = outcome{Panic: fmt.Sprint(r)}
		}
	}()
	return s.play(c)
}

// child is a running child process, restarted when it ends.
type child struct {
	dir  string
	cmd  *exec.Cmd
	in   *json.Encoder
	pipe io.WriteCloser
	out  *json.Decoder
	// starts counts processes.
	starts int
}

func newChild(dir string) *child { return &child{dir: dir} }

func (c *child) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.cmd = exec.Command(self, "-test.run=^$")
	c.cmd.Env = append(os.Environ(), childVariable+"="+c.dir, "GOMAXPROCS=2")
	c.cmd.Stderr = os.Stderr
	if c.pipe, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	c.in, c.out = json.NewEncoder(c.pipe), json.NewDecoder(bufio.NewReaderSize(stdout, 1<<20))
	c.starts++
	return c.cmd.Start()
}

// ask sends a request. An error means that the child ended without an answer.
func (c *child) ask(r *request) (response, error) {
	if c.cmd == nil {
		if err := c.start(); err != nil {
			return response{}, err
		}
	}
	var answer response
	err := c.in.Encode(r)
	if err == nil {
		// A child that does not even answer for its own watchdog.
		cmd := c.cmd
		timer := time.AfterFunc(r.Deadline*time.Duration(len(r.Calls)+1)+30*time.Second, func() { _ = cmd.Process.Kill() })
		err = c.out.Decode(&answer)
		timer.Stop()
	}
	if n := len(answer.Differences); err != nil || n > 0 && answer.Differences[n-1].Outcome.Hang {
		c.stop()
	}
	return answer, err
}

func (c *child) stop() {
	if c.cmd == nil {
		return
	}
	_ = c.pipe.Close()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	c.cmd = nil
}
