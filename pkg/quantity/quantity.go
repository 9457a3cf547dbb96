// SPDX-License-Identifier: Apache-2.0

// Package quantity reads amounts of resources that come from anywhere. The library
// of Kubernetes takes minutes and all memory for one such as 1e-999999999, so what
// is longer, or has a larger exponent, than anybody needs is refused before.
package quantity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

const (
	maxLength   = 64
	maxExponent = 30
)

// Parse reads an amount such as 500m, 2 or 16Gi.
func Parse(text string) (resource.Quantity, error) {
	if err := bounded(text); err != nil {
		return resource.Quantity{}, err
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		// The library tells a regular expression.
		err = errors.New("want an amount such as 500m, 2 or 16Gi")
	}
	return q, err
}

// bounded fails for what is not to be read.
func bounded(text string) error {
	if len(text) > maxLength {
		return fmt.Errorf("an amount of %d characters is longer than the %d that are read", len(text), maxLength)
	}
	// The suffixes E and Ei have no digits after them.
	at := strings.IndexAny(text, "eE")
	if at < 0 || at+1 == len(text) || strings.Trim(text[at+1:], "+-0123456789") != "" {
		return nil
	}
	if exponent, err := strconv.Atoi(text[at+1:]); err != nil || exponent > maxExponent || exponent < -maxExponent {
		return fmt.Errorf("the exponent %s is outside of -%d to %d", text[at+1:], maxExponent, maxExponent)
	}
	return nil
}

// lists are the fields whose values are amounts by resource, and single those that
// are an amount, in all objects that are read.
var (
	lists  = []string{"requests", "limits", "overhead", "capacity", "allocatedResources"}
	single = []string{"sizeLimit", "divisor"}
)

// Check finds the first amount in a JSON document that cannot be read, before the
// document is decoded. The error names the field.
func Check(document []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil // decoding it says what is wrong
	}
	return find(value, "")
}

// CheckAll looks at everything in a YAML or JSON document that is a number with an
// exponent, be it a value or the name of a field. It is for small documents, of which
// only the first is read.
func CheckAll(document []byte) error {
	var value any
	if yaml.Unmarshal(document, &value) != nil {
		return nil // decoding it says what is wrong
	}
	return walk(value, "")
}

var number = regexp.MustCompile(`^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$`)

func walk(value any, path string) error {
	switch v := value.(type) {
	case string:
		if number.MatchString(v) {
			if err := bounded(v); err != nil {
				return fmt.Errorf("%s: %.80q: %w", path, v, err)
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			under := strings.TrimPrefix(path+"."+name, ".")
			for _, part := range []any{name, v[name]} {
				if err := walk(part, under); err != nil {
					return err
				}
			}
		}
	case []any:
		for i, item := range v {
			if err := walk(item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func find(value any, path string) error {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			under := name
			if path != "" {
				under = path + "." + name
			}
			amounts, isList := v[name].(map[string]any)
			var err error
			switch {
			case isList && slices.Contains(lists, name):
				err = checkAll(amounts, under)
			case slices.Contains(single, name):
				err = check(v[name], under)
			default:
				err = find(v[name], under)
			}
			if err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := find(item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkAll(amounts map[string]any, path string) error {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if err := check(amounts[name], fmt.Sprintf("%s[%s]", path, name)); err != nil {
			return err
		}
	}
	return nil
}

func check(value any, path string) (err error) {
	var text string
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		text = v
	case json.Number:
		text = v.String()
	default:
		return fmt.Errorf("%s is %v: want an amount such as 500m, 2 or 16Gi", path, value)
	}
	if _, err := Parse(text); err != nil {
		return fmt.Errorf("%s is %.80q: %w", path, text, err)
	}
	return nil
}
