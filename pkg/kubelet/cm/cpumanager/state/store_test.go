// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/checksum"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/test/realfiles"
)

func sample() *Content {
	return &Content{
		Default:     cpuset.New(0, 3, 4, 5, 6, 7),
		Assignments: ContainerCPUAssignments{"POD": {"c": cpuset.New(1, 2)}},
		Pods:        PodCPUAssignments{"POD": {CPUSet: cpuset.New(1, 2)}},
	}
}

func open(t *testing.T, dir, policy string) (*Store, error) {
	logger, _ := ktesting.NewTestContext(t)
	return Open(logger, dir, "state", policy, func(id string) (string, string, error) {
		if pod, name, ok := strings.Cut(id, "-"); ok {
			return pod, name, nil
		}
		return "", "", errors.New("no such container")
	})
}

func TestReplacePublishesAndSurvives(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir, "static")
	require.NoError(t, err)
	_, err = os.Stat(filepath.Join(dir, "state"))
	require.ErrorIs(t, err, os.ErrNotExist, "opening writes nothing")

	require.NoError(t, s.Replace(sample()))
	require.Equal(t, "1-2", s.Content().GetCPUSetOrDefault("POD", "c").String())

	again, err := open(t, dir, "static")
	require.NoError(t, err)
	require.Equal(t, sample(), again.Content())
	require.Equal(t, "0,3-7", again.Content().GetCPUSetOrDefault("POD", "other").String())
}

func TestReplaceWritesNothingNew(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir, "static")
	require.NoError(t, err)
	require.NoError(t, s.Replace(sample()))
	for _, reopened := range []bool{false, true} {
		if reopened {
			s, err = open(t, dir, "static")
			require.NoError(t, err)
		}
		before, err := os.Stat(filepath.Join(dir, "state"))
		require.NoError(t, err)
		require.NoError(t, s.Replace(sample()))
		after, err := os.Stat(filepath.Join(dir, "state"))
		require.NoError(t, err)
		require.True(t, os.SameFile(before, after), "the file was replaced by an equal one")
	}
}

// TestInlinePart: older kubelets want all CPUs to be in the pool or a container's.
func TestInlinePart(t *testing.T) {
	content := sample()
	content.Pods["POD"] = PodEntry{CPUSet: cpuset.New(1, 2, 6, 7)}
	content.Default = cpuset.New(0, 3, 4, 5)
	data, err := (&Store{policyName: "static"}).encode(content)
	require.NoError(t, err)
	var v2 CPUManagerCheckpointV2
	require.NoError(t, read(data, &v2))
	require.Equal(t, "0,3-7", v2.DefaultCPUSet)
	v4, _, err := decode(data)
	require.NoError(t, err)
	require.Equal(t, "0,3-5", v4.DefaultCPUSet)
}

func TestFailedReplaceChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir, "static")
	require.NoError(t, err)
	require.NoError(t, s.Replace(sample()))
	require.NoError(t, os.RemoveAll(dir))
	require.Error(t, s.Replace(&Content{}))
	require.Equal(t, sample(), s.Content())
}

func TestOtherPolicy(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir, "static")
	require.NoError(t, err)
	require.NoError(t, s.Replace(sample()))

	s, err = open(t, dir, "none")
	require.NoError(t, err)
	require.Equal(t, sample(), s.Content(), "what other policies gave out is kept")
	kept := s.Content()
	require.NoError(t, s.Write(kept))
	s.Publish(&Content{})
	require.Empty(t, s.Content().GetCPUAssignments(), "written is not published")

	s, err = open(t, dir, "none")
	require.NoError(t, err)
	require.Equal(t, sample(), s.Content(), "the file has the name of the new policy")
	before, err := os.Stat(filepath.Join(dir, "state"))
	require.NoError(t, err)
	require.NoError(t, s.Write(kept))
	after, err := os.Stat(filepath.Join(dir, "state"))
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))

	s, err = open(t, dir, "static")
	require.NoError(t, err)
	require.Equal(t, sample(), s.Content())
}

