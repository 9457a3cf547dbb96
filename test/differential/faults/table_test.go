// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fault is something that the kubelet's own managers do wrong.
type fault struct {
	name string
	// what goes wrong, with the numbers of issues of kubernetes/kubernetes.
	what string
	// ours is what our managers do instead.
	ours string
	// hangs is set when the kubelet's own managers never return.
	hangs bool
	play  func(*node)
}

// section is a part of the table.
type section struct {
	title  string
	faults []fault
}

var sections = []section{
	{"Restarts", restartFaults},
	{"State files", fileFaults},
	{"Changes of configuration", changeFaults},
	{"Admission", admissionFaults},
	{"Choosing CPUs", cpuFaults},
	{"Choosing memory", memoryFaults},
	{"Choosing NUMA nodes", numaFaults},
	{"CFS quotas", quotaFaults},
	{"Running containers and metrics", runningFaults},
}

func find(name string) (fault, bool) {
	for _, s := range sections {
		for _, f := range s.faults {
			if f.name == name {
				return f, true
			}
		}
	}
	return fault{}, false
}

var rewrite = flag.Bool("rewrite", false, "write docs/faults.md as the scenarios went")

const docs = "../../../docs/faults.md"

// TestFaults plays every fault on both makes: wrong on the kubelet's own, right
// on ours, and as docs/faults.md tells.
func TestFaults(t *testing.T) {
	seen := map[string]string{} // what went wrong with the kubelet's own
	var mu sync.Mutex
	t.Run("fault", func(t *testing.T) {
		for _, s := range sections {
			for _, f := range s.faults {
				t.Run(f.name, func(t *testing.T) {
					t.Parallel()
					if o := playInChild(t, ours, f); o != (outcome{}) {
						t.Errorf("ours: %s%s", o.Wrong, o.Broken)
					}
					o := playInChild(t, upstream, f)
					if o.Broken != "" || o.Wrong == "" {
						t.Errorf("the kubelet's own is not found wrong: %s", o.Broken)
					}
					if o.Wrong != "" {
						mu.Lock()
						defer mu.Unlock()
						seen[f.name] = o.Wrong
					}
				})
			}
		}
	})
	table := describe(seen)
	t.Log("\n" + table)
	if len(seen) < count() {
		return // -run has chosen some, or some were not found
	}
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(text), "<!-- table -->\n")
	if !ok {
		t.Fatalf("%s has no mark where the table begins", docs)
	}
	if whole := head + "<!-- table -->\n" + table; *rewrite {
		if err := os.WriteFile(docs, []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != whole {
		t.Errorf("%s is not what was found; -rewrite writes it", docs)
	}
}

func count() (n int) {
	for _, s := range sections {
		n += len(s.faults)
	}
	return n
}

// describe is the table, as far as the scenarios were played, and what is not
// in it.
func describe(seen map[string]string) string {
	var b strings.Builder
	for _, s := range sections {
		var rows []string
		for _, f := range s.faults {
			if wrong, played := seen[f.name]; played {
				rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |\n", f.name, f.what, cell(wrong), f.ours))
			}
		}
		if len(rows) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n| fault | what goes wrong | the kubelet's own, as observed | podslice |\n|---|---|---|---|\n%s", s.title, strings.Join(rows, ""))
		}
	}
	b.WriteString("\n## Not in the table\n\n| report | why |\n|---|---|\n")
	for _, each := range elsewhere {
		fmt.Fprintf(&b, "| %s | %s |\n", each.what, each.why)
	}
	return b.String()
}

func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", "\\|"), "\n", " ")
}

// TestNames wants names to be unlike and readable as a test's name.
func TestNames(t *testing.T) {
	var names []string
	for _, s := range sections {
		for _, f := range s.faults {
			if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(f.name) {
				t.Errorf("%q is not a name", f.name)
			}
			if f.what == "" || f.ours == "" || strings.ContainsAny(f.what+f.ours, "|\n") {
				t.Errorf("%s is not described", f.name)
			}
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("some names occur twice: %v", names)
	}
}
