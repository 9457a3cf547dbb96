// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podslice/podslice/test/e2e_node/guest"
	"github.com/podslice/podslice/test/e2e_node/node"
)

// The machine that tests share, as long as they want the same.
var (
	ctx      context.Context
	shared   *node.Node
	bootErrs = map[string]error{} // by shape
	shape    = guest.DefaultShape // of tests that name no other
	// host is user@host of a machine to run on instead of emulated ones, if any.
	host = os.Getenv("PODSLICE_HOST")
)

func TestMain(m *testing.M) {
	var stop context.CancelFunc
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := m.Run()
	if shared != nil {
		shared.Guest.Close()
	}
	stop()
	os.Exit(code)
}

var started = time.Now()

func say(format string, args ...any) {
	fmt.Printf("    %4.0fs  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
}

func outDir(t *testing.T) string {
	t.Helper()
	out := os.Getenv("PODSLICE_OUT")
	if out == "" {
		t.Fatal("PODSLICE_OUT is not set: run this as `make test-e2e-node`")
	}
	return out
}

func boot(out, kubelet string, shape guest.Shape) (*node.Node, error) {
	assets, err := guest.Prepare(ctx, out, say)
	if err != nil {
		return nil, err
	}
	load := node.Load{Kubelet: kubelet, Stock: os.Getenv("PODSLICE_STOCK")}
	if os.Getenv("PODSLICE_SUITE") != "" {
		load.Programs = []string{node.SuiteProgram}
	}
	files, err := node.Files(assets, out, load)
	if err != nil {
		return nil, err
	}
	config := guest.Config{Assets: assets, Shape: shape, Files: files, Dir: filepath.Join(out, "e2e-node"), Log: say}
	var g *guest.Guest
	if host != "" {
		g, err = guest.Attach(ctx, config, host)
	} else {
		g, err = guest.Boot(ctx, config)
	}
	if err != nil {
		return nil, err
	}
	n, err := node.Up(ctx, g, say)
	if err != nil {
		g.Close()
		return nil, err
	}
	version, err := n.KubeletVersion(ctx)
	if err != nil {
		g.Close()
		return nil, err
	}
	say("under test: %s", version)
	return n, nil
}

// freshNode returns the usual node with no pod, no kubelet and no state.
func freshNode(t *testing.T) *node.Node {
	t.Helper()
	return freshNodeOf(t, shape)
}

// freshNodeOf is freshNode for another machine. When the test fails, the node's
// logs are copied to a folder of the test's name. On a host that is another machine
// the test is skipped.
func freshNodeOf(t *testing.T, shape guest.Shape) *node.Node {
	t.Helper()
	if host != "" {
		n := freshHost(t)
		if err := n.Guest.TakeFor(ctx, shape); err != nil {
			t.Skipf("not for this host: %v", err)
		}
		return n
	}
	return fresh(t, shape)
}

// freshHost is freshNode for the host that the tests were given, whatever machine it
// is.
func freshHost(t *testing.T) *node.Node {
	t.Helper()
	return fresh(t, guest.Shape{})
}

func fresh(t *testing.T, shape guest.Shape) *node.Node {
	t.Helper()
	out := outDir(t)
	name := shape.String()
	if shared != nil && host == "" && shared.Guest.Shape.String() != name {
		shared.Guest.Close()
		shared = nil
	}
	if shared == nil && bootErrs[name] == nil {
		shared, bootErrs[name] = boot(out, os.Getenv("PODSLICE_KUBELET"), shape)
	}
	if err := bootErrs[name]; err != nil {
		t.Fatal(err)
	}
	if err := shared.Wipe(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() || ctx.Err() != nil {
			return
		}
		dir := filepath.Join(out, "e2e-node", "logs", strings.ReplaceAll(t.Name(), "/", "-"))
		if err := shared.CollectLogs(ctx, dir); err != nil {
			t.Logf("collecting logs: %v", err)
		}
		t.Logf("the node's logs are in %s", dir)
	})
	return shared
}

// onlyWhole skips a test that the smoke test leaves out altogether.
func onlyWhole(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left to make test-e2e-node-all, or RUN=")
	}
}

// leftOut says whether a case is not part of the smoke test that is running.
func leftOut(smoke bool) bool { return testing.Short() && !smoke }

// example reads one of the reference pods.
func example(t *testing.T, name string) node.Manifest {
	t.Helper()
	m, err := node.ReadManifest(filepath.Join("..", "..", "docs", "examples", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
