// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// SuiteProgram is the program of upstream's node e2e suite in the folder Programs,
// which has etcd and an API server inside. A Load must name it where StartAPIServer
// is called.
const SuiteProgram = "e2e_node.test"

const (
	apiUnit    = "apiserver.service"
	apiFolder  = "/var/lib/apiserver"
	apiLog     = "/var/log/apiserver.log"
	apiAddress = "https://127.0.0.1:6443"
	kubeconfig = "/etc/kubernetes/kubeconfig"
	// apiToken is no secret: only the guest itself reaches its loopback.
	apiToken = "podslice"
)

// stopAPIServer ends the API server, if one runs.
var stopAPIServer = stopUnit(apiUnit)

// StartAPIServer starts an API server with an empty etcd and both gates on, and
// returns a client of it. It runs until the node is wiped.
func (n *Node) StartAPIServer(ctx context.Context) (kubernetes.Interface, error) {
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: kubelet, user: {token: %q}}]
contexts: [{name: here, context: {cluster: here, user: kubelet}}]
current-context: here
`, apiAddress, apiToken)
	if err := n.Guest.WriteFile(ctx, kubeconfig, []byte(config), 0o600); err != nil {
		return nil, err
	}
	n.log("starting an API server")
	gates := fmt.Sprintf("%s=true,%s=true", GatePodLevelResources, GatePodLevelResourceManagers)
	program := bin + "/" + SuiteProgram
	if n.Guest.Emulated() {
		program = "/usr/bin/" + OneCPU + " " + program
	}
	_, err := n.Guest.Output(ctx, lines(stopAPIServer, "rm -rf "+apiFolder, "mkdir -p "+apiFolder, fmt.Sprintf(
		"systemd-run -q --unit=%s -p WorkingDirectory=%s -p StandardOutput=append:%[3]s -p StandardError=append:%[3]s %s --run-services-mode --server-start-timeout=%s --bearer-token=%s --service-feature-gates=%s",
		apiUnit, apiFolder, apiLog, program, limitAPI, apiToken, gates)))
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: apiAddress, BearerToken: apiToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Dial: n.Guest.Dial,
	})
	if err != nil {
		return nil, err
	}
	err = poll(ctx, "the API server", limitAPI, func(ctx context.Context) (bool, error) {
		r, err := n.Guest.Run(ctx, "systemctl is-failed -q "+apiUnit)
		if err == nil && r.ExitCode == 0 {
			err = errors.New("it has ended")
		}
		if err != nil {
			return false, err
		}
		_, err = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
	return client, n.explain(ctx, err)
}
