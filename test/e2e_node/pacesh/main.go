// SPDX-License-Identifier: Apache-2.0

// Command pacesh is the shell of the image that upstream's node e2e suite runs on
// an emulated node. Its specs have containers sleep for some seconds while they
// look at them, and on an emulated machine looking takes many times as long. So
// each sleep of a whole number of seconds in the command takes ten times as long.
// The command is then busybox's.
package main

import (
	"fmt"
	"os"
	"regexp"
	"syscall"
)

const (
	busybox = "/bin/busybox"
	factor  = "0" // a digit more
)

var sleeps = regexp.MustCompile(`\bsleep ([1-9][0-9]*)\b`)

// paced is a command with longer sleeps. Where a unit follows the number, as in
// 1d, the sleep is long enough.
func paced(command string) string { return sleeps.ReplaceAllString(command, "sleep ${1}"+factor) }

func main() {
	args := append([]string{"sh"}, os.Args[1:]...)
	if len(args) > 2 && args[1] == "-c" {
		args[2] = paced(args[2])
	}
	err := syscall.Exec(busybox, args, os.Environ())
	fmt.Fprintf(os.Stderr, "sh: %s: %v\n", busybox, err)
	os.Exit(127)
}
