// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"

	"github.com/podslice/podslice/test/e2e_node/guest"
)

// A report as the suite writes it, with the fields that are read.
const reportText = `[{"SpecReports": [
 {"ContainerHierarchyTexts": ["[sig-node] CPU Manager [Feature:CPUManager]", "with options"], "LeafNodeType": "It", "LeafNodeText": "should pin (a|b) [x]",
  "LeafNodeLocation": {"FileName": "k8s.io/kubernetes/test/e2e_node/cpu_manager_test.go", "LineNumber": 12}, "State": "passed", "RunTime": 32500000000},
 {"ContainerHierarchyTexts": ["[sig-node] CPU Manager [Feature:CPUManager]"], "LeafNodeType": "It", "LeafNodeText": "should fail",
  "LeafNodeLocation": {"FileName": "k8s.io/kubernetes/test/e2e_node/cpu_manager_test.go", "LineNumber": 30}, "State": "failed", "RunTime": 1000000000,
  "Failure": {"Message": "Timed out.\nExpected 1"}, "CapturedGinkgoWriterOutput": "STEP: one"},
 {"ContainerHierarchyTexts": ["[sig-node] Topology Manager [Feature:TopologyManager]"], "LeafNodeType": "It", "LeafNodeText": "wants devices",
  "LeafNodeLocation": {"FileName": "topology_manager_test.go", "LineNumber": 7}, "State": "skipped", "Failure": {"Message": "no VF from SRIOV device"}},
 {"ContainerHierarchyTexts": ["[sig-node] Topology Manager [Feature:TopologyManager]"], "LeafNodeType": "It", "LeafNodeText": "was cut off",
  "LeafNodeLocation": {"FileName": "topology_manager_test.go", "LineNumber": 9}, "State": "timedout", "Failure": {"Message": "A suite timeout occurred"}},
 {"ContainerHierarchyTexts": ["[sig-node] Other"], "LeafNodeType": "It", "LeafNodeText": "is left out",
  "LeafNodeLocation": {"FileName": "other_test.go", "LineNumber": 9}, "State": "skipped"},
 {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"}
]}]`

func results(t *testing.T) []Result {
	r, err := ReadResults([]byte(reportText))
	require.NoError(t, err)
	return r
}

func TestReadResults(t *testing.T) {
	r := results(t)
	require.Len(t, r, 4)
	require.Equal(t, Spec{"cpu_manager_test.go", 12, "[sig-node] CPU Manager [Feature:CPUManager] with options should pin (a|b) [x]"}, r[0].Spec)
	require.Equal(t, Passed, r[0].State)
	require.InDelta(t, 32.5, r[0].Seconds, 0.001)
	require.Equal(t, Failed, r[1].State)
	require.Equal(t, "Timed out.\nExpected 1", r[1].Reason)
	require.Equal(t, "STEP: one", r[1].output)
	require.Equal(t, Skipped, r[2].State)
	require.Equal(t, Failed, r[3].State)
	require.Equal(t, "timedout: A suite timeout occurred", r[3].Reason)
	require.Empty(t, setupFailure([]byte(reportText)))
	broken := strings.Replace(reportText, `"SynchronizedBeforeSuite", "State": "passed"`, `"SynchronizedBeforeSuite", "State": "failed", "Failure": {"Message": "no kubelet"}`, 1)
	require.Equal(t, "SynchronizedBeforeSuite: no kubelet", setupFailure([]byte(broken)))
	for _, text := range []string{"", "[]", "[{},{}]", "{"} {
		_, err := ReadResults([]byte(text))
		require.Error(t, err, text)
	}
}

// Ginkgo leaves empty texts out of the name that it matches with the focus.
func TestEmptyTexts(t *testing.T) {
	r, err := ReadResults([]byte(strings.Replace(reportText, `"with options"]`, `"with options", "", ""]`, 1)))
	require.NoError(t, err)
	require.Equal(t, results(t)[0].Name, r[0].Name)
}

func TestReadSpecsRefusesTwins(t *testing.T) {
	_, err := ReadSpecs([]byte(strings.Replace(reportText, "wants devices", "was cut off", 1)))
	require.ErrorContains(t, err, "two specs are named")
	specs, err := ReadSpecs([]byte(reportText))
	require.NoError(t, err)
	require.Len(t, specs, 4)
}

func TestReadSpecsSorts(t *testing.T) {
	shuffled, err := ReadSpecs([]byte(strings.NewReplacer(`"LineNumber": 12`, `"LineNumber": 31`, `"LineNumber": 7`, `"LineNumber": 10`).Replace(reportText)))
	require.NoError(t, err)
	var lines []int
	for _, s := range shuffled {
		lines = append(lines, s.Line)
	}
	require.Equal(t, []int{30, 31, 9, 10}, lines)
}

