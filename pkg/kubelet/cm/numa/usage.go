// SPDX-License-Identifier: Apache-2.0

package numa

// TieBreak chooses between results of a merge that are equally good: both
// preferred or both not, of the same size, and equally near where distances
// count. Where it does not decide either, the smallest binary number does.
type TieBreak int

const (
	// Lowest leaves it to the binary number. So nodes fill up from 0 on.
	Lowest TieBreak = iota
	// MostAllocated takes the nodes of which the most is allocated, so that
	// whole nodes stay free for pods that need one.
	MostAllocated
	// LeastAllocated takes the nodes of which the least is allocated, so that
	// load is spread over memory controllers and power budgets.
	LeastAllocated
)

// NodeUsage is what can be allocated of a resource on a node, and how much of it
// is free now, in whatever unit the resource has.
type NodeUsage struct {
	Node              int
	Resource          string
	Allocatable, Free uint64
}

// Usage says how allocated nodes are: for each node the mean, over its
// resources, of the share that is allocated. Every resource counts alike, one
// of which a node has nothing to allocate does not count there, and a node
// without any is idle. What is reserved for the system is not allocatable, so it
// counts neither as allocated nor as free.
type Usage struct {
	parts [MaxNodes]int // in millionths
}

// NewUsage adds up the shares. Nodes out of range are left out.
func NewUsage(shares []NodeUsage) *Usage {
	var sum, count [MaxNodes]int
	for _, s := range shares {
		if s.Node < 0 || s.Node >= MaxNodes || s.Allocatable == 0 {
			continue
		}
		allocated := s.Allocatable - min(s.Free, s.Allocatable)
		sum[s.Node] += int(float64(allocated) / float64(s.Allocatable) * 1e6)
		count[s.Node]++
	}
	u := &Usage{}
	for id := range sum {
		if count[id] > 0 {
			u.parts[id] = sum[id] / count[id]
		}
	}
	return u
}

// Allocated is the share of the node that is allocated, from 0 to 1.
func (u *Usage) Allocated(node int) float64 {
	if u == nil || node < 0 || node >= MaxNodes {
		return 0
	}
	return float64(u.parts[node]) / 1e6
}

// rank is lower for the set to take. It compares sets of the same size only.
// Whole numbers make it exact, so that the result cannot depend on any order.
func (t TieBreak) rank(u *Usage, s Set) int {
	if t == Lowest || u == nil {
		return 0
	}
	sum := 0
	for id := range s.All() {
		sum += u.parts[id]
	}
	if t == MostAllocated {
		return -sum
	}
	return sum
}
