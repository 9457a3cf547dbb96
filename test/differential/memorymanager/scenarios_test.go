// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// The faults of the kubelet's own memory manager by which outcomes may differ.
const (
	// keepsApart: allocations of one node and of several never share a node, be
	// there room for both (128708, 128669, 120733).
	keepsApart = "keeps single and group use apart"
	// reusesEqualSets: what ended init containers have is had again on exactly
	// the same nodes only (100838 and others).
	reusesEqualSets = "reuses init containers' memory on equal sets only"
	// ignoresPhases: hints of an init container have nodes on which what comes
	// after it does not fit (123816).
	ignoresPhases = "places init containers by themselves"
	// needsHugepages: a container that shares is said to need every resource of
	// the budget.
	needsHugepages = "refuses an empty pool of hugepages that nobody uses"
	// cutsGroups: an affinity of one node of a group is taken if the group's
	// allocations happen to be noted on other nodes of it.
	cutsGroups = "gives out a node of a group that others count on"
)

// tally counts scenarios, requests and how the sides differed.
type tally struct {
	scenarios, admitted, refused, restarts int
	differences                            map[string]int
}

// TestScenarios runs random pods through both managers, container by container
// or as a whole, with kubelets that restart: hints, outcomes, blocks and free
// memory are the same, or the difference is one of the faults above, which is
// found by a model of its own. A pod for which the sides differ is taken away
// from both, so that they go on from the same state. PODSLICE_SCENARIOS is how
// many to run.
//
// The machines' nodes all have CPUs and every page size: nodes without are for
// the scripts, and upstream panics on the second. A request that cannot be met
// is an empty list with us and an empty map upstream. Ended init containers are
// not played upstream, see TestInitContainersKeepTheirMemory.
func TestScenarios(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.PodLevelResources: true, features.PodLevelResourceManagers: true,
	})
	count := 600
	if n, err := strconv.Atoi(os.Getenv("PODSLICE_SCENARIOS")); err == nil {
		count = n
	}
	first, _ := strconv.Atoi(os.Getenv("PODSLICE_FIRST_SEED")) // to share the work out
	sum := &tally{differences: map[string]int{}}
	for seed := first; seed < first+count; seed++ {
		if t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { runScenario(t, uint64(seed), sum) }); t.Failed() {
			break
		}
	}
	t.Logf("%d scenarios: %d pods admitted, %d refused by both, %d restarts", sum.scenarios, sum.admitted, sum.refused, sum.restarts)
	for _, fault := range []string{keepsApart, cutsGroups, reusesEqualSets, ignoresPhases, needsHugepages} {
		t.Logf("%6d times the kubelet's own %s", sum.differences[fault], fault)
	}
	if count >= 500 {
		require.Greater(t, sum.admitted, 3*count)
		require.Positive(t, sum.refused)
		for _, fault := range []string{keepsApart, cutsGroups, reusesEqualSets, ignoresPhases, needsHugepages} {
			require.Positive(t, sum.differences[fault], fault)
		}
	}
}

func runScenario(t *testing.T, seed uint64, sum *tally) {
	r := rand.New(rand.NewPCG(seed, 20))
	w := newTwins(t, randomMachine(r, 1+r.IntN(5)))
	sum.scenarios++
	for step := range 6 + r.IntN(10) {
		if len(w.active) > 0 && r.IntN(3) == 0 {
			w.remove(w.active[r.IntN(len(w.active))])
		}
		if r.IntN(8) == 0 {
			w.restart(t)
			sum.restarts++
		}
		pod := randomPod(r, fmt.Sprintf("pod-%d-%d", seed, step))
		w.active = append(w.active, pod)
		machine := w.theirState.GetMachineState()
		var difference string
		var admitted bool
		if r.IntN(3) == 0 {
			withBudget(r, pod)
			difference, admitted = w.admitWhole(t, r, pod)
		} else {
			difference, admitted = w.admitEach(t, r, pod, sum)
		}
		switch {
		case difference != "":
			sum.differences[difference]++
			w.remove(pod)
			w.theirState.SetMachineState(machine) // it does not find back itself
		case admitted:
			sum.admitted++
		default:
			sum.refused++
			w.remove(pod)
		}
		w.collect()
		compareStates(t, w)
	}
	w.loadOurs(t)
}

// quietly is a context without a log.
var quietly = klog.NewContext(context.Background(), quiet)

// collect has our manager take back what is gone, as for another pod.
func (w *twins) collect() {
	w.ours.GetPodTopologyHints(quiet, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "another"}}, add)
}

// remove ends a pod on both sides.
func (w *twins) remove(pod *v1.Pod) {
	w.active = slices.DeleteFunc(slices.Clone(w.active), func(p *v1.Pod) bool { return p == pod })
	for _, c := range containers(pod) {
		w.theirs.RemoveContainer(quiet, w.theirState, string(pod.UID), c.Name)
	}
}