func TestOlderFormats(t *testing.T) {
	entries := map[string]map[string]string{"POD": {"c": "1-2"}}
	v2 := &CPUManagerCheckpointV2{PolicyName: "static", DefaultCPUSet: "0,3-7", Entries: entries}
	v3 := &CPUManagerCheckpointV3{PolicyName: "static", DefaultCPUSet: "0,3-7", Entries: entries, PodEntries: sample().Pods}
	write := func(t *testing.T, data []byte, err error) string {
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "state"), data, 0o600))
		return dir
	}
	t.Run("v2", func(t *testing.T) {
		data, err := v2.MarshalCheckpoint()
		s, err := open(t, write(t, data, err), "static")
		require.NoError(t, err)
		want := sample()
		want.Pods = PodCPUAssignments{}
		require.Equal(t, want, s.Content())
	})
	t.Run("an idle node", func(t *testing.T) {
		for _, idle := range []checkpointmanager.Checkpoint{
			&CPUManagerCheckpointV2{PolicyName: "static", DefaultCPUSet: "0-7", Entries: map[string]map[string]string{}},
			&CPUManagerCheckpointV3{PolicyName: "static", DefaultCPUSet: "0-7", Entries: map[string]map[string]string{}, PodEntries: PodCPUAssignments{}},
		} {
			data, err := idle.MarshalCheckpoint()
			s, err := open(t, write(t, data, err), "static")
			require.NoError(t, err)
			require.Equal(t, "0-7", s.Content().Default.String())
		}
	})
	t.Run("v2 without checksum", func(t *testing.T) {
		bare := *v2
		bare.Checksum = 0
		data, err := json.Marshal(bare)
		s, err := open(t, write(t, data, err), "static")
		require.NoError(t, err)
		require.Equal(t, "1-2", s.Content().GetCPUSetOrDefault("POD", "c").String())
	})
	t.Run("v1", func(t *testing.T) {
		v1 := &CPUManagerCheckpointV1{PolicyName: "static", DefaultCPUSet: "0,3-7", Entries: map[string]string{"POD-c": "1-2", "gone": "3"}}
		data, err := v1.MarshalCheckpoint()
		s, err := open(t, write(t, data, err), "static")
		require.NoError(t, err)
		want := sample()
		want.Pods = PodCPUAssignments{}
		require.Equal(t, want, s.Content(), "a container that is not known does not run")
		require.NoError(t, s.Replace(s.Content()))
	})
	t.Run("v3", func(t *testing.T) {
		data, err := v3.MarshalCheckpoint()
		s, err := open(t, write(t, data, err), "static")
		require.NoError(t, err)
		require.Equal(t, sample(), s.Content())
	})
}

// TestDamage: whatever is wrong with a file, what is sure of it is read, and it
// is kept.
func TestDamage(t *testing.T) {
	s := &Store{policyName: "static"}
	good, err := s.encode(sample())
	require.NoError(t, err)
	changed := func(change func(map[string]any)) []byte {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(good, &fields))
		change(fields)
		data, err := json.Marshal(fields)
		require.NoError(t, err)
		return data
	}
	v4 := func(data string) []byte {
		return changed(func(f map[string]any) { f["data"], f["dataChecksum"] = data, uint64(checksum.New(data)) })
	}
	all, inline, nothing := sample(), sample(), &Content{Assignments: ContainerCPUAssignments{}, Pods: PodCPUAssignments{}}
	inline.Pods = PodCPUAssignments{}
	other := &Content{Default: cpuset.New(0), Pods: PodCPUAssignments{}, Assignments: ContainerCPUAssignments{"POD": {"c": cpuset.New(1)}}}
	for name, test := range map[string]struct {
		data  []byte
		err   string
		still *Content
	}{
		"empty":                      {[]byte{}, "not valid JSON", nothing},
		"zeroes":                     {make([]byte, 4096), "not valid JSON", nothing},
		"cut off in the inline part": {good[:60], "not valid JSON", nothing},
		"cut off in the data":        {good[:len(good)-60], "not valid JSON", inline},
		"cut off in the last sum":    {good[:len(good)-3], "not valid JSON", inline},
		"text behind":                {append(append([]byte{}, good...), "}"...), "not valid JSON", all},
		"data changed":               {changed(func(f map[string]any) { f["data"] = `{"policyName":"static","defaultCpuSet":"0-7"}` }), "checkpoint is corrupted", inline},
		"data is no JSON":            {v4("x"), "could not load v4", inline},
		"data gone":                  {changed(func(f map[string]any) { delete(f, "data") }), "could not load v4", inline},
		"checksum gone":              {changed(func(f map[string]any) { delete(f, "dataChecksum") }), "checkpoint is corrupted", inline},
		"inline part changed":        {changed(func(f map[string]any) { f["defaultCpuSet"] = "0" }), "", all},
		"inline part is no such":     {changed(func(f map[string]any) { f["entries"] = 5 }), "could not load v4", all},
		"a pod with a new field":     {v4(`{"policyName":"static","defaultCpuSet":"0","entries":{"POD":{"c":"1"}},"podEntries":{"POD":{"cpuSet":"1","new":1}}}`), "newer version", &Content{Default: other.Default, Assignments: other.Assignments, Pods: PodCPUAssignments{"POD": {CPUSet: cpuset.New(1)}}}},
		"both parts changed":         {changed(func(f map[string]any) { f["defaultCpuSet"], f["data"] = "0", "{}" }), "checkpoint is corrupted", nothing},
		"a field of the future":      {changed(func(f map[string]any) { f["new"] = 1 }), "newer version", all},
		"data with a new field":      {v4(`{"policyName":"static","defaultCpuSet":"0","entries":{"POD":{"c":"1"}},"new":1}`), "newer version", other},
		"data of the future":         {v4(`{"policyName":"static","entries":[{"pod":"POD"}]}`), "could not load v4", inline},
		"one entry is no CPU set":    {v4(`{"policyName":"static","defaultCpuSet":"0","entries":{"POD":{"c":"1","d":"x"}}}`), `for container "d" in pod "POD"`, other},
		"a pod with no CPU set":      {v4(`{"policyName":"static","defaultCpuSet":"0","podEntries":{"POD":{"cpuSet":"9-1"}}}`), "could not load v4", inline},
		"nothing":                    {[]byte(`null`), "names no policy", nothing},
		"a list":                     {[]byte(`[1]`), "not valid JSON", nothing},
		"no policy":                  {[]byte(`{}`), "names no policy", nothing},
		"huge range":                 {[]byte(`{"policyName":"static","defaultCpuSet":"0-99999999999","checksum":0}`), "outside the supported range", nothing},
		"no CPU set":                 {[]byte(`{"policyName":"static","defaultCpuSet":"x","checksum":0}`), "could not parse default CPU set", &Content{Default: cpuset.New(), Assignments: nothing.Assignments, Pods: nothing.Pods}},
		"older, damaged": {changed(func(f map[string]any) {
			delete(f, "data")
			delete(f, "dataChecksum")
			f["defaultCpuSet"] = "0-7"
		}), "checkpoint is corrupted", nothing},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state")
			require.NoError(t, os.WriteFile(path, test.data, 0o600))
			s, err := open(t, dir, "static")
			require.Equal(t, test.still, s.Content())
			if test.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.err)
			var damage *statefile.Damage
			require.ErrorAs(t, err, &damage)
			require.NoError(t, s.Replace(sample()))
			kept, err := os.ReadFile(damage.Kept)
			require.NoError(t, err)
			require.Equal(t, test.data, kept, "a damaged file is evidence")
			s, err = open(t, dir, "static")
			require.NoError(t, err)
			require.Equal(t, sample(), s.Content())
		})
	}
}

