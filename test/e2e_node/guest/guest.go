// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// bootLimit is how long a guest may take until its sshd answers. It takes 15 s
// on two idle cores; a busy machine with a big shape needs several times that.
const bootLimit = 10 * time.Minute

// Config is what to boot.
type Config struct {
	Assets Assets
	Shape  Shape
	// Files go to the second disk: the host's file by its path beneath DiskMount.
	Files map[string]string
	// Dir receives the console's output and the second disk. It is created, files
	// of an earlier boot in it are removed (folders stay), and what is in it at the
	// end is kept for a look at what happened.
	Dir string
	Log Log
}

// Guest is a running machine. Its methods may be used by several goroutines.
type Guest struct {
	Shape   Shape
	cfg     Config
	cmd     *exec.Cmd
	exited  chan struct{} // closed when QEMU has ended
	exitErr error         // valid once exited is closed
	cancel  context.CancelFunc
	client  *ssh.Client
	host    string // user@host of a machine that is not emulated
	port    int
	keyFile string
	lock    *os.File
	close   sync.Once
}

// Boot starts a machine and returns when commands can be run on it and it looks
// to its own kernel the way its shape says. It ends with ctx.
func Boot(ctx context.Context, cfg Config) (*Guest, error) {
	if err := cfg.Shape.Validate(); err != nil {
		return nil, fmt.Errorf("machine shape %q: %w", cfg.Shape, err)
	}
	lock, err := lockOutput(cfg.Assets.out)
	if err != nil {
		return nil, err
	}
	if err := emptyDir(cfg.Dir); err != nil {
		lock.Close()
		return nil, err
	}
	g := &Guest{Shape: cfg.Shape, cfg: cfg, lock: lock, keyFile: filepath.Join(cfg.Dir, "id_ed25519")}
	disk := filepath.Join(cfg.Dir, "disk.ext4")
	if err := makeFilesDisk(ctx, cfg, disk); err != nil {
		g.Close()
		return nil, err
	}
	signer, public, err := newKey(g.keyFile)
	if err != nil {
		g.Close()
		return nil, err
	}
	started := time.Now()
	cfg.Log("booting %s (%d CPUs, %d sockets, %s), emulated", cfg.Shape, cfg.Shape.CPUs(), cfg.Shape.Sockets, size(cfg.Shape.Total()))
	err = g.start(ctx, disk, public)
	if err == nil {
		err = g.writeKnownHosts()
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	if err := g.connect(ctx, signer); err != nil {
		err = fmt.Errorf("guest did not come up: %w\nthe end of its console (%s):\n%s", err, g.console(), tailFile(g.console(), 30))
		g.Close()
		return nil, err
	}
	if err := g.checkTopology(ctx, g.Shape); err != nil {
		g.Close()
		return nil, err
	}
	cfg.Log("guest is up after %.0f s", time.Since(started).Seconds())
	return g, nil
}

// emptyDir makes a folder, or removes the files in it.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// lockOutput takes the lock under which assets are made and guests run. It goes
// with this process, however that ends.
func lockOutput(out string) (*os.File, error) {
	name := filepath.Join(out, "guest", "lock")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another guest of this checkout is running or being made (%s is locked): two would starve each other", name)
	}
	return f, nil
}

// start runs QEMU. The port is free when it is chosen, and if somebody takes it
// before QEMU does, QEMU ends at once and connect says so.
func (g *Guest) start(ctx context.Context, disk, public string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	g.port = port
	ctx, g.cancel = context.WithCancel(ctx)
	args := append(machineArgs(g.Shape), bootArgs(g.cfg.Assets, disk, g.console(), public, port)...)
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	// QEMU keeps what the guest writes in unlinked files there.
	cmd.Env = append(os.Environ(), "TMPDIR="+g.cfg.Dir)
	errors, err := os.Create(filepath.Join(g.cfg.Dir, "qemu.log"))
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = errors, errors
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	g.cmd = cmd
	g.exited = make(chan struct{})
	ready := make(chan error)
	go func() {
		// The kernel sends the death signal when the starting thread ends, not the
		// process, so this thread has to live as long as QEMU.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer errors.Close()
		err := cmd.Start()
		ready <- err
		if err == nil {
			g.exitErr = cmd.Wait()
		}
		close(g.exited)
	}()
	if err := <-ready; err != nil {
		return fmt.Errorf("starting QEMU: %w (Debian package qemu-system-x86)", err)
	}
	return nil
}

