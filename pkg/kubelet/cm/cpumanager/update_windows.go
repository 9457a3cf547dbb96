// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"fmt"

	"k8s.io/utils/cpuset"
)

// updateContainerCPUSet is never reached: NewManager refuses the static policy
// on Windows, and no other reconciles.
func (m *manager) updateContainerCPUSet(_ context.Context, containerID string, cpus cpuset.CPUSet) error {
	return fmt.Errorf("cannot bind container %s to CPUs %s: not supported on Windows yet", containerID, cpus)
}
