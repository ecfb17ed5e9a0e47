#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gentree: a directory with everything that a backup of trees must keep.

    gentree.py DIR             make it; DIR must not exist
    gentree.py --remove DIR    remove it, whatever its modes, flags and depth
    gentree.py --small DIR     without the files of many MiB

The same tree each time, but for inode numbers and change times.  What this
user, or this file system, can not have is left out; each such thing is a line
"skipped: WHAT: WHY" on stdout.  Files in "sparse" may be far larger than what
they hold: compare them by SEEK_DATA.
"""

import array
import ctypes
import errno
import fcntl
import os
import random
import stat
import struct
import sys

KIB = 1 << 10
MIB = 1 << 20
FS_IOC_GETFLAGS = 0x80086601
FS_IOC_SETFLAGS = 0x40086602
FLAG_IMMUTABLE, FLAG_APPEND, FLAG_NODUMP, FLAG_NOATIME = 0x10, 0x20, 0x40, 0x80
FALLOC_KEEP_SIZE = 1
T0 = 1_000_000_000_123_456_789
DEEP_LEVELS = 1200   # more than a process may have descriptors
LONG_LEVELS = 30     # of 200 bytes each: more than PATH_MAX

small = False
late = []            # what must come last: (path, function)


def skipped(what, why):
    if isinstance(why, OSError):
        why = os.strerror(why.errno)
    print(f"skipped: {what}: {why}")


def attempt(what, f, *args, **kw):
    """What may not be possible here."""
    try:
        f(*args, **kw)
        return True
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        skipped(what, e)
        return False


def content(seed, size):
    return random.Random(seed).randbytes(size)


def text(seed, size):
    r = random.Random(seed)
    words = [b"stone", b"pile", b"way", b"mark", b"hill", b"path", b"\n"]
    out = bytearray()
    while len(out) < size:
        out += r.choice(words) + b" "
    return bytes(out[:size])


def put(path, data, mode=None):
    with open(path, "wb") as f:
        f.write(data)
    if mode is not None:
        os.chmod(path, mode)


def at(directory, name):
    return os.path.join(os.fsencode(directory), os.fsencode(name))


def folder(name):
    os.mkdir(name)
    return os.fsencode(name)


def make_names():
    d = folder("names")
    names = [b"a\nb", b"\xfe", b"\xff", b"x\\", b" lead", b"trail ",
             b"esc\x1b[31m", b"-rf", b"--", b"e\xcc\x81", b"\xc3\xa9", b"...",
             b".hidden", b"*", b"?", b"[a-b]", b"{x}", b"$HOME", b"`id`",
             b"'", b'"', b"tab\t", b"\x7f", b"~", b"#c", b"!n", b"a:b", b"|",
             b"n" * 255, b"\xff" * 255, b"CON", b"a" + b"\\n", b"\xed\xa0\x80"]
    names += [bytes([c]) for c in range(1, 32)]
    for i, name in enumerate(names):
        put(at(d, name), b"name %d\n" % i)
    # Byte order of names is not that of paths: "a" < "a-b", "a-b" < "a/x".
    order = folder(b"order")
    for name in (b"a", b"A", b"a-b", b"a.b", b"ab", b"\xe4", b"b"):
        os.mkdir(at(order, name))
        put(at(at(order, name), b"x"), name)
        put(at(order, name + b".f"), name)


def make_sizes():
    d = folder("sizes")
    sizes = [0, 1, 2, 4095, 4096, 4097, 65535, 65536, 256 * KIB - 1,
             256 * KIB, 256 * KIB + 1, MIB - 1, MIB, MIB + 1]
    if not small:
        sizes += [4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 9 * MIB + 17]
    for n in sizes:
        put(at(d, b"random-%d" % n), content(n, n))
    put(at(d, b"text"), text(1, 300 * KIB))
    put(at(d, b"zeros"), bytes(700 * KIB))
    put(at(d, b"copy-of-1048577"), content(MIB + 1, MIB + 1))
    put(at(d, b"copy-of-65536"), content(65536, 65536))
    # Contents of one size that are not equal, large and small.
    put(at(d, b"other-1048577"), content(-1, MIB + 1))
    put(at(d, b"other-65536"), content(-2, 65536))


def make_many():
    d = folder("many")
    for i in range(2000):
        put(at(d, b"f%04d" % i), b"%d\n" % (i % 700) * (1 + i % 50))
    e = folder("empty")
    os.mkdir(at(e, b"inner"))
    os.mkdir(at(at(e, b"inner"), b"most"))
    put(at(e, b"file"), b"")


def make_deep():
    """Levels beyond what a path, or a table of descriptors, can hold."""
    for top, names in ((b"deep", [b"d%d" % (i % 10) for i in
                                  range(DEEP_LEVELS)]),
                       (b"long", [b"%03d" % i + b"l" * 197 for i in
                                  range(LONG_LEVELS)])):
        os.mkdir(top)
        fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        for i, name in enumerate(names):
            os.mkdir(name, dir_fd=fd)
            if i % 100 == 7 or i == len(names) - 1:
                f = os.open(b"file", os.O_WRONLY | os.O_CREAT, 0o644,
                            dir_fd=fd)
                os.write(f, b"level %d\n" % i)
                os.close(f)
            down = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = down
        f = os.open(b"bottom", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
        os.write(f, b"here\n")
        os.close(f)
        os.symlink(b"bottom", b"link", dir_fd=fd)
        os.close(fd)


def make_links():
    d = folder("links")
    put(at(d, b"file"), b"target\n")
    for name, to in ((b"good", b"file"), (b"dangling", b"not there"),
                     (b"absolute", b"/etc/passwd"), (b"up", b"../.."),
                     (b"self", b"self"), (b"dot", b"."),
                     (b"long", b"t" * 1000), (b"longest", b"u" * 4095),
                     (b"bytes", b"\xff\n\x1b[1m \\"), (b"slash", b"a//b/")):
        attempt("symlink of %d bytes" % len(to), os.symlink, to, at(d, name))
    h = folder("hard")
    os.mkdir(at(h, b"sub"))
    put(at(h, b"z-first"), content(5, 5000))
    for name in (b"a-second", b"sub/third"):
        os.link(at(h, b"z-first"), at(h, name))
    put(at(h, b"sub/empty"), b"")
    os.link(at(h, b"sub/empty"), at(h, b"empty"))
    put(at(h, b"big"), content(6, MIB + 3))
    os.link(at(h, b"big"), at(h, b"sub/big"))
    os.mkfifo(at(h, b"fifo"))
    os.link(at(h, b"fifo"), at(h, b"fifo-too"))
    os.symlink(b"nowhere", at(h, b"symlink"))
    attempt("hard link of a symlink", os.link, at(h, b"symlink"),
            at(h, b"symlink-too"), follow_symlinks=False)


def make_special():
    d = folder("special")
    os.mkfifo(at(d, b"fifo"), 0o640)
    attempt("socket", os.mknod, at(d, b"socket"), stat.S_IFSOCK | 0o755)
    for name, kind, major, minor in (
            (b"null", stat.S_IFCHR, 1, 3), (b"loop", stat.S_IFBLK, 7, 0),
            (b"high", stat.S_IFBLK, 259, 1048575),
            (b"zero", stat.S_IFCHR, 4095, 0)):
        attempt("device", os.mknod, at(d, name), kind | 0o620,
                os.makedev(major, minor))


def make_modes():
    d = folder("modes")
    for mode in (0o400, 0o644, 0o755, 0o7777, 0o4755, 0o2755, 0o1644, 0o600):
        put(at(d, b"file-%o" % mode), b"%o" % mode, mode)
    for mode in (0o755, 0o1777, 0o2775, 0o555, 0o700):
        name = at(d, b"dir-%o" % mode)
        os.mkdir(name)
        put(at(name, b"inside"), b"%o" % mode)
        late.append((name, lambda p, m=mode: os.chmod(p, m)))
    if os.geteuid() != 0:
        skipped("mode 0, owners", "not root")
        return
    put(at(d, b"file-0"), b"0", 0)
    os.mkdir(at(d, b"dir-0"), 0o700)
    put(at(d, b"dir-0/inside"), b"0")
    os.chmod(at(d, b"dir-0"), 0)
    o = folder("owners")
    for uid, gid in ((0, 0), (1, 1), (12345, 54321), (65534, 65534),
                     (4294967294, 4294967294)):
        name = at(o, b"%d-%d" % (uid, gid))
        put(name, b"owned")
        os.symlink(b"x", name + b".link")
        os.mkdir(name + b".dir")
        for p in (name, name + b".link", name + b".dir"):
            attempt("owner %d" % uid, os.chown, p, uid, gid,
                    follow_symlinks=False)
    # chown takes these bits away, so they are set behind it.
    put(at(o, b"setuid"), b"#!")
    os.chown(at(o, b"setuid"), 12345, 54321)
    os.chmod(at(o, b"setuid"), 0o6755)


def make_times():
    d = folder("times")
    for ns in (0, 1, 999_999_999, -1, -1_000_000_000, -1_500_000_000,
               -(1 << 31) * 10**9, ((1 << 31) - 1) * 10**9,
               (1 << 31) * 10**9, (1 << 33) * 10**9 + 5,
               T0):
        name = at(d, b"t%d" % ns)
        put(name, b"time")
        late.append((name, lambda p, t=ns: attempt(
            "time", os.utime, p, ns=(T0, t))))
    os.symlink(b"x", at(d, b"link"))
    late.append((at(d, b"link"), lambda p: os.utime(
        p, ns=(T0, 77), follow_symlinks=False)))
    os.mkdir(at(d, b"dir"))
    late.append((at(d, b"dir"), lambda p: os.utime(p, ns=(T0, -3))))


def acl(*entries):
    """The kernel's form: version 2, then tag, permissions, id."""
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", *e) for e in entries)


