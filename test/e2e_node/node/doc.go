// SPDX-License-Identifier: Apache-2.0

// Package node runs a kubelet and a container runtime on an emulated machine.
//
// The kubelet is a standalone one: pods come from manifests in a folder. Where a
// test needs an API server, StartAPIServer starts one. Up starts the runtime and imports the images; StartKubelet starts a
// kubelet with a configuration made from a Config; pods are added with AddPod
// and read back with Report, which runs a reader on the guest (../nodereport).
// A kubelet can be stopped, killed, and started again with another
// configuration; Wipe brings the node back to what it was before the first pod,
// so that one boot serves many tests.
//
// Every wait polls for a state and gives up after minutes, because the machine
// is emulated and may be busy; what ends a wait early is a state from which
// there is no way on, such as a failed pod.
package node

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Limits of the waits, each several times what an idle machine of two cores needs.
const (
	limitRuntime = 5 * time.Minute
	limitHealthy = 5 * time.Minute
	limitRunning = 8 * time.Minute
	limitAPI     = 10 * time.Minute
	pollEvery    = time.Second
)

// poll calls done until it returns true or an error, or the limit is reached.
func poll(ctx context.Context, what string, limit time.Duration, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		ok, err := done(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case err != nil:
			return fmt.Errorf("waiting for %s: %w", what, err)
		case ok:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
}

// lines joins shell commands that must all succeed.
func lines(commands ...string) string { return strings.Join(commands, " && ") }

// stopUnit is a shell command that ends a unit, and succeeds if there is none.
func stopUnit(name string) string {
	return fmt.Sprintf("{ systemctl stop %[1]s 2>/dev/null; systemctl reset-failed %[1]s 2>/dev/null; true; }", name)
}
