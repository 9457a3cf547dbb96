// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/test/simnode"
)

func wait() { synctest.Wait() }

func newNode(tb testing.TB, prepare func(*simnode.Node)) *simnode.Node {
	n := simnode.New(tb)
	if prepare != nil {
		prepare(n)
	}
	return n
}

// settings are the arguments of node and restart that make the machine.
type settings struct {
	shape   simnode.Shape
	name    string
	offline *cpuset.CPUSet
}

// configure sets the node up for its next kubelet. What is not named stays as it
// was, except for the CPU manager's options.
func (r *Runner) configure(args []datadriven.CmdArg, written string) error {
	n := r.Node
	n.CPUOptions, n.TopologyOptions = map[string]string{}, maps.Clone(n.TopologyOptions)
	if n.TopologyOptions == nil {
		n.TopologyOptions = map[string]string{}
	}
	var s settings
	for _, arg := range args {
		if err := r.set(&s, arg); err != nil {
			return fmt.Errorf("setting %s: %w", arg.String(), err)
		}
	}
	return r.setMachine(s, written)
}

func (r *Runner) set(s *settings, arg datadriven.CmdArg) (err error) {
	n := r.Node
	value := ""
	if len(arg.Vals) > 0 {
		value = arg.Vals[0]
	}
	switch arg.Key {
	case "nodes":
		s.shape.Nodes, err = strconv.Atoi(value)
	case "cores":
		s.shape.Cores, err = strconv.Atoi(value)
	case "threads":
		s.shape.Threads, err = strconv.Atoi(value)
	case "memory":
		s.shape.Memory, err = resource.ParseQuantity(value)
	case "hugepages":
		s.shape.Hugepages2Mi, err = strconv.Atoi(value)
	case "machine":
		s.name = value
	case "offline":
		var cpus cpuset.CPUSet
		cpus, err = cpuset.Parse(strings.Join(arg.Vals, ","))
		s.offline = &cpus
	case "reserved":
		n.Reserve = 0
		n.ReservedCPUs, err = cpuset.Parse(strings.Join(arg.Vals, ","))
	case "reserved-memory":
		n.ReservedMemory = value
		_, err = resource.ParseQuantity(value)
	case "reserve":
		n.ReservedCPUs = cpuset.New()
		n.Reserve, err = strconv.Atoi(value)
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
	case "full-pcpus-only":
		n.CPUOptions[cpumanager.FullPCPUsOnlyOption] = "true"
	case "strict":
		n.CPUOptions[cpumanager.StrictCPUReservationOption] = "true"
	case "option":
		for _, option := range arg.Vals {
			n.CPUOptions[option] = "true"
		}
	case "plain":
		clear(n.TopologyOptions)
	case "max-numa-nodes":
		n.TopologyOptions[topologymanager.MaxAllowableNUMANodes] = value
	case "tie-break":
		n.TopologyOptions[topologymanager.NUMATieBreak] = value
	case "locality":
		n.TopologyOptions[topologymanager.BestEffortLocality] = "true"
	case "prefer-closest":
		n.TopologyOptions[topologymanager.PreferClosestNUMANodes] = "true"
	case "device":
		n.Devices, err = n.ParseDevices(arg.Vals)
	case "period":
		n.Period, err = time.ParseDuration(value)
	case "mute":
		n.Mute = value != "off"
	case "lost", "terminating":
	default:
		return fmt.Errorf("it is not known")
	}
	return err
}

// setMachine makes the machine, or takes CPUs of it offline and online.
func (r *Runner) setMachine(s settings, written string) error {
	switch {
	case written != "":
		m, err := machine.Parse("machine", []byte(written))
		if err != nil {
			return err
		}
		r.base = m.MachineInfo()
	case s.name != "":
		m, err := catalog.Get(s.name)
		if err != nil {
			return err
		}
		r.base = m.MachineInfo()
		for i, node := range r.base.Topology {
			if node.Memory > 0 && s.shape.Hugepages2Mi > 0 {
				r.base.Topology[i].HugePages = []cadvisorapi.HugePagesInfo{{PageSize: 2048, NumPages: uint64(s.shape.Hugepages2Mi)}}
			}
		}
	case s.shape.Nodes > 0:
		r.base = s.shape.MachineInfo()
	case s.offline == nil:
		return nil
	}
	r.Node.Info = r.base
	if s.offline == nil || s.offline.IsEmpty() {
		return nil
	}
	m, err := machine.FromMachineInfo("machine", r.base)
	if err != nil {
		return err
	}
	if m, err = m.Without(*s.offline); err != nil {
		return err
	}
	r.Node.Info = m.MachineInfo()
	return nil
}
