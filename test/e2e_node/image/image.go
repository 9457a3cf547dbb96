// SPDX-License-Identifier: Apache-2.0

// Package image writes container images as OCI archives, for machines that
// reach no image registry.
//
// An image is one layer: a static busybox with links for its applets, and other
// programs, which must be static, too. It gets whatever names its user asks for, so that pod manifests made for a registry's
// images run unchanged (with imagePullPolicy: Never). Archives are a function of
// their inputs: no times, no random names.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// Image is what goes into one archive.
type Image struct {
	Name       string   // reference, with tag
	Entrypoint []string // run when the pod names no command
	Applets    []string // names under /bin that lead to busybox
	// Programs are executables beside busybox, by their path in the image.
	Programs map[string][]byte
}

const (
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// Archive returns the image as an OCI archive; busybox is the content of a
// static busybox binary.
func (i Image) Archive(busybox []byte, arch string) ([]byte, error) {
	layer, err := i.layer(busybox)
	if err != nil {
		return nil, fmt.Errorf("image %s: layer: %w", i.Name, err)
	}
	layerDigest := sum(layer)
	var a archive
	config, err := a.blob(typeConfig, map[string]any{
		"architecture": arch,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": i.Entrypoint,
			"Env":        []string{"PATH=/bin"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerDigest}},
	})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", i.Name, err)
	}
	a.put(layer)
	manifest, err := a.blob(typeManifest, map[string]any{
		"schemaVersion": 2,
		"mediaType":     typeManifest,
		"config":        config,
		"layers":        []descriptor{{MediaType: typeLayer, Digest: layerDigest, Size: len(layer)}},
	})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", i.Name, err)
	}
	manifest.Platform = &platform{arch, "linux"}
	// containerd takes the image's name from its own annotation.
	manifest.Annotations = map[string]string{"io.containerd.image.name": i.Name}
	index, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{manifest},
	})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", i.Name, err)
	}
	a.file("index.json", index)
	a.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return a.finish()
}

// WriteFile writes the archive to a file.
func (i Image) WriteFile(name, busyboxPath, arch string) error {
	busybox, err := os.ReadFile(busyboxPath)
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	data, err := i.Archive(busybox, arch)
	if err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// layer is the image's file system.
func (i Image) layer(busybox []byte) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	type entry struct {
		header tar.Header
		data   []byte
	}
	entries := []entry{
		{tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}, nil},
		{tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, nil},
		{tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/:/bin/sh\n")},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, []byte("root:x:0:\n")},
		{tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, busybox},
	}
	for _, name := range slices.Sorted(maps.Keys(i.Programs)) {
		entries = append(entries, entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, i.Programs[name]})
	}
	for _, e := range entries {
		e.header.Size = int64(len(e.data))
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	for _, applet := range i.Applets {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777})
		if err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// archive is a tar of blobs and a few fixed names.
type archive struct {
	buf bytes.Buffer
	tar *tar.Writer
	err error
}

func (a *archive) file(name string, data []byte) {
	if a.tar == nil {
		a.tar = tar.NewWriter(&a.buf)
	}
	if a.err == nil {
		a.err = a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))})
	}
	if a.err == nil {
		_, a.err = a.tar.Write(data)
	}
}

// put stores a blob under its digest.
func (a *archive) put(data []byte) { a.file("blobs/sha256/"+sum(data)[len("sha256:"):], data) }

// blob stores a JSON document and describes it.
func (a *archive) blob(mediaType string, document any) (descriptor, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return descriptor{}, err
	}
	a.put(data)
	return descriptor{MediaType: mediaType, Digest: sum(data), Size: len(data)}, nil
}

func (a *archive) finish() ([]byte, error) {
	if a.err == nil {
		a.err = a.tar.Close()
	}
	return a.buf.Bytes(), a.err
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(h[:])
}
