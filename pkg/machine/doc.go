// SPDX-License-Identifier: Apache-2.0

// Package machine describes machines as data: CPUs, caches, sockets, NUMA nodes
// and their memory. A Machine is a value. It can be written down as YAML
// (Parse, Machine.YAML), derived from another one (Without), turned into what cAdvisor would
// report of it (MachineInfo), and read back from such a report
// (FromMachineInfo). Package catalog has machines of many shapes.
//
// Nothing here assumes that units of one kind have the same size, that IDs are
// dense or start at 0, or that a NUMA node has CPUs or memory.
//
// # Format
//
//	name: example
//	description: One socket with two NUMA nodes, the second without CPUs.
//	sources:
//	- name or address of a public document
//	memory: 16Gi
//	nodes:
//	- {id: 0, memory: 16Gi, hugepages: {2Mi: 512}, distances: 10 20}
//	- {id: 4, memory: 0, distances: 20 10}
//	cpus:
//	- {cpus: "0-3,8-11", threads: 2, siblings: apart, socket: 0, node: 0, cache: 0}
//	- {cpus: "4-7", socket: 0, node: 0, cache: 1}
//	caches:
//	- {ids: "0-1", size: 32Mi}
//
// Memory and page sizes are quantities, hugepages are numbers of pages. "memory"
// is that of the whole machine, for one whose nodes do not tell theirs; it may be
// missing where it is the sum of the nodes'. A
// node's distances stand in the order of the node list; "20x3" is "20 20 20".
// They may be missing on all nodes.
//
// A line of cpus is a group of equal cores. "threads" (1 by default) is how
// many CPUs a core has. With "siblings: adjacent", the default, the first core
// has the first CPUs of the list and so on; with "apart" the list is divided
// into as many equal parts as a core has threads, and the first core has the
// first CPU of each part. The cores are numbered on from the last core of their
// socket, or as "cores" says, a list like that of the CPUs. Without "cache" the
// machine does not tell which last-level cache the CPUs use. "caches" tells
// sizes and may be missing.
package machine
