// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

type typedError struct{}

func (typedError) Error() string { return "too few" }
func (typedError) Type() string  { return "TooFew" }

func TestStatus(t *testing.T) {
	for _, test := range []struct {
		err             error
		reason, message string
	}{
		{&AffinityRefusal{Cause: "facts"}, ReasonAffinity, LocalitySentence + ": facts"},
		{&AffinityRefusal{Cause: "facts", PodLevel: true, Scope: ScopePod}, ReasonAffinity,
			"Pod Scope pod with pod-level resources failed admission under pod-scope topology manager: facts"},
		{&AffinityRefusal{Cause: "facts", PodLevel: true, Scope: ScopeContainer}, ReasonAffinity,
			"Pod Scope pod with pod-level resources failed admission with a container-level topology manager: facts"},
		{&ProviderRefusal{Provider: "cpu", Err: fmt.Errorf("container: %w", typedError{})}, "TooFew", "too few"},
		{errors.Join(&ProviderRefusal{Provider: "cpu", Err: errors.New("none left")}, &UndoError{Err: errors.New("undo")}),
			ReasonUnexpected, "Allocate failed due to none left, which is unexpected"},
		{&ProviderRefusal{Commit: true, Err: errors.New("disk full")},
			ReasonUnexpected, "Allocate failed due to the allocation could not be recorded: disk full, which is unexpected"},
		{errors.New("unknown scope"), ReasonUnexpected, "Allocate failed due to unknown scope, which is unexpected"},
	} {
		reason, message := Status(test.err)
		require.Equal(t, test.reason, reason)
		require.Equal(t, test.message, message)
	}
}
