#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that the emulated node and upstream's tests need on
# this machine, and says so. Does nothing when all of them are there.
set -euo pipefail

# A package, and the file that shows that it is there, whoever installed it.
needs=(
	"qemu-system-x86 qemu-system-x86_64"
	"mmdebstrap mmdebstrap"
	"e2fsprogs mke2fs"
	"gcc gcc"
	"libc6-dev /usr/include/stdlib.h"
	"libseccomp-dev /usr/include/seccomp.h"
	"pkg-config pkg-config"
	"openssh-client ssh"
	"git git"
	"ca-certificates /etc/ssl/certs/ca-certificates.crt"
)

PATH=$PATH:/usr/sbin:/sbin
missing=()
for need in "${needs[@]}"; do
	read -r package proof <<<"$need"
	if [[ $proof == /* ]]; then
		[[ -e $proof ]] || missing+=("$package")
	else
		command -v "$proof" >/dev/null || missing+=("$package")
	fi
done

fail() {
	echo "deps: $*" >&2
	exit 1
}

[[ $(uname -m) == x86_64 ]] || fail "the emulated node needs an x86-64 machine, this is $(uname -m)"
[[ $(id -u) == 0 ]] || fail "the guest's root is made with mmdebstrap in root mode: run as root"

# The guest's kernel and busybox come from apt, so apt has to know its packages.
kernel=linux-image-cloud-amd64
if ((${#missing[@]})); then
	command -v apt-get >/dev/null || fail "missing: ${missing[*]}; this is no Debian, install them yourself"
	echo "deps: installing Debian packages: ${missing[*]}"
	apt-get update -q >/dev/null
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >/dev/null
elif ! apt-cache show "$kernel" >/dev/null 2>&1; then
	echo "deps: updating apt's lists"
	apt-get update -q >/dev/null
fi
