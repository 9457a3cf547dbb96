// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"k8s.io/utils/cpuset"
)

// TestShow runs testdata/show. Commands:
//
//	machine threads=2
//	<memory in GiB> <CPUs of the NUMA node>, one node a line
//
// sets the machine, each node a socket with one L3 cache;
//
//	picture reserved=0-1
//	pod <name> <podresources' CPUs> <cpu.max> <memory.max>
//	<kind> <name> <isolation> <cpuset.cpus> <cpuset.mems> <cpu.max> <memory.max>
//
// draws it, and table prints the first pod. A dash is an empty value, and the
// two words of cpu.max are written with a slash between.
func TestShow(t *testing.T) {
	var machine Machine
	datadriven.RunTest(t, "testdata/show", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		var err error
		switch d.Cmd {
		case "machine":
			machine = parseMachine(t, d)
			return ""
		case "picture":
			var reserved string
			d.ScanArgs(t, "reserved", &reserved)
			r := &Report{Machine: machine, Pods: parsePods(t, d)}
			err = WritePicture(&out, r, reserved)
		case "table":
			err = WriteTable(&out, &parsePods(t, d)[0])
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		return out.String()
	})
}

func parseMachine(t *testing.T, d *datadriven.TestData) Machine {
	threads := 1
	d.ScanArgs(t, "threads", &threads)
	var m Machine
	for id, line := range strings.Split(d.Input, "\n") {
		memory, cpus, _ := strings.Cut(line, " ")
		gib, err := strconv.ParseFloat(memory, 64)
		if err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		m.Nodes = append(m.Nodes, Node{ID: id, CPUs: cpus, Memory: int64(gib * (1 << 30))})
		list := cpuset.New()
		if cpus != "" {
			if list, err = cpuset.Parse(cpus); err != nil {
				d.Fatalf(t, "%s: %v", line, err)
			}
		}
		all := list.List()
		for i, cpu := range all {
			first := i - i%threads
			m.CPUs = append(m.CPUs, CPU{
				ID: cpu, Node: id, Socket: id, L3: cpus,
				Siblings: cpuset.New(all[first:min(first+threads, len(all))]...).String(),
			})
		}
	}
	return m
}

func parsePods(t *testing.T, d *datadriven.TestData) []Pod {
	var pods []Pod
	value := func(s string) string {
		if s == "-" {
			return ""
		}
		return strings.ReplaceAll(s, "/", " ")
	}
	for line := range strings.SplitSeq(d.Input, "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "pod" && len(f) == 5:
			pods = append(pods, Pod{Name: f[1], CPUIDs: value(f[2]), CPUMax: value(f[3]), MemoryMax: value(f[4])})
		case len(f) == 7 && len(pods) > 0:
			p := &pods[len(pods)-1]
			c := Container{Kind: f[0], Name: f[1], Isolation: value(f[2]), CPUs: value(f[3]), Mems: value(f[4]), MemsEffective: value(f[4]), CPUMax: value(f[5]), MemoryMax: value(f[6])}
			if c.Mems == "" && c.CPUs != "" {
				c.MemsEffective = "0-1"
			}
			p.Containers = append(p.Containers, c)
		default:
			d.Fatalf(t, "cannot read %q", line)
		}
	}
	return pods
}
