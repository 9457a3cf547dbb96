// SPDX-License-Identifier: Apache-2.0

package checkout

import "testing"

func TestStrike(t *testing.T) {
	const text = `use (
	.
	./staging/src/k8s.io/api
	./staging/src/k8s.io/sample-controller
)

replace (
	k8s.io/sample-controller => ./staging/src/k8s.io/sample-controller
	k8s.io/sample-apiserver => ./staging/src/k8s.io/sample-apiserver
)
`
	const want = `use (
	.
	./staging/src/k8s.io/api
)

replace (
	k8s.io/sample-apiserver => ./staging/src/k8s.io/sample-apiserver
)
`
	if got := strike(text, []string{"k8s.io/sample-controller", "k8s.io/sample"}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := len(stagingUse.FindAllString(text, -1)); got != 2 {
		t.Errorf("%d staging modules found, want 2", got)
	}
}
