// SPDX-License-Identifier: Apache-2.0

package mistyped

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

var errGo = errors.New("cannot unmarshal Go")

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		text string
		into any
		want string
	}{
		{`{"featureGates": {"A": true, "B": "yes", "C": "true"}}`, &kubeletconfig.KubeletConfiguration{},
			`featureGates.B: it is the text "yes", but must be true or false; featureGates.C: it is the text "true", but must be true or false: take the quotes away`},
		{`{"cpuManagerPolicyOptions": {"full-pcpus-only": true, "x": 1}}`, &kubeletconfig.KubeletConfiguration{},
			`cpuManagerPolicyOptions.full-pcpus-only: it is true, but must be text: put it in quotes; cpuManagerPolicyOptions.x: it is 1, but must be text: put it in quotes`},
		{`{"maxPods": "5"}`, &kubeletconfig.KubeletConfiguration{}, `maxPods: it is the text "5", but must be a whole number: take the quotes away`},
		{`{"maxPods": 1.5}`, &kubeletconfig.KubeletConfiguration{}, `maxPods: it is 1.5, but must be a whole number from -2147483648 to 2147483647`},
		{`{"maxPods": 5000000000}`, &kubeletconfig.KubeletConfiguration{}, `maxPods: it is 5000000000, but must be a whole number from -2147483648 to 2147483647`},
		{`{"reservedMemory": {"numaNode": 0}}`, &kubeletconfig.KubeletConfiguration{}, `reservedMemory: it is a mapping, but must be a list`},
		{`{"reservedMemory": [{"numaNode": 0}, {"numaNode": "a"}]}`, &kubeletconfig.KubeletConfiguration{}, `reservedMemory[1].numaNode: it is the text "a", but must be a whole number`},
		{`{"systemReserved": ["a"]}`, &kubeletconfig.KubeletConfiguration{}, `systemReserved: it is a list, but must be a mapping`},
		{`{"cpuManagerReconcilePeriod": 10}`, &kubeletconfig.KubeletConfiguration{}, `cpuManagerReconcilePeriod: it is 10, but must be a duration such as 10s`},
		{`{"cpuManagerReconcilePeriod": "10"}`, &kubeletconfig.KubeletConfiguration{}, `cpuManagerReconcilePeriod: it is the text "10", but must be a duration such as 10s`},
		{`{"metadata": {"labels": {"a": 1}}, "spec": {"hostNetwork": "true"}}`, &v1.Pod{},
			`metadata.labels.a: it is 1, but must be text: put it in quotes; spec.hostNetwork: it is the text "true", but must be true or false: take the quotes away`},
		{`{"a": -1}`, &struct {
			A uint64 `json:"a"`
		}{}, `a: it is -1, but must be a whole number from 0 to 18446744073709551615`},
		{`["a"]`, &v1.Pod{}, `the document: it is a list, but must be a mapping`},
		{`{"metadata": {"labels": {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}}}`, &v1.Pod{},
			`metadata.labels.a: it is 1, but must be text: put it in quotes; metadata.labels.b: it is 1, but must be text: put it in quotes; metadata.labels.c: it is 1, but must be text: put it in quotes; metadata.labels.d: it is 1, but must be text: put it in quotes; metadata.labels.e: it is 1, but must be text: put it in quotes; and 2 more of this kind`},
	} {
		require.Error(t, json.Unmarshal([]byte(c.text), c.into), c.text)
		require.EqualError(t, Explain(errGo, []byte(c.text), c.into), c.want, c.text)
	}
}

// TestRight: of what a decoder takes, nothing is said.
func TestRight(t *testing.T) {
	for _, text := range []string{
		`{"metadata": null, "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": "http"}}}]}}`,
		`{"metadata": {"creationTimestamp": "2026-11-30T00:00:00Z", "unknown": []}, "unknown": {}}`,
	} {
		require.NoError(t, json.Unmarshal([]byte(text), &v1.Pod{}))
		require.Equal(t, errGo, Explain(errGo, []byte(text), &v1.Pod{}))
	}
	require.Equal(t, errGo, Explain(errGo, []byte(`{`), &v1.Pod{}))
	require.Equal(t, errGo, ExplainLoose(errGo, []byte(`{"metadata": {"name": 1, "namespace": true}}`), &v1.Pod{}))
	require.Error(t, ExplainLoose(errGo, []byte(`{"metadata": {"name": []}}`), &v1.Pod{}))
}
