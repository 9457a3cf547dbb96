// SPDX-License-Identifier: Apache-2.0

package nearest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestName(t *testing.T) {
	names := []string{"single-numa-node", "restricted", "best-effort", "none", "kvm-4"}
	for written, want := range map[string]string{
		"single-numa-nodes": "single-numa-node", "Restricted": "restricted", "besteffort": "best-effort",
		"sing": "single-numa-node", "kvm4": "kvm-4", "nine": "none", "gone": "none", "n": "", "": "", "strict": "",
	} {
		require.Equal(t, want, Name(written, slices.Values(names)), written)
	}
	require.Empty(t, Name(string(make([]byte, 101)), slices.Values(names)))
	require.Empty(t, Name("a", slices.Values([]string(nil))))
}
