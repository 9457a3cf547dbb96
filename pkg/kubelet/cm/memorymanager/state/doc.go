// SPDX-License-Identifier: Apache-2.0

// Package state keeps what the memory manager has given to pods, durably.
//
// A Store changes as a whole: Replace takes the complete new records, writes
// one file, and publishes them only when the file is safely on the disk. If it
// cannot be written, the old records stay, in the file and in memory. Readers
// get copies of published records.
//
// # The file
//
// The file is the one of Kubernetes 1.37, memory_manager_state, in its third
// version: a string "data" with the policy's name, the machine state, the
// containers' and the pods' blocks, under a checksum of its own, beside a copy
// of all but the pods' blocks that older kubelets read. The second and the
// first version are read too. The checksum of the copy is one of a dump of the
// Go types; therefore the names of this package, of the types and of their
// fields, and the fields' order, must stay as they are.
//
// The blocks are the truth. The machine state in the file is derived from them
// when it is written and only informs; when it is read it is not looked at, so
// a machine or a configuration that has changed does not invalidate the file.
//
// A container with an empty list of blocks is a standard init container that
// has ended and given its memory back; see package memplan.
package state
