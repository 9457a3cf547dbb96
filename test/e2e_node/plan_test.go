// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podslice/podslice/test/e2e_node/guest"
	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
)

// planned is what is compared of a plan, as `podslice plan -o json` writes it.
type planned struct {
	Pods []struct {
		Name            string
		Admitted        bool
		Reason, Message string
		CPUMax          string
		Containers      []struct {
			Name, Kind, CPUIsolation, CPUs, MemoryNodes, CPUMax string
		}
	}
	Left struct {
		NodeSharedPool string
		NUMANodes      []struct {
			ID     int
			Memory []struct {
				Resource string
				Free     uint64
			}
		}
	}
}

// TestPlan has the command line say what will become of pods, knowing no more than
// the kubelet's configuration and a copy of the machine's /sys, and then runs them.
// What the kernel and the state files have afterwards must be the plan.
//
// On a host the same is played whatever machine it is: nothing here knows more of a
// machine than the command line finds out.
func TestPlan(t *testing.T) {
	onlyWhole(t)
	for _, m := range planMachines {
		shape, err := guest.ParseShape(m.shape)
		must(t, err)
		for _, run := range m.runs {
			if host != "" {
				name := fmt.Sprintf("%s, %s, %s scope", run.name, run.policy, run.scope)
				t.Run(name, func(t *testing.T) { playPlan(t, freshHost(t), run) })
				continue
			}
			t.Run(m.shape+"/"+run.name, func(t *testing.T) { playPlan(t, freshNodeOf(t, shape), run) })
		}
	}
}

func playPlan(t *testing.T, n *node.Node, run planRun) {
	machine, err := n.Machine(ctx)
	must(t, err)
	_, err = n.Guest.Output(ctx, fmt.Sprintf("rm -rf %[1]s && mkdir -p %[1]s", matrixFolder))
	must(t, err)
	if run.hugepages > 0 {
		reserveHugepages(t, n, run.hugepages)
	}
	config, err := node.PinnedOn(machine, run.policy, run.scope)
	must(t, err)
	config.CPUOptions, config.TopologyOptions = run.cpuOptions, run.topologyOptions
	var pods []node.Manifest
	for _, text := range run.pods {
		pods = append(pods, matrixPod(t, planText(t, machine, text)))
	}
	plan := makePlan(t, n, config, pods)

	must(t, n.StartKubelet(ctx, config))
	for _, m := range pods {
		must(t, n.AddPod(ctx, m))
		must(t, n.WaitKnown(ctx, m))
	}
	refused := map[string]*node.FailedError{}
	for _, m := range pods {
		_, err := n.WaitRunning(ctx, m)
		if failed := new(node.FailedError); errors.As(err, &failed) {
			refused[m.Name] = failed
			continue
		}
		must(t, err)
	}
	// The node shared pool is what the last pod has left.
	must(t, n.WaitReconciled(ctx, 2))
	r, err := n.Report(ctx)
	must(t, err)
	comparePlan(t, plan, r, refused, readBegan(t, n))
	say("plan: %d pods as planned, %d of them refused", len(pods), len(refused))
}

// planText puts the machine's numbers into a pod.
func planText(t *testing.T, machine report.Machine, text string) string {
	cpus := 0
	for _, node := range machine.Nodes {
		if n := parse(t, node.CPUs).Size(); n > 0 {
			cpus = n
		}
	}
	return strings.NewReplacer("{node}", fmt.Sprint(cpus), "{half}", fmt.Sprint(cpus/2), "{more}", fmt.Sprint(cpus+1)).Replace(text)
}

// makePlan runs the command line on this machine, far from the node.
func makePlan(t *testing.T, n *node.Node, config node.Config, pods []node.Manifest) planned {
	t.Helper()
	cli := os.Getenv("PODSLICE_CLI")
	if cli == "" {
		t.Fatal("PODSLICE_CLI is not set: run this as `make test-e2e-node`")
	}
	dir := t.TempDir()
	// Files of /sys are shorter than they say and some cannot be read, which tar minds.
	// What is missing the command line tells.
	sys, err := n.Guest.Output(ctx, "tar czf - /sys/devices/system/node /sys/devices/system/cpu 2>/dev/null; true")
	must(t, err)
	text, err := config.YAML()
	must(t, err)
	files := map[string][]byte{"sys.tgz": []byte(sys), "kubelet.yaml": text}
	args := []string{"plan", "-o", "json", "--machine", filepath.Join(dir, "sys.tgz"), "--config", filepath.Join(dir, "kubelet.yaml")}
	for i, m := range pods {
		name := fmt.Sprintf("pod-%d.yaml", i)
		files[name] = m.YAML()
		args = append(args, "-f", filepath.Join(dir, name))
	}
	for name, data := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	cmd := exec.CommandContext(ctx, cli, args...)
	var notes bytes.Buffer
	cmd.Stderr = &notes
	out, err := cmd.Output()
	if exit := new(exec.ExitError); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 2) {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, notes.String())
	}
	var p planned
	must(t, json.Unmarshal(out, &p))
	if len(p.Pods) != len(pods) {
		t.Fatalf("the plan has %d pods, want %d:\n%s", len(p.Pods), len(pods), out)
	}
	return p
}

func comparePlan(t *testing.T, plan planned, r *report.Report, refused map[string]*node.FailedError, began map[string]string) {
	t.Helper()
	for _, want := range plan.Pods {
		failed := refused[want.Name]
		equal(t, "pod "+want.Name+": admitted", failed == nil, want.Admitted)
		if failed != nil || !want.Admitted {
			// A static pod is critical: the kubelet tries to make room for it first,
			// and then says that it could not.
			outOf := strings.HasPrefix(want.Reason, "OutOf") && failed != nil && strings.Contains(failed.Message, "preempt")
			if failed != nil && !outOf {
				equal(t, "pod "+want.Name+": reason", failed.Reason, want.Reason)
				equal(t, "pod "+want.Name+": message", strings.TrimPrefix(failed.Message, "Pod was rejected: "), strings.TrimPrefix(want.Message, "Pod was rejected: "))
			}
			continue
		}
		pod := r.Pod(want.Name + "-node1")
		if pod == nil {
			t.Errorf("the kubelet has no pod %s", want.Name)
			continue
		}
		equal(t, "pod "+want.Name+": cpu.max", pod.CPUMax, want.CPUMax)
		for _, c := range want.Containers {
			is, where := named(t, pod, c.Name), "pod "+want.Name+", container "+c.Name
			if is.Kind == report.Init {
				// It has ended. On the node shared pool it ran before others came.
				if c.CPUIsolation != report.IsolationHost {
					equal(t, where+": CPUs that it ran on", began[want.Name+"."+c.Name], c.CPUs)
				}
				continue
			}
			equal(t, where+": isolation", is.Isolation, c.CPUIsolation)
			equal(t, where+": cpuset.cpus", is.CPUs, c.CPUs)
			equal(t, where+": CPUs that the process may use", is.CPUsAllowed, c.CPUs)
			equal(t, where+": cpuset.mems", is.Mems, c.MemoryNodes)
			equal(t, where+": cpu.max", is.CPUMax, c.CPUMax)
		}
	}
	equal(t, "node shared pool on record", nodePool(t, r).String(), plan.Left.NodeSharedPool)
	memory := readMemoryState(t, r)
	for _, node := range plan.Left.NUMANodes {
		for _, m := range node.Memory {
			is := memory.MachineState[node.ID].MemoryMap[m.Resource].Free
			equal(t, fmt.Sprintf("%s free on NUMA node %d", m.Resource, node.ID), is, m.Free)
		}
	}
}
