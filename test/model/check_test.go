// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/test/simnode"
)

// check looks at everything after an event:
//
//   - what simnode.CheckInvariants says;
//   - the state files can be read and say what the managers tell; what is free is
//     what there is without what is held, for CPUs and for each kind of memory;
//   - a pod that was there before holds what it held, to the CPU, block, isolation
//     level and affinity; for a new kubelet, see checkStart;
//   - a new pod has what it asks for, by the plain rules, and no reserved CPUs; of
//     one that is refused there is nothing anywhere;
//   - of pods that have ended, nothing is left after the next admission, or after
//     a while;
//   - what is counted is what was given, and nothing twice;
//   - a resize changes nothing.
func (w *world) check(e event, before past, text string) (err error) {
	n := w.node()
	if w.counts, err = readCounts(); err != nil {
		return err
	}
	switch e.name() {
	case "node", "restart", "crash":
		if e.name() == "crash" && w.runner.Refused != nil {
			break
		}
		if w.runner.Down {
			w.seen["kubelets that do not start"]++
			return w.checkDown(text)
		}
	}
	starts := e.name() == "restart" || e.name() == "crash" && w.runner.Refused == nil
	if starts {
		w.behind = w.broken()
	}
	before.gone = len(w.gone)
	w.noteEnd()
	if !w.broken() && len(w.gone) == 0 {
		// Else the node shared pool need not have all that no pod has.
		if err := n.CheckInvariants(); err != nil {
			return wrong("invariant", "%v", err)
		}
	}
	if err := w.checkFiles(); err != nil {
		return err
	}
	if err := w.checkTotals(); err != nil {
		return err
	}
	for _, pod := range n.Active() {
		now := look(n, pod)
		if err := now.levels(pod); err != nil {
			return err
		}
		then, known := w.held[pod.Name]
		switch {
		case !known && e.name() != "crash":
			err = w.checkNew(pod, now)
		case starts:
			err = w.checkStart(e, before, pod, then, now)
		default:
			err = same(pod, then, now)
		}
		if err != nil {
			return err
		}
		w.held[pod.Name] = now
	}
	if err := w.checkGone(e, before, starts); err != nil {
		return err
	}
	if err := w.checkCounts(e, before, starts); err != nil {
		return err
	}
	if starts {
		return w.checkRestart(e, before)
	}
	if e.name() == "resize" {
		return w.checkResize(e, before)
	}
	if pod := w.runner.Refused; pod != nil && !w.broken() && !before.files.equal(w.files) {
		return wrong("refused", "pod %s is refused (%s), and what pods have changes: %v %v, then %v %v", pod.Name, w.runner.Result.Message,
			before.files.cpus, before.files.memory, w.files.cpus, w.files.memory)
	}
	return nil
}

// noteEnd notes which pods are gone.
func (w *world) noteEnd() {
	n := w.node()
	for name := range w.held {
		if n.Pod(name) == nil {
			delete(w.held, name)
			w.gone = append(w.gone, "uid-"+name)
		}
	}
	for _, pod := range w.runner.Killed {
		if uid := string(pod.UID); !slices.Contains(w.gone, uid) {
			w.gone = append(w.gone, uid) // it came with a kubelet that died
		}
	}
	w.seen["pods killed"] += len(w.runner.Killed)
	if w.runner.Refused != nil {
		w.seen["pods refused"]++
		w.forgotten = append(w.forgotten, string(w.runner.Refused.UID))
	}
}

// same checks that nothing has changed for a pod.
func same(pod *v1.Pod, then, now holding) error {
	if !then.cpus.equal(now.cpus) {
		return wrong("moved", "pod %s had %s, has %s", pod.Name, then.cpus, now.cpus)
	}
	if !then.memory.equal(now.memory) {
		return wrong("moved", "pod %s had %s, has %s", pod.Name, then.memory, now.memory)
	}
	if !slices.Equal(then.told, now.told) {
		return wrong("moved", "of the containers of pod %s it was told %+v, is told %+v", pod.Name, then.told, now.told)
	}
	return nil
}