// TestAFolderInPlaceOfTheFile: whatever is there does not keep the kubelet down.
func TestAFolderInPlaceOfTheFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "state", "busy"), 0o755))
	s, err := open(t, dir, "static")
	var damage *statefile.Damage
	require.ErrorAs(t, err, &damage)
	require.DirExists(t, filepath.Join(damage.Kept, "busy"))
	require.NoError(t, s.Replace(sample()))
}

func TestBaselines(t *testing.T) {
	c := sample()
	require.Empty(t, c.GetCPUBaselines())
	_, ok := c.GetBaselineCPUSet("POD", "c")
	require.False(t, ok)

	c.HasBaselines = true
	cpus, ok := c.GetBaselineCPUSet("POD", "c")
	require.True(t, ok)
	require.Equal(t, "1-2", cpus.String())
	require.Len(t, c.GetCPUBaselines()["POD"], 1)
}

func TestReadersGetCopies(t *testing.T) {
	c := sample()
	delete(c.GetCPUAssignments()["POD"], "c")
	delete(c.GetPodCPUAssignments(), "POD")
	require.Equal(t, sample(), c)
	require.Equal(t, `{"POD":{"c":"1-2"}}`, c.GetCPUAssignments().String())
}

// FuzzDecode: a file is read or it is not, and nothing panics; what is read can be
// written, and is read again as the same.
func FuzzDecode(f *testing.F) {
	s := &Store{policyName: "static"}
	good, err := s.encode(sample())
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-3","entries":{"p":{"c":"9-1"}},"checksum":0}`))
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-3","entries":{"id":"1"},"checksum":0}`))
	f.Add([]byte(`{"data":null,"dataChecksum":null}`))
	for _, text := range realfiles.Texts(f, "cpu_manager_state") {
		if _, _, err := decode([]byte(text)); err != nil {
			f.Fatalf("a file of a kubelet: %v", err)
		}
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		data, part, err := decode(raw)
		if data == nil {
			require.Error(t, err)
			return
		}
		require.NotEmpty(t, part)
		content, _ := data.content(nil)
		written, err := s.encode(content)
		require.NoError(t, err)
		again, _, err := decode(written)
		require.NoError(t, err)
		reread, err := again.content(nil)
		require.NoError(t, err)
		require.Equal(t, content.Assignments.String(), reread.Assignments.String())
		require.Equal(t, content.Default.String(), reread.Default.String())
		require.Equal(t, len(content.Pods), len(reread.Pods))
	})
}