func TestBatches(t *testing.T) {
	var specs []Spec
	for i := range 50 {
		specs = append(specs, Spec{"a_test.go", i, "[sig-node] A [Feature:X] does"}, Spec{"b_test.go", i, "[sig-node] A [Feature:X] does"})
	}
	var sizes []int
	var all []Spec
	for _, b := range Batches(specs) {
		sizes = append(sizes, len(b))
		all = append(all, b...)
	}
	require.Equal(t, []int{40, 40, 20}, sizes)
	require.ElementsMatch(t, specs, all)
	require.True(t, slices.IsSortedFunc(all, compareSpecs), "specs of a group are not together")
	require.Empty(t, Batches(nil))
}

// The focus selects the specs that it is made from, as the suite matches it, and
// no others.
func TestFocus(t *testing.T) {
	r := results(t)
	re := regexp.MustCompile(focus([]Spec{r[0].Spec, r[2].Spec}))
	for i, want := range []bool{true, false, true, false} {
		require.Equal(t, want, re.MatchString("E2eNode Suite "+r[i].Name), r[i].Name)
	}
	require.False(t, re.MatchString("E2eNode Suite "+r[0].Name+" twice"))
}

func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "folder", "record.json")
	record, err := ReadRecord(file)
	require.NoError(t, err)
	require.Empty(t, record.Results)
	r := results(t)
	record.Add(r[3], r[1])
	record.Add(r[0])
	again := r[1]
	again.State, again.Alone = Passed, true
	record.Add(again)
	require.NoError(t, record.Write(file))
	read, err := ReadRecord(file)
	require.NoError(t, err)
	require.Len(t, read.Results, 3)
	got, ok := read.Of(r[1].Spec)
	require.True(t, ok)
	require.Equal(t, Passed, got.State)
	require.True(t, got.Alone)
	require.Equal(t, 12, read.Results[0].Line)
	moved := r[0].Spec
	moved.Line = 500
	_, ok = read.Of(moved)
	require.True(t, ok, "a spec that stands on another line")

	before := len(read.Results)
	read.Forget([]Spec{moved})
	require.Len(t, read.Results, before-1)
	_, ok = read.Of(moved)
	require.False(t, ok)
}

func TestVerdict(t *testing.T) {
	r := results(t)
	e := &Exceptions{Missing: map[string]string{"SRIOV": "SR-IOV devices"}, Never: map[string]string{r[3].Name: "it never passes"}, Machines: map[string]map[string]string{"1 node, 2 cores, 1 thread, 2Gi each": {r[0].Name: "wants one node"}}}
	require.Empty(t, e.Judge(r[0]))
	require.Equal(t, "failed", e.Judge(r[1]))
	require.Empty(t, e.Judge(r[2]))
	require.Empty(t, e.Judge(r[3]))
	other := r[2]
	other.Reason = "needs 10 CPUs"
	require.NotEmpty(t, e.Judge(other))

	require.Equal(t, "1 node, 2 cores, 1 thread, 2Gi each", e.MachineOf(r[0].Spec))
	require.Empty(t, e.MachineOf(r[1].Spec))
	require.Equal(t, "it never passes", e.Note(r[3]))
	wonder := r[3]
	wonder.State = Passed
	require.Contains(t, e.Note(wonder), "said never to")
	require.Equal(t, []string{r[0].Name}, e.Unknown([]Spec{r[1].Spec, r[3].Spec}))

	now, stock := &Record{}, &Record{}
	now.Add(r[:3]...)
	elsewhere := r[0]
	elsewhere.Machine = e.MachineOf(r[0].Spec)
	now.Add(elsewhere)
	stock.Add(r[0])
	specs := []Spec{r[0].Spec, r[1].Spec, r[2].Spec, r[3].Spec}
	var table strings.Builder
	require.NoError(t, WriteTable(&table, specs, now, stock, e))
	require.Equal(t, strings.TrimLeft(`
SPEC                        RESULT   SECONDS  UPSTREAM'S KUBELET  NAME
cpu_manager_test.go:12      passed   32       passed (32 s)       CPU Manager with options should pin (a|b)
                                                                    (on 1 node, 2 cores, 1 thread, 2Gi each: wants one node)
cpu_manager_test.go:30      failed   1        not on record       CPU Manager should fail
                                                                    (Timed out.)
topology_manager_test.go:7  skipped  0        not on record       Topology Manager wants devices
                                                                    (cannot be had: SR-IOV devices)
topology_manager_test.go:9  not run           not on record       Topology Manager was cut off
`, "\n"), table.String())
	text, wrong := Summary(specs, now, e)
	require.Equal(t, "4 specs: 1 passed, 1 failed, 1 skipped", text)
	require.Equal(t, []string{"cpu_manager_test.go:30: failed: Timed out.", "topology_manager_test.go:9: has not run"}, wrong)
}

