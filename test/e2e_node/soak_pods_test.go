// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/podtext"
)

// soakShape is a pod, without its name, and the CPUs that it has for itself, in
// whichever scope it has more.
type soakShape struct {
	cpus int
	text string
}

// Every container is another second or two of the emulated machine's time.
var soakShapes = []soakShape{
	// A slice of the budget, and a pool for the rest.
	{3, `cpu=3 memory=256Mi
	     app a cpu=2 memory=64Mi
	     app b`},
	// Sidecars of both kinds, and a standard init container before.
	{4, `cpu=4 memory=256Mi
	     init first
	     sidecar logs
	     sidecar proxy cpu=1 memory=64Mi
	     app main cpu=2 memory=64Mi`},
	// A pod shared pool.
	{2, `cpu=2 memory=128Mi
	     app a
	     app b cpu=500m memory=32Mi`},
	// The whole budget is one slice.
	{1, `cpu=1 memory=64Mi
	     app a cpu=1 memory=64Mi`},
	// No budget: exclusive CPUs and the node shared pool.
	{2, `
	     app a cpu=2 memory=64Mi
	     app b cpu=500m memory=64Mi`},
	// No budget, and an init container whose CPUs the other gets.
	{2, `
	     init first cpu=2 memory=128Mi
	     app a cpu=1 memory=64Mi`},
	// Nothing of its own.
	{0, `
	     app a`},
}

// What is on the node at once. NUMA node 0 has 10 CPUs that can be given out and
// node 1 has 12; a pod of 4 finds them on one node as long as no more than 15 are
// taken. So a pod that is refused is a fault.
const (
	soakCPUs = 19
	soakPods = 8
	// So many are added at once.
	soakBatch = 4
)

// soakPod is a pod that is on the node, or was.
type soakPod struct {
	manifest node.Manifest
	spec     *v1.Pod
	cpus     int
}

func newSoakPod(t *testing.T, number int, s soakShape) soakPod {
	text := fmt.Sprintf("soak-%d %s", number, s.text)
	spec, err := podtext.Parse(text)
	must(t, err)
	return soakPod{matrixPod(t, text), spec, s.cpus}
}

// deck deals the shapes, each as often as the others.
type deck struct {
	random *rand.Rand
	left   []soakShape
}

func (d *deck) next() soakShape {
	if len(d.left) == 0 {
		d.left = append(d.left, soakShapes...)
		d.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	s := d.left[0]
	d.left = d.left[1:]
	return s
}

func cpusOf(pods []soakPod) (sum int) {
	for _, p := range pods {
		sum += p.cpus
	}
	return sum
}

func manifestsOf(pods []soakPod) (all []node.Manifest) {
	for _, p := range pods {
		all = append(all, p.manifest)
	}
	return all
}
