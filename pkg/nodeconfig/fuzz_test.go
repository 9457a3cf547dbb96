// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/machine"
)

// FuzzRead: nothing makes the reader panic, or what is told of a configuration;
// and the node is there exactly if no error is told.
func FuzzRead(f *testing.F) {
	paths, err := filepath.Glob("testdata/scripts/*")
	require.NoError(f, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		for _, one := range strings.Split(string(text), "\n\n") {
			_, body, _ := strings.Cut(one, "validate\n")
			body, _, _ = strings.Cut(body, "\n----")
			f.Add([]byte("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" + body))
		}
	}
	f.Add([]byte(database))
	all := allMachines(f)
	some := []machine.Machine{all["one"], all["half"], all["untold"], all["amd-epyc-9654-nps4"]}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Read("kubelet.yaml", text)
		if err != nil {
			return
		}
		for _, m := range some {
			found := c.Validate(m)
			isError := slices.ContainsFunc(found, func(f Finding) bool { return f.Severity == Error })
			n, err := c.For(m)
			require.Equal(t, isError, err != nil)
			require.Equal(t, isError, n == nil)
			for _, f := range found {
				require.NotEmpty(t, f.String())
			}
		}
	})
}
