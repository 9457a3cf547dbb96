// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/test/simnode"
)

// TestScripts runs the scripts under testdata. Commands:
//
//	node nodes=N cores=N threads=N memory=Q [hugepages=N] reserved=(CPUs)
//	  [policy=P] [scope=S] [cpu-policy=P] [memory-policy=P] [gates=off]
//	  [full-pcpus-only] [strict]
//	  [option=(O,...)]: options of the CPU manager by their full name
//	  [max-numa-nodes=N] [prefer-closest] [tie-break=V] [locality]: options of the
//	  topology manager
//	  [device=(NAME@NODE,...)]: what device plugins offer
//	  reserve=N in place of reserved: the CPU manager chooses the CPUs
//	node machine=NAME [offline=(CPUs)] ...
//	  the same on a machine of the catalogue; hugepages are on every node that
//	  has memory
//	machine
//	  what the managers read of the machine
//	restart [policy=P] [scope=S] [gates=on|off] [reserved=(CPUs)] ...
//	  a new kubelet, with the CPU manager's options that are given here, admits
//	  all pods again; says what moved or was written. terminating=(NAME,...): pods
//	  that it does not admit again, since they are on their way out
//	admit
//	  a pod as simnode.ParsePod reads it
//	start NAME, remove NAME, state
//	vanish NAME: the pod goes and nobody tells the managers
//	restart-containers NAME: the kubelet tells the topology manager again
//	lose NAME [cpu=(PART,...)] [memory=(PART,...)], misplace NAME [cpu=(CPUs)]
//	  [default=(CPUs)] [memory=(nodes)]: what a kubelet leaves behind that stops between two writes;
//	  see lose and misplace
//	start NAME until=CONTAINER: only the containers before that one
//	affinity: what the topology manager tells about the pods' containers
//	calls: what the device provider was asked to allocate since the last time
//
// and those of observe.
//
// After each command the state is held against what must always be so, see
// checkInvariants.
func TestScripts(t *testing.T) {
	registerMetrics(t)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var n *simnode.Node
		var grown counters
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			defer func() { require.NoError(t, n.CheckInvariants(), d.Pos) }()
			if text, ok := observe(t, n, &grown, d); ok {
				return text
			}
			switch d.Cmd {
			case "node":
				n = simnode.New(t)
				n.Logger, _ = ktesting.NewTestContext(t)
				configure(n, d)
				if err := n.Start(); err != nil {
					return err.Error() + "\n"
				}
				if n.Reserve > 0 {
					return fmt.Sprintf("reserved %s, shared pool %s\n", n.Reserved(), n.CPU.State().GetDefaultCPUSet())
				}
				return fmt.Sprintf("shared pool %s\n", n.CPU.State().GetDefaultCPUSet())
			case "machine":
				return n.DescribeMachine()
			case "restart":
				return restart(n, d)
			case "admit":
				pod, err := simnode.ParsePod(d.Input)
				require.NoError(t, err, d.Pos)
				n.Add(pod)
				before := n.Files()
				if result := n.Admit(pod); !result.Admit {
					n.Remove(pod.Name)
					require.Equal(t, before, n.Files(), "a refused pod leaves something behind")
					for _, c := range pod.Spec.Containers {
						require.NotContains(t, n.Affinities([]*v1.Pod{pod}), c.Name+": [", "a refused pod leaves a hint behind")
					}
					return fmt.Sprintf("%s: %s\n", result.Reason, result.Message)
				}
				require.NoError(t, n.CheckAdmitted(pod), d.Pos)
				return n.Describe(pod)
			case "lose":
				lose(t, n, d)
				return ""
			case "misplace":
				misplace(t, n, d)
				return ""
			case "affinity":
				return n.Affinities(n.Active())
			case "calls":
				calls := strings.Join(n.Devices.Calls, "\n")
				n.Devices.Calls = nil
				return calls + "\n"
			case "restart-containers", "start", "remove", "vanish":
				pod := n.Pod(d.CmdArgs[0].Key)
				require.NotNil(t, pod, d.Pos)
				switch d.Cmd {
				case "restart-containers":
					for i := range pod.Spec.Containers {
						require.NoError(t, n.StartContainer(pod, &pod.Spec.Containers[i]))
					}
					return n.Affinities([]*v1.Pod{pod})
				case "vanish":
					n.Vanish(pod.Name)
					return ""
				case "remove":
					require.NoError(t, n.End(pod.Name))
					return ""
				}
				for c := range simnode.Containers(pod) {
					if d.HasArg("until") && c.Name == d.CmdArgs[1].Vals[0] {
						break
					}
					require.NoError(t, n.StartContainer(pod, c))
				}
				return n.Describe(pod)
			case "state":
				var b strings.Builder
				for _, pod := range n.Active() {
					b.WriteString(n.Describe(pod))
				}
				fmt.Fprintf(&b, "shared pool %s\n", n.CPU.State().GetDefaultCPUSet())
				return b.String()
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// restart starts a new kubelet, which admits every pod again.
func restart(n *simnode.Node, d *datadriven.TestData) string {
	var before strings.Builder
	for _, pod := range n.Active() {
		before.WriteString(n.Describe(pod))
	}
	files := n.Files()
	configure(n, d)
	if err := n.Start(); err != nil {
		return err.Error() + "\n"
	}
	var out, after strings.Builder
	for _, pod := range n.Active() {
		if slices.Contains(argOf(d, "terminating"), pod.Name) {
			after.WriteString(n.Describe(pod))
			continue
		}
		if result := n.Admit(pod); !result.Admit {
			fmt.Fprintf(&out, "%s killed: %s: %s\n", pod.Name, result.Reason, result.Message)
		}
		after.WriteString(n.Describe(pod))
	}
	if before.String() != after.String() {
		out.WriteString("moved:\n" + after.String())
	}
	if files != n.Files() {
		out.WriteString("state files written\n")
	}
	if out.Len() == 0 {
		return "nothing moved, nothing written\n"
	}
	return out.String()
}

func argOf(d *datadriven.TestData, key string) []string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

func configure(n *simnode.Node, d *datadriven.TestData) {
	number := func(text string) int {
		value, err := strconv.Atoi(text)
		require.NoError(n.TB, err)
		return value
	}
	cpus := func(arg datadriven.CmdArg) cpuset.CPUSet {
		set, err := cpuset.Parse(strings.Join(arg.Vals, ","))
		require.NoError(n.TB, err)
		return set
	}
	n.CPUOptions, n.TopologyOptions = map[string]string{}, maps.Clone(n.TopologyOptions)
	if n.TopologyOptions == nil {
		n.TopologyOptions = map[string]string{}
	}
	var s simnode.Shape
	var name string
	offline := cpuset.New()
	for _, arg := range d.CmdArgs {
		value := ""
		if len(arg.Vals) > 0 {
			value = arg.Vals[0]
		}
		switch arg.Key {
		case "nodes":
			s.Nodes = number(value)
		case "cores":
			s.Cores = number(value)
		case "threads":
			s.Threads = number(value)
		case "memory":
			s.Memory = resource.MustParse(value)
		case "hugepages":
			s.Hugepages2Mi = number(value)
		case "machine":
			name = value
		case "offline":
			offline = cpus(arg)
		case "reserved":
			n.ReservedCPUs, n.Reserve = cpus(arg), 0
		case "reserve":
			n.ReservedCPUs, n.Reserve = cpuset.New(), number(value)
		case "policy":
			n.TopologyPolicy = value
		case "scope":
			n.Scope = value
		case "cpu-policy":
			n.CPUPolicy = value
		case "memory-policy":
			n.MemoryPolicy = value
		case "gates":
			n.Gate = value != "off"
		case "full-pcpus-only", "strict":
			option := arg.Key
			if option == "strict" {
				option = cpumanager.StrictCPUReservationOption
			}
			n.CPUOptions[option] = "true"
		case "option":
			for _, option := range arg.Vals {
				n.CPUOptions[option] = "true"
			}
		case "max-numa-nodes":
			n.TopologyOptions[topologymanager.MaxAllowableNUMANodes] = value
		case "tie-break":
			n.TopologyOptions[topologymanager.NUMATieBreak] = value
		case "locality":
			n.TopologyOptions[topologymanager.BestEffortLocality] = "true"
		case "device":
			var err error
			n.Devices, err = n.ParseDevices(arg.Vals)
			require.NoError(n.TB, err)
		case "terminating":
		case "prefer-closest":
			n.TopologyOptions[topologymanager.PreferClosestNUMANodes] = "true"
		default:
			n.TB.Fatalf("unknown setting %s", arg.Key)
		}
	}
	switch {
	case name != "":
		m, err := catalog.Get(name)
		require.NoError(n.TB, err)
		m, err = m.Without(offline)
		require.NoError(n.TB, err)
		n.Info = m.MachineInfo()
		for i, node := range n.Info.Topology {
			if node.Memory > 0 && s.Hugepages2Mi > 0 {
				n.Info.Topology[i].HugePages = []cadvisorapi.HugePagesInfo{{PageSize: 2048, NumPages: uint64(s.Hugepages2Mi)}}
			}
		}
	case s.Nodes > 0:
		n.Info = s.MachineInfo()
	}
}
