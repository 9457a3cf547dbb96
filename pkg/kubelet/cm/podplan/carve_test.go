// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// random returns a pod with a budget and up to six containers, most of which
// are of a size that may fit.
func random(r *rand.Rand) Pod {
	p := Pod{UID: "u", Name: "ns/u", Managed: true, Budget: &Budget{MilliCPU: 1000 * r.Int64N(9)}}
	for i := range 1 + r.IntN(6) {
		c := Container{Name: fmt.Sprintf("c%d", i), Kind: Kind(r.IntN(3))}
		if r.IntN(2) == 0 {
			c.Guaranteed, c.MilliCPU = true, 500*r.Int64N(10)
		}
		p.Containers = append(p.Containers, c)
	}
	// Init containers come first.
	var inits, apps []Container
	for _, c := range p.Containers {
		if c.Kind == App {
			apps = append(apps, c)
		} else {
			inits = append(inits, c)
		}
	}
	p.Containers = append(inits, apps...)
	return p
}

// TestCarveInvariants checks what must hold of every carved pod, and that a
// refused one breaks a rule.
func TestCarveInvariants(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	carved, empty, over := 0, 0, 0
	for range 20000 {
		p := random(r)
		d := p.CPUDemand()
		shares, err := p.Carve(d)
		var emptyPool *EmptyPoolError
		var overBudget *OverBudgetError
		var sidecars, longRunning uint64
		starved, excess := false, false
		hasShared := false
		for _, c := range p.Containers {
			slice := d.Slice(c)
			switch {
			case c.Kind == StandardInit:
				excess = excess || sidecars+slice > d.Budget
				starved = starved || slice == 0 && sidecars >= d.Budget
			case slice > 0:
				longRunning += slice
				if c.Kind == Sidecar {
					sidecars += slice
				}
			default:
				hasShared = true
			}
		}
		excess = excess || longRunning > d.Budget
		starved = starved || hasShared && longRunning >= d.Budget
		switch {
		case errors.As(err, &emptyPool):
			empty++
			require.True(t, starved, "%+v: %v", p, err)
			require.NotEmpty(t, emptyPool.Sharing)
			continue
		case errors.As(err, &overBudget):
			over++
			require.True(t, excess, "%+v: %v", p, err)
			continue
		}
		require.NoError(t, err)
		carved++
		require.False(t, starved || excess, "%+v", p)
		pool := d.Budget - longRunning
		var before uint64
		for i, s := range shares {
			require.Equal(t, p.Containers[i].Name, s.Container.Name)
			require.Equal(t, d.Slice(s.Container), s.Slice)
			if s.Slice == 0 {
				want := pool
				if s.Container.Kind == StandardInit {
					want = d.Budget - before
				}
				require.Equal(t, want, s.Pool)
				require.NotZero(t, s.Pool)
			}
			if s.Container.Kind == Sidecar {
				before += s.Slice
			}
		}
	}
	require.Greater(t, min(carved, empty, over), 200, "the random pods cover every outcome")
}

func TestHugepagesAreSharedOnlyByThoseWhoAskForThem(t *testing.T) {
	p := Pod{
		Managed: true,
		Budget:  &Budget{Memory: Memory{"memory": 8, "hugepages-2Mi": 4}},
		Containers: []Container{
			{Name: "logs", Kind: Sidecar},
			{Name: "dpdk", Kind: App, Guaranteed: true, Memory: Memory{"memory": 4, "hugepages-2Mi": 4}},
		},
	}
	_, err := p.Carve(p.MemoryDemand("hugepages-2Mi"))
	require.NoError(t, err)

	p.Containers[0].Memory = Memory{"hugepages-2Mi": 1}
	_, err = p.Carve(p.MemoryDemand("hugepages-2Mi"))
	require.EqualError(t, err, "pod rejected, sum of exclusive container hugepages-2Mi requests equals pod budget, leaving no memory for shared containers: "+
		"the budget is 4, exclusive slices take 4 (dpdk=4), nothing is left for logs")
}

func TestAbsurdAmountsDoNotWrap(t *testing.T) {
	half := uint64(1) << 63
	p := Pod{Managed: true, Budget: &Budget{Memory: Memory{"memory": 8}}}
	for _, name := range []string{"a", "b"} {
		p.Containers = append(p.Containers, Container{Name: name, Kind: App, Guaranteed: true, Memory: Memory{"memory": half}})
	}
	var over *OverBudgetError
	_, err := p.Carve(p.MemoryDemand("memory"))
	require.ErrorAs(t, err, &over)
}
