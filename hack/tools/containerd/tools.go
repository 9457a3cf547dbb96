// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins containerd: go.mod beside this file names the version,
// and these imports keep `go mod tidy` from striking it.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
