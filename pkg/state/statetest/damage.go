// SPDX-License-Identifier: Apache-2.0

package statetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/state/checksum"
)

// Damage is one way to damage a file, by the rule that has to find it.
type Damage struct {
	Rule   string
	memory bool
	edit   func(map[string]any)
}

// members is an object in an object.
func members(m map[string]any, names ...string) map[string]any {
	for _, name := range names {
		next, _ := m[name].(map[string]any)
		if next == nil {
			next = map[string]any{}
			m[name] = next
		}
		m = next
	}
	return m
}

// inData edits the content of Data, with the right checksum.
func inData(edit func(map[string]any)) func(map[string]any) {
	return func(f map[string]any) {
		var data map[string]any
		if err := json.Unmarshal([]byte(f["data"].(string)), &data); err != nil {
			panic(err)
		}
		edit(data)
		text, err := json.Marshal(data)
		if err != nil {
			panic(err)
		}
		f["data"], f["dataChecksum"] = string(text), checksum.Of(string(text))
	}
}

const db = "uid-database"

func block(nodes []int, size uint64) []any {
	return []any{map[string]any{"numaAffinity": nodes, "type": "memory", "size": size}}
}

// Damages is what can be wrong with the files of the case of Sound.
var Damages = map[string]Damage{
	"data changed, old checksum":   {"checksum", false, func(f map[string]any) { f["data"] = strings.Replace(f["data"].(string), "1-2", "4-5", 1) }},
	"inline changed, old checksum": {"checksum", false, func(f map[string]any) { f["defaultCpuSet"] = "0-15" }},
	"data is no JSON":              {"unreadable", false, func(f map[string]any) { f["data"] = "{" }},
	"data is gone":                 {"unreadable", false, func(f map[string]any) { delete(f, "data") }},
	"data is a number":             {"unreadable", false, func(f map[string]any) { f["data"] = 1 }},
	"no policy":                    {"no-policy", false, inData(func(d map[string]any) { d["policyName"] = "" })},
	"no such policy":               {"no-policy", false, inData(func(d map[string]any) { d["policyName"] = "Static" })},
	"memory: no such policy":       {"no-policy", true, inData(func(d map[string]any) { d["policyName"] = "static" })},
	"no list of CPUs":              {"bad-entry", false, inData(func(d map[string]any) { members(d, "entries", db)["database"] = "1-x" })},
	"far too many CPUs":            {"bad-entry", false, inData(func(d map[string]any) { members(d, "entries", db)["database"] = "0-999999999999" })},
	"pod's list of CPUs":           {"bad-entry", false, inData(func(d map[string]any) { members(d, "podEntries", db)["cpuSet"] = "3-1" })},
	"shared pool's list":           {"bad-entry", false, inData(func(d map[string]any) { d["defaultCpuSet"] = "," })},
	"inline has another container": {"parts-differ", false, inData(func(d map[string]any) { members(d, "entries", db)["database"] = "1-3,9-10" })},
	"container without CPUs":       {"no-cpus", false, inData(func(d map[string]any) { members(d, "entries", db)["database"] = "" })},
	"shared pool without CPUs":     {"no-cpus", false, inData(func(d map[string]any) { d["defaultCpuSet"] = "" })},
	"two pods":                     {"overlap", false, inData(func(d map[string]any) { members(d, "entries", "uid-x")["a"] = "2,10" })},
	"pool has CPUs of a pod":       {"shared-and-assigned", false, inData(func(d map[string]any) { d["defaultCpuSet"] = "0-8,12-15" })},
	"CPUs of nobody":               {"lost-cpus", false, inData(func(d map[string]any) { d["defaultCpuSet"] = "0,4-8,12" })},
	"container outside":            {"outside-pod", false, inData(func(d map[string]any) { members(d, "entries", db)["database"] = "4-7" })},
	"containers have too much": {"outside-pod", false, inData(func(d map[string]any) {
		members(d, "entries", db)["database"] = "4-7,12-15"
		d["defaultCpuSet"] = "0,8"
	})},
	"stray baseline":     {"stray-baseline", false, inData(func(d map[string]any) { members(d, "baselines", db, "gone")["baseline"] = "1" })},
	"CPUs of no machine": {"missing-cpus", false, inData(func(d map[string]any) { members(d, "entries", "uid-x")["a"] = "16-17" })},
	"pool of no machine": {"missing-cpus", false, inData(func(d map[string]any) { d["defaultCpuSet"] = "0,4-8,12-17" })},
	"reserved CPUs": {"config-reserved", false, inData(func(d map[string]any) {
		d["defaultCpuSet"] = "4-7,12-15"
	})},

	"memory: data changed":      {"checksum", true, func(f map[string]any) { f["data"] = strings.Replace(f["data"].(string), `[0]`, `[1]`, 1) }},
	"memory: inline changed":    {"checksum", true, func(f map[string]any) { members(f, "machineState", "0")["numberOfAssignments"] = 7 }},
	"memory: no JSON":           {"unreadable", true, func(f map[string]any) { f["data"] = "[]" }},
	"memory: inline no JSON":    {"unreadable", true, func(f map[string]any) { f["entries"] = 5 }},
	"memory: no policy":         {"no-policy", true, inData(func(d map[string]any) { d["policyName"] = "" })},
	"memory: node out of range": {"bad-entry", true, inData(func(d map[string]any) { members(d, "entries", db)["database"] = block([]int{64}, 1<<30) })},
	"memory: block on no node":  {"bad-entry", true, inData(func(d map[string]any) { members(d, "entries", db)["database"] = block([]int{}, 1<<30) })},
	"memory: a resource twice": {"bad-entry", true, inData(func(d map[string]any) {
		members(d, "podEntries", db)["memoryBlocks"] = append(block([]int{0}, 1<<30), block([]int{0}, 1<<30)...)
	})},
	"memory: inline differs":    {"parts-differ", true, inData(func(d map[string]any) { delete(members(d, "entries", db), "database") })},
	"memory: container outside": {"outside-pod", true, inData(func(d map[string]any) { members(d, "entries", db)["database"] = block([]int{1}, 1<<30) })},
	"memory: container too big": {"outside-pod", true, inData(func(d map[string]any) { members(d, "entries", db)["database"] = block([]int{0}, 9<<30) })},
	"memory: missing node":      {"missing-node", true, inData(func(d map[string]any) { members(d, "entries", "uid-x")["a"] = block([]int{2}, 1<<30) })},
	"memory: allocatable":       {"table", true, inData(func(d map[string]any) { members(d, "machineState", "0", "memoryMap", "memory")["allocatable"] = 1 })},
	"memory: no table":          {"table", true, inData(func(d map[string]any) { members(d, "machineState")["1"] = nil })},
	"memory: a node too few":    {"machine-changed", true, inData(func(d map[string]any) { delete(members(d, "machineState"), "1") })},
	"memory: another total": {"machine-changed", true, inData(func(d map[string]any) {
		t := members(d, "machineState", "1", "memoryMap", "memory")
		t["total"], t["allocatable"], t["free"] = 20<<30, 18<<30, 18<<30
	})},
	"memory: reserved for the system": {"config-reserved", true, inData(func(d map[string]any) {
		t := members(d, "machineState", "1", "memoryMap", "memory")
		t["systemReserved"], t["allocatable"], t["free"] = 1<<30, 13<<30, 13<<30
	})},
	"memory: count of blocks": {"machine-state", true, inData(func(d map[string]any) { members(d, "machineState", "0")["numberOfAssignments"] = 4 })},
	"memory: sum of blocks": {"machine-state", true, inData(func(d map[string]any) {
		t := members(d, "machineState", "0", "memoryMap", "memory")
		t["reserved"], t["free"] = 0, t["allocatable"]
	})},
	"memory: node of no machine": {"missing-node", true, inData(func(d map[string]any) {
		machine := members(d, "machineState")
		two, err := json.Marshal(machine["1"])
		if err != nil {
			panic(err)
		}
		machine["2"] = json.RawMessage(strings.Replace(string(two), `"cells":[1]`, `"cells":[2]`, 1))
		members(d, "entries", "uid-x")["a"] = block([]int{2}, 1<<30)
	})},
	"field of a newer kubelet":         {"newer-version", false, func(f map[string]any) { f["generation"] = 7 }},
	"memory: field of a newer kubelet": {"newer-version", true, inData(func(d map[string]any) { members(d, "podEntries", db)["owner"] = "x" })},
	"memory: no nodes":                 {"machine-state", true, inData(func(d map[string]any) { d["machineState"] = map[string]any{} })},
}

// Apply damages the files.
func (d Damage) Apply(t testing.TB, w Written) Written {
	text := &w.CPU
	if d.memory {
		text = &w.Memory
	}
	var f map[string]any
	require.NoError(t, json.Unmarshal([]byte(*text), &f))
	d.edit(f)
	changed, err := json.Marshal(f)
	require.NoError(t, err)
	*text = string(changed)
	return w
}
