// SPDX-License-Identifier: Apache-2.0

package running

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/utils/cpuset"
)

// The kubelet's runtime lists and tells.
var _ interface {
	lister
	teller
} = internalapi.RuntimeService(nil)

// cri has containers by ID; a nil one has ended.
type cri map[string]*runtimeapi.LinuxContainerResources

func (c cri) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	linux, ok := c[id]
	switch {
	case !ok:
		return nil, errors.New("no such container")
	case linux == nil:
		return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED,
			Resources: &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: "7"}}}}, nil
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING,
		Resources: &runtimeapi.ContainerResources{Linux: linux}}}, nil
}

// lists lists, too, in a way that does not heed the filter.
type lists struct {
	cri
	err error
}

func (l lists) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	var list []*runtimeapi.Container
	for id, linux := range l.cri {
		state := runtimeapi.ContainerState_CONTAINER_RUNNING
		if linux == nil {
			state = runtimeapi.ContainerState_CONTAINER_EXITED
		}
		list = append(list, &runtimeapi.Container{Id: id, State: state})
	}
	return list, l.err
}

func TestAsk(t *testing.T) {
	runtime := cri{
		"1": {CpusetCpus: "1-2", CpusetMems: "0"}, "2": {CpusetCpus: "0,3-7"}, "2-before": nil, "3": nil, "4": {CpusetCpus: "x"}, "foreign": {CpusetCpus: "5"},
	}
	known := containermap.NewContainerMap()
	for _, c := range [][3]string{{"p", "a", "1"}, {"p", "b", "2"}, {"p", "b", "2-before"}, {"ended", "a", "3"}, {"q", "a", "4"}} {
		known.Add(c[0], c[1], c[2])
	}
	text := func(pods Pods) map[string]string {
		all := map[string]string{}
		for uid, containers := range pods {
			for name, b := range containers {
				all[uid+"/"+name] = b.CPUs.String() + " on " + b.NUMANodes.String()
			}
		}
		return all
	}
	bound := map[string]string{"p/a": "1-2 on 0", "p/b": "0,3-7 on ", "q/a": " on "}
	everything := map[string]string{"p/a": "1-2 on 0", "p/b": "0,3-7 on ", "q/a": " on ", "ended/a": " on "}
	nothing := map[string]string{"p/a": " on ", "p/b": " on ", "q/a": " on ", "ended/a": " on "}
	for name, test := range map[string]struct {
		runtime any
		want    map[string]string
	}{
		"lists and tells": {lists{cri: runtime}, bound},
		"cannot list":     {runtime, everything},
		"fails to list":   {lists{runtime, errors.New("away")}, everything},
		"knows nothing":   {struct{}{}, nothing},
		"is not there":    {nil, nothing},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, text(Ask(context.Background(), test.runtime, known))) })
	}
	require.Empty(t, Ask(context.Background(), nil, containermap.NewContainerMap()))
	require.Equal(t, cpuset.New(), parse("9-1"))
}
