// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"fmt"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// updateContainerCPUSet is never reached: NewManager refuses the static policy
// on Windows, and releasing what it pinned is not begun there.
func updateContainerCPUSet(_ context.Context, _ runtimeService, containerID string, cpus cpuplan.Set) error {
	return fmt.Errorf("cannot bind container %s to CPUs %s: not supported on Windows yet", containerID, cpus)
}
