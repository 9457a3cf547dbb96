// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Bounds of what is read.
const (
	maxFile      = 32 << 20 // bytes
	maxDocument  = 8 << 20  // bytes of JSON
	maxDocuments = 20_000
	maxPods      = 20_000
	maxDepth     = 4 // of lists in lists
)

// Source is where a pod comes from.
type Source struct {
	File string `json:"file"`
	// Document counts from 1, without empty ones; Line is where it begins.
	Document int `json:"document"`
	Line     int `json:"line"`
	// Kind and Name are of the object: "Deployment", "default/web".
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// String writes the source for messages.
func (s Source) String() string {
	text := fmt.Sprintf("%s, document %d (line %d)", s.File, s.Document, s.Line)
	if s.Kind != "" {
		text += ", " + s.Kind
	}
	if s.Name != "" {
		text += " " + s.Name
	}
	return text
}

// Pod is a pod with the API server's defaults.
type Pod struct {
	*v1.Pod
	From Source
	// MadeUID is set if the manifest has no UID, and the pod's is made up.
	MadeUID bool
	// Defaulted says what was added, a sentence each.
	Defaulted []string
}

// ReplicaOf reports whether both are made of one template, and nothing but their names
// tells them apart.
func (p Pod) ReplicaOf(o Pod) bool {
	return p.From == o.From && p.From.Kind != "Pod" && p.From.Name != "" && p.MadeUID && o.MadeUID
}

// Options say how manifests are read.
type Options struct {
	// Strict makes of unknown and repeated fields an error.
	Strict bool
}

// Workload is what the manifests have.
type Workload struct {
	// Pods are in the order of the manifests.
	Pods []Pod
	// Objects is how many of the objects can have pods, even if they have none.
	Objects int
	// Notes say what was not read: unknown fields, and objects that have no pods.
	Notes []string
}

// Read reads the files, those in a folder that are named as manifests are, and standard
// input where a name is "-".
func Read(names []string, stdin io.Reader, options Options) (Workload, error) {
	names, err := files(names)
	if err != nil {
		return Workload{}, err
	}
	r := reader{options: options, seen: map[string]Source{}}
	for _, name := range names {
		text, err := readFile(name, stdin)
		if err != nil {
			return Workload{}, err
		}
		if name == "-" {
			name = "standard input"
		}
		if err := r.file(name, text); err != nil {
			return Workload{}, err
		}
	}
	return r.Workload, nil
}

// extensions are those of the files of a folder that kubectl reads.
var extensions = []string{".json", ".yaml", ".yml"}

// files puts the files in it in the place of a folder, in the order of their names.
// As with kubectl, folders in it are left out.
func files(names []string) ([]string, error) {
	var all []string
	for _, name := range names {
		if info, err := os.Stat(name); name == "-" || err != nil || !info.IsDir() {
			all = append(all, name) // reading it tells what is wrong
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, entry := range entries {
			if !entry.IsDir() && slices.Contains(extensions, filepath.Ext(entry.Name())) {
				all = append(all, filepath.Join(name, entry.Name()))
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("folder %s has no file whose name ends in %s", name, strings.Join(extensions, ", "))
		}
	}
	return all, nil
}

func readFile(name string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than the %d bytes that are read of a file", name, maxFile)
	}
	return text, err
}

// reader reads one file after the other.
type reader struct {
	Workload
	options   Options
	documents int
	// seen are the pods, by namespace and name and by UID.
	seen map[string]Source
}

func (r *reader) file(name string, text []byte) error {
	at := Source{File: name}
	for _, d := range split(text) {
		if r.documents++; r.documents > maxDocuments {
			return fmt.Errorf("%s: there are more than the %d documents that are read", name, maxDocuments)
		}
		at.Document, at.Line = at.Document+1, d.line
		converted, err := d.json()
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if bytes.Equal(converted, []byte("null")) {
			at.Document--
			continue
		}
		if len(converted) > maxDocument {
			return fmt.Errorf("%s: it is larger than the %d bytes that are read of a document", at, maxDocument)
		}
		if err := r.object(at, converted, 0); err != nil {
			return err
		}
	}
	return nil
}

// document is a part of a file.
type document struct {
	text []byte
	line int
	// isJSON is set for a part of a stream of JSON objects.
	isJSON bool
}

// json is the document as JSON. A field that stands twice is an error, since it is
// not known which counts.
func (d document) json() ([]byte, error) {
	if d.isJSON {
		return d.text, nil
	}
	return yaml.YAMLToJSONStrict(d.text)
}

// split divides a file into its documents. What begins with a brace is taken for a
// stream of JSON objects, unless it is none: it can be YAML still.
func split(text []byte) []document {
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); bytes.HasPrefix(trimmed, []byte("{")) {
		if documents, ok := splitJSON(text); ok {
			return documents
		}
	}
	var documents []document
	current := document{line: 1}
	end := func() {
		if len(bytes.TrimSpace(current.text)) > 0 {
			documents = append(documents, current)
		}
	}
	line := 0
	for len(text) > 0 {
		next, rest, _ := bytes.Cut(text, []byte("\n"))
		line++
		if after, ok := bytes.CutPrefix(bytes.TrimRight(next, "\r"), []byte("---")); ok && (len(after) == 0 || after[0] == ' ' || after[0] == '\t') {
			end()
			current = document{text: append(bytes.Clone(after), '\n'), line: line}
		} else {
			current.text = append(append(current.text, next...), '\n')
		}
		text = rest
	}
	end()
	return documents
}

func splitJSON(text []byte) ([]document, bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var documents []document
	for decoder.More() {
		from := decoder.InputOffset()
		var raw json.RawMessage
		if decoder.Decode(&raw) != nil {
			return nil, false
		}
		begin := from + int64(bytes.IndexByte(text[from:], '{'))
		documents = append(documents, document{text: raw, line: 1 + bytes.Count(text[:begin], []byte("\n")), isJSON: true})
	}
	return documents, true
}
