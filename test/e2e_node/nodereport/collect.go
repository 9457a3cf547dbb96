// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// collectPeriod is the time between two looks for pods that are gone.
const collectPeriod = 2 * time.Second

// collectDead removes the sandboxes of pods that are gone, with their containers,
// until the context ends. The kubelet does so once a minute.
func collectDead(ctx context.Context) error {
	conn, err := connect(runtimeSocket)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := cri.NewRuntimeServiceClient(conn)
	for {
		// The runtime may be restarted, or busy: there is a next time.
		if err := collectOnce(ctx, client); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "nodereport:", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(collectPeriod):
		}
	}
}

func collectOnce(ctx context.Context, client cri.RuntimeServiceClient) error {
	state := &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_NOTREADY}
	list, err := client.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{State: state}})
	if err != nil {
		return err
	}
	var failures []error
	for _, s := range list.Items {
		if s.Metadata == nil || !gone(stateFolder, s.Metadata.Uid) {
			continue
		}
		if _, err := client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: s.Id}); err != nil {
			failures = append(failures, fmt.Errorf("removing sandbox %s: %w", s.Id, err))
		}
	}
	return errors.Join(failures...)
}

// gone says whether the kubelet has done with a pod: it removes a pod's folder last,
// when nothing of the pod is wanted any more.
func gone(folder, uid string) bool {
	_, err := os.Stat(filepath.Join(folder, "pods", uid))
	return uid != "" && errors.Is(err, fs.ErrNotExist)
}
