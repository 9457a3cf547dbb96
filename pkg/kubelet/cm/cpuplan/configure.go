// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Names of the policies.
const (
	PolicyNone   = "none"
	PolicyStatic = "static"
)

// Names of the static policy's options.
const (
	OptionFullPCPUsOnly         = "full-pcpus-only"
	OptionDistributeAcrossNUMA  = "distribute-cpus-across-numa"
	OptionAlignBySocket         = "align-by-socket"
	OptionDistributeAcrossCores = "distribute-cpus-across-cores"
	OptionStrictReservation     = "strict-cpu-reservation"
	OptionPreferUncoreCache     = "prefer-align-cpus-by-uncorecache"
)

// Configuration is what the kubelet's configuration says of the CPU manager.
type Configuration struct {
	Policy string
	// Options are the policy's, by name. Alpha and Beta are whether those of that
	// maturity may be used.
	Options     map[string]string
	Alpha, Beta bool
	// ReconcilePeriod is how often running containers are looked at.
	ReconcilePeriod time.Duration
	// Reserved are the reserved CPUs; when empty, as many are chosen as the
	// reservation of the node asks for.
	Reserved    Set
	Reservation v1.ResourceList
	// SingleNUMANode is whether the topology manager's policy is that.
	SingleNUMANode bool
}

// Configure checks the configuration against the machine, which topology reads.
// The node is nil under the policy none.
func Configure(c Configuration, topology func() (*Topology, error)) (*Node, error) {
	switch c.Policy {
	case PolicyNone:
		if len(c.Options) > 0 {
			return nil, fmt.Errorf("new none policy error: None policy: received unsupported options=%v", c.Options)
		}
		return nil, nil
	case PolicyStatic:
	default:
		return nil, fmt.Errorf("unknown policy: %q", c.Policy)
	}
	if c.ReconcilePeriod <= 0 {
		return nil, fmt.Errorf("new static policy error: cpuManagerReconcilePeriod must be longer than 0, not %s", c.ReconcilePeriod)
	}
	count, err := reservedCount(c.Reservation)
	if err != nil {
		return nil, err
	}
	node, err := c.static(count, topology)
	if err != nil {
		return nil, fmt.Errorf("new static policy error: %w", err)
	}
	return node, nil
}

func (c Configuration) static(count int, topology func() (*Topology, error)) (*Node, error) {
	options, err := ParseOptions(c.Options, c.Alpha, c.Beta)
	if err != nil {
		return nil, err
	}
	if options.AlignBySocket && c.SingleNUMANode {
		// The word "Topolgy" is the kubelet's.
		return nil, fmt.Errorf("Topolgy manager single-numa-node policy is incompatible with CPUManager %s policy option", OptionAlignBySocket)
	}
	t, err := topology()
	if err != nil {
		return nil, fmt.Errorf("[cpumanager] %w", err)
	}
	return NewNode(t, c.Reserved, count, options)
}

// reservedCount is how many CPUs the node's reservation comes to, rounded up.
func reservedCount(reservation v1.ResourceList) (int, error) {
	cpu, ok := reservation[v1.ResourceCPU]
	if !ok {
		return 0, fmt.Errorf("[cpumanager] unable to determine reserved CPU resources for static policy")
	}
	// Without reserved CPUs nothing would be left for what has none of its own.
	if cpu.Sign() <= 0 {
		return 0, fmt.Errorf("[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero")
	}
	if cpu.CmpInt64(MaxCPUs) > 0 {
		return 0, fmt.Errorf("[cpumanager] unable to reserve %s CPUs: more than any machine has", cpu.String())
	}
	return int((cpu.MilliValue() + 999) / 1000), nil
}

// option is what is known about one of them.
type option struct {
	// maturity is Alpha or Beta, or empty for options that are generally
	// available.
	maturity string
	set      func(*Options, bool)
}

var options = map[string]option{
	OptionFullPCPUsOnly:     {set: func(o *Options, on bool) { o.FullPCPUsOnly = on }},
	OptionStrictReservation: {set: func(o *Options, on bool) { o.StrictCPUReservation = on }},
	OptionPreferUncoreCache: {set: func(o *Options, on bool) { o.PreferUncoreCache = on }},
	OptionDistributeAcrossNUMA: {maturity: "Beta",
		set: func(o *Options, on bool) { o.DistributeAcrossNUMA = on }},
	OptionAlignBySocket: {maturity: "Alpha",
		set: func(o *Options, on bool) { o.AlignBySocket = on }},
	OptionDistributeAcrossCores: {maturity: "Alpha",
		set: func(o *Options, on bool) { o.DistributeAcrossCores = on }},
}

// exclusive are the pairs of options that contradict each other, or of which
// nobody has said yet what they mean together.
var exclusive = [][2]string{
	{OptionFullPCPUsOnly, OptionDistributeAcrossCores},
	{OptionDistributeAcrossNUMA, OptionDistributeAcrossCores},
	{OptionPreferUncoreCache, OptionDistributeAcrossCores},
	{OptionPreferUncoreCache, OptionDistributeAcrossNUMA},
}

// OptionNames lists the options, sorted.
func OptionNames() []string { return slices.Sorted(maps.Keys(options)) }

// CheckOption fails for an option that does not exist or whose maturity is not
// allowed.
func CheckOption(name string, alpha, beta bool) error {
	o, known := options[name]
	if !known {
		return fmt.Errorf("unknown CPU Manager Policy option: %q", name)
	}
	if o.maturity == "Alpha" && !alpha || o.maturity == "Beta" && !beta {
		return fmt.Errorf("CPU Manager Policy %s-level Options not enabled, but option %q provided", o.maturity, name)
	}
	return nil
}

// ParseOptions reads the options of the static policy.
func ParseOptions(values map[string]string, alpha, beta bool) (Options, error) {
	var parsed Options
	isOn := map[string]bool{}
	// Sorted, so that of two mistakes the same one is always reported.
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := CheckOption(name, alpha, beta); err != nil {
			return parsed, err
		}
		on, err := strconv.ParseBool(values[name])
		if err != nil {
			return parsed, fmt.Errorf("bad value for option %q: %w", name, err)
		}
		options[name].set(&parsed, on)
		isOn[name] = on
	}
	for _, pair := range exclusive {
		if isOn[pair[0]] && isOn[pair[1]] {
			return parsed, fmt.Errorf("static policy options %s and %s can not be used at the same time", pair[0], pair[1])
		}
	}
	return parsed, nil
}
