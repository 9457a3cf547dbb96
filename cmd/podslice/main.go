// SPDX-License-Identifier: Apache-2.0

// Command podslice is the operator's command line: what the resource managers of
// a node have on record, offline. It links no kubelet.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/podslice"
)

// kubernetes is the release that podslice is for; a test holds it and go.mod
// together.
const kubernetes = "v1.37.2"

// Exit codes.
const (
	fine  = 0
	usage = 1 // wrong use or input
	wrong = 2 // something is wrong with what was looked at
)

// noColorFlag is a flag of all commands.
const noColorFlag = "no-color"

// errWrong ends a command with the exit code wrong; what is wrong has been said.
var errWrong = errors.New("something is wrong")

func main() {
	// cAdvisor, which reads machines, warns in the log of what readMachine says in
	// better words, or of what is as it should be.
	klog.SetLogger(logr.Discard())
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs one command line and returns the exit code.
func run(args []string, out, errOut io.Writer) int { return runRoot(newRoot(), args, out, errOut) }

func runRoot(root *cobra.Command, args []string, out, errOut io.Writer) int {
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	switch err := root.Execute(); {
	case err == nil:
		return fine
	case errors.Is(err, errWrong):
		return wrong
	default:
		fmt.Fprintln(errOut, "podslice:", plainLines(err.Error())) // it may have names of files from elsewhere
		return usage
	}
}

// invokedAs is how this was called. A binary with the name kubectl-podslice is a
// plugin of kubectl.
var invokedAs = os.Args[0]

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "podslice",
		Short:         "Look into the resource managers of a node",
		Long:          "podslice looks into what the kubelet's CPU and memory manager have given to pods,\ntells what they would give to others, and checks their configuration.\n\nExit codes: 0 all is well, 1 wrong use or input, 2 something is wrong.",
		Example:       "  podslice plan -f pods.yaml --machine machine.json\n  podslice state show /var/lib/kubelet\n  podslice state verify /var/lib/kubelet\n  podslice validate --config config.yaml --machine machine.json",
		Args:          onlyCommands,
		RunE:          help,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       fmt.Sprintf("%s for Kubernetes %s", podslice.Version, kubernetes),

		PersistentPreRunE: checkFlags,
	}
	root.SetVersionTemplate("podslice {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().Bool(noColorFlag, false, "use no colours and no bold text, as with NO_COLOR in the environment")
	if strings.HasPrefix(filepath.Base(invokedAs), "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl podslice"}
	}
	root.AddCommand(newPlan(), newMachine(), newState(), newValidate(), &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and the release of Kubernetes that it is for",
		Example: "  podslice version",
		Args:    byFlag(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "podslice %s\n", root.Version)
			return err
		},
	})
	return root
}
