// SPDX-License-Identifier: Apache-2.0

package model

import (
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/simnode"
)

// checkDown judges a kubelet that does not start: it must start over live pods with
// whatever it starts with on an idle node.
func (w *world) checkDown(text string) error {
	n := w.node()
	if w.files.cpuText != nil {
		// One manager may have started, and have begun to do its work.
		var err error
		if w.files, err = w.files.read(n); err != nil {
			return err
		}
	}
	idle := simnode.New(n.TB)
	idle.Info, idle.Settings = n.Info, n.Settings
	defer func() {
		idle.Stop()
	}()
	if err := idle.Start(); err == nil {
		return wrong("start", "the kubelet does not start, but would on an idle node: %s", text)
	}
	return nil
}

// checkStart judges what a pod holds after a new kubelet has started. What is on
// record is kept, with these exceptions:
//
//   - the CPU manager's policy none gives no pod anything, and takes what it has;
//   - CPUs that have gone offline are lost. A pod that runs keeps the others; a pod
//     that does not is allocated anew. If a slice is lost, the pod shared pool makes
//     room for another one;
//   - a pod that has not started, and of which one manager has nothing, is placed
//     anew;
//   - what is not on record is given now, if it can be had: to a pod of which there
//     was nothing, or to containers that lack theirs.
func (w *world) checkStart(e event, before past, pod *v1.Pod, then, now holding) error {
	n := w.node()
	uid := string(pod.UID)
	a := asksOf(pod, n.Settings)
	if before.unchanged(n) && e.name() == "restart" && !w.scattered[pod.Name] && !slices.Contains(named(e, "terminating"), pod.Name) && then.cpus.equal(now.cpus) && then.memory.equal(now.memory) {
		// Affinities come back, if they were what all managers had wanted, or what
		// is on record of them.
		for i, t := range then.told {
			// Nodes that have whole cores for a pod need not have them for each of
			// its containers.
			back := now.told[i].affinity
			if t.preferred && !wholeCores(n.Settings) && back != t.affinity && (back < 0 || back&^t.affinity != 0) {
				return wrong("hint", "pod %s: %s %s: of its containers it was told %+v, is told %+v", pod.Name, now.cpus, now.memory, then.told, now.told)
			}
		}
	}
	if w.isHalf(pod, a, before) {
		w.seen["pods placed anew"]++
		if !now.cpus.isEmpty() {
			if err := w.checkCPUs(pod, a, now.cpus, false); err != nil {
				return err
			}
		}
		if now.memory.isEmpty() {
			return nil
		}
		return w.checkAmounts(pod, a, now.memory, false)
	}
	if !staticCPU(n.Settings) {
		if !now.cpus.isEmpty() {
			return wrong("moved", "pod %s has %s under the policy none", pod.Name, now.cpus)
		}
		if !then.cpus.isEmpty() {
			w.seen["pods released"]++
		}
	} else {
		recorded := before.files.cpus[uid]
		if e.name() == "crash" && pod.Name == e.admits() {
			return w.checkNew(pod, now)
		}
		if err := w.checkRestored(pod, a, recorded, now.cpus); err != nil {
			return err
		}
	}
	recorded := before.files.memory[uid]
	switch {
	case recorded.isEmpty() && staticMemory(n.Settings):
		if now.memory.isEmpty() {
			return nil
		}
		return w.checkAmounts(pod, a, now.memory, false)
	case lacksMemory(pod, a, recorded) && staticMemory(n.Settings):
		if !sameBlocks(recorded.pod, now.memory.pod) {
			return wrong("moved", "pod %s had %s, has %s", pod.Name, recorded, now.memory)
		}
		return nil
	case !recorded.equal(now.memory):
		return wrong("moved", "pod %s had %s, has %s", pod.Name, recorded, now.memory)
	}
	return nil
}

// isHalf reports whether one manager has something of the pod on record that it
// goes by, and the other has nothing of what the pod asks for. As long as the pod
// has not started, such a pod is placed anew.
func (w *world) isHalf(pod *v1.Pod, a asks, before past) bool {
	n := w.node()
	if w.runs(pod) || !staticCPU(n.Settings) || !staticMemory(n.Settings) {
		return false
	}
	uid := string(pod.UID)
	cpus, memory := before.files.cpus[uid], before.files.memory[uid]
	hasCPUs := !cpus.isEmpty() && cpus.all().IsSubsetOf(n.CPU.GetAllCPUs())
	return hasCPUs == memory.isEmpty() && (a.podCPUs > 0 || len(a.cpus) > 0) && len(a.podMemory)+len(a.memory) > 0
}

