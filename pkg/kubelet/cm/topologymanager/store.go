// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"sync"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// hintStore keeps the affinity of each container by which it was placed, for as
// long as its pod is known. The topology manager is not told when a pod goes:
// neither when another handler refuses it after us, nor when it ends. That a
// container is removed means nothing, since the kubelet removes the old one of a
// container that restarts before it starts the new one. So hints are forgotten
// when an admission lists the pods that there are, see retain.
//
// All methods may be called at any time from any goroutine.
type hintStore struct {
	mu   sync.Mutex
	pods map[string]map[string]numa.Hint // by pod UID and container name
}

func newHintStore() *hintStore {
	return &hintStore{pods: map[string]map[string]numa.Hint{}}
}

func (s *hintStore) get(uid, container string) (numa.Hint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hint, ok := s.pods[uid][container]
	return hint, ok
}

func (s *hintStore) set(uid, container string, hint numa.Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods[uid] == nil {
		s.pods[uid] = map[string]numa.Hint{}
	}
	s.pods[uid][container] = hint
}

func (s *hintStore) forget(uid, container string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods[uid], container)
	if len(s.pods[uid]) == 0 {
		delete(s.pods, uid)
	}
}

// retain forgets all pods but the known ones.
func (s *hintStore) retain(known map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.pods {
		if !known[uid] {
			delete(s.pods, uid)
		}
	}
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
