// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/podslice/podslice/hack/kubetree/dropin"
	"github.com/stretchr/testify/require"
)

// TestPackagesBringNothingNew checks what lets the packages go into any
// Kubernetes tree, a vendored one too: they need no package that the kubelet
// does not link anyway, and none of those that they replace.
func TestPackagesBringNothingNew(t *testing.T) {
	kubelet := deps(t, "k8s.io/kubernetes/cmd/kubelet")
	require.Greater(t, len(kubelet), 1000)
	ours := deps(t, "../../pkg/kubelet/cm/...")
	require.True(t, slices.Contains(ours, dropin.OurPrefix+"cpumanager"))
	for _, name := range ours {
		if strings.HasPrefix(name, dropin.OurPrefix) {
			continue
		}
		require.True(t, slices.Contains(kubelet, name), "%s is not linked by the kubelet", name)
		for _, dir := range dropin.Replaced {
			require.False(t, name == dropin.KubePrefix+dir || strings.HasPrefix(name, dropin.KubePrefix+dir+"/"),
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
