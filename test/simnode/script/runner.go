// SPDX-License-Identifier: Apache-2.0

package script

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/test/simnode"
)

// Command is one command of a script.
type Command struct {
	Name  string
	Args  []datadriven.CmdArg
	Input string
}

// Parse reads a command and the lines below it.
func Parse(line, input string) (Command, error) {
	name, args, err := datadriven.ParseLine(line)
	return Command{name, args, input}, err
}

// Runner runs the commands of one script. It has to be used within a bubble of
// testing/synctest: what the managers do in the background has ended when a
// command has.
type Runner struct {
	testing.TB
	// Node is nil before the command node.
	Node *simnode.Node
	// Prepare is called with each new node, if it is set.
	Prepare func(*simnode.Node)
	// More are commands that only one test has.
	More map[string]func(Command) (string, error)
	// Quiet leaves out texts about the state, and does not compare the state files:
	// whoever wants it quick does that.
	Quiet bool
	// Down is set while no kubelet runs, because it could not start.
	Down bool
	// Refused is the pod that the last command refused, and Killed are those that
	// a new kubelet refused, though it was not to.
	Refused *v1.Pod
	Killed  []*v1.Pod
	// Result is the answer to the last admit or resize.
	Result lifecycle.PodAdmitResult

	// base is the machine with all its CPUs online.
	base *cadvisorapi.MachineInfo
	// broken is set while a state file cannot be written.
	broken bool
}

// Run runs a command and returns what a golden script shows. An error is a
// mistake in the script, or something that must never be.
func (r *Runner) Run(c Command) (text string, err error) {
	r.Refused, r.Killed = nil, nil
	if c.Name == "node" {
		return r.node(c)
	}
	if r.Node == nil {
		return "", fmt.Errorf("%s: there is no node", c.Name)
	}
	if more := r.More[c.Name]; more != nil {
		text, err = more(c)
	} else {
		text, err = r.run(c)
	}
	synctest.Wait()
	return text, err
}

func (r *Runner) run(c Command) (string, error) {
	n := r.Node
	switch c.Name {
	case "machine":
		return n.DescribeMachine(), nil
	case "restart":
		return r.restart(c.Args, c.Input)
	case "admit":
		pod, err := simnode.ParsePod(c.Input)
		if err != nil {
			return "", err
		}
		return r.admit(pod)
	case "crash":
		return r.crash(c)
	case "affinity":
		return n.Affinities(n.Active()), nil
	case "calls":
		calls := strings.Join(n.Devices.Calls, "\n")
		n.Devices.Calls = nil
		return calls + "\n", nil
	case "state":
		var b strings.Builder
		for _, pod := range n.Active() {
			b.WriteString(n.Describe(pod))
		}
		fmt.Fprintf(&b, "shared pool %s\n", n.CPU.State().GetDefaultCPUSet())
		return b.String(), nil
	case "wait":
		if len(c.Args) != 1 {
			return "", errors.New("wait: want a duration")
		}
		d, err := time.ParseDuration(c.Args[0].Key)
		time.Sleep(d)
		return "", err
	case "break":
		return "", r.breakFiles(c.Args)
	case "resize", "restart-containers", "start", "remove", "vanish":
		if len(c.Args) == 0 {
			return "", fmt.Errorf("%s: want a pod", c.Name)
		}
		pod := n.Pod(c.Args[0].Key)
		if pod == nil {
			return "", fmt.Errorf("%s: there is no pod %s", c.Name, c.Args[0].Key)
		}
		return r.ofPod(c, pod)
	}
	return "", fmt.Errorf("unknown command %s", c.Name)
}

func (r *Runner) ofPod(c Command, pod *v1.Pod) (string, error) {
	n := r.Node
	switch c.Name {
	case "resize":
		return r.resize(c, pod)
	case "restart-containers":
		for i := range pod.Spec.Containers {
			if err := n.StartContainer(pod, &pod.Spec.Containers[i]); err != nil {
				return "", err
			}
		}
		return n.Affinities([]*v1.Pod{pod}), nil
	case "vanish":
		n.Vanish(pod.Name)
		return "", nil
	case "remove":
		if err := n.End(pod.Name); err != nil {
			return "not all of its containers could be removed\n", nil
		}
		return "", nil
	}
	return r.startContainers(pod, c.Args[1:])
}

