// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

// node is what outlives a kubelet.
type node struct {
	side, dir string
	settings
	managers
	devs    *devices
	runtime *fakeRuntime
	log     *logged
	logger  klog.Logger
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	pods    []*v1.Pod
	started map[string]bool
}

func newNode(side, dir string) *node {
	n := &node{side: side, dir: dir, started: map[string]bool{}, log: &logged{}}
	n.runtime = newFakeRuntime()
	n.settings = settings{policy: "restricted", scope: "pod", cpuPolicy: "static", memoryPolicy: "Static", reserved: "0", period: time.Hour}
	return n
}

// logged is what the kubelet logs at its default verbosity.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) write(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.text, prefix, args)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wrong ends the scenario: this is the fault.
func (n *node) wrong(format string, args ...any) { panic(wrong(fmt.Sprintf(format, args...))) }

// want ends the scenario unless the condition holds.
func (n *node) want(condition bool, format string, args ...any) {
	if !condition {
		n.wrong(format, args...)
	}
}

// must ends the scenario for an error that has nothing to do with the fault.
func must(err error) {
	if err != nil {
		panic(broken(err.Error()))
	}
}

func (n *node) active() []*v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.pods)
}

func (n *node) AddSource(string) {}
func (n *node) AllReady() bool   { return true }

// begin starts the first kubelet.
func (n *node) begin(change func(*settings)) {
	if change != nil {
		change(&n.settings)
	}
	n.boot()
}

// boot starts a kubelet without admitting anything.
func (n *node) boot() {
	err := n.tryBoot()
	n.want(err == nil, "the kubelet does not start: %v", err)
}

// tryBoot is boot where an error may be right.
func (n *node) tryBoot() error {
	if n.cancel != nil {
		n.cancel()
	}
	must(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.PodLevelResourceManagers):     !n.gateOff,
		string(features.CPUManagerPolicyAlphaOptions): true,
		string(features.CPUManagerPolicyBetaOptions):  true,
	}))
	n.logger = funcr.New(n.log.write, funcr.Options{Verbosity: 2})
	n.ctx, n.cancel = context.WithCancel(klog.NewContext(context.Background(), n.logger))
	if n.devices != nil && n.devs == nil {
		n.devs = &devices{at: n.devices, held: map[string][]int{}}
	}
	start := startOurs
	if n.side == upstream {
		start = startUpstream
	}
	var err error
	n.managers, err = start(n)
	return err
}

// restart starts a new kubelet with changed settings, which admits all pods
// again. None of them may be refused or moved.
func (n *node) restart(change func(*settings)) {
	n.mayMove(change)
}

// mayMove is restart; the pods that are named may get other CPUs and memory.
func (n *node) mayMove(change func(*settings), movable ...string) {
	before := n.views()
	if change != nil {
		change(&n.settings)
	}
	n.boot()
	for _, pod := range n.active() {
		result := n.ask(pod, lifecycle.AddOperation)
		n.want(result.Admit, "running pod %s is refused: %s", pod.Name, brief(result))
	}
	after := n.views()
	for _, who := range slices.Sorted(maps.Keys(before)) {
		pod, _, _ := strings.Cut(who, "/")
		if !slices.Contains(movable, pod) {
			n.want(before[who] == after[who], "%s moves from %s to %s", who, before[who], after[who])
		}
	}
}

func brief(r lifecycle.PodAdmitResult) string {
	return fmt.Sprintf("%s: %s", r.Reason, strings.TrimPrefix(r.Message, "Allocate failed due to "))
}

func (n *node) ask(pod *v1.Pod, operation lifecycle.Operation) lifecycle.PodAdmitResult {
	return n.topology.Admit(n.ctx, &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: n.active(), Operation: operation})
}

// try asks for a new pod, which the kubelet has from now on if it is admitted.
func (n *node) try(text string) (*v1.Pod, lifecycle.PodAdmitResult) {
	pod := parsePod(text)
	n.add(pod)
	result := n.ask(pod, lifecycle.AddOperation)
	if !result.Admit {
		n.forget(pod.Name)
	}
	return pod, result
}

