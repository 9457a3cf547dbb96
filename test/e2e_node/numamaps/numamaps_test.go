// SPDX-License-Identifier: Apache-2.0

package numamaps

import (
	"strings"
	"testing"
)

// Lines as Linux 6.1 writes them.
const sample = `00400000 interleave:0-1 file=/programs/pagewitness mapped=120 active=60 N0=120 kernelpagesize_kB=4
c000000000 interleave:0-1 anon=33 dirty=33 active=0 N0=17 N1=16 kernelpagesize_kB=4
7f0000000000 interleave:0-1 file=/anon_hugepage\040(deleted) huge anon=4 dirty=4 N0=2 N1=2 kernelpagesize_kB=2048
7f1000000000 interleave:1 anon=16384 dirty=16384 N1=16384 kernelpagesize_kB=4
7f2000000000 interleave:1
7ffd0000000 default stack anon=3 dirty=3 N10=3 kernelpagesize_kB=4
`

func TestFind(t *testing.T) {
	for _, test := range []struct {
		start uint64
		want  string
		bytes int64
	}{
		{0x400000, "pages of 4Ki: 120 on node 0", 120 << 12},
		{0xc000000000, "pages of 4Ki: 17 on node 0, 16 on node 1", 33 << 12},
		{0x7f0000000000, "pages of 2048Ki: 2 on node 0, 2 on node 1", 8 << 20},
		{0x7f1000000000, "pages of 4Ki: 16384 on node 1", 64 << 20},
		{0x7f2000000000, "pages of 0Ki: none", 0},
		{0x7ffd0000000, "pages of 4Ki: 3 on node 10", 3 << 12},
	} {
		m, err := Find(sample, test.start)
		if err != nil {
			t.Errorf("%x: %v", test.start, err)
			continue
		}
		if m.String() != test.want || m.Bytes() != test.bytes {
			t.Errorf("%x: got %s, %d bytes; want %s, %d bytes", test.start, m, m.Bytes(), test.want, test.bytes)
		}
	}
}

func TestFindErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "has no mapping that starts at 1",
		"2 default":              "has no mapping that starts at 1",
		"1":                      "want an address and a policy",
		"x default":              "invalid syntax",
		"1 default N0=many":      "invalid syntax",
		"1 default N0=5":         "pages of no size",
		"1 d kernelpagesize_kB=": "invalid syntax",
	} {
		if _, err := Find(text, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that says %q", text, err, want)
		}
	}
}
