// SPDX-License-Identifier: Apache-2.0

package witness

import "time"

// Reading is the board at one moment.
type Reading struct {
	Now    Time         `json:"now"`
	Visits map[int]Time `json:"visits"`
}

// Verdict is what came of an owner's start.
type Verdict struct {
	// Unused are its CPUs that no sharer had been on since the moment that Judge
	// was given. Nobody had to be moved off these, so they prove nothing.
	Unused []int
	// Allowed are its CPUs on which the kernel still let a sharer run when the
	// owner looked; Ran are those on which one did run after the owner's first act.
	Allowed, Ran []int
	// Overlap is from the owner's first act to the last moment at which it was
	// seen not to be alone; 0 if it never was.
	Overlap time.Duration
	// Before is from the latest visit to one of its CPUs to its first act, for a
	// start that Alone is true of.
	Before time.Duration
}

// Alone says that the owner's CPUs were its own from its first act on.
func (v Verdict) Alone() bool { return len(v.Allowed) == 0 && len(v.Ran) == 0 }

// Judge decides about a start. since is a moment before the owner's pod was
// made, end the board at a moment when the owner still held its CPUs.
func (s Start) Judge(since Time, end Reading) Verdict {
	v := Verdict{Allowed: s.Open}
	latest := Time(0)
	if len(s.Open) > 0 {
		v.Overlap = s.Closed.Sub(s.Began)
	}
	for _, cpu := range s.CPUs {
		latest = max(latest, s.Last[cpu])
		if s.Last[cpu] <= since {
			v.Unused = append(v.Unused, cpu)
		}
		if visit := end.Visits[cpu]; visit > s.Began {
			v.Ran = append(v.Ran, cpu)
			v.Overlap = max(v.Overlap, visit.Sub(s.Began))
		}
	}
	if v.Alone() {
		v.Before = s.Began.Sub(latest)
	}
	return v
}
