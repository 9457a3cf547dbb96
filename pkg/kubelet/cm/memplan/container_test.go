// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

func TestBoundTo(t *testing.T) {
	gi := podplan.Memory{Ordinary: 1 << 30}
	pod := podplan.Pod{UID: "u", Managed: true, Containers: []podplan.Container{
		{Name: "init", Kind: podplan.StandardInit, Memory: gi},
		{Name: "shares", Kind: podplan.StandardInit},
		{Name: "app", Kind: podplan.App, Memory: gi},
	}}
	on := func(ids ...int) []Block {
		return []Block{{Nodes: numa.SetOf(ids...), Resource: Ordinary, Size: 1 << 30}}
	}
	record := PodRecord{Containers: map[string][]Block{"app": on(1)}}
	require.Equal(t, numa.SetOf(1), record.BoundTo(pod, "app"))
	require.Equal(t, numa.SetOf(1), record.BoundTo(pod, "init"), "not on record any more: where its pod is")
	require.Equal(t, numa.Set{}, record.BoundTo(pod, "shares"))
	require.Equal(t, numa.Set{}, record.BoundTo(pod, "unknown"))
	require.Equal(t, numa.SetOf(1), record.BoundTo(podplan.Pod{}, "app"))
	require.Equal(t, numa.Set{}, PodRecord{}.BoundTo(pod, "app"))
}
