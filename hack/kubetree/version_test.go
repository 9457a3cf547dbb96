// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/podslice/podslice/pkg/kubelet/cm/podslice"
)

// TestVersion holds what the managers log against the file that a release
// changes.
func TestVersion(t *testing.T) {
	data, err := os.ReadFile("../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	if file := strings.TrimSpace(string(data)); file != podslice.Version {
		t.Errorf("hack/VERSION says %q, pkg/kubelet/cm/podslice %q", file, podslice.Version)
	}
}
