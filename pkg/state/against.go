// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/nodeconfig"
)

// Against is what files are held against. What is nil or empty is not known.
type Against struct {
	Machine *machine.Machine
	Config  *nodeconfig.Config
	// ConfigFile is the configuration's name for messages.
	ConfigFile string
	// Release is the release of Kubernetes that is to start on the files: one of
	// Releases.
	Release string
}

// Releases are those whose behaviour is known.
func Releases() []string { return []string{"1.35", "1.36", "1.37"} }

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
	if a.Config != nil {
		if _, err := a.Config.ReservedSystemCPUs(); err != nil {
			return fmt.Errorf("%s: %w", a.ConfigFile, err)
		}
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
	if a.Config == nil || a.Config.Kubelet.ReservedSystemCPUs == "" {
		return cpuplan.Set{}, false
	}
	set, _ := a.Config.ReservedSystemCPUs() // Validate has read it
	return set, true
}

func (a Against) strict() bool {
	if a.Config == nil {
		return false
	}
	on, _ := strconv.ParseBool(a.Config.Kubelet.CPUManagerPolicyOptions[cpuplan.OptionStrictReservation]) // off, if it is nonsense
	return on
}

// cpuPolicy and memoryPolicy are the configured ones, or "" when not known.
func (a Against) cpuPolicy() string {
	if a.Config == nil {
		return ""
	}
	return a.Config.Kubelet.CPUManagerPolicy
}

func (a Against) memoryPolicy() string {
	if a.Config == nil {
		return ""
	}
	return a.Config.Kubelet.MemoryManagerPolicy
}

// gateOn is whether pods are allocated as a whole; without a configuration the
// default of every release, off.
func (a Against) gateOn() bool {
	return a.Config != nil && a.Config.Gates.On(nodeconfig.PodLevelResourceManagers)
}

// memory is the machine's memory with the reservation of the configuration. It is
// known when both are.
func (a Against) memory() (memplan.Machine, error) { return a.Config.MemoryOf(*a.Machine) }

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
	return nodeconfig.Default().MemoryOf(*a.Machine)
}
