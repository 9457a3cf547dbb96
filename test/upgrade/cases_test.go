// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/simnode"
)

var rewrite = flag.Bool("rewrite", false, "write the files that podslice writes now; see testdata/README.md")

// releases are those whose files are in testdata.
var releases = []string{"v1.35.4", "v1.36.3", "v1.37.2"}

// setting is how a kubelet is configured, as cases.json has it.
type setting struct {
	Name, TopologyPolicy, Scope string
	Gate                        bool
}

var settings = []setting{
	{"gate-off-pod", "restricted", "pod", false},
	{"gate-off-container", "restricted", "container", false},
	{"gate-on-pod", "restricted", "pod", true},
	{"gate-on-container", "restricted", "container", true},
}

// podCase is pods that run on a node. Of each, the containers before the one
// called until have been started; all, if that is empty.
type podCase struct {
	name  string
	pods  []string
	until string
}

const (
	web = `web
app server cpu=2 memory=2Gi
app cache cpu=1 memory=1Gi`
	job = `job
init prepare cpu=4 memory=4Gi
sidecar proxy cpu=1 memory=1Gi
app main cpu=2 memory=2Gi`
	database = `database cpu=6 memory=8Gi
sidecar metrics-exporter
sidecar backup-agent
app database cpu=4 memory=6Gi`
	pipeline = `pipeline cpu=7 memory=12Gi
init prepare cpu=4 memory=8Gi
sidecar proxy cpu=2 memory=2Gi
init migrate
sidecar logs
app server cpu=3 memory=6Gi
app helper`
	shared = `shared cpu=4 memory=4Gi
app a
app b`
)

var podCases = []podCase{
	{name: "containers", pods: []string{web, "other\napp a cpu=1<2 memory=1Gi<2Gi"}},
	{name: "containers-wide", pods: []string{"wide\napp a cpu=10 memory=20Gi"}},
	{name: "init-running", pods: []string{job}, until: "proxy"},
	{name: "init-ended", pods: []string{job}},
	{name: "budget-one", pods: []string{"one cpu=4 memory=4Gi\napp a cpu=4 memory=4Gi"}},
	{name: "budget-mixed", pods: []string{database}},
	{name: "budget-leftover", pods: []string{"leftover cpu=4 memory=4Gi\napp a cpu=1 memory=1Gi\napp b cpu=1 memory=1Gi"}},
	{name: "budget-shared", pods: []string{shared}},
	{name: "budget-fraction", pods: []string{"fraction cpu=2500m memory=4Gi\napp a cpu=1 memory=1Gi\napp b"}},
	{name: "budget-init-running", pods: []string{pipeline}, until: "proxy"},
	{name: "budget-init-ended", pods: []string{pipeline}},
	{name: "budget-hugepages", pods: []string{`huge cpu=4 memory=4Gi hugepages-2Mi=1Gi
app a cpu=2 memory=2Gi hugepages-2Mi=512Mi
app b cpu=1 memory=1Gi hugepages-2Mi=256Mi
app c hugepages-2Mi=256Mi`}},
	{name: "budget-wide", pods: []string{"wide cpu=10 memory=20Gi\napp a cpu=8 memory=12Gi\napp b"}},
	{name: "many", pods: []string{web, database, "small cpu=3 memory=3Gi\napp a cpu=2 memory=2Gi\napp b"}},
}

// reservedCPUs and reservedMemory, which is on NUMA node 0, are the node's.
const reservedCPUs, reservedMemory = "0,8", "1Gi"

func shape() simnode.Shape {
	return simnode.Shape{Nodes: 2, Cores: 4, Threads: 2, Memory: resource.MustParse("16Gi"), Hugepages2Mi: 1024}
}

func (c podCase) parse(t *testing.T) (pods []*v1.Pod) {
	for _, text := range c.pods {
		pod, err := simnode.ParsePod(text)
		require.NoError(t, err)
		pods = append(pods, pod)
	}
	return pods
}

// files is what a kubelet has written in one case.
type files struct {
	Pods   []string `json:"pods"`
	CPU    string   `json:"cpu_manager_state"`
	Memory string   `json:"memory_manager_state"`
}

// readFiles is what the release has written with the setting, by case.
func readFiles(t *testing.T, release, setting string) map[string]files {
	text, err := os.ReadFile(filepath.Join("testdata", release, setting+".json"))
	require.NoError(t, err)
	all := map[string]files{}
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, len(podCases), "%s, %s", release, setting)
	return all
}

// golden compares the text with that of the file, or writes it.
func golden(t *testing.T, path string, text []byte) {
	path = filepath.Join("testdata", path)
	if *rewrite {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, text, 0o666))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(text), "%s is not what is the case now; see testdata/README.md", path)
}

func goldenJSON(t *testing.T, path string, value any) {
	text, err := json.MarshalIndent(value, "", " ")
	require.NoError(t, err)
	golden(t, path, append(text, '\n'))
}

// TestCases keeps cases.json, which the programs of other releases read, in line
// with what is above.
func TestCases(t *testing.T) {
	type jsonCase struct {
		Name  string
		Pods  []*v1.Pod
		Until string `json:",omitempty"`
	}
	all := struct {
		Machine                      any
		ReservedCPUs, ReservedMemory string
		Settings                     []setting
		Cases                        []jsonCase
	}{Machine: shape().MachineInfo(), ReservedCPUs: reservedCPUs, ReservedMemory: reservedMemory, Settings: settings}
	for _, c := range podCases {
		all.Cases = append(all.Cases, jsonCase{c.name, c.parse(t), c.until})
	}
	goldenJSON(t, "cases.json", all)
}

// newNode is a node with the setting. Its kubelet is not started.
func newNode(t *testing.T, s setting) *simnode.Node {
	n := simnode.New(t)
	n.Info = shape().MachineInfo()
	configure(n, s)
	var err error
	n.ReservedCPUs, err = cpuset.Parse(reservedCPUs)
	require.NoError(t, err)
	return n
}

func configure(n *simnode.Node, s setting) {
	n.TopologyPolicy, n.Scope, n.Gate = s.TopologyPolicy, s.Scope, s.Gate
}
