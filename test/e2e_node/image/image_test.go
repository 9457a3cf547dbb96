// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// An archive must hold together: every digest that is named is that of a file,
// and sizes are right. Whether a runtime takes it is shown on the emulated node.
func TestArchive(t *testing.T) {
	img := Image{Name: "example.org/x:1", Entrypoint: []string{"/bin/sh"}, Applets: []string{"sh", "sleep"},
		Programs: map[string][]byte{"bin/other": []byte("#!other"), "plugin": []byte("#!plugin")}}
	data, err := img.Archive([]byte("#!busybox"), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := img.Archive([]byte("#!busybox"), "amd64")
	if !bytes.Equal(data, again) {
		t.Error("two archives of the same image differ")
	}
	files := untar(t, data)
	for name, content := range files {
		if hex, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && sum([]byte(content)) != "sha256:"+hex {
			t.Errorf("blob %s has another digest", name)
		}
	}
	var index struct{ Manifests []descriptor }
	read(t, files["index.json"], &index)
	m := index.Manifests[0]
	if got := m.Annotations["io.containerd.image.name"]; got != img.Name {
		t.Errorf("name %q, want %q", got, img.Name)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	read(t, blob(t, files, m), &manifest)
	var config struct {
		Config struct{ Entrypoint []string }
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	read(t, blob(t, files, manifest.Config), &config)
	if config.Rootfs.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Error("the layer is not the one that the configuration names")
	}
	layer := untar(t, []byte(blob(t, files, manifest.Layers[0])))
	if layer["bin/busybox"] != "#!busybox" || layer["bin/sleep"] != "-> busybox" || layer["bin/other"] != "#!other" || layer["plugin"] != "#!plugin" {
		t.Errorf("layer has %v", layer)
	}
}

func blob(t *testing.T, files map[string]string, d descriptor) string {
	t.Helper()
	content, ok := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	if !ok || len(content) != d.Size {
		t.Fatalf("%s %s: found %v, size %d, want %d", d.MediaType, d.Digest, ok, len(content), d.Size)
	}
	return content
}

func read(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func untar(t *testing.T, data []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(content)
		if h.Linkname != "" {
			files[h.Name] = "-> " + h.Linkname
		}
	}
}
