// SPDX-License-Identifier: Apache-2.0

// Package checksum computes the checksums of the kubelet's state files: a hash
// over a dump of a Go value. The dump has the names of packages, types and
// fields in it, so the name of this package and of its type are part of the
// format, and so are those of the two packages named state beside it.
package checksum

import (
	"hash/fnv"
	"strings"

	"k8s.io/utils/dump"
)

// Checksum is a checksum as it stands in a file.
type Checksum uint64

// Of is the checksum of a value, as Kubernetes 1.37 takes it over its Data.
func Of(value any) Checksum { return sum(dump.ForHash(value)) }

// OfVersion is the checksum of an older format: of the value under the name that
// its type had when there was one version of it only.
func OfVersion(value any, name, original string) Checksum {
	return sum(strings.Replace(dump.ForHash(value), name, original, 1))
}

func sum(text string) Checksum {
	hash := fnv.New32a()
	hash.Write([]byte(text))
	return Checksum(hash.Sum32())
}
