// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
)

// gate is the feature gate for pods that are allocated as a whole.
const gate = "PodLevelResourceManagers"

// Against is what files are held against. What is nil or empty is not known.
type Against struct {
	Machine *machine.Machine
	Config  *kubeletconfig.KubeletConfiguration
	// ConfigFile is the configuration's name for messages.
	ConfigFile string
	// Release is the release of Kubernetes that is to start on the files: one of
	// Releases.
	Release string
}

// Releases are those whose behaviour is known.
func Releases() []string { return []string{"1.35", "1.36", "1.37"} }

// LoadMachine reads a machine: one of the catalogue by its name, or a file with a
// description of ours or with cAdvisor's MachineInfo as JSON.
func LoadMachine(source string) (*machine.Machine, error) {
	if slices.Contains(catalog.Names(), source) {
		m, err := catalog.Get(source)
		return &m, err
	}
	text, err := readBounded(source)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, fmt.Errorf("there is no file %q, and no machine of that name in the catalogue, which has %s", source, strings.Join(catalog.Names(), ", "))
		}
		return nil, err
	}
	var report struct {
		NumCores *int             `json:"num_cores"`
		Topology *json.RawMessage `json:"topology"`
	}
	if json.Unmarshal(text, &report) == nil && (report.NumCores != nil || report.Topology != nil) {
		var info cadvisorapi.MachineInfo
		if err := json.Unmarshal(text, &info); err != nil {
			return nil, fmt.Errorf("%s: cannot read cAdvisor's MachineInfo: %w", source, err)
		}
		m, err := machine.FromMachineInfo(filepath.Base(source), &info)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		return &m, nil
	}
	m, err := machine.Parse(source, text)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// LoadConfig reads a KubeletConfiguration in YAML or JSON.
func LoadConfig(path string) (*kubeletconfig.KubeletConfiguration, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	var config kubeletconfig.KubeletConfiguration
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if config.Kind != "KubeletConfiguration" {
		return nil, fmt.Errorf("%s: its kind is %q, not %q", path, config.Kind, "KubeletConfiguration")
	}
	if _, err := parseCPUs(config.ReservedSystemCPUs); err != nil {
		return nil, fmt.Errorf("%s: reservedSystemCPUs: %w", path, err)
	}
	return &config, nil
}

// readBounded reads a file, or what comes through a pipe.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, statefile.MaxSize+1))
	if err == nil && len(text) > statefile.MaxSize {
		err = fmt.Errorf("%s is larger than %d bytes", path, statefile.MaxSize)
	}
	return text, err
}

// Validate fails for what no file can be held against.
func (a Against) Validate() error {
	if a.Release != "" && !slices.Contains(Releases(), a.Release) {
		return fmt.Errorf("the release is %q: known are %s", a.Release, strings.Join(Releases(), ", "))
	}
	if a.Config != nil && a.Machine != nil {
		if _, err := a.memory(); err != nil {
			return fmt.Errorf("%s: %w", a.ConfigFile, err)
		}
	}
	return nil
}

// online is the CPUs of the machine.
func (a Against) online() (cpuplan.Set, bool) {
	if a.Machine == nil {
		return cpuplan.Set{}, false
	}
	return cpuplan.NewSet(a.Machine.Online().UnsortedList()...), true
}

// reserved is the CPUs that the configuration names as reserved; an amount alone
// does not say which.
func (a Against) reserved() (cpuplan.Set, bool) {
	if a.Config == nil || a.Config.ReservedSystemCPUs == "" {
		return cpuplan.Set{}, false
	}
	set, _ := parseCPUs(a.Config.ReservedSystemCPUs) // LoadConfig has read it
	return set, true
}

func (a Against) strict() bool {
	return a.Config != nil && a.Config.CPUManagerPolicyOptions["strict-cpu-reservation"] == "true"
}

// cpuPolicy and memoryPolicy are the configured ones, or "" when not known.
func (a Against) cpuPolicy() string {
	if a.Config == nil {
		return ""
	}
	if a.Config.CPUManagerPolicy == "" {
		return "none"
	}
	return a.Config.CPUManagerPolicy
}

func (a Against) memoryPolicy() string {
	if a.Config == nil {
		return ""
	}
	if a.Config.MemoryManagerPolicy == "" {
		return "None"
	}
	return a.Config.MemoryManagerPolicy
}

// gateOn is whether pods are allocated as a whole; without a configuration the
// default of every release, off.
func (a Against) gateOn() bool { return a.Config != nil && a.Config.FeatureGates[gate] }

// memory is the machine's memory with the reservation of the configuration. It is
// known when both are.
func (a Against) memory() (memplan.Machine, error) {
	reserved := map[int]map[string]uint64{}
	for _, r := range a.Config.ReservedMemory {
		id := int(r.NumaNode)
		if reserved[id] == nil {
			reserved[id] = map[string]uint64{}
		}
		for name, amount := range r.Limits {
			if amount.Value() < 0 {
				return memplan.Machine{}, fmt.Errorf("reservedMemory: NUMA node %d: %s is negative", id, name)
			}
			reserved[id][string(name)] = uint64(amount.Value())
		}
	}
	var specs []memplan.NodeSpec
	for _, n := range a.Machine.Nodes {
		spec := memplan.NodeSpec{ID: n.ID, Memory: n.Memory, HugePages: map[string]uint64{}, Reserved: reserved[n.ID]}
		for _, h := range n.HugePages {
			spec.HugePages["hugepages-"+numa.Bytes(h.PageSize)] = h.PageSize * h.Pages
		}
		delete(reserved, n.ID)
		specs = append(specs, spec)
	}
	for _, id := range slices.Sorted(maps.Keys(reserved)) {
		return memplan.Machine{}, fmt.Errorf("reservedMemory: the machine has no NUMA node %d", id)
	}
	return memplan.NewMachine(specs)
}

// memoryKnown is memory where it is known.
func (a Against) memoryKnown() (memplan.Machine, bool) {
	if a.Machine == nil || a.Config == nil {
		return memplan.Machine{}, false
	}
	m, err := a.memory()
	return m, err == nil
}

// bareMemory is the machine's memory without a reservation.
func (a Against) bareMemory() (memplan.Machine, error) {
	if a.Machine == nil {
		return memplan.Machine{}, errors.New("the machine is not known")
	}
	a.Config = &kubeletconfig.KubeletConfiguration{}
	return a.memory()
}
