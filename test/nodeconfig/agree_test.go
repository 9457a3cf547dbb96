// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/pkg/nodeconfig"
)

// small has hugepages, a node without CPUs, and tells no distances.
const small = `{"name": "small", "nodes": [
	{"id": 0, "memory": "16Gi", "hugepages": {"2Mi": 1024}}, {"id": 1, "memory": "8Gi"}, {"id": 2, "memory": "8Gi"}],
	"cpus": [
	{"cpus": "0-3,8-11", "threads": 2, "siblings": "apart", "socket": 0, "node": 0, "cache": 0},
	{"cpus": "4-7,12-15", "threads": 2, "siblings": "apart", "socket": 1, "node": 1, "cache": 1}]}`

func machines(t testing.TB) []machine.Machine {
	m, err := machine.Parse("small", []byte(small))
	require.NoError(t, err)
	list := []machine.Machine{m}
	for _, name := range catalog.Names() {
		m, err := catalog.Get(name)
		require.NoError(t, err)
		list = append(list, m)
	}
	return list
}

// agree holds the verdict and what is in force against a kubelet. It returns
// whether the kubelet starts.
func agree(t testing.TB, text string, m machine.Machine) bool {
	kubelet, refused := start(t, text, m.MachineInfo())
	c, err := nodeconfig.Read("kubelet.yaml", []byte(text))
	if err != nil {
		require.Error(t, refused, "it cannot be read: %v\n%s", err, text)
		return false
	}
	var errs []nodeconfig.Finding
	for _, f := range c.Validate(m) {
		require.NotEmpty(t, f.Message)
		require.NotEmpty(t, f.Field, f.Message)
		if f.Severity == nodeconfig.Error {
			errs = append(errs, f)
		}
	}
	n, err := c.For(m)
	if refused != nil {
		require.NotEmpty(t, errs, "%s: the kubelet says: %v\n%s", m.Name, refused, text)
		require.Error(t, err)
		return false
	}
	require.Empty(t, errs, "%s: the kubelet starts\n%s", m.Name, text)
	require.NoError(t, err)
	inForce(t, n, kubelet, text)
	return true
}

// inForce compares what the managers go by.
func inForce(t testing.TB, n *nodeconfig.Node, kubelet started, text string) {
	for name := range kubelet.gates.DeepCopy().GetAll() {
		require.Equal(t, kubelet.gates.Enabled(name), n.Gates.On(string(name)), name)
	}
	same := func(a, b v1.ResourceList) {
		require.Len(t, b, len(a), text)
		for name, q := range a {
			require.Zero(t, q.Cmp(b[name]), "%s: %v %v\n%s", name, a, b, text)
		}
	}
	same(kubelet.reservation, n.Reservation)
	cpus := ""
	if n.CPUs != nil {
		cpus = n.CPUs.Allocatable().String()
	}
	require.Equal(t, kubelet.cpu.GetAllocatableCPUs().String(), cpus, text)
	blocks := 0
	for id := range n.Memory.Nodes().All() {
		for _, capacity := range n.Memory.Resources(id) {
			if capacity.Allocatable > 0 {
				blocks++
			}
		}
	}
	require.Len(t, kubelet.memory.GetAllocatableMemory(klog.Logger{}), blocks, text)
	for _, block := range kubelet.memory.GetAllocatableMemory(klog.Logger{}) {
		capacity, _ := n.Memory.Capacity(block.NUMAAffinity[0], string(block.Type))
		require.Equal(t, block.Size, capacity.Allocatable, text)
	}
	require.Equal(t, kubelet.topology.GetPolicy().Name(), string(n.Topology.Policy.Strictness()))
}

const header = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nfailCgroupV1: false\n"

