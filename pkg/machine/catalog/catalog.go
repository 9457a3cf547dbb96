// SPDX-License-Identifier: Apache-2.0

// Package catalog has machines of many shapes, as values. They are written from
// public facts, which every file names as its sources; what a source does not
// tell is chosen to be plausible. A machine with CPUs offline is derived from
// one of these with machine.Machine.Without.
package catalog

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/podslice/podslice/pkg/machine"
)

//go:embed machines/*.yaml
var files embed.FS

const suffix = ".yaml"

// Names lists the machines, sorted.
func Names() []string {
	// The folder is part of the binary, so reading it cannot fail.
	entries, _ := files.ReadDir("machines")
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), suffix))
	}
	slices.Sort(names)
	return names
}

// Get returns a machine. The error for an unknown name lists the known ones.
func Get(name string) (machine.Machine, error) {
	names := Names()
	if !slices.Contains(names, name) {
		return machine.Machine{}, fmt.Errorf("unknown machine %q, the catalogue has: %s", name, strings.Join(names, ", "))
	}
	file := name + suffix
	data, err := files.ReadFile("machines/" + file)
	if err != nil {
		return machine.Machine{}, err
	}
	return machine.Parse(file, data)
}
