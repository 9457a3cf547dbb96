// SPDX-License-Identifier: Apache-2.0

package cpuplan

import "slices"

// coreCounts is how many whole cores of each size there are, in the order of
// Topology.coreSizes. Machines have one size of core, or two if they are hybrid or
// have threads offline.
type coreCounts []int

// countWholeCores counts the cores that lie in the set with all their threads.
func (t *Topology) countWholeCores(cpus Set) coreCounts {
	counts := make(coreCounts, len(t.coreSizes))
	for i, core := range t.cores.units {
		if core.cpus.IsSubsetOf(cpus) {
			counts[t.sizeOfCore[i]]++
		}
	}
	return counts
}

// setCoreSizes lists the sizes that cores have, the largest first.
func (t *Topology) setCoreSizes() {
	for _, core := range t.cores.units {
		t.coreSizes = append(t.coreSizes, core.cpus.Size())
	}
	slices.SortFunc(t.coreSizes, func(a, b int) int { return b - a })
	t.coreSizes = slices.Compact(t.coreSizes)
	t.sizeOfCore = make([]int, len(t.cores.units))
	for i, core := range t.cores.units {
		t.sizeOfCore[i] = slices.Index(t.coreSizes, core.cpus.Size())
	}
	t.sizesDivide = true
	for i := 1; i < len(t.coreSizes); i++ {
		t.sizesDivide = t.sizesDivide && t.coreSizes[i-1]%t.coreSizes[i] == 0
	}
}

// total is how many CPUs the cores have.
func (t *Topology) total(counts coreCounts) int {
	sum := 0
	for i, size := range t.coreSizes {
		sum += size * counts[i]
	}
	return sum
}

// addUp reports whether some of the cores have n CPUs together.
func (t *Topology) addUp(counts coreCounts, n int) bool {
	if n <= 0 || n > t.total(counts) {
		return n == 0
	}
	if !t.sizesDivide {
		return addUpAny(t.coreSizes, counts, n)
	}
	// Where each size divides the next larger one, taking the largest first
	// succeeds if anything does: smaller cores that together exceed a larger one
	// contain some that add up to it.
	for i, size := range t.coreSizes {
		n -= size * min(counts[i], n/size)
	}
	return n == 0
}

// anyCoresAddUp reports whether some number of cores of the machine's sizes, be it
// more than it has, has n CPUs together.
func (t *Topology) anyCoresAddUp(n int) bool {
	divisor, largest := 0, t.coreSizes[0]
	for _, size := range t.coreSizes {
		for a, b := size, divisor; ; a, b = b, a%b {
			if b == 0 {
				divisor = a
				break
			}
		}
	}
	// From this number on, every multiple of the common divisor can be made
	// (Frobenius' coin problem).
	if n >= largest*largest {
		return n%divisor == 0
	}
	counts := make(coreCounts, len(t.coreSizes))
	for i, size := range t.coreSizes {
		counts[i] = max(n, 0) / size
	}
	return t.addUp(counts, n)
}

// addUpAny is addUp for sizes such as 3 and 4: it finds all totals up to n.
func addUpAny(sizes []int, counts coreCounts, n int) bool {
	reachable := make([]bool, n+1)
	reachable[0] = true
	for i, size := range sizes {
		// left is how many of this size can still be added to what reaches a
		// total; it is the most if the total is reached without any.
		left := make([]int, n+1)
		for total := range reachable {
			switch {
			case reachable[total]:
				left[total] = counts[i]
			case total >= size && reachable[total-size] && left[total-size] > 0:
				reachable[total] = true
				left[total] = left[total-size] - 1
			}
		}
	}
	return reachable[n]
}
