// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/podslice/podslice/test/e2e_node/guest"
	"github.com/podslice/podslice/test/e2e_node/report"
)

// Node is a machine with a container runtime, and at times a kubelet.
type Node struct {
	Guest *guest.Guest
	log   guest.Log
}

// Up makes a node of a guest that was booted with Files: it starts the runtime
// and imports the images.
func Up(ctx context.Context, g *guest.Guest, log guest.Log) (*Node, error) {
	n := &Node{Guest: g, log: log}
	for path, content := range setupFiles {
		if err := g.WriteFile(ctx, path, []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	log("starting containerd and importing images")
	commands := []string{
		"mkdir -p " + manifestFolder, link(UnderTest), fmt.Sprintf("ln -sfn %s/runc %s", bin, Runc), "systemctl daemon-reload", "systemctl start containerd",
		fmt.Sprintf("for archive in %s/images/*.tar; do %s/ctr -n k8s.io images import $archive || exit 1; done", guest.DiskMount, bin),
	}
	if g.Emulated() {
		commands = append([]string{"systemctl set-environment " + Pace}, commands...)
	}
	upCtx, cancel := context.WithTimeoutCause(ctx, limitRuntime, fmt.Errorf("not within %s", limitRuntime))
	defer cancel()
	if _, err := g.Output(upCtx, lines(commands...)); err != nil {
		return nil, errors.Join(fmt.Errorf("container runtime: %w", err), n.tails(ctx))
	}
	return n, nil
}

// StartKubelet writes the configuration, starts the kubelet and waits until it
// is healthy. A kubelet that ends before that is an error at once.
func (n *Node) StartKubelet(ctx context.Context, c Config) error {
	data, err := c.YAML()
	if err != nil {
		return err
	}
	if err := n.Guest.WriteFile(ctx, kubeletConfig, data, 0o644); err != nil {
		return err
	}
	flags := ""
	if c.API {
		flags = "--kubeconfig=" + kubeconfig
	}
	if err := n.Guest.WriteFile(ctx, kubeletFlags, []byte("KUBELET_FLAGS="+flags+"\n"), 0o644); err != nil {
		return err
	}
	return n.startKubelet(ctx)
}

func (n *Node) startKubelet(ctx context.Context) error {
	if _, err := n.Guest.Output(ctx, "systemctl reset-failed kubelet 2>/dev/null; systemctl start kubelet"); err != nil {
		return n.explain(ctx, err)
	}
	err := poll(ctx, "a healthy kubelet", limitHealthy, func(ctx context.Context) (bool, error) {
		if err := n.kubeletAlive(ctx); err != nil {
			return false, err
		}
		return n.get(ctx, "http://127.0.0.1:10248/healthz") == "ok", nil
	})
	return n.explain(ctx, err)
}

// get asks the guest's loopback for a page; "" if there is no answer. The guest
// has no curl: the shell's own connection is enough for HTTP/1.0.
func (n *Node) get(ctx context.Context, url string) string {
	rest := strings.TrimPrefix(url, "http://")
	address, page, _ := strings.Cut(rest, "/")
	host, port, _ := strings.Cut(address, ":")
	script := fmt.Sprintf(`exec 3<>/dev/tcp/%s/%s && printf 'GET /%s HTTP/1.0\r\n\r\n' >&3 && cat <&3`, host, port, page)
	r, err := n.Guest.Run(ctx, "bash -c "+guest.Quote(script)+" 2>/dev/null")
	if err != nil || r.ExitCode != 0 {
		return ""
	}
	_, body, _ := strings.Cut(r.Stdout, "\r\n\r\n")
	return body
}

// Metric reads a counter or gauge of the kubelet, summed over its labels.
func (n *Node) Metric(ctx context.Context, name string) (float64, error) {
	return sumMetric(n.get(ctx, "http://127.0.0.1:10255/metrics"), name)
}

// sumMetric adds up the samples of a metric in the text format.
func sumMetric(text, name string) (float64, error) {
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		f := strings.Fields(rest[strings.LastIndex(rest, "}")+1:])
		if len(f) == 0 {
			continue
		}
		value, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum, found = sum+value, true
	}
	if !found {
		return 0, fmt.Errorf("the kubelet has no metric %s", name)
	}
	return sum, nil
}

// KubeletPID is the kubelet's process, 0 if it does not run.
func (n *Node) KubeletPID(ctx context.Context) (int, error) {
	out, err := n.Guest.Output(ctx, "systemctl show -p MainPID --value kubelet")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(out))
}

// KubeletAlive returns an error, with the ends of the logs, if no kubelet runs.
func (n *Node) KubeletAlive(ctx context.Context) error {
	return n.explain(ctx, n.kubeletAlive(ctx))
}

func (n *Node) kubeletAlive(ctx context.Context) error {
	pid, err := n.KubeletPID(ctx)
	if err == nil && pid == 0 {
		err = errors.New("the kubelet has ended")
	}
	return err
}

// KubeletVersion is what `kubelet --version` prints.
func (n *Node) KubeletVersion(ctx context.Context) (string, error) {
	out, err := n.Guest.Output(ctx, kubeletPath+" --version")
	return strings.TrimSpace(out), err
}

