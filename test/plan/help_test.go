// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/pkg/plan"
	"github.com/podslice/podslice/test/simnode"
)

// TestHelpHelps does what refusals say would help, by their words and each for
// itself, and the pod must then be admitted on the node as it was.
// PODSLICE_SCENARIOS is how many nodes.
func TestHelpHelps(t *testing.T) {
	nodes, seed := 200, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("PODSLICE_SCENARIOS")); err == nil {
		nodes = n
	}
	if n, err := strconv.Atoi(os.Getenv("PODSLICE_SEED")); err == nil {
		seed = uint64(n)
	}
	names := catalog.Names()
	done, without := map[string]int{}, 0
	for i := range nodes {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(1000000+i)))}
		name := ""
		if i%8 == 0 {
			name = names[i/8%len(names)]
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			n := newNode(t)
			g.node(n, name)
			if n.TopologyPolicy == "none" || n.Start() != nil {
				return
			}
			n.Stop()
			settings := settingsOf(t, n)
			if g.IntN(2) == 0 && settings.CPUs != nil {
				settings.Allocatable.MilliCPU = int64(settings.CPUs.Allocatable().Size()) * 1000
			}
			on := plan.NewNode(settings, cpuplan.State{}, memplan.Records{})
			var played []string
			for p := range 4 + g.IntN(14) {
				played = append(played, g.pod(fmt.Sprintf("p%d", p)))
				pod, err := simnode.ParsePod(played[p])
				require.NoError(t, err)
				next, verdict := on.Admit(pod)
				var refusal *placement.AffinityRefusal
				if errors.As(verdict.Refusal, &refusal) {
					if len(refusal.Help) == 0 {
						without++
					}
					for _, help := range refusal.Help {
						follower{t, g, on, pod, refusal, done}.follow(help, fmt.Sprintf("seed %d, machine %q: %s\n%s\nsaid: %s", seed, name, settingsText(n), strings.Join(played, "\n"), verdict.Message))
					}
				}
				on = next
			}
		})
	}
	t.Logf("done: %v; %d refusals without help", done, without)
	if nodes >= 200 {
		for _, kind := range []string{"freeing", "freeing both", "asking", "asking at most", "asking for both", "scope", "policy restricted", "policy best-effort"} {
			require.Positive(t, done[kind], kind)
		}
	}
}

// follower does what one refusal says.
type follower struct {
	t       *testing.T
	g       *generator
	node    plan.Node
	pod     *v1.Pod
	refusal *placement.AffinityRefusal
	done    map[string]int
}

var (
	freeing = regexp.MustCompile(`^freeing (.*) on (one of the )?NUMA nodes? ([0-9,-]+)$`)
	asking  = regexp.MustCompile(`^asking for (at most )?(.*)$`)
	amounts = regexp.MustCompile(`(\d+) CPUs?|(\d+(?:[KMGT]i)?) of ([a-zA-Z0-9-]+)|no ([a-zA-Z0-9-]+), of which no NUMA node has any for pods`)
)

func (f follower) follow(help, what string) {
	what += "\ntried: " + help
	switch {
	case strings.HasPrefix(help, "policy "):
		for _, policy := range strings.Split(strings.TrimPrefix(help, "policy "), " or ") {
			n := f.node
			n.Policy = n.Policy.With(placement.Strictness(policy))
			f.admits(n, f.pod, "policy "+policy, what)
		}
	case strings.HasPrefix(help, "scope container"):
		n := f.node
		n.Scope = placement.ScopeContainer
		f.admits(n, f.pod, "scope", what)
	case freeing.MatchString(help):
		words := freeing.FindStringSubmatch(help)
		ids, err := cpuset.Parse(words[3])
		require.NoError(f.t, err, what)
		sets := []numa.Set{numa.SetOf(ids.List()...)}
		if words[2] != "" {
			sets = nil
			for _, id := range ids.List() {
				sets = append(sets, numa.SetOf(id))
			}
		}
		wanted := parseAmounts(f.t, words[1], what)
		kind := "freeing"
		if len(wanted) > 1 {
			kind = "freeing both"
		}
		for _, nodes := range sets {
			for range 2 {
				f.admits(f.freed(nodes, wanted, what), f.pod, kind, what)
			}
		}
	case asking.MatchString(help):
		words := asking.FindStringSubmatch(help)
		ask := parseAmounts(f.t, words[2], what)
		kind := "asking"
		if len(ask) > 1 {
			kind = "asking for both"
		}
		if pod := f.asking(ask); pod != nil {
			f.admits(f.node, pod, kind, what)
		}
		if words[1] == "" {
			return
		}
		for range 3 {
			less := maps.Clone(ask)
			for _, name := range slices.Sorted(maps.Keys(less)) {
				if unit := unitOf(name); less[name] >= unit {
					less[name] = (1 + f.g.Uint64N(less[name]/unit)) * unit
				}
			}
			if pod := f.asking(less); pod != nil {
				f.admits(f.node, pod, "asking at most", fmt.Sprint(what, " with ", less))
			}
		}
	default:
		require.Fail(f.t, "unknown words", what)
	}
}

func (f follower) admits(n plan.Node, pod *v1.Pod, kind, what string) {
	_, verdict := n.Admit(pod)
	require.True(f.t, verdict.Admitted, "%s\nyet: %s: %s", what, verdict.Reason, verdict.Message)
	f.done[kind]++
}

func parseAmounts(t *testing.T, text, what string) map[string]uint64 {
	found := map[string]uint64{}
	for _, m := range amounts.FindAllStringSubmatch(text, -1) {
		switch {
		case m[1] != "":
			n, err := strconv.ParseUint(m[1], 10, 64)
			require.NoError(t, err)
			found["cpu"] = n
		case m[2] != "":
			q, err := resource.ParseQuantity(m[2])
			require.NoError(t, err)
			found[m[3]] = uint64(q.Value())
		default:
			found[m[4]] = 0
		}
	}
	require.NotEmpty(t, found, what)
	require.Len(t, strings.Split(text, " and "), len(found), what)
	return found
}

