// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/nearest"
)

var cpuPolicies = []string{cpuplan.PolicyNone, cpuplan.PolicyStatic}

const cpuOptions = "cpuManagerPolicyOptions"

// configureCPUs makes the CPU manager's part of the node.
func (c *Config) configureCPUs(n *Node, kept reserves) (found Findings) {
	k := &c.Kubelet
	configuration := cpuplan.Configuration{
		Policy: k.CPUManagerPolicy, Options: k.CPUManagerPolicyOptions,
		Alpha: c.Gates.On(CPUOptionsAlpha), Beta: c.Gates.On(CPUOptionsBeta),
		ReconcilePeriod: k.CPUManagerReconcilePeriod.Duration,
		Reserved:        cpuplan.NewSet(kept.cpus.UnsortedList()...), Reservation: n.Reservation,
		SingleNUMANode: k.TopologyManagerPolicy == string(placement.SingleNUMANode),
	}
	var err error
	if n.CPUs, err = cpuplan.Configure(configuration, func() (*cpuplan.Topology, error) { return n.CPUTopology, nil }); err == nil {
		return nil
	}
	switch k.CPUManagerPolicy {
	case cpuplan.PolicyStatic:
	case cpuplan.PolicyNone:
		found.refuse(cpuOptions, "cpuManagerPolicy: static, or no options", "cpuManagerPolicy is none, which takes no options, but has %s", and(slices.Sorted(maps.Keys(k.CPUManagerPolicyOptions))))
		return found
	default:
		found.refuse("cpuManagerPolicy", nearest.Name(k.CPUManagerPolicy, slices.Values(cpuPolicies)), "it is %q, but must be one of %q", k.CPUManagerPolicy, cpuPolicies)
		return found
	}
	if period := configuration.ReconcilePeriod; period <= 0 {
		found.refuse("cpuManagerReconcilePeriod", defaultReconcilePeriod.String(), "it is %s, but must be longer than 0", period)
	}
	found = append(found, c.checkCPUOptions(configuration, n)...)
	cpu := n.Reservation[v1.ResourceCPU]
	switch {
	case kept.unknown[v1.ResourceCPU], cpu.CmpInt64(int64(len(n.Machine.CPUs))) > 0:
		return found // it is told elsewhere
	case cpu.IsZero():
		core := n.CPUTopology.Siblings(cpuplan.NewSet(n.Machine.CPUs[0].ID))
		found.refuse("reservedSystemCPUs", strconv.Quote(core.String()), "policy static keeps some CPUs from pods, but kubeReserved.cpu and systemReserved.cpu come to 0")
	}
	found.orElse(c.reservedField(), inner(err))
	return found
}

// inner is an error without the words that the CPU manager puts before it.
func inner(err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "new static policy error: "), "[cpumanager] ")
	return errors.New(text)
}

// reservedField is the field that says how many CPUs are reserved.
func (c *Config) reservedField() string {
	switch k := &c.Kubelet; {
	case k.ReservedSystemCPUs == "" && k.SystemReserved["cpu"] != "":
		return "systemReserved.cpu"
	case k.ReservedSystemCPUs == "" && k.KubeReserved["cpu"] != "":
		return "kubeReserved.cpu"
	}
	return "reservedSystemCPUs"
}

// checkCPUOptions finds out which options are wrong: each by itself, with each
// other, and with the rest.
func (c *Config) checkCPUOptions(configuration cpuplan.Configuration, n *Node) (found Findings) {
	values := c.Kubelet.CPUManagerPolicyOptions
	var good []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field := cpuOptions + "." + name
		if err := cpuplan.CheckOption(name, configuration.Alpha, configuration.Beta); err != nil {
			found.refuse(field, cpuOptionFix(name, configuration), "%v", err)
		}
		if cpuplan.CheckOption(name, true, true) != nil {
			continue
		}
		// As if all gates were on, so that what is wrong apart from them is told, too.
		if _, err := cpuplan.ParseOptions(map[string]string{name: values[name]}, true, true); err != nil {
			found.refuse(field, boolFix(values[name]), "%v", err)
			continue
		}
		for _, other := range good {
			if _, err := cpuplan.ParseOptions(map[string]string{name: values[name], other: values[other]}, true, true); err != nil {
				found.refuse(field, fmt.Sprintf("%q, or %s: %q", "false", other, "false"), "%v", err)
			}
		}
		good = append(good, name)
	}
	if !slices.Contains(good, cpuplan.OptionAlignBySocket) {
		return found
	}
	// Alone, it is at fault itself.
	alone := configuration
	alone.Alpha = true
	alone.Options = map[string]string{cpuplan.OptionAlignBySocket: values[cpuplan.OptionAlignBySocket]}
	alone.Reserved, alone.Reservation = cpuplan.Set{}, v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(1, resource.DecimalSI)}
	alone.ReconcilePeriod = defaultReconcilePeriod
	if _, err := cpuplan.Configure(alone, func() (*cpuplan.Topology, error) { return n.CPUTopology, nil }); err != nil {
		fix := strconv.Quote("false")
		if alone.SingleNUMANode {
			fix += ", or another topologyManagerPolicy"
		}
		found.refuse(cpuOptions+"."+cpuplan.OptionAlignBySocket, fix, "%v", inner(err))
	}
	return found
}

