// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// manifestName is the file in a tree's pkg/kubelet/cm that says what is ours.
const manifestName = ".podslice-manifest"

// manifest is the digests that a file of podslice's may have, by path: one for
// each file, and more only while a run is under way.
type manifest map[string][]string

func (m manifest) add(name, digest string) {
	if !m.has(name, digest) {
		m[name] = append(m[name], digest)
	}
}

func (m manifest) has(name, digest string) bool {
	return slices.Contains(m[name], digest)
}

func (m manifest) clone() manifest {
	out := manifest{}
	for name, digests := range m {
		out[name] = slices.Clone(digests)
	}
	return out
}

func (m manifest) dirs() []string {
	return topDirs(maps.Keys(m))
}

// text writes a manifest as sha256sum reads it, so that anybody can check a tree
// without us, and what was put into files that are not podslice's.
func (m manifest) text(version string, unfinished bool, edits ...Edit) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# podslice %s wrote these files (make drop-in). To check them: sha256sum -c %s\n", version, manifestName)
	if unfinished {
		fmt.Fprintf(&b, "# This run has not finished. Run make drop-in again.\n")
	}
	for _, e := range edits {
		b.WriteString(e.line())
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, digest := range m[name] {
			fmt.Fprintf(&b, "%s  %s\n", digest, name)
		}
	}
	return []byte(b.String())
}

// readManifest returns the manifest of a tree's pkg/kubelet/cm with the edits that
// it tells of, and whether there is one.
func readManifest(base string) (manifest, []Edit, bool, error) {
	path := filepath.Join(base, manifestName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, nil, false, nil
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("manifest of podslice's files: %w", err)
	}
	m := manifest{}
	var edits []Edit
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if strings.HasPrefix(line, editLine) {
			e, err := parseEdit(line)
			if err != nil {
				return nil, nil, false, fmt.Errorf("%s:%d: %w; restore the file as make drop-in wrote it", path, i+1, err)
			}
			edits = append(edits, e)
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		digest, name, _ := strings.Cut(line, "  ")
		sum, err := hex.DecodeString(digest)
		// The paths are removed by, so none may lead elsewhere.
		if err != nil || len(sum) != 32 || !fs.ValidPath(name) || !strings.Contains(name, "/") {
			return nil, nil, false, fmt.Errorf("%s:%d: not a digest and a path; restore the file as make drop-in wrote it", path, i+1)
		}
		m.add(name, digest)
	}
	return m, edits, true, nil
}
