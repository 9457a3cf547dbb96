// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, text := range []string{"0", "500m", "2", "16Gi", "1E", "1Ei", "1e3", "1E30", "1e-30", "-1", "1.5Gi"} {
		_, err := Parse(text)
		require.NoError(t, err, text)
	}
	for text, want := range map[string]string{
		"":                          "want an amount such as",
		"two":                       "want an amount such as",
		"1e31":                      "the exponent 31 is outside of -30 to 30",
		"1e-999999999":              "the exponent -999999999 is outside",
		"1E99999999999999999999999": "the exponent 99999999999999999999999 is outside",
		strings.Repeat("1", 65):     "65 characters",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestCheck(t *testing.T) {
	require.NoError(t, Check([]byte(`{"a": [{"limits": {"cpu": 2, "memory": "1Gi", "x": null}}], "env": "1e-999999999"}`)))
	require.NoError(t, Check([]byte(`{"limits": "no list", "requests": [1]}`)))
	require.NoError(t, Check([]byte(`not JSON`)))
	require.EqualError(t, Check([]byte(`{"a": [0, {"limits": {"cpu": 1e-999999999}}]}`)), `a[1].limits[cpu] is "1e-999999999": the exponent -999999999 is outside of -30 to 30`)
	require.EqualError(t, Check([]byte(`{"sizeLimit": []}`)), `sizeLimit is []: want an amount such as 500m, 2 or 16Gi`)
}

func TestCheckAll(t *testing.T) {
	require.NoError(t, CheckAll([]byte("a: {1Gi: [1e3, 0x12, text e-99999999]}\nb: 1e-99999999\nc: \"1E\"")))
	require.NoError(t, CheckAll([]byte("a: [")))
	require.EqualError(t, CheckAll([]byte(`a: [{b: "1e-99999999"}]`)), `a[0].b: "1e-99999999": the exponent -99999999 is outside of -30 to 30`)
	require.ErrorContains(t, CheckAll([]byte(`"1e-99999999": 1`)), `1e-99999999: "1e-99999999": the exponent`)
	require.ErrorContains(t, CheckAll([]byte(`"\u0031e-99999999"`)), "the exponent")
}

// FuzzCheck: what passes can be read, quickly.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"limits": {"cpu": "1e-9"}}`))
	f.Add([]byte(`{"divisor": 1E3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		begin := time.Now()
		_, _ = Check(text), CheckAll(text)
		if q, err := Parse(string(text)); err == nil {
			_, _, _ = q.String(), q.Value(), q.MilliValue()
		}
		require.Less(t, time.Since(begin), 5*time.Second)
	})
}
