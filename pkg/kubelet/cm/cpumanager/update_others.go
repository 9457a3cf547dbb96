// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package cpumanager

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"
)

// updateContainerCPUSet changes the CPUs of a running container and nothing
// else of it.
func (m *manager) updateContainerCPUSet(ctx context.Context, containerID string, cpus cpuset.CPUSet) error {
	return m.runtime.UpdateContainerResources(ctx, containerID, &runtimeapi.ContainerResources{
		Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: cpus.String()},
	})
}