func cpuOptionFix(name string, configuration cpuplan.Configuration) string {
	switch {
	case cpuplan.CheckOption(name, true, true) != nil:
		return orRemove(nearest.Name(name, slices.Values(cpuplan.OptionNames())))
	case cpuplan.CheckOption(name, configuration.Alpha, true) != nil:
		return fmt.Sprintf("featureGates.%s: true", CPUOptionsAlpha)
	}
	return fmt.Sprintf("featureGates.%s: true", CPUOptionsBeta)
}

// adviseCPUs finds what the CPU manager would not do.
func (c *Config) adviseCPUs(n *Node) (found Findings) {
	k := &c.Kubelet
	if c.zeroPeriod {
		found.warn("cpuManagerReconcilePeriod", "the period that is meant", "it is 0, which the kubelet takes for %s", defaultReconcilePeriod)
	}
	if reserved, err := parseCPUs(k.ReservedSystemCPUs); err == nil && !reserved.IsEmpty() {
		found = append(found, c.adviseReserved(reserved)...)
		if k.CPUManagerPolicy == cpuplan.PolicyNone {
			found.note("reservedSystemCPUs", "cpuManagerPolicy is none: as many CPUs are not allocatable, but pods run on these ones, too")
		}
	}
	if n.CPUs == nil {
		return found
	}
	if cpu := n.Reservation[v1.ResourceCPU]; cpu.MilliValue()%1000 != 0 {
		found.note(c.reservedField(), "%s CPUs are reserved, which policy static rounds up to %d: pods can ask for more CPUs than can be given out", cpu.String(), n.CPUs.Reserved().Size())
	}
	options, all := n.CPUs.Options(), n.CPUTopology
	free := n.CPUs.Allocatable()
	if free.IsEmpty() {
		found.warn(c.reservedField(), "", "all CPUs, %s, are reserved: no pod gets CPUs of its own", all.All())
	} else if whole := all.WholeCores(free); options.FullPCPUsOnly && !whole.Equals(free) {
		reserved := n.CPUs.Reserved()
		found.warn(c.reservedField(), "reservedSystemCPUs: "+strconv.Quote(all.Siblings(reserved).String()), "reserved are CPUs %s, which are no whole cores: under %s nobody gets %s", reserved, cpuplan.OptionFullPCPUsOnly, free.Difference(whole))
	}
	if reserved := n.CPUs.Reserved(); !options.FullPCPUsOnly && !free.IsEmpty() {
		if halves := all.Siblings(reserved).Difference(reserved); !halves.IsEmpty() {
			found.note(c.reservedField(), "reserved are CPUs %s; pods get %s, which share their cores with them", reserved, halves)
		}
	}
	found = append(found, uselessCPUOptions(n.Machine, options, n)...)
	return found
}

