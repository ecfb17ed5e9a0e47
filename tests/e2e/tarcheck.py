"""tarcheck TAR CATALOG: does the catalog (a plain database) say of each name
what Python's tarfile says, and is its content where it says?  Prints the
number of names."""
import hashlib
import sqlite3
import struct
import sys
import tarfile


def clean(name):
    parts = [p for p in name.split(b"/") if p not in (b"", b".")]
    return b"/".join(parts)


def rows(db):
    """path -> row, of all that is listed."""
    con = sqlite3.connect(db)
    con.row_factory = sqlite3.Row
    children = {}
    for row in con.execute("select * from entry"):
        children.setdefault(row["parent"], []).append(row)
    found = {}
    todo = [(0, b"")]
    while todo:
        parent, path = todo.pop()
        for row in children.get(parent, []):
            name = path + b"/" + row["name"] if path else row["name"]
            found[name] = row
            if row["kind"] == "dir":
                todo.append((row["id"], name))
    return found


def content(stream, row):
    """The bytes of a file, holes as zeros; their digest is checked."""
    holes = []
    if row["holes"]:
        words = struct.unpack("<%dQ" % (len(row["holes"]) // 8), row["holes"])
        holes = list(zip(words[::2], words[1::2]))
    out = bytearray()
    digest = hashlib.sha256()
    pos = row["pos"]
    for start, length in holes + [(row["size"], 0)]:
        data = stream[pos:pos + start - len(out)]
        assert len(data) == start - len(out), "short"
        digest.update(data)
        pos += len(data)
        out += data + bytes(length)
    assert digest.digest() == row["sha256"], "digest"
    return bytes(out)


def kind(member):
    for test, word in ((member.isdir, "dir"), (member.issym, "symlink"),
                       (member.isfifo, "fifo"), (member.ischr, "char"),
                       (member.isblk, "block")):
        if test():
            return word
    return "file"


def check(tar, members, stream, found):
    seen = set()
    for path, member in members.items():
        row = found[path]
        seen.add(path)
        want = member
        while want.islnk():
            want = members[clean(
                want.linkname.encode("utf-8", "surrogateescape"))]
            assert row["link"] is not None, path
        assert row["kind"] == kind(want), (path, row["kind"])
        assert row["mode"] == want.mode & 0o7777, (path, oct(row["mode"]))
        assert (row["uid"], row["gid"]) == (want.uid, want.gid), path
        assert row["mtime_s"] == int(want.mtime // 1), (path, want.mtime)
        if row["kind"] == "symlink":
            assert row["target"] == want.linkname.encode(
                "utf-8", "surrogateescape"), path
        if row["kind"] in ("char", "block"):
            assert row["rdev"] == want.devmajor << 32 | want.devminor, path
        if row["kind"] == "file":
            assert row["size"] == want.size, (path, row["size"])
            got = content(stream, row)
            assert got == tar.extractfile(want).read(), path
    for path in set(found) - seen:
        assert found[path]["mode"] is None, ("more than there is", path)


def main():
    with open(sys.argv[1], "rb") as f:
        stream = f.read()
    found = rows(sys.argv[2])
    with tarfile.open(sys.argv[1], encoding="utf-8",
                      errors="surrogateescape") as tar:
        members = {}
        for member in tar:
            name = member.name.encode("utf-8", "surrogateescape")
            members[clean(name)] = member
        check(tar, members, stream, found)
    print(len(members))


main()
