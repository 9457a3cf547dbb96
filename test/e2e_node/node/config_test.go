// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podslice/podslice/test/e2e_node/guest"
)

// TestConfig renders configurations: testdata/config. The arguments are those
// of Pinned, and what is to be changed in what it returns.
func TestConfig(t *testing.T) {
	datadriven.RunTest(t, "testdata/config", func(t *testing.T, d *datadriven.TestData) string {
		shape, err := guest.ParseShape(d.Input)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		var policy, scope string
		d.ScanArgs(t, "policy", &policy)
		d.ScanArgs(t, "scope", &scope)
		c := Pinned(shape, policy, scope)
		if d.HasArg("none") {
			c.CPUPolicy, c.MemoryPolicy, c.Gates = "none", "None", nil
			c.ReconcilePeriod = 90 * time.Second
		}
		if d.HasArg("options") {
			c.CPUOptions = map[string]string{"full-pcpus-only": "true"}
			c.TopologyOptions = map[string]string{"prefer-closest-numa-nodes": "true"}
		}
		if d.HasArg("tiny") {
			c.ReservedMemory = map[int]int64{0: evictionMemory}
		}
		data, err := c.YAML()
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		// The kubelet refuses fields that it does not know.
		if err := yaml.UnmarshalStrict(data, new(kubeletconfig.KubeletConfiguration)); err != nil {
			t.Errorf("%s: %v", d.Pos, err)
		}
		return string(data)
	})
}

// The files for users must be what the kubelet reads, and pods must be runnable
// on the emulated node.
func TestExamples(t *testing.T) {
	examples := filepath.Join("..", "..", "..", "docs", "examples")
	data, err := os.ReadFile(filepath.Join(examples, "kubelet-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, new(kubeletconfig.KubeletConfiguration)); err != nil {
		t.Errorf("kubelet-config.yaml: %v", err)
	}
	for _, pod := range []string{"tightly-coupled-database", "ml-workload"} {
		m, err := ReadManifest(filepath.Join(examples, pod+".yaml"))
		if err != nil || m.Name != pod || m.NodeName != pod+"-node1" {
			t.Errorf("%s: got %q, %q, error %v", pod, m.Name, m.NodeName, err)
		}
	}
}

func TestParseManifestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Pod": "is not a v1 Pod with a name",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}":                                          "is not a v1 Pod",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {container: []}":                         `unknown field "container"`,
		"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: nginx}]}": "reaches no registry",
	} {
		if _, err := ParseManifest([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that says %q", text, err, want)
		}
	}
}

func TestSumMetric(t *testing.T) {
	const text = `# HELP a_total text
# TYPE a_total counter
a_total{x="1} 7",y=""} 2
a_total{x="2"} 3.5
a_total_more 100
b 1e+06 1700000000
`
	for name, want := range map[string]float64{"a_total": 5.5, "b": 1e6} {
		if got, err := sumMetric(text, name); got != want || err != nil {
			t.Errorf("%s: got %v, %v; want %v", name, got, err, want)
		}
	}
	if _, err := sumMetric(text, "c"); err == nil {
		t.Error("a metric that is not there: want an error")
	}
}
