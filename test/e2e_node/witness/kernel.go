// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
	"k8s.io/utils/cpuset"
)

func getcpu(cpu *uint32) {
	unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(cpu)), 0, 0)
}

// onlineCPUs are the machine's CPUs, in no container's view.
func onlineCPUs() ([]int, error) {
	data, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	set, err := cpuset.Parse(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, fmt.Errorf("online CPUs: %w", err)
	}
	return set.List(), nil
}

// allowed are the CPUs that the kernel lets a thread run on; 0 is the caller.
func allowed(pid int) (unix.CPUSet, error) {
	var set unix.CPUSet
	err := unix.SchedGetaffinity(pid, &set)
	return set, err
}

func list(set unix.CPUSet) []int {
	var cpus []int
	for cpu := range maxCPUs {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// startTime returns field 22 of /proc/PID/stat, in ticks since boot; an error for
// a process that has ended, zombies included. The command's name, field 2, is in
// parentheses and may hold anything, so counting starts behind it.
func startTime(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	text := string(data)
	f := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(f) < 20 {
		return 0, fmt.Errorf("process %d: stat has %d fields behind the name, want 20", pid, len(f))
	}
	if f[0] == "Z" || f[0] == "X" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseInt(f[19], 10, 64)
}