// checkNew checks that a new pod has what it asks for.
func (w *world) checkNew(pod *v1.Pod, now holding) error {
	n := w.node()
	a := asksOf(pod, n.Settings)
	switch {
	case a.whole:
		w.seen["pods with a budget"]++
	case !now.cpus.isEmpty():
		w.seen["pods with exclusive containers"]++
	default:
		w.seen["pods without CPUs"]++
	}
	if !staticCPU(n.Settings) {
		if !now.cpus.isEmpty() {
			return wrong("amount", "pod %s has %s under the policy none", pod.Name, now.cpus)
		}
	} else if err := w.checkCPUs(pod, a, now.cpus, true); err != nil {
		return err
	}
	if !staticMemory(n.Settings) {
		if !now.memory.isEmpty() {
			return wrong("amount", "pod %s has %s under the policy None", pod.Name, now.memory)
		}
		return nil
	}
	return w.checkAmounts(pod, a, now.memory, true)
}

// checkCPUs checks the CPUs of a pod that was allocated just now: how many they
// are, and that none is reserved. If complete is set, nothing may be missing.
func (w *world) checkCPUs(pod *v1.Pod, a asks, h cpuHolding, complete bool) error {
	n := w.node()
	if !h.all().Intersection(n.Reserved()).IsEmpty() {
		return wrong("reserved", "pod %s has %s, reserved are %s", pod.Name, h, n.Reserved())
	}
	if size := h.pod.Size(); a.whole && size != a.podCPUs && (complete || size > 0) || !a.whole && size != 0 {
		return wrong("amount", "pod %s has %s, its budget is %d CPUs", pod.Name, h, a.podCPUs)
	}
	for c := range simnode.Containers(pod) {
		cpus, has := h.containers[c.Name]
		want := a.cpus[c.Name]
		switch {
		case !has && (want > 0 || a.whole && a.podCPUs > 0) && (complete || !h.pod.IsEmpty()):
			return wrong("amount", "pod %s, container %s has no CPUs: %s", pod.Name, c.Name, h)
		case !has:
		case want > 0 && cpus.Size() != want, want == 0 && (h.pod.IsEmpty() || cpus.IsEmpty()):
			return wrong("amount", "pod %s, container %s asks for %d CPUs: %s", pod.Name, c.Name, want, h)
		case a.whole && !cpus.IsSubsetOf(h.pod):
			return wrong("amount", "pod %s, container %s has CPUs that its pod has not: %s", pod.Name, c.Name, h)
		}
	}
	return nil
}

// checkAmounts is checkCPUs for memory. Of what an init container had, later
// containers have a part.
func (w *world) checkAmounts(pod *v1.Pod, a asks, h memoryHolding, complete bool) error {
	sums := map[string]uint64{}
	for _, b := range h.pod {
		sums[string(b.Type)] += b.Size
	}
	for name, size := range sums {
		if size != a.podMemory[name] {
			return wrong("amount", "pod %s has %s, its budget is %v", pod.Name, h, a.podMemory)
		}
	}
	if complete && len(sums) != len(a.podMemory) || !a.whole && len(sums) > 0 {
		return wrong("amount", "pod %s has %s, its budget is %v", pod.Name, h, a.podMemory)
	}
	init := standardInit(pod)
	for c := range simnode.Containers(pod) {
		want := a.memory[c.Name]
		blocks, has := h.containers[c.Name]
		if want == nil && has && len(h.pod) == 0 || !has && (want != nil || a.whole) && (complete || len(h.pod) > 0) {
			return wrong("amount", "pod %s, container %s asks for %v: %s", pod.Name, c.Name, want, h)
		}
		if want == nil || !has {
			continue
		}
		for _, b := range blocks {
			if size := want[string(b.Type)]; b.Size > size || b.Size < size && !(init[c.Name] && len(h.pod) == 0) {
				return wrong("amount", "pod %s, container %s asks for %v: %s", pod.Name, c.Name, want, h)
			}
		}
		if len(blocks) != len(want) {
			return wrong("amount", "pod %s, container %s asks for %v: %s", pod.Name, c.Name, want, h)
		}
	}
	return nil
}

