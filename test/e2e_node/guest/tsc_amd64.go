// SPDX-License-Identifier: Apache-2.0

package guest

import "time"

// readTSC reads the processor's time stamp counter.
func readTSC() uint64

// tscKHz measures how fast the host's time stamp counter runs. QEMU shows it to
// the guest as it is, whose kernel would otherwise measure it against emulated
// timers; on a busy host that went wrong by a factor of two and more, and a
// guest whose clock runs fast drowns in timer interrupts.
func tscKHz() int {
	time1, tsc1 := stampTSC()
	time.Sleep(200 * time.Millisecond)
	time2, tsc2 := stampTSC()
	return int(float64(tsc2-tsc1) / (float64(time2.Sub(time1)) / float64(time.Millisecond)))
}

// stampTSC reads clock and counter together: of some tries the one between whose
// two clock readings the least time went by.
func stampTSC() (time.Time, uint64) {
	var at time.Time
	var tsc uint64
	best := time.Duration(1 << 62)
	for range 100 {
		before := time.Now()
		t := readTSC()
		if gap := time.Since(before); gap < best {
			best, at, tsc = gap, before, t
		}
	}
	return at, tsc
}
