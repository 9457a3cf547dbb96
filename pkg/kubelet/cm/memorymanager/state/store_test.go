// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/checksum"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/test/faultfs"
	"github.com/podslice/podslice/test/realfiles"
)

const gi = 1 << 30

const fileName = "memory_manager_state"

func testMachine(t *testing.T, memory uint64) memplan.Machine {
	m, err := memplan.NewMachine([]memplan.NodeSpec{
		{ID: 0, Memory: memory, Reserved: map[string]uint64{"memory": gi}, HugePages: map[string]uint64{"hugepages-2Mi": gi}},
		{ID: 1, Memory: memory},
	})
	require.NoError(t, err)
	return m
}

func block(size uint64, nodes ...int) memplan.Block {
	return memplan.Block{Nodes: numa.SetOf(nodes...), Resource: "memory", Size: size}
}

// testRecords has a pod allocated as a whole, an ordinary one, an init container
// that gave its memory back, and a group.
func testRecords() memplan.Records {
	return memplan.NewRecords(map[string]memplan.PodRecord{
		"whole": {
			Pod:        []memplan.Block{block(4*gi, 0)},
			Containers: map[string][]memplan.Block{"app": {block(3*gi, 0)}, "log": {block(gi, 0)}},
		},
		"ordinary": {Containers: map[string][]memplan.Block{"init": {}, "app": {block(2*gi, 1)}}},
	})
}

func open(t *testing.T, dir, policy string, m memplan.Machine) (*Store, error) {
	logger, _ := ktesting.NewTestContext(t)
	return Open(logger, dir, fileName, policy, m)
}

func content(t *testing.T, dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	require.NoError(t, err)
	return string(text)
}

func TestReplaceSurvivesReopening(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir, "Static", testMachine(t, 16*gi))
	require.NoError(t, err)
	require.NotEmpty(t, content(t, dir), "a new node gets a file at once")
	require.NoError(t, s.Replace(testRecords()))
	written := content(t, dir)

	before, err := os.Stat(s.file.Path())
	require.NoError(t, err)
	again, err := open(t, dir, "Static", testMachine(t, 16*gi))
	require.NoError(t, err)
	require.NoError(t, again.Replace(again.Host().Records()))
	after, err := os.Stat(s.file.Path())
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "what would not change is not written")
	require.Equal(t, written, content(t, dir))

	require.Equal(t, s.GetMemoryAssignments(), again.GetMemoryAssignments())
	require.Equal(t, s.GetPodMemoryAssignments(), again.GetPodMemoryAssignments())
	require.Equal(t, s.GetMachineState(), again.GetMachineState())
	require.Equal(t, []Block{}, again.GetMemoryBlocks("ordinary", "init"))
	require.Nil(t, again.GetMemoryBlocks("ordinary", "other"))
	require.Nil(t, again.GetPodMemoryBlocks("ordinary"))
	require.Equal(t, []Block{{NUMAAffinity: []int{0}, Type: "memory", Size: 4 * gi}}, again.GetPodMemoryBlocks("whole"))
	require.Equal(t, &MemoryTable{TotalMemSize: 16 * gi, SystemReserved: gi, Allocatable: 14 * gi, Reserved: 4 * gi, Free: 10 * gi},
		again.GetMachineState()[0].MemoryMap["memory"])
}

func TestReadersGetCopies(t *testing.T) {
	s, err := open(t, t.TempDir(), "Static", testMachine(t, 16*gi))
	require.NoError(t, err)
	require.NoError(t, s.Replace(testRecords()))
	s.GetMemoryBlocks("whole", "app")[0].NUMAAffinity[0] = 1
	s.GetMemoryAssignments()["whole"]["app"][0].Size = 1
	s.GetMachineState()[0].MemoryMap["memory"].Free = 1
	require.Equal(t, []Block{{NUMAAffinity: []int{0}, Type: "memory", Size: 3 * gi}}, s.GetMemoryBlocks("whole", "app"))
	require.EqualValues(t, 10*gi, s.GetMachineState()[0].MemoryMap["memory"].Free)
}

