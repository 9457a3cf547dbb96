// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		options map[string]string
		gate    featuregate.Feature
		policy  string
		err     string
	}{
		{options: map[string]string{FullPCPUsOnlyOption: "true", StrictCPUReservationOption: "true"}},
		{options: map[string]string{FullPCPUsOnlyOption: "yes"}, err: `bad value for option "full-pcpus-only"`},
		{options: map[string]string{"fast": "true"}, err: `unknown CPU Manager Policy option: "fast"`},
		{options: map[string]string{PreferAlignByUnCoreCacheOption: "true"}},
		{options: map[string]string{DistributeCPUsAcrossNUMAOption: "true"}},
		{options: map[string]string{AlignBySocketOption: "true"}, gate: features.CPUManagerPolicyAlphaOptions},
		{options: map[string]string{AlignBySocketOption: "false"}, err: `CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided`},
		{options: map[string]string{DistributeCPUsAcrossCoresOption: "true"}, gate: features.CPUManagerPolicyAlphaOptions},
		{options: map[string]string{DistributeCPUsAcrossCoresOption: "true"}, err: `CPU Manager Policy Alpha-level Options not enabled, but option "distribute-cpus-across-cores" provided`},
		{
			options: map[string]string{FullPCPUsOnlyOption: "true", DistributeCPUsAcrossCoresOption: "true"}, gate: features.CPUManagerPolicyAlphaOptions,
			err: "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used at the same time",
		},
		{options: map[string]string{FullPCPUsOnlyOption: "true", DistributeCPUsAcrossCoresOption: "false"}, gate: features.CPUManagerPolicyAlphaOptions},
		{
			options: map[string]string{DistributeCPUsAcrossNUMAOption: "true", PreferAlignByUnCoreCacheOption: "true"},
			err:     "static policy options prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa can not be used at the same time",
		},
		{
			options: map[string]string{AlignBySocketOption: "true"}, gate: features.CPUManagerPolicyAlphaOptions, policy: topologymanager.PolicySingleNumaNode,
			err: "new static policy error: Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option",
		},
		{options: map[string]string{AlignBySocketOption: "false"}, gate: features.CPUManagerPolicyAlphaOptions, policy: topologymanager.PolicySingleNumaNode},
	} {
		t.Run(fmt.Sprint(c.options, c.gate), func(t *testing.T) {
			if c.gate != "" {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, c.gate, true)
			}
			_, err := newWithOptions(t, c.options, c.policy)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
}

// aligned is a store of a topology manager with a policy of that name.
type aligned struct {
	fixedAffinity
	policy topologymanager.Policy
}

func (a aligned) GetPolicy() topologymanager.Policy { return a.policy }

type named struct {
	topologymanager.Policy
	name string
}

func (n named) Name() string { return n.name }

func newWithOptions(t *testing.T, options map[string]string, policy string) (Manager, error) {
	logger, _ := ktesting.NewTestContext(t)
	return NewManager(logger, string(PolicyStatic), options, time.Second, machine(), cpuset.New(0, 8),
		v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}, t.TempDir(), aligned{policy: named{name: policy}})
}
