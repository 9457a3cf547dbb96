// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podslice/podslice/pkg/state"
)

// stateDir is the kubelet's root folder; tests have another.
var stateDir = "/var/lib/kubelet"

func newState() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Show, verify, compare and repair the state files of a node",
		Long: `The kubelet's CPU and memory manager keep what they have given to pods in the
files cpu_manager_state and memory_manager_state of the kubelet's root folder.
These commands read them offline, as Kubernetes 1.35 to 1.37 or podslice wrote
them: a folder that has them, or the files by name.`,
		Example: `  podslice state show
  podslice state verify /var/lib/kubelet --for 1.36
  podslice state diff yesterday /var/lib/kubelet
  podslice state repair /var/lib/kubelet --to repaired`,
		Args: onlyCommands,
		RunE: help,
	}
	cmd.AddCommand(newShow(), newVerify(), newDiff(), newRepair())
	return cmd
}

// help is what a command does that only has others. With onlyCommands, it makes of
// a command that is not known an error.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func newShow() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show [FOLDER | FILE...]",
		Short: "Show what each pod and container has",
		Long: `Show what each pod and container has on record, the node shared pool, the NUMA
nodes, and of each file the version, the policy, the checksums and which part
counts. The level is that of the CPUs: container for a container with CPUs of
its own, pod for one in the shared pool of its pod, host for one in the node
shared pool; it is "-" where the files do not tell.`,
		Example: `  podslice state show
  podslice state show /var/lib/kubelet -o json
  podslice state show cpu_manager_state`,
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := read(args)
			if err != nil {
				return err
			}
			return render(cmd.OutOrStdout(), output, files.View(), showTable)
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

// againstFlags are the flags of what files are held against.
type againstFlags struct{ machine, config, release string }

func (f *againstFlags) register(cmd *cobra.Command, release bool) {
	machineFlag(cmd, &f.machine, "hold it against a `machine`, see \"podslice machine\", instead of none; / is this one")
	cmd.Flags().StringVar(&f.config, "config", "", "hold it against the KubeletConfiguration in a `file`")
	if release {
		cmd.Flags().StringVar(&f.release, "for", "", "tell what upstream's kubelet of a `release` would refuse: "+strings.Join(state.Releases(), ", "))
	}
	complete := func(list func() []string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return list(), cobra.ShellCompDirectiveDefault
		}
	}
	// The flags are there, so these do not fail.
	if release {
		_ = cmd.RegisterFlagCompletionFunc("for", complete(state.Releases))
	}
}

func (f *againstFlags) load(cmd *cobra.Command) (a state.Against, err error) {
	a.Release = f.release
	if f.machine != "" {
		m, err := readMachine(cmd, f.machine)
		if err != nil {
			return a, err
		}
		a.Machine = &m
	}
	if f.config != "" {
		if a.Config, err = readConfig(cmd, f.config); err != nil {
			return a, err
		}
		a.ConfigFile = a.Config.File
	}
	return a, a.Validate()
}

func newVerify() *cobra.Command {
	var output string
	var flags againstFlags
	cmd := &cobra.Command{
		Use:   "verify [FOLDER | FILE...]",
		Short: "List everything that is wrong, and what it means",
		Long: `List everything that is wrong with the files, and what it means. Notes are of
what has changed since they were written, or may be as it should: podslice's
kubelet goes on with it and no pod loses anything, though upstream's may not
start. The exit code is 2 when something is wrong, not for notes.

With --for, upstream's kubelet of a release is asked, too: whether it would start
on these files. Its policies, reservations and the gate PodLevelResourceManagers
are those of --config; without, the policies are those of the files and the gate
is off.`,
		Example: `  podslice state verify
  podslice state verify /var/lib/kubelet --machine machine.json --config config.yaml
  podslice state verify /var/lib/kubelet --for 1.36
  podslice state verify memory_manager_state -o yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			against, err := flags.load(cmd)
			if err != nil {
				return err
			}
			files, err := read(args)
			if err != nil {
				return err
			}
			verdict := newVerdict(files.Check(against))
			if err := render(cmd.OutOrStdout(), output, verdict, verifyTable); err != nil {
				return err
			}
			if verdict.Wrong > 0 {
				return errWrong
			}
			return nil
		},
	}
	outputFlag(cmd, &output)
	flags.register(cmd, true)
	return cmd
}

func newDiff() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Tell what two states have different for each pod and container",
		Long: `Tell what two states have different for each pod and container: two folders, or
two files. How it is written does not matter, only what is on record.

The exit code is 0 whether or not there are differences; -o json writes [] when there
are none.`,
		Example: `  podslice state diff yesterday today
  podslice state diff yesterday/cpu_manager_state today/cpu_manager_state -o json`,
		Args: two("the state before and after"),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := state.Read(args[0])
			if err != nil {
				return err
			}
			after, err := state.Read(args[1])
			if err != nil {
				return err
			}
			for _, other := range []struct {
				name     string
				one, two bool
			}{{state.CPUFileName, before.CPU == nil, after.CPU == nil}, {state.MemoryFileName, before.Memory == nil, after.Memory == nil}} {
				if other.one != other.two {
					return fmt.Errorf("only one of %s and %s has a %s", args[0], args[1], other.name)
				}
			}
			return render(cmd.OutOrStdout(), output, state.Diff(before.View(), after.View()), diffTable)
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func read(args []string) (state.Files, error) {
	if len(args) == 0 {
		args = []string{stateDir}
	}
	return state.Read(args...)
}

func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "`format` of the output: table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}
