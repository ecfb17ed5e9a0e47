#!/usr/bin/env bash
# powercut PROGRAM: power cuts on file systems in loop-mounted files.
#
# For each file system and scene of PROGRAM (powercut.c): act, which ends with
# the file system's shutdown ioctl, mount again, check.
set -u

program=$1
failed=0
ran=0

skip() {
	echo "skipped: $1"
	exit 77
}

[ "$(id -u)" -eq 0 ] || skip "needs root to mount"
command -v losetup >/dev/null || skip "losetup is not installed"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/cairn-powercut-XXXXXX") || exit 1
mount=$scratch/mount
image=$scratch/image
mkdir "$mount"

# shellcheck disable=SC2317 # called by the trap
clean() {
	if mountpoint -q "$mount"; then
		umount "$mount"
	fi
	rm -rf "$scratch"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

complain() {
	echo "powercut: $*" >&2
	failed=1
}

attach() { # OPTIONS
	mount -o "loop$1" "$image" "$mount" 2>"$scratch/why"
}

one() { # OPTIONS SCENE MKFS...
	local options=$1 scene=$2
	shift 2
	rm -f "$image"
	truncate -s 320M "$image"
	if ! "$@" "$image" >"$scratch/why" 2>&1; then
		cat "$scratch/why"
		complain "$*: no file system"
		return
	fi
	if ! attach "$options"; then
		complain "mount again: $(cat "$scratch/why")"
		return
	fi
	if ! "$program" act "$mount" "$scene"; then
		complain "$1 $options: scene '$scene' could not be played"
		umount "$mount"
		return
	fi
	umount "$mount"
	if ! attach "$options"; then
		complain "$1 $options: after scene '$scene' it can not be mounted"
		return
	fi
	if "$program" check "$mount" "$scene"; then
		echo "ok: $1 $options: $scene"
	else
		complain "$1 $options: scene '$scene' lost data"
	fi
	umount "$mount"
	ran=$((ran + 1))
}

all() { # OPTIONS MKFS...
	local options=$1 scene
	shift
	if ! command -v "$1" >/dev/null; then
		echo "left out: $1 is not installed"
		return
	fi
	rm -f "$image"
	truncate -s 320M "$image"
	if ! "$@" "$image" >/dev/null 2>&1 || ! attach "$options"; then
		echo "left out: $1 $options can not be mounted"
		return
	fi
	umount "$mount"
	for scene in $("$program" scenes); do
		one "$options" "$scene" "$@"
	done
}

all "" mkfs.ext4 -q
# What ext4 does of itself for a file that is renamed over another hides much.
all ",noauto_da_alloc" mkfs.ext4 -q
all "" mkfs.xfs -q

[ "$failed" -eq 0 ] || exit 1
[ "$ran" -gt 0 ] || skip "no file system can be loop-mounted"