// TestInlinePart: older kubelets want the containers' blocks to add up to what the
// machine is charged with.
func TestInlinePart(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir, "Static", testMachine(t, 16*gi))
	require.NoError(t, err)
	require.NoError(t, s.Replace(memplan.NewRecords(map[string]memplan.PodRecord{"whole": {
		Pod: []memplan.Block{block(8*gi, 0, 1)},
		Containers: map[string][]memplan.Block{
			"app": {block(4*gi, 0)}, "log": {block(3*gi, 0, 1)}, "mesh": {block(3*gi, 0, 1)},
		},
	}})))
	var v1 MemoryManagerCheckpointV1
	require.NoError(t, v1.UnmarshalCheckpoint([]byte(content(t, dir))))
	require.NoError(t, v1.VerifyChecksum())
	on := []int{0, 1}
	require.Equal(t, map[string][]Block{
		"app":  {{NUMAAffinity: on, Type: "memory", Size: 4 * gi}},
		"log":  {{NUMAAffinity: on, Type: "memory", Size: 3 * gi}},
		"mesh": {{NUMAAffinity: on, Type: "memory", Size: 1 * gi}},
	}, v1.Entries["whole"])
	require.Equal(t, 3, v1.MachineState[0].NumberOfAssignments)
	require.EqualValues(t, 8*gi, v1.MachineState[0].MemoryMap["memory"].Reserved+v1.MachineState[1].MemoryMap["memory"].Reserved)

	s, err = open(t, dir, "Static", testMachine(t, 16*gi))
	require.NoError(t, err)
	require.Equal(t, []Block{{NUMAAffinity: on, Type: "memory", Size: 3 * gi}}, s.GetMemoryBlocks("whole", "mesh"), "the rest of the file is as ever")
	require.Equal(t, 1, s.GetMachineState()[0].NumberOfAssignments)
}

func TestFailedWriteChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir, "Static", testMachine(t, 16*gi))
	require.NoError(t, err)
	require.NoError(t, s.Replace(testRecords()))
	// A folder in the file's place makes the replacement fail for root too.
	require.NoError(t, os.Remove(s.file.Path()))
	require.NoError(t, os.MkdirAll(filepath.Join(s.file.Path(), "busy"), 0o755))

	require.ErrorContains(t, s.Replace(memplan.Records{}), s.file.Path())
	require.Equal(t, 2, s.Host().Records().Len())

	require.NoError(t, os.RemoveAll(s.file.Path()))
	require.NoError(t, s.Replace(memplan.Records{}))
	require.Zero(t, s.Host().Records().Len())

	require.ErrorContains(t, New(memplan.Machine{}).Replace(testRecords()), "not loaded yet")
}

func TestMachineThatChanged(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir, "Static", testMachine(t, 16*gi))
	require.NoError(t, err)
	require.NoError(t, s.Replace(testRecords()))

	s, err = open(t, dir, "Static", testMachine(t, 16*gi-4096))
	require.NoError(t, err, "a kernel update moves a few pages")
	require.EqualValues(t, 16*gi-4096, s.GetMachineState()[0].MemoryMap["memory"].TotalMemSize)

	s, err = open(t, dir, "Static", testMachine(t, 4*gi))
	require.NoError(t, err, "pods that run win")
	require.EqualValues(t, 0, s.GetMachineState()[0].MemoryMap["memory"].Free)
	require.EqualValues(t, 2*gi, s.GetMachineState()[0].MemoryMap["memory"].Reserved)
	require.Len(t, s.GetPodMemoryBlocks("whole"), 1)

	one, err := memplan.NewMachine([]memplan.NodeSpec{{ID: 0, Memory: 16 * gi}})
	require.NoError(t, err)
	s, err = open(t, dir, "Static", one)
	require.NoError(t, err, "a node that is gone does not keep the kubelet down")
	require.Empty(t, s.GetMemoryBlocks("ordinary", "app"), "its memory was on node 1")
	require.Len(t, s.GetPodMemoryBlocks("whole"), 1, "its memory is on node 0")

	require.NoError(t, s.Replace(memplan.NewRecords(map[string]memplan.PodRecord{
		"p": {Containers: map[string][]memplan.Block{"c": {{Nodes: numa.SetOf(0), Resource: "hugepages-2Mi", Size: gi}}}},
		"q": {Containers: map[string][]memplan.Block{"c": {{Nodes: numa.SetOf(0), Resource: "memory", Size: gi}}}},
		"r": {Containers: map[string][]memplan.Block{"c": {
			{Nodes: numa.SetOf(0), Resource: "memory", Size: gi}, {Nodes: numa.SetOf(0), Resource: "hugepages-2Mi", Size: gi},
		}}},
	})))
	s, err = open(t, dir, "Static", one)
	require.NoError(t, err, "nor does a page size that is gone")
	require.Empty(t, s.GetMemoryBlocks("p", "c"))
	require.Len(t, s.GetMemoryBlocks("q", "c"), 1)
	require.Equal(t, []Block{{NUMAAffinity: []int{0}, Type: "memory", Size: gi}}, s.GetMemoryBlocks("r", "c"), "it keeps what there is")

	records := testRecords()
	uid := "ordinary"
	require.EqualError(t, one.Check(uid, records.Pod(uid)),
		"[memorymanager] (pod: ordinary, container: app) the memory assignment uses the NUMA that does not exist: it uses NUMA nodes 1, the machine has 0")
}

