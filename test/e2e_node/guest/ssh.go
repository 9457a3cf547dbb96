// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// newKey makes the key of one boot. The private half is kept in a file for
// Shell, the public half is returned as sshd's base64 text.
func newKey(file string) (ssh.Signer, string, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, "", err
	}
	block, err := ssh.MarshalPrivateKey(private, "podslice guest")
	if err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, "", err
	}
	return signer, base64.StdEncoding.EncodeToString(signer.PublicKey().Marshal()), nil
}

func readHostKey(file string) (ssh.PublicKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// Result is what a command on the guest gave.
type Result struct {
	Stdout, Stderr string
	ExitCode       int
}

// Run runs a shell command on the guest. An error means that it could not be
// run to its end; a command that ran and failed is told by ExitCode.
func (g *Guest) Run(ctx context.Context, command string) (Result, error) {
	return g.run(ctx, command, nil)
}

func (g *Guest) run(ctx context.Context, command string, stdin io.Reader) (Result, error) {
	fail := func(err error) (Result, error) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return Result{}, fmt.Errorf("guest command %q: %w", brief(command), err)
	}
	session, err := g.client.NewSession()
	if err != nil {
		return fail(err)
	}
	defer session.Close()
	stop := context.AfterFunc(ctx, func() { session.Close() })
	defer stop()
	var stdout, stderr bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = stdin, &stdout, &stderr
	err = session.Run(command)
	result := Result{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		result.ExitCode = exit.ExitStatus()
		return result, nil
	}
	if err != nil {
		return fail(err)
	}
	return result, nil
}

// Output runs a shell command that must succeed and returns what it printed.
func (g *Guest) Output(ctx context.Context, command string) (string, error) {
	return g.output(ctx, command, nil)
}

func (g *Guest) output(ctx context.Context, command string, stdin io.Reader) (string, error) {
	r, err := g.run(ctx, command, stdin)
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 {
		return "", fmt.Errorf("guest command %q: exit status %d: %s", brief(command), r.ExitCode, strings.TrimSpace(r.Stderr+r.Stdout))
	}
	return r.Stdout, nil
}

// Dial connects to an address as the guest sees it, such as one of its loopback.
func (g *Guest) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return g.client.DialContext(ctx, network, address)
}

// WriteFile writes a file on the guest in one piece, with its folder.
func (g *Guest) WriteFile(ctx context.Context, path string, data []byte, mode os.FileMode) error {
	return g.write(ctx, path, bytes.NewReader(data), mode)
}

// Push copies a file of the host to the guest.
func (g *Guest) Push(ctx context.Context, local, path string) error {
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return g.write(ctx, path, f, info.Mode().Perm())
}

func (g *Guest) write(ctx context.Context, path string, data io.Reader, mode os.FileMode) error {
	// A rename at the end, and a name that starts with a dot: the kubelet reads
	// its manifest folder whenever something in it changes.
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part")
	_, err := g.output(ctx, fmt.Sprintf("mkdir -p %s && cat > %s && chmod %o %s && mv %s %s",
		Quote(filepath.Dir(path)), Quote(tmp), mode, Quote(tmp), Quote(tmp), Quote(path)), data)
	return err
}

// ReadFile returns a file of the guest.
func (g *Guest) ReadFile(ctx context.Context, path string) (string, error) {
	return g.Output(ctx, "cat "+Quote(path))
}

// Collect copies files of the guest into a folder of the host, under their own
// last names. Files that do not exist are passed over.
func (g *Guest) Collect(ctx context.Context, dir string, paths ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var failures []error
	for _, path := range paths {
		r, err := g.Run(ctx, "cat "+Quote(path))
		if err == nil && r.ExitCode == 0 {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(r.Stdout), 0o644)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// Quote makes a string one word of the shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// brief shortens a command for messages.
func brief(command string) string {
	command = strings.Join(strings.Fields(command), " ")
	if len(command) > 100 {
		return command[:97] + "..."
	}
	return command
}
