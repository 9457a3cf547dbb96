// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
	"github.com/podslice/podslice/test/e2e_node/statecheck"
)

// defaultAdmissions is how many pods are admitted, if SOAK_ADMISSIONS says nothing
// else.
const defaultAdmissions = 20

// When the kubelet is killed. Admissions are over a second or two after the pods
// were added; their containers start in the time after that. A kubelet that starts
// reads the state files and admits all pods again within some seconds.
const (
	killAdmitting = 2 * time.Second
	killStarting  = 15 * time.Second
	killRestarted = 8 * time.Second
)

// TestSoak adds and removes pods of many shapes while the kubelet is killed with
// SIGKILL at random moments, and again while it starts. Whatever ran when it died
// must run on, with the same id, process, CPUs, memory nodes and limits; the state
// files must be whole as the dead kubelet has left them and as the next one has
// completed them, to a plain verifier and to upstream's own managers; what is
// recorded must be what the kernel has; and what is gone must be free. In the end
// all pods go, and one is admitted that needs every CPU.
//
// The scope changes from one kubelet to the next: pods keep what they have.
func TestSoak(t *testing.T) {
	onlyWhole(t)
	s := &soak{t: t, want: number(t, "SOAK_ADMISSIONS", defaultAdmissions)}
	seed := uint64(number(t, "SOAK_SEED", int(time.Now().UnixNano()&0xffffffff)))
	say("soak: SOAK_SEED=%d SOAK_ADMISSIONS=%d", seed, s.want)
	s.random = rand.New(rand.NewPCG(seed, 0))
	s.shapes = deck{random: s.random}

	s.n = freshNode(t)
	_, err := s.n.Guest.Output(ctx, fmt.Sprintf("rm -rf %[1]s && mkdir -p %[1]s", matrixFolder))
	must(t, err)
	s.config = node.Pinned(shape, "restricted", "pod")
	must(t, s.n.StartKubelet(ctx, s.config))
	r, err := s.n.Report(ctx)
	must(t, err)
	s.machine = machineOf(t, s.n, r, s.config)
	for s.admitted < s.want {
		s.round()
		if t.Failed() {
			t.Fatalf("SOAK_SEED=%d, round %d", seed, s.rounds)
		}
	}
	s.end()
	say("soak: %d admissions, %d removals, %d kills, %d of them of a kubelet that was just starting; %d kills left pods on record of which nothing ran",
		s.admitted, s.removed, s.kills, s.killsAtStart, s.halfway)
}

func number(t *testing.T, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: want a number above 0", variable, text)
	}
	return n
}

// soak is a node and what should be on it.
type soak struct {
	t       *testing.T
	n       *node.Node
	config  node.Config
	machine statecheck.Machine
	random  *rand.Rand
	shapes  deck
	live    []soakPod
	leaving []soakPod // removed since the node was at rest
	before  []running // what ran when somebody looked last

	want, admitted, removed, rounds int
	kills, killsAtStart             int
	halfway                         int // kills that left pods on record of which nothing ran
}

// roundsToSettle is after how many rounds the node may come to rest. Until then,
// pods are removed that have hardly begun.
const roundsToSettle = 3

// round adds and removes some pods, kills the kubelet meanwhile, and starts it
// again. Now and then it waits until all is as it should be, and looks.
func (s *soak) round() {
	t := s.t
	s.rounds++
	began := time.Now()
	add, drop := s.choose()
	window := killAdmitting
	if s.rounds%2 == 0 {
		window = killStarting
	}
	after := s.moment(window)
	must(t, s.n.KillDuring(ctx, manifestsOf(add), manifestsOf(drop), after))
	s.kills++
	say("soak: round %d: %d pods added, %d removed, %d live with %d CPUs; killed after %.1f s",
		s.rounds, len(add), len(drop), len(s.live), cpusOf(s.live), after.Seconds())
	s.unmoved(s.look())
	for s.random.IntN(3) == 0 {
		at := s.moment(killRestarted)
		must(t, s.n.StartAndKill(ctx, at))
		s.kills, s.killsAtStart = s.kills+1, s.killsAtStart+1
		say("soak: killed again %.1f s after its start", at.Seconds())
		s.unmoved(s.look())
	}
	// Whatever the scope is now, pods keep what they have.
	s.config.Scope = []string{"pod", "container"}[s.random.IntN(2)]
	must(t, s.n.StartKubelet(ctx, s.config))
	if s.rounds%roundsToSettle == 0 || s.room() < soakCPUs/4 || s.admitted == s.want {
		s.unmoved(s.settle())
		s.leaving = nil
	}
	say("soak: round %d took %.0f s", s.rounds, time.Since(began).Seconds())
}

