// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/state/statetest"
)

func read(w statetest.Written) Files {
	return Files{readCPU(CPUFileName, []byte(w.CPU)), readMemory(MemoryFileName, []byte(w.Memory))}
}

// corpusAgainst is the machine and the configuration that the corpus was written
// with.
func corpusAgainst(t testing.TB, gateOn bool) Against {
	text, err := os.ReadFile(filepath.Join(statetest.Corpus, "cases.json"))
	require.NoError(t, err)
	var cases struct {
		Machine                      cadvisorapi.MachineInfo
		ReservedCPUs, ReservedMemory string
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	m, err := machine.FromMachineInfo("corpus", &cases.Machine)
	require.NoError(t, err)
	return Against{Machine: &m, ConfigFile: "config.yaml", Config: &kubeletconfig.KubeletConfiguration{
		CPUManagerPolicy: "static", MemoryManagerPolicy: "Static", ReservedSystemCPUs: cases.ReservedCPUs,
		ReservedMemory: []kubeletconfig.MemoryReservation{{NumaNode: 0, Limits: v1.ResourceList{"memory": resource.MustParse(cases.ReservedMemory)}}},
		FeatureGates:   map[string]bool{gate: gateOn},
	}}
}

// TestCorpusIsFine: there is nothing wrong with what kubelets write, alone or on
// their machine, and nothing to repair.
func TestCorpusIsFine(t *testing.T) {
	versions := map[string]string{"v1.35.4/gate-off": "2 1", "v1.36.3/gate-off": "2 1", "v1.36.3/gate-on": "3 2",
		"v1.37.2/gate-off": "4 3", "v1.37.2/gate-on": "4 3", "podslice/gate-off": "4 3", "podslice/gate-on": "4 3"}
	for name, w := range statetest.Cases(t) {
		f := read(w)
		against := corpusAgainst(t, true)
		require.Equal(t, versions[name[:strings.LastIndex(name[:strings.LastIndex(name, "/")], "-")]], fmt.Sprint(f.CPU.Version, " ", f.Memory.Version), name)
		require.Empty(t, f.Check(Against{}), name)
		require.Empty(t, f.Check(against), name)
		repaired, err := f.Repair(against, nil)
		require.NoError(t, err)
		for i, raw := range []string{w.CPU, w.Memory} {
			require.Empty(t, repaired[i].Changes, name)
			require.Equal(t, raw, string(repaired[i].Content), name)
		}
	}
}

// TestEncode: what is written anew from a content that a kubelet of the same
// version wrote has the same content and the right checksums.
func TestEncode(t *testing.T) {
	for name, w := range statetest.Cases(t) {
		f := read(w)
		cpu, err := f.CPU.used().content.encode(f.CPU.Version)
		require.NoError(t, err)
		tables, err := capacities(f.Memory.used().content.machine)
		require.NoError(t, err)
		memory, err := encodeMemory(f.Memory.Version, f.Memory.used().content.policy, tables, f.Memory.used().content.records())
		require.NoError(t, err)
		again := statetest.Written{CPU: string(cpu), Memory: string(memory)}
		require.Empty(t, Diff(f.View(), read(again).View()), name)
		require.Empty(t, read(again).Check(corpusAgainst(t, true)), name)
		if strings.HasPrefix(name, "podslice/") {
			require.JSONEq(t, w.CPU, again.CPU, name)
		}
	}
}

var verdictLine = regexp.MustCompile(`^(\S+), written by (\S+) with (\S+), read with ([^:]+): ?(.*)$`)

// TestRefusedIsWhatReleasesDo holds what is told of other releases against what
// their own code does on the corpus.
func TestRefusedIsWhatReleasesDo(t *testing.T) {
	cases := statetest.Cases(t)
	refused, starts := 0, 0
	for _, release := range []string{"v1.35.4", "v1.36.3", "v1.37.2"} {
		text, err := os.ReadFile(filepath.Join(statetest.Corpus, release, "check.txt"))
		require.NoError(t, err)
		for _, line := range strings.Split(string(text), "\n") {
			m := verdictLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			f := read(cases[strings.Join([]string{m[2], m[3], m[1]}, "/")])
			against := corpusAgainst(t, strings.HasPrefix(m[4], "gate-on"))
			against.Release = release[1:5]
			// Without the machine, too.
			for _, known := range []*machine.Machine{against.Machine, nil} {
				against.Machine = known
				list := slices.DeleteFunc(f.Check(against), func(f Finding) bool { return f.Rule != Refused })
				if strings.HasPrefix(m[5], "does not start") {
					require.NotEmpty(t, list, line)
					refused++
					for _, manager := range []string{"CPU", "memory"} { // upstream tells the first
						if strings.Contains(m[5], "does not start: "+manager) {
							require.Contains(t, list[0].Text, ": "+manager+" manager", line)
						}
					}
				} else {
					require.Empty(t, list, line)
					starts++
				}
			}
		}
	}
	require.Greater(t, refused, 80)
	require.Greater(t, starts, 500)
}

// hasRule is whether the rule has found something, with its severity.
func hasRule(list []Finding, rule Rule) bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Rule == rule && f.Severity == rule.severity() })
}

