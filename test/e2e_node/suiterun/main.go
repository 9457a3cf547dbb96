// SPDX-License-Identifier: Apache-2.0

// Command suiterun runs upstream's node e2e suite on an emulated node and prints
// what came of each spec. It is what `make test-e2e-upstream` runs.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podslice/podslice/test/e2e_node/guest"
	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/suite"
)

// attempts is how often the suite may be started for a spec alone.
const attempts = 2

// managers selects the specs of the managers, podresources and their metrics.
const managers = `(CPU Manager|Memory Manager|Topology Manager|Pod Resources API|POD Resources API)`

type options struct {
	out, kubelet, focus, host, record, exceptions string
	stock, fresh, list                            bool
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "_output", "output folder: programs are in its bin, results are kept there")
	flag.StringVar(&o.kubelet, "kubelet", "_output/bin/kubelet", "kubelet under test")
	flag.StringVar(&o.focus, "focus", "", "regular expression that selects specs by name (default: all of the managers)")
	flag.StringVar(&o.host, "host", "", "user@host of a machine to run on instead of an emulated one")
	flag.StringVar(&o.record, "record", "test/e2e_node/suite/stock.json", "what came of the specs with upstream's kubelet")
	flag.StringVar(&o.exceptions, "exceptions", "test/e2e_node/suite/exceptions.json", "specs that need not pass, and why")
	flag.BoolVar(&o.stock, "stock", false, "the kubelet is upstream's: put what came of the specs on record")
	flag.BoolVar(&o.fresh, "fresh", false, "forget an earlier run instead of going on with it")
	flag.BoolVar(&o.list, "list", false, "only list the specs, with what is on record of them")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, o); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; the same command goes on from here")
		}
		fmt.Fprintln(os.Stderr, "suiterun:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	out, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	o.out = out
	specs, err := selectSpecs(ctx, o)
	if err != nil {
		return err
	}
	stock, err := suite.ReadRecord(o.record)
	if err != nil {
		return err
	}
	exceptions, err := suite.ReadExceptions(o.exceptions)
	if err != nil {
		return err
	}
	if unknown := exceptions.Unknown(specs); o.focus == "" && len(unknown) > 0 {
		return fmt.Errorf("%s names specs that the suite does not have: %q", o.exceptions, unknown)
	}
	inputs, err := digest(o.machine(), o.kubelet, filepath.Join(o.out, "bin", node.SuiteProgram))
	if err != nil {
		return err
	}
	dir := o.folder()
	r := &runner{options: o, dir: dir, file: filepath.Join(dir, "results.json"), started: time.Now(), specs: specs, exceptions: exceptions, onRecord: stock}
	if r.now, err = suite.ReadRecord(r.file); err != nil {
		return err
	}
	if o.list {
		return suite.WriteTable(os.Stdout, specs, r.now, stock, exceptions)
	}
	switch {
	case r.now.Inputs != inputs:
		r.now = &suite.Record{Inputs: inputs}
	case o.fresh || r.complete():
		r.now.Forget(specs) // with a focus, the others are hours of work
	}
	if err := r.all(ctx); err != nil {
		return err
	}
	fmt.Println()
	if err := suite.WriteTable(os.Stdout, specs, r.now, stock, exceptions); err != nil {
		return err
	}
	text, wrong := suite.Summary(specs, r.now, exceptions)
	fmt.Printf("\n%s, with %s\n", text, r.now.Kubelet)
	if o.recording() {
		fmt.Printf("on record in %s\n", o.record)
		return nil
	}
	for _, line := range wrong {
		fmt.Println("  " + line)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d specs are not as they should be; logs are in %s", len(wrong), len(specs), dir)
	}
	return nil
}

