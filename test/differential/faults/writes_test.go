// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"
)

// replacements is how often files of the node's state directory are replaced
// meanwhile, by name. The kernel tells each time.
func (n *node) replacements(meanwhile func()) map[string]int {
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK)
	must(err)
	defer func() { _ = syscall.Close(fd) }()
	// Equal events in a row become one; the other half of a replacement, with the
	// name of a temporary file, stands between them.
	_, err = syscall.InotifyAddWatch(fd, n.dir, syscall.IN_MOVED_TO|syscall.IN_MOVED_FROM)
	must(err)
	meanwhile()
	count := map[string]int{}
	buffer := make([]byte, 64<<10)
	size, err := syscall.Read(fd, buffer)
	if errors.Is(err, syscall.EAGAIN) {
		return count
	}
	must(err)
	for events := buffer[:size]; len(events) > 0; {
		length := int(binary.NativeEndian.Uint32(events[12:syscall.SizeofInotifyEvent]))
		name := events[syscall.SizeofInotifyEvent : syscall.SizeofInotifyEvent+length]
		count[string(bytes.TrimRight(name, "\x00"))]++
		events = events[syscall.SizeofInotifyEvent+length:]
	}
	return count
}
