// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"testing"

	"github.com/podslice/podslice/test/simnode/script"
)

// observe is the commands of scripts that show what others are told, and change
// nothing on the node. Grown are the counters since they were looked at last.
//
//	podresources: what a client of the kubelet's podresources API is told
//	metrics: which counters have grown since the last time
func observe(t *testing.T, r *script.Runner, grown *counters) map[string]func(script.Command) (string, error) {
	return map[string]func(script.Command) (string, error){
		"metrics":      func(script.Command) (string, error) { return grown.since(t), nil },
		"podresources": func(script.Command) (string, error) { return listPodResources(t, r.Node), nil },
	}
}
