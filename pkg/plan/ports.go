// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"

	v1 "k8s.io/api/core/v1"
)

// hostPort is a port of the host on one of its addresses.
type hostPort struct {
	ip       string
	protocol v1.Protocol
	port     int32
}

const anyAddress = "0.0.0.0"

// PortsError refuses a pod whose host ports others have. Reason and text are the
// kubelet's.
type PortsError struct{}

// Type is the reason in the pod's status.
func (PortsError) Type() string { return "NodePorts" }

func (PortsError) Error() string {
	return "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
}

// hostPorts are those of the containers that run until the pod ends.
func hostPorts(pod *v1.Pod) []hostPort {
	var ports []hostPort
	add := func(c v1.Container) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				ports = append(ports, hostPort{cmp.Or(p.HostIP, anyAddress), cmp.Or(p.Protocol, v1.ProtocolTCP), p.HostPort})
			}
		}
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for _, c := range pod.Spec.Containers {
		add(c)
	}
	return ports
}

// portsFree is nil if nobody has the ports. A port on every address is the same as
// that port on any of them.
func (n Node) portsFree(ports []hostPort) error {
	for _, p := range ports {
		for used := range n.ports {
			if p.protocol == used.protocol && p.port == used.port && (p.ip == used.ip || p.ip == anyAddress || used.ip == anyAddress) {
				return PortsError{}
			}
		}
	}
	return nil
}

func (n Node) withPorts(ports []hostPort) map[hostPort]bool {
	if len(ports) == 0 {
		return n.ports
	}
	all := maps.Clone(n.ports)
	if all == nil {
		all = map[hostPort]bool{}
	}
	for _, p := range ports {
		all[p] = true
	}
	return all
}
