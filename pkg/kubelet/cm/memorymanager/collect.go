// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// collectPeriod is how often the manager looks for pods that are gone, so that
// what they had is free again within 10 s, slow disks included.
const collectPeriod = 5 * time.Second

// activeSet holds the containers of the active pods, by pod UID and name.
type activeSet map[string]map[string]bool

func activeSetOf(pods []*v1.Pod) activeSet {
	active := make(activeSet, len(pods))
	for _, pod := range pods {
		names := make(map[string]bool, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
		for i := range pod.Spec.InitContainers {
			names[pod.Spec.InitContainers[i].Name] = true
		}
		for i := range pod.Spec.Containers {
			names[pod.Spec.Containers[i].Name] = true
		}
		active[string(pod.UID)] = names
	}
	return active
}

// keeps answers Records.Keep.
func (a activeSet) keeps(podUID, container string) bool {
	names, ok := a[podUID]
	return ok && (container == "" || names[container])
}

// collect takes back what is recorded of pods that are gone, all in one write,
// or with the write of the open admission. It does nothing until the kubelet
// knows all of its pods. The pod that is being admitted keeps what it has.
//
// The active pods are listed under the lock: were a pod admitted between the
// listing and the removal, it would lose what it was just given.
func (m *manager) collect(logger klog.Logger, admitting string) {
	if m.activePods == nil || m.sourcesReady == nil {
		return
	}
	pods := m.activePods()
	records := m.know(logger, pods)
	if !m.sourcesReady.AllReady() {
		return
	}
	active := activeSetOf(pods)
	for _, uid := range []string{admitting, m.admitting()} {
		// Whatever the listing says, its containers are kept as well.
		if uid != "" && active[uid] == nil {
			active[uid] = map[string]bool{}
			for name := range records.Pod(uid).Containers {
				active[uid][name] = true
			}
		}
	}
	maps.DeleteFunc(m.runningBefore, func(uid string, _ bool) bool { return active[uid] == nil })
	maps.DeleteFunc(m.seen, func(uid string, _ map[string]numa.Set) bool { return active[uid] == nil })
	maps.DeleteFunc(m.containers, func(_ string, ref containerRef) bool { return !active.keeps(ref.podUID, ref.name) })

	kept, stale := records.Keep(active.keeps)
	if !stale && !m.store.Load().Unsure() {
		return
	}
	if a := m.transaction(admitting); a != nil {
		a.active = active
		return
	}
	if err := m.replace(kept); err != nil {
		logger.Error(err, "Could not bring the memory manager's state file up to date; memory of pods that are gone stays taken until it succeeds")
		return
	}
	logger.V(2).Info("Took back the memory of pods that are gone", "podsBefore", records.Len(), "podsNow", kept.Len())
}

// know notes, beside what is recorded of pods, what they ask for, where that is
// not known: after a start of the kubelet. It returns the records.
func (m *manager) know(logger klog.Logger, pods []*v1.Pod) memplan.Records {
	records, learnt := m.published().Records(), false
	for _, pod := range pods {
		if records.Knows(string(pod.UID)) {
			continue
		}
		if asked, err := specOf(pod); err == nil && asked.Managed {
			records, learnt = records.Know(asked), true
		}
	}
	if learnt {
		// The file stays as it is.
		if err := m.replace(records); err != nil {
			logger.Error(err, "Cannot note what pods ask for")
		}
	}
	return m.published().Records()
}

// learn notes what a pod asks for that is admitted as it is.
func (m *manager) learn(logger klog.Logger, pod podplan.Pod) {
	records, news := m.published().Records().Learn(pod)
	if !news {
		return
	}
	// The file stays as it is.
	if err := m.replace(records); err != nil {
		logger.Error(err, "Cannot note what a pod asks for")
	}
}

// admitting is the pod of the open admission, if there is one.
func (m *manager) admitting() string {
	if m.admission != nil && m.admission.open {
		return m.admission.podUID
	}
	return ""
}

// collectForEver collects periodically until the context ends.
func (m *manager) collectForEver(ctx context.Context) {
	ticker := time.NewTicker(collectPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.mu.Lock()
			m.collect(klog.FromContext(ctx), "")
			m.mu.Unlock()
		}
	}
}

// logShortage tells where more is recorded than the machine has, which is when
// it has shrunk under pods that run.
func logShortage(logger klog.Logger, host memplan.Host) {
	for node := range host.Nodes() {
		for _, r := range node.Resources {
			if r.Missing > 0 {
				logger.Info("Pods have more memory than the machine, or what is not reserved of it; they keep it, and nothing more is given from there",
					"numaNodes", node.Group.String(), "resource", r.Name, "allocatable", numa.Bytes(r.Allocatable), "missing", numa.Bytes(r.Missing))
			}
		}
	}
}