// TestDamage: each damage is found by its rule, and after a repair, with the
// machine and without it, nothing is wrong any more. Another repair changes
// nothing.
func TestDamage(t *testing.T) {
	sound := statetest.Sound(t)
	against := corpusAgainst(t, true)
	seen := map[Rule]bool{}
	for _, name := range slices.Sorted(maps.Keys(statetest.Damages)) {
		t.Run(name, func(t *testing.T) {
			d := statetest.Damages[name]
			rule := Rule(d.Rule)
			seen[rule] = true
			w := d.Apply(t, sound)
			require.True(t, hasRule(read(w).Check(against), rule), "%v", read(w).Check(against))
			if rule.severity() == Note && name != "reserved CPUs" { // these are nobody's
				require.Zero(t, Wrong(read(w).Check(against)), "%v", read(w).Check(against))
			}
			for _, a := range []Against{against, {}} {
				repaired, err := read(w).Repair(a, nil)
				require.NoError(t, err)
				again := statetest.Written{CPU: string(repaired[0].Content), Memory: string(repaired[1].Content)}
				require.Zero(t, Wrong(read(again).Check(a)), "%v\n%v", repaired, read(again).Check(a))
				if hasRule(read(w).Check(a), rule) {
					require.NotEmpty(t, slices.Concat(repaired[0].Changes, repaired[1].Changes))
				}
				twice, err := read(again).Repair(a, nil)
				require.NoError(t, err)
				require.Empty(t, slices.Concat(twice[0].Changes, twice[1].Changes))
			}
		})
	}
	// The others have tests of their own.
	for _, m := range Meanings {
		switch m.Rule {
		case OldVersion, Overcommitted, OneFileOnly, ConfigPolicy, ConfigGate, Refused:
		default:
			require.True(t, seen[m.Rule], "no damage is found by the rule %s", m.Rule)
		}
	}
}

// TestCutOff: of a file that is cut off anywhere, the part that stands in it whole
// is gone on with; else it is left out. What is gone on with has no fault.
func TestCutOff(t *testing.T) {
	sound := statetest.Sound(t)
	against := corpusAgainst(t, true)
	inline := 0
	for n := range len(sound.CPU) {
		w := statetest.Written{CPU: sound.CPU[:n], Memory: sound.Memory}
		require.NotZero(t, Wrong(read(w).Check(against)), "%d", n)
		repaired, err := read(w).Repair(against, nil)
		require.NoError(t, err)
		if repaired[0].Content == nil {
			continue
		}
		inline++
		again := statetest.Written{CPU: string(repaired[0].Content), Memory: string(repaired[1].Content)}
		require.Zero(t, Wrong(read(again).Check(against)), "%d", n)
		if n >= strings.Index(sound.CPU, `,"data"`) { // the inline part is whole: so are the pods, by the other file
			require.Equal(t, "1-3,9-11", read(again).View().Pods[0].CPUs, "%d", n)
		}
	}
	require.Greater(t, inline, 100)
}