// checkRestored judges CPUs that were on record.
func (w *world) checkRestored(pod *v1.Pod, a asks, recorded, now cpuHolding) error {
	online := w.node().CPU.GetAllCPUs()
	lost := recorded.all().Difference(online)
	left := cpuHolding{pod: recorded.pod.Intersection(online), containers: map[string]cpuset.CPUSet{}}
	for name, cpus := range recorded.containers {
		if cpus = cpus.Intersection(online); !cpus.IsEmpty() {
			left.containers[name] = cpus
		}
	}
	if !lost.IsEmpty() && !w.runs(pod) {
		left = cpuHolding{}
	}
	if !lost.IsEmpty() {
		w.seen["pods that lose CPUs"]++
		w.scattered[pod.Name] = true
	}
	if left.isEmpty() {
		if now.isEmpty() {
			return nil
		}
		w.seen["pods given CPUs later"]++
		return w.checkCPUs(pod, a, now, false)
	}
	if len(left.containers) == 0 && !alike(left.pod, now.pod) {
		// None of its containers has anything any more: it is placed anew.
		w.seen["pods given CPUs later"]++
		return w.checkCPUs(pod, a, now, false)
	}
	if !alike(left.pod, now.pod) {
		return wrong("moved", "pod %s had %s, has %s, online are %s", pod.Name, recorded, now, online)
	}
	sharing := map[string]bool{}
	if !left.pod.IsEmpty() && lacksCPUs(pod, asks{cpus: own(pod)}, left) {
		// The pod shared pool makes room for slices that are missing.
		for c := range simnode.Containers(pod) {
			sharing[c.Name] = own(pod)[c.Name] == 0
		}
	}
	for name, cpus := range left.containers {
		if sharing[name] && !now.containers[name].IsEmpty() && now.containers[name].IsSubsetOf(left.pod) {
			continue
		}
		if got, ok := now.containers[name]; !ok || !alike(got, cpus) {
			return wrong("moved", "pod %s, container %s: the pod had %s, has %s, online are %s", pod.Name, name, recorded, now, online)
		}
	}
	for name, cpus := range now.containers {
		if _, kept := left.containers[name]; kept {
			continue
		}
		if left.pod.IsEmpty() && a.cpus[name] != cpus.Size() || !left.pod.IsEmpty() && !cpus.IsSubsetOf(left.pod) {
			return wrong("moved", "pod %s, container %s: the pod had %s, has %s, online are %s", pod.Name, name, recorded, now, online)
		}
	}
	return nil
}

// runs reports whether the runtime knows containers of the pod.
func (w *world) runs(pod *v1.Pod) bool {
	running := false
	w.node().Running().Visit(func(uid, _, _ string) { running = running || uid == string(pod.UID) })
	return running
}

// lacksMemory reports whether a container has not got what it asks for.
func lacksMemory(pod *v1.Pod, a asks, h memoryHolding) bool {
	has := func(name string) bool { return len(h.containers[name]) > 0 }
	if a.whole && len(h.pod) == 0 && len(h.containers) == 0 {
		return true
	}
	for name := range a.memory {
		if !has(name) {
			return true
		}
	}
	if len(h.pod) > 0 {
		for c := range simnode.Containers(pod) {
			if !has(c.Name) {
				return true
			}
		}
	}
	return false
}

// checkRestart judges the restart as a whole: which pods are refused, and that a
// second one changes nothing.
func (w *world) checkRestart(e event, before past) error {
	n := w.node()
	for _, pod := range w.runner.Killed {
		uid := string(pod.UID)
		if before.running[uid] && !slices.Contains(named(e, "lost"), pod.Name) {
			return wrong("killed", "pod %s runs and is refused by a new kubelet", pod.Name)
		}
		recorded, memory := before.files.cpus[uid], before.files.memory[uid]
		a := asksOf(pod, n.Settings)
		if e.name() == "crash" && pod.Name == e.admits() || recorded.isEmpty() && memory.isEmpty() ||
			!staticCPU(n.Settings) || !staticMemory(n.Settings) ||
			!recorded.all().IsSubsetOf(n.CPU.GetAllCPUs()) || lacksCPUs(pod, a, recorded) || lacksMemory(pod, a, memory) {
			continue
		}
		return wrong("killed", "pod %s has all that it asks for (%s %s) and is refused by a new kubelet", pod.Name, recorded, memory)
	}
	unchanged := before.unchanged(n) && len(named(e, "lost")) == 0 && !w.broken()
	if e.name() == "restart" && unchanged && before.restarted && !before.files.equal(w.files) {
		return wrong("restart", "a second restart writes: %v %v, then %v %v", before.files.cpus, before.files.memory, w.files.cpus, w.files.memory)
	}
	w.restarted = !w.broken() && len(w.runner.Killed) == 0 && len(named(e, "terminating")) == 0
	return nil
}

// unchanged reports whether configuration and machine are what they were.
func (p past) unchanged(n *simnode.Node) bool {
	return reflect.DeepEqual(p.settings, n.Settings) && p.machine == n.Info
}

// named is the pods that the event names in an argument.
func named(e event, argument string) []string {
	_, list, _ := strings.Cut(e.line, " "+argument+"=(")
	list, _, _ = strings.Cut(list, ")")
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// own is how many CPUs containers ask for, for themselves.
func own(pod *v1.Pod) map[string]int {
	cpus := map[string]int{}
	for c := range simnode.Containers(pod) {
		if guaranteed(c) {
			cpus[c.Name] = whole(c.Resources.Limits)
		}
	}
	return cpus
}

// lacksCPUs reports whether a container has not got what it asks for.
func lacksCPUs(pod *v1.Pod, a asks, h cpuHolding) bool {
	for c := range simnode.Containers(pod) {
		if _, has := h.containers[c.Name]; !has && (a.cpus[c.Name] > 0 || !h.pod.IsEmpty() || a.whole && a.podCPUs > 0) {
			return true
		}
	}
	return false
}
