// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins the CNI plugins: go.mod beside this file names the
// version, and these imports keep `go mod tidy` from striking it.
package tools

import (
	_ "github.com/containernetworking/plugins/plugins/ipam/host-local"
	_ "github.com/containernetworking/plugins/plugins/main/bridge"
	_ "github.com/containernetworking/plugins/plugins/main/loopback"
)