// selectSpecs asks the suite itself which specs there are.
func selectSpecs(ctx context.Context, o options) ([]suite.Spec, error) {
	want := o.focus
	if want == "" {
		want = managers
	}
	if _, err := regexp.Compile(want); err != nil {
		return nil, fmt.Errorf("focus: %w", err)
	}
	dir, err := os.MkdirTemp("", "suite")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	report := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(ctx, filepath.Join(o.out, "bin", node.SuiteProgram),
		"--ginkgo.dry-run", "--ginkgo.seed=1", "--ginkgo.json-report="+report, "--ginkgo.focus="+want)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("listing the specs: %w\n%s", err, text)
	}
	data, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	specs, err := suite.ReadSpecs(data)
	if err == nil && len(specs) == 0 {
		err = fmt.Errorf("no spec has a name like %q", want)
	}
	return specs, err
}

// machine names what the suite runs on.
func (o options) machine() string {
	if o.host != "" {
		return o.host
	}
	return suite.Machine
}

// folder is where the results and logs of a kubelet on a machine are kept.
func (o options) folder() string {
	name := filepath.Base(o.kubelet)
	if o.host != "" {
		name += "-on-" + strings.Map(func(r rune) rune {
			if r == '/' || r == ':' {
				return '-'
			}
			return r
		}, o.host)
	}
	return filepath.Join(o.out, "e2e-upstream", name)
}

// recording tells whether results go on record. Those of another machine do not:
// the record is for whoever has only the emulated one.
func (o options) recording() bool { return o.stock && o.host == "" }

// digest tells machines and builds apart.
func digest(machine string, files ...string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, machine)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("%w (make builds it)", err)
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// runner is one run, which may have begun earlier.
type runner struct {
	options
	dir, file string
	started   time.Time
	specs     []suite.Spec
	now       *suite.Record
	// exceptions say which specs need another machine.
	exceptions *suite.Exceptions
	// onRecord is what is committed of upstream's kubelet.
	onRecord *suite.Record
}

// machineOf is the shape of the machine that a spec needs, "" for the usual one. A
// host of the user's is the one for all.
func (r *runner) machineOf(s suite.Spec) string {
	if r.host != "" {
		return ""
	}
	return r.exceptions.MachineOf(s)
}

func (r *runner) say(format string, args ...any) {
	fmt.Printf("%5.0fs  %s\n", time.Since(r.started).Seconds(), fmt.Sprintf(format, args...))
}

// open are the specs of which nothing is known on their machine, or that have failed
// there and not run alone yet.
func (r *runner) open() (fresh, again []suite.Spec) {
	for _, s := range r.specs {
		x, ok := r.now.Of(s)
		switch {
		case !ok || x.Machine != r.machineOf(s):
			fresh = append(fresh, s)
		case x.State == suite.Failed && !x.Alone:
			again = append(again, s)
		}
	}
	return fresh, again
}

func (r *runner) complete() bool {
	fresh, again := r.open()
	return len(fresh)+len(again) == 0
}

// all runs what is open, on one machine after the other, the usual one first.
func (r *runner) all(ctx context.Context) error {
	fresh, again := r.open()
	if done := len(r.specs) - len(fresh) - len(again); done > 0 {
		r.say("going on: %d of %d specs have run", done, len(r.specs))
	}
	var shapes []string
	for _, s := range append(fresh, again...) {
		shapes = append(shapes, r.machineOf(s))
	}
	slices.Sort(shapes)
	for _, shape := range slices.Compact(shapes) {
		if err := r.on(ctx, shape); err != nil {
			return err
		}
	}
	return nil
}

// on boots a machine and runs what is open of the specs that need it.
func (r *runner) on(ctx context.Context, shape string) error {
	elsewhere := func(s suite.Spec) bool { return r.machineOf(s) != shape }
	n, err := r.boot(ctx, shape)
	if err != nil {
		return err
	}
	defer n.Guest.Close()
	if r.now.Kubelet, err = n.KubeletVersion(ctx); err != nil {
		return err
	}
	r.now.Machine = r.machine()
	r.say("under test: %s", r.now.Kubelet)
	fresh, _ := r.open()
	for _, batch := range suite.Batches(slices.DeleteFunc(fresh, elsewhere)) {
		if _, err := r.batch(ctx, n, batch, false); err != nil {
			return err
		}
	}
	_, again := r.open()
	for _, s := range slices.DeleteFunc(again, elsewhere) {
		for range attempts {
			started, err := r.batch(ctx, n, []suite.Spec{s}, true)
			if err != nil {
				return err
			}
			if started {
				break
			}
		}
	}
	return nil
}

