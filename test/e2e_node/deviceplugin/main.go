// SPDX-License-Identifier: Apache-2.0

// Command deviceplugin runs on an emulated node and offers the kubelet devices
// that do nothing but lie on NUMA nodes, which is all that the managers know of a
// device. A container that gets some has their names in its environment.
//
// It serves until it is ended, over any number of kubelets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podslice/podslice/test/e2e_node/report"
)

// lookPeriod is how often the plugin looks whether another kubelet has started,
// which removes the sockets of plugins.
const lookPeriod = time.Second

func main() {
	resource := flag.String("resource", "", "name of the extended resource")
	nodes := flag.String("nodes", "", "NUMA node of each device: 0,0,1")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	list, err := parseNodes(*nodes)
	if err == nil && *resource == "" {
		err = errors.New("-resource is missing")
	}
	if err == nil {
		err = offer(ctx, *resource, list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "deviceplugin:", err)
		os.Exit(1)
	}
}

// parseNodes makes a device for each NUMA node that is listed. Their names tell
// where they lie: "node1-0" is the first on NUMA node 1.
func parseNodes(text string) ([]*devices.Device, error) {
	var list []*devices.Device
	count := map[int64]int{}
	for _, word := range strings.Split(text, ",") {
		node, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		if err != nil || node < 0 {
			return nil, fmt.Errorf("-nodes %q: %q is no NUMA node", text, word)
		}
		list = append(list, &devices.Device{
			ID:       fmt.Sprintf("node%d-%d", node, count[node]),
			Health:   devices.Healthy,
			Topology: &devices.TopologyInfo{Nodes: []*devices.NUMANode{{ID: node}}},
		})
		count[node]++
	}
	return list, nil
}

// offer serves the devices to one kubelet after the other until the context ends.
func offer(ctx context.Context, resource string, list []*devices.Device) error {
	name := strings.ReplaceAll(resource, "/", "-") + ".sock"
	socket := devices.DevicePluginPath + name
	var server *grpc.Server
	defer func() {
		if server != nil {
			server.Stop()
		}
	}()
	for {
		_, err := os.Stat(socket)
		if errors.Is(err, fs.ErrNotExist) {
			if server != nil {
				server.Stop()
				server = nil
			}
			if server, err = serve(socket, list); err == nil {
				err = register(ctx, name, resource)
			}
			// The kubelet may be about to start, or to end: there is a next time.
			if err != nil {
				fmt.Fprintln(os.Stderr, "deviceplugin:", err)
				os.Remove(socket)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookPeriod):
		}
	}
}

func serve(socket string, list []*devices.Device) (*grpc.Server, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	devices.RegisterDevicePluginServer(server, &plugin{list: list})
	go server.Serve(listener)
	return server, nil
}

func register(ctx context.Context, name, resource string) error {
	conn, err := grpc.NewClient("unix://"+devices.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = devices.NewRegistrationClient(conn).Register(ctx, &devices.RegisterRequest{
		Version: devices.Version, Endpoint: name, ResourceName: resource,
	})
	return err
}

// plugin is the service that the kubelet calls.
type plugin struct {
	devices.UnimplementedDevicePluginServer
	list []*devices.Device
}

func (p *plugin) GetDevicePluginOptions(context.Context, *devices.Empty) (*devices.DevicePluginOptions, error) {
	return &devices.DevicePluginOptions{}, nil
}

// ListAndWatch tells what there is, once: nothing ever changes.
func (p *plugin) ListAndWatch(_ *devices.Empty, stream grpc.ServerStreamingServer[devices.ListAndWatchResponse]) error {
	if err := stream.Send(&devices.ListAndWatchResponse{Devices: p.list}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, req *devices.AllocateRequest) (*devices.AllocateResponse, error) {
	resp := &devices.AllocateResponse{}
	for _, c := range req.ContainerRequests {
		resp.ContainerResponses = append(resp.ContainerResponses, &devices.ContainerAllocateResponse{
			Envs: map[string]string{report.DevicesVariable: report.JoinDevices(c.DevicesIds)},
		})
	}
	return resp, nil
}
