// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/nodeconfig"
)

func newValidate() *cobra.Command {
	var config, from, output string
	var strict bool
	cmd := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a KubeletConfiguration before it is rolled out",
		Long: `Check everything in a KubeletConfiguration that has to do with the managers:
what would keep the kubelet from starting on the machine (errors), what it would
silently not do as it was meant (warnings), and what is worth knowing (notes).
Each comes with the field, with both sides of the contradiction, and, where there
is one, with the value that would be right. If the kubelet would start, what its
managers would go by is told as well.

The exit code is 2 when there is an error or a warning. A file that the kubelet
cannot read at all gives 1. Flags of the kubelet that override the file are not
known here.`,
		Example: `  podslice validate --config config.yaml --machine machine.json
  podslice validate --config config.yaml --machine machine.json --strict -o json`,
		Args: byFlag("--config"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(cmd, config)
			if err != nil {
				return err
			}
			if strict {
				_ = c.Strict() // the findings tell it
			}
			m, err := readMachine(cmd, from)
			if err != nil {
				return err
			}
			r := report{Config: c.File, Machine: m.Name, Findings: append([]nodeconfig.Finding{}, c.Validate(m)...)}
			for _, f := range r.Findings {
				switch f.Severity {
				case nodeconfig.Error:
					r.Errors++
				case nodeconfig.Warning:
					r.Warnings++
				default:
					r.Notes++
				}
			}
			if n, err := c.For(m); err == nil {
				r.Starts, r.Managers = true, newInForce(n)
			}
			if err := render(cmd.OutOrStdout(), output, r, reportTable); err != nil {
				return err
			}
			if r.Errors+r.Warnings > 0 {
				return errWrong
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "the KubeletConfiguration, YAML or JSON, in a `file`, or - for standard input")
	_ = cmd.MarkFlagRequired("config") // the flag is there
	machineFlag(cmd, &from, "the `machine` that the kubelet is to run on, instead of this one")
	cmd.Flags().BoolVar(&strict, "strict", false, "what the kubelet overlooks in the file, such as unknown fields, is an error")
	outputFlag(cmd, &output)
	return cmd
}

// readConfig reads what --config names.
func readConfig(cmd *cobra.Command, path string) (*nodeconfig.Config, error) {
	if path == "-" {
		return nodeconfig.ReadFrom("standard input", cmd.InOrStdin())
	}
	return nodeconfig.Load(path)
}

// report is what validate has found.
type report struct {
	Config   string               `json:"config"`
	Machine  string               `json:"machine"`
	Starts   bool                 `json:"starts"`
	Errors   int                  `json:"errors"`
	Warnings int                  `json:"warnings"`
	Notes    int                  `json:"notes"`
	Findings []nodeconfig.Finding `json:"findings"`
	Managers *inForce             `json:"managers,omitempty"`
}

// inForce is what the managers go by.
type inForce struct {
	PodLevelResourceManagers bool              `json:"podLevelResourceManagers"`
	CPUManagerPolicy         string            `json:"cpuManagerPolicy"`
	ReservedCPUs             string            `json:"reservedCPUs,omitempty"`
	CPUsForPods              string            `json:"cpusForPods,omitempty"`
	MemoryManagerPolicy      string            `json:"memoryManagerPolicy"`
	ReservedMemory           []reservedMemory  `json:"reservedMemory,omitempty"`
	TopologyManagerPolicy    string            `json:"topologyManagerPolicy"`
	TopologyManagerScope     string            `json:"topologyManagerScope"`
	Allocatable              map[string]string `json:"allocatable"`
}

type reservedMemory struct {
	NUMANode int    `json:"numaNode"`
	Memory   string `json:"memory"`
}

func newInForce(n *nodeconfig.Node) *inForce {
	f := &inForce{
		PodLevelResourceManagers: n.Gates.On(nodeconfig.PodLevelResourceManagers),
		CPUManagerPolicy:         n.CPUPolicy, MemoryManagerPolicy: n.MemoryPolicy,
		TopologyManagerPolicy: string(n.Topology.Policy.Strictness()), TopologyManagerScope: string(n.Topology.Scope),
		Allocatable: map[string]string{},
	}
	if n.CPUs != nil {
		f.ReservedCPUs, f.CPUsForPods = n.CPUs.Reserved().String(), n.CPUs.Allocatable().String()
	}
	for id := range n.Memory.Nodes().All() {
		if c, _ := n.Memory.Capacity(id, memplan.Ordinary); c.Reserved > 0 {
			f.ReservedMemory = append(f.ReservedMemory, reservedMemory{id, numa.Bytes(c.Reserved)})
		}
	}
	for name, q := range n.Allocatable {
		f.Allocatable[string(name)] = q.String()
		if memplan.IsMemory(name) {
			f.Allocatable[string(name)] = numa.Bytes(uint64(q.Value()))
		}
	}
	return f
}

func reportTable(out io.Writer, r report) {
	for _, f := range r.Findings {
		fmt.Fprintf(out, "%s: %s\n    %s\n", f.Severity, plain(dash(f.Field)), plain(f.Message))
		if f.Fix != "" {
			fmt.Fprintf(out, "    right would be: %s\n", plain(f.Fix))
		}
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(out)
	}
	verdict := "does not start"
	if r.Starts {
		verdict = "starts"
	}
	fmt.Fprintf(out, "With %s a kubelet %s on %s: %s, %s, %s.\n", plain(r.Config), verdict, plain(nodeconfig.OnMachine(r.Machine)),
		many(r.Errors, "error"), many(r.Warnings, "warning"), many(r.Notes, "note"))
	if r.Managers != nil {
		fmt.Fprintln(out)
		managersTable(out, r.Managers)
	}
}

func managersTable(out io.Writer, f *inForce) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	cpus, memory := f.CPUManagerPolicy, f.MemoryManagerPolicy
	if f.ReservedCPUs != "" {
		cpus += fmt.Sprintf(", reserved CPUs %s, for pods %s", f.ReservedCPUs, dash(f.CPUsForPods))
	}
	for _, r := range f.ReservedMemory {
		memory += fmt.Sprintf(", %s reserved on NUMA node %d", r.Memory, r.NUMANode)
	}
	topology := f.TopologyManagerPolicy
	if f.TopologyManagerScope != topology {
		topology += ", scope " + f.TopologyManagerScope
	}
	budgets := "off: pods with a budget are not allocated as a whole"
	if f.PodLevelResourceManagers {
		budgets = "on"
	}
	var allocatable []string
	for _, name := range slices.Sorted(maps.Keys(f.Allocatable)) {
		if name != string(v1.ResourcePods) {
			allocatable = append(allocatable, name+" "+f.Allocatable[name])
		}
	}
	for _, row := range [][2]string{
		{"CPU manager", cpus}, {"memory manager", memory}, {"topology manager", topology},
		{nodeconfig.PodLevelResourceManagers, budgets},
		{"allocatable", strings.Join(append(allocatable, "pods "+f.Allocatable[string(v1.ResourcePods)]), ", ")},
	} {
		fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
}

// many counts things in words: "1 error", "2 errors".
func many(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
