// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/podslice/podslice/test/e2e_node/guest"
	"github.com/podslice/podslice/test/e2e_node/report"
)

// Names of the two gates.
const (
	GatePodLevelResources        = "PodLevelResources"
	GatePodLevelResourceManagers = "PodLevelResourceManagers"
)

// ReconcilePeriod is how often the CPU manager of our kubelets compares the
// containers' cpusets with its state, if a Config says nothing else.
const ReconcilePeriod = 5 * time.Second

// evictionMemory is the memory that must stay free. The memory manager counts it
// among what is reserved.
const evictionMemory = 100 << 20

// Config is what differs between one kubelet and another. Empty strings leave
// the kubelet's own default.
type Config struct {
	CPUPolicy       string
	MemoryPolicy    string
	TopologyPolicy  string
	Scope           string
	CPUOptions      map[string]string
	TopologyOptions map[string]string
	Gates           map[string]bool
	ReservedCPUs    string
	ReservedMemory  map[int]int64 // bytes by NUMA node; only for memory policy Static
	ReconcilePeriod time.Duration // 0: the constant
	// API has the kubelet register with the API server of StartAPIServer, and take
	// pods from it beside those in its folder.
	API bool
}

// Pinned is a configuration with both gates on and all three managers at work.
// The first core, with its siblings, and 512Mi of the first NUMA node are kept
// for the system.
func Pinned(shape guest.Shape, policy, scope string) Config {
	reserved := "0"
	if shape.Threads > 1 {
		reserved = fmt.Sprintf("0-%d", shape.Threads-1)
	}
	return pinned(reserved, 0, policy, scope)
}

// PinnedOn is Pinned for a machine as its kernel describes it.
func PinnedOn(m report.Machine, policy, scope string) (Config, error) {
	// CPUs and NUMA nodes are in order.
	memory := slices.IndexFunc(m.Nodes, func(n report.Node) bool { return n.Memory > 0 })
	if len(m.CPUs) == 0 || memory < 0 {
		return Config{}, fmt.Errorf("machine of %d CPUs: want at least one, and a NUMA node with memory", len(m.CPUs))
	}
	return pinned(m.CPUs[0].Siblings, m.Nodes[memory].ID, policy, scope), nil
}

func pinned(reserved string, memoryNode int, policy, scope string) Config {
	return Config{
		CPUPolicy:      "static",
		MemoryPolicy:   "Static",
		TopologyPolicy: policy,
		Scope:          scope,
		Gates:          map[string]bool{GatePodLevelResources: true, GatePodLevelResourceManagers: true},
		ReservedCPUs:   reserved,
		ReservedMemory: map[int]int64{memoryNode: 512 << 20},
	}
}

// YAML renders a KubeletConfiguration.
func (c Config) YAML() ([]byte, error) {
	k := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",

		// A kubelet that its own machine may ask everything.
		"address":        "127.0.0.1",
		"readOnlyPort":   10255,
		"registerNode":   c.API,
		"staticPodPath":  manifestFolder,
		"authentication": map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization":  map[string]any{"mode": "AlwaysAllow"},

		"containerRuntimeEndpoint":  "unix:///run/containerd/containerd.sock",
		"cgroupDriver":              "cgroupfs",
		"failSwapOn":                false,
		"makeIPTablesUtilChains":    false,
		"enforceNodeAllocatable":    []string{},
		"cpuManagerReconcilePeriod": ReconcilePeriod.String(),
		// Emulated calls to the runtime may take long.
		"runtimeRequestTimeout": "10m",
		// No image is removed. cAdvisor 0.60.5 panics if it is asked for the image
		// file system between its making room for the first sample of the root
		// cgroup and its adding it (InMemoryCache.AddStats, manager.GetFsInfo), and
		// the kubelet asks while cAdvisor starts, to collect images.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]string{
			"memory.available": fmt.Sprint(evictionMemory), "nodefs.available": "1%", "nodefs.inodesFree": "1%",
			"imagefs.available": "1%", "imagefs.inodesFree": "1%",
		},
	}
	set := func(key, value string) {
		if value != "" {
			k[key] = value
		}
	}
	if c.ReconcilePeriod > 0 {
		k["cpuManagerReconcilePeriod"] = c.ReconcilePeriod.String()
	}
	set("cpuManagerPolicy", c.CPUPolicy)
	set("memoryManagerPolicy", c.MemoryPolicy)
	set("topologyManagerPolicy", c.TopologyPolicy)
	set("topologyManagerScope", c.Scope)
	set("reservedSystemCPUs", c.ReservedCPUs)
	if len(c.CPUOptions) > 0 {
		k["cpuManagerPolicyOptions"] = c.CPUOptions
	}
	if len(c.TopologyOptions) > 0 {
		k["topologyManagerPolicyOptions"] = c.TopologyOptions
	}
	if len(c.Gates) > 0 {
		k["featureGates"] = c.Gates
	}
	if c.MemoryPolicy == "Static" {
		system, reserved, err := c.memory()
		if err != nil {
			return nil, err
		}
		k["systemReserved"] = map[string]string{"memory": fmt.Sprint(system)}
		k["reservedMemory"] = reserved
	}
	return yaml.Marshal(k)
}

// memory splits the reserved memory so that it adds up the way the Static policy
// insists: reservedMemory = systemReserved + kubeReserved + evictionHard.
func (c Config) memory() (system int64, reserved []map[string]any, err error) {
	for _, node := range slices.Sorted(maps.Keys(c.ReservedMemory)) {
		bytes := c.ReservedMemory[node]
		system += bytes
		reserved = append(reserved, map[string]any{"numaNode": node, "limits": map[string]string{"memory": fmt.Sprint(bytes)}})
	}
	system -= evictionMemory
	if system <= 0 {
		return 0, nil, fmt.Errorf("reserved memory %v: must be more than the eviction threshold, %d bytes", c.ReservedMemory, evictionMemory)
	}
	return system, reserved, nil
}
