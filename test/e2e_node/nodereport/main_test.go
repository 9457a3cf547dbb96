// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podslice/podslice/test/e2e_node/report"
)

func TestReadMachine(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	sys := fstest.MapFS{
		"devices/system/node/node0/cpulist": file("0-1"),
		"devices/system/node/node0/meminfo": file("Node 0 MemTotal:        2048 kB\nNode 0 MemFree: 1 kB"),
		// A node without CPUs, as memory expanders have.
		"devices/system/node/node2/cpulist": file(""),
		"devices/system/node/node2/meminfo": file("Node 2 MemTotal:        1024 kB"),
		"devices/system/cpu/online":         file("0-1"),
	}
	for _, cpu := range []string{"cpu0", "cpu1"} {
		dir := "devices/system/cpu/" + cpu
		sys[dir+"/topology/physical_package_id"] = file("3")
		sys[dir+"/topology/thread_siblings_list"] = file("0-1")
		sys[dir+"/cache/index3/shared_cpu_list"] = file("0-1")
	}
	m, err := readMachine(sys)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(m)
	want := `{"nodes":[{"id":0,"cpus":"0-1","memory":2097152},{"id":2,"cpus":"","memory":1048576}],` +
		`"cpus":[{"id":0,"node":0,"socket":3,"siblings":"0-1","l3":"0-1"},{"id":1,"node":0,"socket":3,"siblings":"0-1","l3":"0-1"}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestIsolation(t *testing.T) {
	bubble := &podresources.PodResources{CpuIds: []int64{2, 3}}
	for _, test := range []struct {
		name string
		pod  *podresources.PodResources
		c    report.Container
		want string
	}{
		{"own CPUs", bubble, report.Container{Kind: report.App, CPUIDs: "2"}, report.IsolationContainer},
		{"own CPUs, no budget", &podresources.PodResources{}, report.Container{Kind: report.Sidecar, CPUIDs: "2"}, report.IsolationContainer},
		{"the pod's", bubble, report.Container{Kind: report.Sidecar}, report.IsolationPod},
		{"none", &podresources.PodResources{}, report.Container{Kind: report.App}, report.IsolationHost},
		{"unknown pod", nil, report.Container{Kind: report.App}, report.IsolationHost},
		{"standard init", bubble, report.Container{Kind: report.Init}, ""},
	} {
		if got := isolation(test.pod, test.c); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestStartTime(t *testing.T) {
	got, err := startTime("42 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 99 0")
	if got != 12345 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	for _, bad := range []string{"", "42 (x) S 1"} {
		if _, err := startTime(bad); err == nil {
			t.Errorf("%q: want an error", bad)
		}
	}
}

func TestReadStates(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cpu_manager_state", `{"policyName":"static","checksum":1,"dataChecksum":2,"defaultCpuSet":"0"}`)
	write("memory_manager_state", "torn")
	got, _ := json.Marshal(readStates(dir))
	want := `{"cpu_manager_state":{"defaultCpuSet":"0","policyName":"static"},"memory_manager_state":{"unreadable":"torn"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestGone(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "pods", "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[string]bool{"a": false, "b": true, "": false} {
		if got := gone(folder, uid); got != want {
			t.Errorf("pod %q is gone: %t, want %t", uid, got, want)
		}
	}
}
