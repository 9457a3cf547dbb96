// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Start is what an owner saw of its own start.
type Start struct {
	Name  string       `json:"name"`
	PID   int          `json:"pid"`
	Began Time         `json:"began"` // its first act
	CPUs  []int        `json:"cpus"`  // what the kernel allows it
	Last  map[int]Time `json:"last"`  // the board's visits of these, just after
	// Open are its CPUs that the kernel still allowed to a sharer when it looked,
	// which was at Looked; Closed is when none was any more.
	Open   []int `json:"open,omitempty"`
	Looked Time  `json:"looked"`
	Closed Time  `json:"closed"`
}

// How an owner waits for its CPUs to be its own.
const (
	lookEvery = 5 * time.Millisecond
	lookLimit = 20 * time.Second
)

// Own records the start of an owner: one line, appended to a file when none of
// its CPUs is open to a sharer any more, or lookLimit is over.
func Own(b *Board, name, file string) error {
	s := Start{Name: name, PID: unix.Getpid(), Began: Began, Last: map[int]Time{}}
	own, err := allowed(0)
	if err != nil {
		return err
	}
	open := b.open(own)
	s.Looked = Now()
	s.CPUs, s.Open = list(own), list(open)
	for _, cpu := range s.CPUs {
		s.Last[cpu] = b.Visit(cpu)
	}
	for s.Closed = Now(); open.Count() > 0; open = b.open(own) {
		if s.Closed.Sub(s.Looked) > lookLimit {
			break
		}
		time.Sleep(lookEvery)
		s.Closed = Now()
	}
	return appendLine(file, s)
}

// open are the CPUs of a set that the kernel allows to a sharer.
func (b *Board) open(own unix.CPUSet) unix.CPUSet {
	var open unix.CPUSet
	for _, p := range b.sharers() {
		mask, err := allowed(p.pid)
		if err != nil {
			continue // it has ended
		}
		var both unix.CPUSet
		for i := range both {
			both[i] = own[i] & mask[i]
		}
		if both.Count() == 0 {
			continue
		}
		// Only now, because it is slow: is that number still the sharer's?
		if started, err := startTime(p.pid); err != nil || started != p.started {
			continue
		}
		for i := range open {
			open[i] |= both[i]
		}
	}
	return open
}

// appendLine adds a line to a file that others add lines to.
func appendLine(file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(data, '\n')); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", file, err)
	}
	return f.Close()
}
