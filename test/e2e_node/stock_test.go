// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
)

// plainPod has no budget of its own: what the static policies always did for a
// Guaranteed pod.
const plainPod = `
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: default}
spec:
  terminationGracePeriodSeconds: 5
  initContainers:
  - name: sidecar
    image: ` + node.ImageBusybox + `
    imagePullPolicy: Never
    restartPolicy: Always
    command: ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 3600 & wait; done"]
    resources:
      requests: {cpu: 500m, memory: 1Gi}
      limits: {cpu: 500m, memory: 1Gi}
  containers:
  - name: main
    image: ` + node.ImageBusybox + `
    imagePullPolicy: Never
    command: ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 3600 & wait; done"]
    resources:
      requests: {cpu: "4", memory: 4Gi}
      limits: {cpu: "4", memory: 4Gi}
`

// TestStockBehaviour runs pods where pod-level resource managers are not asked
// for: the kubelet must then do what a stock one does. The expected values were
// recorded with the kubelet of upstream's v1.37.2 on the same machine:
// make test-e2e-node KUBELET=stock RUN=TestStockBehaviour
func TestStockBehaviour(t *testing.T) {
	onlyWhole(t)
	plain, err := node.ParseManifest([]byte(plainPod))
	must(t, err)
	database := example(t, "tightly-coupled-database")

	pinned := node.Pinned(shape, "single-numa-node", "pod")
	bothOff, managersOff, none := pinned, pinned, pinned
	bothOff.Gates = map[string]bool{
		node.GatePodLevelResources: false, node.GatePodLevelResourceManagers: false,
		// On by default, and the kubelet refuses them without the first.
		"InPlacePodLevelResourcesVerticalScaling": false,
		"PodLevelResourcesFixDefaulting":          false,
		"PodLevelResourcesFixKubeletQOSClass":     false,
	}
	managersOff.Gates = map[string]bool{node.GatePodLevelResources: true, node.GatePodLevelResourceManagers: false}
	none.CPUPolicy, none.MemoryPolicy, none.TopologyPolicy = "none", "None", "none"

	for _, test := range []struct {
		name   string
		config node.Config
		pod    node.Manifest
		want   string
	}{
		{"both gates off, pod with a budget", bothOff, database, `
refused: PodLevelResourcesNotSupported: Pod was rejected: PodLevelResources feature gate is disabled
`},
		{"both gates off, pod without", bothOff, plain, `
pod: cpu.max "max 100000", memory.max 5368709120
sidecar: isolation host, cpus "0-1,6-23", mems "0", cpu.max "50000 100000", memory.max 1073741824
main: isolation container, cpus "2-5", mems "0", cpu.max "max 100000", memory.max 4294967296
`},
		{"managers gate off, pod with a budget", managersOff, database, `
pod: cpu.max "800000 100000", memory.max 17179869184
metrics-exporter: isolation host, cpus "0-23", mems "", cpu.max "800000 100000", memory.max 17179869184
backup-agent: isolation host, cpus "0-23", mems "", cpu.max "800000 100000", memory.max 17179869184
database: isolation host, cpus "0-23", mems "", cpu.max "600000 100000", memory.max 12884901888
`},
		{"both gates on, pod without a budget", pinned, plain, `
pod: cpu.max "max 100000", memory.max 5368709120
sidecar: isolation host, cpus "0-1,6-23", mems "0", cpu.max "50000 100000", memory.max 1073741824
main: isolation container, cpus "2-5", mems "0", cpu.max "max 100000", memory.max 4294967296
`},
		{"none policies, pod with a budget", none, database, `
pod: cpu.max "800000 100000", memory.max 17179869184
metrics-exporter: isolation host, cpus "", mems "", cpu.max "800000 100000", memory.max 17179869184
backup-agent: isolation host, cpus "", mems "", cpu.max "800000 100000", memory.max 17179869184
database: isolation host, cpus "", mems "", cpu.max "600000 100000", memory.max 12884901888
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := freshNode(t)
			must(t, n.AddPod(ctx, test.pod))
			must(t, n.StartKubelet(ctx, test.config))
			got := ""
			r, err := n.WaitRunning(ctx, test.pod)
			if failed := new(node.FailedError); errors.As(err, &failed) {
				got = fmt.Sprintf("refused: %s: %s\n", failed.Reason, failed.Message)
			} else {
				must(t, err)
				got = text(r.Pod(test.pod.NodeName))
			}
			if want := strings.TrimLeft(test.want, "\n"); got != want {
				t.Errorf("the node has\n%s\na stock kubelet makes it\n%s", got, want)
			}
		})
	}
}

// text is a pod in a line for its cgroup and one for each container. An empty
// list is a file that nobody has written to.
func text(p *report.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pod: cpu.max %q, memory.max %s\n", p.CPUMax, p.MemoryMax)
	for _, c := range p.Containers {
		fmt.Fprintf(&b, "%s: isolation %s, cpus %q, mems %q, cpu.max %q, memory.max %s\n",
			c.Name, c.Isolation, c.CPUs, c.Mems, c.CPUMax, c.MemoryMax)
	}
	return b.String()
}
