// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Marker is the file by which the owner of a host says that tests may have it:
// they replace the configuration of its container runtime, and delete every pod.
const Marker = "/etc/podslice-test-host"

// machines are the kernel's names for processors, by Go's.
var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// Attach takes a host in the place of an emulated machine: user@host or
// user@host:port, reached by ssh with the keys of the agent or those in ~/.ssh. It
// must have the Marker, systemd, and control groups of version 2. The files of the
// configuration are copied to DiskMount; the assets and the shape are of no use.
func Attach(ctx context.Context, cfg Config, target string) (*Guest, error) {
	user, address, found := strings.Cut(target, "@")
	if !found || user == "" || address == "" {
		return nil, fmt.Errorf("host %q: want user@host or user@host:port", target)
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "22")
	}
	config, err := hostConfig(user)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", target, err)
	}
	client, err := dial(ctx, address, config)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", target, err)
	}
	g := &Guest{cfg: cfg, client: client, host: target}
	if err := g.prepareHost(ctx); err != nil {
		g.Close()
		return nil, fmt.Errorf("host %s: %w", target, err)
	}
	for name, source := range cfg.Files {
		if err := g.bring(ctx, source, filepath.Join(DiskMount, name)); err != nil {
			g.Close()
			return nil, fmt.Errorf("host %s: %w", target, err)
		}
	}
	return g, nil
}

// bring copies a file to a host, unless it is there already: they are big.
func (g *Guest) bring(ctx context.Context, local, path string) error {
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	r, err := g.Run(ctx, "sha256sum "+Quote(path))
	if err != nil {
		return err
	}
	if is, _, _ := strings.Cut(r.Stdout, " "); is == hex.EncodeToString(h.Sum(nil)) {
		return nil
	}
	g.cfg.Log("copying %s to %s", path, g.host)
	return g.Push(ctx, local, path)
}

// programs of Debian that a host must have: the kubelet, the CNI plugins, upstream's
// suite and we use them.
var programs = []string{"conntrack", "findmnt", "ip", "iptables", "jq", "lscpu", "pkill", "sha256sum", "sudo", "tar"}

// hostConfig is how a host of the user's is reached: as his ssh command does it.
func hostConfig(user string) (*ssh.ClientConfig, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	check, err := knownhosts.New(filepath.Join(home, ".ssh", "known_hosts"))
	if err != nil {
		return nil, fmt.Errorf("its host key must be in known_hosts: %w", err)
	}
	var methods []ssh.AuthMethod
	if socket := os.Getenv("SSH_AUTH_SOCK"); socket != "" {
		if conn, err := net.Dial("unix", socket); err == nil {
			methods = append(methods, ssh.PublicKeysCallback(agent.NewClient(conn).Signers))
		}
	}
	var signers []ssh.Signer
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		data, err := os.ReadFile(filepath.Join(home, ".ssh", name))
		if err != nil {
			continue
		}
		// One with a passphrase is the agent's business.
		if signer, err := ssh.ParsePrivateKey(data); err == nil {
			signers = append(signers, signer)
		}
	}
	if len(signers) > 0 {
		methods = append(methods, ssh.PublicKeys(signers...))
	}
	if len(methods) == 0 {
		return nil, errors.New("no key: there is no ssh agent, and no usable key in ~/.ssh")
	}
	return &ssh.ClientConfig{User: user, Auth: methods, HostKeyCallback: check, Timeout: 30 * time.Second}, nil
}

// prepareHost refuses a host that is not meant, or not fit, for tests, and readies
// one that is, as the guest's boot does.
func (g *Guest) prepareHost(ctx context.Context) error {
	checks := []struct{ command, want, message string }{
		{"id -u", "0", "the user must be root: its ID is %s"},
		{"uname -m", machines[runtime.GOARCH], "its processor is %s, the programs are for " + runtime.GOARCH},
		{"test -e " + Marker + "; echo $?", "0", "it has no file " + Marker + " (%s). Tests delete every pod of a host, and replace its container runtime's configuration: make the file on one that may be used for that"},
		{"stat -f -c %T /sys/fs/cgroup", "cgroup2fs", "/sys/fs/cgroup is a %s: want control groups of version 2, cgroup2fs"},
		{"test -d /run/systemd/system; echo $?", "0", "systemd does not run there (%s)"},
		{"for p in " + strings.Join(programs, " ") + "; do command -v $p >/dev/null || printf '%s ' $p; done", "", "it lacks programs that are needed: %s"},
	}
	for _, c := range checks {
		out, err := g.Output(ctx, c.command)
		if err != nil {
			return err
		}
		if out = strings.TrimSpace(out); out != c.want {
			return fmt.Errorf(c.message, out)
		}
	}
	_, err := g.Output(ctx, "systemctl stop kubelet containerd 2>/dev/null; for module in overlay br_netfilter veth bridge; do modprobe $module || exit 1; done; "+
		"sysctl -q -w net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1")
	return err
}
