// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Admit runs the procedure of the package comment. The error is nil, or a
// *AffinityRefusal, *ProviderRefusal or *ResizeRefusal, to which *UndoErrors may
// be joined; look for each with errors.As. An unknown scope is an error as well.
func Admit(req Request, scope Scope, decider Decider, providers []Provider, recorder Recorder) error {
	a := &admission{Request: req, scope: scope, decider: decider, providers: providers, recorder: recorder, answers: map[question][]numa.Resource{}}
	if err := a.checkResize(); err != nil {
		return err
	}
	a.begin()
	a.held = a.Resize || a.isHeld()
	err := a.place()
	if err == nil {
		err = a.commit()
	}
	if err == nil {
		a.settle()
		return nil
	}
	if left := a.undo(); len(left) > 0 {
		return errors.Join(append([]error{err}, left...)...)
	}
	return err
}

// admission is one run of the procedure.
type admission struct {
	Request
	scope     Scope
	decider   Decider
	providers []Provider
	recorder  Recorder

	trial    bool                         // nothing comes of it; see would
	answers  map[question][]numa.Resource // what providers answered when asked for hints
	held     bool                         // the pod has its place from an earlier admission
	recorded []earlier                    // what Record replaced, in that order
}

// earlier is the state of a container's affinity before this admission.
type earlier struct {
	container string
	affinity  numa.Hint
	recorded  bool
}

