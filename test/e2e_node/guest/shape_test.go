// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseShape(t *testing.T) {
	for text, want := range map[string]Shape{
		"":                                       DefaultShape,
		"  ":                                     DefaultShape,
		"2 nodes, 6 cores, 2 threads, 20Gi each": DefaultShape,
		"20Gi each, 2 threads, 6 cores, 2 nodes": DefaultShape,
		"1 node, 2 cores, 1 thread, 2Gi each":    {1, 1, 2, 1, 2 << 30, 1, nil},
		"2 sockets,4 nodes,2 cores,2 threads,3072Mi each":            {2, 4, 2, 2, 3 << 30, 1, nil},
		"8 nodes, 5 cores, 1 threads, 1536Mi each":                   {8, 8, 5, 1, 1536 << 20, 1, nil},
		"1 socket, 2 nodes, 3 cores, 2 threads, 2Gi each":            {1, 2, 3, 2, 2 << 30, 1, nil},
		"4 sockets, 4 nodes, 10 cores, 1 thread, 20Gi each":          {4, 4, 10, 1, 20 << 30, 1, nil},
		"2 sockets, 4 nodes, 3 cores, 2 threads, 3Gi each, 2 caches": {2, 4, 3, 2, 3 << 30, 2, nil},
		"1 socket, 3 nodes, 2 cores, 1 thread, 1Gi each, node 2: 0 cores, node 1: 6Gi": {
			1, 3, 2, 1, 1 << 30, 1, []OddNode{{1, 2, 6 << 30}, {2, 0, 1 << 30}}},
		"2 nodes, 2 cores, 2 threads, 4Gi each, node 1: 1536Mi": {2, 2, 2, 2, 4 << 30, 1, []OddNode{{1, 2, 1536 << 20}}},
	} {
		got, err := ParseShape(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, error %v; want %+v", text, got, err, want)
			continue
		}
		if again, err := ParseShape(got.String()); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%q is written as %q, which reads as %+v, error %v", text, got, again, err)
		}
	}
}

func TestParseShapeErrors(t *testing.T) {
	for text, want := range map[string]string{
		"2 nodes":                                                  "the cores are missing",
		"6 cores, 2 threads, 20Gi each":                            "the nodes are missing",
		"2 nodes, 6 cores, 2 threads":                              "memory (\"20Gi each\") are missing",
		"2 nodes, 6 cores, 2 threads, 20Gi":                        `"20Gi" is not a number and a word`,
		"2 nodes, 6 cores, 2 threads, 20G each":                    `"20G" is not an amount of memory`,
		"2 nodes, 6 cores, 2 threads, 0Gi each":                    `"0Gi" is not an amount of memory`,
		"2 nodes, 3 nodes, 6 cores":                                `"nodes" is given twice`,
		"2 dies, 6 cores, 2 threads, 20Gi each":                    `"dies" is unknown`,
		"two nodes, 6 cores, 2 threads, 20Gi each":                 `"two" is not a number of nodes`,
		"0 nodes, 6 cores, 2 threads, 20Gi each":                   `"0" is not a number of nodes`,
		"-1 nodes, 6 cores, 2 threads, 20Gi each":                  `"-1" is not a number of nodes`,
		"2 sockets, 3 nodes, 1 core, 2 threads, 2Gi each":          "3 NUMA nodes cannot be spread evenly over 2 sockets",
		"2 nodes, 6 cores, 4 threads, 20Gi each":                   "1 or 2",
		"2 nodes, 6 cores, 2 threads, 20Gi each, 4 caches":         "the 6 cores of a socket cannot share 4 caches evenly",
		"2 nodes, 6 cores, 2 threads, 20Gi each, 0 caches":         `"0" is not a number of caches`,
		"2 nodes, 6 cores, 2 threads, 20Gi each, node 1: 0 cores":  "sockets 0 and 1 have 6 and 0 cores",
		"2 nodes, 6 cores, 2 threads, 20Gi each, node 2: 0 cores":  "there is no NUMA node 2 of 2",
		"2 nodes, 6 cores, 2 threads, 20Gi each, node 1: -1 cores": `want "node 1: 0 cores"`,
		"2 nodes, 6 cores, 2 threads, 20Gi each, node 1: 2 dies":   `want "node 1: 0 cores"`,
		"2 nodes, 6 cores, 2 threads, 20Gi each, socket 1: 2Gi":    `want "node 1: 0 cores"`,
		"2 nodes, 6 cores, 2 threads, 20Gi each, node 1: 2G":       `"2G" is not an amount of memory`,
		"2 nodes, 6 cores, 2 threads, 20Gi each, node 1: 256Mi":    "256Mi a NUMA node is less than 512Mi",
		"64 nodes, 6 cores, 2 threads, 20Gi each":                  "768 CPUs are more than 255",
		"65 nodes, 1 cores, 1 threads, 20Gi each":                  "65 NUMA nodes are more than 64",
		"1 node, 1 core, 1 thread, 2Gi each":                       "one CPU is too few",
		"2 nodes, 1 core, 1 thread, 256Mi each":                    "256Mi a NUMA node is less than 512Mi",
		"2 nodes, 1 core, 1 thread, 512Mi each":                    "1Gi in all is less than the 2Gi",
	} {
		if got, err := ParseShape(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, error %v; want one that says %q", text, got, err, want)
		}
	}
}

