// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"slices"
	"strings"
	"testing"
)

// stream is what go test -json wrote for six small packages, shortened: one
// that passes from the cache, one with a failing subtest, one that panics, one
// that does not compile, one whose TestMain fails, one without tests.
const stream = `{"Action":"start","Package":"k8s.io/kubernetes/pass"}
{"Action":"run","Package":"k8s.io/kubernetes/pass","Test":"TestA"}
{"Action":"output","Package":"k8s.io/kubernetes/pass","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"k8s.io/kubernetes/pass","Test":"TestA","Elapsed":0}
{"Action":"run","Package":"k8s.io/kubernetes/pass","Test":"TestB"}
{"Action":"skip","Package":"k8s.io/kubernetes/pass","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"k8s.io/kubernetes/pass","Output":"ok  \tk8s.io/kubernetes/pass\t(cached)\n"}
{"Action":"pass","Package":"k8s.io/kubernetes/pass","Elapsed":1.5}
{"Action":"start","Package":"k8s.io/kubernetes/sub"}
{"Action":"run","Package":"k8s.io/kubernetes/sub","Test":"TestC"}
{"Action":"run","Package":"k8s.io/kubernetes/sub","Test":"TestC/one"}
{"Action":"run","Package":"k8s.io/kubernetes/sub","Test":"TestC/two"}
{"Action":"output","Package":"k8s.io/kubernetes/sub","Test":"TestC/two","Output":"    c_test.go:8: got 1\n"}
{"Action":"pass","Package":"k8s.io/kubernetes/sub","Test":"TestC/one","Elapsed":0}
{"Action":"fail","Package":"k8s.io/kubernetes/sub","Test":"TestC/two","Elapsed":0}
{"Action":"fail","Package":"k8s.io/kubernetes/sub","Test":"TestC","Elapsed":0}
{"Action":"fail","Package":"k8s.io/kubernetes/sub","Elapsed":0.1}
{"Action":"run","Package":"k8s.io/kubernetes/panics","Test":"TestD"}
{"Action":"run","Package":"k8s.io/kubernetes/panics","Test":"TestE"}
{"Action":"output","Package":"k8s.io/kubernetes/panics","Test":"TestD","Output":"panic: x\n"}
{"Action":"fail","Package":"k8s.io/kubernetes/panics","Test":"TestD","Elapsed":0}
{"Action":"fail","Package":"k8s.io/kubernetes/panics","Elapsed":0.1}
{"ImportPath":"k8s.io/kubernetes/broken [k8s.io/kubernetes/broken.test]","Action":"build-output","Output":"a_test.go:3:1: undefined: x\n"}
{"ImportPath":"k8s.io/kubernetes/broken [k8s.io/kubernetes/broken.test]","Action":"build-fail"}
{"Action":"start","Package":"k8s.io/kubernetes/broken"}
{"Action":"output","Package":"k8s.io/kubernetes/broken","Output":"FAIL\tk8s.io/kubernetes/broken [build failed]\n"}
{"Action":"fail","Package":"k8s.io/kubernetes/broken","Elapsed":0,"FailedBuild":"k8s.io/kubernetes/broken [k8s.io/kubernetes/broken.test]"}
{"Action":"run","Package":"k8s.io/kubernetes/main","Test":"TestF"}
{"Action":"pass","Package":"k8s.io/kubernetes/main","Test":"TestF","Elapsed":0}
{"Action":"fail","Package":"k8s.io/kubernetes/main","Elapsed":0}
{"Action":"output","Package":"k8s.io/kubernetes/none","Output":"?   \tk8s.io/kubernetes/none\t[no test files]\n"}
{"Action":"skip","Package":"k8s.io/kubernetes/none","Elapsed":0}
`

func read(t *testing.T) map[string]*packageResult {
	t.Helper()
	results, err := readEvents(strings.NewReader(stream), nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestReadEvents(t *testing.T) {
	done := 0
	results, err := readEvents(strings.NewReader(stream), func(*packageResult) { done++ })
	if err != nil || done != 6 {
		t.Fatalf("%d packages done, error %v", done, err)
	}
	for path, want := range map[string][]string{
		"pass":   nil,
		"sub":    {"TestC/two"},
		"panics": {""},
		"broken": {""},
		"main":   {""},
		"none":   nil,
	} {
		if got := results[modulePath+path].failures(); !slices.Equal(got, want) {
			t.Errorf("%s: failures %q, want %q", path, got, want)
		}
	}
	p := results[modulePath+"pass"]
	if !p.Cached || p.Seconds != 1.5 || p.count(passed) != 1 || p.count(skipped) != 1 {
		t.Errorf("%+v", p)
	}
	if got := results[modulePath+"sub"].tail("TestC/two", 3); got != "    c_test.go:8: got 1" {
		t.Errorf("output %q", got)
	}
	if got := results[modulePath+"broken"].tail("", 3); !strings.Contains(got, "undefined: x") {
		t.Errorf("output %q", got)
	}
	if _, err := readEvents(strings.NewReader("go: cannot\n"), nil); err == nil {
		t.Error("a line that is no JSON: want an error")
	}
}
