// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/podslice/podslice/pkg/machine"
)

type fields = map[string]any

func one[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// rightFields are a configuration with which a kubelet starts on most machines.
func rightFields(r *rand.Rand, m machine.Machine) fields {
	f := fields{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "failCgroupV1": false,
		"topologyManagerPolicy": one(r, "none", "best-effort", "restricted", "single-numa-node"),
		"topologyManagerScope":  one(r, "container", "pod"),
		"featureGates":          map[string]bool{"PodLevelResourceManagers": r.IntN(2) == 0},
	}
	if r.IntN(4) > 0 {
		f["cpuManagerPolicy"] = "static"
		switch r.IntN(3) {
		case 0:
			f["reservedSystemCPUs"] = m.Online().String()
			if len(m.CPUs) > 4 {
				f["reservedSystemCPUs"] = fmt.Sprintf("%d,%d", m.CPUs[0].ID, m.CPUs[len(m.CPUs)/2].ID)
			}
		case 1:
			f["kubeReserved"] = map[string]string{"cpu": one(r, "1", "500m", "1001m")}
		default:
			f["kubeReserved"], f["systemReserved"] = map[string]string{"cpu": "500m", "memory": "512Mi"}, map[string]string{"cpu": "1", "memory": "0.5Gi"}
		}
	}
	if r.IntN(4) > 0 {
		f["memoryManagerPolicy"] = "Static"
		var sum int64
		for _, list := range []string{"kubeReserved", "systemReserved"} {
			if values, ok := f[list].(map[string]string); ok && values["memory"] != "" {
				sum += 512
			}
		}
		switch r.IntN(4) {
		case 0:
			f["evictionHard"] = map[string]string{}
		case 1:
			f["evictionHard"] = map[string]string{"memory.available": "256Mi"}
			sum += 256
		default:
			sum += 100
		}
		if sum > 0 {
			f["reservedMemory"] = []fields{{"numaNode": m.Nodes[0].ID, "limits": fields{"memory": fmt.Sprintf("%dMi", sum)}}}
			if len(m.Nodes) > 1 && r.IntN(2) == 0 {
				f["reservedMemory"] = []fields{
					{"numaNode": m.Nodes[0].ID, "limits": fields{"memory": fmt.Sprintf("%dMi", sum-10)}},
					{"numaNode": m.Nodes[1].ID, "limits": fields{"memory": "10Mi"}}}
			}
		}
	}
	if r.IntN(2) == 0 {
		f["cpuManagerPolicyOptions"] = options(r, "full-pcpus-only", "strict-cpu-reservation", "distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache")
	}
	if r.IntN(2) == 0 {
		f["topologyManagerPolicyOptions"] = options(r, "prefer-closest-numa-nodes")
	}
	if f["cpuManagerPolicy"] == nil {
		delete(f, "cpuManagerPolicyOptions")
	}
	return f
}

// options are some of those, on or off.
func options(r *rand.Rand, names ...string) map[string]string {
	chosen := map[string]string{}
	for _, name := range names {
		if r.IntN(len(names)+1) == 0 {
			chosen[name] = one(r, "true", "true", "false")
		}
	}
	return chosen
}

// quantities are right, odd and wrong ones.
var quantities = []string{"0", "1", "100m", "1.0005", "0.0004", "-1", "1Gi", "1073741824", "100Mi", "512Mi", "1e30", "1k", "x", "", "4096", "9223372036854775807", "1Ti"}

// change changes one field.
func change(r *rand.Rand, m machine.Machine, f fields) {
	gates := []string{
		"PodLevelResources", "PodLevelResourceManagers", "AllAlpha", "AllBeta", "CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions",
		"TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions", "CustomCPUCFSQuotaPeriod", "InPlacePodVerticalScaling",
		"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingExclusiveCPUs", "NodeDeclaredFeatures", "CPUManagerPolicyOptions",
		"PodLevelResourceManager", "MemoryManager", "DisableCPUQuotaWithExclusiveCPUs", "PodLevelResourcesFixDefaulting",
	}
	switch r.IntN(17) {
	case 0:
		set := f["featureGates"].(map[string]bool)
		for range 1 + r.IntN(3) {
			set[one(r, gates...)] = r.IntN(2) == 0
		}
	case 1:
		f["cpuManagerPolicy"] = one(r, "none", "static", "Static", "")
	case 2:
		f["memoryManagerPolicy"] = one(r, "None", "Static", "static", "BestEffort", "")
	case 3:
		f["topologyManagerPolicy"] = one(r, "none", "best-effort", "restricted", "single-numa-node", "single-numa", "")
	case 4:
		f["topologyManagerScope"] = one(r, "pod", "container", "pods", "")
	case 5:
		f["cpuManagerPolicyOptions"] = map[string]string{
			one(r, "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket", "distribute-cpus-across-cores", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache", "full-pcpu-only"): one(r, "true", "1", "false", "yes", ""),
			one(r, "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket", "distribute-cpus-across-cores", "strict-cpu-reservation"):                                                       "true",
		}
		f["featureGates"].(map[string]bool)["CPUManagerPolicyAlphaOptions"] = r.IntN(3) > 0
	case 6:
		f["topologyManagerPolicyOptions"] = map[string]string{
			one(r, "prefer-closest-numa-nodes", "best-effort-locality", "prefer-closest-numa-node"): one(r, "true", "t", "false"),
			one(r, "max-allowable-numa-nodes", "numa-tie-break"):                                    one(r, "8", "16", "7", "64", "lowest", "most-allocated", "x"),
		}
		f["featureGates"].(map[string]bool)["TopologyManagerPolicyAlphaOptions"] = r.IntN(3) > 0
	case 7:
		all := m.Online().List()
		f["reservedSystemCPUs"] = one(r, "", "0", "0-1", m.Online().String(), fmt.Sprint(all[len(all)-1]), fmt.Sprint(all[len(all)-1]+1), "0-", "a", "3-1", "70000", "0,0", "-1", fmt.Sprintf("%d-%d", all[0], all[len(all)/2]))
	case 8, 9:
		list := one(r, "kubeReserved", "systemReserved")
		values, _ := f[list].(map[string]string)
		if values = maps.Clone(values); values == nil {
			values = map[string]string{}
		}
		values[one(r, "cpu", "memory", "cpu", "memory", "pid", "ephemeral-storage", "hugepages-2Mi")] = one(r, quantities...)
		f[list] = values
	case 10:
		f["evictionHard"] = map[string]string{
			one(r, "memory.available", "memory.available", "nodefs.available", "memory.free", "pid.available"): one(r, "100Mi", "5%", "0%", "100%", "101%", "-5%", "0.3%", "x%", "0", "1Gi", "", "1%%", "NaN%"),
		}
		f["mergeDefaultEvictionSettings"] = r.IntN(2) == 0
	case 11, 12:
		list, _ := f["reservedMemory"].([]fields)
		node := one(r, m.Nodes...).ID
		list = append(slices.Clone(list), fields{"numaNode": one(r, node, node, node, 99, -1), "limits": fields{
			one(r, "memory", "memory", "hugepages-2Mi", "hugepages-1Gi", "cpu"): one(r, "1Gi", "100Mi", "0", "-1", "1m", "1500m", "1e30", "2Ei"),
		}})
		f["reservedMemory"] = list
	case 13:
		if list, ok := f["reservedMemory"].([]fields); ok && len(list) > 0 {
			list = slices.Clone(list)
			list[0] = fields{"numaNode": one(r, m.Nodes...).ID, "limits": list[0]["limits"]}
			f["reservedMemory"] = one(r, list, list[:1], list[1:])
		}
	case 14:
		f[one(r, "systemReservedCgroup", "kubeReservedCgroup")] = "/x"
		f["enforceNodeAllocatable"] = one(r, []string{"pods"}, []string{"none"}, []string{"pods", "system-reserved"}, []string{"kube-reserved-compressible", "kube-reserved"}, []string{"pods", "pods"}, []string{"pod"}, []string{"none", "pods"}, []string{})
		if r.IntN(3) == 0 {
			f["cgroupsPerQOS"] = false
		}
	case 15:
		f["cpuManagerReconcilePeriod"] = one(r, "0s", "-1s", "1ns", "10s", "5")
		f["cpuCFSQuotaPeriod"] = one(r, "100ms", "5ms", "0s", "2s", "1us", "1s", "1ms", "999us")
	default:
		f[one(r, "maxPods", "podsPerCore", "unknownField", "cpumanagerpolicy")] = one[any](r, 0, 1, -1, 200)
		if strings.HasPrefix(fmt.Sprint(f["cpumanagerpolicy"]), "-") {
			f["cpumanagerpolicy"] = "static"
		}
	}
}
