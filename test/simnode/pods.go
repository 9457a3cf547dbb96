// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"iter"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/test/podtext"
)

// ParsePod reads a pod as podtext writes it.
func ParsePod(text string) (*v1.Pod, error) { return podtext.Parse(text) }

// Containers is the pod's init containers and then its others.
func Containers(pod *v1.Pod) iter.Seq[*v1.Container] { return podtext.Containers(pod) }

// Ephemeral is the pod's ephemeral containers.
func Ephemeral(pod *v1.Pod) iter.Seq[*v1.Container] { return podtext.Ephemeral(pod) }
