// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
)

const (
	// quotaFolder holds the file that says "spin".
	quotaFolder = "/run/quota"
	// spinning is how long is measured, by the guest's clock.
	spinning = 40 * time.Second
	cgroups  = "/sys/fs/cgroup"

	quotaBudget, quotaOwn = 4, 3 // CPUs
	quotaTasks            = 6    // that spin in the containers that share, together
)

// TestExclusiveContainersAreNotThrottled has an exclusive container spin on all of
// its CPUs while those that share the rest of the budget want six times as much.
// The exclusive one must get all of its CPUs, with not one throttled period in any
// cgroup above it, and the pod no more than its budget.
//
// The pods of three sharers begin with a standard init container that shares.
// Upstream's kubelet keeps the pod's quota for life then, and otherwise, too, as
// long as anything shares: it fails this test.
func TestExclusiveContainersAreNotThrottled(t *testing.T) {
	onlyWhole(t)
	for _, test := range []struct {
		scope   string
		sharers int
		quota   string // of each
	}{
		// One pool of one CPU, or one CPU divided.
		{"pod", 1, "100000 100000"},
		{"pod", 3, "100000 100000"},
		{"container", 1, "100000 100000"},
		{"container", 3, "33300 100000"},
	} {
		t.Run(fmt.Sprintf("scope %s, sharers %d", test.scope, test.sharers), func(t *testing.T) {
			n := freshNode(t)
			_, err := n.Guest.Output(ctx, fmt.Sprintf("rm -rf %[1]s && mkdir -p %[1]s", quotaFolder))
			must(t, err)
			m := quotaPod(t, test.sharers)
			must(t, n.AddPod(ctx, m))
			must(t, n.StartKubelet(ctx, node.Pinned(shape, "single-numa-node", test.scope)))
			r, err := n.WaitRunning(ctx, m)
			must(t, err)
			pod := r.Pod(m.NodeName)
			equal(t, "pod cpu.max", pod.CPUMax, "max 100000")
			for _, c := range pod.Containers {
				switch {
				case c.Name == "owner":
					equal(t, "owner's cpu.max", c.CPUMax, "max 100000")
				case c.Kind != report.Init:
					equal(t, c.Name+"'s cpu.max", c.CPUMax, test.quota)
				}
			}
			judgeQuotas(t, n, pod)
		})
	}
}

// judgeQuotas lets all tasks spin and looks at what everybody got.
func judgeQuotas(t *testing.T, n *node.Node, pod *report.Pod) {
	owner := named(t, pod, "owner")
	folders := []string{owner.Cgroup}
	for dir := pod.Cgroup; dir != "/" && dir != "."; dir = path.Dir(dir) {
		folders = append(folders, dir)
	}
	ancestors := len(folders)
	for _, c := range pod.Containers {
		if c.Name != "owner" && c.Cgroup != "" {
			folders = append(folders, c.Cgroup)
		}
	}
	file := path.Join(quotaFolder, "go")
	_, err := n.Guest.Output(ctx, "touch "+file)
	must(t, err)
	defer func() { // or what comes next would take minutes longer
		_, err := n.Guest.Output(ctx, "rm -f "+file)
		must(t, err)
	}()
	must(t, sleepGuest(n, 5*time.Second))
	before, after := measureQuotas(t, n, folders)

	for i, dir := range folders[:ancestors] {
		p := before[i].until(after[i])
		say("%s: %s", dir, p)
		if p.throttled != 0 {
			t.Errorf("%s: %s", dir, p)
		}
	}
	if p := before[0].until(after[0]); p.most < 0.99*quotaOwn {
		t.Errorf("the exclusive container of %d CPUs got %s", quotaOwn, p)
	}
	if p := before[1].until(after[1]); p.least > 1.01*quotaBudget {
		t.Errorf("the pod with a budget of %d used %s", quotaBudget, p)
	}
	var least, most float64 // of the sharers together
	for i := ancestors; i < len(folders); i++ {
		p := before[i].until(after[i])
		say("a sharer: %s", p)
		least, most = least+p.least, most+p.most
	}
	// A busy emulated machine is late to refill quotas, so it may be less; if it is
	// nothing, nothing was tried.
	const rest = quotaBudget - quotaOwn
	if least > 1.01*rest || most < 0.5*rest {
		t.Errorf("those that share used %.3f to %.3f CPUs together, want up to %d", least, most, rest)
	}
}

