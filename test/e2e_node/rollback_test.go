// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
)

// TestRollback runs the steps of docs/rollout.md: upstream's kubelet of the same
// release in the place of ours over running pods, with the gate on and off, and
// ours again. What becomes of the pods is what docs/upgrade.md says.
func TestRollback(t *testing.T) {
	if os.Getenv("PODSLICE_STOCK") == "" || strings.HasSuffix(os.Getenv("PODSLICE_KUBELET"), "-stock") {
		t.Skip("there are not two kubelets to exchange")
	}
	mixed := `mixed cpu=4 memory=256Mi
	          sidecar logs
	          app main cpu=2 memory=64Mi
	          app helper`
	plain := `plain
	          app a cpu=2 memory=64Mi`

	t.Run("scope container", func(t *testing.T) {
		if leftOut(false) {
			t.Skip("not a smoke test")
		}
		r := startRollback(t, node.UnderTest, true, "container", mixed, plain)
		// Both can be done over running pods.
		r.exchange(node.Stock, r.gateOn)
		r.stay("upstream's kubelet, gate on")
		r.exchange(node.Stock, r.gateOff)
		r.stay("upstream's kubelet, gate off")
		r.exchange(node.UnderTest, r.gateOn)
		r.stay("ours again")
	})

	t.Run("scope pod", func(t *testing.T) {
		r := startRollback(t, node.Stock, false, "pod", mixed, plain)
		n, budget := r.n, r.pods[0]
		// Ours in upstream's place moves nothing; the gate gives the pod what it asks
		// for, while it runs.
		r.exchange(node.UnderTest, r.gateOff)
		r.stay("ours, gate off")
		r.exchange(node.UnderTest, r.gateOn)
		now := waitAll(t, n, r.pods).Pod(budget.NodeName)
		equal(t, "CPUs of the pod with a budget", parse(t, now.CPUIDs).Size(), 4)
		equal(t, "CPUs of its exclusive container", parse(t, named(t, now, "main").CPUs).Size(), 2)
		r.sameProcesses("ours, gate on")
		r.look()

		// Without a drain upstream's kubelet does not start, and harms nothing.
		r.doesNotStart()
		r.same("upstream's kubelet that does not start")
		r.exchange(node.UnderTest, r.gateOn)
		r.stay("ours again")
		if leftOut(false) {
			return
		}

		// With one it does, and other pods stay.
		must(t, n.RemovePod(ctx, budget))
		both := r.pods
		r.pods = r.pods[1:]
		r.exchange(node.Stock, r.gateOff)
		r.stay("upstream's kubelet, gate off, after a drain")
		r.exchange(node.UnderTest, r.gateOn)
		r.stay("ours after that")
		must(t, n.AddPod(ctx, budget))
		back, err := n.WaitRunning(ctx, budget)
		must(t, err)
		equal(t, "CPUs of the pod when it is back", parse(t, back.Pod(budget.NodeName).CPUIDs).Size(), 4)

		// With its gate on it places the pod anew, which kills or moves it.
		r.exchange(node.Stock, r.gateOn)
		after, err := n.WaitRunning(ctx, budget)
		if failed := new(node.FailedError); errors.As(err, &failed) {
			say("rollback: upstream's kubelet, gate on, without a drain: %v", failed)
		} else {
			must(t, err)
			was, is := back.Pod(budget.NodeName).CPUIDs, after.Pod(budget.NodeName).CPUIDs
			say("rollback: upstream's kubelet, gate on, without a drain: CPUs %s become %s", was, is)
			if was == is {
				t.Errorf("upstream's kubelet left the pod on CPUs %s: docs/upgrade.md says that pods must be drained", is)
			}
		}
		r.stay("upstream's kubelet, gate on")

		// The last resort is to delete the files when all pods are gone.
		r.pods = both
		r.exchange(node.UnderTest, r.gateOn)
		waitAll(t, n, r.pods)
		r.doesNotStart()
		must(t, n.DropPods(ctx, r.pods...))
		_, err = n.Guest.Output(ctx, node.Programs+"/nodereport remove-pods && rm /var/lib/kubelet/{cpu,memory}_manager_state")
		must(t, err)
		must(t, n.StartKubelet(ctx, r.gateOff))
		must(t, n.AddPod(ctx, r.pods[1]))
		fresh, err := n.WaitRunning(ctx, r.pods[1])
		must(t, err)
		equal(t, "CPUs of a pod on deleted files", parse(t, fresh.Pod(r.pods[1].NodeName).Containers[0].CPUs).Size(), 2)
	})
}

