// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestInstall(t *testing.T) {
	tree, o := checkout(t)
	before := snapshot(t, tree)
	done := mustInstall(t, tree, load(t, ours), o)
	if want := (Result{Written: 6, Removed: 7}); done != want {
		t.Errorf("done %+v, want %+v", done, want)
	}
	if got := listing(t, tree); got != installed {
		t.Errorf("tree has\n%s\nwant\n%s", got, installed)
	}
	after := snapshot(t, tree)
	for name, content := range before {
		if !strings.HasPrefix(name, CMDir) && after[name] != content {
			t.Errorf("%s was touched", name)
		}
	}

	o.Upstream = func() (string, error) { return "", errors.New("no network") }
	if done := mustInstall(t, tree, load(t, ours), o); done != (Result{}) || !maps.Equal(after, snapshot(t, tree)) {
		t.Errorf("a second time: %+v, want nothing changed", done)
	}
}

func TestManifestIsReadBySha256sum(t *testing.T) {
	if _, err := exec.LookPath("sha256sum"); err != nil {
		t.Skip("no sha256sum command")
	}
	tree, o := checkout(t)
	mustInstall(t, tree, load(t, ours), o)
	check := exec.Command("sha256sum", "--strict", "-c", manifestName)
	check.Dir = filepath.Join(tree, filepath.FromSlash(CMDir))
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 6 {
		t.Errorf("%v: %s", err, out)
	}
}

// A package of ours that is renamed leaves nothing behind, and its new name is
// not taken for upstream's.
func TestInstallOtherPackages(t *testing.T) {
	tree, o := checkout(t)
	mustInstall(t, tree, load(t, ours), o)
	renamed := map[string]string{}
	for name, content := range ours {
		renamed[strings.Replace(name, "cm/numa/", "cm/nodes/", 1)] = strings.ReplaceAll(content, "cm/numa", "cm/nodes")
	}
	// nodes/set.go is new, manager.go imports it, numa/set.go goes.
	if done, want := mustInstall(t, tree, load(t, renamed), o), (Result{Written: 2, Removed: 1}); done != want {
		t.Errorf("done %+v, want %+v", done, want)
	}
	if got, want := listing(t, tree), strings.Replace(installed, "numa/", "nodes/", 1); got != sorted(want) {
		t.Errorf("tree has\n%s\nwant\n%s", got, want)
	}
}

func sorted(lines string) string {
	all := strings.Split(lines, "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// Whatever a run that is cut short leaves, the next one finishes: here every
// mixture that removing first and writing then can leave, and a file half written.
func TestInstallFinishesWhatWasInterrupted(t *testing.T) {
	pkgs := load(t, ours)
	tree, o := checkout(t)
	mustInstall(t, tree, pkgs, o)
	want := snapshot(t, tree)

	for _, foreign := range []bool{false, true} {
		for removed := 0; removed <= 7; removed++ {
			for written := 0; written <= len(pkgs); written++ {
				if removed < 7 && written > 0 {
					continue
				}
				tree, o := checkout(t)
				if foreign {
					write(t, tree, map[string]string{CMDir + "/cpumanager/OWNERS": "patched\n"})
					o.Replace = true
				}
				interrupt(t, tree, pkgs, removed, written)
				o.Replace = false
				if mustInstall(t, tree, pkgs, o); !maps.Equal(want, snapshot(t, tree)) {
					t.Errorf("after %d removed and %d written: tree has\n%s\nwant\n%s", removed, written, listing(t, tree), installed)
				}
			}
		}
	}
}

// interrupt does what Install does up to some step.
func interrupt(t *testing.T, tree string, pkgs Packages, removed, written int) {
	t.Helper()
	base := filepath.Join(tree, filepath.FromSlash(CMDir))
	found, err := takeInventory(base, Replaced)
	if err != nil {
		t.Fatal(err)
	}
	journal := manifest{}
	for name, digest := range found.files {
		journal.add(name, digest)
	}
	for name, data := range pkgs {
		journal.add(name, digestOf(data))
	}
	write(t, base, map[string]string{manifestName: string(journal.text("0.1.0", true)), "memorymanager/" + tmpName: "pack", tmpName: "# pod"})
	for _, name := range slices.Sorted(maps.Keys(found.files))[:removed] {
		if err := os.Remove(filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pkgs))[:written] {
		write(t, base, map[string]string{name: string(pkgs[name])})
	}
}

// Files of podslice's that are gone are put back: nothing is lost by that. So
// is everything after git has put upstream's files back beside ours.
func TestInstallPutsBack(t *testing.T) {
	tree, o := gitCheckout(t)
	pkgs := load(t, ours)
	mustInstall(t, tree, pkgs, o)
	want := snapshot(t, tree)
	if err := os.RemoveAll(filepath.Join(tree, CMDir, "numa")); err != nil {
		t.Fatal(err)
	}
	git(t, tree, "checkout", "-q", ".")
	if done := mustInstall(t, tree, pkgs, o); done != (Result{Written: 1, Removed: 7}) || !maps.Equal(want, snapshot(t, tree)) {
		t.Errorf("done %+v, tree has\n%s", done, listing(t, tree))
	}
}
