// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Fields returns, as an object of its own, the fields that a damaged file has
// whole: all in front of the place where it is cut off or is no JSON any more,
// and all of an object behind which there is something else. Without any it
// returns nil.
func Fields(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			break
		}
		name, ok := token.(string)
		if !ok {
			break
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			break
		}
		fields[name] = value
	}
	if len(fields) == 0 {
		return nil
	}
	whole, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return whole
}

// Only returns, as an object of its own, the fields of these names that the object
// has.
func Only(text []byte, names ...string) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return nil
	}
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return !slices.Contains(names, name) })
	only, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return only
}

// CheckKnown returns an error if the file's object has fields that the type of
// outer lacks, or the object in its string field inner those that the type of
// content lacks: it was written by a newer version, and something of it is lost
// when it is written by this one.
func CheckKnown(text []byte, outer any, inner string, content any) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	check := func(text []byte, into any) error {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			return fmt.Errorf("the file is one of a newer version: %w", err)
		}
		return nil
	}
	if err := check(text, outer); err != nil {
		return err
	}
	var data string
	if json.Unmarshal(fields[inner], &data) != nil || data == "" {
		return nil
	}
	return check([]byte(data), content)
}

// HasSum reports whether one of the object's fields of these names is a number
// other than 0.
func HasSum(text []byte, names ...string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return false
	}
	for _, name := range names {
		var sum uint64
		if json.Unmarshal(fields[name], &sum) == nil && sum != 0 {
			return true
		}
	}
	return false
}
