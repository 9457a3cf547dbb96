// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"fmt"
	"runtime"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
)

type policyType string

const (
	// PolicyTypeStatic is the policy that gives Guaranteed pods memory on NUMA
	// nodes.
	PolicyTypeStatic policyType = memplan.PolicyStatic

	policyTypeNone       policyType = memplan.PolicyNone
	policyTypeBestEffort policyType = memplan.PolicyBestEffort
)

// policy is which policy is in force, and the machine that it gives from: the
// zero machine for None, which gives nothing. What Static gave to pods before the
// policy became None stays theirs until they end: their containers are bound when
// they start again, and all of it is in the state file. If the policy becomes
// Static again meanwhile, it is as if it had never been changed, except for pods
// that were admitted in between.
type policy struct {
	name    policyType
	machine memplan.Machine
}

func (p policy) static() bool { return p.name == PolicyTypeStatic }

func newPolicy(name string, machineInfo *cadvisorapi.MachineInfo, nodeAllocatableReservation v1.ResourceList, reservedMemory []kubeletconfig.MemoryReservation) (policy, error) {
	p := policyType(name)
	switch {
	case p == policyTypeNone:
		return policy{name: policyTypeNone}, nil
	case p == PolicyTypeStatic && runtime.GOOS == "windows":
		return policy{}, fmt.Errorf("policy %q is not available on Windows", p)
	case p == policyTypeBestEffort && runtime.GOOS == "windows":
		return policy{}, fmt.Errorf("policy %q is not supported yet", p)
	}
	machine, err := machineOf(p, machineInfo, nodeAllocatableReservation, reservedMemory)
	if err != nil {
		return policy{}, err
	}
	return policy{name: p, machine: machine}, nil
}