// choose takes pods off the list of live ones and puts others on it.
func (s *soak) choose() (add, drop []soakPod) {
	var stay []soakPod
	for _, p := range s.live {
		if s.random.IntN(2) == 0 {
			drop = append(drop, p)
		} else {
			stay = append(stay, p)
		}
	}
	s.leaving = append(s.leaving, drop...)
	s.removed += len(drop)
	s.live = stay
	for s.admitted < s.want && len(s.live) < soakPods && len(add) < soakBatch {
		shape := s.shapes.next()
		if shape.cpus > s.room() {
			break
		}
		s.admitted++
		p := newSoakPod(s.t, s.admitted, shape)
		add, s.live = append(add, p), append(s.live, p)
	}
	return add, drop
}

// room is the CPUs that can still be given out. Pods that go have theirs until
// they are gone.
func (s *soak) room() int { return soakCPUs - cpusOf(s.live) - cpusOf(s.leaving) }

func (s *soak) moment(window time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(window)))
}

// end removes all pods and has the node give all CPUs to one.
func (s *soak) end() {
	t := s.t
	must(t, s.n.DropPods(ctx, manifestsOf(s.live)...))
	s.removed += len(s.live)
	s.leaving, s.live = append(s.leaving, s.live...), nil
	s.settle()
	// CPUs of both nodes with memory of one: nothing that restricted would allow.
	s.config.TopologyPolicy = "best-effort"
	must(t, s.n.StopKubelet(ctx))
	must(t, s.n.StartKubelet(ctx, s.config))
	all := s.machine.Info.NumCores - s.machine.ReservedCPUs.Size()
	last := newSoakPod(t, 0, soakShape{all, fmt.Sprintf("cpu=%[1]d memory=128Mi\napp a cpu=%[1]d memory=64Mi", all)})
	must(t, s.n.AddPod(ctx, last.manifest))
	s.live = []soakPod{last}
	s.settle()
	r, err := s.n.Report(ctx)
	must(t, err)
	cpus := parse(t, named(t, r.Pod(last.manifest.NodeName), "a").CPUs)
	equal(t, "CPUs of a pod that wants all", cpus.Size(), all)
}

// unmoved compares what ran when it was called last with what runs now. Pods that
// were to go may have gone, and init containers may have ended.
func (s *soak) unmoved(now []running) {
	gone := map[string]bool{}
	for _, p := range s.leaving {
		gone[p.manifest.NodeName] = true
	}
	after := map[string]running{}
	for _, c := range now {
		after[c.ID] = c
	}
	for _, old := range s.before {
		c, ok := after[old.ID]
		switch {
		case gone[old.Pod] || !ok && s.isInit(old):
			continue
		case !ok:
			s.t.Errorf("container %s of pod %s, %s, does not run any more", old.Name, old.Pod, old.ID)
			continue
		case !old.recorded:
			// In the node shared pool, which grows and shrinks.
			c.CPUs, c.CPUsEffective, c.CPUsAllowed = old.CPUs, old.CPUsEffective, old.CPUsAllowed
		}
		c.recorded = old.recorded
		equal(s.t, "container "+old.Name+" of pod "+old.Pod, c, old)
	}
	s.before = now
}

func (s *soak) isInit(c running) bool {
	for _, p := range s.live {
		if p.manifest.NodeName != c.Pod {
			continue
		}
		for _, init := range p.spec.Spec.InitContainers {
			if init.Name == c.Name {
				return init.RestartPolicy == nil
			}
		}
	}
	return false
}

// running is a container that runs, and whether it has CPUs on record.
type running struct {
	report.Running
	recorded bool
}
