// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// specOf reads what the pod asks for.
func specOf(pod *v1.Pod) (podplan.Pod, error) { return specIf(pod, podLevel()) }

// specIf is specOf with pods that state a budget managed or not.
func specIf(pod *v1.Pod, podLevel bool) (podplan.Pod, error) {
	return memplan.FromSpec(pod, podplan.Facts{
		Guaranteed: v1qos.GetPodQOS(pod) == v1.PodQOSGuaranteed,
		PodLevel:   podLevel,
	})
}

// podLevel says whether pods with a budget are managed.
func podLevel() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResources) &&
		utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResourceManagers)
}
