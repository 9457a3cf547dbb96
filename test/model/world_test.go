// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/test/simnode"
	"github.com/podslice/podslice/test/simnode/script"
)

// event is a command of a script and the lines below it.
type event struct{ line, input string }

func (e event) name() string {
	name, _, _ := strings.Cut(e.line, " ")
	return name
}

// pod is the word after the command's name.
func (e event) pod() string {
	f := strings.Fields(e.line)
	if len(f) < 2 {
		return ""
	}
	return f[1]
}

// admits is the name of the pod that the event brings.
func (e event) admits() string {
	f := strings.Fields(e.input)
	if len(f) == 0 {
		return ""
	}
	return f[0]
}

// world is a node and what is known of it without the managers.
type world struct {
	runner *script.Runner
	// held is what each pod was last seen to hold.
	held map[string]holding
	// gone are the UIDs of pods that have ended and whose resources need not be
	// back yet; forgotten are those of which nothing may be known any more.
	gone, forgotten []string
	files           files
	counts          counts
	// broken are the state files that cannot be written. If a kubelet started
	// meanwhile, behind is set until one starts that can write them.
	brokenCPU, brokenMemory, behind bool
	// restarted is set if the last event was a restart after which nothing was
	// left to do.
	restarted bool
	// scattered are pods that have lost CPUs: what they got for them lies anywhere.
	scattered map[string]bool
	// terminating are pods that the kubelet has not admitted.
	terminating []string
	// seen counts what has come of events.
	seen map[string]int
}

func newWorld(tb testing.TB, prepare func(*simnode.Node)) *world {
	return &world{
		runner: &script.Runner{TB: tb, Prepare: prepare, Quiet: true},
		held:   map[string]holding{}, seen: map[string]int{}, scattered: map[string]bool{},
	}
}

func (w *world) node() *simnode.Node { return w.runner.Node }

func (w *world) broken() bool { return w.brokenCPU || w.brokenMemory }

// static reports whether the managers give out CPUs, and memory.
func staticCPU(s simnode.Settings) bool    { return s.CPUPolicy == "" || s.CPUPolicy == "static" }
func staticMemory(s simnode.Settings) bool { return s.MemoryPolicy == "" || s.MemoryPolicy == "Static" }

// aligns reports whether the topology manager decides anything.
func aligns(s simnode.Settings) bool { return s.TopologyPolicy != topologymanager.PolicyNone }

// applicable reports whether the event can be on this node. When events before it
// were left out, it may be about a pod that is not there.
func (w *world) applicable(e event) bool {
	name := e.name()
	if name == "node" {
		return w.node() == nil
	}
	if w.node() == nil || w.runner.Down && name != "restart" {
		return false
	}
	switch name {
	case "admit", "crash":
		return w.node().Pod(e.admits()) == nil && !(name == "crash" && w.broken())
	case "start":
		f := strings.Fields(e.line)
		pod := w.node().Pod(f[1])
		if pod == nil || len(f) == 2 {
			return pod != nil
		}
		for c := range simnode.Containers(pod) {
			if c.Name == f[2] {
				return true
			}
		}
		return false
	case "resize":
		return w.node().Pod(e.pod()) != nil && !slices.Contains(w.terminating, e.pod())
	case "remove", "vanish", "restart-containers":
		return w.node().Pod(e.pod()) != nil
	}
	return true
}

// happen lets the event happen and looks at what came of it.
func (w *world) happen(e event) (text string, err error) {
	command, err := script.Parse(e.line, e.input)
	if err != nil {
		return "", wrong("script", "%s: %v", e.line, err)
	}
	before := w.remember()
	if w.node() != nil && e.name() == "resize" {
		before.resized = w.node().Pod(e.pod())
	}
	w.restarted = false
	text, err = w.runner.Run(command)
	if err != nil {
		return text, wrong("command", "%s: %v", e.line, err)
	}
	if e.name() == "restart" || e.name() == "crash" && w.runner.Refused == nil {
		w.terminating = named(e, "terminating")
	}
	if e.name() == "break" {
		w.brokenCPU, w.brokenMemory = strings.Contains(e.line, " cpu"), strings.Contains(e.line, " memory")
	}
	return text, w.check(e, before, text)
}

// past is what was so before an event.
type past struct {
	settings simnode.Settings
	files    files
	counts   counts
	machine  *cadvisorapi.MachineInfo
	running  map[string]bool
	// resized is the pod of the event, if there is one already.
	resized *v1.Pod
	// gone is how many pods were gone.
	gone int
	// restarted is set if the event before was a restart like this one.
	restarted bool
}

func (w *world) remember() past {
	p := past{files: w.files, counts: w.counts, restarted: w.restarted}
	if n := w.node(); n != nil {
		p.settings, p.machine, p.running = n.Settings, n.Info, map[string]bool{}
		n.Running().Visit(func(uid, _, _ string) { p.running[uid] = true })
	}
	return p
}
