// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	editedFile = "pkg/kubelet/cm/container_manager.go"
	otherFile  = "cmd/kubelet/kubelet.go"
)

// editsOfTest fit upstreamFilesOfTest.
var editsOfTest = []Edit{
	{File: editedFile, Above: "package cm\n", Insert: "\n// first\n"},
	{File: editedFile, Above: "package cm\n", Insert: "\n// second\n"},
	{File: otherFile, Above: "package main\n", Insert: "\n// third\n"},
}

// TestEditsFitTheRelease makes them in the release that go.mod names.
func TestEditsFitTheRelease(t *testing.T) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	tree := strings.TrimSpace(string(out))
	changed, err := planEdits(tree, nil, Edits)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range Edits {
		text := changed[e.File]
		if strings.Count(string(text), e.Insert) != 1 {
			t.Errorf("%s has an edit not once", e.File)
		}
		if formatted, err := format.Source(text); err != nil || string(formatted) != string(text) {
			t.Errorf("%s is not formatted: %v", e.File, err)
		}
		back := string(text)
		for _, o := range Edits {
			if o.File == e.File {
				back = o.undo(back)
			}
		}
		if was, err := os.ReadFile(filepath.Join(tree, e.File)); err != nil || string(was) != back {
			t.Errorf("%s is not as before without the edits: %v", e.File, err)
		}
	}
}

func TestInstallEdits(t *testing.T) {
	tree, o := checkout(t)
	o.Edits = editsOfTest
	// The owner's own changes elsewhere in the file stay.
	write(t, tree, map[string]string{editedFile: "// the fork's\npackage cm\n\nvar own int\n"})
	pkgs := load(t, ours)
	if done, want := mustInstall(t, tree, pkgs, o), (Result{Written: 6, Removed: 7, Edited: 2}); done != want {
		t.Errorf("done %+v, want %+v", done, want)
	}
	after := snapshot(t, tree)
	if got, want := after[editedFile], "// the fork's\npackage cm\n\n// second\n\n// first\n\nvar own int\n"; got != want {
		t.Errorf("edited file is\n%s\nwant\n%s", got, want)
	}
	if got, want := after[otherFile], "package main\n\n// third\n"; got != want {
		t.Errorf("edited file is\n%s\nwant\n%s", got, want)
	}
	for _, line := range []string{`# inserted into pkg/kubelet/cm/container_manager.go: "\n// first\n"`, `# inserted into cmd/kubelet/kubelet.go: "\n// third\n"`} {
		if !strings.Contains(after[CMDir+"/"+manifestName], line+"\n") {
			t.Errorf("the manifest has no line %s", line)
		}
	}
	if done := mustInstall(t, tree, pkgs, o); done != (Result{}) {
		t.Errorf("a second time: %+v, want nothing changed", done)
	}

	// What somebody has moved is there; what somebody has taken out comes back.
	write(t, tree, map[string]string{
		editedFile: "package cm\n\nvar own int\n\n// second\n\n// first\n",
		otherFile:  "package main\n",
	})
	if done, want := mustInstall(t, tree, pkgs, o), (Result{Edited: 1}); done != want {
		t.Errorf("done %+v, want %+v", done, want)
	}
}

// A podslice with other edits takes the earlier ones out, whether the run before
// it came to its end or not.
func TestInstallOtherEdits(t *testing.T) {
	tree, o := checkout(t)
	before := snapshot(t, tree)
	pkgs := load(t, ours)
	o.Edits = editsOfTest
	mustInstall(t, tree, pkgs, o)
	o.Edits = []Edit{{File: editedFile, Above: "package cm\n", Insert: "\n// changed\n"}}
	if done, want := mustInstall(t, tree, pkgs, o), (Result{Edited: 2}); done != want {
		t.Errorf("done %+v, want %+v", done, want)
	}
	after := snapshot(t, tree)
	if got, want := after[editedFile], "package cm\n\n// changed\n"; got != want {
		t.Errorf("edited file is\n%s\nwant\n%s", got, want)
	}
	if after[otherFile] != before[otherFile] {
		t.Errorf("%s is\n%s", otherFile, after[otherFile])
	}
	if strings.Contains(after[CMDir+"/"+manifestName], "third") {
		t.Error("the manifest has an edit that is gone")
	}

	// One of two files was changed when the run was cut short.
	journal := manifest{}
	for name, data := range pkgs {
		journal.add(name, digestOf(data))
	}
	text := journal.text("0.1.0", true, append(o.Edits, editsOfTest...)...)
	write(t, tree, map[string]string{
		CMDir + "/" + manifestName: string(text),
		otherFile:                  "package main\n\n// third\n",
	})
	mustInstall(t, tree, pkgs, o)
	for name, content := range snapshot(t, tree) {
		if content != after[name] {
			t.Errorf("%s is\n%s\nwant\n%s", name, content, after[name])
		}
	}
}

func TestInstallRefusesWhatItCannotEdit(t *testing.T) {
	pkgs := load(t, ours)
	tree, o := checkout(t)
	o.Edits, o.Replace = editsOfTest, true
	write(t, tree, map[string]string{editedFile: "package cm // changed\n", otherFile: "package main\npackage main\n"})
	refuses(t, tree, pkgs, o,
		editedFile+" has these lines 0 times and not once:\npackage cm\n",
		otherFile+" has these lines 2 times and not once:\npackage main\n",
		"\n// third\n", "by hand")

	tree, o = checkout(t)
	o.Edits = editsOfTest
	if err := os.Remove(filepath.Join(tree, editedFile)); err != nil {
		t.Fatal(err)
	}
	refuses(t, tree, pkgs, o, "podslice has to edit a file of Kubernetes", "no such file")
	if err := os.Symlink(filepath.Join(tree, otherFile), filepath.Join(tree, editedFile)); err != nil {
		t.Fatal(err)
	}
	refuses(t, tree, pkgs, o, "is not a file")

	tree, o = checkout(t)
	write(t, tree, map[string]string{CMDir + "/" + manifestName: editLine + "../../etc/passwd: \"x\"\n"})
	refuses(t, tree, pkgs, o, manifestName+":1: not a path and a quoted text")
}
