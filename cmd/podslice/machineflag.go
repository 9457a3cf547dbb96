// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/pkg/machine/source"
)

// thisMachine is where this machine's /sys is; tests have another.
var thisMachine = "/"

// machineFlag gives a command the flag --machine, for readMachine.
func machineFlag(cmd *cobra.Command, from *string, help string) {
	cmd.Flags().StringVar(from, "machine", "", help)
	_ = cmd.RegisterFlagCompletionFunc("machine", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return catalog.Names(), cobra.ShellCompDirectiveDefault
	}) // the flag is there
}

// readMachine reads what --machine names, this machine if it is empty, and says on
// standard error what the source lacks.
func readMachine(cmd *cobra.Command, from string) (machine.Machine, error) {
	if from == "" {
		from = thisMachine
	}
	read := source.Read
	if from == "-" {
		read = func(string) (machine.Machine, []string, error) {
			return source.ReadFrom("standard input", cmd.InOrStdin())
		}
	}
	m, notes, err := read(from)
	for _, note := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "podslice: note:", plain(note))
	}
	return m, err
}