def make_xattrs():
    d = folder("xattrs")
    none = 0xFFFFFFFF

    def set_(name, key, value, **kw):
        if not os.path.lexists(at(d, name)):
            put(at(d, name), b"has " + name)
        return attempt(key, os.setxattr, at(d, name), key, value, **kw)

    if set_(b"one", "user.one", b"value"):
        set_(b"empty", "user.empty", b"")
        set_(b"bytes", "user.bytes", bytes(range(256)))
        set_(b"same", "user.one", b"value")
        for i in (2, 0, 1):
            set_(b"several", "user.k%d" % i, b"v%d" % i)
        set_(b"large", "user.large", content(9, 3000))
        set_(b"name", "user." + "n" * 250, b"long name")
        os.mkdir(at(d, b"dir"))
        set_(b"dir", "user.dir", b"of a directory")
        put(at(d, b"mode-400"), b"400", 0o600)
        set_(b"mode-400", "user.x", b"y")
        os.chmod(at(d, b"mode-400"), 0o400)
    # Owner, user 1, owning group, group 2, mask, others.
    access = acl((1, 7, none), (2, 4, 1), (4, 4, none), (8, 5, 2),
                 (16, 5, none), (32, 0, none))
    set_(b"acl", "system.posix_acl_access", access)
    os.makedirs(at(d, b"acl-dir"), exist_ok=True)
    set_(b"acl-dir", "system.posix_acl_access", access)
    set_(b"acl-dir", "system.posix_acl_default", access)
    # CAP_NET_RAW, permitted and effective, revision 2.
    cap = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)
    set_(b"capability", "security.capability", cap)
    if os.geteuid() != 0:
        skipped("trusted xattrs", "not root")
        return
    set_(b"trusted", "trusted.t", b"only root")
    os.symlink(b"x", at(d, b"link"))
    set_(b"link", "trusted.link", b"on a link", follow_symlinks=False)
    os.mkfifo(at(d, b"fifo"))
    set_(b"fifo", "trusted.fifo", b"on a fifo")


