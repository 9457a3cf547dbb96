// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Step is something that must compile in a checkout with our packages.
type Step struct {
	Name string
	args []string
	env  []string
}

// steps are all there are. Building cmd/kubelet links it: that finds what
// compiling alone does not. Listing with -export compiles tests and links
// nothing; vet would look at every dependency for Windows once more.
var steps = []Step{
	{"test/e2e_node", []string{"vet", "./test/e2e_node/..."}, nil},
	{"linux", []string{"build", "-o", os.DevNull, "./cmd/kubelet"}, nil},
	{"arm64", []string{"build", "-o", os.DevNull, "./cmd/kubelet"}, []string{"GOOS=linux", "GOARCH=arm64"}},
	{"windows", []string{"build", "-o", os.DevNull, "./cmd/kubelet"}, []string{"GOOS=windows", "GOARCH=amd64"}},
	{"windows-tests", []string{"list", "-test", "-export", "./pkg/kubelet/cm"}, []string{"GOOS=windows", "GOARCH=amd64"}},
}

// ParseSteps reads names of steps, separated by commas.
func ParseSteps(names string) ([]Step, error) {
	var out []Step
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' }) {
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Name == name })
		if i < 0 {
			var all []string
			for _, s := range steps {
				all = append(all, s.Name)
			}
			return nil, fmt.Errorf("step %q: there are %s", name, strings.Join(all, ", "))
		}
		out = append(out, steps[i])
	}
	return out, nil
}

func (s Step) run(ctx context.Context, o Options) error {
	fmt.Fprintf(o.Out, "upstream: %s: go %s %s\n", s.Name, strings.Join(s.args, " "), strings.Join(s.env, " "))
	started := time.Now()
	c := goCommand(ctx, o.Trees.Ours, s.args...)
	c.Env = append(c.Env, s.env...)
	if _, err := c.output(); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "upstream: %s: compiles (%s)\n", s.Name, time.Since(started).Round(time.Second))
	return nil
}
