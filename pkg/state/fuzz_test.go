// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/machine/source"
	"github.com/podslice/podslice/pkg/nodeconfig"
	"github.com/podslice/podslice/pkg/state/statetest"
)

// FuzzFiles reads, judges, shows and repairs any two files. Nothing panics, and
// what is repaired has nothing wrong with it, alone and on the machine.
func FuzzFiles(f *testing.F) {
	for _, w := range statetest.Cases(f) {
		f.Add([]byte(w.CPU), []byte(w.Memory))
	}
	sound := statetest.Sound(f)
	for _, d := range statetest.Damages {
		w := d.Apply(f, sound)
		f.Add([]byte(w.CPU), []byte(w.Memory))
	}
	for n := 0; n < len(sound.CPU); n += 37 {
		f.Add([]byte(sound.CPU[:n]), []byte(sound.Memory[:n]))
	}
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-3","entries":{"c0ffee":"4-5"},"checksum":0}`), []byte(`{"policyName":"None","machineState":null,"checksum":0}`))
	against := corpusAgainst(f, true)
	f.Fuzz(func(t *testing.T, cpu, memory []byte) {
		checkAny(t, statetest.Written{CPU: string(cpu), Memory: string(memory)}, against)
	})
}

// checkAny does everything with two files. What is repaired has nothing wrong with
// it, alone and on the machine, and a second repair changes nothing.
func checkAny(t *testing.T, w statetest.Written, against Against) {
	files := read(w)
	for _, a := range []Against{{}, against} {
		for _, a.Release = range append(Releases(), "") {
			files.Check(a)
		}
		files.View()
		repaired, err := files.Repair(a, nil)
		if errors.Is(err, ErrNoPool) {
			continue
		}
		require.NoError(t, err)
		var again Files
		if repaired[0].Content != nil {
			again.CPU = readCPU(CPUFileName, repaired[0].Content)
		}
		if repaired[1].Content != nil {
			again.Memory = readMemory(MemoryFileName, repaired[1].Content)
		}
		for _, finding := range again.Check(a) {
			// What a configuration says of policies is the operator's to decide.
			ok := finding.Severity == Note || finding.Rule == ConfigPolicy
			require.True(t, ok, "%v\nfrom %s\n%s\nto %s\n%s", finding, w.CPU, w.Memory, repaired[0].Content, repaired[1].Content)
		}
		twice, err := again.Repair(a, nil)
		require.NoError(t, err)
		for _, r := range twice {
			require.Empty(t, r.Changes, "a second repair, of\n%s\n%s", w.CPU, w.Memory)
		}
	}
}

// TestRandomDamage is checkAny on the corpus with random values of it replaced or
// removed, in either part, with right and with wrong checksums.
func TestRandomDamage(t *testing.T) {
	cases := statetest.Cases(t)
	names := slices.Sorted(maps.Keys(cases))
	against := corpusAgainst(t, true)
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := cases[names[r.IntN(len(names))]]
		for range 1 + r.IntN(4) {
			text := []*string{&w.CPU, &w.Memory}[r.IntN(2)]
			*text = damageRandomly(t, r, *text)
		}
		checkAny(t, w, against)
	}
}

// damageRandomly changes one value of a file.
func damageRandomly(t *testing.T, r *rand.Rand, text string) string {
	var f map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &f))
	data, ok := f["data"].(string)
	var inside map[string]any
	if ok && r.IntN(3) > 0 && json.Unmarshal([]byte(data), &inside) == nil && inside != nil {
		changeRandomly(r, inside)
		changed, err := json.Marshal(inside)
		require.NoError(t, err)
		f["data"] = string(changed)
		if r.IntN(4) > 0 {
			f["dataChecksum"] = dataSum(string(changed))
		}
	} else {
		changeRandomly(r, f)
	}
	changed, err := json.Marshal(f)
	require.NoError(t, err)
	return string(changed)
}

// changeRandomly replaces, adds or removes something at a random place.
func changeRandomly(r *rand.Rand, at any) {
	values := []any{nil, "", "0-3", "3", "1-2,9-10", "99", "x", "static", "Static", "None", 0, 1, -1, 1 << 31, uint64(1 << 63), 1.5, true, []any{}, []any{0}, []any{0, 1}, []any{9},
		map[string]any{}, map[string]any{"a": "1-2"}, map[string]any{"cpuSet": "1-3"}, map[string]any{"numaAffinity": []any{0, 1}, "type": "memory", "size": 1 << 30},
		[]any{map[string]any{"numaAffinity": []any{1}, "type": "memory", "size": 1 << 31}}}
	value := values[r.IntN(len(values))]
	switch at := at.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(at))
		if len(keys) == 0 || r.IntN(12) == 0 {
			at[[]string{"uid-x", "a", "policyName", "entries", "podEntries", "baselines", "2", "hugepages-1Gi"}[r.IntN(8)]] = value
			return
		}
		key := keys[r.IntN(len(keys))]
		switch at[key].(type) {
		case map[string]any, []any:
			if r.IntN(5) > 0 {
				changeRandomly(r, at[key])
				return
			}
		}
		if r.IntN(4) == 0 {
			delete(at, key)
		} else {
			at[key] = value
		}
	case []any:
		if len(at) == 0 {
			return
		}
		i := r.IntN(len(at))
		if _, ok := at[i].(map[string]any); ok && r.IntN(5) > 0 {
			changeRandomly(r, at[i])
		} else {
			at[i] = value
		}
	}
}

// FuzzAgainst reads any machine and configuration.
func FuzzAgainst(f *testing.F) {
	for _, path := range []string{"cases.json", "README.md"} {
		text, err := os.ReadFile(filepath.Join(statetest.Corpus, path))
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nreservedSystemCPUs: 0,8\nreservedMemory:\n- {numaNode: 0, limits: {memory: 1Gi}}\n"))
	f.Add([]byte(`{"num_cores": 4, "topology": [{"node_id": 0, "cores": [{"core_id": 0, "thread_ids": [0, 1], "socket_id": 0}]}]}`))
	sound := read(statetest.Sound(f))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		a := Against{ConfigFile: "file"}
		m, _, err := source.Read(path)
		if err == nil {
			a.Machine = &m
		}
		config, err := nodeconfig.Load(path)
		if err == nil {
			a.Config = config
		}
		if a.Validate() == nil {
			sound.Check(a)
			if _, err := sound.Repair(a, nil); err != nil {
				require.ErrorIs(t, err, ErrNoPool)
			}
		}
	})
}