// restart makes both managers anew, and ours admits again what runs. Upstream
// reads our file as well as its own state. That upstream would allocate budgets
// a second time (140906) is left aside.
func (w *twins) restart(t *testing.T) {
	var err error
	w.collect()
	w.loadOurs(t)
	w.theirs, err = w.newTheirs()
	require.NoError(t, err)
	require.NoError(t, w.theirs.Start(quiet, w.theirState))
	w.startOurs(t)
	before, err := os.ReadFile(w.dir + "/" + fileName)
	require.NoError(t, err)
	for _, pod := range w.active {
		w.answer = affinity{numa.SetOf(0), true} // somewhere; it must not matter
		if pod.Spec.Resources != nil {
			require.NoError(t, w.ours.AllocatePod(quiet, pod, add))
			continue
		}
		for _, c := range containers(pod) {
			require.NoError(t, w.ours.Allocate(quietly, pod, c, add))
			require.NoError(t, w.theirs.Allocate(quietly, w.theirState, pod, c, add))
		}
	}
	after, err := os.ReadFile(w.dir + "/" + fileName)
	require.NoError(t, err)
	require.True(t, string(before) == string(after), "the file is as it was")
}

// admitEach admits a pod container by container and returns by which fault the
// sides differ, if they do, and whether it was admitted.
func (w *twins) admitEach(t *testing.T, r *rand.Rand, pod *v1.Pod, sum *tally) (string, bool) {
	for _, c := range containers(pod) {
		hints := ourHints(w.ours.GetTopologyHints(quiet, pod, c, add))
		expected := theirHints(w.theirs.GetTopologyHints(quiet, w.theirState, pod, c, add))
		for _, fault := range w.compareHints(t, pod, c, hints[string(v1.ResourceMemory)], expected[string(v1.ResourceMemory)]) {
			sum.differences[fault]++
		}
		for name := range requestOf(c.Resources.Requests) {
			require.Equal(t, hints[string(v1.ResourceMemory)], hints[string(name)])
		}
		w.answer = randomAffinity(r, w, hints["memory"])
		theirErr := w.theirs.Allocate(quietly, w.theirState, pod, c, add)
		ourErr := w.ours.Allocate(quietly, pod, c, add)
		if difference := w.compareOutcomes(t, pod, c, theirErr, ourErr); difference != "" {
			return difference, false
		}
		if theirErr != nil {
			return "", false
		}
	}
	return "", true
}

// compareHints holds our hints against the model, and the difference from
// upstream's against its rule.
func (w *twins) compareHints(t *testing.T, pod *v1.Pod, c *v1.Container, ours, theirs []hint) (faults []string) {
	w.before = w.theirState.GetMachineState()
	request := requestOf(c.Resources.Requests)
	width := idleSize(w, request)
	model := []hint{}
	for _, set := range allowed(w, pod, c.Name, request) {
		model = append(model, hint{set.String(), set.Size() == width})
	}
	if peak := laterPeak(pod, c); !equalSizes(peak, request) {
		if roomy, ok := withRoom(model, allowed(w, pod, c.Name, peak)); ok && len(roomy) < len(model) {
			faults = append(faults, ignoresPhases)
			model = roomy
		}
	}
	sortHints(model)
	require.ElementsMatch(t, model, ours, "%s of %s", c.Name, describe(pod))
	for _, h := range theirs {
		if !slices.Contains(ours, h) {
			require.Contains(t, faults, ignoresPhases, "only upstream has %v for %s of %s", h, c.Name, describe(pod))
		}
	}
	for _, h := range ours {
		if slices.Contains(theirs, h) {
			continue
		}
		faults = append(faults, w.whyNotTheirs(t, pod, c, request, setOf(h.nodes)))
	}
	return slices.Compact(faults)
}

// whyNotTheirs names the fault by which upstream does not use the set.
func (w *twins) whyNotTheirs(t *testing.T, pod *v1.Pod, c *v1.Container, request map[v1.ResourceName]uint64, set numa.Set) string {
	switch {
	case mixesInits(w, pod, c.Name, set), !mixes(w, set) && reuses(w, pod, c.Name, request, set):
		return reusesEqualSets
	case mixes(w, set):
		return keepsApart
	}
	require.Failf(t, "no fault explains it", "%s for %s of %s", set, c.Name, describe(pod))
	return ""
}

