// SPDX-License-Identifier: Apache-2.0

// Command pacedrunc stands before runc on an emulated node, which takes some thirty
// times as long for what a program computes, and makes up for two things that come
// of it. Whatever it is asked, the runc beside it does; it only comes back later.
//
// What runc does inside a new container counts against the container's CFS quota and
// the pod's: a tenth of a second on a machine, and with a quota of a tenth of a CPU
// half a minute on an emulated one. Until runc has created the container there is
// none.
//
// And upstream's suite reads what a container has printed (its CPUs or memory nodes)
// as soon as the kubelet calls it running, which is too early here: runc comes back
// from starting such a container when it has had the time.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// bundles has a folder for each container, with its config.json.
	bundles = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
	// printTime is what a container needs to print a line of its own status.
	printTime = 2 * time.Second
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		// containerd shows the last of what runc says.
		fmt.Fprintln(os.Stderr, "pacedrunc:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	runc := filepath.Join(filepath.Dir(self), "runc")
	switch {
	case slices.Contains(args, "create"):
		return create(runc, args)
	case slices.Contains(args, "start"):
		return start(runc, args)
	}
	return 1, syscall.Exec(runc, append([]string{runc}, args...), os.Environ())
}

// pass runs runc with this program's own streams, which become the container's.
func pass(runc string, args []string) (int, error) {
	cmd := exec.Command(runc, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

func create(runc string, args []string) (int, error) {
	i := slices.Index(args, "--bundle")
	if i < 0 || i+1 >= len(args) {
		return 1, errors.New("create without --bundle")
	}
	data, err := os.ReadFile(filepath.Join(args[i+1], "config.json"))
	if err != nil {
		return 1, err
	}
	path, err := cgroupsPath(data)
	if err != nil {
		return 1, err
	}
	done := make(chan struct{})
	lifted := make(chan error)
	go func() { lifted <- lift("/sys/fs/cgroup", path, done) }()
	code, err := pass(runc, args)
	close(done)
	return code, errors.Join(err, <-lifted)
}

func cgroupsPath(config []byte) (string, error) {
	var spec struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
		} `json:"linux"`
	}
	if err := json.Unmarshal(config, &spec); err != nil {
		return "", fmt.Errorf("config.json: %w", err)
	}
	return spec.Linux.CgroupsPath, nil
}

func start(runc string, args []string) (int, error) {
	code, err := pass(runc, args)
	if err != nil || code != 0 {
		return code, err
	}
	config, err := os.ReadFile(filepath.Join(bundles, args[len(args)-1], "config.json"))
	if err == nil && bytes.Contains(config, []byte("_allowed_list")) {
		time.Sleep(printTime)
	}
	return 0, nil
}
