#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""treerows: does a catalog say what is in a directory?

    treerows.py DIR CATALOG CONTENT

CATALOG is the database that `cairn cat SNAPSHOT NAME.tree.catalog` writes,
CONTENT the stream of NAME.tree.  DIR must not have changed since it was
pushed, and nothing of it may have been left out.  Written from the description
of the format; prints what differs, and exits with 1 if anything does.
"""

import array
import errno
import fcntl
import grp
import hashlib
import os
import pwd
import sqlite3
import stat
import struct
import sys

FS_IOC_GETFLAGS = 0x80086601
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink",
         stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFCHR: "char",
         stat.S_IFBLK: "block"}
ALLOCATED = 1 << 63

bad = 0


def complain(path, what, is_, want):
    global bad
    bad += 1
    if bad <= 50:
        print(f"{path!r}: {what}: {is_!r}, want {want!r}")


class Catalog:
    def __init__(self, path, content):
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.db.row_factory = sqlite3.Row
        self.content = open(content, "rb")
        self.attrs = dict(self.db.execute("select id, data from attr"))
        self.runs = list(self.db.execute(
            "select pos, length, start from run order by pos"))
        self.children = {}
        for row in self.db.execute("select * from entry"):
            self.children.setdefault(row["parent"], {})[row["name"]] = row
        self.ids = set()

    def data(self, pos, n):
        out = b""
        while n > 0:
            for run in self.runs:
                if run["pos"] <= pos < run["pos"] + run["length"]:
                    m = min(n, run["pos"] + run["length"] - pos)
                    self.content.seek(run["start"] + pos - run["pos"])
                    out += self.content.read(m)
                    pos += m
                    n -= m
                    break
            else:
                raise ValueError(f"position {pos} is in no run")
        return out


def expect(row, path, column, want):
    if row[column] != want:
        complain(path, column, row[column], want)


def xattrs(path):
    out = b""
    for name in sorted(os.fsencode(n) for n in
                       os.listxattr(path, follow_symlinks=False)):
        value = os.getxattr(path, name, follow_symlinks=False)
        out += struct.pack("<HI", len(name), len(value)) + name + value
    return out


def flags(fd):
    now = array.array("L", [0])
    try:
        fcntl.ioctl(fd, FS_IOC_GETFLAGS, now, True)
    except OSError as e:
        if e.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL):
            return None
        raise
    return now[0] & 0xffffffff


def holes(blob):
    out = []
    for start, length in struct.iter_unpack("<QQ", blob or b""):
        out.append((start, length & ~ALLOCATED, bool(length & ALLOCATED)))
    return out


def data_ranges(fd, size):
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as e:
            if e.errno == errno.ENXIO:
                return
            raise
        at = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        yield start, at


def check_file(catalog, row, path, fd, st):
    expect(row, path, "size", st.st_size)
    want_data, want_holes, at = b"", [], 0
    for start, end in data_ranges(fd, st.st_size):
        if start > at:
            want_holes.append((at, start - at))
        want_data += os.pread(fd, end - start, start)
        at = end
    if at < st.st_size:
        want_holes.append((at, st.st_size - at))
    got_holes, end = [], None
    for start, length, _ in holes(row["holes"]):
        if end is not None and start < end:
            complain(path, "holes", "overlap", "order")
        if start < st.st_size:
            if end == start and got_holes:
                got_holes[-1] = (got_holes[-1][0], got_holes[-1][1] + length)
            else:
                got_holes.append((start, length))
        end = start + length
    if got_holes != want_holes:
        complain(path, "holes", got_holes, want_holes)
    if row["holes"] == b"":
        complain(path, "holes", b"", None)
    expect(row, path, "sha256", hashlib.sha256(want_data).digest())
    if want_data and catalog.data(row["pos"], len(want_data)) != want_data:
        complain(path, "content", "other bytes", "its own")


def check_times(row, path, st):
    for column, ns in (("mtime", st.st_mtime_ns), ("ctime", st.st_ctime_ns)):
        expect(row, path, column + "_s", ns // 10**9)
        expect(row, path, column + "_ns", ns % 10**9)


def check_entry(catalog, row, path, shown, st):
    kind = KINDS[stat.S_IFMT(st.st_mode)]
    expect(row, shown, "kind", kind)
    expect(row, shown, "mode", stat.S_IMODE(st.st_mode))
    expect(row, shown, "uid", st.st_uid)
    expect(row, shown, "gid", st.st_gid)
    expect(row, shown, "ino", st.st_ino)
    expect(row, shown, "nlink", None if kind == "dir" else st.st_nlink)
    expect(row, shown, "state", None)
    expect(row, shown, "mount", 1)
    check_times(row, shown, st)
    device = kind in ("char", "block")
    expect(row, shown, "rdev", os.major(st.st_rdev) << 32 |
           os.minor(st.st_rdev) if device else None)
    expect(row, shown, "target",
           os.fsencode(os.readlink(path)) if kind == "symlink" else None)
    want = xattrs(path)
    got = catalog.attrs[row["attr"]] if row["attr"] is not None else b""
    if got != want:
        complain(shown, "attr", got, want)
    if kind != "file":
        for column in ("size", "pos", "sha256", "holes"):
            expect(row, shown, column, None)
    if kind not in ("file", "dir"):
        expect(row, shown, "flags", None)
        return
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NOATIME)
    now = flags(fd)
    if now is None:
        expect(row, shown, "flags", None)
    elif row["flags"] is None or row["flags"] & ~now or \
            (now & 0xf0) != (row["flags"] & 0xf0):
        complain(shown, "flags", row["flags"], now)
    if kind == "file":
        check_file(catalog, row, shown, fd, st)
    os.close(fd)


def check_links(groups):
    for (dev, ino), rows in groups.items():
        links = {r["link"] for _, r in rows}
        first = min(r["id"] for _, r in rows)
        shown = rows[0][0]
        if len(links) != 1:
            complain(shown, "link", links, "one group")
        if rows[0][1]["nlink"] == 1:
            expect(rows[0][1], shown, "link", None)
        elif not links <= {r["id"] for _, r in rows}:
            complain(shown, "link", links, f"of the group, as {first}")


def check_accounts(catalog, ids):
    def name(kind, i):
        try:
            return os.fsencode(pwd.getpwuid(i).pw_name if kind == "user"
                               else grp.getgrgid(i).gr_name)
        except (KeyError, OverflowError):
            return None

    got = {(k, i): n for k, i, n in
           catalog.db.execute("select kind, id, name from account")}
    for kind, i in ids:
        if (kind, i) not in got or got[kind, i] != name(kind, i):
            complain(f"{kind} {i}", "account", got.get((kind, i), "none"),
                     name(kind, i))


def walk(catalog, top):
    """Depth first, one level of the real tree at a time, by descriptors."""
    groups, accounts, count = {}, set(), 0
    root = catalog.children[0][b""]
    todo = [(root, b"", os.open(top, os.O_RDONLY))]
    if root["id"] != 1:
        complain(b"", "id", root["id"], 1)
    check_entry(catalog, root, top, b"", os.stat(top))
    while todo:
        row, shown, fd = todo.pop()
        here = f"/proc/self/fd/{fd}"
        names = sorted(os.fsencode(n) for n in os.listdir(fd))
        rows = catalog.children.get(row["id"], {})
        if names != sorted(rows):
            complain(shown, "names", sorted(rows), names)
        last, below = None, []
        for name in names:
            one = rows.get(name)
            if one is None:
                continue
            if one["id"] in catalog.ids or \
                    (last is not None and one["id"] != last + 1):
                complain(name, "id", one["id"], "the next one")
            last = one["id"]
            catalog.ids.add(last)
            path = os.path.join(os.fsencode(here), name)
            st = os.lstat(path)
            sub = shown + b"/" + name if len(shown) < 200 else name
            check_entry(catalog, one, path, sub, st)
            count += 1
            accounts |= {("user", st.st_uid), ("group", st.st_gid)}
            if stat.S_ISDIR(st.st_mode):
                below.append((one, sub, os.open(path, os.O_RDONLY |
                                                os.O_NOFOLLOW)))
            else:
                groups.setdefault((st.st_dev, st.st_ino), []).append(
                    (sub, one))
        todo += reversed(below)
        os.close(fd)
    total = catalog.db.execute("select count(*) from entry").fetchone()[0]
    if total != count + 1:
        complain(b"", "entries", total, count + 1)
    check_links(groups)
    check_accounts(catalog, accounts)
    return count


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    top, database, content = sys.argv[1:]
    catalog = Catalog(database, content)
    count = walk(catalog, os.fsencode(top))
    if bad:
        print(f"{bad} differences")
        sys.exit(1)
    print(f"{count + 1} entries are as they should be")


if __name__ == "__main__":
    main()
