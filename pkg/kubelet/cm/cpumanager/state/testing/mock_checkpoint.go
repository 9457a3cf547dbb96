// SPDX-License-Identifier: Apache-2.0

// Package testing has a checkpoint with any content, for tests of what reads
// checkpoint files.
package testing

import "k8s.io/kubernetes/pkg/kubelet/checkpointmanager"

var _ checkpointmanager.Checkpoint = (*MockCheckpoint)(nil)

// MockCheckpoint is written as its Content and accepts whatever it is read
// from.
type MockCheckpoint struct {
	Content string
}

// MarshalCheckpoint returns the content.
func (c *MockCheckpoint) MarshalCheckpoint() ([]byte, error) { return []byte(c.Content), nil }

// UnmarshalCheckpoint reads nothing.
func (c *MockCheckpoint) UnmarshalCheckpoint([]byte) error { return nil }

// VerifyChecksum finds nothing wrong.
func (c *MockCheckpoint) VerifyChecksum() error { return nil }
