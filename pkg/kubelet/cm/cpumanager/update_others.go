// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package cpumanager

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// updateContainerCPUSet changes the CPUs of a container and nothing else of it.
func updateContainerCPUSet(ctx context.Context, runtime runtimeService, containerID string, cpus cpuplan.Set) error {
	return runtime.UpdateContainerResources(ctx, containerID, &runtimeapi.ContainerResources{
		Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: cpus.String()},
	})
}
