// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/test/simnode"
)

// BenchmarkAdmission admits a pod with CPUs, memory and a device to machines of
// many NUMA nodes, through all three managers, with their state files. The pod
// that is refused asks for more than is left, and its refusal says why.
func BenchmarkAdmission(b *testing.B) {
	for _, machine := range []string{"nvidia-gb200", "hpe-superdome-flex", "amd-epyc-9654-nps4"} {
		for _, options := range []map[string]string{nil, {"numa-tie-break": "least-allocated", "prefer-closest-numa-nodes": "true"}} {
			name := machine + "/plain"
			if options != nil {
				name = machine + "/options"
			}
			m, err := catalog.Get(machine)
			if err != nil {
				b.Fatal(err)
			}
			n := simnode.New(b)
			n.Info, n.TopologyOptions = m.MachineInfo(), options
			n.ReservedCPUs = cpuset.New(0)
			if n.Devices, err = n.ParseDevices([]string{"example.com/gpu@0", "example.com/gpu@1"}); err != nil {
				b.Fatal(err)
			}
			if err := n.Start(); err != nil {
				b.Fatal(err)
			}
			ctx := klog.NewContext(context.Background(), klog.Logger{})
			for _, text := range []string{
				"fits cpu=16 memory=16Gi\nsidecar proxy\napp a cpu=8 memory=8Gi example.com/gpu=1\napp b cpu=4 memory=4Gi",
				"spans cpu=80 memory=600Gi\nsidecar proxy\napp a cpu=64 memory=8Gi",
				"refused cpu=4000 memory=16Gi\napp a cpu=4000 memory=16Gi",
			} {
				template, err := simnode.ParsePod(text)
				if err != nil {
					b.Fatal(err)
				}
				b.Run(name+"/"+template.Name, func(b *testing.B) {
					for i := 0; b.Loop(); i++ {
						pod := template.DeepCopy()
						pod.UID = types.UID(fmt.Sprint(template.Name, i)) // a new pod; the last one's CPUs are collected
						n.Add(pod)
						n.Topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
						n.Remove(pod.Name)
					}
				})
			}
		}
	}
}
