// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// FromSpec reads what the pod asks for. Pods that are not Guaranteed are not read:
// whatever they ask for, they get no memory of their own.
func FromSpec(pod *v1.Pod, facts podplan.Facts) (podplan.Pod, error) {
	if !facts.Guaranteed {
		return podplan.Pod{UID: string(pod.UID), Name: pod.Namespace + "/" + pod.Name}, nil
	}
	asked, err := podplan.FromSpec(pod, facts)
	if err != nil {
		return podplan.Pod{}, fmt.Errorf("[memorymanager] failed to represent quantity as int64: %w", err)
	}
	return asked, nil
}
