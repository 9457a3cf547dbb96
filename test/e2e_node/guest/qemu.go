// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"strings"
)

// NUMA distances in the firmware's table: within a node, to another node of the
// same socket, to another socket.
const (
	distanceLocal  = 10
	distanceSocket = 12
	distanceRemote = 21
)

// machineArgs are the QEMU arguments that follow from a shape.
func machineArgs(s Shape) []string {
	dies := ""
	if s.Caches > 1 {
		// The cores of a die share an L3 cache.
		dies = fmt.Sprintf("dies=%d,", s.Caches)
	}
	args := []string{
		"-machine", "q35",
		// /dev/kvm may exist and yet hang a guest, so it is not even tried. One
		// thread for all CPUs: with one each, a CPU may translate an instruction
		// while another patches it and keep what it saw. Linux patches its code when
		// the first cgroup gets a CFS quota, and guests hung in the breakpoint that
		// was long gone. On two cores the emulation is no slower for it.
		"-accel", "tcg,thread=single",
		// Plain "max" is an AMD model, which shows the guest no siblings and one
		// L3 cache per CPU. With Intel's name it shows both as they are.
		"-cpu", "max,vendor=GenuineIntel",
		"-smp", fmt.Sprintf("%d,sockets=%d,%scores=%d,threads=%d", s.CPUs(), s.Sockets, dies, s.socketCores(0)/s.Caches, s.Threads),
		"-m", fmt.Sprintf("%dM", s.Total()>>20),
	}
	first := 0
	for node := range s.Nodes {
		cpus := ""
		if n := s.CPUsOf(node); n > 0 {
			cpus = fmt.Sprintf("cpus=%d-%d,", first, first+n-1)
			first += n
		}
		args = append(args,
			"-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM,reserve=off", node, s.MemoryOf(node)>>20),
			"-numa", fmt.Sprintf("node,nodeid=%d,%smemdev=m%d", node, cpus, node))
	}
	if s.Nodes == 1 {
		return args
	}
	// All pairs or none: QEMU refuses a table with holes.
	for a := range s.Nodes {
		for b := range s.Nodes {
			args = append(args, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", a, b, s.distance(a, b)))
		}
	}
	return args
}

func (s Shape) distance(a, b int) int {
	switch {
	case a == b:
		return distanceLocal
	case s.SocketOf(a) == s.SocketOf(b):
		return distanceSocket
	}
	return distanceRemote
}

// kernelArgs is the guest kernel's command line. Emulated time passes in jumps,
// which watchdogs and stall detectors would take for faults. tsc is the speed of
// the time stamp counter, see tscKHz.
func kernelArgs(key string, tsc int) string {
	return strings.Join([]string{
		"console=ttyS0", "loglevel=7", "panic=-1",
		"mitigations=off", "nowatchdog", "rcupdate.rcu_cpu_stall_suppress=1",
		"audit=0", "apparmor=0", "tsc=reliable", fmt.Sprintf("tsc_early_khz=%d", tsc), "net.ifnames=0",
		"systemd.unified_cgroup_hierarchy=1",
		"podslice.key=" + key,
	}, " ")
}

// bootArgs are the QEMU arguments for disks, console and network. root and disk
// are raw ext4 images; port is the loopback port that leads to the guest's sshd.
func bootArgs(a Assets, disk, console, key string, port int) []string {
	drive := func(file string) string {
		return "file=" + escape(file) + ",format=raw,if=virtio,snapshot=on,cache=unsafe"
	}
	return []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-chardev", "file,id=console,path=" + escape(console),
		"-serial", "chardev:console",
		"-kernel", a.kernel(), "-initrd", a.initrd(),
		"-append", kernelArgs(key, tscKHz()),
		"-drive", drive(a.root()),
		"-drive", drive(disk),
		"-device", "virtio-rng-pci",
		"-nic", fmt.Sprintf("user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:%d-:22", port),
	}
}

// escape doubles commas, which separate QEMU's options.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }
