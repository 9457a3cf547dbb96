// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Trier is a Provider that can take part in an admission that is only tried.
type Trier interface {
	// Trial returns a provider that answers for the same pod as this one would with
	// the change, and from the beginning: without what the open admission has given
	// the pod. What it allocates is nobody's. It looks affinities up with the
	// function. It fails with numa.ErrUntried if it cannot tell, and otherwise if
	// the change cannot be.
	Trial(change numa.Change, affinity func(container string) numa.Hint) (Provider, error)
}

// errRefused ends a trial. Nobody reads why.
var errRefused = errors.New("refused")

// would runs the admission again under another policy, in another scope or with a
// change, and reports whether the pod would be admitted, and where its first
// container would be. Nothing comes of it.
func (a *admission) would(change numa.Change, scope Scope, decider Decider) (numa.Hint, bool) {
	places := memo{}
	t := &admission{Request: a.Request, scope: scope, decider: decider, recorder: places, trial: true}
	for i, p := range a.providers {
		next, err := Provider(nil), numa.ErrUntried
		if trier, ok := p.(Trier); ok {
			next, err = trier.Trial(change, places.of)
		}
		if errors.Is(err, numa.ErrUntried) {
			next, err = &untried{Provider: p, in: a, index: i, change: change, scope: scope}, nil
		}
		if err != nil {
			return numa.Hint{}, false
		}
		t.providers = append(t.providers, next)
	}
	if t.place() != nil {
		return numa.Hint{}, false
	}
	for container := range t.All() {
		return places.of(container), true
	}
	return numa.Hint{Any: true}, true
}

// memo is the Recorder of a trial.
type memo map[string]numa.Hint

func (m memo) Affinity(container string) (numa.Hint, bool) { h, ok := m[container]; return h, ok }
func (m memo) Record(container string, h numa.Hint)        { m[container] = h }
func (m memo) Forget(container string)                     { delete(m, container) }

// of is the affinity of the container; without a decision it may be anywhere.
func (m memo) of(container string) numa.Hint {
	if h, ok := m[container]; ok {
		return h
	}
	return numa.Hint{Any: true}
}

// untried stands in a trial for a provider that has none, such as one of devices:
// it has what its hints say. Where these do not tell, the trial fails: for what a
// second container is given after a first one, in another scope, or for a change of
// what it has.
type untried struct {
	Provider
	in     *admission // that was refused
	index  int
	change numa.Change
	scope  Scope

	served bool // a container before this one wants something, too
	lacks  bool
}

func (u *untried) PodHints() []numa.Resource { return u.hints("") }

func (u *untried) ContainerHints(container string) []numa.Resource { return u.hints(container) }

func (u *untried) hints(container string) []numa.Resource {
	resources := u.answer(container, u.scope)
	interested := slices.ContainsFunc(resources, matters)
	u.lacks = u.served && interested || slices.ContainsFunc(resources, func(r numa.Resource) bool {
		_, asks := u.change.Ask[r.Name]
		_, frees := u.change.Free[r.Name]
		return matters(r) && (len(r.Hints) == 0 || asks || frees)
	})
	if u.scope != u.in.scope && slices.ContainsFunc(u.answer("", u.in.scope), matters) {
		u.lacks = true
	}
	u.served = u.served || interested
	return resources
}

// matters reports whether the placement of the resource does.
func matters(r numa.Resource) bool { return !r.NoPreference }

// answer is what the provider said in the admission that was refused; containers
// after the refused one are asked about only now.
func (u *untried) answer(container string, scope Scope) []numa.Resource {
	if scope != u.in.scope && container != "" {
		return nil // only of use where nothing of the provider matters
	}
	key := question{u.index, container}
	resources, known := u.in.answers[key]
	if !known && container != "" {
		resources = u.Provider.ContainerHints(container)
		u.in.answers[key] = resources
	}
	return resources
}

func (u *untried) AllocatePod() error { return u.allocate() }

func (u *untried) AllocateContainer(string) error { return u.allocate() }

func (u *untried) allocate() error {
	if u.lacks {
		return errRefused
	}
	return nil
}

// question is what a provider, by its index, was asked for hints about.
type question struct {
	provider  int
	container string
}
