// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// command is a call of the go command in a checkout.
type command struct {
	*exec.Cmd
	stderr bytes.Buffer
}

// goCommand prepares a call in a checkout's own workspace, whatever Go is told
// elsewhere. Without cgo, and with trimmed paths, Go's cache answers for both
// checkouts and for packages that the kubelet's build has compiled already.
func goCommand(ctx context.Context, tree string, args ...string) *command {
	c := &command{Cmd: exec.CommandContext(ctx, "go", args...)}
	c.Dir = tree
	c.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=", "CGO_ENABLED=0")
	c.Stderr = &c.stderr
	return c
}

func (c *command) explain(err error) error {
	return fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, strings.TrimSpace(c.stderr.String()))
}

func (c *command) output() (string, error) {
	out, err := c.Output()
	if err != nil {
		return "", c.explain(err)
	}
	return string(out), nil
}

// goTest runs go test -json, without vet: what it finds in upstream's tests is
// not about us, and it would look at every dependency. That tests fail is in the results, not an error.
func goTest(ctx context.Context, tree string, each func(*packageResult), args ...string) (map[string]*packageResult, error) {
	c := goCommand(ctx, tree, append([]string{"test", "-json", "-vet=off", "-timeout", "20m"}, args...)...)
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	results, readErr := readEvents(out, each)
	if readErr != nil {
		io.Copy(io.Discard, out)
	}
	err = c.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if readErr != nil {
		return nil, readErr
	}
	if len(results) == 0 {
		return nil, c.explain(fmt.Errorf("no results: %w", err))
	}
	// A package without a last word means that go test itself was cut short.
	for _, p := range results {
		if p.Outcome == "" {
			return nil, c.explain(fmt.Errorf("%s has no result: %w", p.Path, err))
		}
	}
	return results, nil
}

// runAlone is the rerun that uses go.
func runAlone(ctx context.Context, tree, pkg, test string) (*packageResult, error) {
	args := []string{"-count=1", pkg}
	if test != "" {
		args = append(args, "-run", runPattern(test))
	}
	results, err := goTest(ctx, tree, nil, args...)
	if err != nil {
		return nil, err
	}
	if p := results[pkg]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("go test %s in %s: no result", pkg, tree)
}