func TestPolicyThatChanged(t *testing.T) {
	dir := t.TempDir()
	_, err := open(t, dir, "None", memplan.Machine{})
	require.NoError(t, err)
	s, err := open(t, dir, "Static", testMachine(t, 16*gi))
	require.NoError(t, err, "a file without records is taken over")
	require.Contains(t, content(t, dir), `"policyName":"Static"`)
	require.NoError(t, s.Replace(testRecords()))

	s, err = open(t, dir, "None", memplan.Machine{})
	require.NoError(t, err, "a file with records, too")
	require.Contains(t, content(t, dir), `"policyName":"None","machineState":{}`)
	require.Equal(t, []Block{{NUMAAffinity: []int{1}, Type: "memory", Size: 2 * gi}}, s.GetMemoryBlocks("ordinary", "app"))
	require.Len(t, s.GetPodMemoryBlocks("whole"), 1)
	require.NoError(t, s.Replace(s.Host().Records().With("ordinary", memplan.PodRecord{})), "a pod ends")

	s, err = open(t, dir, "Static", testMachine(t, 16*gi))
	require.NoError(t, err)
	require.Nil(t, s.GetMemoryBlocks("ordinary", "app"))
	require.EqualValues(t, 4*gi, s.GetMachineState()[0].MemoryMap["memory"].Reserved, "what the others hold is charged as before")
}

