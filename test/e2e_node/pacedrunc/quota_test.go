// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLift(t *testing.T) {
	root := t.TempDir()
	write := func(dir, value string) {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, dir, "cpu.max"), []byte(value), 0o644))
	}
	is := func(dir string) string {
		data, err := os.ReadFile(filepath.Join(root, dir, "cpu.max"))
		require.NoError(t, err)
		return string(data)
	}
	becomes := func(dir, want string) {
		require.Eventually(t, func() bool { return is(dir) == want }, 10*time.Second, time.Millisecond, "%s", dir)
	}
	write("pods", "max 100000\n")
	write("pods/a", "10000 100000\n")
	done, result := make(chan struct{}), make(chan error)
	go func() { result <- lift(root, "/pods/a/c", done) }()
	becomes("pods/a", "max")
	// The container's own cgroup comes later.
	write("pods/a/c", "5000 100000\n")
	becomes("pods/a/c", "max")
	close(done)
	require.NoError(t, <-result)
	require.Equal(t, "10000 100000", is("pods/a"))
	require.Equal(t, "5000 100000", is("pods/a/c"))
	require.Equal(t, "max 100000\n", is("pods"))
	require.NoFileExists(t, filepath.Join(root, "cpu.max"))
}

func TestRestore(t *testing.T) {
	root := t.TempDir()
	changed, gone := filepath.Join(root, "changed"), filepath.Join(root, "gone")
	require.NoError(t, os.WriteFile(changed, []byte("20000 100000\n"), 0o644))
	require.NoError(t, restore(map[string]string{changed: "10000 100000", gone: "10000 100000"}))
	data, err := os.ReadFile(changed)
	require.NoError(t, err)
	require.Equal(t, "20000 100000\n", string(data), "somebody else's quota is overwritten")
	require.NoFileExists(t, gone)
}

func TestCgroupsPath(t *testing.T) {
	path, err := cgroupsPath([]byte(`{"linux": {"cgroupsPath": "/kubepods/pod1/c", "resources": {}}}`))
	require.NoError(t, err)
	require.Equal(t, "/kubepods/pod1/c", path)
	_, err = cgroupsPath([]byte("{"))
	require.Error(t, err)
}
