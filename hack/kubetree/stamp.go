// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
)

// stamp is a digest of everything a binary is made from, in hexadecimal. It is
// kept in a hidden file beside the binary.
type stamp string

// digest hashes named contents; the order in which they are given is no matter.
func digest(kind string, files map[string][]byte) stamp {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", kind)
	for _, name := range names {
		fmt.Fprintf(h, "%q %d\n", name, len(files[name]))
		h.Write(files[name])
	}
	return stamp(hex.EncodeToString(h.Sum(nil)))
}

func stampFile(binary string) string {
	return filepath.Join(filepath.Dir(binary), "."+filepath.Base(binary)+".stamp")
}

// matches says whether binary exists and was built from inputs of this digest.
func (s stamp) matches(binary string) (bool, error) {
	if _, err := os.Stat(binary); err != nil {
		return false, nil
	}
	was, err := os.ReadFile(stampFile(binary))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return string(was) == string(s), err
}

func (s stamp) write(binary string) error {
	return os.WriteFile(stampFile(binary), []byte(s), 0o644)
}
