// SPDX-License-Identifier: Apache-2.0

//go:build linux

package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"syscall"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/google/cadvisor/lib/utils/sysfs"
	"github.com/google/cadvisor/lib/utils/sysinfo"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
)

// This machine's /sys is where cAdvisor's own reader of files looks, and nowhere
// else. To have it read others the test runs itself again, where another folder is
// mounted in its place.
const mounted = "PODSLICE_TEST_SYS"

// TestCAdvisorReads is that other run.
func TestCAdvisorReads(t *testing.T) {
	folder := os.Getenv(mounted)
	if folder == "" {
		t.Skip("is run by TestAsCAdvisor")
	}
	var all []cadvisorapi.MachineInfo
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, syscall.Mount(filepath.Join(folder, e.Name(), "sys/devices/system"), "/sys/devices/system", "", syscall.MS_BIND, ""))
		nodes, cpus, err := sysinfo.GetNodesInfo(sysfs.NewRealSysFs())
		require.NoError(t, err, e.Name())
		all = append(all, cadvisorapi.MachineInfo{NumCores: cpus, Topology: nodes})
	}
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "../reports"), text, 0o666))
}

// TestAsCAdvisor has cAdvisor read the files that Linux would show, and compares
// with what is read here of the same files: small machines of the catalogue, random ones,
// and some with files missing or odd.
func TestAsCAdvisor(t *testing.T) {
	// In memory, where there is some: thousands of files are slow on a disk.
	top, err := os.MkdirTemp("/dev/shm", "podslice-machines-")
	if err != nil {
		top = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	folder := filepath.Join(top, "machines")
	names := []string{}
	add := func(name string, s sysFiles) {
		names = append(names, name)
		s.write(t, filepath.Join(folder, name))
	}
	forEach(t, 4, func(t *testing.T, all machine.Machine, offline cpuset.CPUSet) {
		// Machines with more CPUs are thousands of files.
		if name := all.Name + " without " + offline.String(); len(all.CPUs) <= 48 && !slices.Contains(names, name) {
			add(name, sysOf(t, all, offline))
		}
	})
	four, err := machine.Parse("four", []byte(fourText))
	require.NoError(t, err)
	for name, lines := range map[string][]string{
		"no IDs":                   {"- /id"},
		"no size":                  {"- cpu2/cache/index3/size"},
		"an odd size":              {"cpu/cpu2/cache/index3/size = much"},
		"an odd ID":                {"cpu/cpu2/cache/index3/id = none"},
		"an odd map":               {"cpu/cpu2/cache/index3/shared_cpu_map = x"},
		"no NUMA":                  {"- node/node"},
		"no NUMA, CPUs offline":    {"- node/node", "- cpu3/topology", "cpu/online = 0-2,4-7"},
		"no sockets":               {"cpu/cpu0/topology/physical_package_id = -1", "cpu/cpu1/topology/physical_package_id = -1"},
		"no cores":                 {"cpu/cpu0/topology/core_id = -1", "cpu/cpu1/topology/core_id = -1"},
		"cores in two nodes":       {"cpu/cpu2/topology/core_id = 0", "cpu/cpu2/topology/physical_package_id = 0"},
		"without a core's number":  {"- cpu3/topology/core_id"},
		"without a socket":         {"- cpu3/topology/physical_package_id"},
		"without CPUs of a node":   {"- node1/cpu"},
		"without memory":           {"- meminfo"},
		"without distances":        {"- distance"},
		"without hugepages":        {"- hugepages"},
		"without a list of online": {"- cpu/online"},
		"another level":            {"cpu/cpu0/cache/index3/level = 4", "cpu/cpu2/cache/index3/level = 2"},
	} {
		s := sysOf(t, four, cpuset.New())
		for _, line := range lines {
			change(t, s, line)
		}
		add(name, s)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.run=^TestCAdvisorReads$")
	cmd.Env = append(os.Environ(), mounted+"="+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || bytes.Contains(out, []byte("operation not permitted")) {
		t.Skipf("cannot mount in a namespace of its own here: %v %s", err, out)
	}
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(filepath.Join(top, "reports"))
	require.NoError(t, err)
	var reports []cadvisorapi.MachineInfo
	require.NoError(t, json.Unmarshal(text, &reports))
	sort.Strings(names)
	require.Len(t, reports, len(names))
	for i, name := range names {
		root, err := os.OpenRoot(filepath.Join(folder, name))
		require.NoError(t, err)
		s := &sys{files: root.FS(), system: "sys/devices/system", name: name}
		require.NoError(t, s.look())
		nodes, cpus, err := sysinfo.GetNodesInfo(s)
		require.NoError(t, err, name)
		if s.withoutNodes { // they come in any order
			for _, list := range [][]cadvisorapi.Node{nodes, reports[i].Topology} {
				sort.Slice(list, func(a, b int) bool { return list[a].Id < list[b].Id })
			}
		}
		ours, err := json.Marshal(nodes)
		require.NoError(t, err)
		theirs, err := json.Marshal(reports[i].Topology)
		require.NoError(t, err)
		require.Equal(t, string(theirs), string(ours), name)
		require.Equal(t, reports[i].NumCores, cpus, name)
		require.NoError(t, root.Close())
	}
}

// TestThisMachine reads the machine that the test runs on, as far as it has what
// the kubelet needs.
func TestThisMachine(t *testing.T) {
	nodes, cpus, err := sysinfo.GetNodesInfo(sysfs.NewRealSysFs())
	if err != nil || len(sysinfo.GetOnlineCPUs(nodes)) == 0 {
		t.Skip("cAdvisor sees no CPU of this machine")
	}
	m, _, err := Read("")
	require.NoError(t, err)
	require.Equal(t, "this machine", m.Name)
	require.Equal(t, cpuset.New(sysinfo.GetOnlineCPUs(nodes)...).String(), m.Online().String())
	var n notes
	want, err := fromReport(m.Name, &cadvisorapi.MachineInfo{NumCores: cpus, Topology: nodes, MemoryCapacity: m.Memory()}, &n)
	require.NoError(t, err)
	require.Equal(t, want, m)
	again, _, err := Read("/")
	require.NoError(t, err)
	require.Equal(t, m, again)
}

const fourText = `
name: four
nodes:
- {id: 0, memory: 4Gi, hugepages: {2Mi: 8}, distances: 10 20}
- {id: 1, memory: 4Gi, hugepages: {2Mi: 0}, distances: 20 10}
cpus:
- {cpus: "0-1,4-5", threads: 2, siblings: apart, socket: 0, node: 0, cache: 0}
- {cpus: "2-3,6-7", threads: 2, siblings: apart, socket: 1, node: 1, cache: 1}
caches:
- {ids: 0-1, size: 8Mi}
`
