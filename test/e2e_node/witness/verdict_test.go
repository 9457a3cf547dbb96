// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestJudge(t *testing.T) {
	const ms = Time(time.Millisecond)
	since := 100 * ms
	for _, test := range []struct {
		name  string
		start Start
		end   map[int]Time
		want  Verdict
	}{
		{
			name:  "the sharer left before the owner came",
			start: Start{Began: 500 * ms, CPUs: []int{4, 5}, Last: map[int]Time{4: 400 * ms, 5: 410 * ms}},
			end:   map[int]Time{3: 900 * ms, 4: 400 * ms, 5: 410 * ms},
			want:  Verdict{Before: 90 * time.Millisecond},
		},
		{
			name:  "nobody was on CPU 5 since the round began",
			start: Start{Began: 500 * ms, CPUs: []int{4, 5}, Last: map[int]Time{4: 400 * ms, 5: 90 * ms}},
			end:   map[int]Time{4: 400 * ms, 5: 90 * ms},
			want:  Verdict{Unused: []int{5}, Before: 100 * time.Millisecond},
		},
		{
			name:  "nobody was ever on CPU 5",
			start: Start{Began: 500 * ms, CPUs: []int{5}, Last: map[int]Time{5: 0}},
			want:  Verdict{Unused: []int{5}, Before: 500 * time.Millisecond},
		},
		{
			name:  "a task ran on CPU 5, once more before it was moved",
			start: Start{Began: 500 * ms, CPUs: []int{4, 5}, Last: map[int]Time{4: 400 * ms, 5: 410 * ms}},
			end:   map[int]Time{4: 400 * ms, 5: 530 * ms},
			want:  Verdict{Ran: []int{5}, Overlap: 30 * time.Millisecond},
		},
		{
			name: "the kernel allowed it, but nobody did",
			start: Start{
				Began: 500 * ms, CPUs: []int{4, 5}, Last: map[int]Time{4: 400 * ms, 5: 410 * ms},
				Open: []int{4}, Looked: 501 * ms, Closed: 600 * ms,
			},
			end:  map[int]Time{4: 400 * ms, 5: 410 * ms},
			want: Verdict{Allowed: []int{4}, Overlap: 100 * time.Millisecond},
		},
		{
			name: "a task came back after all had been moved",
			start: Start{
				Began: 500 * ms, CPUs: []int{4}, Last: map[int]Time{4: 400 * ms},
				Open: []int{4}, Looked: 501 * ms, Closed: 600 * ms,
			},
			end:  map[int]Time{4: 2500 * ms},
			want: Verdict{Allowed: []int{4}, Ran: []int{4}, Overlap: 2 * time.Second},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.start.Judge(since, Reading{Now: 3000 * ms, Visits: test.end})
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.want.Overlap == 0, got.Alone())
		})
	}
}
