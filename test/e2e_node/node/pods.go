// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podslice/podslice/test/e2e_node/report"
)

// Manifest is a pod that a node can be given.
type Manifest struct {
	Name string
	// NodeName is the name under which the kubelet knows a static pod.
	NodeName string
	yaml     []byte
}

// ReadManifest reads a pod's manifest and says what would keep it from running
// on the emulated node.
func ReadManifest(file string) (Manifest, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Manifest{}, err
	}
	m, err := ParseManifest(data)
	if err != nil {
		return m, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// ParseManifest is ReadManifest for text.
func ParseManifest(data []byte) (Manifest, error) {
	var pod v1.Pod
	if err := yaml.UnmarshalStrict(data, &pod); err != nil {
		return Manifest{}, err
	}
	if pod.Kind != "Pod" || pod.APIVersion != "v1" || pod.Name == "" {
		return Manifest{}, fmt.Errorf("%s %s %q is not a v1 Pod with a name", pod.APIVersion, pod.Kind, pod.Name)
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if c.Image != ImageBusybox || c.ImagePullPolicy != v1.PullNever {
			return Manifest{}, fmt.Errorf("container %s has image %s, imagePullPolicy %q: the emulated node reaches no registry, it has only %s, with imagePullPolicy Never",
				c.Name, c.Image, c.ImagePullPolicy, ImageBusybox)
		}
	}
	return Manifest{Name: pod.Name, NodeName: pod.Name + "-node1", yaml: data}, nil
}

func (m Manifest) path() string { return path.Join(manifestFolder, m.Name+".yaml") }

// YAML is the manifest's text.
func (m Manifest) YAML() []byte { return m.yaml }

// AddPod gives the kubelet a pod.
func (n *Node) AddPod(ctx context.Context, m Manifest) error {
	return n.Guest.WriteFile(ctx, m.path(), m.yaml, 0o644)
}

// AddPods gives the kubelet several pods as nearly at once as its manifest folder
// allows.
func (n *Node) AddPods(ctx context.Context, pods ...Manifest) error {
	moves, err := n.stage(ctx, pods)
	if err == nil {
		_, err = n.Guest.Output(ctx, lines(moves...))
	}
	return err
}

// stage writes manifests where the kubelet does not see them, and returns the
// commands that put them where it does.
func (n *Node) stage(ctx context.Context, pods []Manifest) (moves []string, err error) {
	for _, m := range pods {
		// The kubelet passes over names that start with a dot.
		hidden := path.Join(manifestFolder, "."+m.Name+".new")
		if err := n.Guest.WriteFile(ctx, hidden, m.yaml, 0o644); err != nil {
			return nil, err
		}
		moves = append(moves, fmt.Sprintf("mv %s %s", hidden, m.path()))
	}
	return moves, nil
}

// DropPods takes pods away and waits for nothing.
func (n *Node) DropPods(ctx context.Context, pods ...Manifest) error {
	_, err := n.Guest.Output(ctx, drop(pods))
	return err
}

func drop(pods []Manifest) string {
	command := "rm -f"
	for _, m := range pods {
		command += " " + m.path()
	}
	return command
}

// RemovePod takes a pod away and waits until the kubelet has forgotten it.
func (n *Node) RemovePod(ctx context.Context, m Manifest) error {
	if err := n.DropPods(ctx, m); err != nil {
		return err
	}
	err := poll(ctx, "the end of pod "+m.Name, limitRunning, func(ctx context.Context) (bool, error) {
		r, err := n.Report(ctx)
		return err == nil && r.Pod(m.NodeName) == nil, nil
	})
	return n.explain(ctx, err)
}

// FailedError tells of a pod that failed, which the kubelet does not take back,
// or that it never took because its manifest is not valid.
type FailedError struct {
	Pod, Reason, Message string // as in the pod's status
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("pod %s failed: %s: %s", e.Pod, e.Reason, e.Message)
}

// WaitKnown waits until the kubelet knows of a pod. Those that it is given after that
// are admitted after it.
func (n *Node) WaitKnown(ctx context.Context, m Manifest) error {
	err := poll(ctx, "the kubelet to know pod "+m.Name, limitRunning, func(ctx context.Context) (bool, error) {
		if err := n.kubeletAlive(ctx); err != nil {
			return false, err
		}
		if strings.Contains(n.get(ctx, "http://127.0.0.1:10255/pods"), `"`+m.NodeName+`"`) {
			return true, nil
		}
		return false, n.manifestError(ctx, m)
	})
	return n.explain(ctx, err)
}

// WaitRunning waits until every container of a pod runs, and returns the node as
// it is then. A pod that failed (FailedError), or a kubelet that ended, is an error at once.
func (n *Node) WaitRunning(ctx context.Context, m Manifest) (*report.Report, error) {
	var last *report.Report
	var lastErr error
	said := ""
	err := poll(ctx, "pod "+m.Name+" to run", limitRunning, func(ctx context.Context) (bool, error) {
		if err := n.kubeletAlive(ctx); err != nil {
			return false, err
		}
		r, err := n.Report(ctx)
		if err != nil {
			lastErr = err // the kubelet's sockets may not be there yet
			return false, nil
		}
		last, lastErr = r, nil
		pod := r.Pod(m.NodeName)
		if pod == nil {
			return false, n.manifestError(ctx, m)
		}
		if pod.Phase == string(v1.PodFailed) {
			return false, &FailedError{Pod: m.Name, Reason: pod.Reason, Message: pod.Message}
		}
		if now := progress(pod); now != said {
			n.log("%s", now)
			said = now
		}
		return pod.AllRunning(), nil
	})
	if failed := new(FailedError); errors.As(err, &failed) {
		return last, failed // it says all; the logs would bury it
	}
	if err != nil {
		if lastErr != nil {
			err = fmt.Errorf("%w; last report: %w", err, lastErr)
		}
		return last, n.explain(ctx, errors.Join(err, describe(last, m)))
	}
	return last, nil
}

// manifestError is what the kubelet has against a manifest, once it has said so
// twice: the first time, it may have read a file that was being written. Nothing
// but its log tells.
func (n *Node) manifestError(ctx context.Context, m Manifest) error {
	r, err := n.Guest.Run(ctx, fmt.Sprintf("grep -F 'Could not process manifest file' %s | grep -F %s", kubeletLog, m.path()))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(r.Stdout)), "\n")
	if len(lines) < 2 {
		return nil
	}
	_, message, _ := strings.Cut(lines[len(lines)-1], "err=")
	return &FailedError{Pod: m.Name, Reason: "the kubelet does not accept the manifest", Message: message}
}

