// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	"github.com/podslice/podslice/test/simnode"
	"github.com/podslice/podslice/test/simnode/script"
)

// damages is what can be done to a state file.
var damages = map[string]func(text []byte) []byte{
	"empty":   func([]byte) []byte { return []byte{} },
	"zeroes":  func(text []byte) []byte { return make([]byte, len(text)) },
	"garbage": func([]byte) []byte { return []byte("\x7fELF{{{") },
	// cut has lost its end, and with it the newest part; stump has lost all but
	// the beginning.
	"cut":   func(text []byte) []byte { return text[:len(text)-40] },
	"stump": func(text []byte) []byte { return text[:40] },
	// data has another byte in the newest part, inline in the older one, both in
	// either.
	"data": func(text []byte) []byte {
		return bytes.Replace(text, []byte(`\"policyName\":\"`), []byte(`\"policyName\":\"x`), 1)
	},
	"inline": func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"policyName":"`), []byte(`"policyName":"x`), 1)
	},
	// no-inline has something else in the place of the older part's entries.
	"no-inline": func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"entries":{`), []byte(`"entries":5,"x":{`), 1)
	},
	"v1":   version1,
	"both": func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(`tatic`), []byte(`tatik`)) },
	// newer is what a kubelet of the future may write.
	"newer": func(text []byte) []byte { return bytes.Replace(text, []byte(`{`), []byte(`{"futureEntries":{},`), 1) },
}

// version1 is the CPU manager's file as kubelets before 1.18 wrote it.
func version1(text []byte) []byte {
	var v2 state.CPUManagerCheckpointV2
	if err := json.Unmarshal(text, &v2); err != nil {
		panic(err)
	}
	v1 := state.CPUManagerCheckpointV1{PolicyName: v2.PolicyName, DefaultCPUSet: v2.DefaultCPUSet, Entries: map[string]string{"gone": "1"}}
	for uid, containers := range v2.Entries {
		for name, cpus := range containers {
			v1.Entries[uid+"-"+name] = cpus
		}
	}
	old, err := v1.MarshalCheckpoint()
	if err != nil {
		panic(err)
	}
	return old
}

var fileNames = map[string]string{"cpu": "cpu_manager_state", "memory": "memory_manager_state"}

// damaged is the commands of scripts about damaged state files: damage [cpu=HOW]
// [memory=HOW]; kept, which tells of the files that are kept; and exit NAME: the
// pod's containers end, and the kubelet has the pod still.
func damaged(t *testing.T, r *script.Runner) map[string]func(script.Command) (string, error) {
	return map[string]func(script.Command) (string, error){
		"damage": func(c script.Command) (string, error) { damage(t, r.Node, c); return "", nil },
		"kept":   func(script.Command) (string, error) { return kept(t, r.Node), nil },
		"exit":   func(c script.Command) (string, error) { r.Node.Exit(r.Node.Pod(c.Args[0].Key)); return "", nil },
	}
}

// damage damages the state files as damages says, or deletes them (gone).
func damage(t *testing.T, n *simnode.Node, c script.Command) {
	for _, arg := range c.Args {
		name, ok := fileNames[arg.Key]
		require.True(t, ok, arg.String())
		path := filepath.Join(n.Dir, name)
		if arg.Vals[0] == "gone" {
			require.NoError(t, os.Remove(path))
			continue
		}
		how, ok := damages[arg.Vals[0]]
		require.True(t, ok, arg.String())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotEqual(t, string(text), string(how(text)), arg.String())
		require.NoError(t, os.WriteFile(path, how(text), 0o600))
	}
}

// kept counts the damaged files that are kept, and nothing else may be left.
func kept(t *testing.T, n *simnode.Node) string {
	entries, err := os.ReadDir(n.Dir)
	require.NoError(t, err)
	count := map[string]int{}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".damaged-20")
		count[name]++
	}
	var b strings.Builder
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		require.NotZero(t, count[name])
		fmt.Fprintf(&b, "%s: %d\n", name, count[name]-1)
		delete(count, name)
	}
	require.Empty(t, count)
	return b.String()
}