// startContainers starts all containers, those before one, or a single one.
func (r *Runner) startContainers(pod *v1.Pod, which []datadriven.CmdArg) (string, error) {
	found := len(which) == 0
	for c := range simnode.Containers(pod) {
		named := len(which) > 0 && (which[0].Key == c.Name || which[0].Key == "until" && which[0].Vals[0] == c.Name)
		found = found || named
		switch {
		case len(which) == 0, named && which[0].Key != "until", !found && which[0].Key == "until":
			if err := r.Node.StartContainer(pod, c); err != nil {
				return "", err
			}
		}
	}
	if !found {
		return "", fmt.Errorf("start: pod %s has no container %s", pod.Name, which[0].String())
	}
	return r.describe(pod), nil
}

func (r *Runner) describe(pod *v1.Pod) string {
	if r.Quiet {
		return ""
	}
	return r.Node.Describe(pod)
}

// allFiles is the state files, unless nobody wants to know.
func (r *Runner) allFiles() string {
	if r.Quiet {
		return ""
	}
	return r.Node.Files()
}

// admit admits a new pod. A pod that is refused must leave nothing behind.
func (r *Runner) admit(pod *v1.Pod) (string, error) {
	n := r.Node
	if n.Pod(pod.Name) != nil {
		return "", fmt.Errorf("there is a pod %s already", pod.Name)
	}
	before := r.allFiles()
	n.Add(pod)
	r.Result = n.Admit(pod)
	if r.Result.Admit {
		return r.describe(pod), n.CheckAdmitted(pod)
	}
	n.Remove(pod.Name)
	r.Refused = pod
	after := r.allFiles()
	if r.broken && !strings.Contains(after, string(pod.UID)) {
		after = before // what was taken back of other pods may be in one file only
	}
	if before != after {
		return "", fmt.Errorf("pod %s is refused (%s) and leaves something in the state files, which were\n%s\nand are\n%s", pod.Name, r.Result.Message, before, after)
	}
	for c := range simnode.Containers(pod) {
		if hint := n.Topology.GetAffinity(n.Logger, string(pod.UID), c.Name); hint.NUMANodeAffinity != nil {
			return "", fmt.Errorf("pod %s is refused (%s) and leaves the affinity %v behind", pod.Name, r.Result.Message, hint)
		}
	}
	return fmt.Sprintf("%s: %s\n", r.Result.Reason, r.Result.Message), nil
}

// resize asks whether the pod may become another one, which it is then. Whatever the
// answer is, what the pod has stays as it is.
func (r *Runner) resize(c Command, pod *v1.Pod) (string, error) {
	n := r.Node
	resized := pod
	if c.Input != "" {
		var err error
		if resized, err = simnode.ParsePod(c.Input); err != nil {
			return "", err
		}
		resized.UID = pod.UID
	}
	look := func() string {
		if r.Quiet {
			return ""
		}
		return n.Files() + n.Affinities(n.Active()) + n.Describe(pod)
	}
	before := look()
	r.Result = n.Ask(resized, lifecycle.ResizeOperation)
	if after := look(); before != after {
		return "", fmt.Errorf("a resize of pod %s changes something: it was\n%s\nand is\n%s", pod.Name, before, after)
	}
	if !r.Result.Admit {
		return fmt.Sprintf("%s: %s\n", r.Result.Reason, r.Result.Message), nil
	}
	if resized != pod {
		n.Remove(pod.Name)
		n.Add(resized)
	}
	return fmt.Sprintf("admit=true %s\n", r.Result.Message), nil
}

// breakFiles lets writing fail by putting folders where the managers write what
// is to replace their files.
func (r *Runner) breakFiles(args []datadriven.CmdArg) error {
	r.broken = len(args) > 0
	for _, name := range []string{"cpu", "memory"} {
		folder := filepath.Join(r.Node.Dir, "."+name+"_manager_state.new")
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		if !slices.ContainsFunc(args, func(a datadriven.CmdArg) bool { return a.Key == name }) {
			continue
		}
		if err := os.MkdirAll(filepath.Join(folder, "busy"), 0o700); err != nil {
			return err
		}
	}
	return nil
}
