// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/utils/cpuset"
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
	return Open(logger, dir, "state", policy)
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
	t.Run("v3", func(t *testing.T) {
		data, err := v3.MarshalCheckpoint()
		s, err := open(t, write(t, data, err), "static")
		require.NoError(t, err)
		require.Equal(t, sample(), s.Content())
	})
}

func TestDamage(t *testing.T) {
	s := &Store{policyName: "static"}
	good, err := s.encode(sample())
	require.NoError(t, err)
	damaged := func(change func(map[string]any)) []byte {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(good, &fields))
		change(fields)
		data, err := json.Marshal(fields)
		require.NoError(t, err)
		return data
	}
	for name, data := range map[string][]byte{
		"empty":         {},
		"cut off":       good[:len(good)/2],
		"text behind":   append(append([]byte{}, good...), "}"...),
		"data changed":  damaged(func(f map[string]any) { f["data"] = `{"policyName":"static","defaultCpuSet":"0-7"}` }),
		"data gone":     damaged(func(f map[string]any) { delete(f, "data") }),
		"checksum gone": damaged(func(f map[string]any) { delete(f, "dataChecksum") }),
		"nothing":       []byte(`null`),
		"no policy":     []byte(`{}`),
		"huge range":    []byte(`{"policyName":"static","defaultCpuSet":"0-99999999999","checksum":0}`),
		"no CPU set":    []byte(`{"policyName":"static","defaultCpuSet":"x","checksum":0}`),
		"older, damaged": damaged(func(f map[string]any) {
			delete(f, "data")
			delete(f, "dataChecksum")
			f["defaultCpuSet"] = "0-7"
		}),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state")
			require.NoError(t, os.WriteFile(path, data, 0o600))
			_, err := open(t, dir, "static")
			require.ErrorContains(t, err, "could not restore state from checkpoint")
			require.ErrorContains(t, err, path)
			kept, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, data, kept, "a damaged file is evidence")
		})
	}
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

func FuzzDecode(f *testing.F) {
	s := &Store{policyName: "static"}
	good, err := s.encode(sample())
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-3","entries":{"p":{"c":"9-1"}},"checksum":0}`))
	f.Add([]byte(`{"data":null,"dataChecksum":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		// A file is read or refused; nothing panics.
		if data, _, err := decode(raw); err == nil {
			_, _ = data.content()
		}
	})
}
