// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podslice/podslice/test/e2e_node/report"
)

// KillDuring gives the kubelet some pods, takes others away, and kills it with
// SIGKILL so long after that, by the guest's clock, whatever it is doing then.
func (n *Node) KillDuring(ctx context.Context, add, remove []Manifest, after time.Duration) error {
	pid, err := n.KubeletPID(ctx)
	if err != nil {
		return err
	}
	commands, err := n.stage(ctx, add)
	if err != nil {
		return err
	}
	commands = append(commands, drop(remove), sleep(after), fmt.Sprintf("kill -9 %d", pid))
	if _, err := n.Guest.Output(ctx, lines(commands...)); err != nil {
		return n.explain(ctx, err)
	}
	return n.WaitEnded(ctx)
}

// StartAndKill starts a kubelet that was killed, and kills it so long after that.
func (n *Node) StartAndKill(ctx context.Context, after time.Duration) error {
	_, err := n.Guest.Output(ctx, "systemctl reset-failed kubelet; "+
		lines("systemctl start kubelet", sleep(after), `pid=$(systemctl show -p MainPID --value kubelet)`, `test "$pid" != 0`, "kill -9 $pid"))
	if err != nil {
		return n.explain(ctx, err)
	}
	return n.WaitEnded(ctx)
}

func sleep(d time.Duration) string { return fmt.Sprintf("sleep %.3f", d.Seconds()) }

// Running reads the containers that run, for which no kubelet is needed.
func (n *Node) Running(ctx context.Context) ([]report.Running, error) {
	out, err := n.Guest.Output(ctx, bin+"/nodereport running")
	if err != nil {
		return nil, err
	}
	var containers []report.Running
	if err := json.Unmarshal([]byte(out), &containers); err != nil {
		return nil, fmt.Errorf("nodereport's answer: %w", err)
	}
	slices.SortFunc(containers, func(a, b report.Running) int { return strings.Compare(a.ID, b.ID) })
	return containers, nil
}

// RunningAtRest is Running, once the runtime has come to the end of what the last
// kubelet asked of it.
func (n *Node) RunningAtRest(ctx context.Context) ([]report.Running, error) {
	var last []report.Running
	first := true
	err := poll(ctx, "the runtime to come to rest", limitRunning, func(ctx context.Context) (bool, error) {
		now, err := n.Running(ctx)
		same := !first && slices.Equal(now, last)
		last, first = now, false
		return same, err
	})
	return last, err
}

// StateFiles are the managers' state files, byte by byte.
func (n *Node) StateFiles(ctx context.Context) (cpu, memory []byte, err error) {
	var files [2][]byte
	for i, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		text, err := n.Guest.ReadFile(ctx, stateFolder+"/"+name)
		if err != nil {
			return nil, nil, err
		}
		files[i] = []byte(text)
	}
	return files[0], files[1], nil
}
