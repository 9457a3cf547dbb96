// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// node makes a new node and starts its kubelet.
func (r *Runner) node(c Command) (string, error) {
	r.Close()
	r.Node = newNode(r.TB, r.Prepare)
	if err := r.configure(c.Args, c.Input); err != nil {
		return "", err
	}
	r.Down = true
	if err := r.start(); err != nil {
		return err.Error() + "\n", nil
	}
	pool := r.Node.CPU.State().GetDefaultCPUSet()
	if r.Node.Reserve > 0 {
		return fmt.Sprintf("reserved %s, shared pool %s\n", r.Node.Reserved(), pool), nil
	}
	return fmt.Sprintf("shared pool %s\n", pool), nil
}

// Close ends the kubelet, and what it does in the background.
func (r *Runner) Close() {
	if r.Node != nil {
		r.Node.Stop()
		wait()
	}
}

// start starts a kubelet. What the managers do in the background at first is done
// when it returns.
func (r *Runner) start() error {
	r.Node.Stop()
	wait()
	err := r.Node.Start()
	r.Down = err != nil
	wait()
	return err
}

// restart starts a new kubelet, which admits every pod again, on the machine that
// is written if there is one.
func (r *Runner) restart(args []datadriven.CmdArg, written string) (string, error) {
	before, files := r.describeAll(), r.allFiles()
	r.lose(args)
	if err := r.configure(args, written); err != nil {
		return "", err
	}
	return r.begin(before, files, names(args, "terminating"))
}

// names is the values of an argument.
func names(args []datadriven.CmdArg, key string) []string {
	for _, arg := range args {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

// begin starts a kubelet on the node, which admits the pods again that are not
// terminating, and says what changes by that.
func (r *Runner) begin(before, files string, terminating []string) (string, error) {
	n := r.Node
	if err := r.start(); err != nil {
		return err.Error() + "\n", nil
	}
	var out, after strings.Builder
	for _, pod := range n.Active() {
		if slices.Contains(terminating, pod.Name) {
			after.WriteString(r.describe(pod))
			continue
		}
		if result := n.Admit(pod); !result.Admit {
			fmt.Fprintf(&out, "%s killed: %s: %s\n", pod.Name, result.Reason, result.Message)
			r.Killed = append(r.Killed, pod)
		}
		wait()
		after.WriteString(r.describe(pod))
	}
	for _, pod := range r.Killed {
		n.Vanish(pod.Name) // the kubelet has it no more
	}
	if r.Quiet {
		return "", nil
	}
	if before != after.String() {
		out.WriteString("moved:\n" + after.String())
	}
	if files != n.Files() {
		out.WriteString("state files written\n")
	}
	if out.Len() == 0 {
		return "nothing moved, nothing written\n", nil
	}
	return out.String(), nil
}

func (r *Runner) describeAll() string {
	var b strings.Builder
	for _, pod := range r.Node.Active() {
		b.WriteString(r.describe(pod))
	}
	return b.String()
}

// lose lets the runtime forget the containers of pods.
func (r *Runner) lose(args []datadriven.CmdArg) {
	for _, pod := range r.Node.Active() {
		if slices.Contains(names(args, "lost"), pod.Name) {
			r.Node.LoseContainers(pod)
		}
	}
}
