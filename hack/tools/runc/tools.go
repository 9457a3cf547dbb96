// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins runc: go.mod beside this file names the version, and
// this import keeps `go mod tidy` from striking it.
package tools

import (
	_ "github.com/opencontainers/runc"
)
