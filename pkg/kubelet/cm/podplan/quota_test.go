// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// TestQuotaScripts runs testdata/quota. A pod is a command with its budget, and
// a line for each container: kind, name, and what it asks for and holds, CPUs in
// thousandths but for own and pool.
func TestQuotaScripts(t *testing.T) {
	datadriven.RunTest(t, "testdata/quota", func(t *testing.T, d *datadriven.TestData) string {
		var budget int64
		least := int64(10)
		d.ScanArgs(t, "budget", &budget)
		if d.HasArg("least") {
			d.ScanArgs(t, "least", &least)
		}
		p := Pod{Budget: &Budget{MilliCPU: budget}}
		held := map[string]Holding{}
		kinds := map[string]Kind{"init": StandardInit, "sidecar": Sidecar, "app": App}
		for line := range strings.Lines(d.Input) {
			f := strings.Fields(line)
			kind, ok := kinds[f[0]]
			require.True(t, ok, line)
			c := Container{Name: f[1], Kind: kind}
			for _, word := range f[2:] {
				what, value, _ := strings.Cut(word, "=")
				n, err := strconv.Atoi(value)
				require.NoError(t, err, line)
				switch what {
				case "request":
					c.MilliCPU = int64(n)
				case "limit":
					c.LimitMilliCPU = int64(n)
				case "own":
					held[c.Name] = Holding{CPUs: n, Exclusive: true}
				case "pool":
					held[c.Name] = Holding{CPUs: n}
				default:
					t.Fatalf("%q: what is %s?", line, what)
				}
			}
			p.Containers = append(p.Containers, c)
		}
		q, known := p.Quotas(func(c Container) Holding { return held[c.Name] }, least)
		if !known {
			return "the kubelet's own\n"
		}
		var b strings.Builder
		fmt.Fprintf(&b, "pod: %s\n", map[bool]string{true: "lifted", false: "kept"}[q.Lifted]+map[bool]string{true: ", which throttles nobody that is exclusive"}[q.Harmless])
		for _, name := range append(strings.Split(strings.TrimSuffix(names(p.Containers), ", "), ", "), "(ephemeral)") {
			most, limited := q.Most(name)
			if !limited {
				fmt.Fprintf(&b, "%s: none\n", name)
				continue
			}
			fmt.Fprintf(&b, "%s: at most %d\n", name, most)
		}
		return b.String()
	})
}

// TestQuotaInvariants checks on random pods what the rules promise, with sums
// made anew here.
func TestQuotaInvariants(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const least = 10
	lifted, kept, harmless := 0, 0, 0
	for range 50000 {
		p := random(r)
		p.Budget.MilliCPU += r.Int64N(2) * 500
		carved := r.IntN(2) == 0
		held := map[string]Holding{}
		pool := int(p.Budget.MilliCPU / 1000)
		for i := range p.Containers {
			c := &p.Containers[i]
			if n := p.ExclusiveCPUs(*c); n > 0 {
				held[c.Name] = Holding{CPUs: n, Exclusive: true}
				if c.Kind.LongRunning() {
					pool -= n
				}
			} else if r.IntN(3) == 0 {
				c.LimitMilliCPU = max(c.MilliCPU, 100*r.Int64N(20))
			}
		}
		slices := p.peak(func(c Container) uint64 { return uint64(1000 * p.ExclusiveCPUs(c)) })
		if int64(slices) > p.Budget.MilliCPU || carved && pool <= 0 {
			continue // the API or the managers refuse such a pod
		}
		for _, c := range p.Containers {
			if carved && !held[c.Name].Exclusive {
				held[c.Name] = Holding{CPUs: pool}
			}
		}
		q, known := p.Quotas(func(c Container) Holding { return held[c.Name] }, least)
		if !known {
			continue
		}
		get := func(c Container) int64 {
			most, limited := q.Most(c.Name)
			h := held[c.Name]
			require.Equal(t, !h.Exclusive, limited, "%+v", p)
			if h.Exclusive {
				return int64(h.CPUs) * 1000
			}
			if h.CPUs > 0 {
				require.LessOrEqual(t, most, int64(h.CPUs)*1000, "%+v", p)
			}
			if c.LimitMilliCPU > 0 {
				require.LessOrEqual(t, most, max(least, c.LimitMilliCPU), "%+v", p)
			}
			require.LessOrEqual(t, most, p.Budget.MilliCPU)
			return most
		}
		within := true
		var running int64
		for _, c := range p.Containers {
			mine := get(c)
			if c.Kind == StandardInit {
				within = within && running+mine <= p.Budget.MilliCPU
				continue
			}
			running += mine
			if q.Lifted && !held[c.Name].Exclusive && !carved {
				require.GreaterOrEqual(t, mine, min(max(least, c.MilliCPU), p.Budget.MilliCPU), "%s of %+v", c.Name, p)
			}
		}
		within = within && running <= p.Budget.MilliCPU
		switch {
		case carved:
			require.True(t, q.Lifted, "%+v", p)
		case q.Harmless:
			harmless++
			require.False(t, q.Lifted, "%+v", p)
			for _, c := range p.Containers {
				if h := held[c.Name]; h.Exclusive {
					require.Equal(t, StandardInit, c.Kind, "%+v", p)
					require.Less(t, int64(h.CPUs)*1000, p.Budget.MilliCPU, "%+v", p)
				} else {
					most := p.Budget.MilliCPU
					if c.LimitMilliCPU > 0 {
						most = min(most, max(least, c.LimitMilliCPU))
					}
					require.Equal(t, most, get(c), "%+v", p)
				}
			}
		case q.Lifted:
			lifted++
			require.True(t, within, "%+v", p)
		default:
			kept++
			require.False(t, within, "%+v", p)
		}
	}
	require.Greater(t, min(lifted, kept, harmless), 100, "the random pods cover every outcome")
}

func TestNoRuleWithoutABudget(t *testing.T) {
	p := Pod{Containers: []Container{{Name: "a", Kind: App, Guaranteed: true, MilliCPU: 1000}}}
	all := func(Container) Holding { return Holding{CPUs: 1, Exclusive: true} }
	_, known := p.Quotas(all, 10)
	require.False(t, known)
	p.Budget = &Budget{}
	_, known = p.Quotas(all, 10)
	require.False(t, known)
}
