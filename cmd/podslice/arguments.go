// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podslice/podslice/pkg/nearest"
)

// byFlag is for a command that takes its input by a flag, and no arguments.
func byFlag(flag string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		arg := args[0]
		if strings.ContainsAny(arg, " \t") || arg == "" {
			arg = strconv.Quote(arg)
		}
		if flag == "" || args[0] == "" {
			return fmt.Errorf("%s takes no arguments, but is given %s", below(cmd), arg)
		}
		return fmt.Errorf("%s takes no arguments, but is given %s: want %s %s", below(cmd), arg, flag, arg)
	}
}

// onlyCommands is for a command that only has others.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	elsewhere := ""
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
		for _, other := range sub.Commands() {
			if other.Name() == args[0] {
				elsewhere = below(other)
			}
		}
	}
	text := strings.TrimSpace(below(cmd) + " " + args[0])
	near := nearest.Name(args[0], slices.Values(names))
	switch {
	case near != "":
		return fmt.Errorf("there is no command %q: did you mean %q?", text, strings.TrimSpace(below(cmd)+" "+near))
	case elsewhere != "":
		return fmt.Errorf("there is no command %q: did you mean %q?", text, elsewhere)
	}
	return fmt.Errorf("there is no command %q: want one of %s", text, strings.Join(names, ", "))
}

// below is the command without the name of the program, which stands before errors.
func below(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.TrimSpace(below(cmd.Parent()) + " " + cmd.Name())
}

// two is for a command with two arguments.
func two(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 {
			return nil
		}
		return fmt.Errorf("%s takes two arguments, %s, but is given %d", below(cmd), what, len(args))
	}
}

// flagError adds to an error about a flag which one was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest.Name(unknown.GetSpecifiedName(), slices.Values(names)); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return fmt.Errorf("%w; \"%s --help\" lists the flags", err, cmd.CommandPath())
}

// checkFlags fails for flags that are given and empty, as they are when the variable
// behind them is not set: the command would do something else than what was meant.
// Standard input can be read only once.
func checkFlags(cmd *cobra.Command, _ []string) error {
	var empty, stdin []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			switch {
			case value == "":
				empty = append(empty, "--"+f.Name)
			case value == "-" && slices.Contains([]string{"filename", "machine", "config"}, f.Name):
				stdin = append(stdin, "--"+f.Name)
			}
		}
	})
	if len(empty) > 0 {
		return fmt.Errorf("%s without a value: want one, or leave it out", and(empty, "is given", "are given"))
	}
	if len(stdin) > 1 {
		return fmt.Errorf("standard input can be read only once, but %s: want files for the others", and(stdin, "names it", "name it"))
	}
	return nil
}

// and lists words with the verb for one or several: "--a is given", "--a and --b are
// given".
func and(list []string, one, several string) string {
	if len(list) == 1 {
		return list[0] + " " + one
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1] + " " + several
}
