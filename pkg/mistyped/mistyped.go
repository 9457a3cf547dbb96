// SPDX-License-Identifier: Apache-2.0

// Package mistyped says which values of a document are of another type than the
// fields that they are for. Decoders say it of the first one only, of an entry of a
// map not which it is, and in the words of Go.
package mistyped

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// most is how many values are named.
const most = 5

// Explain is the error of decoding a JSON document into a value, in better words if
// it is about types.
func Explain(err error, document []byte, into any) error {
	return explain(err, document, into, finder{})
}

// ExplainLoose is Explain for a decoder that takes numbers, true and false for text
// where a field has text.
func ExplainLoose(err error, document []byte, into any) error {
	return explain(err, document, into, finder{loose: true})
}

func explain(err error, document []byte, into any, f finder) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return err
	}
	f.look(value, reflect.TypeOf(into), "")
	switch {
	case len(f.found) == 0:
		return err
	case len(f.found) > most:
		f.found = append(f.found[:most], fmt.Sprintf("and %d more of this kind", len(f.found)-most))
	}
	return errors.New(strings.Join(f.found, "; "))
}

type finder struct {
	loose bool
	found []string
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	duration    = reflect.TypeFor[metav1.Duration]()
	byteSlice   = reflect.TypeFor[[]byte]()
)

// look compares a value, which is nothing but what JSON has, with a type.
func (f *finder) look(value any, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer && !t.Implements(unmarshaler) {
		t = t.Elem()
	}
	if value == nil {
		return
	}
	switch {
	case t.Implements(unmarshaler), reflect.PointerTo(t).Implements(unmarshaler):
		f.ask(value, t, path)
		return
	case t == byteSlice:
		f.want(value, isText(value), "text", path)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		fields, ok := value.(map[string]any)
		f.want(value, ok, "a mapping", path)
		f.fields(fields, t, path)
	case reflect.Map:
		entries, ok := value.(map[string]any)
		f.want(value, ok, "a mapping", path)
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			f.look(entries[name], t.Elem(), under(path, name))
		}
	case reflect.Slice, reflect.Array:
		items, ok := value.([]any)
		f.want(value, ok, "a list", path)
		for i, item := range items {
			f.look(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	default:
		f.scalar(value, t, path)
	}
}

// fields looks at the fields of a struct that are there.
func (f *finder) fields(given map[string]any, t reflect.Type, path string) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch value, there := given[name]; {
		case field.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			f.fields(given, inner, path)
		case there && name != "-" && name != "":
			f.look(value, field.Type, under(path, name))
		}
	}
}

func (f *finder) scalar(value any, t reflect.Type, path string) {
	number, isNumber := value.(json.Number)
	_, isBool := value.(bool)
	switch t.Kind() {
	case reflect.String:
		f.want(value, isText(value) || f.loose && (isNumber || isBool), "text", path)
	case reflect.Bool:
		f.want(value, isBool, "true or false", path)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		_, err := strconv.ParseInt(number.String(), 10, t.Bits())
		f.want(value, isNumber && err == nil, whole(t, isNumber), path)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		_, err := strconv.ParseUint(number.String(), 10, t.Bits())
		f.want(value, isNumber && err == nil, whole(t, isNumber), path)
	case reflect.Float32, reflect.Float64:
		_, err := strconv.ParseFloat(number.String(), t.Bits())
		f.want(value, isNumber && err == nil, "a number", path)
	}
}

// whole names the integers that a type can have: their range if what is there is a
// number already.
func whole(t reflect.Type, ranged bool) string {
	bits := t.Bits()
	unsigned := t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64
	switch {
	case !ranged:
		return "a whole number"
	case unsigned:
		return fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<(bits-1)-1+uint64(1)<<(bits-1))
	}
	return fmt.Sprintf("a whole number from %d to %d", int64(-1)<<(bits-1), uint64(1)<<(bits-1)-1)
}

// ask has a type that reads itself read the value.
func (f *finder) ask(value any, t reflect.Type, path string) {
	text, err := json.Marshal(value)
	if err != nil {
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	err = json.Unmarshal(text, reflect.New(t).Interface())
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
	case t == duration: // in quotes it needs a unit as well
		f.want(value, false, "a duration such as 10s", path)
	case errors.As(err, &mismatch) && mismatch.Type != nil && mismatch.Field == "" && mismatch.Type != t:
		before := len(f.found)
		if f.look(value, mismatch.Type, path); len(f.found) == before {
			f.add(path, "%v", err)
		}
	default:
		f.add(path, "%v", err)
	}
}

func (f *finder) add(path, format string, args ...any) {
	if path == "" {
		path = "the document"
	}
	f.found = append(f.found, path+": "+fmt.Sprintf(format, args...))
}

// want adds the value unless it is right.
func (f *finder) want(value any, right bool, want, path string) {
	if right {
		return
	}
	is, advice := "", ""
	switch v := value.(type) {
	case string:
		is = fmt.Sprintf("the text %.80q", v)
		var inner any
		if json.Unmarshal([]byte(v), &inner) == nil {
			_, isBool := inner.(bool)
			_, isNumber := inner.(float64)
			if isBool && want == "true or false" || isNumber && strings.Contains(want, "number") {
				advice = ": take the quotes away"
			}
		}
	case bool, json.Number:
		is = fmt.Sprintf("%.80v", v)
		if want == "text" {
			advice = ": put it in quotes"
		}
	case []any:
		is = "a list"
	default:
		is = "a mapping"
	}
	f.add(path, "it is %s, but must be %s%s", is, want, advice)
}

func isText(value any) bool {
	_, ok := value.(string)
	return ok
}

func under(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }
