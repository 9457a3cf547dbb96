// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// initrdModules are loaded in this order; ext4 is in the kernel itself.
var initrdModules = []string{
	"virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk",
}

const initScript = `#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
for module in $(busybox cat /modules); do busybox insmod /$module.ko; done
for try in 1 2 3 4 5 6 7 8 9 10; do
	busybox test -b /dev/vda && break
	busybox sleep 1
done
busybox mount -t ext4 -o rw,noatime /dev/vda /root
busybox umount /proc
busybox mount --move /dev /root/dev
exec busybox switch_root /root /sbin/init
`

// makeInitrd writes the small first root that finds the disk: a static busybox,
// the virtio modules and a script. Unpacked by the kernel, so plain cpio.
func makeInitrd(_ context.Context, a Assets, work string, _ Log) error {
	shell, err := os.ReadFile(a.Busybox())
	if err != nil {
		return err
	}
	var c cpio
	for _, dir := range []string{"bin", "dev", "proc", "root"} {
		c.add(dir, 0o040755, nil)
	}
	c.add("bin/busybox", 0o100755, shell)
	c.add("init", 0o100755, []byte(initScript))
	c.add("modules", 0o100644, []byte(strings.Join(initrdModules, "\n")+"\n"))
	wanted := map[string]bool{}
	for _, m := range initrdModules {
		wanted[m+".ko"] = true
	}
	err = filepath.WalkDir(filepath.Join(work, "kernel", "lib/modules"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !wanted[d.Name()] {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		delete(wanted, d.Name())
		c.add(d.Name(), 0o100644, data)
		return nil
	})
	if err != nil {
		return fmt.Errorf("initrd: %w", err)
	}
	if len(wanted) != 0 {
		return fmt.Errorf("initrd: the kernel package lacks modules %v", wanted)
	}
	return os.WriteFile(a.initrd(), c.finish(), 0o644)
}

// cpio builds an archive in the "newc" format, the only one that kernels read:
// for each file a header of thirteen 8-digit hexadecimal numbers, the name and
// the content, each padded to 4 bytes.
type cpio struct {
	buf   bytes.Buffer
	inode int
}

func (c *cpio) add(name string, mode uint32, data []byte) {
	c.inode++
	nlink := 1
	if mode&0o040000 != 0 {
		nlink = 2
	}
	fmt.Fprintf(&c.buf, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.inode, mode, 0, 0, nlink, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	c.buf.WriteString(name + "\x00")
	c.pad()
	c.buf.Write(data)
	c.pad()
}

func (c *cpio) pad() {
	for c.buf.Len()%4 != 0 {
		c.buf.WriteByte(0)
	}
}

func (c *cpio) finish() []byte {
	c.add("TRAILER!!!", 0, nil)
	return c.buf.Bytes()
}
