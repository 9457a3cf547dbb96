// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podslice/podslice/pkg/machine/picture"
)

func newMachine() *cobra.Command {
	var from, output string
	cmd := &cobra.Command{
		Use:   "machine",
		Short: "Show a machine as the resource managers see it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := readMachine(cmd, from)
			if err != nil {
				return err
			}
			switch output {
			case "picture":
				return picture.Draw(cmd.OutOrStdout(), m, picture.Options{})
			case "json":
				_, err = cmd.OutOrStdout().Write(m.JSON())
			case "yaml":
				_, err = cmd.OutOrStdout().Write(m.YAML())
			default:
				err = fmt.Errorf("the format is %q: want picture, json or yaml", output)
			}
			return err
		},
	}
	machineFlag(cmd, &from, "the `machine` to show instead of this one")
	cmd.Flags().StringVarP(&output, "output", "o", "picture", "`format` of the output: picture, json or yaml")
	return cmd
}
