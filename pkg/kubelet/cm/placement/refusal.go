// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// AffinityRefusal says that the policy did not accept the affinity that the
// hints led to. It has every fact as a value; Details writes them as one line.
type AffinityRefusal struct {
	Scope Scope
	// PodLevel is set for a pod with pod-level resources.
	PodLevel bool
	// Strictness and Nodes are of the policy; zero if it was not one of ours.
	Strictness Strictness
	Nodes      numa.Set
	// Container is "" when the pod as a whole was refused; Containers is how
	// many the pod has.
	Container  string
	Containers int
	// Affinity is the best one, which was not good enough.
	Affinity numa.Hint
	// Objections are the resources that stood in the way.
	Objections []numa.Objection
	// Cause is set when the pod itself is at fault.
	Cause string
	// Demands are all that is asked for and that its provider has amounts of.
	Demands []numa.Demand
	// Facts are what other providers had to say.
	Facts []string
	// Help are changes, the smallest first, of which each for itself would admit the
	// pod on the node as it is, as far as the providers decide that. It is empty
	// where none is known.
	Help []string
}

// add takes over a provider's report.
func (r *AffinityRefusal) add(report numa.Report) {
	if r.Cause == "" {
		r.Cause = report.Cause
	}
	for _, d := range report.Demands {
		r.Demands = append(r.Demands, d.On(r.Nodes))
	}
}

func (r *AffinityRefusal) Error() string {
	return "no acceptable NUMA affinity: " + r.Details()
}

// Details names the container, unless it is the pod as a whole, the resources
// that stood in the way with what was asked for and what each NUMA node has, the
// narrowest affinity on an idle machine, the policy and what would help. Of a
// pod that is itself at fault it says that, and nothing else.
func (r *AffinityRefusal) Details() string {
	var parts []string
	for _, o := range r.causes() {
		text := o.String()
		if d, ok := r.demand(o.Resource); ok && r.Cause == "" {
			text += " (" + d.String() + ")"
		}
		parts = append(parts, text)
	}
	switch {
	case r.Cause != "":
		parts = []string{r.Cause}
	case len(parts) == 0:
		parts = append(parts, "the resources have no acceptable NUMA nodes in common")
	}
	parts = append(parts, r.Facts...)
	if r.Cause == "" {
		if len(r.Demands) > 0 {
			parts = append(parts, r.onIdle())
		}
		if r.Strictness != "" {
			parts = append(parts, fmt.Sprintf("policy %s, scope %s", r.Strictness, r.Scope))
		}
		if len(r.Help) > 0 {
			parts = append(parts, "would help: "+strings.Join(r.Help, ", or "))
		}
	}
	details := strings.Join(parts, "; ")
	if r.Container != "" {
		details = fmt.Sprintf("container %q: %s", r.Container, details)
	}
	return details
}

func (r *AffinityRefusal) demand(resource string) (numa.Demand, bool) {
	i := slices.IndexFunc(r.Demands, func(d numa.Demand) bool { return d.Resource == resource })
	if i < 0 {
		return numa.Demand{}, false
	}
	return r.Demands[i], true
}

// onIdle names the narrowest affinity of what has amounts; devices have none.
func (r *AffinityRefusal) onIdle() string {
	names := make([]string, len(r.Demands))
	for i, d := range r.Demands {
		names[i] = d.Resource
	}
	what := names[len(names)-1]
	if before := names[:len(names)-1]; len(before) > 0 {
		what = strings.Join(before, ", ") + " and " + what
	}
	nodes, ok := numa.Fit(r.Demands)
	switch {
	case !ok:
		return "not even an idle machine would fit " + what
	case nodes.Size() == 1:
		return fmt.Sprintf("on an idle machine %s would fit 1 NUMA node, such as %s", what, nodes)
	default:
		return fmt.Sprintf("on an idle machine %s would need %d NUMA nodes, such as %s", what, nodes.Size(), nodes)
	}
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

// ResizeRefusal says that a running pod cannot be resized as it is asked for. It
// wraps the errors of all Resizers that object, in their order.
type ResizeRefusal struct {
	Errs []error
}

func (r *ResizeRefusal) Error() string {
	parts := make([]string, len(r.Errs))
	for i, err := range r.Errs {
		parts[i] = err.Error()
	}
	return strings.Join(parts, "; ")
}

// Unwrap is for errors.Is and errors.As.
func (r *ResizeRefusal) Unwrap() []error { return r.Errs }

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
