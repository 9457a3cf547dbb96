// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"regexp"
	"strings"
)

// KubeModule is the module path of Kubernetes itself.
const KubeModule = "k8s.io/kubernetes"

// Minor is the Kubernetes minor release whose manager interfaces the
// packages implement.
const Minor = "1.37"

var (
	kubeVersionPattern = regexp.MustCompile(`^v(\d+)\.(\d+)\.(\d+)$`)
	ourVersionPattern  = regexp.MustCompile(`^\d+\.\d+\.\d+([-.][0-9A-Za-z.-]+)?$`)
)

// Check accepts v1.37.x and says what is wrong with anything else.
func Check(v string) error {
	m := kubeVersionPattern.FindStringSubmatch(v)
	if m == nil {
		return fmt.Errorf("KUBE_VERSION %q is not a Kubernetes release: want v%s.<patch>", v, Minor)
	}
	if minor := m[1] + "." + m[2]; minor != Minor {
		return fmt.Errorf("KUBE_VERSION %q is Kubernetes %s: these packages implement the manager interfaces of %s only", v, minor, Minor)
	}
	return nil
}

// StagingVersion returns the version of the staging modules (k8s.io/api and so
// on) that belongs to a Kubernetes release: v0.37.2 for v1.37.2.
func StagingVersion(kube string) string {
	return "v0." + strings.SplitN(kube, ".", 2)[1]
}

// Combine is what `kubelet --version` tells. Ours is semantic-version
// build metadata, so everything that compares versions sees upstream's.
func Combine(kube, ours string) (string, error) {
	if !ourVersionPattern.MatchString(ours) {
		return "", fmt.Errorf("version of our packages %q: want <major>.<minor>.<patch>", ours)
	}
	return kube + "+podslice." + ours, nil
}

// LinkerFlags sets the version variables the way upstream's release build does.
// date is that of the upstream release and commit a digest of what was built:
// neither depends on when or where the build runs, so equal sources give equal
// binaries and Go's cache is not defeated.
func LinkerFlags(version, commit, date string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	set := []struct{ name, value string }{
		{"buildDate", date},
		{"gitCommit", commit},
		{"gitTreeState", "clean"},
		{"gitVersion", version},
		{"gitMajor", parts[0]},
		{"gitMinor", parts[1]},
	}
	var flags []string
	for _, s := range set {
		for _, pkg := range []string{"k8s.io/client-go/pkg/version", "k8s.io/component-base/version"} {
			flags = append(flags, fmt.Sprintf("-X %s.%s=%s", pkg, s.name, s.value))
		}
	}
	return "-s -w " + strings.Join(flags, " ")
}
