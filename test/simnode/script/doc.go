// SPDX-License-Identifier: Apache-2.0

// Package script runs what happens on a simulated node, written as the commands
// of golden scripts. Everything that a test makes up in these commands can be
// printed and replayed as a script.
//
//	node nodes=N cores=N threads=N memory=Q [hugepages=N] reserved=(CPUs)
//	  [policy=P] [scope=S] [cpu-policy=P] [memory-policy=P] [gates=off]
//	  [full-pcpus-only] [strict]
//	  [option=(O,...)]: options of the CPU manager by their full name
//	  [max-numa-nodes=N] [prefer-closest] [tie-break=V] [locality]: options of the
//	  topology manager
//	  [device=(NAME@NODE,...)]: what device plugins offer
//	  reserve=N in place of reserved: the CPU manager chooses the CPUs
//	  [reserved-memory=Q]: on the first NUMA node that has some; 1Gi if never given
//	  [period=D]: the CPU manager's reconcile period
//	node machine=NAME [offline=(CPUs)] ...
//	  the same on a machine of the catalogue; hugepages are on every node that
//	  has memory
//	node ...
//	  the same on a machine that is written below, in the format of package machine
//	machine
//	  what the managers read of the machine
//	restart [policy=P] [scope=S] [gates=on|off] [reserved=(CPUs)] [offline=(CPUs)] ...
//	  a new kubelet, with the CPU manager's options that are given here, admits
//	  all pods again; says what moved or was written. The machine is another one if
//	  one is written below, or given as for node
//	  [lost=(NAME,...)]: pods whose containers the runtime has lost
//	  [terminating=(NAME,...)]: pods that are not admitted again, since they are on
//	  their way out
//	  [mute]: the runtime does not tell about containers; mute=off
//	  [plain]: the topology manager's options are gone, too
//	admit
//	  a pod as simnode.ParsePod reads it
//	crash [cpu=N|all] [memory=N|all]
//	  the same, but the kubelet dies when so many containers of the pod are in each
//	  state file, after the pod itself; "none" is a file without the pod. Then a
//	  new kubelet starts, which has the pod.
//	start NAME [CONTAINER] [until=CONTAINER]: starts all containers, in order, or one,
//	  or those before one; again if they have been started before
//	remove NAME, state
//	vanish NAME: the pod goes and nobody tells the managers
//	restart-containers NAME: the application containers are started again
//	resize NAME
//	  the kubelet asks whether the pod may become the one that is written below, and
//	  if so it is that one from now on; as it is without that
//	wait D: so much time passes
//	break [cpu] [memory]: these state files cannot be written, the others can
//	affinity: what the topology manager tells about the pods' containers
//	calls: what the device provider was asked to allocate since the last time
//
// After a command that no kubelet has survived, only restart makes sense.
package script
