// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"k8s.io/utils/cpuset"
)

// WriteTable prints a pod and its containers, one line each.
func WriteTable(w io.Writer, p *Pod) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tisolation\tcpuset.cpus\tcpuset.mems\tcpu.max\tmemory.max")
	fmt.Fprintf(t, "pod %s\t-\t(%s)\t(%s)\t%s\t%s\n", p.Name,
		union(p, func(c Container) string { return c.CPUs }), union(p, func(c Container) string { return c.MemsEffective }),
		orDash(p.CPUMax), bytesText(p.MemoryMax))
	for _, c := range p.Containers {
		mems := c.Mems
		if mems == "" && c.MemsEffective != "" {
			mems = "unset, all of " + c.MemsEffective
		}
		fmt.Fprintf(t, "  %s %s\t%s\t%s\t%s\t%s\t%s\n", c.Kind, c.Name,
			orDash(cmp.Or(c.Isolation, c.State)), orDash(c.CPUs), orDash(mems), orDash(c.CPUMax), bytesText(c.MemoryMax))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, `
cpuset, cpu.max and memory.max are read from the cgroups. In parentheses: the union of
the containers', as a pod's own cgroup has no cpuset. The isolation level is in no
cgroup; it follows from the kubelet's podresources API: "container" has cpu_ids of its
own, "pod" has those of its pod, "host" has neither.
`)
	return err
}

// union joins a list of the running containers.
func union(p *Pod, list func(Container) string) string {
	var all cpuset.CPUSet
	for _, c := range p.Containers {
		if set, err := cpuset.Parse(list(c)); err == nil {
			all = all.Union(set)
		}
	}
	return orDash(all.String())
}

func orDash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}

// bytesText shows whole gibibytes and mebibytes as such.
func bytesText(s string) string {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return orDash(s)
	case n > 0 && n%(1<<30) == 0:
		return fmt.Sprintf("%dGi", n>>30)
	case n > 0 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMi", n>>20)
	}
	return s
}
