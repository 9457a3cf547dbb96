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
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podslice/podslice/pkg/mistyped"
	"github.com/podslice/podslice/pkg/nearest"
	"github.com/podslice/podslice/pkg/quantity"
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
	c.complete()
	return c, nil
}

// New is the configuration of a kubelet with the given one.
func New(file string, given kubeletconfig.KubeletConfiguration) *Config {
	c := &Config{File: file, Kubelet: given}
	c.complete()
	return c
}

// complete fills in what the kubelet takes where the configuration says nothing.
func (c *Config) complete() {
	c.setDefaults()
	c.Gates, c.gatesFound = newGates(c.Kubelet.FeatureGates)
}

// Default is the configuration of a kubelet that is told nothing.
func Default() *Config {
	return New("the kubelet's defaults", kubeletconfig.KubeletConfiguration{})
}

// Strict makes errors of what the kubelet overlooks, and returns them as one, nil
// if there is nothing. The kubelet would start all the same.
func (c *Config) Strict() error {
	var texts []string
	for i := range c.Overlooked {
		c.Overlooked[i].Severity = Error
		texts = append(texts, c.Overlooked[i].String())
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", c.File, strings.Join(texts, "; "))
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

func (c *Config) decode(text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("it is empty")
	}
	if err := checkAmounts(text); err != nil {
		return err
	}
	object, _, err := lenient.Decode(text, nil, nil)
	if runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) || runtime.IsNotRegisteredError(err) {
		return ofWrongKind(text)
	}
	if err != nil && strings.HasPrefix(err.Error(), "couldn't get version/kind") {
		return errors.New("it is no mapping of fields, or its kind or apiVersion is no text")
	}
	if err != nil {
		return explain(err, text)
	}
	read, ok := object.(*kubeletconfig.KubeletConfiguration)
	if !ok {
		return ofWrongKind(text)
	}
	c.Kubelet = *read
	c.zeroPeriod = read.CPUManagerReconcilePeriod.Duration == 0 && fieldsOf(text)["cpuManagerReconcilePeriod"] != nil
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

// checkAmounts fails for amounts of reservedMemory that cannot be read, or that
// take the decoder for ever; it does not name the field.
func checkAmounts(text []byte) error {
	text, err := toJSON(text)
	if err != nil {
		return nil // the decoder tells it
	}
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(text, &fields) != nil || fields["reservedMemory"] == nil {
		return nil
	}
	document, err := json.Marshal(map[string]json.RawMessage{"reservedMemory": fields["reservedMemory"]})
	if err != nil {
		return err
	}
	return quantity.Check(document)
}

// fieldsOf are the fields of a configuration as they are written.
func fieldsOf(text []byte) map[string]any {
	fields := map[string]any{}
	if json.Unmarshal(text, &fields) != nil && yaml.Unmarshal(text, &fields) != nil {
		return nil // the decoders tell it
	}
	return fields
}

func ofWrongKind(text []byte) error {
	is, want := fieldsOf(text), kubeletconfig.SchemeGroupVersion.WithKind("KubeletConfiguration")
	name := func(field string) string {
		if is[field] == nil {
			return "none"
		}
		return fmt.Sprintf("%q", is[field])
	}
	return fmt.Errorf("want kind %q and apiVersion %q, but its kind is %s, its apiVersion %s", want.Kind, want.GroupVersion(), name("kind"), name("apiVersion"))
}

// What strict decoders say: the one of JSON, and that of YAML.
var (
	unknownField = regexp.MustCompile(`^unknown field "(.*)"$`)
	doubleField  = regexp.MustCompile(`^duplicate field "(.*)"$`)
	doubleKey    = regexp.MustCompile(`line (\d+): key "(.*)" already set in map`)
)

func (c *Config) overlookError(text string) {
	if m := unknownField.FindStringSubmatch(text); m != nil {
		c.Overlooked.warn(m[1], orRemove(nearest.Name(m[1], fieldNames)), "the kubelet knows no such field and ignores it")
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

// explain says what the decoders mean, where they do not say it well.
func explain(err error, text []byte) error {
	if document, err2 := toJSON(text); err2 == nil {
		if better := mistyped.Explain(err, document, &kubeletconfig.KubeletConfiguration{}); better.Error() != err.Error() {
			return better
		}
	}
	return fmt.Errorf("it cannot be read as a KubeletConfiguration: %w", err)
}

// toJSON is YAML or JSON as JSON.
func toJSON(text []byte) ([]byte, error) {
	if json.Valid(text) {
		return text, nil
	}
	return yaml.YAMLToJSON(text)
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
