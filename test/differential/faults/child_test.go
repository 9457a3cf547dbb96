// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
)

// A child is this test binary, told by the environment which scenario to play
// and on whose managers: "upstream/restart-moves-pod".
const childVariable = "PODSLICE_FAULT"

const (
	// patience is how long a scenario may take on a machine that is busy. One
	// that never ends is given up after hangs.
	patience = 3 * time.Minute
	hangs    = 5 * time.Second
)

func TestMain(m *testing.M) {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	if which := os.Getenv(childVariable); which != "" {
		side, name, _ := strings.Cut(which, "/")
		_ = json.NewEncoder(os.Stdout).Encode(playOn(side, name))
		return
	}
	os.Exit(m.Run())
}

// outcome is how a scenario ended. Wrong is what went wrong, empty if nothing
// did. Broken is a mistake in the scenario itself.
type outcome struct{ Wrong, Broken string }

// wrong and broken end a scenario.
type (
	wrong  string
	broken string
)

func playOn(side, name string) (o outcome) {
	dir, err := os.MkdirTemp("", "podslice-fault-")
	if err != nil {
		return outcome{Broken: err.Error()}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case wrong:
			o.Wrong = strings.ReplaceAll(string(r), dir, "/var/lib/kubelet")
		case broken:
			o.Broken = string(r)
		default:
			o.Wrong = fmt.Sprintf("panic: %v", r)
		}
	}()
	f, ok := find(name)
	if !ok {
		return outcome{Broken: "no fault " + name}
	}
	f.play(newNode(side, dir))
	return o
}

// playInChild plays the scenario in a process of its own.
func playInChild(t *testing.T, side string, f fault) outcome {
	t.Helper()
	limit := patience
	if f.hangs && side == upstream {
		limit = hangs
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, self, "-test.run=^$")
	cmd.Env = append(os.Environ(), childVariable+"="+side+"/"+f.name, "GOMAXPROCS=2", "TMPDIR="+t.TempDir())
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		return outcome{Wrong: fmt.Sprintf("does not return within %s", limit)}
	}
	if err != nil {
		for line := range strings.Lines(stderr.String()) {
			if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
				return outcome{Wrong: strings.TrimSpace(line)}
			}
		}
		return outcome{Wrong: fmt.Sprintf("the kubelet ends: %v %s", err, stderr.String())}
	}
	var o outcome
	if err := json.Unmarshal(stdout.Bytes(), &o); err != nil {
		t.Fatalf("the child says %q, %q: %v", stdout.String(), stderr.String(), err)
	}
	return o
}
