// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"strings"
	"testing"
)

func TestCompareTopology(t *testing.T) {
	shape, err := ParseShape("2 nodes, 2 cores, 2 threads, 2Gi each")
	if err != nil {
		t.Fatal(err)
	}
	const good = `CPU SOCKET NODE CORE L1d:L1i:L2:L3
  0      0    0    0 0:0:0:0
  1      0    0    0 1:1:0:0
  2      0    0    1 2:2:1:0
  3      0    0    1 3:3:1:0
  4      1    1    2 8:8:4:1
  5      1    1    2 9:9:4:1
  6      1    1    3 10:10:5:1
  7      1    1    3 11:11:5:1
`
	for _, test := range []struct{ name, old, new, want string }{
		{"as it should be", "", "", ""},
		{"a CPU is missing", "  7      1    1    3 11:11:5:1\n", "", "7 CPUs, want 8"},
		{"no siblings", "1      0    0    0 1", "1      0    0    7 1", "want 2 siblings"},
		{"other node", "  2      0    0", "  2      0    1", "CPU 2 is on NUMA node 1, want 0"},
		{"other socket", "  4      1 ", "  4      0 ", "CPU 4 is on socket 0, want 1"},
		{"an L3 for each core", "3:3:1:0", "3:3:1:7", "CPUs of cache 0 have L3 caches 0 and 7"},
		{"one L3 for all", "8:8:4:1", "8:8:4:0", "L3 cache 0 is that of the CPUs of cache 0 and of cache 1"},
		{"no L3", "3:3:1:0", "3:3", "want L1d, L1i, L2 and L3"},
		{"no caches", " 3:3:1:0", "", "has 4 fields, want 5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := compareTopology(shape, strings.Replace(good, test.old, test.new, 1))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestCompareMemory(t *testing.T) {
	shape, err := ParseShape("2 nodes, 2 cores, 2 threads, 2Gi each, node 1: 4Gi")
	if err != nil {
		t.Fatal(err)
	}
	const good = "Node 0 MemTotal:        1990000 kB\nNode 1 MemTotal:        4120000 kB\n"
	for _, test := range []struct{ name, old, new, want string }{
		{"as it should be", "", "", ""},
		{"more", "1990000", "2990000", "NUMA node 0 has 2919Mi of memory, want 2Gi"},
		{"much less", "4120000", "2990000", "NUMA node 1 has 2919Mi of memory, want 4Gi"},
		{"one more node", "Node 1", "Node 2 MemTotal: 1 kB\nNode 1", "3 NUMA nodes, want 2"},
		{"one node less", "Node 1 MemTotal:        4120000 kB\n", "", "1 NUMA nodes, want 2"},
		{"no number", "1990000", "many", "many"},
		{"another line", "Node 0 MemTotal:", "MemTotal:", "want 5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := compareMemory(shape, strings.Replace(good, test.old, test.new, 1))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestCpio(t *testing.T) {
	var c cpio
	c.add("a", 0o100644, []byte("xyz"))
	got := string(c.finish())
	want := "070701" + "00000001" + "000081A4" + "00000000" + "00000000" + "00000001" + "00000000" + "00000003" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000002" + "00000000" + "a\x00" + "xyz\x00"
	if !strings.HasPrefix(got, want) {
		t.Errorf("got  %q\nwant %q and a trailer", got, want)
	}
	if !strings.Contains(got[len(want):], "TRAILER!!!\x00") || len(got)%4 != 0 {
		t.Errorf("no trailer, or not padded: %q", got[len(want):])
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"a b": "'a b'", "it's": `'it'\''s'`, "": "''"} {
		if got := Quote(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}
