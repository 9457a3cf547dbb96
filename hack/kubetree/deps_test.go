// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPackagesBringNothingNew checks what lets the packages go into any
// Kubernetes tree, a vendored one too: they need no package that the kubelet
// does not link anyway, and none of those that they replace.
func TestPackagesBringNothingNew(t *testing.T) {
	kubelet := deps(t, "k8s.io/kubernetes/cmd/kubelet")
	require.Greater(t, len(kubelet), 1000)
	ours := deps(t, "../../pkg/kubelet/cm/...")
	require.True(t, slices.Contains(ours, ourPrefix+"cpumanager"))
	for _, name := range ours {
		if strings.HasPrefix(name, ourPrefix) {
			continue
		}
		require.True(t, slices.Contains(kubelet, name), "%s is not linked by the kubelet", name)
		for _, dir := range replaced {
			require.False(t, name == kubePrefix+dir || strings.HasPrefix(name, kubePrefix+dir+"/"),
				"%s would be there twice: as ours and as the kubelet's own", name)
		}
	}
}

// deps lists a package and everything that it imports, on Linux without cgo, as
// the kubelet is built.
func deps(t *testing.T, pattern string) []string {
	cmd := exec.Command("go", "list", "-deps", pattern)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	names := strings.Fields(string(out))
	slices.Sort(names)
	return names
}