def set_flags(path, flags):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        now = array.array("L", [0])
        fcntl.ioctl(fd, FS_IOC_GETFLAGS, now, True)
        now[0] |= flags
        fcntl.ioctl(fd, FS_IOC_SETFLAGS, now, True)
    finally:
        os.close(fd)


def make_flags():
    d = folder("flags")
    for name, flags in ((b"nodump", FLAG_NODUMP), (b"noatime", FLAG_NOATIME),
                        (b"append", FLAG_APPEND),
                        (b"immutable", FLAG_IMMUTABLE)):
        put(at(d, name), name)
        os.mkdir(at(d, name + b".dir"))
        put(at(d, name + b".dir/inside"), name)
        for p in (at(d, name), at(d, name + b".dir")):
            late.append((p, lambda p, f=flags, n=name: attempt(
                "flag " + os.fsdecode(n), set_flags, p, f)))


def fallocate(fd, mode, start, length):
    libc = ctypes.CDLL(None, use_errno=True)
    f = libc.fallocate
    f.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if f(fd, mode, start, length) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def make_sparse():
    d = folder("sparse")

    def make(name, size, pieces, allocate=()):
        fd = os.open(at(d, name), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(fd, size)
            for start, length, mode in allocate:
                attempt("preallocation", fallocate, fd, mode, start, length)
            for start, data in pieces:
                os.pwrite(fd, data, start)
        finally:
            os.close(fd)

    make(b"start", 200 * KIB, [(128 * KIB, content(1, 72 * KIB))])
    make(b"end", 200 * KIB, [(0, content(2, 64 * KIB))])
    make(b"middle", 300 * KIB, [(0, content(3, 64 * KIB)),
                                (192 * KIB, content(4, 108 * KIB))])
    # The same data, holes elsewhere: not the same content.
    make(b"middle-too", 300 * KIB, [(0, content(3, 64 * KIB)),
                                    (128 * KIB, content(4, 108 * KIB))])
    make(b"middle-same", 300 * KIB, [(0, content(3, 64 * KIB)),
                                     (192 * KIB, content(4, 108 * KIB))])
    make(b"all", 1 << 30, [])
    make(b"comb", 64 * 32 * KIB, [(i * 32 * KIB, content(i, 8 * KIB))
                                  for i in range(64)])
    make(b"odd", 100_001, [(50_000, b"odd"), (100_000, b"!")])
    make(b"tail", (10 << 30) + 4, [(10 << 30, b"tail")])
    attempt("a hole of 1 TiB", make, b"huge", 1 << 40,
            [(1 << 39, content(7, 2 * MIB))])
    make(b"prealloc", 512 * KIB, [(0, content(8, 4 * KIB)),
                                  (256 * KIB, content(8, 4 * KIB))],
         [(128 * KIB, 256 * KIB, 0)])
    make(b"prealloc-beyond", 10_000, [(0, content(9, 10_000))],
         [(0, MIB, FALLOC_KEEP_SIZE)])
    make(b"prealloc-only", 0, [], [(0, 256 * KIB, FALLOC_KEEP_SIZE)])
    make(b"prealloc-all", 256 * KIB, [], [(0, 256 * KIB, 0)])


def make_caches():
    c = folder("cache")
    put(at(c, b"CACHEDIR.TAG"),
        b"Signature: 8a477f597d28d172789f06886806bc55\n# a cache\n")
    put(at(c, b"thing"), b"could be made again")
    os.mkdir(at(c, b"sub"))
    put(at(c, b"sub/more"), b"could be made again, too")
    n = folder("no-cache")
    put(at(n, b"CACHEDIR.TAG"), b"Signature: something else\n")
    put(at(n, b"thing"), b"to keep")


def walk_up(fd, ns):
    """Set all times, children first."""
    for name in os.listdir(fd):
        name = os.fsencode(name)
        st = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISDIR(st.st_mode):
            down = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            walk_up(down, ns)
            os.close(down)
        os.utime(name, ns=(ns, ns), dir_fd=fd, follow_symlinks=False)


def make(top):
    os.mkdir(top)
    os.chdir(top)
    for f in (make_names, make_sizes, make_many, make_links, make_special,
              make_modes, make_times, make_xattrs, make_flags, make_sparse,
              make_caches):
        f()
    fd = os.open(".", os.O_RDONLY)
    walk_up(fd, T0)
    make_deep()
    for path, f in reversed(late):
        f(path)
    os.utime(fd, ns=(T0, T0))
    os.close(fd)


def clear(name, fd):
    """Make it removable."""
    attempt_quiet(os.chmod, name, 0o700, dir_fd=fd)
    try:
        f = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW,
                    dir_fd=fd)
    except OSError:
        return
    try:
        now = array.array("L", [0])
        fcntl.ioctl(f, FS_IOC_GETFLAGS, now, True)
        now[0] &= ~(FLAG_IMMUTABLE | FLAG_APPEND)
        fcntl.ioctl(f, FS_IOC_SETFLAGS, now, True)
        os.fchmod(f, 0o700)
    except OSError:
        pass
    os.close(f)


