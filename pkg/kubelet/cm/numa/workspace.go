// SPDX-License-Identifier: Apache-2.0

package numa

import "sync"

// workspace is the memory of one Merge, used again by the next: a merge in the
// steady state allocates nothing. What stays in it between merges refers to
// hints of the last one.
type workspace struct {
	lists     [][]Hint
	single    []Hint // backs lists of single nodes
	demanding [][]Hint
	apart     [][]Hint

	words  []uint64
	agreed []int

	sorted  [][]Hint
	reached []uint64
	list    []uint64
	trimmed [2][]uint64
	table   []uint64
	counts  [2][]uint32
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

func newWorkspace() *workspace { return workspaces.Get().(*workspace) }

func (w *workspace) release() { workspaces.Put(w) }

// choices returns a list of hints for each resource.
func (w *workspace) choices(resources []Resource, singleNode bool) [][]Hint {
	w.lists, w.single = w.lists[:0], w.single[:0]
	for _, r := range resources {
		list := r.choices()
		if singleNode {
			from := len(w.single)
			for _, h := range list {
				if h.ofOneNode() {
					w.single = append(w.single, h)
				}
			}
			// Growing single later copies what is before; this part is never
			// written again.
			list = w.single[from:len(w.single):len(w.single)]
		}
		w.lists = append(w.lists, list)
	}
	return w.lists
}
