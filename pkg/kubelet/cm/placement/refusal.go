// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// AffinityRefusal says that the policy did not accept the affinity that the
// hints led to.
type AffinityRefusal struct {
	Scope Scope
	// Container is "" when the pod as a whole was refused.
	Container string
	// Affinity is the best one, which was not good enough.
	Affinity numa.Hint
	// Objections are the resources that stood in the way.
	Objections []numa.Objection
	// Facts are what their providers had to say.
	Facts []string
}

func (r *AffinityRefusal) Error() string {
	return "no acceptable NUMA affinity: " + r.Details()
}

// Details names the container, unless it is the pod as a whole, the resources
// that stood in the way, and the facts.
func (r *AffinityRefusal) Details() string {
	parts := make([]string, 0, len(r.Objections)+len(r.Facts))
	for _, o := range r.Objections {
		parts = append(parts, o.String())
	}
	if len(parts) == 0 {
		parts = append(parts, "the resources have no acceptable NUMA nodes in common")
	}
	parts = append(parts, r.Facts...)
	details := strings.Join(parts, "; ")
	if r.Container != "" {
		details = fmt.Sprintf("container %q: %s", r.Container, details)
	}
	return details
}

// ProviderRefusal says that a provider could not allocate, or could not commit
// what it had allocated. It wraps the provider's error.
type ProviderRefusal struct {
	Provider string
	// Container is "" when it is about the pod as a whole.
	Container string
	// Commit is set when everything had been allocated already.
	Commit bool
	Err    error
}

func (r *ProviderRefusal) Error() string {
	doing := "allocating for"
	if r.Commit {
		doing = "recording the allocation of"
	}
	return fmt.Sprintf("%s, %s %s: %v", r.Provider, doing, subject(r.Container), r.Err)
}

func (r *ProviderRefusal) Unwrap() error { return r.Err }

// UndoError is added to a refusal after which a provider could not give back
// what it had taken. It wraps the provider's error; the refusal stands first.
type UndoError struct {
	Provider string
	Err      error
}

func (e *UndoError) Error() string {
	return fmt.Sprintf("%s: giving back what the refused pod had taken: %v", e.Provider, e.Err)
}

func (e *UndoError) Unwrap() error { return e.Err }

func subject(container string) string {
	if container == "" {
		return "the pod"
	}
	return fmt.Sprintf("container %q", container)
}
