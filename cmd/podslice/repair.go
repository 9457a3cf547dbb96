// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/pkg/state"
)

func newRepair() *cobra.Command {
	var output, dir string
	var write bool
	var keep []string
	var flags againstFlags
	cmd := &cobra.Command{
		Use:   "repair [FOLDER | FILE...]",
		Short: "Correct what is wrong, and explain each change",
		Long: `Correct what "podslice state verify" says is wrong with the files, and explain
each change. With --to the corrected files are written to a folder; with --write
they take the place of the files, which are kept under a dated name, as the
kubelet keeps damaged ones; without either nothing is written.

Stop the kubelet first: it writes the files whenever a pod comes or goes. Give
both files, since one helps to repair the other, and the machine, without which
CPUs that no part of a file knows of stay unknown. Where two pods have the same
CPUs, the first by UID keeps them, or the one named with --keep. Pods that are
dropped from a file go on running, and are given other CPUs or memory when the
kubelet starts.

The exit code is 0 when the files are right, and when what is wrong was corrected or
told; "podslice state verify" has 2 for files that something is wrong with.`,
		Example: `  podslice state repair /var/lib/kubelet
  podslice state repair /var/lib/kubelet --to repaired --machine machine.json
  podslice state repair /var/lib/kubelet --write --keep uid-web -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if write && dir != "" {
				return errors.New("--to and --write: want one of them")
			}
			if err := checkFormat(output); err != nil {
				return err
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
				if write && fileName(r) != r.Name {
					return fmt.Errorf("%s is kept as it was found: want --to and a folder", r.Path)
				}
				if path := filepath.Join(dir, fileName(r)); dir != "" {
					if _, err := os.Lstat(path); err == nil {
						return fmt.Errorf("%s is there already, and is not overwritten", path)
					}
				}
			}
			all := repair{Files: []repairedFile{}}
			for _, r := range repaired {
				one, failed := apply(r, dir, write)
				if err = failed; err != nil {
					break
				}
				all.Files = append(all.Files, one)
			}
			// What is done is told even if the rest cannot be.
			return errors.Join(render(cmd.OutOrStdout(), output, all, repairTable), err)
		},
	}
	outputFlag(cmd, &output)
	cmd.Flags().StringVar(&dir, "to", "", "write the corrected files to a `folder`")
	cmd.Flags().BoolVar(&write, "write", false, "replace the files, and keep them under a dated name")
	cmd.Flags().StringArrayVar(&keep, "keep", nil, "the `UID` of a pod that keeps CPUs which others have, too")
	flags.register(cmd, false)
	return cmd
}

// repair is what was done, as it is told.
type repair struct {
	Files []repairedFile `json:"files"`
}

type repairedFile struct {
	File    string         `json:"file"`
	Path    string         `json:"path"`
	Changes []state.Change `json:"changes"`
	Action  action         `json:"action"`
	// Written is where the corrected file is, Kept where the old one.
	Written string `json:"written,omitempty"`
	Kept    string `json:"kept,omitempty"`
}

// action is what was done about one file.
type action string

const (
	nothing    action = "nothing to repair"
	notWritten action = "not written"
	written    action = "written"
	leftOut    action = "left out"
	replaced   action = "replaced"
	moved      action = "moved"
)

// apply does what is to be done about one file.
func apply(r state.Repaired, dir string, write bool) (f repairedFile, err error) {
	f = repairedFile{File: r.Name, Path: r.Path, Changes: append([]state.Change{}, r.Changes...), Action: nothing}
	switch {
	case dir != "":
		err = f.copyTo(r, dir)
	case write && len(r.Changes) > 0:
		err = f.replace(r)
	case len(r.Changes) > 0:
		f.Action = notWritten
	}
	return f, err
}

// fileName is the name under which the kubelet reads the file: that of one that it
// has kept is a longer one.
func fileName(r state.Repaired) string {
	name, _, _ := strings.Cut(r.Name, ".damaged-")
	return name
}

// copyTo writes the file to a folder.
func (f *repairedFile) copyTo(r state.Repaired, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if r.Content == nil {
		f.Action = leftOut
		return nil
	}
	file := statefile.File{Dir: dir, Name: fileName(r)}
	f.Action, f.Written = written, file.Path()
	return file.Replace(r.Content)
}

// replace puts the corrected file in place. The old one gets its dated name first,
// and is never gone: until the replacement both names are its.
func (f *repairedFile) replace(r state.Repaired) error {
	path, err := filepath.EvalSymlinks(r.Path)
	if err != nil {
		return err
	}
	file := statefile.File{Dir: filepath.Dir(path), Name: filepath.Base(path)}
	if f.Kept, err = file.Keep(); err != nil {
		return err
	}
	if r.Content == nil {
		f.Action = moved
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	f.Action, f.Written = replaced, path
	return file.Replace(r.Content)
}
