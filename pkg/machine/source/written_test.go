// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
)

// TestWritten reads again what is written down of every machine of the catalogue,
// of random ones, and of what was read of their /sys.
func TestWritten(t *testing.T) {
	same := func(t *testing.T, m machine.Machine) {
		for _, text := range [][]byte{m.YAML(), m.JSON(), append([]byte("\xef\xbb\xbf"), m.JSON()...)} {
			again, _, err := readFile("written", bytes.NewReader(text))
			require.NoError(t, err, "%s", text)
			require.Equal(t, m, again)
		}
	}
	forEach(t, 300, func(t *testing.T, all machine.Machine, offline cpuset.CPUSet) {
		same(t, all)
		online := all
		if !offline.IsEmpty() {
			var err error
			online, err = all.Without(offline)
			require.NoError(t, err)
		}
		same(t, online)
		if len(all.CPUs) < 100 {
			read, _, err := readSys(all.Name, all.Name, "/", sysOf(t, all, offline).tree(t))
			require.NoError(t, err)
			same(t, read)
		}
	})
}