// TestTable has a configuration for each thing that the kubelet looks at; "!"
// stands before those with which it does not start on the machine small.
func TestTable(t *testing.T) {
	text, err := os.ReadFile("testdata/table.yaml")
	require.NoError(t, err)
	m := machines(t)[0]
	count := map[bool]int{}
	for _, one := range strings.Split(string(text), "\n---\n") {
		title, body, _ := strings.Cut(strings.TrimSpace(one), "\n")
		starts := !strings.HasPrefix(title, "#!")
		count[starts]++
		t.Run(strings.TrimLeft(title, "#! "), func(t *testing.T) {
			if !strings.Contains(body, "kind") {
				body = header + body
			}
			require.Equal(t, starts, agree(t, body, m))
		})
	}
	require.Greater(t, count[true], 30)
	require.Greater(t, count[false], 60)
}

// TestRandom tries configurations that are right, and such of which one or a few
// fields were changed, on all machines. PODSLICE_CONFIGS says how many.
func TestRandom(t *testing.T) {
	count := 1000
	if text := os.Getenv("PODSLICE_CONFIGS"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	seed := uint64(1)
	if text := os.Getenv("PODSLICE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	list := machines(t)
	starts, repaired := 0, 0
	for i := range count {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		m := list[r.IntN(len(list))]
		fields := rightFields(r, m)
		for range []int{0, 1, 1, 1, 2, 3}[r.IntN(6)] {
			change(r, m, fields)
		}
		text, err := json.MarshalIndent(fields, "", " ")
		require.NoError(t, err)
		t.Run(fmt.Sprintf("%d", i), func(t *testing.T) {
			if agree(t, string(text), m) {
				starts++
			} else if apply(t, fields, string(text), m) {
				text, err := json.MarshalIndent(fields, "", " ")
				require.NoError(t, err)
				require.True(t, agree(t, string(text), m), "what validate told to change does not make the kubelet start:\n%s", text)
				repaired++
			}
		})
	}
	t.Logf("%d of %d start", starts, count)
	t.Logf("%d others start after what validate told to change", repaired)
	require.Greater(t, starts, count/5)
	require.Greater(t, repaired, count/20)
	require.Less(t, starts, count*4/5)
}

// apply makes the changes that are told for all errors, if all of them are values
// of a field.
func apply(t testing.TB, f fields, text string, m machine.Machine) bool {
	c, err := nodeconfig.Read("kubelet.yaml", []byte(text))
	if err != nil {
		return false
	}
	values := map[string]any{}
	for _, found := range c.Validate(m) {
		field, fix := found.Field, found.Fix
		if rest, ok := strings.CutPrefix(fix, "reservedMemory: "); ok {
			field, fix = "reservedMemory", rest
		}
		switch {
		case found.Severity != nodeconfig.Error:
		case field == "reservedMemory" && fix != "", field == "reservedSystemCPUs" && strings.HasPrefix(fix, `"`):
			var value any
			require.NoError(t, yaml.Unmarshal([]byte(fix), &value), fix)
			values[field] = value
		case field == "reservedMemory[0].limits.memory" && fix != "" && fix[0] >= '0' && fix[0] <= '9':
			values["reservedMemory"] = []fields{{"numaNode": c.Kubelet.ReservedMemory[0].NumaNode, "limits": fields{"memory": fix}}}
		case slices.Contains([]string{"topologyManagerPolicy", "topologyManagerScope", "cpuManagerReconcilePeriod"}, field) && fix != "":
			values[field] = fix
		default:
			return false
		}
	}
	maps.Copy(f, values)
	return true
}

// TestReading: what the kubelet reads is read, with the same defaults, and nothing
// else. It tries the table's configurations, and such with random damage.
func TestReading(t *testing.T) {
	text, err := os.ReadFile("testdata/table.yaml")
	require.NoError(t, err)
	table := strings.Split(string(text), "\n---\n")
	r := rand.New(rand.NewPCG(3, 4))
	read := 0
	for range 4000 {
		text := header + one(r, table...)
		if r.IntN(4) == 0 {
			text = strings.TrimPrefix(text, header)
		}
		for range r.IntN(4) {
			text = damaged(r, text)
		}
		if sameReading(t, text) {
			read++
		}
	}
	t.Logf("%d are read", read)
	require.Greater(t, read, 500)
	require.Less(t, read, 3500)
}

// damaged changes the text in one place.
func damaged(r *rand.Rand, text string) string {
	lines := strings.Split(text, "\n")
	i := r.IntN(len(lines))
	line := lines[i]
	at := r.IntN(len(line) + 1)
	switch r.IntN(6) {
	case 0:
		line = ""
	case 1:
		line += "\n" + line
	case 2:
		line = line[:at] + one(r, " ", ":", "\t", "{", "}", "[", "]", ",", "-", "\"", "0", "~", "#", "&a ", "*a", "\n", "x", "---\n", "!!str ", "1e3", "\x00", "é") + line[at:]
	case 3:
		line = line[:at]
	case 4:
		line = strings.Replace(line, one(r, "true", "static", "Static", "Mi", "\"", "0"), one(r, "false", "1", "null", "yes", "''", "0x10", "1_000"), 1)
	default:
		line = strings.ToUpper(line[:at]) + line[at:]
	}
	lines[i] = line
	return strings.Join(lines, "\n")
}

// sameReading returns whether the text can be read.
func sameReading(t testing.TB, text string) bool {
	k, refused := load(t, text)
	c, err := nodeconfig.Read("kubelet.yaml", []byte(text))
	if refused != nil && strings.HasPrefix(refused.Error(), "panic: ") {
		require.NoError(t, err, text) // gates are looked at later
		_, err := c.For(machines(t)[0])
		require.Error(t, err, text)
		return true
	}
	require.Equal(t, refused != nil, err != nil, "the kubelet: %v; we: %v\n%q", refused, err, text)
	if err != nil {
		return false
	}
	is := c.Kubelet
	require.Equal(t, k.CPUManagerPolicy, is.CPUManagerPolicy)
	require.Equal(t, k.CPUManagerPolicyOptions, is.CPUManagerPolicyOptions)
	require.Equal(t, k.CPUManagerReconcilePeriod, is.CPUManagerReconcilePeriod)
	require.Equal(t, k.MemoryManagerPolicy, is.MemoryManagerPolicy)
	require.Equal(t, k.TopologyManagerPolicy, is.TopologyManagerPolicy)
	require.Equal(t, k.TopologyManagerScope, is.TopologyManagerScope)
	require.Equal(t, k.TopologyManagerPolicyOptions, is.TopologyManagerPolicyOptions)
	require.Equal(t, k.ReservedSystemCPUs, is.ReservedSystemCPUs)
	require.Equal(t, k.KubeReserved, is.KubeReserved)
	require.Equal(t, k.SystemReserved, is.SystemReserved)
	require.Equal(t, k.EvictionHard, is.EvictionHard)
	require.Equal(t, k.EnforceNodeAllocatable, is.EnforceNodeAllocatable)
	require.Equal(t, k.CgroupsPerQOS, *is.CgroupsPerQOS)
	require.Equal(t, k.CPUCFSQuota, *is.CPUCFSQuota)
	require.Equal(t, k.CPUCFSQuotaPeriod, *is.CPUCFSQuotaPeriod)
	require.Equal(t, k.MaxPods, is.MaxPods)
	require.Equal(t, k.PodsPerCore, is.PodsPerCore)
	require.Len(t, is.ReservedMemory, len(k.ReservedMemory))
	return true
}

// TestPercentages: what a percentage of the memory is, is the same to the byte.
// Another one would not add up with reservedMemory.
func TestPercentages(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	list := machines(t)
	for range 300 {
		m := one(r, list...)
		text := fmt.Sprintf("%sevictionHard: {memory.available: %.*f%%}\n", header, r.IntN(4), 20*r.Float64())
		require.True(t, agree(t, text, m), text)
	}
}
