// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRepaired has records that a kubelet left which stopped while it placed a pod
// a second time.
func TestRepaired(t *testing.T) {
	record := func(pod Set, a, b Set) Record { return Record{Pod: pod, Containers: map[string]Set{"a": a, "b": b}} }
	for name, test := range map[string]struct{ left, want Record }{
		"whole":              {record(NewSet(1, 2, 3), NewSet(1), NewSet(2)), record(NewSet(1, 2, 3), NewSet(1), NewSet(2))},
		"no pod":             {record(Set{}, NewSet(1), NewSet(2)), record(Set{}, NewSet(1), NewSet(2))},
		"new pod":            {record(NewSet(5, 6), NewSet(1), NewSet(2)), record(NewSet(1, 2), NewSet(1), NewSet(2))},
		"new pod, leftover":  {record(NewSet(5, 6, 7), NewSet(1), NewSet(2)), record(NewSet(1, 2, 5), NewSet(1), NewSet(2))},
		"one container new":  {record(NewSet(5, 6), NewSet(5), NewSet(2)), record(NewSet(2, 5), NewSet(5), NewSet(2))},
		"more than a budget": {record(NewSet(5, 6), NewSet(5), NewSet(1, 2)), record(Set{}, NewSet(5), NewSet(1, 2))},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want.String(), test.left.Repaired().String())
		})
	}
}