def attempt_quiet(f, *args, **kw):
    try:
        f(*args, **kw)
        return True
    except OSError:
        return False


def remove(top):
    """By moving what is deep to the top: no recursion, two descriptors."""
    if not os.path.lexists(top):
        return
    clear(top, None)
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    count = 0
    while True:
        names = [os.fsencode(n) for n in os.listdir(fd)]
        if not names:
            break
        for name in names:
            st = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if not stat.S_ISLNK(st.st_mode):
                if stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode):
                    clear(name, fd)
            if not stat.S_ISDIR(st.st_mode):
                os.unlink(name, dir_fd=fd)
                continue
            down = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            for inner in os.listdir(down):
                inner = os.fsencode(inner)
                st = os.stat(inner, dir_fd=down, follow_symlinks=False)
                if stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode):
                    clear(inner, down)
                if stat.S_ISDIR(st.st_mode):
                    count += 1
                    os.rename(inner, b".gone-%d" % count, src_dir_fd=down,
                              dst_dir_fd=fd)
                else:
                    os.unlink(inner, dir_fd=down)
            os.close(down)
            os.rmdir(name, dir_fd=fd)
    os.close(fd)
    os.rmdir(top)


def main():
    global small
    args = sys.argv[1:]
    options = [a for a in args if a.startswith("--")]
    paths = [a for a in args if not a.startswith("--")]
    if len(paths) != 1 or not set(options) <= {"--remove", "--small"}:
        sys.exit(__doc__)
    small = "--small" in options
    os.umask(0o022)
    if "--remove" in options:
        remove(paths[0])
    else:
        make(paths[0])


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    main()
