// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	suite        = "bookworm"
	rootDiskSize = "8G" // sparse: the host holds what is used
)

// rootPackages are what a node has beside the kubelet and the runtime. sudo and
// jq are for upstream's node e2e suite.
var rootPackages = []string{
	"systemd", "systemd-sysv", "dbus", "sudo", "openssh-server", "ca-certificates",
	"iproute2", "iptables", "nftables", "conntrack", "ethtool", "socat",
	"kmod", "procps", "util-linux", "mount", "jq",
}

// mirror is where the guest's packages come from.
func mirror() string {
	if m := os.Getenv("DEBIAN_MIRROR"); m != "" {
		return m
	}
	return "http://deb.debian.org/debian"
}

// makeTree makes the guest's root as a folder, work/root.
func makeTree(ctx context.Context, a Assets, work string, log Log) error {
	log("making the guest's Debian root (a minute)")
	root := filepath.Join(work, "root")
	args := []string{
		"--mode=root", "--variant=minbase",
		"--include=" + strings.Join(rootPackages, ","),
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--aptopt=Acquire::Retries \"3\"",
		suite, root, "deb " + mirror() + " " + suite + " main",
	}
	if err := run(ctx, a.logFile("mmdebstrap"), "mmdebstrap", args...); err != nil {
		return fmt.Errorf("mmdebstrap: %w", err)
	}
	if err := installModules(ctx, a, work, root); err != nil {
		return err
	}
	for _, f := range rootFiles {
		name := filepath.Join(root, f.path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		// The link that Debian may have put there is not to be followed out of
		// the root.
		os.Remove(name)
		if err := os.WriteFile(name, []byte(f.content), f.mode); err != nil {
			return err
		}
	}
	units := filepath.Join(root, "etc/systemd/system")
	for _, unit := range maskedUnits {
		if err := symlink("/dev/null", filepath.Join(units, unit)); err != nil {
			return err
		}
	}
	for _, unit := range enabledUnits {
		if err := symlink("/etc/systemd/system/"+unit, filepath.Join(units, "multi-user.target.wants", unit)); err != nil {
			return err
		}
	}
	key, err := os.ReadFile(filepath.Join(root, "etc/ssh/ssh_host_ed25519_key.pub"))
	if err != nil {
		return fmt.Errorf("ssh host key: %w", err)
	}
	return os.WriteFile(a.hostKey(), key, 0o644)
}

// makeRootDisk turns work/root into an ext4 image. mke2fs fills it without a
// mount, which a container may not be allowed.
func makeRootDisk(ctx context.Context, a Assets, work string, log Log) error {
	return makeDisk(ctx, a.logFile("mke2fs"), a.root(), filepath.Join(work, "root"), rootDiskSize)
}

func makeDisk(ctx context.Context, logfile, image, folder, size string) error {
	err := run(ctx, logfile, "mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard",
		"-m", "0", "-d", folder, image, size)
	if err != nil {
		return fmt.Errorf("ext4 image of %s: %w", folder, err)
	}
	return nil
}

func symlink(target, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Symlink(target, name)
}

// rootFile is a file that the guest has beside Debian's own.
type rootFile struct {
	path    string
	mode    os.FileMode
	content string
}

// DiskMount is where the guest mounts the disk with the files under test.
const DiskMount = "/opt/podslice"

// maskedUnits either wait for devices that nobody announces (there is no udev)
// or do work that a test machine has no use for.
var maskedUnits = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer",
	"e2scrub_reap.service", "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-logind.service",
	"systemd-pstore.service", "nftables.service", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service",
	"sys-kernel-debug.mount", "sys-kernel-tracing.mount", "dev-hugepages.mount", "dev-mqueue.mount",
	"systemd-random-seed.service", "systemd-journal-flush.service", "modprobe@drm.service",
}

var enabledUnits = []string{"podslice-boot.service"}

var rootFiles = []rootFile{
	{"etc/hostname", 0o644, "node1\n"},
	{"etc/hosts", 0o644, "127.0.0.1 localhost\n10.0.2.15 node1\n"},
	{"etc/resolv.conf", 0o644, "nameserver 10.0.2.3\n"},
	{"etc/fstab", 0o644, ""},
	{"etc/machine-id", 0o444, "5f0d51c3a1be4c0f9a3c0c0a1f1e0d01\n"},
	{"etc/systemd/system.conf.d/podslice.conf", 0o644, `[Manager]
# Go programs would spin one thread per emulated CPU on the few real ones.
DefaultEnvironment=GOMAXPROCS=2
DefaultTimeoutStartSec=10min
DefaultTimeoutStopSec=60s
`},
	{"etc/systemd/journald.conf.d/podslice.conf", 0o644, "[Journal]\nStorage=volatile\nRateLimitIntervalSec=0\n"},
	{"etc/ssh/sshd_config.d/podslice.conf", 0o644, `HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
MaxSessions 64
MaxStartups 64
LoginGraceTime 300
`},
	{"etc/systemd/system/podslice-boot.service", 0o644, `[Unit]
Description=Network, key and disk of the emulated node
DefaultDependencies=no
After=systemd-remount-fs.service local-fs.target
Before=ssh.service containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/podslice-boot
`},
	{"usr/local/sbin/podslice-boot", 0o755, `#!/bin/sh
# What a cloud's metadata service would do: the key comes on the kernel's
# command line, addresses are those of QEMU's user network.
set -e
key=$(sed -n 's/.*podslice\.key=\([^ ]*\).*/\1/p' /proc/cmdline)
mkdir -p -m 700 /root/.ssh
echo "ssh-ed25519 $key" > /root/.ssh/authorized_keys
for module in virtio_net virtio_rng overlay br_netfilter veth bridge; do modprobe $module; done
sysctl -q -w net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
mount -o ro /dev/vdb ` + DiskMount + `
`},
	{"opt/podslice/.keep", 0o644, ""},
}
