// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/pkg/state"
)

// now is the clock; tests stop it.
var now = time.Now

func newRepair() *cobra.Command {
	var dir string
	var write bool
	var keep []string
	var flags againstFlags
	cmd := &cobra.Command{
		Use:   "repair [FOLDER | FILE...]",
		Short: "Correct what is wrong, and explain each change",
		Long: `Correct what "podslice state verify" says is wrong with the files, and explain
each change. With -o the corrected files are written to a folder; with --write
they take the place of the files, which are kept under a dated name; without
either nothing is written.

Stop the kubelet first: it writes the files whenever a pod comes or goes. Give
both files, since one helps to repair the other, and the machine, without which
CPUs that no part of a file knows of stay unknown. Where two pods have the same
CPUs, the first by UID keeps them, or the one named with --keep. Pods that are
dropped from a file go on running, and are given other CPUs or memory when the
kubelet starts.`,
		Example: `  podslice state repair /var/lib/kubelet
  podslice state repair /var/lib/kubelet -o repaired --machine machine.json
  podslice state repair /var/lib/kubelet --write --keep uid-web`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if write && dir != "" {
				return errors.New("-o and --write: want one of them")
			}
			against, err := flags.load(cmd)
			if err != nil {
				return err
			}
			files, err := read(args)
			if err != nil {
				return err
			}
			repaired, err := files.Repair(against, keep)
			if err != nil {
				return err
			}
			for _, r := range repaired {
				if path := filepath.Join(dir, r.Name); dir != "" {
					if _, err := os.Lstat(path); err == nil {
						return fmt.Errorf("%s is there already, and is not overwritten", path)
					}
				}
			}
			for _, r := range repaired {
				if err := apply(cmd.OutOrStdout(), r, dir, write); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", "", "write the corrected files to a `folder`")
	cmd.Flags().BoolVar(&write, "write", false, "replace the files, and keep them under a dated name")
	cmd.Flags().StringArrayVar(&keep, "keep", nil, "the `UID` of a pod that keeps CPUs which others have, too")
	flags.register(cmd, false)
	return cmd
}

// apply says what is done about one file, and does it.
func apply(out io.Writer, r state.Repaired, dir string, write bool) error {
	if len(r.Changes) == 0 {
		fmt.Fprintf(out, "%s: nothing to repair\n", r.Name)
	}
	for _, c := range r.Changes {
		fmt.Fprintln(out, plain(c.String()))
	}
	switch {
	case dir != "":
		return writeCopy(out, r, dir)
	case write && len(r.Changes) > 0:
		return replace(out, r)
	case len(r.Changes) > 0:
		fmt.Fprintf(out, "%s: nothing is written without -o or --write\n", r.Name)
	}
	return nil
}

// writeCopy writes the file to a folder.
func writeCopy(out io.Writer, r state.Repaired, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if r.Content == nil {
		fmt.Fprintf(out, "%s: left out of %s\n", r.Name, dir)
		return nil
	}
	if err := (statefile.File{Dir: dir, Name: r.Name}).Replace(r.Content); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: written to %s\n", r.Name, dir)
	return nil
}

// replace puts the corrected file in place. The old one gets its dated name first,
// and is never gone: until the replacement both names are its.
func replace(out io.Writer, r state.Repaired) error {
	path, err := filepath.EvalSymlinks(r.Path)
	if err != nil {
		return err
	}
	kept := path + "." + now().UTC().Format("20060102T150405Z")
	if err := os.Link(path, kept); err != nil {
		return fmt.Errorf("cannot keep the old file: %w", err)
	}
	if r.Content == nil {
		if err := os.Remove(path); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: moved to %s\n", r.Name, filepath.Base(kept))
		return nil
	}
	file := statefile.File{Dir: filepath.Dir(path), Name: filepath.Base(path)}
	if err := file.Replace(r.Content); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: replaced; the old one is %s\n", r.Name, filepath.Base(kept))
	return nil
}
