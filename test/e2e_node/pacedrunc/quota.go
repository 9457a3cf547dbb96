// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// liftPeriod is how often a cgroup that does not exist yet is looked for.
const liftPeriod = 20 * time.Millisecond

// lift takes the CFS quotas from a cgroup, which may come into being meanwhile, and
// from those above it, until done is closed; then they have them again.
func lift(root, path string, done <-chan struct{}) error {
	was := map[string]string{}
	for {
		// The root has no quota.
		for dir := filepath.Clean("/" + path); dir != "/"; dir = filepath.Dir(dir) {
			file := filepath.Join(root, dir, "cpu.max")
			if _, found := was[file]; found {
				continue
			}
			value, err := take(file)
			if err != nil {
				return errors.Join(err, restore(was))
			}
			if value != "" {
				was[file] = value
			}
		}
		select {
		case <-done:
			return restore(was)
		case <-time.After(liftPeriod):
		}
	}
}

// take removes the quota of a cgroup and returns what it was, or "" if there is none.
func take(file string) (string, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	value := strings.TrimSpace(string(data))
	if err != nil || unlimited(value) {
		return "", err
	}
	return value, os.WriteFile(file, []byte("max"), 0)
}

// restore sets quotas that were taken, unless somebody has set others meanwhile.
func restore(was map[string]string) error {
	var failures []error
	for file, value := range was {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the container could not be created
		}
		if err == nil && unlimited(strings.TrimSpace(string(data))) {
			err = os.WriteFile(file, []byte(value), 0)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// unlimited is for the text of cpu.max, quota and period.
func unlimited(value string) bool { return value == "" || strings.HasPrefix(value, "max") }
