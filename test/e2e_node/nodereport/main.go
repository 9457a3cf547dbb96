// SPDX-License-Identifier: Apache-2.0

// Command nodereport runs on an emulated node and prints, as JSON, the machine
// and every pod the way the kernel sees them (package report). With an argument it
// does something else, for which no kubelet is needed: machine prints only the
// machine, running the containers that run; remove-pods removes every pod sandbox
// through the runtime, for a fresh start with the kubelet stopped; and collect-dead
// removes those of pods that are gone, as long as it runs.
//
// It reads whatever is there at the moment and never waits: pods and containers
// that are not running yet have empty values, and whoever calls it polls.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	runtimeSocket      = "unix:///run/containerd/containerd.sock"
	podResourcesSocket = "unix:///var/lib/kubelet/pod-resources/kubelet.sock"
	podsURL            = "http://127.0.0.1:10255/pods"
	cgroupRoot         = "/sys/fs/cgroup"
	stateFolder        = "/var/lib/kubelet"

	// patience is for one whole report on a busy, emulated machine, and
	// patienceRemoving for the end of many containers.
	patience         = 2 * time.Minute
	patienceRemoving = 15 * time.Minute
)

func main() {
	if err := do(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nodereport:", err)
		os.Exit(1)
	}
}

func do(args []string) error {
	verb, limit := "", patience
	if len(args) > 0 {
		verb = args[0]
	}
	if verb == "remove-pods" {
		limit = patienceRemoving
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	switch verb {
	case "":
		r, err := read(ctx)
		return printed(r, err)
	case "running":
		containers, err := running(ctx)
		for i := range containers {
			readProcess(&containers[i].Container, containers[i].PID)
		}
		return printed(containers, err)
	case "machine":
		m, err := readMachine(os.DirFS("/sys"))
		return printed(m, err)
	case "collect-dead":
		return collectDead(context.Background())
	case "remove-pods":
		return removePods(ctx)
	}
	return fmt.Errorf("unknown argument %q", verb)
}

func printed(value any, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(value)
}

func connect(address string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return conn, nil
}
