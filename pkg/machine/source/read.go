// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/pkg/nearest"
)

// Forms is what Read takes besides nothing, for the help of a flag and for errors.
const Forms = "a folder with a copy of /sys, a tar archive of one (plain, gzip, bzip2 or zstd), cAdvisor's MachineInfo as JSON, " +
	`podslice's own YAML or JSON, the name of a shipped machine, or one line such as "2 sockets, 2 nodes each, 16 cores, 2 threads, 256Gi"`

// maxDocument bounds a description or a report in bytes.
const maxDocument = 16 << 20

// Read reads the machine that from names, and this machine if it is empty. The
// notes say what the source lacks and what was taken in its place, a sentence
// each; there are none for a source that tells everything. The errors name the
// file, or the file in an archive or folder, what was read, and what is accepted.
func Read(from string) (machine.Machine, []string, error) {
	if from == "" {
		from = "/"
	}
	if slices.Contains(catalog.Names(), from) {
		m, err := catalog.Get(from)
		return noted(from, m, err)
	}
	about, err := os.Stat(from)
	switch {
	case err == nil && about.IsDir():
		return readFolder(from)
	case err == nil:
		file, err := os.Open(from)
		if err != nil {
			return machine.Machine{}, nil, err
		}
		defer file.Close()
		return readFile(from, file)
	case isLine(from):
		return readLine(from)
	case errors.Is(err, fs.ErrNotExist):
		if near := nearest.Name(from, slices.Values(catalog.Names())); near != "" {
			return machine.Machine{}, nil, fmt.Errorf("there is no file or folder %q, and no shipped machine of that name; did you mean %s?", from, near)
		}
		return machine.Machine{}, nil, fmt.Errorf("there is no file or folder %q, and no shipped machine of that name; there are %s. Want %s",
			from, strings.Join(catalog.Names(), ", "), Forms)
	}
	return machine.Machine{}, nil, err
}

// ReadFrom is Read for what comes through a pipe; name is its name for errors.
func ReadFrom(name string, text io.Reader) (machine.Machine, []string, error) {
	return readFile(name, text)
}

// nameOf is what a machine is called that was read from a file or folder. A copy of
// /sys is called like the folder that it is in.
func nameOf(file string) string {
	name := filepath.Base(file)
	if above := filepath.Base(filepath.Dir(file)); name == "sys" && above != "/" && above != "." {
		name = above
	}
	for _, suffix := range []string{".json", ".tgz", ".tbz2", ".gz", ".bz2", ".zst", ".tar"} {
		if short := strings.TrimSuffix(name, suffix); short != "" {
			name = short
		}
	}
	return strings.ToValidUTF8(name, "?")
}

// noted is a description with what it lacks.
func noted(name string, m machine.Machine, err error) (machine.Machine, []string, error) {
	if err != nil {
		return machine.Machine{}, nil, err
	}
	var n notes
	n.lacks(name, m)
	return m, n.texts, nil
}

// readFolder reads a folder with a copy of /sys, or one above it. Links that lead
// out of the folder are not followed.
func readFolder(folder string) (machine.Machine, []string, error) {
	whole, err := filepath.Abs(folder)
	if err != nil {
		return machine.Machine{}, nil, err
	}
	name := nameOf(whole)
	if whole == "/" {
		name, folder = "this machine", whole
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return machine.Machine{}, nil, err
	}
	defer root.Close()
	m, notes, err := readSys(name, folder, "/", root.FS())
	if err != nil {
		return machine.Machine{}, nil, fmt.Errorf("%w; want %s", err, Forms)
	}
	return m, notes, nil
}

// readFile reads what is no folder, by what it begins with.
func readFile(name string, file io.Reader) (machine.Machine, []string, error) {
	text, plain, err := unpacked(name, bufio.NewReader(file))
	if err != nil {
		return machine.Machine{}, nil, err
	}
	buffered := bufio.NewReader(text)
	head, err := buffered.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return machine.Machine{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case isTar(head):
		files, err := readArchive(name, buffered)
		if err != nil {
			return machine.Machine{}, nil, err
		}
		return readSys(nameOf(name), name, ": ", files)
	case !plain:
		return machine.Machine{}, nil, fmt.Errorf("%s is compressed, but no tar archive; want %s", name, Forms)
	}
	return readDocument(name, buffered)
}

// readDocument reads a description of ours, or cAdvisor's report.
func readDocument(name string, file io.Reader) (machine.Machine, []string, error) {
	text, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	if err != nil {
		return machine.Machine{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // as editors on Windows write
	trimmed := bytes.TrimSpace(text)
	switch {
	case len(text) > maxDocument:
		return machine.Machine{}, nil, fmt.Errorf("%s is larger than the %d bytes that a description may have", name, maxDocument)
	case len(trimmed) == 0:
		return machine.Machine{}, nil, fmt.Errorf("%s is empty; want %s", name, Forms)
	case trimmed[0] == '<':
		return machine.Machine{}, nil, fmt.Errorf("%s is XML (of hwloc?), which is not read; want %s", name, Forms)
	case bytes.IndexByte(text, 0) >= 0:
		return machine.Machine{}, nil, fmt.Errorf("%s is no text and no tar archive; want %s", name, Forms)
	case isReport(text):
		return readReport(name, text)
	}
	if kind := kindOf(text); kind != "" {
		return machine.Machine{}, nil, fmt.Errorf("%s is a %.40s, and no machine; want %s", name, kind, Forms)
	}
	m, err := machine.Parse(name, text)
	if err != nil {
		return machine.Machine{}, nil, fmt.Errorf("%w; want %s", err, Forms)
	}
	return noted(name, m, nil)
}

var kindLine = regexp.MustCompile(`(?m)^\s*"?kind"?:\s*"?([A-Za-z]+)`)

// kindOf is the kind of an object of Kubernetes, which is often the wrong file of
// several. No machine has one.
func kindOf(text []byte) string {
	if match := kindLine.FindSubmatch(text); match != nil && bytes.Contains(text, []byte("apiVersion")) {
		return string(match[1])
	}
	return ""
}
