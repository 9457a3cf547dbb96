// SPDX-License-Identifier: Apache-2.0

// Package guest boots an emulated NUMA machine and drives it.
//
// The machine is a QEMU guest under software emulation, so it needs neither
// NUMA hardware nor /dev/kvm, and runs inside a container. A Shape says what it
// looks like: sockets, NUMA nodes, cores, threads and memory. Memory is not
// reserved on the host, so a guest may have far more than the host as long as
// it does not touch it.
//
// The guest's root is a Debian with systemd and sshd, made once by Prepare and
// kept; see root.go. What is under test comes on a second disk that Boot makes
// from a list of files, mounted read-only at DiskMount. Both disks are used as
// snapshots: every boot starts from the same state and leaves none behind.
//
//	assets, err := guest.Prepare(ctx, "_output", log)
//	g, err := guest.Boot(ctx, guest.Config{Assets: assets, Shape: guest.DefaultShape, ...})
//	defer g.Close()
//	out, err := g.Output(ctx, "lscpu -e")
//
// The guest is reached over ssh on a free port of the loopback interface, with
// a key made for this boot and the host key of the root. It has no other way to
// the network.
//
// A guest ends with the context that it was booted with, with Close, or with
// this process, however that ends. Only one guest runs at a time per output
// folder: two would starve each other on a small machine.
//
// Limits: x86-64 Linux host, run as root (the root is made with mmdebstrap in
// root mode). Emulation is slow: what takes a second elsewhere takes ten here,
// and waits must poll for a state instead of hoping for a time.
package guest