// TestOvercommitted: pods that have more memory than there is keep it; that is a
// warning, and a repair leaves it.
func TestOvercommitted(t *testing.T) {
	w := statetest.Sound(t)
	f := read(w)
	c := f.Memory.used().content.clone()
	c.pods["uid-big"] = memplan.PodRecord{Containers: map[string][]memplan.Block{"a": {{Nodes: numa.SetOf(1), Resource: "memory", Size: 20 << 30}}}}
	tables, err := capacities(c.machine)
	require.NoError(t, err)
	text, err := encodeMemory(3, c.policy, tables, c.records())
	require.NoError(t, err)
	w.Memory = string(text)
	list := read(w).Check(corpusAgainst(t, true))
	require.Len(t, list, 1)
	require.Equal(t, "memory_manager_state, data part: NUMA node 1, memory: pods have 6Gi more than the 14Gi that can be allocated", list[0].String())
	require.Equal(t, Overcommitted, list[0].Rule)
	require.Zero(t, Wrong(list))
	repaired, err := read(w).Repair(Against{}, nil)
	require.NoError(t, err)
	require.Empty(t, repaired[1].Changes)
}

// TestOneFileOnly: the other file knows nothing of a pod, or nothing of it as a
// whole.
func TestOneFileOnly(t *testing.T) {
	for want, edit := range map[string]func(*MemoryFile){
		`cpu_manager_state, pod "uid-database": has CPUs 1-3,9-11, and nothing in memory_manager_state`: func(f *MemoryFile) {
			delete(f.used().content.pods, "uid-database")
		},
		`cpu_manager_state, pod "uid-database": has CPUs 1-3,9-11 as a whole, and in memory_manager_state only what containers have`: func(f *MemoryFile) {
			f.used().content.pods["uid-database"] = memplan.PodRecord{Containers: f.used().content.pods["uid-database"].Containers}
		},
	} {
		f := read(statetest.Sound(t))
		edit(f.Memory)
		list := f.checkBoth()
		require.Len(t, list, 1)
		require.Equal(t, want, list[0].String())
		require.Equal(t, Note, list[0].Severity)
	}
}

// TestRecall: when Data of either file is lost, which pods were allocated as a
// whole is known from the other, and nothing else is lost that the inline part has.
func TestRecall(t *testing.T) {
	for name, w := range statetest.Cases(t) {
		if !strings.HasPrefix(name, "podslice/gate-on-pod/") {
			continue
		}
		for _, lost := range []*string{&w.CPU, &w.Memory} {
			whole := read(w)
			was := *lost
			*lost = was[:strings.Index(was, `,"data"`)] + ","
			repaired, err := read(w).Repair(corpusAgainst(t, true), nil)
			require.NoError(t, err)
			*lost = was
			again := read(statetest.Written{CPU: string(repaired[0].Content), Memory: string(repaired[1].Content)})
			for i, p := range whole.View().Pods {
				got := again.View().Pods[i]
				require.Equal(t, len(p.Containers), len(got.Containers), name)
				if len(p.Memory) > 0 && p.CPUs != "" { // one that only memory has as a whole is not known to the CPU file
					require.Equal(t, p.Memory, got.Memory, name)
				}
				for j, c := range p.Containers {
					require.Equal(t, c.CPUs, got.Containers[j].CPUs, name)
				}
				if lost == &w.CPU && p.CPUs != "" && name != "podslice/gate-on-pod/budget-leftover" { // what no container has is lost
					require.Equal(t, p.CPUs, got.CPUs, name)
				}
			}
		}
	}
}