// freed is the node with exactly that much less held on the NUMA nodes, by pods
// picked at random.
func (f follower) freed(nodes numa.Set, wanted map[string]uint64, what string) plan.Node {
	cpus, memory := f.node.Records()
	for resource, size := range wanted {
		if resource == "cpu" {
			cpus = f.fewerCPUs(cpus, nodes, int(size), what)
			continue
		}
		uids := slices.Collect(maps.Keys(maps.Collect(memory.All())))
		slices.Sort(uids)
		f.g.Shuffle(len(uids), func(i, j int) { uids[i], uids[j] = uids[j], uids[i] })
		for _, uid := range uids {
			record := memory.Pod(uid)
			shrink := func(blocks []memplan.Block) []memplan.Block {
				blocks = slices.Clone(blocks)
				for i, b := range blocks {
					if b.Resource == resource && b.Nodes.IsSubsetOf(nodes) {
						taken := min(size, b.Size)
						blocks[i].Size -= taken
						size -= taken
					}
				}
				return blocks
			}
			if record.Whole() {
				record.Pod = shrink(record.Pod)
			} else {
				record.Containers = maps.Clone(record.Containers)
				for name, blocks := range record.Containers {
					record.Containers[name] = shrink(blocks)
				}
			}
			memory = memory.With(uid, record)
		}
		require.Zero(f.t, size, "%s: as much is not there", what)
	}
	return plan.NewNode(f.node.Settings, cpus, memory)
}

func (f follower) fewerCPUs(s cpuplan.State, nodes numa.Set, count int, what string) cpuplan.State {
	n := f.node.CPUs
	held := s.Assigned().Intersection(n.Allocatable()).Intersection(n.Topology().OnNodes(nodes))
	ids := held.List()
	f.g.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var gone cpuplan.Set
	for _, id := range ids {
		one := cpuplan.NewSet(id)
		if n.Options().FullPCPUsOnly {
			one = one.Union(n.Topology().Siblings(one)).Intersection(held)
		}
		if gone.Size() < count {
			gone = gone.Union(one)
		}
	}
	require.GreaterOrEqual(f.t, gone.Size(), count, what)
	records := map[string]cpuplan.Record{}
	for _, uid := range s.PodUIDs() {
		records[uid] = s.Record(uid).Only(s.Assigned().Difference(gone))
	}
	return cpuplan.NewState(records)
}

// unitOf is in what amounts containers give way.
func unitOf(resource string) uint64 {
	switch resource {
	case "cpu":
		return 1
	case "hugepages-2Mi":
		return 2 << 20
	case "hugepages-1Gi":
		return 1 << 30
	}
	return 1 << 20
}

// asking is the pod that asks for just so much; nil if it cannot be written.
func (f follower) asking(ask map[string]uint64) *v1.Pod {
	pod := f.pod.DeepCopy()
	set := func(r *v1.ResourceRequirements, name string, amount uint64) {
		q := *resource.NewQuantity(int64(amount), resource.BinarySI)
		for _, list := range []v1.ResourceList{r.Requests, r.Limits} {
			if amount == 0 {
				delete(list, v1.ResourceName(name))
			} else {
				list[v1.ResourceName(name)] = q
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ask)) {
		amount := ask[name]
		if f.refusal.Container != "" {
			for c := range simnode.Containers(pod) {
				if c.Name == f.refusal.Container {
					set(&c.Resources, name, amount)
				}
			}
			continue
		}
		if pod.Spec.Resources != nil {
			set(pod.Spec.Resources, name, amount)
		}
		for c := range simnode.Containers(pod) {
			if amount == 0 {
				set(&c.Resources, name, 0)
			}
		}
		if !f.shrink(pod, name, amount, set) {
			return nil
		}
	}
	return pod
}

// shrink makes containers smaller, the largest first, until the pod asks for no more
// and its budget can be carved.
func (f follower) shrink(pod *v1.Pod, name string, amount uint64, set func(*v1.ResourceRequirements, string, uint64)) bool {
	unit := unitOf(name)
	if name == "cpu" && f.node.CPUs.Options().FullPCPUsOnly {
		unit = uint64(f.node.CPUs.Topology().ThreadsPerCore())
	}
	for {
		asked, err := podplan.FromSpec(pod, podplan.Facts{Guaranteed: true, PodLevel: true})
		require.NoError(f.t, err)
		over := uint64(0)
		if asked.Budget == nil {
			sum := asked.PodMemory()[name]
			if name == "cpu" {
				sum = uint64(asked.PodCPUs())
			}
			if sum <= amount {
				return true
			}
			over = sum - amount
		} else {
			demand := asked.MemoryDemand(name)
			if name == "cpu" {
				demand = asked.CPUDemand()
			}
			if _, err := asked.Carve(demand); err == nil {
				return true
			}
			over = unit
			if name == "memory" {
				over = 64 << 20
			}
		}
		var largest *v1.Container
		most := uint64(0)
		for c := range simnode.Containers(pod) {
			is, _ := asked.Container(c.Name)
			own := asked.ExclusiveMemory(is)[name]
			if name == "cpu" {
				own = uint64(asked.ExclusiveCPUs(is))
			}
			if own > most {
				largest, most = c, own
			}
		}
		rest := unit
		if amount == 0 {
			rest = 0
		}
		if largest == nil || most <= rest {
			return false
		}
		over = (over + unit - 1) / unit * unit
		set(&largest.Resources, name, max(rest, most-min(most, over)))
	}
}