func TestMachine(t *testing.T) {
	shape, err := guest.ParseShape(Machine)
	require.NoError(t, err)
	require.Equal(t, Machine, shape.String())
}

func TestReadProgress(t *testing.T) {
	a, longer, b := Spec{"a_test.go", 1, "[sig-node] A does"}, Spec{"a_test.go", 2, "[sig-node] A does more"}, Spec{"b_test.go", 3, "[sig-node] B [Feature:X] does"}
	got := readProgress(`[sig-node] A does more [sig-node, Serial]
• [92.554 seconds]
[sig-node] A does [sig-node]
• [FAILED] [12.0 seconds]
[sig-node] C was not asked for
• [5 seconds]
[sig-node] B  [Feature:X] does
S [SKIPPED] [0.001 seconds]
[sig-node] A does
• [SLOW TEST] [60.1 seconds]
• [1 seconds]
[sig-node]  B [Feature:X] does
`, []Spec{a, longer, b})
	require.Equal(t, []Result{
		{Spec: longer, State: Passed, Seconds: 92.554}, {Spec: a, State: Failed, Seconds: 12},
		{Spec: b, State: Skipped, Seconds: 0.001}, {Spec: a, State: Passed, Seconds: 60.1},
	}, got)

	// What is fetched of the output has these lines.
	lines := regexp.MustCompile("(?m)" + progressLines)
	require.Len(t, lines.FindAllString("[sig-node] A\n• [92.5 seconds]\nS [SKIPPED] [0.001 seconds]\n• [FAILED] [12.0 seconds]\n  • [1 seconds]\nSTEP: x\n  [sig-node] A\n", -1), 4)
}

func TestReadExceptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "exceptions.json")
	for text, want := range map[string]string{
		`{"machines": {"1 node": {"a": "b"}}}`: "1 node",
		`{"machines": {"1 node, 2 cores, 1 thread, 2Gi each": {"a": "b"}, "1 node, 3 cores, 1 thread, 2Gi each": {"a": "b"}}}`: `"a" is for machine`,
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := ReadExceptions(file)
		require.ErrorContains(t, err, want, text)
	}
}

// The files of the repository can be read, and go together: what is on record was made
// on the machines that the exceptions name, and what is said to pass nowhere did not
// pass there. A spec that upstream's kubelet skips is an exception.
func TestFiles(t *testing.T) {
	e, err := ReadExceptions("exceptions.json")
	require.NoError(t, err)
	require.NotEmpty(t, e.Missing)
	stock, err := ReadRecord("stock.json")
	require.NoError(t, err)
	require.Equal(t, Machine, stock.Machine)
	var specs []Spec
	for _, r := range stock.Results {
		specs = append(specs, r.Spec)
		require.NotEmpty(t, r.State, r.Name)
		require.Equal(t, e.MachineOf(r.Spec), r.Machine, r.Name)
		require.NotContains(t, e.Note(r), "said never to", r.Name)
		if r.State == Skipped {
			require.Empty(t, e.Judge(r), r.Name)
		}
	}
	require.Empty(t, e.Unknown(specs), "exceptions that are not on record")
}

// The device plugin's image is found where the suite's manifest asks for it.
func TestPluginImage(t *testing.T) {
	text, err := manifests.GetE2ETestingManifestsFS().ReadTestFile("test/e2e/testing-manifests/sample-device-plugin/sample-device-plugin.yaml")
	require.NoError(t, err)
	require.Contains(t, string(text), "image: "+imagePlugin+"\n")
}

// Sleeps of whole seconds take ten times as long, others do not.
func TestPacedSleep(t *testing.T) {
	for in, want := range map[string]string{
		"sleep 5":                           "sleep 50",
		"echo 'done' && sleep 2":            "echo 'done' && sleep 20",
		"sleep 1; sleep 10000":              "sleep 10; sleep 100000",
		"a && sleep 3h; sleep infinity":     "a && sleep 3h; sleep infinity",
		"sleep 0; sleep 1.5; oversleep 3":   "sleep 0; sleep 1.5; oversleep 3",
		"if x\nthen\n\tsleep 7\nfi # sleep": "if x\nthen\n\tsleep 70\nfi # sleep",
	} {
		cmd := exec.Command("sed", "-E", pacedSleep)
		cmd.Stdin = strings.NewReader(in + "\n")
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, want+"\n", string(out))
	}
}
