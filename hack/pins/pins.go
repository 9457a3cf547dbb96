// SPDX-License-Identifier: Apache-2.0

//go:build pins

// Package pins names what is built from this module's go.mod without being
// imported by it, so that go mod tidy keeps it. It is never compiled.
package pins

import _ "k8s.io/kubernetes/cmd/kubelet"
