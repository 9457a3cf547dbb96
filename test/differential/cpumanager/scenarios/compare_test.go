// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"slices"
	"time"
)

// deadline is what a call of the kubelet's own manager is given. Its slowest
// decisions on the machines here take a few milliseconds.
const deadline = 2 * time.Second

// disagreement is a call after which the two sides differ.
type disagreement struct {
	trace *trace
	index int
	// before is the state before the call, the same on both sides.
	before       snapshot
	call         call
	ours, theirs outcome
	// model is kept from one prediction to the next.
	model *model
}

func (d *disagreement) String() string {
	return fmt.Sprintf("%s\ncall %s\nbefore %s\nours   %s\n       %s\ntheirs %s\n       %s\n",
		d.trace.scenario, d.call, d.before, d.ours.key(), d.ours.Err, d.theirs.key(), d.theirs.Err)
}

// comparison is what came of one scenario.
type comparison struct {
	played        int
	disagreements []*disagreement
}

// compare plays the calls of a trace on the kubelet's own manager. After a
// disagreement about anything but hints, both go on from our state with the
// next event.
func compare(t *trace, c *child) (comparison, error) {
	var result comparison
	keys := make([]string, len(t.outcomes))
	for i, o := range t.outcomes {
		keys[i] = o.key()
	}
	calls, expected, offset, file := t.calls, keys, 0, []byte(nil)
	for {
		answer, err := c.ask(&request{Scenario: t.scenario, Calls: calls, Expected: expected, File: file, Deadline: deadline})
		if err != nil {
			return result, err
		}
		result.played += answer.Played
		for _, diff := range answer.Differences {
			i := offset + diff.Index
			d := &disagreement{trace: t, index: i, call: calls[diff.Index], theirs: diff.Outcome}
			if i >= 0 {
				d.ours = t.outcomes[i]
			} else {
				d.ours = outcome{State: t.outcomes[0].State} // of a start from our file
			}
			if i > 0 {
				d.before = t.outcomes[i-1].State
			}
			result.disagreements = append(result.disagreements, d)
		}
		if answer.Played == len(calls) {
			return result, nil
		}
		event := calls[answer.Played-1].Event
		next := slices.IndexFunc(t.calls, func(c call) bool { return c.Event > event })
		if next < 0 || event < 0 || file != nil && answer.Played == 1 {
			return result, nil // it is over, or there is no start from our state
		}
		file = t.files[event]
		before := t.outcomes[next-1]
		restart := call{Op: opStart, Event: event, Active: t.active[event]}
		calls = append([]call{restart}, t.calls[next:]...)
		// What a start shows besides the state differs from what the call before it showed.
		first := outcome{State: before.State, Views: before.Views}
		expected = append([]string{first.key()}, keys[next:]...)
		offset = next - 1
	}
}
