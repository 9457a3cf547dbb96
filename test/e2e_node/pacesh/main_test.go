// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestPaced(t *testing.T) {
	for in, want := range map[string]string{
		"sleep 5":                              "sleep 50",
		"echo 'done' && sleep 2":               "echo 'done' && sleep 20",
		"sleep 1; sleep 10000":                 "sleep 10; sleep 100000",
		"grep x y | cut -f2 && sleep 1d":       "grep x y | cut -f2 && sleep 1d",
		"sleep infinity; sleep 0; sleep 0.5 x": "sleep infinity; sleep 0; sleep 0.5 x",
		"oversleep 3; echo sleep":              "oversleep 3; echo sleep",
	} {
		if got := paced(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