// TestVersions reads each version of the file. That they are those of older
// kubelets is shown in test/differential/memorymanager.
func TestVersions(t *testing.T) {
	entries := ContainerMemoryAssignments{"pod": {"app": {{NUMAAffinity: []int{0}, Type: "memory", Size: gi}}}}
	machine := NUMANodeMap{0: {MemoryMap: nil, Cells: []int{0}}}
	v1 := &MemoryManagerCheckpointV1{PolicyName: "Static", MachineState: machine, Entries: entries}
	v2 := &MemoryManagerCheckpointV2{PolicyName: "Static", MachineState: machine, Entries: entries,
		PodEntries: PodMemoryAssignments{"pod": {MemoryBlocks: []Block{{NUMAAffinity: []int{0}, Type: "memory", Size: 2 * gi}}}}}
	v3 := &MemoryManagerCheckpoint{CheckpointData: MemoryManagerCheckpointData{PolicyName: "Static", MachineState: machine, Entries: entries, PodEntries: v2.PodEntries}}
	text := func(c interface{ MarshalCheckpoint() ([]byte, error) }) string {
		blob, err := c.MarshalCheckpoint()
		require.NoError(t, err)
		return string(blob)
	}
	oldest, err := json.Marshal(&MemoryManagerCheckpointV1{PolicyName: "Static", Entries: entries})
	require.NoError(t, err)

	nothing, all := ContainerMemoryAssignments{}, entries
	future := `{"policyName":"Static","entries":{"pod":{"app":[{"numaAffinity":[0],"type":"memory","size":1073741824}],"far":[{"numaAffinity":[99],"type":"memory","size":1}]}}}`
	partly, err := json.Marshal(map[string]any{"policyName": "Static", "data": future, "dataChecksum": uint64(checksum.New(future))})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		text, fails string
		still       ContainerMemoryAssignments
		pod         bool
	}{
		"v1":                    {text(v1), "", all, false},
		"v1 without a checksum": {string(oldest), "", all, false},
		"v1 corrupt":            {strings.Replace(text(v1), "Static", "static", 1), "checkpoint is corrupted", nothing, false},
		"v1 cut off":            {text(v1)[:len(text(v1))-20], "not valid JSON", nothing, false},
		"v2":                    {text(v2), "", all, true},
		"v2 corrupt":            {strings.Replace(text(v2), "1073741824", "1073741825", 1), "checkpoint is corrupted", nothing, false},
		"v2, something behind":  {text(v2) + "\x00\x00", "not valid JSON", all, true},
		"v3":                    {text(v3), "", all, true},
		"v3, inlined copy off":  {strings.Replace(text(v3), "1073741824", "1073741825", 1), "", all, true},
		"v3, inlined no such":   {strings.Replace(text(v3), `"entries":{`, `"entries":5,"x":{`, 1), "could not load v3 checkpoint", all, true},
		"v3, a pod's new field": {strings.Replace(text(v3), `"entries":{`, `"podEntries":{"pod":{"new":1}},"entries":{`, 1), "newer version", all, true},
		"v3 corrupt":            {strings.Replace(text(v3), `\"size\":1073741824`, `\"size\":1073741825`, 1), "could not load v3 checkpoint: checkpoint is corrupted", all, false},
		"v3 without data":       {strings.Replace(text(v3), `"data":"`, `"other":"`, 1), "could not load v3 checkpoint", all, false},
		"v3 cut off in data":    {text(v3)[:len(text(v3))-60], "not valid JSON", all, false},
		"v3, a new field":       {strings.Replace(text(v3), `"data":"`, `"other":1,"data":"`, 1), "newer version", all, true},
		"v3, one entry wrong":   {string(partly), `pod "pod", container "far"`, all, false},
		"both parts corrupt":    {strings.ReplaceAll(text(v3), "1073741824", "1073741825"), "checkpoint is corrupted", nothing, false},
		"empty":                 {"", "unexpected end of JSON input", nothing, false},
		"nothing":               {"null", "names no policy", nothing, false},
		"no JSON":               {"policyName", "invalid character", nothing, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, fileName), []byte(test.text), 0o600))
			s, err := open(t, dir, "Static", testMachine(t, 16*gi))
			require.Equal(t, test.still, s.GetMemoryAssignments())
			require.Equal(t, test.pod, s.GetPodMemoryBlocks("pod") != nil)
			if test.fails == "" {
				require.NoError(t, err)
				var now MemoryManagerCheckpoint
				require.NoError(t, now.UnmarshalCheckpoint([]byte(content(t, dir))))
				require.NoError(t, now.VerifyChecksum(), "what is read is written in the newest version")
				require.NoError(t, now.MemoryManagerCheckpointV1.VerifyChecksum(), "for older kubelets, too")
				return
			}
			require.ErrorContains(t, err, test.fails)
			require.Equal(t, test.text, content(t, dir), "nothing is written yet")
			require.NoError(t, s.Replace(testRecords()))
			var damage *statefile.Damage
			require.ErrorAs(t, err, &damage)
			kept, err := os.ReadFile(damage.Kept)
			require.NoError(t, err)
			require.Equal(t, test.text, string(kept), "a file that cannot be read is left for whoever looks into it")
			_, err = open(t, dir, "Static", testMachine(t, 16*gi))
			require.NoError(t, err)
		})
	}
}

// FuzzDecode: a file is read or it is not, and nothing panics; what is read can be
// written, and is read again as the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"policyName":"Static","machineState":{"0":null},"entries":{"p":{"c":[{"numaAffinity":[-1]}]}},"checksum":0}`))
	f.Add([]byte(`{"data":null,"dataChecksum":null}`))
	for _, text := range realfiles.Texts(f, fileName) {
		if _, _, _, err := decode([]byte(text)); err != nil {
			f.Fatalf("a file of a kubelet: %v", err)
		}
		f.Add([]byte(text))
	}
	machine, err := memplan.NewMachine([]memplan.NodeSpec{{ID: 0, Memory: 16 * gi}, {ID: 1, Memory: 16 * gi}})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, blob []byte) {
		data, _, part, err := decode(blob)
		if data == nil {
			require.Error(t, err)
			return
		}
		require.NotEmpty(t, part)
		loaded, _ := records(data.Entries, data.PodEntries)
		loaded = (&Store{policy: "Static"}).check(klog.Logger{}, machine, data, loaded)
		defer statefile.Use(statefile.Use(faultfs.New()))
		s, err := Open(klog.Logger{}, "/state", fileName, "Static", machine)
		require.NoError(t, err)
		require.NoError(t, s.Replace(loaded))
		again, err := Open(klog.Logger{}, "/state", fileName, "Static", machine)
		require.NoError(t, err)
		require.Equal(t, s.GetMemoryAssignments(), again.GetMemoryAssignments())
		require.Equal(t, s.GetPodMemoryAssignments(), again.GetPodMemoryAssignments())
	})
}
