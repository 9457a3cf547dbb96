// SPDX-License-Identifier: Apache-2.0

// Command podrun runs pods on an emulated NUMA node and prints what the node's
// kernel made of them. It is what `make run` runs.
//
// Without -pod it runs the two reference pods, each with the scope that it is
// made for; with -pod only that one.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podslice/podslice/test/e2e_node/guest"
	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
)

type options struct {
	out, kubelet, pod, examples string
	policy, scope, shape        string
	keep, check                 bool
}

// job is a pod and the scope to run it with.
type job struct {
	file, scope string
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "_output", "output folder: programs are in its bin, the guest's disks are kept there")
	flag.StringVar(&o.kubelet, "kubelet", "_output/bin/kubelet", "kubelet under test")
	flag.StringVar(&o.examples, "examples", "docs/examples", "folder with the reference pods")
	flag.StringVar(&o.pod, "pod", "", "manifest of the pod to run (default: the two reference pods)")
	flag.StringVar(&o.policy, "policy", "", "topology manager policy (default single-numa-node)")
	flag.StringVar(&o.scope, "scope", "", "topology manager scope (default: pod; container for the reference pod made for it)")
	flag.StringVar(&o.shape, "shape", "", fmt.Sprintf("machine to emulate (default %q)", guest.DefaultShape))
	flag.BoolVar(&o.keep, "keep", false, "keep the guest at the end, with a shell on it")
	flag.BoolVar(&o.check, "check", false, "only look at the arguments")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, o); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; the guest has been ended")
		}
		fmt.Fprintln(os.Stderr, "podrun:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	shape, err := guest.ParseShape(o.shape)
	if err != nil {
		return err
	}
	policy := cmp.Or(o.policy, "single-numa-node")
	jobs := []job{
		{filepath.Join(o.examples, "tightly-coupled-database.yaml"), cmp.Or(o.scope, "pod")},
		{filepath.Join(o.examples, "ml-workload.yaml"), cmp.Or(o.scope, "container")},
	}
	if o.pod != "" {
		jobs = []job{{o.pod, cmp.Or(o.scope, "pod")}}
	}
	manifests := make([]node.Manifest, len(jobs))
	for i, j := range jobs {
		if manifests[i], err = node.ReadManifest(j.file); err != nil {
			return err
		}
	}
	if o.check {
		return checkPolicy(policy, jobs)
	}

	started := time.Now()
	log := func(format string, args ...any) {
		fmt.Printf("%4.0fs  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
	}
	dir := filepath.Join(o.out, "run")
	n, err := boot(ctx, o, shape, dir, log)
	if err != nil {
		return err
	}
	defer n.Guest.Close()
	for i, j := range jobs {
		if i > 0 {
			log("removing the pod and the kubelet's state")
			if err := n.Wipe(ctx); err != nil {
				return err
			}
		}
		if err := runPod(ctx, n, manifests[i], node.Pinned(shape, policy, j.scope), log); err != nil {
			if logErr := n.CollectLogs(context.WithoutCancel(ctx), dir); logErr == nil {
				log("whole logs are in %s", dir)
			}
			if o.keep && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "podrun:", err)
				return errors.Join(errors.New("failed, see above"), keep(ctx, n.Guest))
			}
			return err
		}
	}
	if o.keep {
		return keep(ctx, n.Guest)
	}
	log("done; the guest has been ended")
	return nil
}

// checkPolicy refuses what the kubelet would refuse minutes later.
func checkPolicy(policy string, jobs []job) error {
	policies := []string{"none", "best-effort", "restricted", "single-numa-node"}
	if !slices.Contains(policies, policy) {
		return fmt.Errorf("policy %q: want one of %s", policy, strings.Join(policies, ", "))
	}
	for _, j := range jobs {
		if j.scope != "pod" && j.scope != "container" {
			return fmt.Errorf("scope %q: want pod or container", j.scope)
		}
	}
	return nil
}

func boot(ctx context.Context, o options, shape guest.Shape, dir string, log guest.Log) (*node.Node, error) {
	assets, err := guest.Prepare(ctx, o.out, log)
	if err != nil {
		return nil, err
	}
	files, err := node.Files(assets, o.out, node.Load{Kubelet: o.kubelet})
	if err != nil {
		return nil, err
	}
	g, err := guest.Boot(ctx, guest.Config{Assets: assets, Shape: shape, Files: files, Dir: dir, Log: log})
	if err != nil {
		return nil, err
	}
	n, err := node.Up(ctx, g, log)
	if err != nil {
		g.Close()
		return nil, err
	}
	return n, nil
}

// runPod runs one pod on a fresh node and prints it.
func runPod(ctx context.Context, n *node.Node, m node.Manifest, c node.Config, log guest.Log) error {
	version, err := n.KubeletVersion(ctx)
	if err != nil {
		return err
	}
	log("starting %s: policy %s, scope %s", version, c.TopologyPolicy, c.Scope)
	if err := n.AddPod(ctx, m); err != nil {
		return err
	}
	if err := n.StartKubelet(ctx, c); err != nil {
		return err
	}
	log("the kubelet is healthy; waiting for pod %s", m.Name)
	r, err := n.WaitRunning(ctx, m)
	if failed := new(node.FailedError); errors.As(err, &failed) && r != nil {
		// The reason comes last, where it is seen.
		fmt.Println()
		if err := report.WritePicture(os.Stdout, r, c.ReservedCPUs); err != nil {
			return err
		}
		fmt.Println()
	}
	if err != nil {
		return err
	}
	log("read back from the guest")
	fmt.Printf("\n%s, topology manager policy %s, scope %s\n\n", m.Name, c.TopologyPolicy, c.Scope)
	// The kubelet adds its own name to that of a static pod.
	pod := r.Pod(m.NodeName)
	pod.Name = m.Name
	if err := report.WriteTable(os.Stdout, pod); err != nil {
		return err
	}
	fmt.Println()
	if err := report.WritePicture(os.Stdout, r, c.ReservedCPUs); err != nil {
		return err
	}
	fmt.Println()
	return nil
}

// keep leaves the guest up until the user leaves its shell.
func keep(ctx context.Context, g *guest.Guest) error {
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice == 0 {
		fmt.Printf("the guest stays up until this program is ended; a shell on it:\n  %s\n", g.ShellCommand())
		<-ctx.Done()
		return nil
	}
	fmt.Println("a shell on the guest; leaving it ends the guest")
	return g.Shell(ctx)
}
