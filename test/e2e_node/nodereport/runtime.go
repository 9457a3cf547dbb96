// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podslice/podslice/test/e2e_node/report"
)

// Labels that the kubelet gives to containers.
const (
	labelPod       = "io.kubernetes.pod.name"
	labelUID       = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
)

// running asks the runtime for the containers that run, with their main processes.
// Sandboxes are no containers to the CRI.
func running(ctx context.Context) ([]report.Running, error) {
	conn, err := connect(runtimeSocket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := cri.NewRuntimeServiceClient(conn)
	state := &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}
	list, err := client.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{State: state}})
	if err != nil {
		return nil, err
	}
	all := []report.Running{}
	for _, c := range list.Containers {
		status, err := client.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: c.Id, Verbose: true})
		if err != nil {
			continue // it ended since the list was made
		}
		var info struct {
			PID int `json:"pid"`
		}
		if err := json.Unmarshal([]byte(status.Info["info"]), &info); err != nil {
			return nil, fmt.Errorf("verbose status of container %s: %w", c.Id, err)
		}
		all = append(all, report.Running{
			Pod: c.Labels[labelPod], UID: c.Labels[labelUID],
			Container: report.Container{Name: c.Labels[labelContainer], ID: c.Id, PID: info.PID},
		})
	}
	return all, nil
}

// readProcess fills in what the kernel says of a container's main process.
func readProcess(c *report.Container, pid int) {
	proc := os.DirFS(filepath.Join("/proc", strconv.Itoa(pid)))
	started, err := startTime(text(proc, "stat"))
	if err != nil {
		return // the process has ended
	}
	c.PID, c.Started = pid, started
	_, c.Cgroup, _ = strings.Cut(text(proc, "cgroup"), "::")
	for line := range strings.Lines(text(proc, "status")) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "Cpus_allowed_list":
			c.CPUsAllowed = strings.TrimSpace(value)
		case "Mems_allowed_list":
			c.MemsAllowed = strings.TrimSpace(value)
		}
	}
	for variable := range strings.SplitSeq(text(proc, "environ"), "\x00") {
		if value, found := strings.CutPrefix(variable, report.DevicesVariable+"="); found {
			c.Devices = value
		}
	}
	cg := os.DirFS(filepath.Join(cgroupRoot, c.Cgroup))
	c.CPUs, c.CPUsEffective = text(cg, "cpuset.cpus"), text(cg, "cpuset.cpus.effective")
	c.Mems, c.MemsEffective = text(cg, "cpuset.mems"), text(cg, "cpuset.mems.effective")
	c.CPUMax, c.MemoryMax = text(cg, "cpu.max"), text(cg, "memory.max")
}

// startTime returns field 22 of /proc/PID/stat. The command's name, field 2, is
// in parentheses and may hold anything, so counting starts behind it.
func startTime(stat string) (uint64, error) {
	end := strings.LastIndex(stat, ")")
	if end < 0 {
		return 0, errors.New("no process")
	}
	f := strings.Fields(stat[end+1:])
	if len(f) < 20 {
		return 0, fmt.Errorf("/proc stat line has %d fields behind the name, want 20", len(f))
	}
	return strconv.ParseUint(f[19], 10, 64)
}

// removePods stops and removes every sandbox, with its containers.
func removePods(ctx context.Context) error {
	conn, err := connect(runtimeSocket)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := cri.NewRuntimeServiceClient(conn)
	containers, err := client.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return err
	}
	for _, c := range containers.Containers {
		// No grace: nothing in the pods has anything to lose.
		if _, err := client.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: c.Id}); err != nil {
			return fmt.Errorf("stopping container %s: %w", c.Id, err)
		}
	}
	sandboxes, err := client.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, s := range sandboxes.Items {
		if _, err := client.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: s.Id}); err != nil {
			return fmt.Errorf("stopping sandbox %s: %w", s.Id, err)
		}
		if _, err := client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: s.Id}); err != nil {
			return fmt.Errorf("removing sandbox %s: %w", s.Id, err)
		}
	}
	return nil
}