// connect tries the guest's sshd until it answers. QEMU accepts connections
// before the guest listens, so that refusals look like broken handshakes.
func (g *Guest) connect(ctx context.Context, signer ssh.Signer) error {
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	hostKey, err := readHostKey(g.cfg.Assets.hostKey())
	if err != nil {
		return err
	}
	config := &ssh.ClientConfig{
		User:              "root",
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback:   ssh.FixedHostKey(hostKey),
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	}
	var last error
	for {
		client, err := dial(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(g.port)), config)
		if err == nil {
			g.client = client
			return nil
		}
		last = err
		select {
		case <-g.exited:
			return fmt.Errorf("QEMU ended: %v: %s", g.exitErr, tailFile(filepath.Join(g.cfg.Dir, "qemu.log"), 10))
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer of its sshd: %v", ctx.Err(), last)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func dial(ctx context.Context, addr string, config *ssh.ClientConfig) (*ssh.Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	// One deadline for the whole handshake; none afterwards.
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	c, channels, requests, err := ssh.NewClientConn(conn, addr, config)
	if err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	return ssh.NewClient(c, channels, requests), nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (g *Guest) console() string { return filepath.Join(g.cfg.Dir, "console.log") }

// Dir is the folder with the guest's console output.
func (g *Guest) Dir() string { return g.cfg.Dir }

// Emulated is false for a host that was attached.
func (g *Guest) Emulated() bool { return g.host == "" }

// Close ends the machine at once: its disks are snapshots, there is nothing to
// be saved. It may be called more than once.
func (g *Guest) Close() error {
	g.close.Do(func() {
		if g.client != nil {
			g.client.Close()
		}
		if g.cancel != nil {
			g.cancel()
		}
		if g.exited != nil {
			<-g.exited
		}
		if g.host != "" {
			return
		}
		os.Remove(filepath.Join(g.cfg.Dir, "disk.ext4"))
		os.Remove(g.keyFile)
		os.Remove(g.knownHosts())
		g.lock.Close()
	})
	return nil
}

// Shell gives the terminal a shell on the guest until the user leaves it.
func (g *Guest) Shell(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "ssh", g.sshArgs()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() != 255 {
		return nil // the status of the last command that the user typed
	}
	return err
}

// ShellCommand is a command line that gives a shell on the guest.
func (g *Guest) ShellCommand() string {
	return strings.Join(append([]string{"ssh"}, g.sshArgs()...), " ")
}

func (g *Guest) knownHosts() string { return filepath.Join(g.cfg.Dir, "known_hosts") }

// writeKnownHosts lets an ssh command know the guest's host key.
func (g *Guest) writeKnownHosts() error {
	key, err := os.ReadFile(g.cfg.Assets.hostKey())
	if err != nil {
		return err
	}
	return os.WriteFile(g.knownHosts(), fmt.Appendf(nil, "[127.0.0.1]:%d %s", g.port, key), 0o600)
}

func (g *Guest) sshArgs() []string {
	if g.host != "" {
		return []string{"-t", "ssh://" + g.host}
	}
	return []string{
		"-p", strconv.Itoa(g.port), "-i", g.keyFile, "-o", "IdentitiesOnly=yes",
		"-o", "UserKnownHostsFile=" + g.knownHosts(), "-t", "root@127.0.0.1",
	}
}

// makeFilesDisk makes the second disk from the files of the configuration.
func makeFilesDisk(ctx context.Context, cfg Config, image string) error {
	folder := filepath.Join(cfg.Dir, "disk")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var total int64
	for name, source := range cfg.Files {
		n, err := placeFile(source, filepath.Join(folder, name))
		if err != nil {
			return fmt.Errorf("second disk: %s: %w", name, err)
		}
		total += n
	}
	// Room for inodes, bitmaps and the rounding of files to blocks.
	megabytes := total>>20*11/10 + int64(len(cfg.Files))/100 + 32
	os.Remove(image)
	return makeDisk(ctx, filepath.Join(cfg.Dir, "mke2fs.log"), image, folder, fmt.Sprintf("%dM", megabytes))
}

// placeFile links a file, or copies it where links are not possible, and
// returns its size.
func placeFile(source, target string) (int64, error) {
	info, err := os.Stat(source)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return 0, err
	}
	if os.Link(source, target) == nil {
		return info.Size(), nil
	}
	in, err := os.Open(source)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return 0, err
	}
	return info.Size(), out.Close()
}
