// SPDX-License-Identifier: Apache-2.0

package cpuplan

import "github.com/podslice/podslice/pkg/kubelet/cm/podplan"

// peakCPUs is how many CPUs the containers from this one on need at once, as far
// as they are going to reuse its CPUs. For a standard init container these are
// the largest phase of those that end, and then the long-running containers in
// their order until they have taken over as many. For others it is what they ask
// for, since nothing of theirs is ever reused.
//
// An init container that is placed where that many CPUs are does not keep its
// pod from fitting there (kubernetes/kubernetes issues 94220 and 123816), and
// leaves nothing behind that nobody uses (112228).
func peakCPUs(pod podplan.Pod, container podplan.Container) int {
	own := pod.ExclusiveCPUs(container)
	if container.Kind != podplan.StandardInit {
		return own
	}
	var later []podplan.Container
	for i, c := range pod.Containers {
		if c.Name == container.Name {
			later = pod.Containers[i+1:]
		}
	}
	// Sidecars that are declared before an init container run beside it.
	peak, sidecars := own, 0
	for _, c := range later {
		switch c.Kind {
		case podplan.StandardInit:
			peak = max(peak, sidecars+pod.ExclusiveCPUs(c))
		case podplan.Sidecar:
			sidecars += pod.ExclusiveCPUs(c)
		}
	}
	takers := 0
	for _, c := range later {
		if takers >= peak {
			break
		}
		if c.Kind.LongRunning() {
			takers += pod.ExclusiveCPUs(c)
		}
	}
	return max(peak, takers)
}
