// SPDX-License-Identifier: Apache-2.0

// Command pagewitness runs in containers on an emulated node, writes memory and
// tells on which NUMA nodes its pages lie (package numamaps).
//
//	pagewitness -out file -small 67108864 -huge 16777216
//
// Its pages are to be interleaved over all nodes of the machine. The kernel does
// so as far as the container's cpuset lets it. Without that, pages lie where the
// CPU is that writes them first, which is the right node by itself for a
// container whose CPUs are on one, whether its memory is bound or not.
//
// The result appears in the file in one piece, and the program then keeps its
// memory until the pod's end ends it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/podslice/podslice/test/e2e_node/numamaps"
)

// interleave is MPOL_INTERLEAVE of set_mempolicy(2).
const interleave = 3

const (
	smallPage = 4 << 10
	hugePage  = 2 << 20
)

func init() {
	// A memory policy is a thread's. main stays on the process's first thread,
	// which is also the one that numa_maps tells the policy of.
	runtime.LockOSThread()
}

func main() {
	out := flag.String("out", "", "the file for the result")
	small := flag.Int64("small", 0, "bytes of ordinary pages")
	huge := flag.Int64("huge", 0, "bytes of hugepages of 2Mi")
	flag.Parse()
	result, err := run(*small, *huge)
	if err != nil {
		result.Error = err.Error()
	}
	if err := write(*out, result); err != nil {
		fmt.Fprintln(os.Stderr, "pagewitness:", err)
		os.Exit(1)
	}
	// Also when it failed: a container that is started again and again would only
	// keep everybody waiting.
	for {
		unix.Pause()
	}
}

func run(small, huge int64) (r numamaps.Result, err error) {
	// The kernel may have no page for memory that it let us map, and says so with
	// a signal when we write.
	debug.SetPanicOnFault(true)
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("writing memory: %v", fault)
		}
	}()
	// All nodes that a word has bits for: those that are not there do not count.
	nodes := ^uint64(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, interleave, uintptr(unsafe.Pointer(&nodes)), 65); errno != 0 {
		return r, fmt.Errorf("set_mempolicy: %w", errno)
	}
	smallAt, err := smallPages(small)
	if err != nil {
		return r, err
	}
	hugeAt, err := hugePages(huge)
	if err != nil {
		return r, err
	}
	text, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		return r, err
	}
	if small > 0 {
		m, err := numamaps.Find(string(text), smallAt)
		if err != nil {
			return r, err
		}
		r.Small = &m
	}
	if huge > 0 {
		m, err := numamaps.Find(string(text), hugeAt)
		if err != nil {
			return r, err
		}
		r.Huge = &m
	}
	return r, nil
}

// smallPages maps and writes ordinary pages. Pages that nobody may touch are
// left on both sides, since the kernel makes one of mappings that are neighbours
// and alike; and none are joined to huge ones, so that each is placed for itself.
func smallPages(bytes int64) (uint64, error) {
	if bytes == 0 {
		return 0, nil
	}
	all, err := unix.Mmap(-1, 0, int(bytes)+2*smallPage, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, fmt.Errorf("mmap of %d bytes: %w", bytes, err)
	}
	memory := all[smallPage : len(all)-smallPage]
	if err := unix.Mprotect(memory, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return 0, fmt.Errorf("mprotect: %w", err)
	}
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil {
		return 0, fmt.Errorf("madvise: %w", err)
	}
	touch(memory, smallPage)
	return start(memory), nil
}

func hugePages(bytes int64) (uint64, error) {
	if bytes == 0 {
		return 0, nil
	}
	memory, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_HUGETLB|unix.MAP_HUGE_2MB)
	if err != nil {
		return 0, fmt.Errorf("mmap of %d bytes of hugepages: %w", bytes, err)
	}
	touch(memory, hugePage)
	return start(memory), nil
}

func touch(memory []byte, page int) {
	for i := 0; i < len(memory); i += page {
		memory[i] = 1
	}
}

func start(memory []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))) }

// write renames the file when it is whole: somebody waits for it.
func write(file string, r numamaps.Result) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	part := file + ".part"
	if err := os.WriteFile(part, data, 0o644); err != nil {
		return err
	}
	return os.Rename(part, file)
}
