// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/nodeconfig"
	"github.com/podslice/podslice/pkg/plan"
	"github.com/podslice/podslice/pkg/state"
	"github.com/podslice/podslice/pkg/workload"
)

// planFlags are the flags of the command.
type planFlags struct {
	files                          []string
	machine, config, state, output string
	explain, strict, noColor       bool
}

var planFormats = []string{"table", "wide", "json", "yaml", "picture"}

func newPlan() *cobra.Command {
	var flags planFlags
	cmd := &cobra.Command{
		Use:   "plan -f FILE...",
		Short: "Tell what a kubelet would do with pods",
		Long: `Tell what a kubelet with this configuration would do with these pods, in this
order, on this machine: the verdict on each, with the reason and the message of
its status, and what each container would run on. It is decided by the same code
as in the kubelet.

The manifests are Pods and anything that has a pod template, in YAML or JSON, with
any number of documents. A workload stands for as many pods as it has at the same
time: its replicas, the pods of a job that run in parallel, one pod of a DaemonSet.
What the API server would add to their resources is added, and said.

Without --config a node is assumed on which pods with a budget work, which is said
as well. With --state the plan begins with what is on record in a node's state
files; a pod that is among them and in the manifests is known by its UID.

Not part of the plan is what depends on more than the machine and the configuration:
devices and claims, node selectors and taints, volumes and disks, LimitRanges,
overhead of a RuntimeClass, and the eviction of other pods for a critical one.

The format wide has what the table leaves out; picture is the machine with every
CPU marked by its owner. SMT, LLC and NUMA say whether CPUs have cores of their
own, one last-level cache, and one NUMA node, with their memory. CPU.MAX is what is
in the file of that name of the cgroup.

Exit codes: 0 all pods are admitted, 1 wrong use or input, 2 some are refused.`,
		Example: `  podslice plan -f pods.yaml
  podslice plan -f pods.yaml --config config.yaml --machine amd-epyc-9654-nps4 -o wide
  podslice plan -f pods.yaml --machine machine.json --explain
  podslice plan -f pods.yaml --machine machine.json --config config.yaml --state /var/lib/kubelet -o picture
  podslice plan -f pods.yaml --machine "2 sockets, 1 node each, 8 cores, 2 threads, 64Gi" -o json`,
		Args: byFlag("-f"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags.noColor = noColor(cmd)
			return flags.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&flags.files, "filename", "f", nil, "a `file` with pods, a folder of such, or - for standard input; may be repeated")
	machineFlag(cmd, &flags.machine, "the `machine` to plan for instead of this one, see \"podslice machine\"")
	f.StringVar(&flags.config, "config", "", "the KubeletConfiguration in a `file`")
	f.StringVar(&flags.state, "state", "", "begin with the state files in a `folder`")
	f.BoolVar(&flags.explain, "explain", false, "add the hints of each resource, the merged hint and the runner-up")
	f.BoolVar(&flags.strict, "strict", false, "take unknown fields of the manifests and the configuration for errors")
	f.StringVarP(&flags.output, "output", "o", "table", "`format` of the output: "+strings.Join(planFormats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(planFormats, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command) error {
	if len(f.files) == 0 {
		return errors.New("there are no pods to plan for: want a file with -f, or - for standard input")
	}
	if !slices.Contains(planFormats, f.output) {
		return fmt.Errorf("the format is %q: want one of %s", f.output, strings.Join(planFormats, ", "))
	}
	note := func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "podslice: note:", plain(text)) }
	work, err := workload.Read(f.files, cmd.InOrStdin(), workload.Options{Strict: f.strict})
	if err != nil {
		return err
	}
	m, err := readMachine(cmd, f.machine)
	if err != nil {
		return err
	}
	config, err := f.readConfig(cmd, m, note)
	if err != nil {
		return err
	}
	node, err := config.For(m)
	if err != nil {
		return err
	}
	settings := plan.SettingsOf(node)
	settings.Explain = f.explain
	for _, text := range work.Notes {
		note(text)
	}
	if work.Objects == 0 {
		return fmt.Errorf("there are no pods to plan for in %s", strings.Join(f.files, ", "))
	}
	sayUnaligned(settings, note)
	begin, err := f.readState(settings, work.Pods, note)
	if err != nil {
		return err
	}
	sayDefaulted(work.Pods, note)
	// Each pod makes a node anew, and little of the one before is kept.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	progress := newProgress(cmd.ErrOrStderr())
	after, decided := begin.AdmitAll(work.Pods, progress.at)
	progress.end()
	report := after.Report(decided)
	sayUnchecked(report, note)
	sayWithoutPool(settings, work.Pods, report, note)
	if err := f.render(cmd.OutOrStdout(), after, report); err != nil {
		return err
	}
	if report.Refused() > 0 {
		return errWrong
	}
	return nil
}

// readConfig reads the configuration, or assumes one.
func (f *planFlags) readConfig(cmd *cobra.Command, m machine.Machine, note func(string)) (*nodeconfig.Config, error) {
	if f.config != "" {
		config, err := readConfig(cmd, f.config)
		if err != nil {
			return nil, err
		}
		if f.strict {
			if err := config.Strict(); err != nil {
				return nil, err
			}
		}
		for _, finding := range config.Overlooked {
			note(f.config + ": " + finding.String())
		}
		return config, nil
	}
	text := plan.Assumed(m)
	config, err := nodeconfig.Read("the assumed configuration", []byte(text))
	if err != nil {
		return nil, err
	}
	note("there is no --config; assumed is a kubelet with")
	for _, line := range strings.Split(strings.TrimSpace(text), "\n")[2:] {
		note("  " + line)
	}
	return config, nil
}

// readState is the node that the plan begins with.
func (f *planFlags) readState(s plan.Settings, pods []workload.Pod, note func(string)) (plan.Node, error) {
	if f.state == "" {
		return plan.NewNode(s, cpuplan.State{}, memplan.Records{}), nil
	}
	files, err := state.Read(f.state)
	if err != nil {
		return plan.Node{}, err
	}
	cpus, memory, err := files.Records()
	if err == nil {
		err = s.CheckRecords(cpus, memory)
	}
	if err != nil {
		return plan.Node{}, fmt.Errorf("--state %s: %w", f.state, err)
	}
	if s.CPUs == nil && len(cpus.PodUIDs()) > 0 || !s.StaticMemory && memory.Len() > 0 {
		note("--state has records of a policy that is none in the configuration; they do not count for it")
	}
	for _, text := range overlaps(cpus) {
		note(fmt.Sprintf("--state %s: %s; see podslice state verify", f.state, text))
	}
	n := plan.NewNode(s, cpus, memory)
	unknown := maps.Clone(n.Running())
	var specs []*v1.Pod
	for _, p := range pods {
		if unknown[string(p.UID)] {
			delete(unknown, string(p.UID))
			specs = append(specs, p.Pod)
		}
	}
	if len(unknown) > 0 {
		note(fmt.Sprintf("on record and in no manifest, so it is not known what else they request than what they have: %s", strings.Join(slices.Sorted(maps.Keys(unknown)), ", ")))
	}
	return n.Know(specs), nil
}

// overlaps tells of pods that have the same CPUs on record.
func overlaps(s cpuplan.State) (texts []string) {
	uids := s.PodUIDs()
	for i, uid := range uids {
		for _, other := range uids[:i] {
			if both := s.Record(uid).CPUs().Intersection(s.Record(other).CPUs()); !both.IsEmpty() {
				texts = append(texts, fmt.Sprintf("the pods %s and %s both have the CPUs %s on record", other, uid, both))
			}
		}
	}
	return texts
}

// sayDefaulted tells what was defaulted, replicas of a workload once.
func sayDefaulted(pods []workload.Pod, note func(string)) {
	for i, p := range pods {
		if i > 0 && pods[i-1].From == p.From {
			continue
		}
		for _, text := range p.Defaulted {
			note(fmt.Sprintf("%s: defaulted: %s", p.From, text))
		}
	}
}

func sayUnchecked(r plan.Report, note func(string)) {
	names := map[string]bool{}
	for _, p := range r.Pods {
		for _, name := range p.Unchecked {
			if !names[name] {
				note(fmt.Sprintf("%s is requested, but it is not known what the node has of it: the plan leaves it out", name))
			}
			names[name] = true
		}
	}
}

// sayUnaligned tells why there is nothing to explain, and no scope.
func sayUnaligned(s plan.Settings, note func(string)) {
	if !s.Policy.Aligns() {
		text := "topologyManagerPolicy is none: nothing is aligned, and each container is placed by itself, whatever topologyManagerScope is"
		if s.Explain {
			text += "; there are no hints to explain"
		}
		note(text)
	}
}

// sayWithoutPool tells of containers that would share their pod's CPUs in the other
// scope.
func sayWithoutPool(s plan.Settings, pods []workload.Pod, r plan.Report, note func(string)) {
	if s.CPUs == nil || !s.PodLevelManagers || s.Scope == placement.ScopePod {
		return
	}
	var texts []string
	for i, p := range r.Pods {
		if !p.Admitted || pods[i].Spec.Resources == nil || p.QOSClass != v1.PodQOSGuaranteed || i > 0 && pods[i-1].From == pods[i].From {
			continue
		}
		var sharing []string
		for _, c := range p.Containers {
			if c.CPUIsolation == podplan.IsolatedHost {
				sharing = append(sharing, c.Name)
			}
		}
		if len(sharing) > 0 {
			texts = append(texts, fmt.Sprintf("%s (%s)", p.Source.Name, strings.Join(sharing, ", ")))
		}
	}
	if len(texts) > 0 {
		note("without scope pod, a pod with a budget has no pod shared pool, and containers without CPUs of their own run in the node shared pool: " + strings.Join(texts, ", "))
	}
}

// progress tells a terminal how far the plan is, if it takes longer than a second.
type progress struct {
	out   io.Writer
	now   func() time.Time
	begin time.Time
	last  time.Time
}

func newProgress(out io.Writer) *progress {
	if !isTerminal(out) {
		return &progress{}
	}
	return &progress{out: out, now: time.Now, begin: time.Now()}
}

func (p *progress) at(done, all int) {
	if p.out == nil {
		return
	}
	t := p.now()
	if t.Sub(p.begin) < time.Second || t.Sub(p.last) < 200*time.Millisecond {
		return
	}
	p.last = t
	fmt.Fprintf(p.out, "\rpodslice: %d of %d pods", done, all)
}

// end wipes the line.
func (p *progress) end() {
	if !p.last.IsZero() {
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", 60))
	}
}

// now is the clock; tests have another.
var now = time.Now

// isTerminal reports whether somebody looks at what is written.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
