// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	kubeadmission "k8s.io/kubernetes/pkg/kubelet/cm/admission"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// admitWhole admits a pod with a budget as a whole, as admitEach does.
func (w *twins) admitWhole(t *testing.T, r *rand.Rand, pod *v1.Pod) (string, bool) {
	w.before = w.theirState.GetMachineState()
	request := requestOf(pod.Spec.Resources.Requests)
	ours := ourHints(w.ours.GetPodTopologyHints(quiet, pod, add))[string(v1.ResourceMemory)]
	theirs := theirHints(w.theirs.GetPodTopologyHints(quiet, w.theirState, pod, add))[string(v1.ResourceMemory)]
	width := idleSize(w, request)
	carvable := len(ours) > 0
	if carvable {
		model := []hint{}
		for _, set := range allowed(w, pod, "", request) {
			model = append(model, hint{set.String(), set.Size() == width})
		}
		require.ElementsMatch(t, model, ours, "%s", describe(pod))
		for _, h := range theirs {
			require.Contains(t, ours, h, "%s", describe(pod))
		}
	}
	w.answer = randomAffinity(r, w, ours)
	theirErr := w.theirs.AllocatePod(quiet, w.theirState, pod, add)
	ourErr := w.ours.AllocatePod(quiet, pod, add)
	uid := string(pod.UID)
	if theirErr == nil {
		if theirSet := numa.SetOf(w.theirState.GetPodMemoryBlocks(uid)[0].NUMAAffinity...); mixes(w, theirSet) {
			require.Equal(t, 1, theirSet.Size())
			return cutsGroups, false
		}
	}
	if ourErr != nil {
		require.Error(t, theirErr, "only ours refuses %s: %v", describe(pod), ourErr)
		return "", false
	}
	set := numa.SetOf(w.ours.GetPodMemory(uid)[0].NUMAAffinity...)
	if theirErr != nil {
		var empty *kubeadmission.EmptyPodSharedPoolError
		if errors.As(theirErr, &empty) || strings.Contains(theirErr.Error(), "pod rejected") {
			require.Regexp(t, "no hugepages-|container hugepages-", theirErr.Error(), "%s", describe(pod))
			for _, c := range containers(pod) {
				if c.Resources.Requests == nil {
					require.Empty(t, c.Resources.Limits)
				}
			}
			return needsHugepages, false
		}
		require.True(t, permits(w, pod, "", request, set), "%s for %s", set, describe(pod))
		require.True(t, mixes(w, set) || mixes(w, w.answer.nodes), "%s for %s at %v: %v", set, describe(pod), w.answer, theirErr)
		return keepsApart, false
	}
	if theirBlocks(w.theirState.GetPodMemoryBlocks(uid)) != ourBlocks(w.ours.GetPodMemory(uid)) {
		for _, c := range containers(pod) {
			w.theirs.RemoveContainer(quiet, w.theirState, uid, c.Name)
		}
		require.True(t, permits(w, pod, "", request, set), "%s for %s", set, describe(pod))
		require.True(t, mixes(w, set) || mixes(w, w.answer.nodes), "%s for %s at %v", set, describe(pod), w.answer)
		return keepsApart, false
	}
	return "", true
}
