// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	_ "unsafe" // for the links

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// What the kubelet does with its configuration before it makes the managers is
// not exported.

//go:linkname getReservedCPUs k8s.io/kubernetes/cmd/kubelet/app.getReservedCPUs
func getReservedCPUs(logger klog.Logger, machineInfo *cadvisorapi.MachineInfo, cpus string) (cpuset.CPUSet, error)

//go:linkname parseResourceList k8s.io/kubernetes/cmd/kubelet/app.parseResourceList
func parseResourceList(m map[string]string) (v1.ResourceList, error)

//go:linkname hardEvictionReservation k8s.io/kubernetes/pkg/kubelet/cm.hardEvictionReservation
func hardEvictionReservation(thresholds []evictionapi.Threshold, capacity v1.ResourceList) v1.ResourceList

// started is the managers of a kubelet that has started.
type started struct {
	topology    topologymanager.Manager
	cpu         cpumanager.Manager
	memory      memorymanager.Manager
	gates       featuregate.FeatureGate
	reservation v1.ResourceList
}

// freshGates are the gates of a kubelet that has read nothing yet.
var freshGates = utilfeature.DefaultMutableFeatureGate.DeepCopy()

// start does what a kubelet does with the configuration until its managers run.
func start(t testing.TB, text string, info *cadvisorapi.MachineInfo) (s started, err error) {
	gates := freshGates.DeepCopy()
	wasMutable, was := utilfeature.DefaultMutableFeatureGate, utilfeature.DefaultFeatureGate
	utilfeature.DefaultMutableFeatureGate, utilfeature.DefaultFeatureGate = gates, gates
	defer func() { utilfeature.DefaultMutableFeatureGate, utilfeature.DefaultFeatureGate = wasMutable, was }()
	s.gates = gates

	k, err := load(t, text)
	if err != nil {
		return s, err
	}
	if err := gates.SetFromMap(k.FeatureGates); err != nil {
		return s, err
	}
	if err := validation.ValidateKubeletConfiguration(k, gates); err != nil {
		return s, err
	}
	reservedCPUs, err := getReservedCPUs(klog.Logger{}, info, k.ReservedSystemCPUs)
	if err != nil {
		return s, err
	}
	if reservedCPUs.Size() > 0 {
		delete(k.KubeReserved, "cpu")
		if k.SystemReserved == nil {
			k.SystemReserved = map[string]string{}
		}
		k.SystemReserved["cpu"] = strconv.Itoa(reservedCPUs.Size())
	}
	kube, err := parseResourceList(k.KubeReserved)
	if err != nil {
		return s, err
	}
	system, err := parseResourceList(k.SystemReserved)
	if err != nil {
		return s, err
	}
	thresholds, err := eviction.ParseThresholdConfig(nil, k.EvictionHard, nil, nil, nil)
	if err != nil {
		return s, err
	}
	capacity := cadvisor.CapacityFromMachineInfo(info)
	s.reservation = reservation(capacity, kube, system, hardEvictionReservation(thresholds, capacity))

	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	t.Cleanup(cancel)
	dir := t.TempDir()
	if s.topology, err = topologymanager.NewManager(klog.Logger{}, info.Topology, k.TopologyManagerPolicy, k.TopologyManagerScope, k.TopologyManagerPolicyOptions); err != nil {
		return s, err
	}
	if s.cpu, err = cpumanager.NewManager(klog.Logger{}, k.CPUManagerPolicy, k.CPUManagerPolicyOptions, k.CPUManagerReconcilePeriod.Duration, info, reservedCPUs, s.reservation, dir, s.topology); err != nil {
		return s, err
	}
	if s.memory, err = memorymanager.NewManager(klog.Logger{}, k.MemoryManagerPolicy, info, s.reservation, k.ReservedMemory, dir, s.topology); err != nil {
		return s, err
	}
	// As the container manager checks it when it starts.
	for name, kept := range s.reservation {
		if has := capacity[name]; kept.Cmp(has) > 0 {
			return s, fmt.Errorf("%s of %s is kept, the machine has %s", kept.String(), name, has.String())
		}
	}
	noPods, ready := func() []*v1.Pod { return nil }, neverReady{}
	if err := s.cpu.Start(ctx, noPods, ready, nil, nil, containermap.NewContainerMap()); err != nil {
		return s, err
	}
	return s, s.memory.Start(ctx, noPods, ready, nil, nil, containermap.NewContainerMap())
}

type neverReady struct{}

func (neverReady) AddSource(string) {}
func (neverReady) AllReady() bool   { return false }

// load reads the configuration as the kubelet does, which panics for gates that
// cannot be set.
func load(t testing.TB, text string) (k *config.KubeletConfiguration, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, file)
	require.NoError(t, err)
	if k, err = loader.Load(t.Context()); err != nil {
		return nil, err
	}
	if k == nil {
		return nil, errors.New("no configuration")
	}
	// What the kubelet's loadConfigFile does.
	if k.EvictionHard == nil {
		k.EvictionHard = eviction.DefaultEvictionHard
	} else if k.MergeDefaultEvictionSettings {
		for signal, threshold := range eviction.DefaultEvictionHard {
			if _, ok := k.EvictionHard[signal]; !ok {
				k.EvictionHard[signal] = threshold
			}
		}
	}
	return k, nil
}

// reservation adds up as the container manager does.
func reservation(capacity v1.ResourceList, lists ...v1.ResourceList) v1.ResourceList {
	total := v1.ResourceList{}
	for name := range capacity {
		sum := resource.NewQuantity(0, resource.DecimalSI)
		for _, list := range lists {
			sum.Add(list[name])
		}
		if !sum.IsZero() {
			total[name] = *sum
		}
	}
	return total
}

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{}) // what the kubelet logs of configurations is of no use here
	os.Exit(m.Run())
}