// UseKubelet chooses the kubelet that is started next: UnderTest or Stock.
func (n *Node) UseKubelet(ctx context.Context, name string) error {
	_, err := n.Guest.Output(ctx, link(name))
	return err
}

func link(kubelet string) string { return fmt.Sprintf("ln -sfn %s/%s %s", bin, kubelet, kubeletPath) }

// StopKubelet ends the kubelet in an orderly way; pods go on.
func (n *Node) StopKubelet(ctx context.Context) error {
	_, err := n.Guest.Output(ctx, "systemctl stop kubelet")
	return err
}

// KillKubelet ends the kubelet with SIGKILL; pods go on.
func (n *Node) KillKubelet(ctx context.Context) error {
	if _, err := n.Guest.Output(ctx, "systemctl kill -s KILL kubelet"); err != nil {
		return err
	}
	return n.WaitEnded(ctx)
}

// WaitEnded waits until the kubelet has ended.
func (n *Node) WaitEnded(ctx context.Context) error {
	return poll(ctx, "the kubelet's end", limitHealthy, func(ctx context.Context) (bool, error) {
		pid, err := n.KubeletPID(ctx)
		return pid == 0, err
	})
}

// RestartKubelet starts a kubelet that was stopped or killed, as it was
// configured, waits until it is healthy, and makes sure that it is another
// process than was.
func (n *Node) RestartKubelet(ctx context.Context, was int) error {
	if err := n.startKubelet(ctx); err != nil {
		return err
	}
	pid, err := n.KubeletPID(ctx)
	if err != nil {
		return err
	}
	if pid == was || pid == 0 {
		return fmt.Errorf("kubelet process %d before and %d after the restart: it did not restart", was, pid)
	}
	return nil
}

// Report reads the node.
func (n *Node) Report(ctx context.Context) (*report.Report, error) {
	out, err := n.Guest.Output(ctx, bin+"/nodereport")
	if err != nil {
		return nil, err
	}
	r := new(report.Report)
	if err := json.Unmarshal([]byte(out), r); err != nil {
		return nil, fmt.Errorf("nodereport's answer: %w", err)
	}
	return r, nil
}

// Machine reads the hardware, for which no kubelet is needed.
func (n *Node) Machine(ctx context.Context) (report.Machine, error) {
	var m report.Machine
	out, err := n.Guest.Output(ctx, bin+"/nodereport machine")
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		return m, fmt.Errorf("nodereport's answer: %w", err)
	}
	return m, nil
}

// Wipe stops the kubelet and removes pods, checkpoints and cgroups: the next
// kubelet starts on a fresh node.
func (n *Node) Wipe(ctx context.Context) error {
	if err := n.StopKubelet(ctx); err != nil {
		return err
	}
	_, err := n.Guest.Output(ctx, lines(
		link(UnderTest),
		stopDevices,
		stopAPIServer,
		"rm -rf "+manifestFolder+"/*",
		bin+"/nodereport remove-pods",
		// Volumes of pods are mounts.
		`findmnt -rno TARGET | grep '^/var/lib/kubelet/' | sort -r | xargs -r umount`,
		"rm -rf /var/lib/kubelet /var/log/pods /var/log/containers",
		"if [ -d /sys/fs/cgroup/kubepods ]; then find /sys/fs/cgroup/kubepods -depth -type d -exec rmdir {} +; fi",
	))
	if err != nil {
		return fmt.Errorf("wiping the node: %w", err)
	}
	return nil
}

// explain adds the ends of the logs to an error.
func (n *Node) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, n.tails(ctx))
}

// tails returns the ends of the kubelet's and the runtime's logs, as an error to
// be joined to the one that made somebody want them.
func (n *Node) tails(ctx context.Context) error {
	// The context may be what ended; the logs are wanted all the same, if the
	// guest is still there.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limitRuntime/10)
	defer cancel()
	var text strings.Builder
	show := func(title, command string) {
		r, err := n.Guest.Run(ctx, command)
		if err == nil && r.ExitCode == 0 {
			fmt.Fprintf(&text, "--- %s ---\n%s%s", title, r.Stdout, r.Stderr)
		}
	}
	show("the kubelet as systemd knows it", "systemctl show kubelet -p ActiveState -p Result -p ExecMainCode -p ExecMainStatus")
	// What follows a fatal line, a list of goroutines, is longer than any end shown.
	show("what may have ended it", "grep -E '^F[0-9]{4} |^panic: |^fatal error: |^E[0-9]{4} .*\"Failed to |\"command failed\"' "+kubeletLog+" | tail -n 5")
	for _, log := range []string{kubeletLog, runtimeLog, apiLog} {
		show("the end of "+log, "tail -n 25 "+log)
	}
	return errors.New(text.String())
}

// CollectLogs copies the node's logs and configuration to a folder of the host.
func (n *Node) CollectLogs(ctx context.Context, dir string) error {
	return n.Guest.Collect(ctx, dir, kubeletLog, runtimeLog, apiLog, kubeletConfig,
		stateFolder+"/cpu_manager_state", stateFolder+"/memory_manager_state")
}
