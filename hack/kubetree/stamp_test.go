// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStamp(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "kubelet")
	s := digest("x", map[string][]byte{"a": []byte("1"), "b": []byte("2")})
	if s == digest("x", map[string][]byte{"a": []byte("12"), "b": nil}) || s == digest("y", map[string][]byte{"a": []byte("1"), "b": []byte("2")}) {
		t.Error("different inputs, same digest")
	}
	check := func(when string, want bool) {
		t.Helper()
		if got, err := s.matches(binary); got != want || err != nil {
			t.Errorf("%s: matches %v, error %v; want %v", when, got, err, want)
		}
	}
	check("no binary", false)
	if err := os.WriteFile(binary, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	check("no stamp", false)
	if err := s.write(binary); err != nil {
		t.Fatal(err)
	}
	check("built", true)
	s = digest("x", nil)
	check("other inputs", false)
}
