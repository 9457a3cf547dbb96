// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"os"
	"path/filepath"

	"github.com/podslice/podslice/test/e2e_node/image"
	"github.com/podslice/podslice/test/e2e_node/node"
)

// imagePlugin is the name of the device plugin in its manifest, which the suite takes
// as it is.
const imagePlugin = "registry.k8s.io/e2e-test-images/sample-device-plugin:1.8.0"

// pacedShell is /bin/sh of busybox's image. Containers of some specs sleep for a few
// seconds while the suite looks at them, and on an emulated machine looking takes many
// times as long: a sleep of a whole number of seconds gets a digit more. All other
// commands are not slowed down by a look at them: some specs read what a container
// has printed as soon as it runs.
const pacedShell = `#!/bin/busybox ash
case "$1 $2" in
*"sleep 1d"*) ;;
"-c "*"sleep "[1-9]*)
	command=$(busybox echo "$2" | busybox sed -E '` + pacedSleep + `')
	shift 2
	exec busybox ash -c "$command" "$@"
	;;
esac
exec busybox ash "$@"
`

// pacedSleep is for sed -E.
const pacedSleep = `s/(^|[^[:alnum:]_])sleep ([1-9][0-9]*)($|[^[:alnum:].])/\1sleep \20\3/g`

// Load is what the node's second disk carries for the suite. All programs are in
// out/bin.
func Load(out, kubelet string) (node.Load, error) {
	read := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(out, "bin", name)) }
	plugin, err := read("sampledeviceplugin")
	if err != nil {
		return node.Load{}, err
	}
	return node.Load{
		Kubelet:  kubelet,
		Programs: []string{node.SuiteProgram, "pacedrunc"},
		Images: map[string]image.Image{
			"busybox": {Name: node.ImageBusybox, Programs: map[string][]byte{"bin/sh": []byte(pacedShell)}, Applets: []string{
				"awk", "cat", "cut", "date", "dd", "df", "echo", "env", "expr", "false", "find", "free", "grep", "head",
				"hostname", "id", "kill", "ls", "mkdir", "mount", "nproc", "ps", "rm", "sed", "seq", "sleep", "sort",
				"stat", "sync", "tail", "taskset", "test", "touch", "tr", "true", "uname", "uniq", "wc",
			}},
			"pause":  node.PauseImage,
			"plugin": {Name: imagePlugin, Entrypoint: []string{"/sampledeviceplugin", "-alsologtostderr"}, Programs: map[string][]byte{"sampledeviceplugin": plugin}},
		},
	}, nil
}