// measureQuotas reads the cgroups before and after some time of spinning, again if
// the machine was too busy to say when.
func measureQuotas(t *testing.T, n *node.Node, folders []string) (before, after []cpuStat) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		before = cpuStats(t, n, folders)
		must(t, sleepGuest(n, spinning))
		after = cpuStats(t, n, folders)
		worst := int64(0)
		for i := range folders {
			worst = max(worst, after[i].to-after[i].from+before[i].to-before[i].from)
		}
		if worst <= spinning.Microseconds()/50 {
			return before, after
		}
		if attempt == 5 {
			t.Fatalf("reading the cgroups took %d ms, five times: the machine is too busy to measure anything", worst/1000)
		}
		say("reading the cgroups took %d ms, measuring again", worst/1000)
	}
}

func sleepGuest(n *node.Node, d time.Duration) error {
	_, err := n.Guest.Output(ctx, fmt.Sprintf("sleep %d", int(d.Seconds())))
	return err
}

// cpuStat is a cgroup's cpu.stat at some moment between two, in microseconds since
// boot.
type cpuStat struct {
	from, to           int64
	usage              int64
	periods, throttled int64
}

// period is what a cgroup did between two moments.
type period struct {
	least, most        float64 // CPUs used; the clock does not tell better
	periods, throttled int64
}

func (s cpuStat) until(o cpuStat) period {
	usage := float64(o.usage - s.usage)
	return period{
		least: usage / float64(o.to-s.from), most: usage / float64(o.from-s.to),
		periods: o.periods - s.periods, throttled: o.throttled - s.throttled,
	}
}

func (p period) String() string {
	return fmt.Sprintf("%.3f to %.3f CPUs, %d of %d periods throttled", p.least, p.most, p.throttled, p.periods)
}

// cpuStats reads the files of one cgroup after the other, and the clock before and
// after each: on an emulated machine moments lie between.
func cpuStats(t *testing.T, n *node.Node, folders []string) []cpuStat {
	t.Helper()
	command := "cat /proc/uptime"
	for _, dir := range folders {
		command += " " + path.Join(cgroups, dir, "cpu.stat") + " /proc/uptime"
	}
	out, err := n.Guest.Output(ctx, command)
	must(t, err)
	var stats []cpuStat
	var clocks []int64
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 2 {
			t.Fatalf("cpu.stat and /proc/uptime have a line %q", line)
		}
		if seconds, err := strconv.ParseFloat(f[0], 64); err == nil { // /proc/uptime: up and idle
			clocks = append(clocks, int64(seconds*1e6))
			stats = append(stats, cpuStat{})
			continue
		}
		value, err := strconv.ParseInt(f[1], 10, 64)
		must(t, err)
		s := &stats[len(stats)-1]
		switch f[0] {
		case "usage_usec":
			s.usage = value
		case "nr_periods":
			s.periods = value
		case "nr_throttled":
			s.throttled = value
		}
	}
	if len(clocks) != len(folders)+1 {
		t.Fatalf("%d times the clock for %d cgroups:\n%s", len(clocks), len(folders), out)
	}
	for i := range folders {
		stats[i].from, stats[i].to = clocks[i], clocks[i+1]
	}
	return stats[:len(folders)]
}

// quotaPod has a container with CPUs of its own, and so many that share the rest.
// The first of three is a sidecar, behind an init container.
func quotaPod(t *testing.T, sharers int) node.Manifest {
	spin := func(name string, tasks int) v1.Container {
		return v1.Container{
			Name: name, Image: node.ImageBusybox, ImagePullPolicy: v1.PullNever,
			Command: []string{"sh", "-c", fmt.Sprintf(
				"trap 'exit 0' TERM; while :; do until [ -e /quota/go ]; do sleep 1; done; for i in $(seq %d); do (while [ -e /quota/go ]; do :; done) & done; wait; done", tasks)},
			VolumeMounts: []v1.VolumeMount{{Name: "quota", MountPath: "/quota", ReadOnly: true}},
		}
	}
	pod := witnessPod("quota")
	pod.Spec.HostPID = false
	pod.Spec.Volumes = []v1.Volume{{Name: "quota", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: quotaFolder}}}}
	budget := cpusAndMemory(quotaBudget)
	pod.Spec.Resources = &budget
	// With one task for each CPU, the kernel may leave two of them on one for good.
	owner := spin("owner", 3*quotaOwn)
	owner.Resources = cpusAndMemory(quotaOwn)
	pod.Spec.Containers = []v1.Container{owner}
	for i := range sharers {
		c := spin(fmt.Sprintf("sharer%d", i), quotaTasks/sharers)
		if sharers > 1 && i == 0 {
			prepare := spin("prepare", 0)
			prepare.Command = []string{"true"}
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
			pod.Spec.InitContainers = []v1.Container{prepare, c}
			continue
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return manifest(t, pod)
}
