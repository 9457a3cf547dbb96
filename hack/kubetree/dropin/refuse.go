// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// refuse returns an error when files would go that are neither podslice's nor
// upstream's. known says whether the tree has a manifest.
func refuse(tree string, found inventory, before manifest, known bool, o Options) error {
	reasons := map[string]string{}
	for name, digest := range found.files {
		if before.has(name, digest) {
			continue
		}
		if len(before[name]) > 0 {
			reasons[name] = "written by podslice and changed since"
		} else {
			reasons[name] = "not in Kubernetes " + o.Release
		}
	}
	// Without a manifest nothing is podslice's, and what the owner has removed
	// is a change, too. With one, a file that is missing is only put back.
	if !known || len(reasons) > 0 {
		upstream, err := upstreamFiles(o)
		if err != nil {
			return err
		}
		for name, digest := range upstream {
			is, present := found.files[name]
			switch {
			case is == digest:
				delete(reasons, name)
			case present && reasons[name] != "" && len(before[name]) == 0:
				reasons[name] = "not as in Kubernetes " + o.Release
			case !present && !known:
				reasons[name] = "missing, is in Kubernetes " + o.Release
			}
		}
	}
	if len(reasons) > 0 && !o.Replace {
		return fmt.Errorf("%s has changes in what podslice replaces that it did not write:\n%s\n%s",
			filepath.Join(tree, filepath.FromSlash(CMDir)), list(reasons),
			"If the tree is of another patch release, name it: KUBE_VERSION=v1.37.x. If these are patches of your own that may go: REPLACE=1.")
	}
	return refuseUncommitted(tree, found.dirs, reasons, known)
}

// refuseUncommitted refuses what could not be had back from git: on a first run
// any change that is not committed, later those among the foreign files.
func refuseUncommitted(tree string, dirs []string, foreign map[string]string, known bool) error {
	if known && len(foreign) == 0 {
		return nil
	}
	pending, err := uncommitted(tree, dirs)
	if err != nil {
		return err
	}
	if known {
		maps.DeleteFunc(pending, func(name, _ string) bool { return foreign[name] == "" })
	}
	if len(pending) == 0 {
		return nil
	}
	return fmt.Errorf("%s has changes in what podslice replaces that are not committed to git:\n%s\nCommit or undo them first.",
		filepath.Join(tree, filepath.FromSlash(CMDir)), list(pending))
}

// upstreamFiles returns the digests of the release's own files in the
// directories that ours replace.
func upstreamFiles(o Options) (map[string]string, error) {
	dir, err := o.Upstream()
	if err != nil {
		return nil, fmt.Errorf("what Kubernetes %s has in the folders that podslice replaces: %w", o.Release, err)
	}
	found, err := takeInventory(filepath.Join(dir, filepath.FromSlash(CMDir)), Replaced)
	if err != nil {
		return nil, err
	}
	if len(found.files) == 0 {
		return nil, fmt.Errorf("%s has none of the folders that podslice replaces", dir)
	}
	return found.files, nil
}

// list writes one file a line, and stops where nobody reads on.
func list(reasons map[string]string) string {
	const most = 20
	names := slices.Sorted(maps.Keys(reasons))
	var lines []string
	for _, name := range names[:min(most, len(names))] {
		lines = append(lines, fmt.Sprintf("  %s: %s", name, reasons[name]))
	}
	if more := len(names) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	return strings.Join(lines, "\n")
}
