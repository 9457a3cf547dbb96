// SPDX-License-Identifier: Apache-2.0

// Package running asks the container runtime which containers run and what they
// are bound to, for managers whose state file is damaged or gone.
//
// The kubelet hands the managers a runtime of which they know that it updates
// containers. The one that it really is lists containers and tells their status,
// too; with one that does not, every container that the kubelet knows is taken to
// run, on resources that are not known. The runtime repeats what it was told to
// bind a container to. Whether that is the container's own it does not know.
package running

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/utils/cpuset"
)

// maxCalls is how many calls are made at a time.
const maxCalls = 16

// patience is how long the runtime is asked at the longest. The kubelet does not
// start before.
const patience = 30 * time.Second

// lister and teller are the parts of the CRI by which is asked.
type lister interface {
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

type teller interface {
	ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
}

// Binding is what a container runs on. Either is empty if it is not known, or if
// the container is not bound.
type Binding struct {
	CPUs, NUMANodes cpuset.CPUSet
}

// Pods has the containers that run, by pod UID and name.
type Pods map[string]map[string]Binding

// Ask returns which of the known containers run. The list of those that the
// kubelet gets when it starts has ended ones, too.
func Ask(ctx context.Context, runtime any, known containermap.ContainerMap) Pods {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type container struct{ podUID, name, id string }
	var all []container
	known.Visit(func(podUID, name, id string) { all = append(all, container{podUID, name, id}) })
	if len(all) == 0 {
		return nil
	}
	runs, err := list(ctx, runtime)
	if err != nil {
		logger.Error(err, "The runtime does not tell which containers run; all that there are count as running")
	} else {
		all = slices.DeleteFunc(all, func(c container) bool { return !runs[c.id] })
	}
	bindings := make([]Binding, len(all))
	workqueue.ParallelizeUntil(ctx, maxCalls, len(all), func(i int) {
		bindings[i] = status(ctx, logger, runtime, all[i].id)
	})
	pods := Pods{}
	for i, c := range all {
		if pods[c.podUID] == nil {
			pods[c.podUID] = map[string]Binding{}
		}
		// Of containers of one name at most one runs.
		if _, twice := pods[c.podUID][c.name]; !twice || !bindings[i].CPUs.IsEmpty() || !bindings[i].NUMANodes.IsEmpty() {
			pods[c.podUID][c.name] = bindings[i]
		}
	}
	return pods
}

func list(ctx context.Context, runtime any) (map[string]bool, error) {
	l, ok := runtime.(lister)
	if !ok {
		return nil, fmt.Errorf("%T lists no containers", runtime)
	}
	containers, err := l.ListContainers(ctx, &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		return nil, err
	}
	runs := make(map[string]bool, len(containers))
	for _, c := range containers {
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			runs[c.GetId()] = true
		}
	}
	return runs, nil
}

// status is nothing if the runtime does not say.
func status(ctx context.Context, logger klog.Logger, runtime any, id string) Binding {
	t, ok := runtime.(teller)
	if !ok {
		return Binding{}
	}
	response, err := t.ContainerStatus(ctx, id, false)
	if err != nil {
		logger.Error(err, "The runtime does not tell on what a container runs", "containerID", id)
		return Binding{}
	}
	if response.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return Binding{}
	}
	linux := response.GetStatus().GetResources().GetLinux()
	return Binding{CPUs: parse(linux.GetCpusetCpus()), NUMANodes: parse(linux.GetCpusetMems())}
}

func parse(text string) cpuset.CPUSet {
	set, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.New()
	}
	return set
}
