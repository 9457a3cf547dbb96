// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podslice/podslice/test/e2e_node/guest"
	"github.com/podslice/podslice/test/e2e_node/node"
)

// Machine is what the suite runs on: enough sockets, NUMA nodes, last-level caches
// and CPUs for every spec that asks for some.
const Machine = "2 sockets, 4 nodes, 3 cores, 2 threads, 3Gi each, 2 caches"

// gates are those under test, for the API server. The kubelet has them in its
// configuration: on its command line they would outdo that, and some specs turn them
// off there.
const gates = "PodLevelResources=true,PodLevelResourceManagers=true"

// On the guest.
const (
	binary  = node.Programs + "/" + node.SuiteProgram
	folder  = "/var/lib/suite"
	output  = folder + "/output"
	report  = folder + "/report.json"
	logs    = folder + "/logs"
	kubelet = logs + "/kubelet.log"
)

const (
	// pollPeriod is how often the guest is asked how far the suite is.
	pollPeriod = 15 * time.Second
	// specLimit is for one spec, and startLimit for the suite's own start and end.
	specLimit  = 15 * time.Minute
	startLimit = 15 * time.Minute
)

// kubeletConfig is what the suite makes the kubelet's configuration of. Beside
// the cgroup driver it is what the suite takes if it is given none. Images are not
// collected: see package node.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /
failSwapOn: false
volumeStatsAggPeriod: 10s
fileCheckFrequency: 10s
serializeImagePulls: false
imageGCHighThresholdPercent: 100
podCIDR: 10.100.0.0/24
featureGates:
  PodLevelResources: true
  PodLevelResourceManagers: true
evictionPressureTransitionPeriod: 30s
evictionHard:
  memory.available: 250Mi
  nodefs.available: 10%
  nodefs.inodesFree: 5%
evictionMinimumReclaim:
  nodefs.available: 5%
  nodefs.inodesFree: 5%
`

// ErrNotStarted is the error of a suite that did not come as far as its specs.
var ErrNotStarted = errors.New("the suite could not start")

// Session runs batches on a node.
type Session struct {
	Node *node.Node
	// Logs receives what is worth a look after a failure, in a folder for each spec.
	Logs string
	// Progress is called whenever a spec is over, with its state and time alone.
	Progress func(Result)
}

// Run runs specs and returns what came of them. An error means that the suite
// could not do its work (ErrNotStarted: none of it); what is known even then is
// returned as well.
func (s *Session) Run(ctx context.Context, specs []Spec) ([]Result, error) {
	g := s.Node.Guest
	if err := s.Node.Wipe(ctx); err != nil {
		return nil, err
	}
	if _, err := g.Output(ctx, fmt.Sprintf("rm -rf %[1]s && mkdir -p %[2]s && sync && echo 3 > /proc/sys/vm/drop_caches", folder, logs)); err != nil {
		return nil, err
	}
	if err := g.WriteFile(ctx, folder+"/kubelet.yaml", []byte(kubeletConfig), 0o644); err != nil {
		return nil, err
	}
	limit := startLimit + time.Duration(len(specs))*specLimit
	runCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		// The suite fails when a spec does: its report tells.
		_, err := g.Run(runCtx, command(specs, limit, g.Emulated()))
		done <- err
	}()
	err := s.watch(runCtx, specs, done)
	if runCtx.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the suite was not over after %s", limit)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	results, readErr := s.read(ctx, specs)
	s.cleanUp(ctx)
	if err == nil {
		err = readErr
	}
	return results, err
}

// command is the shell command that runs the suite. Emulated, the API server that is
// in it would else need more of the guest's time than the kubelet.
func command(specs []Spec, limit time.Duration, emulated bool) string {
	program := binary
	if emulated {
		program = node.Pace + " " + node.OneCPU + " " + binary
	}
	flags := []string{
		"--node-name=node1",
		"--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
		"--prepull-images=false",
		"--server-start-timeout=10m",
		"--service-feature-gates=" + gates,
		"--kubelet-flags=--fail-swap-on=false",
		"--kubelet-config-file=" + folder + "/kubelet.yaml",
		"--report-dir=" + logs,
		"--ginkgo.v", "--ginkgo.no-color", "--ginkgo.seed=1",
		"--ginkgo.timeout=" + limit.String(),
		"--ginkgo.json-report=" + report,
		"--ginkgo.focus=" + guest.Quote(focus(specs)),
	}
	return fmt.Sprintf("cd %s && %s %s > %s 2>&1", folder, program, strings.Join(flags, " "), output)
}

// watch reports specs as they end, until the suite does.
func (s *Session) watch(ctx context.Context, specs []Spec, done <-chan error) error {
	seen := 0
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(pollPeriod):
		}
		// Lines that grep does not find are no fault.
		r, err := s.Node.Guest.Run(ctx, "grep -aE '"+progressLines+"' "+output)
		if err != nil {
			continue // the other session tells, if the guest is gone
		}
		results := readProgress(r.Stdout, specs)
		for ; seen < len(results); seen++ {
			s.Progress(results[seen])
		}
	}
}

// read fetches the report, and keeps what was written about failures.
func (s *Session) read(ctx context.Context, specs []Spec) ([]Result, error) {
	data, err := s.Node.Guest.ReadFile(ctx, report)
	if err != nil {
		tail, _ := s.Node.Guest.Output(ctx, "tail -n 40 "+output)
		return nil, fmt.Errorf("the suite has left no report: %w\n%s", err, tail)
	}
	results, err := ReadResults([]byte(data))
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, spec := range specs {
		wanted[spec.Name] = true
	}
	failed := false
	ran := map[string]bool{}
	for _, r := range results {
		if !wanted[r.Name] {
			return nil, fmt.Errorf("the suite has run %s, which was not asked for", r.Name)
		}
		ran[r.Name] = true
		if r.State != Failed {
			continue
		}
		failed = true
		if err := s.keep(ctx, r); err != nil {
			return nil, err
		}
	}
	if reason := setupFailure([]byte(data)); reason != "" && len(results) == 0 || failed && reason != "" {
		return nil, fmt.Errorf("%w: %s", ErrNotStarted, reason)
	}
	for _, spec := range specs {
		if !ran[spec.Name] {
			return results, fmt.Errorf("the suite has not run %s", spec.Name)
		}
	}
	return results, nil
}

// keep writes down what is known of a failed spec.
func (s *Session) keep(ctx context.Context, r Result) error {
	dir := s.LogsOf(r.Spec)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("%s\n%s\n\n%s\n\n%s", r.Name, r.Place(), r.Reason, r.output)
	if err := os.WriteFile(filepath.Join(dir, "spec.log"), []byte(text), 0o644); err != nil {
		return err
	}
	return s.Node.Guest.Collect(ctx, dir, output, kubelet, "/var/log/containerd.log")
}

// LogsOf is the folder for what is kept of a spec.
func (s *Session) LogsOf(spec Spec) string {
	return filepath.Join(s.Logs, fmt.Sprintf("%s-%d", strings.TrimSuffix(spec.File, ".go"), spec.Line))
}

// cleanUp ends what a suite that was killed leaves behind.
func (s *Session) cleanUp(ctx context.Context) {
	s.Node.Guest.Run(ctx, "pkill -9 -f e2e_node.test; systemctl list-units --plain --no-legend --all 'kubelet-*.service' | cut -d' ' -f1 | xargs -r systemctl stop; systemctl reset-failed")
}
