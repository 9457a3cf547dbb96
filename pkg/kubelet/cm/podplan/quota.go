// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"slices"
	"sort"
	"time"
)

// Holding is what a container has been given.
type Holding struct {
	// CPUs is how many CPUs it has for itself or, if it shares, how many the pool
	// of its pod has. It is 0 for a container that runs in the node shared pool.
	CPUs int
	// Exclusive is set when the CPUs are its own.
	Exclusive bool
}

// Quotas are the CFS quotas of a pod with a budget, by the rules in the package
// documentation.
type Quotas struct {
	// Lifted says that the pod's own cgroup gets no quota.
	Lifted bool
	// Harmless says that it has a quota which can throttle no exclusive container.
	Harmless bool
	most     map[string]int64
	others   int64
}

// Most is the most that the container's quota may be, in thousandths of a CPU;
// false for a container without a quota. A name that the pod does not have is an
// ephemeral container's.
func (q Quotas) Most(container string) (milliCPU int64, limited bool) {
	milliCPU, known := q.most[container]
	if !known {
		milliCPU = q.others
	}
	return milliCPU, milliCPU > 0
}

// Lower is what a container's quota is made from, in thousandths of a CPU, where
// limit is what it would be made from otherwise, 0 for nothing. Claimed is what
// is added to the container's limit and to the pod's besides.
func (q Quotas) Lower(container string, limit, claimed int64) int64 {
	most, limited := q.Most(container)
	if !limited {
		return limit
	}
	if most += claimed; limit != 0 && limit <= most {
		return limit
	}
	return most
}

// LeastQuota is the least that the kernel can be told, 1 ms in each period, in
// thousandths of a CPU.
func LeastQuota(period time.Duration) int64 { return int64((time.Second + period - 1) / period) }

// Quotas divides what the exclusive containers leave of the budget among those
// that share. least is the smallest quota that the kernel can be told, in
// thousandths of a CPU. It returns false where the rules have nothing to say: for
// a pod without a budget or without an exclusive container.
func (p Pod) Quotas(held func(Container) Holding, least int64) (Quotas, bool) {
	if p.Budget == nil || p.Budget.MilliCPU <= 0 {
		return Quotas{}, false
	}
	d := division{budget: p.Budget.MilliCPU, least: make([]int64, len(p.Containers)), most: make([]int64, len(p.Containers))}
	q := Quotas{Lifted: true, most: map[string]int64{}}
	running := phase{room: d.budget}
	var bounds []phase
	inits := map[int]phase{} // of the standard init containers that get what is left
	exclusive := false
	for i, c := range p.Containers {
		h := held(c)
		d.most[i] = d.budget
		if c.LimitMilliCPU > 0 {
			d.most[i] = min(d.budget, max(least, c.LimitMilliCPU))
		}
		if h.Exclusive {
			exclusive = true
			d.most[i] = 0
		} else if h.CPUs > 0 {
			d.most[i] = min(d.most[i], int64(h.CPUs)*1000)
		}
		d.least[i] = min(max(least, c.MilliCPU), d.most[i])
		switch {
		case c.Kind.LongRunning():
			running = running.with(i, h)
		case h.Exclusive:
			bounds = append(bounds, running.with(i, h))
		case h.CPUs == 0:
			inits[i] = running.with(i, h)
		}
	}
	if !exclusive {
		return Quotas{}, false
	}
	if d.onlyInits(running, bounds) {
		for i, c := range p.Containers {
			q.most[c.Name] = d.most[i]
		}
		q.Lifted, q.Harmless, q.others = false, true, d.budget
		return q, true
	}
	if !d.bound(running) {
		q.Lifted = false
		for _, i := range running.sharers {
			d.most[i] = min(d.most[i], max(enough, running.left(), d.least[i]))
		}
	}
	for _, f := range bounds {
		q.Lifted = d.bound(f) && q.Lifted
	}
	got := d.fill()
	for i, beside := range inits {
		got[i] = 0
		if left := beside.left() - beside.sum(got); left >= least {
			got[i] = min(left, d.most[i])
		} else {
			q.Lifted, got[i] = false, min(d.most[i], enough)
		}
	}
	for i, c := range p.Containers {
		q.most[c.Name] = got[i]
	}
	q.others = min(d.budget, max(enough, running.room))
	return q, true
}

// enough is what a container gets that has to run although nothing is left for it,
// in thousandths of a CPU.
const enough = 1000

// phase is what runs at the same time at some moment of a pod's life.
type phase struct {
	room    int64 // the budget without the exclusive slices
	pool    int64 // the pod's shared pool, of those that run in one
	sharers []int // those that run in the node shared pool, by position in the pod
}

func (f phase) with(container int, h Holding) phase {
	switch milli := int64(h.CPUs) * 1000; {
	case h.Exclusive:
		f.room -= milli
	case milli > 0:
		f.pool = max(f.pool, milli)
	default:
		f.sharers = append(slices.Clip(f.sharers), container)
	}
	return f
}

// left is what the sharers may use together.
func (f phase) left() int64 { return f.room - f.pool }

func (f phase) sum(of []int64) int64 {
	var total int64
	for _, i := range f.sharers {
		total += of[i]
	}
	return total
}

// division is the problem of giving every container the same, but not less than
// its least nor more than its most, such that no bound is exceeded.
type division struct {
	budget      int64
	least, most []int64 // by container; the leasts keep within every bound
	bounds      []phase
}

// onlyInits reports whether all that is exclusive are standard init containers
// which run beside nobody and leave something of the budget. The pod's quota is
// more than these can use, and afterwards it bounds those that share, each of
// which may use all of it when the others leave it.
func (d *division) onlyInits(running phase, inits []phase) bool {
	return len(running.sharers) > 0 && running.room == d.budget && running.pool == 0 && !slices.ContainsFunc(inits, func(f phase) bool {
		return len(f.sharers) > 0 || f.room <= 0
	})
}

// bound adds a phase, unless even the leasts are too much for it.
func (d *division) bound(f phase) bool {
	switch {
	case len(f.sharers) == 0: // cpusets bound it
	case f.sum(d.least) > f.left():
		return false
	default:
		d.bounds = append(d.bounds, f)
	}
	return true
}

// fill raises all containers together, a thousandth of a CPU at a time as it
// were. Those of a bound that is reached stay where they are.
func (d division) fill() []int64 {
	got, fixed := make([]int64, len(d.most)), make([]bool, len(d.most))
	raise := func(level int64) {
		for i := range got {
			if !fixed[i] {
				got[i] = min(max(level, d.least[i]), d.most[i])
			}
		}
	}
	exceeded := func(f phase) bool { return f.sum(got) > f.left() }
	// Beyond a million CPUs nobody wants more.
	top := min(d.budget, 1<<30)
	for {
		level := int64(sort.Search(int(top), func(level int) bool {
			raise(int64(level) + 1)
			return slices.ContainsFunc(d.bounds, exceeded)
		}))
		raise(level + 1)
		reached := slices.Clone(d.bounds)
		reached = slices.DeleteFunc(reached, func(f phase) bool { return !exceeded(f) })
		raise(level)
		if len(reached) == 0 {
			return got
		}
		for _, f := range reached {
			for _, i := range f.sharers {
				fixed[i] = true
			}
		}
	}
}