// adviseReserved holds the list of reserved CPUs against the amounts that it takes
// the place of. A list of as many CPUs as policy static would make of the amounts is
// as it was meant.
func (c *Config) adviseReserved(reserved cpuset.CPUSet) (found Findings) {
	var sum resource.Quantity
	var named, fields []string
	for _, list := range []struct {
		field  string
		values map[string]string
	}{{"kubeReserved", c.Kubelet.KubeReserved}, {"systemReserved", c.Kubelet.SystemReserved}} {
		if q, err := reservedQuantity("cpu", list.values["cpu"]); err == nil {
			sum.Add(q)
			named = append(named, fmt.Sprintf("%s.cpu %s", list.field, list.values["cpu"]))
			fields = append(fields, list.field)
		}
	}
	if len(named) == 0 {
		return found
	}
	what := fmt.Sprintf("the list names %s, and takes the place of %s", many(reserved.Size(), "CPU"), and(named))
	if len(named) > 1 {
		what += fmt.Sprintf(", which come to %s", sum.String())
	}
	switch whole := int((sum.MilliValue() + 999) / 1000); {
	case whole != reserved.Size():
		fix := fmt.Sprintf("no cpu in %s", and(fields))
		if whole > 0 {
			fix = fmt.Sprintf("a list of %s, or %s", many(whole, "CPU"), fix)
		}
		found.warn("reservedSystemCPUs", fix, "%s", what)
	case sum.MilliValue()%1000 != 0:
		found.note("reservedSystemCPUs", "%s, rounded up", what)
	}
	return found
}

// many counts things in words: "1 CPU", "2 CPUs".
func many(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// uselessCPUOptions are those without effect on the machine.
func uselessCPUOptions(m machine.Machine, options cpuplan.Options, n *Node) (found Findings) {
	nodes, sockets, caches := groups(m, func(c machine.CPU) int { return c.Node }), groups(m, func(c machine.CPU) int { return c.Socket }), groups(m, func(c machine.CPU) int { return c.Cache })
	single := n.Topology.Policy.Strictness() == placement.SingleNUMANode
	useless := func(option, format string, args ...any) {
		found.warn(cpuOptions+"."+option, "remove it", "it has no effect: "+format, args...)
	}
	// Such an option does change which CPUs are chosen, but they are no better.
	gainless := func(option, format string, args ...any) {
		found.warn(cpuOptions+"."+option, "remove it", "it gains nothing: "+format, args...)
	}
	oneThread := n.CPUTopology.ThreadsPerCore() == 1
	if options.FullPCPUsOnly && oneThread {
		useless(cpuplan.OptionFullPCPUsOnly, "the cores of the machine have one thread each")
	}
	if options.DistributeAcrossCores && oneThread {
		gainless(cpuplan.OptionDistributeAcrossCores, "the cores of the machine have one thread each")
	}
	switch {
	case !options.DistributeAcrossNUMA:
	case len(nodes) == 1:
		useless(cpuplan.OptionDistributeAcrossNUMA, "the machine has CPUs on one NUMA node only")
	case single:
		gainless(cpuplan.OptionDistributeAcrossNUMA, "topologyManagerPolicy is %s, so what a pod gets comes from one NUMA node", placement.SingleNUMANode)
	}
	if options.AlignBySocket && within(nodes, sockets) && len(nodes) == len(sockets) {
		useless(cpuplan.OptionAlignBySocket, "each socket of the machine is one NUMA node")
	}
	if !options.PreferUncoreCache {
		return found
	}
	switch _, untold := caches[machine.NoCache]; {
	case untold && len(caches) == 1:
		gainless(cpuplan.OptionPreferUncoreCache, "the machine does not tell which CPUs share a cache")
	case untold:
	case len(caches) == 1:
		gainless(cpuplan.OptionPreferUncoreCache, "all CPUs of the machine share one cache")
	case single && within(nodes, caches):
		gainless(cpuplan.OptionPreferUncoreCache, "topologyManagerPolicy is %s, and the CPUs of a NUMA node share one cache", placement.SingleNUMANode)
	}
	return found
}

// groups is the CPUs by something that they have in common.
func groups(m machine.Machine, by func(machine.CPU) int) map[int]cpuplan.Set {
	ids := map[int][]int{}
	for _, c := range m.CPUs {
		ids[by(c)] = append(ids[by(c)], c.ID)
	}
	sets := map[int]cpuplan.Set{}
	for id, list := range ids {
		sets[id] = cpuplan.NewSet(list...)
	}
	return sets
}

// within reports whether each of the small sets lies in one of the large ones.
func within(small, large map[int]cpuplan.Set) bool {
	for _, s := range small {
		fits := false
		for _, l := range large {
			fits = fits || s.IsSubsetOf(l)
		}
		if !fits {
			return false
		}
	}
	return true
}
