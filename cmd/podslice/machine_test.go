// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/machine/catalog"
)

// TestMachineColors: a picture on a terminal is the same as elsewhere but for bold
// headings.
func TestMachineColors(t *testing.T) {
	draw := func(color painter) string {
		m, err := catalog.Get("kvm-4")
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, drawMachine(&out, m, color))
		return out.String()
	}
	bold, without := draw(painter{on: true}), draw(painter{})
	require.Contains(t, bold, "\x1b[1msocket 0\x1b[0m")
	require.NotContains(t, without, "\x1b")
	require.Equal(t, without, strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "").Replace(bold))
}

// TestNamesFromElsewhere has a folder whose name would disturb a terminal.
func TestNamesFromElsewhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "red\x1b[31m")
	require.NoError(t, writeSys(dir))
	var out, errOut bytes.Buffer
	require.Equal(t, fine, run([]string{"machine", "--machine", dir}, &out, &errOut))
	require.Contains(t, errOut.String(), "red?[31m tells no hugepages")
	require.Contains(t, out.String(), "red?[31m: 8 CPUs")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sys/devices/system/cpu/online"), nil, 0o600))
	require.Equal(t, usage, run([]string{"machine", "--machine", dir}, &out, &errOut))
	require.Contains(t, errOut.String(), "red?[31m/sys/devices/system/cpu/online is empty")
	require.NotContains(t, out.String()+errOut.String(), "\x1b")
}
