// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"

	"github.com/podslice/podslice/test/differential/scenario"
)

const stateFile = "cpu_manager_state"

// manager is what a side does with a real manager. Its errors are texts.
type managerUnderTest interface {
	// start makes a new manager, which gives up the one before.
	start(containermap.ContainerMap) error
	stop()
	setAffinity(pod, container string, any bool, nodes uint64)
	podHints(*v1.Pod) *[]hint
	hints(*v1.Pod, *v1.Container) *[]hint
	allocatePod(*v1.Pod) error
	allocate(*v1.Pod, *v1.Container) error
	addContainer(*v1.Pod, *v1.Container, string)
	snapshot() snapshot
	views([]*v1.Pod) map[string]string
	begin(pod string)
	commit(pod string) error
	rollback(pod string) error
}

// side plays calls on one of the managers.
type side struct {
	*kubelet
	managerUnderTest
	// transactions has our manager's allocations staged until the pod is
	// admitted. The kubelet's own has no such thing.
	transactions bool
	admitting    string
}

// kubelet is what the managers see around them.
type kubelet struct {
	scenario *scenario.Scenario
	// dir has the state file. It may become another one below base.
	base, dir string
	specs     map[string]*v1.Pod

	// mu guards what managers ask for in the background too.
	mu     sync.Mutex
	active []string
}

func newKubelet(s *scenario.Scenario, dir string) *kubelet {
	k := &kubelet{scenario: s, base: dir, dir: dir, specs: map[string]*v1.Pod{}}
	for _, e := range s.Events {
		if e.Admit != nil {
			k.specs[e.Admit.Name] = e.Admit.Spec()
		}
	}
	return k
}

// setGates sets the gates of the whole process.
func setGates(podLevel bool) {
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.PodLevelResourceManagers):     podLevel,
		string(features.CPUManagerPolicyAlphaOptions): true,
		string(features.CPUManagerPolicyBetaOptions):  true,
	})
	if err != nil {
		panic(err)
	}
}

func (k *kubelet) activePods() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	pods := make([]*v1.Pod, len(k.active))
	for i, name := range k.active {
		pods[i] = k.specs[name]
	}
	return pods
}

func (k *kubelet) setActive(names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active = append([]string(nil), names...)
}

// GetPodStatus has nothing to reconcile: the decisions are what is compared.
func (k *kubelet) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

func (k *kubelet) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}

// ContainerStatus says that every container runs: so changes are not lost.
func (k *kubelet) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}, nil
}

func (k *kubelet) options() map[string]string {
	options := map[string]string{}
	for _, name := range k.scenario.Settings.Options {
		options[name] = "true"
	}
	return options
}

func (k *kubelet) reservation() v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(k.scenario.Settings.ReservedCount), resource.DecimalSI)}
}

func containersOf(pod *v1.Pod) []v1.Container {
	return append(append([]v1.Container(nil), pod.Spec.InitContainers...), pod.Spec.Containers...)
}

func containerID(pod, container string) string { return pod + "-" + container }

// probe asks for nothing; managers find out who is gone when they look at it.
var probe = &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "probe"}}}}

// play does one call.
func (s *side) play(c call) outcome {
	var o outcome
	pod := s.specs[c.Pod]
	var container *v1.Container
	if pod != nil {
		for _, each := range containersOf(pod) {
			if each.Name == c.Container {
				container = &each
			}
		}
	}
	var err error
	switch c.Op {
	case opStart:
		s.stop()
		s.setActive(c.Active)
		running := containermap.NewContainerMap()
		for _, pod := range s.activePods() {
			for _, each := range containersOf(pod) {
				running.Add(string(pod.UID), each.Name, containerID(pod.Name, each.Name))
			}
		}
		if err = s.start(running); err != nil {
			return outcome{Err: err.Error()}
		}
		o.Views = s.views(s.activePods())
	case opArrive:
		if !c.Again {
			s.setActive(append(s.active, c.Pod))
		}
		if s.transactions {
			s.admitting = c.Pod
			s.begin(c.Pod)
		}
	case opPodHints:
		o.Hints = s.podHints(pod)
	case opHints:
		o.Hints = s.hints(pod, container)
	case opAllocatePod:
		for _, each := range containersOf(pod) {
			s.setAffinity(c.Pod, each.Name, c.Any, c.Near)
		}
		err = s.allocatePod(pod)
	case opAllocate:
		s.setAffinity(c.Pod, c.Container, c.Any, c.Near)
		err = s.allocate(pod, container)
	case opAdmitted:
		if s.admitting != "" {
			err = s.commit(c.Pod)
			s.admitting = ""
		}
		for _, each := range containersOf(pod) {
			s.addContainer(pod, &each, containerID(c.Pod, each.Name))
		}
		o.Views = s.views(s.activePods())
	case opDrop:
		if s.admitting != "" {
			err = s.rollback(c.Pod)
			s.admitting = ""
		}
		var left []string
		for _, name := range s.active {
			if name != c.Pod {
				left = append(left, name)
			}
		}
		s.setActive(left)
		s.podHints(probe)
		o.Views = s.views(s.activePods())
	}
	if err != nil {
		o.Err = err.Error()
	}
	o.State = s.snapshot()
	return o
}

// file reads the state file.
func (s *side) file() []byte {
	data, err := os.ReadFile(filepath.Join(s.dir, stateFile))
	if err != nil {
		panic(err)
	}
	return data
}

// scratch is a place for state files, in memory if possible: managers write
// durably, and a disk would take longer than everything else.
func scratch() string {
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "podslice-differential-")
	if err != nil {
		panic(err)
	}
	return dir
}
