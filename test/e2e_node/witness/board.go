// SPDX-License-Identifier: Apache-2.0

// Package witness finds out whether CPUs that belong to one container run
// another container's task.
//
// Sharers are containers of a shared pool. A sharer spins over all CPUs of the
// machine: it asks the kernel to run on each, and where it was let it writes the
// time on a board, a file that all containers have mapped (Sweep). So the board
// tells for each CPU when a sharer ran on it last, and every CPU of a pool is
// used, which no scheduler would promise of ordinary load.
//
// Owners are containers with exclusive CPUs. An owner takes the time as its
// first act, looks which of its CPUs the kernel still allows to a sharer, and
// appends what it found to a file (Own). Whether a sharer ran on one of them
// later is on the board for as long as the owner lives.
//
// The two look at one thing from two sides: a visit later than the owner's first
// act is a task that did run there; an affinity mask is one that might have.
//
// Limits: only registered sharers are seen; the system's own processes, which no
// CPU manager moves, are not. Sharers and owners need the machine's PID
// namespace (hostPID). The clock is CLOCK_MONOTONIC, the same in all containers.
// A Go program's first act comes after its runtime has started: see Began.
package witness

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of the board. The kernel's CPU masks in golang.org/x/sys end at 1024.
const (
	maxCPUs    = 1024
	maxSharers = 1024
)

// words is the layout of the file. Every word is written atomically.
type words struct {
	visits  [maxCPUs]atomic.Int64 // when a sharer ran there last, ns; 0: never
	count   atomic.Int64          // of sharers
	sharers [maxSharers]struct{ pid, started atomic.Int64 }
}

// Board is the file that sharers and owners have in common.
type Board struct{ w *words }

// Time is CLOCK_MONOTONIC in nanoseconds.
type Time int64

// Now reads the clock.
func Now() Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every Linux has this clock
	}
	return Time(ts.Nano())
}

// Sub is the time from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Began is when this package was initialised, which is before main's own
// packages are. The Go runtime has started by then; its start is what an owner
// does not see.
var Began = Now()

// Open maps the board, and makes it if it is not there.
func Open(file string) (*Board, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(words{}))
	// A file of zeros is an empty board, and growing it twice to the same size
	// does nothing, so those who come first need no agreement.
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", file, err)
	}
	return &Board{(*words)(unsafe.Pointer(&mem[0]))}, nil
}

// visit notes that a sharer ran on a CPU. Sharers may be several, and the latest
// of them counts.
func (b *Board) visit(cpu int, t Time) {
	for {
		last := b.w.visits[cpu].Load()
		if last >= int64(t) || b.w.visits[cpu].CompareAndSwap(last, int64(t)) {
			return
		}
	}
}

// Visit is when a sharer ran on a CPU last; 0 if none ever did.
func (b *Board) Visit(cpu int) Time { return Time(b.w.visits[cpu].Load()) }

// Visits are all CPUs that a sharer ever ran on.
func (b *Board) Visits() map[int]Time {
	visits := map[int]Time{}
	for cpu := range maxCPUs {
		if t := b.Visit(cpu); t != 0 {
			visits[cpu] = t
		}
	}
	return visits
}

// process is a process that no later one with the same number is taken for.
type process struct {
	pid     int
	started int64 // field 22 of /proc/PID/stat
}

// register adds a sharer.
func (b *Board) register(p process) error {
	i := b.w.count.Add(1) - 1
	if i >= maxSharers {
		return fmt.Errorf("the board has room for %d sharers", maxSharers)
	}
	// The number last: a reader that sees it sees the rest.
	b.w.sharers[i].started.Store(p.started)
	b.w.sharers[i].pid.Store(int64(p.pid))
	return nil
}

// sharers are all that ever registered, ended ones included.
func (b *Board) sharers() []process {
	var all []process
	for i := range min(b.w.count.Load(), maxSharers) {
		s := &b.w.sharers[i]
		if pid := s.pid.Load(); pid != 0 {
			all = append(all, process{int(pid), s.started.Load()})
		}
	}
	return all
}