// checkResize asks everybody whose allocations a resize must not touch.
func (a *admission) checkResize() error {
	if !a.Resize {
		return nil
	}
	var errs []error
	for _, p := range a.providers {
		if r, ok := p.(Resizer); ok {
			if err := r.CheckResize(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &ResizeRefusal{Errs: errs}
}

// place decides and allocates, and leaves the transactions open.
func (a *admission) place() error {
	switch {
	case a.scope == ScopeNone || !a.decider.Aligns():
		return a.allocateAll(a.providers)
	case a.scope == ScopeContainer:
		for container := range a.All() {
			affinity, err := a.decide(container)
			if err != nil {
				return err
			}
			a.record(container, affinity)
			if err := a.allocate(a.providers, container); err != nil {
				return err
			}
		}
		return nil
	case a.scope == ScopePod:
		affinity, err := a.decide("")
		if err != nil {
			return err
		}
		for container := range a.All() {
			a.record(container, affinity)
		}
		if a.PodLevel {
			return a.allocatePod()
		}
		return a.allocateAll(a.providers)
	}
	return fmt.Errorf("unknown scope: %q", a.scope)
}

// decide gathers and merges the hints for a container, or for the pod when
// container is "".
func (a *admission) decide(container string) (numa.Hint, error) {
	var resources []numa.Resource
	from := make([]int, len(a.providers)) // where the resources of a provider begin
	for i, p := range a.providers {
		from[i] = len(resources)
		var answer []numa.Resource
		if container == "" {
			answer = p.PodHints()
		} else {
			answer = p.ContainerHints(container)
		}
		if !a.trial {
			a.answers[question{i, container}] = answer
		}
		resources = append(resources, answer...)
	}
	d := a.decider.Decide(resources, a.usage)
	if d.Admit || a.held {
		return d.Affinity, nil
	}
	if a.trial {
		return numa.Hint{}, errRefused
	}
	refusal := &AffinityRefusal{Scope: a.scope, PodLevel: a.PodLevel, Containers: len(a.InitContainers) + len(a.Containers), Container: container, Affinity: d.Affinity, Objections: d.Objections}
	if p, ok := a.decider.(interface {
		Strictness() Strictness
		Nodes() numa.Set
	}); ok {
		refusal.Strictness, refusal.Nodes = p.Strictness(), p.Nodes()
	}
	for i, p := range a.providers {
		to := len(resources)
		if i+1 < len(from) {
			to = from[i+1]
		}
		if r, ok := p.(Reporter); ok {
			if report, knows := r.Report(container); knows {
				refusal.add(report)
				continue
			}
		}
		e, ok := p.(Explainer)
		if !ok || !concerned(resources[from[i]:to], d.Objections) {
			continue
		}
		if fact := e.Explain(container); fact != "" {
			refusal.Facts = append(refusal.Facts, fact)
		}
	}
	refusal.Help = a.help(refusal)
	return numa.Hint{}, refusal
}

// usage is how allocated the nodes are, as far as providers can tell.
func (a *admission) usage() *numa.Usage {
	var shares []numa.NodeUsage
	for _, p := range a.providers {
		if r, ok := p.(Reporter); ok {
			shares = append(shares, r.Usage()...)
		}
	}
	return numa.NewUsage(shares)
}

// isHeld reports whether every provider that keeps records, and of which the
// pod needs something, has all of it on record. If one of them has nothing, what
// the others have is let go, unless the pod has begun to run: somebody stopped
// between their records, and where one has the pod another may not have room.
func (a *admission) isHeld() bool {
	held, all, lacking := false, true, false
	for _, p := range a.providers {
		h, ok := p.(Holder)
		if !ok {
			continue
		}
		needs, holds := h.Holds()
		all = all && (holds || !needs)
		held = held || needs
		if d, ok := p.(Dropper); ok && needs && !holds {
			lacking = lacking || d.Lacks()
		}
	}
	if all {
		return held
	}
	for _, p := range a.providers {
		if d, ok := p.(Dropper); ok && lacking {
			d.Drop()
		}
	}
	return false
}

// concerned reports whether one of the objections is about one of the
// resources. Where nothing was objected to, every provider may explain.
func concerned(resources []numa.Resource, objections []numa.Objection) bool {
	if len(objections) == 0 {
		return true
	}
	return slices.ContainsFunc(objections, func(o numa.Objection) bool {
		return slices.ContainsFunc(resources, func(r numa.Resource) bool { return r.Name == o.Resource })
	})
}

func (a *admission) record(container string, affinity numa.Hint) {
	if a.Resize {
		return
	}
	before, ok := a.recorder.Affinity(container)
	a.recorded = append(a.recorded, earlier{container, before, ok})
	a.recorder.Record(container, affinity)
}

func (a *admission) allocatePod() error {
	var unserved []Provider
	for _, p := range a.providers {
		if err := p.AllocatePod(); err != nil {
			return &ProviderRefusal{Provider: p.Name(), Err: err}
		}
		if whole, ok := p.(PodAllocator); !ok || !whole.AllocatesPods() {
			unserved = append(unserved, p)
		}
	}
	return a.allocateAll(unserved)
}

func (a *admission) allocateAll(providers []Provider) error {
	for container := range a.All() {
		if err := a.allocate(providers, container); err != nil {
			return err
		}
	}
	return nil
}

func (a *admission) allocate(providers []Provider, container string) error {
	for _, p := range providers {
		if err := p.AllocateContainer(container); err != nil {
			return &ProviderRefusal{Provider: p.Name(), Container: container, Err: err}
		}
	}
	return nil
}

// participants yields the providers that have a transaction open, by index.
func (a *admission) participants(yield func(int, Participant) bool) {
	if a.Resize {
		return
	}
	for i, p := range a.providers {
		if t, ok := p.(Participant); ok && !yield(i, t) {
			return
		}
	}
}

func (a *admission) begin() {
	for _, t := range a.participants {
		t.Begin()
	}
}

func (a *admission) commit() error {
	for i, t := range a.participants {
		if err := t.Commit(); err != nil {
			return &ProviderRefusal{Provider: a.providers[i].Name(), Commit: true, Err: err}
		}
	}
	return nil
}

// settle tells those who want to know that nothing is undone any more.
func (a *admission) settle() {
	for _, t := range a.participants {
		if s, ok := t.(Settler); ok {
			s.Settle()
		}
	}
}

// undo returns what could not be undone; it tries everything.
func (a *admission) undo() []error {
	var open []int
	for i := range a.participants {
		open = append(open, i)
	}
	var errs []error
	for _, i := range slices.Backward(open) {
		if err := a.providers[i].(Participant).Rollback(); err != nil {
			errs = append(errs, &UndoError{Provider: a.providers[i].Name(), Err: err})
		}
	}
	for _, e := range slices.Backward(a.recorded) {
		if e.recorded {
			a.recorder.Record(e.container, e.affinity)
		} else {
			a.recorder.Forget(e.container)
		}
	}
	return errs
}
