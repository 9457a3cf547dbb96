// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/podslice/podslice/test/e2e_node/guest"
	"github.com/podslice/podslice/test/e2e_node/image"
)

// Programs is the folder of the programs under test and of our own on the guest.
const Programs = guest.DiskMount + "/bin"

// Runc is what the runtime takes for runc: a link to that in Programs, if nobody puts
// something else there.
const Runc = "/usr/local/bin/podslice-runc"

// Pace is the environment of programs in Go on an emulated node. Collecting garbage
// is what they can do without: there is memory enough. And all CPUs of the guest are
// one thread of the host, so that a program that uses many of them waits for itself:
// for locks that another CPU holds, which does not run meanwhile. Last, a goroutine
// is taken off its CPU after 10 ms, by a signal: what takes 10 ms here is no long loop.
const Pace = "GOGC=400 GOMAXPROCS=2 GODEBUG=asyncpreemptoff=1"

// OneCPU keeps a program with many goroutines from that altogether. Its children are
// kept on that CPU, too.
const OneCPU = "taskset -c 0"

// Name is the node's.
const Name = "node1"

// Where other things are on the guest.
const (
	bin            = Programs
	manifestFolder = "/etc/kubernetes/manifests"
	kubeletConfig  = "/etc/kubernetes/kubelet.yaml"
	kubeletFlags   = "/etc/kubernetes/kubelet.env"
	kubeletLog     = "/var/log/kubelet.log"
	stateFolder    = "/var/lib/kubelet"
	// The kubelet that runs, a link to one of those in bin.
	kubeletPath = "/usr/local/bin/kubelet"
	runtimeLog  = "/var/log/containerd.log"
)

// Images that the guest has.
const (
	ImageBusybox = "registry.k8s.io/e2e-test-images/busybox:1.37.0-2"
	imagePause   = "registry.k8s.io/pause:3.10.2"
)

var images = map[string]image.Image{
	"busybox": {Name: ImageBusybox, Applets: []string{
		"cat", "echo", "env", "false", "grep", "head", "id", "kill", "ls", "mkdir", "nproc", "ps", "rm", "sed",
		"seq", "sh", "sleep", "sync", "tail", "test", "top", "touch", "tr", "true", "uname", "wc",
	}},
	"pause": PauseImage,
}

// PauseImage is that of sandboxes, whose process only has to stay.
var PauseImage = image.Image{Name: imagePause, Entrypoint: []string{"/bin/busybox", "sleep", "2147483647"}}

// Names of kubelets on the node, for UseKubelet: the one under test, and
// upstream's, if the node was given it.
const (
	UnderTest = "kubelet"
	Stock     = "kubelet-stock"
)

// Load is what a node's second disk carries beside the runtime.
type Load struct {
	Kubelet string
	Stock   string // upstream's kubelet, if both are wanted
	// Programs of out/bin beside those that every node has.
	Programs []string
	// Images by the name of their file; nil for those of our own tests.
	Images map[string]image.Image
}

// Files returns what a node needs on the guest's second disk. Programs are taken
// from out/bin, images are made here.
func Files(assets guest.Assets, out string, load Load) (map[string]string, error) {
	files := map[string]string{"bin/" + UnderTest: load.Kubelet}
	if load.Stock != "" {
		files["bin/"+Stock] = load.Stock
	}
	place := func(folder string, names ...string) {
		for _, name := range names {
			files[filepath.Join(folder, name)] = filepath.Join(out, "bin", name)
		}
	}
	place("bin", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "nodereport", "cpuwitness", "pagewitness", "deviceplugin")
	place("bin", load.Programs...)
	place("cni", "bridge", "host-local", "loopback")
	for _, source := range files {
		if _, err := os.Stat(source); err != nil {
			return nil, fmt.Errorf("a program for the guest is missing: %w (make builds it)", err)
		}
	}
	folder := filepath.Join(out, "images")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	if load.Images == nil {
		load.Images = images
	}
	for name, img := range load.Images {
		archive := filepath.Join(folder, name+".tar")
		if err := img.WriteFile(archive, assets.Busybox(), runtime.GOARCH); err != nil {
			return nil, err
		}
		files["images/"+name+".tar"] = archive
	}
	return files, nil
}

// setupFiles are written to the guest before anything is started.
var setupFiles = map[string]string{
	"/etc/containerd/config.toml": `version = 3

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '` + imagePause + `'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = '` + Runc + `'
  SystemdCgroup = false

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['` + guest.DiskMount + `/cni']
  conf_dir = '/etc/cni/net.d'
`,
	"/etc/cni/net.d/10-bridge.conflist": `{
  "cniVersion": "1.0.0",
  "name": "bridge",
  "plugins": [{
    "type": "bridge", "bridge": "cni0", "isGateway": true,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}
  }]
}
`,
	"/etc/systemd/system/containerd.service": `[Unit]
Description=containerd

[Service]
Type=notify
Environment=PATH=` + bin + `:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=` + bin + `/containerd
Delegate=yes
KillMode=process
OOMScoreAdjust=-999
LimitNOFILE=1048576
StandardOutput=append:` + runtimeLog + `
StandardError=append:` + runtimeLog + `
`,
	// Nothing restarts a kubelet that ends: that it ended is what a test must see.
	"/etc/systemd/system/kubelet.service": `[Unit]
Description=kubelet under test

[Service]
EnvironmentFile=-` + kubeletFlags + `
ExecStart=` + kubeletPath + ` --config=` + kubeletConfig + ` --hostname-override=` + Name + ` --v=4 $KUBELET_FLAGS
KillMode=process
Restart=no
StandardOutput=append:` + kubeletLog + `
StandardError=append:` + kubeletLog + `
`,
}
