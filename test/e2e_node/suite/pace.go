// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"

	"github.com/podslice/podslice/test/e2e_node/node"
)

// pacedRunc stands before runc. Many specs read what a container has printed (its
// CPUs or memory nodes) as soon as the kubelet calls it running, and take a moment
// too early for an emulated machine as nothing: runc comes back from starting such a
// container when it has had the time.
const pacedRunc = `#!/bin/sh
` + node.Programs + `/runc "$@" || exit
case " $* " in
*" start "*)
	for last; do :; done
	grep -q '_allowed_list' /run/containerd/io.containerd.runtime.v2.task/k8s.io/$last/config.json && sleep 2
	exit 0
	;;
esac
`

// Pace makes an emulated node's runtime keep pace with the suite.
func Pace(ctx context.Context, n *node.Node) error {
	if !n.Guest.Emulated() {
		return nil
	}
	if err := n.Guest.WriteFile(ctx, node.Runc, []byte(pacedRunc), 0o755); err != nil {
		return fmt.Errorf("pacing runc: %w", err)
	}
	return nil
}