// rollback is a node with pods, whose kubelet is exchanged.
type rollback struct {
	t               *testing.T
	n               *node.Node
	gateOn, gateOff node.Config
	pods            []node.Manifest
	before          []report.Running
}

// startRollback starts a kubelet with pods, with the gate PodLevelResourceManagers
// on or off.
func startRollback(t *testing.T, kubelet string, gate bool, scope string, pods ...string) *rollback {
	n := freshNode(t)
	_, err := n.Guest.Output(ctx, "rm -rf "+matrixFolder+" && mkdir -p "+matrixFolder)
	must(t, err)
	r := &rollback{t: t, n: n, gateOn: node.Pinned(shape, "single-numa-node", scope)}
	r.gateOff = r.gateOn
	r.gateOff.Gates = map[string]bool{node.GatePodLevelResources: true, node.GatePodLevelResourceManagers: false}
	for _, text := range pods {
		r.pods = append(r.pods, matrixPod(t, text))
	}
	must(t, n.AddPods(ctx, r.pods...))
	config := r.gateOff
	if gate {
		config = r.gateOn
	}
	r.exchange(kubelet, config)
	waitAll(t, n, r.pods)
	r.look()
	return r
}

// look remembers where the pods are.
func (r *rollback) look() {
	r.t.Helper()
	var err error
	r.before, err = r.n.Running(ctx)
	must(r.t, err)
}

// doesNotStart has upstream's kubelet, with its gate off, end over what is on
// record of a pod with a budget.
func (r *rollback) doesNotStart() {
	t := r.t
	t.Helper()
	must(t, r.n.StopKubelet(ctx))
	must(t, r.n.UseKubelet(ctx, node.Stock))
	// It may be healthy before it ends.
	if err := r.n.StartKubelet(ctx, r.gateOff); err == nil {
		say("rollback: upstream's kubelet, gate off: healthy at first")
	}
	must(t, r.n.WaitEnded(ctx))
	log, err := r.n.Guest.Output(ctx, "tail -n 100 /var/log/kubelet.log")
	must(t, err)
	if !strings.Contains(log, "the expected machine state is different from the real one") {
		t.Errorf("upstream's kubelet ended, and not over the memory of the pod:\n%s", log)
	}
	say("rollback: upstream's kubelet, gate off, without a drain: does not start")
}

// exchange starts another kubelet over the running pods.
func (r *rollback) exchange(kubelet string, config node.Config) {
	r.t.Helper()
	must(r.t, r.n.StopKubelet(ctx))
	must(r.t, r.n.UseKubelet(ctx, kubelet))
	must(r.t, r.n.StartKubelet(ctx, config))
}

// stay waits until the kubelet runs the pods, and asserts that they are as before.
func (r *rollback) stay(what string) {
	r.t.Helper()
	waitAll(r.t, r.n, r.pods)
	r.same(what)
	say("rollback: %s: %d pods stay", what, len(r.pods))
}

// same asserts that the processes of the pods are where they were.
func (r *rollback) same(what string) {
	r.t.Helper()
	r.compare(what, func(c report.Running) string {
		return fmt.Sprintf("process %d on CPUs %s (%s), NUMA nodes %s (%s)", c.PID, c.CPUs, c.CPUsAllowed, c.Mems, c.MemsAllowed)
	})
}

// sameProcesses asserts that the processes of the pods are the same.
func (r *rollback) sameProcesses(what string) {
	r.t.Helper()
	r.compare(what, func(c report.Running) string { return fmt.Sprintf("process %d", c.PID) })
}

func (r *rollback) compare(what string, text func(report.Running) string) {
	r.t.Helper()
	list, err := r.n.Running(ctx)
	must(r.t, err)
	now := map[string]report.Running{}
	for _, c := range list {
		now[c.ID] = c
	}
	for _, old := range r.before {
		for _, m := range r.pods {
			if m.NodeName == old.Pod {
				equal(r.t, what+": container "+old.Name+" of pod "+old.Pod, text(now[old.ID]), text(old))
			}
		}
	}
}
