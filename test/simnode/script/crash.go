// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"

	cpustate "github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	memorystate "github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/test/simnode"
)

// crash admits a pod and takes back a part of what is written about it. Our own
// managers write each file once, so that only one of them can lack the pod; other
// kubelets write container by container.
func (r *Runner) crash(c Command) (string, error) {
	pod, err := simnode.ParsePod(c.Input)
	if err != nil {
		return "", err
	}
	text, err := r.admit(pod)
	if err != nil || r.Refused != nil {
		return text, err
	}
	before := r.describeAll()
	keep := map[string]int{}
	for _, arg := range c.Args {
		if keep[arg.Key], err = written(arg); err != nil {
			return "", err
		}
	}
	if n, ok := keep["cpu"]; ok {
		err = rewrite(filepath.Join(r.Node.Dir, "cpu_manager_state"), &cpustate.CPUManagerCheckpoint{}, func(cp *cpustate.CPUManagerCheckpoint) {
			cut(pod, n, cp.CheckpointData.Entries, cp.CheckpointData.PodEntries)
		})
	}
	if n, ok := keep["memory"]; ok && err == nil {
		err = rewrite(filepath.Join(r.Node.Dir, "memory_manager_state"), &memorystate.MemoryManagerCheckpoint{}, func(cp *memorystate.MemoryManagerCheckpoint) {
			cut(pod, n, cp.CheckpointData.Entries, cp.CheckpointData.PodEntries)
		})
	}
	if err != nil {
		return "", err
	}
	return r.begin(before, r.allFiles(), nil)
}

// written reads how many containers are in a file: -2 for all, -1 if not even the
// pod is.
func written(arg datadriven.CmdArg) (int, error) {
	switch value := arg.Vals[0]; value {
	case "all":
		return -2, nil
	case "none":
		return -1, nil
	default:
		return strconv.Atoi(value)
	}
}

// cut leaves so many of the pod's containers in what is written.
func cut[C, P any](pod *v1.Pod, count int, containers map[string]map[string]C, pods map[string]P) {
	uid := string(pod.UID)
	if count == -2 {
		return
	}
	if count == -1 {
		delete(pods, uid)
	}
	for c := range simnode.Containers(pod) {
		if _, ok := containers[uid][c.Name]; ok {
			if count <= 0 {
				delete(containers[uid], c.Name)
			}
			count--
		}
	}
	if len(containers[uid]) == 0 {
		delete(containers, uid)
	}
}

// checkpoint is one of the two managers' files.
type checkpoint interface {
	UnmarshalCheckpoint([]byte) error
	MarshalCheckpoint() ([]byte, error)
}

// rewrite changes a state file as if it had been written like that.
func rewrite[C checkpoint](path string, content C, change func(C)) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := content.UnmarshalCheckpoint(data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	change(content)
	if data, err = content.MarshalCheckpoint(); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
