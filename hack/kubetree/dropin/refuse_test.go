// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refuses checks that Install says why not, and changes nothing.
func refuses(t *testing.T, tree string, pkgs Packages, o Options, want ...string) {
	t.Helper()
	before := snapshot(t, tree)
	_, err := Install(tree, pkgs, o)
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v\nwant one that says %q", err, w)
		}
	}
	if !maps.Equal(before, snapshot(t, tree)) {
		t.Error("the tree was changed before the refusal")
	}
}

func TestInstallRefusesANameOfUpstreams(t *testing.T) {
	files := maps.Clone(ours)
	files[CMDir+"/util/ours.go"] = "package util\n"
	tree, o := checkout(t)
	refuses(t, tree, load(t, files), o, "has a folder util that is not podslice's")
}

func TestInstallRefusesPatchesOnAFirstRun(t *testing.T) {
	tree, o := checkout(t)
	write(t, tree, map[string]string{
		CMDir + "/cpumanager/cpu_manager.go": "package cpumanager // patched\n",
		CMDir + "/memorymanager/extra.go":    "package memorymanager\n",
	})
	if err := os.Remove(filepath.Join(tree, CMDir, "topologymanager/topology_manager_test.go")); err != nil {
		t.Fatal(err)
	}
	refuses(t, tree, load(t, ours), o,
		"  cpumanager/cpu_manager.go: not as in Kubernetes v1.37.2\n",
		"  memorymanager/extra.go: not in Kubernetes v1.37.2\n",
		"  topologymanager/topology_manager_test.go: missing, is in Kubernetes v1.37.2\n",
		"KUBE_VERSION=", "REPLACE=1")
	o.Replace = true
	mustInstall(t, tree, load(t, ours), o)
	if got := listing(t, tree); got != installed {
		t.Errorf("tree has\n%s", got)
	}
}

func TestInstallRefusesChangesOnALaterRun(t *testing.T) {
	tree, o := checkout(t)
	pkgs := load(t, ours)
	mustInstall(t, tree, pkgs, o)
	write(t, tree, map[string]string{
		CMDir + "/numa/set.go":                                   "package numa // tried something\n",
		CMDir + "/numa/more.go":                                  "package numa\n",
		CMDir + "/memorymanager/memory_manager.go":               upstreamFilesOfTest[CMDir+"/memorymanager/memory_manager.go"],
		CMDir + "/topologymanager/testdata/a_file_of_the_fork's": "x\n",
	})
	refuses(t, tree, pkgs, o,
		"  numa/set.go: written by podslice and changed since\n",
		"  numa/more.go: not in Kubernetes v1.37.2\n",
		"  topologymanager/testdata/a_file_of_the_fork's: not in Kubernetes v1.37.2\n")
	if _, err := Install(tree, pkgs, o); strings.Contains(err.Error(), "memory_manager.go") {
		t.Errorf("a file of upstream's own counts as a change: %v", err)
	}
}

func TestInstallRefusesWhatGitDoesNotHave(t *testing.T) {
	tree, o := gitCheckout(t)
	pkgs := load(t, ours)
	o.Replace = true
	patched := map[string]string{CMDir + "/cpumanager/cpu_manager.go": "package cpumanager // patched\n"}
	write(t, tree, patched)
	write(t, tree, map[string]string{".gitignore": "*.bak\n", CMDir + "/cpumanager/x.bak": "x\n"})
	refuses(t, tree, pkgs, o, "cpumanager/cpu_manager.go: not committed", "cpumanager/x.bak: not committed", "Commit or undo them first")

	if err := os.Remove(filepath.Join(tree, CMDir, "cpumanager/x.bak")); err != nil {
		t.Fatal(err)
	}
	commit(t, tree)
	mustInstall(t, tree, pkgs, o)
	// Our own files are not committed either, and yet no obstacle.
	mustInstall(t, tree, pkgs, o)

	change := map[string]string{CMDir + "/numa/set.go": "package numa // changed\n"}
	write(t, tree, change)
	refuses(t, tree, pkgs, o, "numa/set.go: ")
}

// What is in git's index only is a change as well: it would be gone.
func TestInstallRefusesWhatIsStaged(t *testing.T) {
	tree, o := gitCheckout(t)
	git(t, tree, "rm", "-q", CMDir+"/topologymanager/topology_manager_test.go")
	write(t, tree, map[string]string{CMDir + "/topologymanager/topology_manager_test.go": "package topologymanager\n"})
	refuses(t, tree, load(t, ours), o, "topology_manager_test.go: not committed")
}

func TestInstallRefusesLinks(t *testing.T) {
	tree, o := checkout(t)
	elsewhere := t.TempDir()
	dir := filepath.Join(tree, CMDir, "memorymanager")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(tree, load(t, ours), o); err == nil || !strings.Contains(err.Error(), "cannot be replaced safely") {
		t.Errorf("error %v", err)
	}
}

func TestInstallRefusesABadManifest(t *testing.T) {
	digest := digestOf(nil)
	for _, line := range []string{"numa", "<<<<<<< HEAD", digest + "  ../../x", digest + "  /etc/x", digest[:10] + "  numa/set.go", digest + "  container_manager.go"} {
		tree, o := checkout(t)
		write(t, tree, map[string]string{CMDir + "/" + manifestName: "# x\n" + line + "\n"})
		refuses(t, tree, load(t, ours), o, manifestName+":2: ")
	}
}

func TestCheckTree(t *testing.T) {
	for _, test := range []struct {
		name   string
		change map[string]string
		remove string
		want   string
	}{
		{name: "a checkout of 1.37"},
		{name: "another minor release", change: map[string]string{versionFile: "package version\n\nconst DefaultKubeBinaryVersion = \"1.38\"\n"}, want: "is Kubernetes 1.38: these packages implement the manager interfaces of 1.37 only"},
		{name: "another module", change: map[string]string{"go.mod": "module example.org/x\n"}, want: "no go.mod of the module k8s.io/kubernetes"},
		{name: "no go.mod", remove: "go.mod", want: "no go.mod of the module"},
		{name: "no kubelet", remove: "cmd/kubelet", want: "it has no folder cmd/kubelet"},
		{name: "no cm", remove: CMDir, want: "it has no folder " + CMDir},
		{name: "no staging modules", remove: "staging", want: "does not tell which Kubernetes it is"},
		{name: "no constant", change: map[string]string{versionFile: "package version\n"}, want: "no string DefaultKubeBinaryVersion"},
		{name: "no folder", remove: ".", want: "is not a folder"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree, _ := checkout(t)
			write(t, tree, test.change)
			if test.remove != "" {
				if err := os.RemoveAll(filepath.Join(tree+"/.", test.remove)); err != nil {
					t.Fatal(err)
				}
			}
			err := CheckTree(tree, "1.37")
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
