// SPDX-License-Identifier: Apache-2.0

// Package scenarios drives our CPU manager and the kubelet's own through the
// kubelet's interface, over the nodes, pods and events of package scenario.
//
// A scenario is first played on ours (trace), which decides what the topology
// manager would have decided, and then the same calls on the kubelet's own, in
// a child process (child, compare). After each call the outcomes are compared:
// hints, verdict, the CPUs of all containers and pods, the node shared pool.
//
// A difference must be explained (explain). A plain model decides by the rules
// (model), with or without each of the faults that the kubelet's own manager is
// known for (faults). Without any it must decide as ours did, and with the
// smallest set of faults that does, exactly as the kubelet's own did; the
// difference is counted under these. A difference in which either is not the
// case fails the test with the scenario as a script.
package scenarios

import "github.com/go-logr/logr"

// quiet keeps the managers' logs of every step out of the output.
var quiet = logr.Discard()
