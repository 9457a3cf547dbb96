// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Share makes this process a sharer and does not return but for an error. It
// pauses between two rounds over the CPUs; 0 is a spinning one. The caller is on
// the process's first thread, whose affinity is left alone: it is what the
// kernel allows the container, and what owners look at.
func Share(b *Board, pause time.Duration) error {
	started, err := startTime(unix.Getpid())
	if err != nil {
		return err
	}
	if err := b.register(process{unix.Getpid(), started}); err != nil {
		return err
	}
	failed := make(chan error)
	go func() { failed <- sweep(b, pause) }()
	return <-failed
}

// sweep visits every CPU that the kernel lets it, round after round.
func sweep(b *Board, pause time.Duration) error {
	runtime.LockOSThread() // for good: the thread's affinity is its own
	online, err := onlineCPUs()
	if err != nil {
		return err
	}
	for {
		for _, cpu := range online {
			var one unix.CPUSet
			one.Set(cpu)
			// EINVAL: not in this container's cpuset.
			if err := unix.SchedSetaffinity(0, &one); err == unix.EINVAL {
				continue
			} else if err != nil {
				return fmt.Errorf("affinity to CPU %d: %w", cpu, err)
			}
			// When the cpuset changes, the kernel moves this thread and forgets the
			// affinity. If it is still there after the clock was read, then the
			// kernel let it be there at that time or later.
			if t := Now(); currentCPU() == cpu {
				b.visit(cpu, t)
			}
		}
		if pause > 0 {
			ts := unix.NsecToTimespec(int64(pause))
			unix.Nanosleep(&ts, nil)
		}
	}
}

// currentCPU is the CPU that the calling thread runs on.
func currentCPU() int {
	var cpu uint32
	// golang.org/x/sys has no wrapper. It cannot fail with a valid address.
	getcpu(&cpu)
	return int(cpu)
}