// boot starts a machine of a shape, the usual one if it is "", or takes the host.
func (r *runner) boot(ctx context.Context, machine string) (*node.Node, error) {
	shape, err := guest.ParseShape(cmp.Or(machine, suite.Machine))
	if err != nil {
		return nil, err
	}
	assets, err := guest.Prepare(ctx, r.out, r.say)
	if err != nil {
		return nil, err
	}
	load, err := suite.Load(r.out, r.kubelet)
	if err != nil {
		return nil, err
	}
	files, err := node.Files(assets, r.out, load)
	if err != nil {
		return nil, err
	}
	config := guest.Config{Assets: assets, Shape: shape, Files: files, Dir: filepath.Join(r.dir, "guest"), Log: r.say}
	var g *guest.Guest
	if r.host != "" {
		g, err = guest.Attach(ctx, config, r.host)
	} else {
		g, err = guest.Boot(ctx, config)
	}
	if err != nil {
		return nil, err
	}
	n, err := node.Up(ctx, g, r.say)
	if err != nil {
		g.Close()
		return nil, err
	}
	if err := suite.Pace(ctx, n); err != nil {
		g.Close()
		return nil, err
	}
	return n, nil
}

// batch runs specs and keeps what came of them. It tells whether the suite came as
// far as that.
func (r *runner) batch(ctx context.Context, n *node.Node, specs []suite.Spec, alone bool) (started bool, err error) {
	shape := r.machineOf(specs[0])
	fresh, again := r.open()
	what := fmt.Sprintf("%d specs from %s on, %d to come", len(specs), specs[0].Place(), len(fresh)-len(specs))
	if alone {
		what = fmt.Sprintf("%s once more, alone, %d to come", specs[0].Place(), len(again)-1)
	}
	r.say("starting the suite: %s", what)
	var failed error
	told := map[string]bool{}
	s := &suite.Session{Node: n, Logs: filepath.Join(r.dir, "logs"), Progress: func(x suite.Result) {
		r.say("%s  %s (%.0f s)", x.State, x.Place(), x.Seconds)
		told[x.Name] = true
		// Of the others the reason is not known yet.
		if x.Alone, x.Machine = alone, shape; x.State == suite.Passed {
			failed = errors.Join(failed, r.keep([]suite.Result{x}))
		}
	}}
	results, err := s.Run(ctx, specs)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	started = !errors.Is(err, suite.ErrNotStarted)
	ran := map[string]bool{}
	for i, x := range results {
		ran[x.Name] = true
		results[i].Alone, results[i].Machine = alone, shape
		if x.State != suite.Passed || !told[x.Name] {
			r.say("%s  %s (%.0f s)  %s", x.State, x.Place(), x.Seconds, x.Reason)
		}
	}
	if err != nil {
		r.say("%v", err)
		// What has not run has failed, so that it runs alone next. If the suite does
		// not start even then, that says nothing of the spec, which stays open.
		for _, spec := range specs {
			if x, _ := r.now.Of(spec); !ran[spec.Name] && (x.State != suite.Passed || x.Machine != shape) {
				results = append(results, suite.Result{Spec: spec, State: suite.Failed, Reason: err.Error(), Alone: alone && started, Machine: shape})
			}
		}
	}
	return started, errors.Join(failed, r.keep(results))
}

// keep writes results down, and puts those that count on record if they are of
// upstream's kubelet: a run that is interrupted has done so much of its work.
func (r *runner) keep(results []suite.Result) error {
	r.now.Add(results...)
	if err := r.now.Write(r.file); err != nil || !r.recording() {
		return err
	}
	r.onRecord.Kubelet, r.onRecord.Machine = r.now.Kubelet, r.now.Machine
	for _, x := range r.now.Results { // with those of an earlier, interrupted run
		if x.State != suite.Failed || x.Alone {
			r.onRecord.Add(x)
		}
	}
	return r.onRecord.Write(r.record)
}
