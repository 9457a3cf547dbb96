// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"

	"github.com/podslice/podslice/test/e2e_node/node"
)

// pacedRunc puts ../pacedrunc before runc.
const pacedRunc = "ln -sfn " + node.Programs + "/pacedrunc " + node.Runc

// collector removes what is left of pods that are gone. After each spec the suite
// waits until the runtime has nothing of its pods any more, and the kubelet collects
// once a minute: that would be a third of the time.
const collector = "systemd-run -q --unit=collect-dead " + node.Programs + "/nodereport collect-dead"

// runtimeCPUs keeps the runtime and what it starts, but for containers, on two CPUs.
// The guest's CPUs take turns of a tenth of a second. When eight pods start at once
// on as many CPUs, the suite's API server has few turns, and connections to it have
// timed out. With one CPU, calls of containerd to its shims have.
const runtimeCPUs = "taskset -apc 1,2 $(pidof containerd)"

// Pace makes an emulated node's runtime keep pace with the suite, and waste none of
// its time.
func Pace(ctx context.Context, n *node.Node) error {
	if !n.Guest.Emulated() {
		return nil
	}
	for _, command := range []string{pacedRunc, runtimeCPUs, collector} {
		if _, err := n.Guest.Output(ctx, command); err != nil {
			return fmt.Errorf("pacing the node: %w", err)
		}
	}
	return nil
}
