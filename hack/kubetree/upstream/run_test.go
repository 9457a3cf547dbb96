// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// small writes a module with the name of Kubernetes and a few packages.
func small(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func testFile(pkg, name, body string) string {
	return fmt.Sprintf("package %s\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Remove\n\nfunc %s(t *testing.T) { %s }\n", pkg, name, body)
}

// TestRun runs the go command on two small trees, with every verdict there is.
func TestRun(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	stock := map[string]string{
		"go.mod":                              "module k8s.io/kubernetes\n\ngo 1.26\n",
		"good/a_test.go":                      testFile("good", "TestGood", ""),
		"ours/a_test.go":                      testFile("ours", "TestOurs", `t.Run("sub", func(t *testing.T) {})`),
		"theirs/a_test.go":                    testFile("theirs", "TestTheirs", "t.Fatal()"),
		"known/a_test.go":                     testFile("known", "TestKnown", "t.Fatal()"),
		"flaky/a_test.go":                     testFile("flaky", "TestFlaky", ""),
		"mended/a_test.go":                    testFile("mended", "TestMended", ""),
		"broken/a_test.go":                    testFile("broken", "TestBroken", ""),
		"pkg/kubelet/cm/cpumanager/a_test.go": testFile("cpumanager", "TestGone", "t.Fatal()"),
		"none/a.go":                           "package none\n",
	}
	ours := maps.Clone(stock)
	ours["ours/a_test.go"] = testFile("ours", "TestOurs", `t.Run("sub", func(t *testing.T) { t.Fatal("what we did") })`)
	ours["flaky/a_test.go"] = testFile("flaky", "TestFlaky", fmt.Sprintf("if os.Mkdir(%q, 0o755) == nil { t.Fatal() }", marker))
	ours["broken/a_test.go"] = testFile("broken", "TestBroken", "gone()")
	root := small(t, map[string]string{baselineDir + "/v1.37.9.txt": "known TestKnown because\nmended TestMended because\n"})

	var out strings.Builder
	report, err := Run(context.Background(), Options{
		Root: root, Kube: "v1.37.9", Trees: Trees{Stock: small(t, stock), Ours: small(t, ours)},
		Packages: "...", Out: &out,
		Steps: []Step{{"fits", []string{"build", "./none"}, nil}, {"fits-not", []string{"list", "-test", "-export", "./broken"}, nil}},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	want := "FAILED: 7 packages, 7 tests; 2 FAIL with podslice only; 1 known to fail without it; 1 fail without it too and are not in the baseline; 1 failed once and passed alone; 1 of the baseline pass; compiled: fits; DO NOT COMPILE: fits-not"
	if got := report.Summary(); got != want {
		t.Errorf("got  %s\nwant %s\n%s", got, want, out.String())
	}
	for _, want := range []string{
		"upstream: ours TestOurs/sub: FAILS with podslice only\n",
		"what we did",
		"upstream: broken (the whole package): FAILS with podslice only\n",
		"undefined: gone",
		"upstream: theirs TestTheirs: fails without podslice too\n",
		"upstream: flaky TestFlaky: failed once, passed alone\n",
		"upstream: known TestKnown: known\n    because\n",
		"upstream: mended TestMended passes, and the baseline says it fails: because\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "cpumanager") {
		t.Errorf("a package that ours replace was run:\n%s", out.String())
	}
}
