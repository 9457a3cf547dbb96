// SPDX-License-Identifier: Apache-2.0

package statecheck

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"
)

// testdata is state files of many pods, and the machine that they are from.
const testdata = "../../upgrade/testdata"

func readTestdata(t *testing.T, release, setting string) (Machine, map[string]Files, map[string]map[string]*v1.Pod) {
	var cases struct {
		Machine      json.RawMessage
		ReservedCPUs string
		Cases        []struct {
			Name string
			Pods []*v1.Pod
		}
	}
	text, err := os.ReadFile(filepath.Join(testdata, "cases.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &cases))
	m := Machine{ReservedMemory: map[int]int64{0: 1 << 30}}
	require.NoError(t, json.Unmarshal(cases.Machine, &m.Info))
	m.ReservedCPUs, err = cpuset.Parse(cases.ReservedCPUs)
	require.NoError(t, err)
	pods := map[string]map[string]*v1.Pod{}
	for _, c := range cases.Cases {
		pods[c.Name] = map[string]*v1.Pod{}
		for _, pod := range c.Pods {
			pods[c.Name][string(pod.UID)] = pod
		}
	}
	var written map[string]struct {
		CPU    string `json:"cpu_manager_state"`
		Memory string `json:"memory_manager_state"`
	}
	text, err = os.ReadFile(filepath.Join(testdata, release, setting+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &written))
	files := map[string]Files{}
	for name, f := range written {
		files[name] = Files{[]byte(f.CPU), []byte(f.Memory)}
	}
	return m, files, pods
}

// TestWhole has both judges look at the files that podslice writes.
func TestWhole(t *testing.T) {
	for _, setting := range []string{"gate-on-pod", "gate-on-container", "gate-off-pod", "gate-off-container"} {
		m, files, pods := readTestdata(t, "podslice", setting)
		require.NotEmpty(t, files)
		for name, f := range files {
			require.Empty(t, Verify(m, f, pods[name]), "%s, %s", setting, name)
			reading, err := Upstream(t.TempDir(), m, f)
			require.NoError(t, err, "%s, %s", setting, name)
			for _, uid := range reading.Pods() {
				require.Contains(t, pods[name], uid, "%s, %s", setting, name)
			}
		}
	}
}

// TestUpstreamsOwn shows that upstream's files do not add up for older kubelets.
func TestUpstreamsOwn(t *testing.T) {
	m, files, pods := readTestdata(t, "v1.37.2", "gate-on-pod")
	problems := strings.Join(Verify(m, files["budget-leftover"], pods["budget-leftover"]), "\n")
	require.Contains(t, problems, "CPU file, part for older kubelets: the shared pool is ")
}

// TestDamage changes files and asserts what is said of them. The sums are made
// anew unless they are what is changed.
func TestDamage(t *testing.T) {
	m, files, pods := readTestdata(t, "podslice", "gate-on-pod")
	whole := files["many"]
	const database, web = "uid-database", "uid-web"
	cpus := func(change func(*cpustate.CPUManagerCheckpointData)) func(*testing.T, *Files) {
		return func(t *testing.T, f *Files) {
			var file cpustate.CPUManagerCheckpoint
			require.NoError(t, file.UnmarshalCheckpoint(f.CPU))
			change(&file.CheckpointData)
			var err error
			f.CPU, err = file.MarshalCheckpoint()
			require.NoError(t, err)
		}
	}
	memory := func(change func(*memorystate.MemoryManagerCheckpointData)) func(*testing.T, *Files) {
		return func(t *testing.T, f *Files) {
			var file memorystate.MemoryManagerCheckpoint
			require.NoError(t, file.UnmarshalCheckpoint(f.Memory))
			change(&file.CheckpointData)
			var err error
			f.Memory, err = file.MarshalCheckpoint()
			require.NoError(t, err)
		}
	}
	text := func(old, new string) func(*testing.T, *Files) {
		return func(t *testing.T, f *Files) {
			for _, blob := range []*[]byte{&f.CPU, &f.Memory} {
				if changed := strings.Replace(string(*blob), old, new, 1); changed != string(*blob) {
					*blob = []byte(changed)
					return
				}
			}
			t.Fatalf("no %q in the files", old)
		}
	}
	for _, test := range []struct {
		name   string
		damage func(*testing.T, *Files)
		want   string
	}{
		{"torn", func(t *testing.T, f *Files) { f.CPU = f.CPU[:len(f.CPU)/2] }, "CPU file: "},
		{"empty", func(t *testing.T, f *Files) { f.Memory = nil }, "memory file: "},
		{"CPUs that are lost", cpus(func(d *cpustate.CPUManagerCheckpointData) { d.DefaultCPUSet = "0,7-8" }),
			"CPU file, data: the shared pool is 0,7-8; of the online CPUs 0-15 no pod has"},
		{"CPUs of a pod in the pool", cpus(func(d *cpustate.CPUManagerCheckpointData) { d.DefaultCPUSet = "0-2,7-8,15" }),
			"CPU file, data: the shared pool is 0-2,7-8,15"},
		{"CPUs of two pods", cpus(func(d *cpustate.CPUManagerCheckpointData) { d.Entries[web]["cache"] = "4" }),
			"CPU file, data: CPUs 4 of pod uid-web are another pod's, too"},
		{"a container outside of its pod", cpus(func(d *cpustate.CPUManagerCheckpointData) { d.Entries[database]["database"] = "4-5,7,12-13" }),
			"containers of pod uid-database have CPUs 4-7,12-14, the pod has 4-6,12-14"},
		{"a slice in the pool of its pod", cpus(func(d *cpustate.CPUManagerCheckpointData) { d.Entries[database]["database"] = "4-6,12-13" }),
			"CPU file, data: containers "},
		{"containers without a budget that share", cpus(func(d *cpustate.CPUManagerCheckpointData) { d.Entries[web]["cache"] = "1,9" }),
			"containers server and cache of pod uid-web have CPUs 1,9 and 1,9"},
		{"another policy", memory(func(d *memorystate.MemoryManagerCheckpointData) { d.PolicyName = "None" }), `memory file, data: policy "None"`},
		{"memory that is lost", memory(func(d *memorystate.MemoryManagerCheckpointData) { delete(d.Entries, web) }),
			"memory on NUMA nodes 0: blocks of 3221225472, and 6442450944 are used"},
		{"a table that does not add up", memory(func(d *memorystate.MemoryManagerCheckpointData) { d.MachineState[1].MemoryMap["memory"].Free++ }),
			"memory of NUMA node 1: 8589934592 are used and 6442450945 are free of 15032385536"},
		{"another machine", memory(func(d *memorystate.MemoryManagerCheckpointData) { d.MachineState[0].MemoryMap["memory"].Allocatable++ }),
			"memory of NUMA node 0: 13958643713 can be given out"},
		{"a wrong count", memory(func(d *memorystate.MemoryManagerCheckpointData) { d.MachineState[0].NumberOfAssignments = 9 }),
			"NUMA node 0 counts 9 blocks and has 3"},
		{"wrong groups", memory(func(d *memorystate.MemoryManagerCheckpointData) { d.MachineState[0].Cells = []int{0, 1} }),
			"a block of memory lies on NUMA nodes [0], and node 0 is grouped as [0 1]"},
		{"data under a wrong sum", text(`\"defaultCpuSet\":\"0,7-8,15\"`, `\"defaultCpuSet\":\"0,7-8\"`), "CPU file: checksum of the data: "},
		{"older part under a wrong sum", text(`"defaultCpuSet":"0,7-8,15"`, `"defaultCpuSet":"0,7-8"`), "CPU file: checksum of the part for older kubelets: "},
		{"memory under a wrong sum", text(`\"free\":7516192768`, `\"free\":7516192767`), "memory file: checksum of the data: "},
		{"older memory under a wrong sum", text(`"free":7516192768`, `"free":7516192767`), "memory file: checksum of the part for older kubelets: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := whole
			test.damage(t, &f)
			problems := strings.Join(Verify(m, f, pods["many"]), "\n")
			require.Contains(t, problems, test.want)
		})
	}
}

// TestUpstreamRefuses shows that upstream's verdict is one.
func TestUpstreamRefuses(t *testing.T) {
	m, files, _ := readTestdata(t, "podslice", "gate-on-pod")
	f := files["many"]
	m.ReservedMemory[0] /= 2
	_, err := Upstream(t.TempDir(), m, f)
	require.ErrorContains(t, err, "memory manager: ")
	m.ReservedMemory[0] *= 2
	m.ReservedCPUs = m.ReservedCPUs.Union(cpuset.New(4))
	_, err = Upstream(t.TempDir(), m, f)
	require.ErrorContains(t, err, "CPU manager: ")
}

func TestMems(t *testing.T) {
	m, files, _ := readTestdata(t, "podslice", "gate-on-pod")
	reading, err := Upstream(t.TempDir(), m, files["many"])
	require.NoError(t, err)
	require.Equal(t, "1", reading.Mems("uid-database", "database"))
	require.Equal(t, "", reading.Mems("uid-database", "none"))
	require.Equal(t, []string{"uid-database", "uid-small", "uid-web"}, reading.Pods())
	require.Equal(t, "0,7-8,15", reading.Pool.String())
}
