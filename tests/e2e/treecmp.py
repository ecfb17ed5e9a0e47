#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""treecmp: are two directory trees the same?

    treecmp.py [--ignore WHAT,...] [--max N] A B

Compares names, kinds, contents, modes, owners, modification times to the
nanosecond, extended attributes (ACLs and capabilities among them), flags,
device numbers, targets of symbolic links, which names are one file, holes and
preallocated ranges (where the file system tells them).  One difference a
line; exits with 1 if there is one.  WHAT: root (the two directories
themselves), owner, mtime, mode, xattrs, flags, holes, prealloc, links.

It knows nothing of cairn and opens files one level at a time, so that depth
and length of paths do not matter.
"""

import array
import errno
import fcntl
import os
import stat
import struct
import sys

FS_IOC_GETFLAGS = 0x80086601
FS_IOC_FIEMAP = 0xC020660B
FIEMAP_EXTENT_LAST = 0x1
FIEMAP_EXTENT_UNWRITTEN = 0x800
FIEMAP_FLAG_SYNC = 0x1
# What a person may set; the others are the file system's own.
USER_FLAGS = 0x000380FF
PIECE = 1 << 20
FOLLOW_NOT = os.O_NOFOLLOW | os.O_CLOEXEC
WORDS = {"root", "owner", "mtime", "mode", "xattrs", "flags", "holes",
         "prealloc", "links"}


class Differences:
    def __init__(self, most):
        self.n = 0
        self.most = most

    def add(self, path, what, a=None, b=None):
        self.n += 1
        if self.n > self.most:
            return
        line = f"{shown(path)}: {what}"
        if a is not None or b is not None:
            line += f": {a!r} and {b!r}"
        print(line[:2000])


def shown(path):
    text = path.decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else
                   c.encode("unicode_escape").decode() for c in text)
    return text if len(text) < 400 else text[:200] + "..." + text[-197:]


def kind(st):
    return stat.filemode(st.st_mode)[0]


def xattrs(path_fd):
    """Of an entry opened with O_PATH."""
    path = f"/proc/self/fd/{path_fd}"
    try:
        names = os.listxattr(path)
    except OSError as e:
        if e.errno in (errno.ENOTSUP, errno.EPERM):
            return {}
        raise
    found = {}
    for name in names:
        try:
            found[name] = os.getxattr(path, name)
        except OSError as e:
            found[name] = os.strerror(e.errno)
    return found


def flags(fd):
    out = array.array("L", [0])
    try:
        fcntl.ioctl(fd, FS_IOC_GETFLAGS, out)
    except OSError:
        return None
    return out[0] & USER_FLAGS


def segments(fd, size):
    """Where there is data: [(from, to)]."""
    found = []
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as e:
            if e.errno == errno.ENXIO:
                break
            return [(0, size)]
        if start >= size:
            break
        at = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        found.append((start, at))
    return found


def unwritten(fd):
    """Preallocated ranges, adjoining ones joined; None: not to be known."""
    found = []
    at = 0
    count = 64
    while True:
        buf = bytearray(struct.pack("=QQLLLL", at, (1 << 63) - at,
                                    FIEMAP_FLAG_SYNC, 0, count, 0)
                        + bytes(56 * count))
        try:
            fcntl.ioctl(fd, FS_IOC_FIEMAP, buf, True)
        except OSError:
            return None
        n = struct.unpack_from("=L", buf, 20)[0]
        if n == 0:
            return found
        for i in range(n):
            start, _, length = struct.unpack_from("=QQQ", buf, 32 + 56 * i)
            bits = struct.unpack_from("=L", buf, 32 + 56 * i + 40)[0]
            at = start + length
            if bits & FIEMAP_EXTENT_UNWRITTEN:
                if found and found[-1][1] == start:
                    found[-1] = (found[-1][0], at)
                else:
                    found.append((start, at))
            if bits & FIEMAP_EXTENT_LAST:
                return found



def same_content(a, b, where):
    """Compares what lies in any of the ranges; elsewhere both have zeros."""
    for start, end in where:
        at = start
        while at < end:
            n = min(PIECE, end - at)
            x = os.pread(a, n, at)
            y = os.pread(b, n, at)
            if x != y:
                for i in range(min(len(x), len(y))):
                    if x[i] != y[i]:
                        return at + i
                return at + min(len(x), len(y))
            at += n
    return None


def join(ranges):
    out = []
    for start, end in sorted(ranges):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


class Comparer:
    def __init__(self, ignore, diffs):
        self.ignore = ignore
        self.d = diffs
        self.pairs = {}     # inode of A: (inode of B, path)
        self.taken = {}     # inode of B: inode of A

    def wants(self, what):
        return what not in self.ignore

    def links(self, path, a, b):
        if a.st_nlink != b.st_nlink:
            self.d.add(path, "links", a.st_nlink, b.st_nlink)
        if a.st_nlink < 2 and b.st_nlink < 2:
            return
        x, y = (a.st_dev, a.st_ino), (b.st_dev, b.st_ino)
        if self.pairs.setdefault(x, (y, path))[0] != y:
            self.d.add(path, "is not one file with "
                       + shown(self.pairs[x][1]) + " in B")
        if self.taken.setdefault(y, x) != x:
            self.d.add(path, "is one file with another in B only")

    def files(self, path, a, b, sizes):
        if self.wants("flags"):
            x, y = flags(a), flags(b)
            if x != y and x is not None and y is not None:
                self.d.add(path, "flags", hex(x), hex(y))
        size = min(sizes)
        x, y = segments(a, sizes[0]), segments(b, sizes[1])
        if self.wants("holes") and x != y:
            self.d.add(path, "data lies", x[:20], y[:20])
        if sizes[0] == sizes[1]:
            at = same_content(a, b, join(x + y))
            if at is not None:
                self.d.add(path, f"content differs at byte {at}")
        if self.wants("prealloc"):
            x, y = unwritten(a), unwritten(b)
            if x != y and x is not None and y is not None:
                self.d.add(path, f"preallocated of {size} bytes",
                           x[:20], y[:20])

    def entry(self, path, a, b):
        """a, b: opened with O_PATH.  True: both are directories."""
        x, y = os.fstat(a), os.fstat(b)
        if kind(x) != kind(y):
            self.d.add(path, "kind", kind(x), kind(y))
            return False
        link = stat.S_ISLNK(x.st_mode)
        if self.wants("mode") and not link and x.st_mode != y.st_mode:
            self.d.add(path, "mode", oct(x.st_mode), oct(y.st_mode))
        if self.wants("owner") and (x.st_uid, x.st_gid) != (y.st_uid, y.st_gid):
            self.d.add(path, "owner", (x.st_uid, x.st_gid),
                       (y.st_uid, y.st_gid))
        if self.wants("mtime") and x.st_mtime_ns != y.st_mtime_ns:
            self.d.add(path, "mtime", x.st_mtime_ns, y.st_mtime_ns)
        if self.wants("xattrs"):
            m, n = xattrs(a), xattrs(b)
            if m != n:
                self.d.add(path, "extended attributes", m, n)
        if stat.S_ISDIR(x.st_mode):
            return True
        if self.wants("links"):
            self.links(path, x, y)
        if link:
            m, n = os.readlink("", dir_fd=a), os.readlink("", dir_fd=b)
            if m != n:
                self.d.add(path, "target", m, n)
        elif stat.S_ISREG(x.st_mode):
            if x.st_size != y.st_size:
                self.d.add(path, "size", x.st_size, y.st_size)
            with Opened(a) as m, Opened(b) as n:
                self.files(path, m, n, (x.st_size, y.st_size))
        elif stat.S_ISCHR(x.st_mode) or stat.S_ISBLK(x.st_mode):
            if x.st_rdev != y.st_rdev:
                self.d.add(path, "device", x.st_rdev, y.st_rdev)
        return False


class Opened:
    """For reading, from a descriptor of O_PATH."""

    def __init__(self, path_fd, flags=0):
        self.fd = os.open(f"/proc/self/fd/{path_fd}",
                          os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)

    def __enter__(self):
        return self.fd

    def __exit__(self, *_):
        os.close(self.fd)


def open_path(name, dir_fd):
    return os.open(name, os.O_PATH | FOLLOW_NOT, dir_fd=dir_fd)


def names_of(fd):
    with Opened(fd, os.O_DIRECTORY) as d:
        return sorted(os.fsencode(n) for n in os.listdir(d))


def up(fd):
    """The directory above; fd is closed."""
    above = os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    os.close(fd)
    return above


def compare(c, top_a, top_b):
    a = os.open(top_a, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    b = os.open(top_b, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if c.wants("root"):
        c.entry(b".", a, b)
    path = []
    todo = [None]           # per level, the names that are left
    while todo:
        if todo[-1] is None:
            x, y = names_of(a), names_of(b)
            where = b"/".join(path)
            if c.wants("flags") and path:
                with Opened(a) as m, Opened(b) as n:
                    p, q = flags(m), flags(n)
                if p != q and p is not None and q is not None:
                    c.d.add(where, "flags", hex(p), hex(q))
            for name in sorted(set(x) ^ set(y)):
                c.d.add(b"/".join(path + [name]),
                        "only in A" if name in x else "only in B")
            todo[-1] = sorted(set(x) & set(y), reverse=True)
        if not todo[-1]:
            todo.pop()
            if todo:
                a, b = up(a), up(b)
                path.pop()
            continue
        name = todo[-1].pop()
        m, n = open_path(name, a), open_path(name, b)
        if c.entry(b"/".join(path + [name]), m, n):
            os.close(a)
            os.close(b)
            a, b = m, n
            path.append(name)
            todo.append(None)
        else:
            os.close(m)
            os.close(n)
    os.close(a)
    os.close(b)


def main(argv):
    ignore = set()
    most = 100
    while argv and argv[0].startswith("--"):
        if argv[0] == "--ignore" and len(argv) > 1:
            ignore |= set(argv[1].split(","))
        elif argv[0] == "--max" and len(argv) > 1:
            most = int(argv[1])
        else:
            sys.exit(__doc__)
        argv = argv[2:]
    if len(argv) != 2 or not ignore <= WORDS:
        sys.exit(__doc__)
    diffs = Differences(most)
    compare(Comparer(ignore, diffs), argv[0], argv[1])
    if diffs.n > most:
        print(f"... and {diffs.n - most} more")
    return 1 if diffs.n else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
