// SPDX-License-Identifier: Apache-2.0

// Package placement is the admission of a pod on a NUMA machine: which resource
// managers are asked what and in which order, how their answers become an
// affinity, who allocates, and what is undone when somebody refuses. The
// topology manager runs it against the kubelet's managers, the command line
// against a machine that exists only on paper; both get the same decision.
//
// It is pure: it has no lock, no clock and no log, and reaches the world through
// Provider and Recorder alone.
//
// # Procedure
//
// What is done depends on the scope, the policy and the pod:
//
//   - Scope none, or a policy that does not align: every provider allocates for
//     every container. Nobody is asked for hints.
//   - Scope container: for each container, all providers are asked for hints,
//     these are merged, the policy refuses or the affinity is recorded, and all
//     providers allocate, before the next container is looked at.
//   - Scope pod: the same with the hints for the pod as a whole, once; the
//     affinity is recorded for every container. An ordinary pod is then
//     allocated container by container. For a pod with pod-level resources each
//     provider gets one AllocatePod, and those that do not cover containers by
//     it (the device manager) get each container as well, afterwards.
//
// Containers come in the order init containers, then app containers, as in the
// pod's spec. Providers come in the order in which they are given.
//
// # All or nothing
//
// A provider that is a Participant is told when the admission begins, before
// anything else, and then exactly one of: it committed and everybody after it
// did too, or it rolled back. Commits are made in order, when all is allocated.
// Whatever refuses (a policy, an allocation, a commit), all participants are
// rolled back in reverse order, committed ones too, and recorded affinities are
// put back to what they were. Only then is the refusal returned. What providers
// without a transaction have taken stays with them. A Settler is told when all
// have committed; what it counts as taken is never taken back.
//
// # Resizes
//
// A pod that is resized already has its place. First, every Resizer is asked
// whether the resize would change what the pod has of it; if so for any, the
// resize is refused, and nobody is asked for anything else. Otherwise providers
// are asked and called as always, but the policy does not refuse, no affinity is
// recorded and no transaction opened, so there is nothing to undo.
//
// # Pods that have their place
//
// A pod whose allocations are all on record, with every provider that keeps
// records and of which it needs something (Holder), is not refused by the
// policy, whatever the hints say: the kubelet admits its running pods again when
// it starts, and a policy or a machine that changed meanwhile must not end them.
// The merged affinity is recorded as the best that there is.
//
// # Refusals
//
// An AffinityRefusal has all facts as values: the resources that stood in the
// way, what providers that are Reporters say was asked and what each node has,
// the policy, and what would help. Its Details are one line for the pod's status;
// a command line prints the values as it likes.
//
// What would help is tried before it is said: less of a resource, more of it free,
// another scope or policy. A trial is the same procedure over providers that a Trier
// makes for it, with the change, and nothing comes of it. Providers that are no Trier
// answer in it what they answered before, where that tells enough.
//
// # Example
//
// A machine with the NUMA nodes 0-1, policy single-numa-node, scope pod, a pod
// with pod-level resources and the containers app and log. CPUs fit on node 0
// or 1, memory on node 1:
//
//	begin cpu, begin memory
//	pod hints: cpu {0} or {1} preferred; memory {1} preferred; devices don't care
//	merged: {1} preferred; recorded for app and log
//	AllocatePod devices, cpu, memory
//	Allocate devices app, devices log
//	commit cpu, commit memory
//
// If memory refused in the third line from below, what follows would be: roll
// back memory, roll back cpu, forget the affinity of log and app.
package placement
