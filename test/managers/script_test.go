// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
)

// TestScripts runs the scripts under testdata. Commands:
//
//	node nodes=N cores=N threads=N memory=Q [hugepages=N] reserved=(CPU,...)
//	  [policy=P] [scope=S] [gates=off] [full-pcpus-only] [strict]
//	restart [policy=P] [scope=S] [gates=on|off] [reserved=(CPU,...)] ...
//	  a new kubelet, with the CPU manager's options that are given here, admits
//	  all pods again; says what moved or was written
//	admit
//	  NAME [cpu=Q memory=Q hugepages-2Mi=Q]: the pod and its budget, then a
//	  line a container: init|sidecar|app NAME [cpu=Q ...], requests = limits
//	start NAME, remove NAME, state
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var n *node
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "node":
				n = &node{t: t, dir: t.TempDir(), started: map[string]bool{}}
				n.gates, n.policy, n.scope = true, "restricted", "pod"
				n.configure(d)
				if err := n.start(); err != nil {
					return err.Error() + "\n"
				}
				return fmt.Sprintf("shared pool %s\n", n.cpu.State().GetDefaultCPUSet())
			case "restart":
				return n.restart(d)
			case "admit":
				pod := parsePod(t, d.Input)
				n.add(pod)
				before := n.files()
				if result := n.admit(pod); !result.Admit {
					n.remove(pod.Name)
					require.Equal(t, before, n.files(), "a refused pod leaves something behind")
					return fmt.Sprintf("%s: %s\n", result.Reason, result.Message)
				}
				return n.describe(pod)
			case "start":
				for _, pod := range n.active() {
					if pod.Name == d.CmdArgs[0].Key {
						n.startContainers(pod)
						return n.describe(pod)
					}
				}
				t.Fatalf("no pod %s", d.CmdArgs[0].Key)
			case "remove":
				n.remove(d.CmdArgs[0].Key)
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
	n.cpuOptions = map[string]string{}
	for _, arg := range d.CmdArgs {
		value := ""
		if len(arg.Vals) > 0 {
			value = arg.Vals[0]
		}
		switch arg.Key {
		case "nodes":
			n.shape.nodes = number(value)
		case "cores":
			n.shape.cores = number(value)
		case "threads":
			n.shape.threads = number(value)
		case "memory":
			n.shape.memory = resource.MustParse(value)
		case "hugepages":
			n.shape.hugepages2Mi = number(value)
		case "reserved":
			var ids []int
			for _, v := range arg.Vals {
				ids = append(ids, number(v))
			}
			n.reservedCPUs = cpuset.New(ids...)
		case "policy":
			n.policy = value
		case "scope":
			n.scope = value
		case "gates":
			n.gates = value != "off"
		case "full-pcpus-only", "strict":
			name := map[string]string{"strict": "strict-cpu-reservation"}[arg.Key]
			if name == "" {
				name = arg.Key
			}
			n.cpuOptions[name] = "true"
		default:
			n.t.Fatalf("unknown setting %s", arg.Key)
		}
	}
}

func parsePod(t *testing.T, text string) *v1.Pod {
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

func parseResources(t *testing.T, fields []string) v1.ResourceRequirements {
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
