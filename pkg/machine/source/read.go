// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cadvisorapi "github.com/google/cadvisor/lib/model"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
)

// Forms is what Read takes, for the help of a flag and for errors.
const Forms = "a folder with a copy of /sys, a tar archive of one, cAdvisor's MachineInfo as JSON, podslice's own YAML or JSON, " +
	`the name of a shipped machine, or one line such as "2 sockets, 2 nodes each, 16 cores, 2 threads, 256Gi"`

// maxDocument bounds a description or a report in bytes.
const maxDocument = 16 << 20

// Read reads the machine that from names, and this machine if it is empty. The
// notes say what the source lacks and what was taken in its place, a sentence
// each; they are empty for a source that tells everything. The errors name the
// file, or the file in an archive or folder, what was read, and what is accepted.
func Read(from string) (machine.Machine, []string, error) {
	if slices.Contains(catalog.Names(), from) {
		m, err := catalog.Get(from)
		return m, nil, err
	}
	file, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return machine.Machine{}, nil, fmt.Errorf("there is no file %q and no shipped machine of that name (there are %s); want %s",
			from, strings.Join(catalog.Names(), ", "), Forms)
	}
	if err != nil {
		return machine.Machine{}, nil, err
	}
	defer file.Close()
	return document(from, file)
}

// document reads a description of ours, or cAdvisor's report.
func document(name string, file io.Reader) (machine.Machine, []string, error) {
	text, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	if err != nil {
		return machine.Machine{}, nil, err
	}
	if len(text) > maxDocument {
		return machine.Machine{}, nil, fmt.Errorf("%s is larger than the %d bytes that a description may have", name, maxDocument)
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) {
		return machine.Machine{}, nil, fmt.Errorf("%s is XML, which is not read; want %s", name, Forms)
	}
	var report struct {
		NumCores *int             `json:"num_cores"`
		Topology *json.RawMessage `json:"topology"`
	}
	if json.Unmarshal(text, &report) == nil && (report.NumCores != nil || report.Topology != nil) {
		var info cadvisorapi.MachineInfo
		if err := json.Unmarshal(text, &info); err != nil {
			return machine.Machine{}, nil, fmt.Errorf("%s: cannot read cAdvisor's MachineInfo: %w", name, err)
		}
		m, err := machine.FromMachineInfo(filepath.Base(name), &info)
		return m, nil, err
	}
	m, err := machine.Parse(name, text)
	return m, nil, err
}
