// SPDX-License-Identifier: Apache-2.0

// Command cpuwitness runs in containers on an emulated node and finds out
// whether exclusive CPUs run another container's task (package witness).
//
//	cpuwitness -dir /witness share [pause]   a container of a shared pool
//	cpuwitness -dir /witness own name        one with exclusive CPUs
//	cpuwitness -dir /witness await 2-23      waits until sharers have been on all of these
//	cpuwitness -dir /witness board           prints when they were where last
//
// await and board run beside the containers and print JSON.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/e2e_node/witness"
)

// awaitLimit is for the pool to grow back, which takes the CPU manager up to a
// reconcile period once it knows that a pod has gone, on a machine that may be busy.
const awaitLimit = 8 * time.Minute

func init() {
	// main stays on the process's first thread, see witness.Share.
	runtime.LockOSThread()
}

func main() {
	dir := flag.String("dir", ".", "the folder that all containers share")
	flag.Parse()
	if err := run(*dir, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "cpuwitness:", err)
		os.Exit(1)
	}
}

func run(dir, verb, argument string) error {
	board, err := witness.Open(filepath.Join(dir, "board"))
	if err != nil {
		return err
	}
	switch verb {
	case "share":
		var pause time.Duration
		if argument != "" {
			if pause, err = time.ParseDuration(argument); err != nil {
				return err
			}
		}
		return witness.Share(board, pause)
	case "own":
		if err := witness.Own(board, argument, filepath.Join(dir, "starts")); err != nil {
			return err
		}
		for {
			unix.Pause() // the pod's end ends it
		}
	case "await":
		return await(board, argument)
	case "board":
		return print(board)
	}
	return fmt.Errorf("%q: want share, own, await or board", verb)
}

// await waits until sharers have been on every CPU of a list since it was
// called, and prints the board.
func await(board *witness.Board, list string) error {
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return err
	}
	if cpus.IsEmpty() {
		return errors.New("await: no CPUs")
	}
	since := witness.Now()
	for {
		var missing []int
		for _, cpu := range cpus.List() {
			if board.Visit(cpu) < since {
				missing = append(missing, cpu)
			}
		}
		if len(missing) == 0 {
			return print(board)
		}
		if witness.Now().Sub(since) > awaitLimit {
			return fmt.Errorf("no sharer has been on CPUs %s within %s", cpuset.New(missing...), awaitLimit)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func print(board *witness.Board) error {
	return json.NewEncoder(os.Stdout).Encode(witness.Reading{Now: witness.Now(), Visits: board.Visits()})
}
