// SPDX-License-Identifier: Apache-2.0

// Package statetest has state files for tests: what kubelets of several releases
// and podslice have written, and ways to damage it.
package statetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Corpus is the folder of the files, as seen from a package two folders down.
const Corpus = "../../test/upgrade/testdata"

// Written is the files of one node.
type Written struct {
	CPU    string `json:"cpu_manager_state"`
	Memory string `json:"memory_manager_state"`
}

// Cases is every case by its name, which is "writer/setting/pods".
func Cases(t testing.TB) map[string]Written {
	cases := map[string]Written{}
	paths, err := filepath.Glob(filepath.Join(Corpus, "*", "gate-*.json"))
	require.NoError(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all := map[string]Written{}
		require.NoError(t, json.Unmarshal(text, &all))
		for name, w := range all {
			cases[strings.Join([]string{filepath.Base(filepath.Dir(path)), strings.TrimSuffix(filepath.Base(path), ".json"), name}, "/")] = w
		}
	}
	require.Greater(t, len(cases), 150)
	return cases
}

// Sound is the case that Damages are for: a pod that was allocated as a whole.
func Sound(t testing.TB) Written { return Cases(t)["podslice/gate-on-pod/budget-mixed"] }