func TestMachineArgs(t *testing.T) {
	for text, want := range map[string]string{
		"2 nodes, 6 cores, 2 threads, 20Gi each": `
-machine q35 -accel tcg,thread=single -cpu max,vendor=GenuineIntel
-smp 24,sockets=2,cores=6,threads=2 -m 40960M
-object memory-backend-ram,id=m0,size=20480M,reserve=off -numa node,nodeid=0,cpus=0-11,memdev=m0
-object memory-backend-ram,id=m1,size=20480M,reserve=off -numa node,nodeid=1,cpus=12-23,memdev=m1
-numa dist,src=0,dst=0,val=10 -numa dist,src=0,dst=1,val=21
-numa dist,src=1,dst=0,val=21 -numa dist,src=1,dst=1,val=10`,
		"1 socket, 2 nodes, 2 cores, 1 thread, 2Gi each": `
-machine q35 -accel tcg,thread=single -cpu max,vendor=GenuineIntel
-smp 4,sockets=1,cores=4,threads=1 -m 4096M
-object memory-backend-ram,id=m0,size=2048M,reserve=off -numa node,nodeid=0,cpus=0-1,memdev=m0
-object memory-backend-ram,id=m1,size=2048M,reserve=off -numa node,nodeid=1,cpus=2-3,memdev=m1
-numa dist,src=0,dst=0,val=10 -numa dist,src=0,dst=1,val=12
-numa dist,src=1,dst=0,val=12 -numa dist,src=1,dst=1,val=10`,
		"1 socket, 2 nodes, 2 cores, 1 thread, 2Gi each, node 0: 0 cores, node 1: 3Gi": `
-machine q35 -accel tcg,thread=single -cpu max,vendor=GenuineIntel
-smp 2,sockets=1,cores=2,threads=1 -m 5120M
-object memory-backend-ram,id=m0,size=2048M,reserve=off -numa node,nodeid=0,memdev=m0
-object memory-backend-ram,id=m1,size=3072M,reserve=off -numa node,nodeid=1,cpus=0-1,memdev=m1
-numa dist,src=0,dst=0,val=10 -numa dist,src=0,dst=1,val=12
-numa dist,src=1,dst=0,val=12 -numa dist,src=1,dst=1,val=10`,
		"1 node, 4 cores, 2 threads, 2Gi each, 2 caches": `
-machine q35 -accel tcg,thread=single -cpu max,vendor=GenuineIntel
-smp 8,sockets=1,dies=2,cores=2,threads=2 -m 2048M
-object memory-backend-ram,id=m0,size=2048M,reserve=off -numa node,nodeid=0,cpus=0-7,memdev=m0`,
		"1 node, 2 cores, 1 thread, 2Gi each": `
-machine q35 -accel tcg,thread=single -cpu max,vendor=GenuineIntel
-smp 2,sockets=1,cores=2,threads=1 -m 2048M
-object memory-backend-ram,id=m0,size=2048M,reserve=off -numa node,nodeid=0,cpus=0-1,memdev=m0`,
	} {
		s, err := ParseShape(text)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(machineArgs(s), " ")
		if want := strings.Join(strings.Fields(want), " "); !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\ngot  %s\nwant %s", text, got, want)
		}
	}
}
