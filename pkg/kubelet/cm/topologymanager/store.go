// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"sync"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// maxIdlePods bounds how many pods without a container keep their hints. The
// topology manager is not told when a pod ends, only when a container is
// removed; a pod that is admitted here and rejected by a later handler has none.
const maxIdlePods = 1024

// hintStore keeps the affinity of each container by which it was placed. All
// methods may be called at any time from any goroutine.
type hintStore struct {
	mu   sync.Mutex
	pods map[string]*podHints      // by pod UID
	ids  map[string]containerOfPod // by container ID
	tick uint64
}

type podHints struct {
	affinity map[string]numa.Hint // by container name
	ids      map[string]int       // how many container IDs a name has
	born     uint64
}

type containerOfPod struct {
	pod, name string
}

func newHintStore() *hintStore {
	return &hintStore{pods: map[string]*podHints{}, ids: map[string]containerOfPod{}}
}

// pod returns the pod's entry, making it if need be.
func (s *hintStore) pod(uid string) *podHints {
	p := s.pods[uid]
	if p == nil {
		s.tick++
		p = &podHints{affinity: map[string]numa.Hint{}, ids: map[string]int{}, born: s.tick}
		s.pods[uid] = p
		s.evict(uid)
	}
	return p
}

// evict drops the oldest idle pod, except the one that is just being made,
// when there are too many.
func (s *hintStore) evict(except string) {
	idle, oldest := 0, ""
	if len(s.pods) <= maxIdlePods {
		return
	}
	for uid, p := range s.pods {
		if len(p.ids) > 0 || uid == except {
			continue
		}
		idle++
		if oldest == "" || p.born < s.pods[oldest].born {
			oldest = uid
		}
	}
	if idle >= maxIdlePods {
		delete(s.pods, oldest)
	}
}

// tidy drops the pod's entry when nothing is left in it.
func (s *hintStore) tidy(uid string) {
	if p := s.pods[uid]; p != nil && len(p.affinity) == 0 && len(p.ids) == 0 {
		delete(s.pods, uid)
	}
}

func (s *hintStore) get(uid, container string) (numa.Hint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil {
		return numa.Hint{}, false
	}
	hint, ok := p.affinity[container]
	return hint, ok
}

func (s *hintStore) set(uid, container string, hint numa.Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pod(uid).affinity[container] = hint
}

func (s *hintStore) forget(uid, container string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[uid]; p != nil {
		delete(p.affinity, container)
		s.tidy(uid)
	}
}

// addContainer notes that the container runs, or is about to, under an ID.
func (s *hintStore) addContainer(uid, container, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropID(id)
	s.ids[id] = containerOfPod{uid, container}
	s.pod(uid).ids[container]++
}

// removeContainer drops the hint of the container, unless it has another ID by
// now: then it was restarted, and the hint is that of the new one.
func (s *hintStore) removeContainer(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.dropID(id)
	if !ok {
		return
	}
	if p := s.pods[c.pod]; p != nil && p.ids[c.name] == 0 {
		delete(p.affinity, c.name)
	}
	s.tidy(c.pod)
}

func (s *hintStore) dropID(id string) (containerOfPod, bool) {
	c, ok := s.ids[id]
	if !ok {
		return c, false
	}
	delete(s.ids, id)
	if p := s.pods[c.pod]; p != nil {
		if p.ids[c.name]--; p.ids[c.name] <= 0 {
			delete(p.ids, c.name)
		}
	}
	return c, true
}

// recorder is the part of the store that belongs to one pod, as the core wants
// it.
type recorder struct {
	store *hintStore
	uid   string
}

func (r recorder) Affinity(container string) (numa.Hint, bool) { return r.store.get(r.uid, container) }

func (r recorder) Record(container string, affinity numa.Hint) {
	r.store.set(r.uid, container, affinity)
}

func (r recorder) Forget(container string) { r.store.forget(r.uid, container) }
