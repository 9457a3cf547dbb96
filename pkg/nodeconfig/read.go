// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// MaxSize is how large a configuration may be, in bytes.
const MaxSize = 1 << 20

// Config is a KubeletConfiguration as the kubelet takes it.
type Config struct {
	// File is its name for messages.
	File string
	// Kubelet has the kubelet's own defaults in the fields that this package
	// reads, and in no others.
	Kubelet kubeletconfig.KubeletConfiguration
	// Gates says of every feature gate whether it is on.
	Gates Gates
	// Overlooked is what the kubelet does not read of the file: fields that it does
	// not know, for example. All are warnings.
	Overlooked Findings

	gatesFound Findings
	// zeroPeriod is set if the configuration has a cpuManagerReconcilePeriod of 0.
	zeroPeriod bool
}

// Load reads a KubeletConfiguration from a file.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadFrom(path, f)
}

// ReadFrom reads a KubeletConfiguration; file is its name for messages.
func ReadFrom(file string, r io.Reader) (*Config, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, MaxSize)
	}
	return Read(file, text)
}

// Read reads a KubeletConfiguration in YAML or JSON as the kubelet does. What it
// refuses, the kubelet cannot read either.
func Read(file string, text []byte) (*Config, error) {
	c := &Config{File: file}
	if err := c.decode(text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c.setDefaults()
	c.Gates, c.gatesFound = newGates(c.Kubelet.FeatureGates)
	return c, nil
}

// Default is the configuration of a kubelet that is told nothing.
func Default() *Config {
	c := &Config{File: "the kubelet's defaults"}
	c.setDefaults()
	c.Gates, c.gatesFound = newGates(nil)
	return c
}

// Strict turns what the kubelet overlooks into errors.
func (c *Config) Strict() {
	for i := range c.Overlooked {
		c.Overlooked[i].Severity = Error
	}
}

// strict and lenient are the two decoders of the kubelet: it takes what the
// lenient one reads, and logs what the strict one says.
var strict, lenient = func() (a, b runtime.Decoder) {
	scheme := runtime.NewScheme()
	if err := kubeletconfig.AddToScheme(scheme); err != nil {
		panic(err) // it is always the same
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(),
		serializer.NewCodecFactory(scheme, serializer.DisableStrict).UniversalDeserializer()
}()

// names reports whether a field is set, if only to nothing.
func names(text []byte, field string) bool {
	fields := map[string]any{}
	if json.Unmarshal(text, &fields) != nil && yaml.Unmarshal(text, &fields) != nil {
		return false
	}
	_, ok := fields[field]
	return ok
}

func ofWrongKind(is schema.GroupVersionKind) error {
	want := kubeletconfig.SchemeGroupVersion.WithKind("KubeletConfiguration")
	return fmt.Errorf("it is of kind %q and apiVersion %q, not of kind %q and apiVersion %q", is.Kind, is.GroupVersion(), want.Kind, want.GroupVersion())
}

func (c *Config) decode(text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("it is empty")
	}
	object, gvk, err := lenient.Decode(text, nil, nil)
	if err != nil {
		if gvk != nil && (runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) || runtime.IsNotRegisteredError(err)) {
			return ofWrongKind(*gvk)
		}
		return explain(err)
	}
	read, ok := object.(*kubeletconfig.KubeletConfiguration)
	if !ok {
		return ofWrongKind(*gvk)
	}
	c.Kubelet = *read
	c.zeroPeriod = read.CPUManagerReconcilePeriod.Duration == 0 && names(text, "cpuManagerReconcilePeriod")
	if n := documents(text); n > 1 {
		c.Overlooked.warn("document 2", "take it out, or put its fields into the first document", "the file has %d documents, and the kubelet reads only the first", n)
	}
	if _, _, err := strict.Decode(text, nil, nil); err != nil {
		refused, ok := runtime.AsStrictDecodingError(err)
		if !ok {
			return err
		}
		for _, err := range refused.Errors() {
			c.overlookError(err.Error())
		}
	}
	return nil
}

// What strict decoders say: the one of JSON, and that of YAML.
var (
	unknownField = regexp.MustCompile(`^unknown field "(.*)"$`)
	doubleField  = regexp.MustCompile(`^duplicate field "(.*)"$`)
	doubleKey    = regexp.MustCompile(`line (\d+): key "(.*)" already set in map`)
)

func (c *Config) overlookError(text string) {
	if m := unknownField.FindStringSubmatch(text); m != nil {
		c.Overlooked.warn(m[1], orRemove(nearest(m[1], fieldNames)), "the kubelet knows no such field and ignores it")
		return
	}
	if m := doubleField.FindStringSubmatch(text); m != nil {
		c.Overlooked.warn(m[1], "name it once", "it is there more than once, and the kubelet takes the last")
		return
	}
	keys := doubleKey.FindAllStringSubmatch(text, -1)
	for _, m := range keys {
		c.Overlooked.warn(m[2], "name it once", "it is there more than once, in line %s for example, and the kubelet takes the last", m[1])
	}
	if len(keys) == 0 {
		c.Overlooked.warn("", "", "%s", text)
	}
}

// fieldNames are the fields of a KubeletConfiguration.
func fieldNames(yield func(string) bool) {
	for t := range reflect.TypeFor[kubeletconfig.KubeletConfiguration]().Fields() {
		if name, _, _ := strings.Cut(t.Tag.Get("json"), ","); name != "" && !yield(name) {
			return
		}
	}
}

// notText is what the decoder says of a value that must be in quotes.
var notText = regexp.MustCompile(`cannot unmarshal (bool|number) into Go struct field \S*?\.(\S+) of type string`)

// explain adds to an error of the decoder what to do, where that is plain.
func explain(err error) error {
	if m := notText.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s: a %s stands where a text is wanted; put it in quotes: %w", m[2], m[1], err)
	}
	return err
}

// documents counts the YAML documents that say something.
func documents(text []byte) int {
	count := 0
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		one, err := reader.Read()
		if err != nil {
			return count
		}
		for line := range bytes.Lines(one) {
			line = bytes.TrimSpace(line)
			if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
				count++
				break
			}
		}
	}
}
