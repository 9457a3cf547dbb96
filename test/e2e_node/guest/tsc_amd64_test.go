// SPDX-License-Identifier: Apache-2.0

package guest

import "testing"

// The measurement must agree with itself on a busy machine, too.
func TestTSC(t *testing.T) {
	a, b := tscKHz(), tscKHz()
	if difference := max(a-b, b-a); a < 100_000 || difference*1000 > a {
		t.Errorf("measured %d and %d kHz", a, b)
	}
}
