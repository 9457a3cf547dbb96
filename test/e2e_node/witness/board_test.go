// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func testBoard(t *testing.T) *Board {
	t.Helper()
	b, err := Open(filepath.Join(t.TempDir(), "board"))
	require.NoError(t, err)
	return b
}

func TestBoardIsShared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "board")
	a, err := Open(file)
	require.NoError(t, err)
	a.visit(3, 10)
	b, err := Open(file)
	require.NoError(t, err)
	b.visit(3, 30)
	a.visit(3, 20) // a sharer that was held up between clock and board
	assert.Equal(t, map[int]Time{3: 30}, a.Visits())
	assert.Equal(t, map[int]Time{3: 30}, b.Visits())
}

func TestSweepVisitsEveryAllowedCPU(t *testing.T) {
	b := testBoard(t)
	mask, err := allowed(0)
	require.NoError(t, err)
	since := Now()
	go sweep(b, time.Millisecond) // ends with the test's process
	for _, cpu := range list(mask) {
		require.Eventually(t, func() bool { return b.Visit(cpu) > since }, time.Minute, time.Millisecond, "CPU %d", cpu)
	}
	assert.Len(t, b.Visits(), mask.Count())
}

// sharerProcess makes a process that does nothing, registered as a sharer. kill
// leaves a zombie, which runs nowhere any more, until the test has ended.
func sharerProcess(t *testing.T, b *Board) (kill func()) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	kill = func() { cmd.Process.Kill() }
	t.Cleanup(func() {
		kill()
		cmd.Wait()
	})
	started, err := startTime(cmd.Process.Pid)
	require.NoError(t, err)
	require.NoError(t, b.register(process{cmd.Process.Pid, started}))
	return kill
}

func TestOpen(t *testing.T) {
	own, err := allowed(0)
	require.NoError(t, err)

	b := testBoard(t)
	assert.Empty(t, list(b.open(own)), "no sharer")
	kill := sharerProcess(t, b)
	assert.Equal(t, list(own), list(b.open(own)))
	assert.Empty(t, list(b.open(unix.CPUSet{})), "an owner of no CPUs")
	kill()
	assert.Eventually(t, func() bool {
		open := b.open(own)
		return open.Count() == 0
	}, time.Minute, time.Millisecond, "the sharer has ended")

	// A number that the kernel has given to another process since.
	b = testBoard(t)
	require.NoError(t, b.register(process{os.Getpid(), 1}))
	assert.Empty(t, list(b.open(own)))
}

func TestOwn(t *testing.T) {
	b := testBoard(t)
	file := filepath.Join(t.TempDir(), "starts")
	mask, err := allowed(0)
	require.NoError(t, err)
	b.visit(list(mask)[0], 7)
	require.NoError(t, Own(b, "alone", file))

	// It goes on looking until the sharer has gone.
	time.AfterFunc(50*time.Millisecond, sharerProcess(t, b))
	require.NoError(t, Own(b, "shared", file))

	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var starts []Start
	for d := json.NewDecoder(f); d.More(); {
		var s Start
		require.NoError(t, d.Decode(&s))
		starts = append(starts, s)
	}
	require.Len(t, starts, 2)
	assert.Equal(t, "alone", starts[0].Name)
	assert.Equal(t, list(mask), starts[0].CPUs)
	assert.Equal(t, Time(7), starts[0].Last[list(mask)[0]])
	assert.Empty(t, starts[0].Open)
	assert.Equal(t, list(mask), starts[1].Open)
	assert.Greater(t, starts[1].Closed, starts[1].Looked)
	assert.GreaterOrEqual(t, starts[1].Looked, Began)
}
