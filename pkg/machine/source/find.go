// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// ofCopy is how many folders a copy of /sys may be below what was named.
	ofCopy = 3
	// maxFolders bounds how many folders are looked into for it.
	maxFolders = 10000
)

// find finds the one folder in a tree that is a copy of /sys/devices/system: the
// tree may be the copy of /, of /sys or of that folder, or hold it further down, as
// archives do, at most so many folders down.
func find(files fs.FS, maxDepth int) (string, error) {
	level := []string{"."}
	for depth, looked := 0, 0; depth <= maxDepth; depth++ {
		var found, below []string
		for _, folder := range level {
			for _, inner := range []string{"sys/devices/system", "devices/system", "system", "."} {
				if system := path.Join(folder, inner); !slices.Contains(found, system) && hasCPUs(files, system) {
					found = append(found, system)
				}
			}
			if looked++; looked > maxFolders {
				return "", fmt.Errorf("it has no copy of /sys among its first %d folders", maxFolders)
			}
			entries, err := fs.ReadDir(files, folder)
			if err != nil && depth == 0 {
				return "", err
			}
			for _, e := range entries {
				if e.IsDir() { // and no link, which could lead round in circles
					below = append(below, path.Join(folder, e.Name()))
				}
			}
		}
		if len(found) > 1 {
			return "", fmt.Errorf("it has more than one copy of /sys: %s; name one", strings.Join(found, ", "))
		}
		if len(found) == 1 {
			return found[0], nil
		}
		level = below
	}
	if maxDepth == 0 {
		return "", errors.New("it has no CPUs in /sys/devices/system/cpu")
	}
	return "", fmt.Errorf("it has no copy of /sys: no folder devices/system/cpu with CPUs up to %d folders down", maxDepth)
}

func hasCPUs(files fs.FS, system string) bool {
	ids, err := list(files, path.Join(system, "cpu"), "cpu")
	return err == nil && len(ids) > 0
}

// list is the numbers of a folder's entries that are named prefix and a number, in
// the order of the names as text, which is the order in which cAdvisor finds them.
func list(files fs.FS, folder, prefix string) ([]int, error) {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, e := range entries {
		if text, ok := strings.CutPrefix(e.Name(), prefix); ok {
			if id, err := strconv.Atoi(text); err == nil && strconv.Itoa(id) == text && id >= 0 {
				ids = append(ids, id)
			}
		}
	}
	slices.SortFunc(ids, func(a, b int) int { return strings.Compare(strconv.Itoa(a), strconv.Itoa(b)) })
	return ids, nil
}

// meminfo is where /proc/meminfo is beside a copy of /sys/devices/system, if that
// is part of a copy of more.
func meminfo(system string) (string, bool) {
	root, ok := strings.CutSuffix("/"+system, "/sys/devices/system")
	return path.Join(strings.TrimPrefix(root, "/"), "proc/meminfo"), ok
}
