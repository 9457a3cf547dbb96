// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"strings"
)

// Device is the extended resource whose devices OfferDevices offers.
const Device = "podslice.dev/card"

const devicesUnit = "deviceplugin.service"

// OfferDevices starts a device plugin with a device on each of the NUMA nodes that
// are listed, which may repeat. The kubelet that runs, and those after it, get to
// know them at some time: WaitDevices.
func (n *Node) OfferDevices(ctx context.Context, nodes []int) error {
	_, err := n.Guest.Output(ctx, fmt.Sprintf("%s && mkdir -p /var/lib/kubelet/device-plugins && systemd-run -q --unit=%s %s/deviceplugin -resource %s -nodes %s",
		stopDevices, devicesUnit, bin, Device, strings.Trim(strings.ReplaceAll(fmt.Sprint(nodes), " ", ","), "[]")))
	return err
}

// stopDevices ends the plugin, if it runs.
var stopDevices = stopUnit(devicesUnit)

// WaitDevices waits until the kubelet knows so many devices.
func (n *Node) WaitDevices(ctx context.Context, count int) error {
	err := poll(ctx, fmt.Sprintf("the kubelet to know %d devices", count), limitRunning, func(ctx context.Context) (bool, error) {
		if err := n.kubeletAlive(ctx); err != nil {
			return false, err
		}
		r, err := n.Report(ctx)
		return err == nil && len(r.Devices[Device]) == count, nil
	})
	return n.explain(ctx, err)
}
