// SPDX-License-Identifier: Apache-2.0

// Command nodereport runs on an emulated node and prints, as JSON, the machine
// and every pod the way the kernel sees them (package report). With the argument
// remove-pods it instead removes every pod sandbox through the runtime, for a
// fresh start with the kubelet stopped.
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
	run, limit := printReport, patience
	if len(os.Args) > 1 && os.Args[1] == "remove-pods" {
		run, limit = removePods, patienceRemoving
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodereport:", err)
		os.Exit(1)
	}
}

func printReport(ctx context.Context) error {
	r, err := read(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func connect(address string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return conn, nil
}