// admit wants a pod to be admitted, and starts its containers.
func (n *node) admit(text string) *v1.Pod {
	pod, result := n.try(text)
	n.want(result.Admit, "pod %s is refused: %s", pod.Name, brief(result))
	n.start(pod.Name)
	for _, c := range containersOf(pod) {
		n.startContainer(pod, c)
	}
	return pod
}

// start is the moment from which the pod's containers are in its status.
func (n *node) start(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.started[name] = true
}

func (n *node) runs(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.started[name]
}

func (n *node) startContainer(pod *v1.Pod, c *v1.Container) {
	n.runtime.create(containerID(pod, c), n.cpu.GetCPUAffinity(string(pod.UID), c.Name))
	n.addContainer(pod, c, containerID(pod, c))
}

// addContainer is the kubelet's last word before a container runs.
func (n *node) addContainer(pod *v1.Pod, c *v1.Container, id string) {
	n.cpu.AddContainer(n.logger, pod, c, id)
	n.memory.AddContainer(n.logger, pod, c, id)
	n.topology.AddContainer(n.logger, pod, c, id)
}

// end is the end of a pod and of its containers.
func (n *node) end(pod *v1.Pod) {
	for _, c := range containersOf(pod) {
		n.runtime.remove(containerID(pod, c))
		must(n.topology.RemoveContainer(n.logger, containerID(pod, c)))
	}
	n.forget(pod.Name)
}

func (n *node) add(pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = append(n.pods, pod)
}

func (n *node) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = slices.DeleteFunc(n.pods, func(pod *v1.Pod) bool { return pod.Name == name })
}

// wantPool wants the node shared pool to have exactly these CPUs.
func (n *node) wantPool(cpus string) {
	n.want(n.sharedPool().String() == cpus, "the node shared pool has %s and not %s", cpuText(n.sharedPool()), cpus)
}

// wantReserved wants so much memory to be taken.
func (n *node) wantReserved(amount string) {
	want, got := resource.MustParse(amount), resource.NewQuantity(int64(n.reservedMemory("memory")), resource.BinarySI)
	n.want(want.Cmp(*got) == 0, "%s of memory are counted as taken and not %s", got, amount)
}

func cpuText(cpus cpuset.CPUSet) string {
	if cpus.IsEmpty() {
		return "no CPUs"
	}
	return "CPUs " + cpus.String()
}

// exclusive is the CPUs that the container has of its own, and shared what it
// may run on.
func (n *node) exclusive(pod *v1.Pod, container string) cpuset.CPUSet {
	return n.cpu.GetExclusiveCPUs(string(pod.UID), container)
}

func (n *node) affinity(pod *v1.Pod, container string) cpuset.CPUSet {
	return n.cpu.GetCPUAffinity(string(pod.UID), container)
}

func (n *node) mems(pod *v1.Pod, container string) []int {
	for _, c := range containersOf(pod) {
		if c.Name == container {
			return sets.List(n.memory.GetMemoryNUMANodes(n.logger, pod, c))
		}
	}
	panic(broken("no container " + container))
}

// views says of each container where it is; of those in the node shared pool
// only that.
func (n *node) views() map[string]string {
	views := map[string]string{}
	for _, pod := range n.active() {
		for _, c := range containersOf(pod) {
			text := "the node shared pool"
			level := n.cpu.GetResourceIsolationLevel(pod, c)
			if level != cmqos.ResourceIsolationHost {
				text = cpuText(n.affinity(pod, c.Name))
				if level == cmqos.ResourceIsolationPod {
					text += " (shared)"
				}
			}
			if nodes := n.mems(pod, c.Name); len(nodes) > 0 {
				text += fmt.Sprintf(", memory of %v", nodes)
			}
			views[pod.Name+"/"+c.Name] = text
		}
	}
	return views
}

func (n *node) readFile(name string) string {
	text, err := os.ReadFile(filepath.Join(n.dir, name))
	must(err)
	return string(text)
}

func (n *node) writeFile(name, text string) {
	must(os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600))
}