// progress is a line on how far a pod is.
func progress(p *report.Pod) string {
	running := 0
	for _, c := range p.Containers {
		if c.State == "running" && c.PID != 0 {
			running++
		}
	}
	return fmt.Sprintf("pod %s: phase %s, %d of %d containers run", p.Name, p.Phase, running, len(p.Containers))
}

func describe(r *report.Report, m Manifest) error {
	if r == nil || r.Pod(m.NodeName) == nil {
		return nil
	}
	var text []string
	for _, c := range r.Pod(m.NodeName).Containers {
		text = append(text, fmt.Sprintf("%s %s: %s %s", c.Kind, c.Name, c.State, c.Message))
	}
	return errors.New(strings.Join(text, "\n"))
}

// WaitReconciled waits until the kubelet has run for some rounds of the CPU
// manager's reconcile loop, by the guest's own clock.
func (n *Node) WaitReconciled(ctx context.Context, rounds int) error {
	start, err := n.uptime(ctx)
	if err != nil {
		return err
	}
	return poll(ctx, "the reconcile loop", limitRunning, func(ctx context.Context) (bool, error) {
		now, err := n.uptime(ctx)
		return now-start > time.Duration(rounds)*ReconcilePeriod, err
	})
}

func (n *Node) uptime(ctx context.Context) (time.Duration, error) {
	out, err := n.Guest.ReadFile(ctx, "/proc/uptime")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(out)
	if len(f) == 0 {
		return 0, errors.New("/proc/uptime is empty")
	}
	seconds, err := strconv.ParseFloat(f[0], 64)
	return time.Duration(seconds * float64(time.Second)), err
}
