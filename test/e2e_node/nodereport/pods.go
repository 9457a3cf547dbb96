// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/e2e_node/report"
)

// read makes the report.
func read(ctx context.Context) (*report.Report, error) {
	machine, err := readMachine(os.DirFS("/sys"))
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	pods, err := kubeletPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("the kubelet's pods: %w", err)
	}
	resources, devices, err := podResources(ctx)
	if err != nil {
		return nil, fmt.Errorf("podresources: %w", err)
	}
	containers, err := running(ctx)
	if err != nil {
		return nil, fmt.Errorf("runtime: %w", err)
	}
	pids := map[string]int{}
	for _, c := range containers {
		pids[c.ID] = c.PID
	}
	r := &report.Report{Machine: machine, Pods: []report.Pod{}, Devices: devices, States: readStates(stateFolder)}
	for i := range pods {
		r.Pods = append(r.Pods, readPod(&pods[i], resources, pids))
	}
	return r, nil
}

func kubeletPods(ctx context.Context) ([]v1.Pod, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, podsURL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", podsURL, resp.Status)
	}
	var list v1.PodList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: %w", podsURL, err)
	}
	return list.Items, nil
}

// podResources asks the kubelet what its pods have, and which devices there are.
func podResources(ctx context.Context) ([]*podresources.PodResources, map[string][]string, error) {
	conn, err := connect(podResourcesSocket)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	client := podresources.NewPodResourcesListerClient(conn)
	list, err := client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, nil, err
	}
	all, err := client.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, nil, err
	}
	devices := map[string][]string{}
	for _, d := range all.Devices {
		devices[d.ResourceName] = append(devices[d.ResourceName], d.DeviceIds...)
	}
	return list.PodResources, devices, nil
}

// readPod joins what the kubelet says of a pod with its cgroup.
func readPod(pod *v1.Pod, resources []*podresources.PodResources, pids map[string]int) report.Pod {
	p := report.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
		Phase: string(pod.Status.Phase), Reason: pod.Status.Reason, Message: pod.Status.Message,
	}
	var own *podresources.PodResources
	for _, r := range resources {
		if r.Namespace == pod.Namespace && r.Name == pod.Name {
			own = r
		}
	}
	p.CPUIDs = list(own.GetCpuIds())
	add := func(spec v1.Container, kind string, statuses []v1.ContainerStatus) {
		p.Containers = append(p.Containers, readContainer(spec.Name, kind, statuses, own, pids))
	}
	for _, spec := range pod.Spec.InitContainers {
		kind := report.Init
		if spec.RestartPolicy != nil && *spec.RestartPolicy == v1.ContainerRestartPolicyAlways {
			kind = report.Sidecar
		}
		add(spec, kind, pod.Status.InitContainerStatuses)
	}
	for _, spec := range pod.Spec.Containers {
		add(spec, report.App, pod.Status.ContainerStatuses)
	}
	for _, spec := range pod.Spec.EphemeralContainers {
		add(v1.Container(spec.EphemeralContainerCommon), report.Ephemeral, pod.Status.EphemeralContainerStatuses)
	}
	p.Cgroup = podCgroup(p)
	if p.Cgroup != "" {
		fsys := os.DirFS(filepath.Join(cgroupRoot, p.Cgroup))
		p.CPUMax, p.MemoryMax = text(fsys, "cpu.max"), text(fsys, "memory.max")
	}
	return p
}

// podCgroup is the parent of any of the pod's running containers, and is looked
// for by the pod's UID where none runs.
func podCgroup(p report.Pod) string {
	for _, c := range p.Containers {
		if c.Cgroup != "" {
			return path.Dir(c.Cgroup)
		}
	}
	for _, class := range []string{"", "burstable", "besteffort"} {
		cgroup := path.Join("/kubepods", class, "pod"+p.UID)
		if _, err := os.Stat(filepath.Join(cgroupRoot, cgroup)); err == nil {
			return cgroup
		}
	}
	return ""
}

func readContainer(name, kind string, statuses []v1.ContainerStatus, pod *podresources.PodResources, pids map[string]int) report.Container {
	c := report.Container{Name: name, Kind: kind, State: "waiting"}
	for _, s := range statuses {
		if s.Name != name {
			continue
		}
		_, c.ID, _ = strings.Cut(s.ContainerID, "://")
		c.RestartedByNode = s.RestartCount
		switch {
		case s.State.Running != nil:
			c.State = "running"
		case s.State.Terminated != nil:
			c.State = "terminated"
			c.Message = s.State.Terminated.Reason + " " + s.State.Terminated.Message
		case s.State.Waiting != nil:
			c.Message = s.State.Waiting.Reason + " " + s.State.Waiting.Message
		}
	}
	for _, r := range pod.GetContainers() {
		if r.Name == name {
			c.CPUIDs = list(r.GetCpuIds())
			var devices []string
			for _, d := range r.GetDevices() {
				devices = append(devices, d.DeviceIds...)
			}
			c.DeviceIDs = report.JoinDevices(devices)
		}
	}
	c.Isolation = isolation(pod, c)
	if pid := pids[c.ID]; pid != 0 {
		readProcess(&c, pid)
	}
	return c
}

// isolation derives a container's isolation level: CPUs of its own, or of its
// pod, or none. A standard init container is not listed by podresources, so its
// level is not known; an ephemeral container is not, either, and has none.
func isolation(pod *podresources.PodResources, c report.Container) string {
	switch {
	case c.Kind == report.Init:
		return ""
	case c.Kind == report.Ephemeral:
		return report.IsolationHost
	case c.CPUIDs != "":
		return report.IsolationContainer
	case len(pod.GetCpuIds()) > 0:
		return report.IsolationPod
	}
	return report.IsolationHost
}

func list(ids []int64) string {
	set := make([]int, 0, len(ids))
	for _, id := range ids {
		set = append(set, int(id))
	}
	return cpuset.New(set...).String()
}

// readStates reads the managers' checkpoints. The checksum is left out: it
// depends on the encoding and says nothing of its own.
func readStates(folder string) map[string]json.RawMessage {
	states := map[string]json.RawMessage{}
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			continue
		}
		var content map[string]any
		if json.Unmarshal(data, &content) != nil {
			content = map[string]any{"unreadable": string(data)}
		}
		delete(content, "checksum")
		delete(content, "dataChecksum")
		if states[name], err = json.Marshal(content); err != nil {
			delete(states, name)
		}
	}
	return states
}
