// SPDX-License-Identifier: Apache-2.0

// Package source reads machines from where operators have them: this machine, a
// folder or an archive with a copy of /sys, cAdvisor's MachineInfo, a description
// in the format of package machine, the name of a machine of the catalogue, or one
// line. Read is all of it.
//
// # What is read is what the managers see
//
// In the kubelet cAdvisor makes a report of /sys, and the managers take what is in
// that. Here the same code of cAdvisor makes the same report; only its questions
// are answered from an fs.FS. So a machine has no last-level caches here if the
// kernel gives caches no IDs, sockets are NUMA nodes if the kernel has none, and a
// CPU without a core's number is not there. The notes say such things.
//
// Package machine wants the numbers of cores to differ within a socket, and no
// negative ones. Where a report is not like this, cores and sockets are numbered
// anew, which the managers would not notice, and a note says so.
//
// # What is not trusted
//
// Copies come from elsewhere. Folders are read through os.Root, so links out of
// them are not followed. Archives are unpacked into memory only, as far as they are
// about CPUs and memory, or what those are hard links to, with bounds on members,
// bytes, the length and depth of names and the links on a path; a member whose name
// leads out ends it with an error. Files that are no text, or larger than the kernel
// makes them, are errors, too. Not read are hwloc's XML and archives with xz or zip;
// their errors say so.
package source
