// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"errors"
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
	if os.Getenv("PODSLICE_STOCK") == "" {
		t.Skip("PODSLICE_STOCK names no kubelet to go back to")
	}
	mixed := `mixed cpu=4 memory=256Mi
	          sidecar logs
	          app main cpu=2 memory=64Mi
	          app helper`
	plain := `plain
	          app a cpu=2 memory=64Mi`

	t.Run("scope container", func(t *testing.T) {
		r := startRollback(t, "container", mixed, plain)
		// Both can be done over running pods.
		r.exchange(node.Stock, r.gateOn)
		r.stay("upstream's kubelet, gate on")
		r.exchange(node.Stock, r.gateOff)
		r.stay("upstream's kubelet, gate off")
		r.exchange(node.UnderTest, r.gateOn)
		r.stay("ours again")
	})

	t.Run("scope pod", func(t *testing.T) {
		r := startRollback(t, "pod", mixed, plain)
		n := r.n
		// Without a drain it does not start, and harms nothing.
		must(t, n.StopKubelet(ctx))
		must(t, n.UseKubelet(ctx, node.Stock))
		// It may be healthy for a moment.
		if err := n.StartKubelet(ctx, r.gateOff); err != nil {
			say("upstream's kubelet, gate off: %s", strings.SplitN(err.Error(), "\n", 2)[0])
		}
		must(t, n.WaitEnded(ctx))
		log, err := n.Guest.Output(ctx, "tail -n 100 /var/log/kubelet.log")
		must(t, err)
		if !strings.Contains(log, "the expected machine state is different from the real one") {
			t.Errorf("upstream's kubelet ended, and not over the memory of the pod:\n%s", log)
		}
		r.same("upstream's kubelet that does not start")
		r.exchange(node.UnderTest, r.gateOn)
		r.stay("ours again")

		// With one it does, and other pods stay.
		must(t, n.RemovePod(ctx, r.pods[0]))
		drained := r.pods[0]
		r.pods = r.pods[1:]
		r.exchange(node.Stock, r.gateOff)
		r.stay("upstream's kubelet, gate off, after a drain")
		r.exchange(node.UnderTest, r.gateOn)
		r.stay("ours after that")
		must(t, n.AddPod(ctx, drained))
		back, err := n.WaitRunning(ctx, drained)
		must(t, err)
		equal(t, "CPUs of the pod when it is back", parse(t, back.Pod(drained.NodeName).CPUIDs).Size(), 4)

		// With its gate on it places the pod again, which fails, or moves it.
		must(t, n.StopKubelet(ctx))
		must(t, n.UseKubelet(ctx, node.Stock))
		must(t, n.StartKubelet(ctx, r.gateOn))
		now, err := n.WaitRunning(ctx, drained)
		if failed := new(node.FailedError); errors.As(err, &failed) {
			say("upstream's kubelet, gate on, without a drain: %v", failed)
		} else {
			must(t, err)
			was, is := back.Pod(drained.NodeName).CPUIDs, now.Pod(drained.NodeName).CPUIDs
			if was == is {
				t.Errorf("upstream's kubelet left the pod on CPUs %s: docs/upgrade.md says that pods must be drained", is)
			}
		}
		r.stay("upstream's kubelet, gate on")
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

func startRollback(t *testing.T, scope string, pods ...string) *rollback {
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
	must(t, n.StartKubelet(ctx, r.gateOn))
	waitAll(t, n, r.pods)
	r.before, err = n.Running(ctx)
	must(t, err)
	return r
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
	list, err := r.n.Running(ctx)
	must(r.t, err)
	now := map[string]report.Running{}
	for _, c := range list {
		now[c.ID] = c
	}
	place := func(c report.Running) [4]string {
		return [4]string{c.CPUs, c.CPUsAllowed, c.Mems, c.MemsAllowed}
	}
	for _, old := range r.before {
		for _, m := range r.pods {
			if m.NodeName != old.Pod {
				continue
			}
			c := now[old.ID]
			equal(r.t, what+": process of container "+old.Name+" of pod "+old.Pod, c.PID, old.PID)
			equal(r.t, what+": CPUs and NUMA nodes of container "+old.Name+" of pod "+old.Pod, place(c), place(old))
		}
	}
}