// checkGone checks that pods that ended are forgotten when they must be.
func (w *world) checkGone(e event, before past, starts bool) error {
	n := w.node()
	admitted := e.name() == "admit" && w.runner.Refused == nil || starts && len(n.Active()) > len(named(e, "terminating"))
	waited := false
	if e.name() == "wait" {
		d, err := time.ParseDuration(e.pod())
		waited = err == nil && d >= 15*time.Second
	}
	cpu := waited || admitted && aligns(n.Settings)
	memory := waited || admitted && staticMemory(n.Settings)
	for _, uid := range w.gone[:before.gone] {
		if h, ok := w.files.cpus[uid]; ok && cpu && !w.brokenCPU && !w.behind && staticCPU(n.Settings) {
			return wrong("leak", "%s has ended, and has %s", uid, h)
		}
		if h, ok := w.files.memory[uid]; ok && memory && !w.brokenMemory && !w.behind {
			return wrong("leak", "%s has ended, and has %s", uid, h)
		}
	}
	w.gone = slices.DeleteFunc(w.gone, func(uid string) bool {
		_, cpus := w.files.cpus[uid]
		_, memory := w.files.memory[uid]
		if !cpus && !memory {
			w.forgotten = append(w.forgotten, uid)
		}
		return !cpus && !memory
	})
	if len(w.forgotten) > 8 {
		w.forgotten = w.forgotten[len(w.forgotten)-8:]
	}
	for _, uid := range w.forgotten {
		if _, ok := w.files.cpus[uid]; ok {
			return wrong("leak", "%s was forgotten, and has CPUs again", uid)
		}
		if _, ok := w.files.memory[uid]; ok {
			return wrong("leak", "%s was forgotten, and has memory again", uid)
		}
		if !admitted {
			continue
		}
		for _, c := range containerNames {
			if hint := n.Topology.GetAffinity(n.Logger, uid, c); hint.NUMANodeAffinity != nil {
				return wrong("leak", "%s has ended, and its container %s has the affinity %v", uid, c, hint.NUMANodeAffinity)
			}
		}
	}
	return nil
}

// checkCounts checks that allocations are counted if there are any, and only then.
func (w *world) checkCounts(e event, before past, starts bool) error {
	cpus, memory := w.counts.cpus()-before.counts.cpus(), w.counts.memory()-before.counts.memory()
	failed := w.counts.failed() - before.counts.failed()
	admits := e.name() == "admit" || e.name() == "crash"
	if !admits && !starts && (cpus != 0 || memory != 0 || failed != 0) {
		return wrong("counter", "%v CPU and %v memory allocations counted, %v failures, by %q", cpus, memory, failed, e.line)
	}
	if w.runner.Refused != nil && (cpus != 0 || memory != 0) {
		return wrong("counter", "%v CPU and %v memory allocations counted of a pod that is refused", cpus, memory)
	}
	if e.name() == "admit" && w.runner.Refused == nil {
		h := w.held[e.admits()]
		if (cpus > 0) == h.cpus.isEmpty() || (memory > 0) == h.memory.isEmpty() || failed != 0 && !w.broken() {
			return wrong("counter", "%v CPU and %v memory allocations counted, %v failures, of pod %s: %s %s", cpus, memory, failed, e.admits(), h.cpus, h.memory)
		}
	}
	if e.name() == "restart" && before.files.equal(w.files) && (cpus != 0 || memory != 0) {
		return wrong("counter", "%v CPU and %v memory allocations counted by a restart that gives nothing", cpus, memory)
	}
	return nil
}

func (f files) equal(o files) bool {
	return string(f.cpuText) == string(o.cpuText) && string(f.memoryText) == string(o.memoryText)
}

// wholeCores reports whether only whole cores are given out.
func wholeCores(s simnode.Settings) bool {
	return s.CPUOptions[cpumanager.FullPCPUsOnlyOption] == "true"
}
