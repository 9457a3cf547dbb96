// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/pkg/machine/catalog"
)

// TestScripts runs the scripts under testdata. Commands:
//
//	node nodes=N cores=N threads=N memory=Q [hugepages=N] reserved=(CPUs)
//	  [policy=P] [scope=S] [gates=off] [full-pcpus-only] [strict]
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
//	  all pods again; says what moved or was written
//	admit
//	  NAME [cpu=Q memory=Q hugepages-2Mi=Q]: the pod and its budget, then a
//	  line a container: init|sidecar|app NAME [cpu=Q ...], requests = limits
//	start NAME, remove NAME, state
//	restart-containers NAME, resize NAME: the kubelet asks or tells the topology
//	  manager again
//	affinity: what the topology manager tells about the pods' containers
//	calls: what the device provider was asked to allocate since the last time
//
// After each command the state is held against what must always be so, see
// checkInvariants.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var n *node
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			defer func() { n.checkInvariants(d.Pos) }()
			switch d.Cmd {
			case "node":
				n = &node{t: t, dir: t.TempDir(), started: map[string]bool{}, wholeCores: map[string]bool{}}
				n.gates, n.policy, n.scope = true, "restricted", "pod"
				n.topologyOptions = map[string]string{}
				n.configure(d)
				if err := n.start(); err != nil {
					return err.Error() + "\n"
				}
				if n.reserve > 0 {
					return fmt.Sprintf("reserved %s, shared pool %s\n", n.reserved(), n.cpu.State().GetDefaultCPUSet())
				}
				return fmt.Sprintf("shared pool %s\n", n.cpu.State().GetDefaultCPUSet())
			case "machine":
				return n.describeMachine()
			case "restart":
				return n.restart(d)
			case "admit":
				pod := parsePod(t, d.Input)
				n.add(pod)
				before := n.files()
				if result := n.admit(pod); !result.Admit {
					n.remove(pod.Name)
					require.Equal(t, before, n.files(), "a refused pod leaves something behind")
					for _, c := range pod.Spec.Containers {
						require.NotContains(t, n.affinities([]*v1.Pod{pod}), c.Name+": [", "a refused pod leaves a hint behind")
					}
					return fmt.Sprintf("%s: %s\n", result.Reason, result.Message)
				}
				n.wholeCores[pod.Name] = n.cpuOptions[cpumanager.FullPCPUsOnlyOption] == "true"
				n.checkAdmitted(d.Pos, pod)
				return n.describe(pod)
			case "affinity":
				return n.affinities(n.active())
			case "calls":
				calls := strings.Join(n.devices.calls, "\n")
				n.devices.calls = nil
				return calls + "\n"
			case "resize", "restart-containers":
				for _, pod := range n.active() {
					if pod.Name == d.CmdArgs[0].Key {
						if d.Cmd == "restart-containers" {
							n.restartContainers(pod)
							return n.affinities([]*v1.Pod{pod})
						}
						result := n.askTopologyManager(pod, lifecycle.ResizeOperation)
						return fmt.Sprintf("admit=%t %s\n", result.Admit, result.Message)
					}
				}
				t.Fatalf("no pod %s", d.CmdArgs[0].Key)
			case "start":
				for _, pod := range n.active() {
					if pod.Name == d.CmdArgs[0].Key {
						n.startContainers(pod)
						return n.describe(pod)
					}
				}
				t.Fatalf("no pod %s", d.CmdArgs[0].Key)
			case "remove":
				n.end(d.CmdArgs[0].Key)
				return ""
			case "state":
				var b strings.Builder
				for _, pod := range n.active() {
					b.WriteString(n.describe(pod))
				}
				fmt.Fprintf(&b, "shared pool %s\n", n.cpu.State().GetDefaultCPUSet())
				return b.String()
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// restart starts a new kubelet, which admits every pod again.
func (n *node) restart(d *datadriven.TestData) string {
	var before strings.Builder
	for _, pod := range n.active() {
		before.WriteString(n.describe(pod))
	}
	files := n.files()
	n.configure(d)
	if err := n.start(); err != nil {
		return err.Error() + "\n"
	}
	var out, after strings.Builder
	for _, pod := range n.active() {
		if result := n.admit(pod); !result.Admit {
			fmt.Fprintf(&out, "%s killed: %s: %s\n", pod.Name, result.Reason, result.Message)
		}
		after.WriteString(n.describe(pod))
	}
	if before.String() != after.String() {
		out.WriteString("moved:\n" + after.String())
	}
	if files != n.files() {
		out.WriteString("state files written\n")
	}
	if out.Len() == 0 {
		return "nothing moved, nothing written\n"
	}
	return out.String()
}

func (n *node) configure(d *datadriven.TestData) {
	number := func(text string) int {
		value, err := strconv.Atoi(text)
		require.NoError(n.t, err)
		return value
	}
	cpus := func(arg datadriven.CmdArg) cpuset.CPUSet {
		set, err := cpuset.Parse(strings.Join(arg.Vals, ","))
		require.NoError(n.t, err)
		return set
	}
	n.cpuOptions = map[string]string{}
	var s shape
	var name string
	offline := cpuset.New()
	for _, arg := range d.CmdArgs {
		value := ""
		if len(arg.Vals) > 0 {
			value = arg.Vals[0]
		}
		switch arg.Key {
		case "nodes":
			s.nodes = number(value)
		case "cores":
			s.cores = number(value)
		case "threads":
			s.threads = number(value)
		case "memory":
			s.memory = resource.MustParse(value)
		case "hugepages":
			s.hugepages2Mi = number(value)
		case "machine":
			name = value
		case "offline":
			offline = cpus(arg)
		case "reserved":
			n.reservedCPUs, n.reserve = cpus(arg), 0
		case "reserve":
			n.reservedCPUs, n.reserve = cpuset.New(), number(value)
		case "policy":
			n.policy = value
		case "scope":
			n.scope = value
		case "gates":
			n.gates = value != "off"
		case "full-pcpus-only", "strict":
			option := arg.Key
			if option == "strict" {
				option = cpumanager.StrictCPUReservationOption
			}
			n.cpuOptions[option] = "true"
		case "option":
			for _, option := range arg.Vals {
				n.cpuOptions[option] = "true"
			}
		case "max-numa-nodes":
			n.topologyOptions[topologymanager.MaxAllowableNUMANodes] = value
		case "tie-break":
			n.topologyOptions[topologymanager.NUMATieBreak] = value
		case "locality":
			n.topologyOptions[topologymanager.BestEffortLocality] = "true"
		case "device":
			n.devices = parseDevices(n, arg.Vals)
		case "prefer-closest":
			n.topologyOptions[topologymanager.PreferClosestNUMANodes] = "true"
		default:
			n.t.Fatalf("unknown setting %s", arg.Key)
		}
	}
	switch {
	case name != "":
		m, err := catalog.Get(name)
		require.NoError(n.t, err)
		m, err = m.Without(offline)
		require.NoError(n.t, err)
		n.info = m.MachineInfo()
		for i, node := range n.info.Topology {
			if node.Memory > 0 && s.hugepages2Mi > 0 {
				n.info.Topology[i].HugePages = []cadvisorapi.HugePagesInfo{{PageSize: 2048, NumPages: uint64(s.hugepages2Mi)}}
			}
		}
	case s.nodes > 0:
		n.info = s.machineInfo()
	}
}

func parsePod(t testing.TB, text string) *v1.Pod {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	head := strings.Fields(lines[0])
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: head[0], Namespace: "default", UID: types.UID("uid-" + head[0])}}
	if len(head) > 1 {
		budget := parseResources(t, head[1:])
		pod.Spec.Resources = &budget
	}
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		c := v1.Container{Name: f[1], Resources: parseResources(t, f[2:])}
		switch f[0] {
		case "sidecar":
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
			fallthrough
		case "init":
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case "app":
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		default:
			t.Fatalf("line %q: not a kind of container", line)
		}
	}
	return pod
}

func parseResources(t testing.TB, fields []string) v1.ResourceRequirements {
	if len(fields) == 0 {
		return v1.ResourceRequirements{}
	}
	list := v1.ResourceList{}
	for _, f := range fields {
		name, value, ok := strings.Cut(f, "=")
		require.True(t, ok, f)
		list[v1.ResourceName(name)] = resource.MustParse(value)
	}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}
