// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/test/simnode"
)

// parsePod reads a pod as scripts write it, see simnode.ParsePod, with
// semicolons in place of new lines.
func parsePod(text string) *v1.Pod {
	pod, err := simnode.ParsePod(strings.ReplaceAll(text, ";", "\n"))
	must(err)
	return pod
}

// containersOf is the init containers and then the others.
func containersOf(pod *v1.Pod) []*v1.Container { return slices.Collect(simnode.Containers(pod)) }

func containerID(pod *v1.Pod, c *v1.Container) string { return string(pod.UID) + "-" + c.Name }
