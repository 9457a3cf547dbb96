// SPDX-License-Identifier: Apache-2.0

package numa

import "errors"

// Change is what would be different in an admission that is only tried.
type Change struct {
	// Ask is how much of each of these resources the container, or the pod as a
	// whole when Container is "", asks for instead. Of nothing else it asks for
	// less.
	Container string
	Ask       map[string]uint64
	// Free is how much more of each of these resources would be free on the nodes,
	// on all of them together.
	Nodes Set
	Free  map[string]uint64
}

// ErrImpossible is for a change that cannot be; ErrUntried for those who cannot tell
// what would come of any.
var (
	ErrImpossible = errors.New("it cannot be so")
	ErrUntried    = errors.New("it cannot be tried")
)
