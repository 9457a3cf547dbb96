// SPDX-License-Identifier: Apache-2.0

// Package cpumanager gives containers CPUs of their own. It takes the place of
// the kubelet's package of the same name and has the same exported surface.
//
// What is decided is decided in cpuplan; this package owns what surrounds a
// decision: reading pods and feature gates, the lock, the state file, metrics,
// logs, and bringing the cpusets of running containers in line.
//
// An admission is a transaction. The topology manager begins it, the CPUs that
// it takes are staged, and committing it writes the state file once and
// publishes the CPUs then. A topology manager that begins no transaction gets
// each allocation written and published at once.
//
// What is published is where containers belong. The updater, alone, brings those
// that run there, and the start of a container waits until the CPUs that it is to
// have for itself are left by others.
package cpumanager