// compareOutcomes tells by which fault the outcomes of an allocation differ.
func (w *twins) compareOutcomes(t *testing.T, pod *v1.Pod, c *v1.Container, theirErr, ourErr error) string {
	uid := string(pod.UID)
	if theirErr == nil {
		theirSet := numa.SetOf(w.theirState.GetMemoryBlocks(uid, c.Name)[0].NUMAAffinity...)
		if mixes(w, theirSet) {
			// What it has agreed with itself never to do. We may, if it is safe.
			require.Equal(t, 1, theirSet.Size())
			return cutsGroups
		}
	}
	if ourErr != nil {
		require.Error(t, theirErr, "only ours refuses %s of %s: %v", c.Name, describe(pod), ourErr)
		return ""
	}
	blocks := w.ours.GetMemory(quiet, uid, c.Name)
	set := numa.SetOf(blocks[0].NUMAAffinity...)
	if theirErr != nil {
		return w.whyRefused(t, pod, c, set)
	}
	if theirBlocks(w.theirState.GetMemoryBlocks(uid, c.Name)) != ourBlocks(blocks) {
		return w.whyElsewhere(t, pod, c, set)
	}
	for _, other := range containers(pod) {
		if theirBlocks(w.theirState.GetMemoryBlocks(uid, other.Name)) != ourBlocks(w.ours.GetMemory(quiet, uid, other.Name)) {
			// The same set, and more of the init containers' memory taken over.
			require.True(t, endsBefore(pod, other.Name, c.Name), "%s beside %s of %s", other.Name, c.Name, describe(pod))
			return reusesEqualSets
		}
	}
	return ""
}

// whyRefused explains an allocation that upstream refuses. Nothing has changed on
// its side.
func (w *twins) whyRefused(t *testing.T, pod *v1.Pod, c *v1.Container, set numa.Set) string {
	request := requestOf(c.Resources.Requests)
	require.True(t, permits(w, pod, c.Name, request, set), "%s for %s of %s", set, c.Name, describe(pod))
	wanted := w.answer.nodes
	switch {
	case mixesInits(w, pod, c.Name, set), mixesInits(w, pod, c.Name, wanted):
		return reusesEqualSets
	case mixes(w, set), mixes(w, wanted):
		return keepsApart
	case reuses(w, pod, c.Name, request, set), reuses(w, pod, c.Name, request, wanted):
		return reusesEqualSets
	}
	require.Failf(t, "no fault explains why upstream refuses", "%s for %s of %s at %v", set, c.Name, describe(pod), w.answer)
	return ""
}

// whyElsewhere explains a set that upstream did not choose. Its state has the
// container already, so that is taken out for the question.
func (w *twins) whyElsewhere(t *testing.T, pod *v1.Pod, c *v1.Container, set numa.Set) string {
	uid := string(pod.UID)
	theirSet := numa.SetOf(w.theirState.GetMemoryBlocks(uid, c.Name)[0].NUMAAffinity...)
	w.theirs.RemoveContainer(quiet, w.theirState, uid, c.Name)
	request := requestOf(c.Resources.Requests)
	require.True(t, permits(w, pod, c.Name, request, set), "%s for %s of %s, upstream chose %s", set, c.Name, describe(pod), theirSet)
	switch {
	case mixesInits(w, pod, c.Name, set), mixesInits(w, pod, c.Name, w.answer.nodes):
		return reusesEqualSets
	case mixes(w, set), mixes(w, w.answer.nodes):
		return keepsApart
	case reuses(w, pod, c.Name, request, set):
		return reusesEqualSets
	}
	require.Failf(t, "no fault explains where", "%s for %s of %s at %v, upstream chose %s", set, c.Name, describe(pod), w.answer, theirSet)
	return ""
}

// withRoom leaves out hints that are no part of any of the wide sets, if a
// preferred one is left.
func withRoom(hints []hint, wide []numa.Set) (roomy []hint, preferred bool) {
	for _, h := range hints {
		if slices.ContainsFunc(wide, func(set numa.Set) bool { return setOf(h.nodes).IsSubsetOf(set) }) {
			roomy = append(roomy, h)
			preferred = preferred || h.preferred
		}
	}
	return roomy, preferred
}

// setOf reads a set of up to six nodes.
func setOf(text string) numa.Set {
	for set := range numa.SetFromBits(1<<6 - 1).Subsets() {
		if set.String() == text {
			return set
		}
	}
	return numa.Set{}
}

func equalSizes(a, b map[v1.ResourceName]uint64) bool {
	for name, size := range a {
		if b[name] != size {
			return false
		}
	}
	return true
}

func describe(pod *v1.Pod) string {
	text := pod.Name
	if pod.Spec.Resources != nil {
		text += fmt.Sprint(" budget ", requestOf(pod.Spec.Resources.Requests))
	}
	for _, c := range containers(pod) {
		text += fmt.Sprint(" ", c.Name, " ", requestOf(c.Resources.Requests))
	}
	return text
}

// randomAffinity is mostly one of the hints, and sometimes none, or any nodes.
func randomAffinity(r *rand.Rand, w *twins, hints []hint) affinity {
	switch {
	case len(hints) > 0 && r.IntN(4) > 0:
		h := hints[r.IntN(len(hints))]
		return affinity{setOf(h.nodes), h.preferred}
	case r.IntN(2) == 0:
		set := numa.SetFromBits(1 + r.Uint64N(1<<len(w.topology)-1))
		// A set that was offered as not preferred never comes back preferred.
		offered := slices.Contains(hints, hint{set.String(), false})
		return affinity{set, !offered && r.IntN(2) == 0}
	}
	return affinity{preferred: r.IntN(2) == 0}
}
