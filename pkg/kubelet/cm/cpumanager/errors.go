// SPDX-License-Identifier: Apache-2.0

package cpumanager

import "github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"

// ErrorSMTAlignment is the reason of pods that are refused with an
// SMTAlignmentError.
const ErrorSMTAlignment = cpuplan.ReasonSMTAlignment

// SMTAlignmentError refuses a pod whose CPUs cannot be whole physical cores,
// which the option full-pcpus-only asks for.
type SMTAlignmentError struct {
	RequestedCPUs         int
	CpusPerCore           int
	AvailablePhysicalCPUs int
	// CausedByPhysicalCPUs is set when there are too few free cores, and unset
	// when no number of cores has as many CPUs as requested.
	CausedByPhysicalCPUs bool
	// ContainerName is empty when the total of the pod is meant.
	ContainerName string
}

// Error implements error.
func (e SMTAlignmentError) Error() string {
	return (&cpuplan.SMTAlignmentError{
		Container: e.ContainerName, Requested: e.RequestedCPUs, Available: e.AvailablePhysicalCPUs,
		ThreadsPerCore: e.CpusPerCore, NotEnough: e.CausedByPhysicalCPUs,
	}).Error()
}

// Type is the reason in the pod's status.
func (e SMTAlignmentError) Type() string { return ErrorSMTAlignment }
