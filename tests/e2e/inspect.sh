#!/usr/bin/env bash
# cairn inspect: any file, without a datastore.
. "$(dirname "$0")/lib.sh"

cairn init store 2>/dev/null
data a 200000
echo conf >c
ok cairn push --time 2001-01-01T00:00:00Z --chunk-size 64K --note text \
	host/a a.img=a r.raw=a c.conf=c
s=store/host/a/2001-01-01T00:00:00Z
unset CAIRN_CONFIG
export CAIRN_DATASTORE=/nowhere

check 0 cairn inspect $s/a.img.fidx <<'END'
file             store/host/a/2001-01-01T00:00:00Z/a.img.fidx
kind             fixed index
uuid             UUID
created          TIME
size             200000
chunks           4
chunk-size       65536
checksum         DIGEST
END
check 0 cairn inspect $s/r.raw.didx <<'END'
file             store/host/a/2001-01-01T00:00:00Z/r.raw.didx
kind             dynamic index
uuid             UUID
created          TIME
size             200000
chunks           3
checksum         DIGEST
END
check 0 cairn inspect $s/c.conf.blob <<'END'
file             store/host/a/2001-01-01T00:00:00Z/c.conf.blob
kind             plain
file-size        17
size             5
sha256           DIGEST
END
check 0 cairn inspect $s/index.json.blob <<'END'
file             store/host/a/2001-01-01T00:00:00Z/index.json.blob
kind             zstd
file-size        420
size             812
sha256           DIGEST
manifest-of      2001-01-01T00:00:00Z
backup-type      host
backup-id        a
signed           no
files            3
  DIGEST  a.img.fidx  200000 bytes
  DIGEST  r.raw.didx  200000 bytes
  DIGEST  c.conf.blob  17 bytes
END
chunk=$(find store/.chunks -type f -size +60k -size -70k | sort | head -n 1)
check 0 cairn inspect "$chunk" <<'END'
file             store/.chunks/30d4/DIGEST
kind             plain
file-size        65548
size             65536
sha256           DIGEST
END
run cairn inspect --json $s/index.json.blob
json "$out" 'sorted(d), sorted(d["files"][0])' >"$out.1"
mv "$out.1" "$out"
expect 0 <<'END'
(['backup-id', 'backup-type', 'file', 'file-size', 'files', 'kind', 'manifest-of', 'sha256', 'signed', 'size'], ['csum', 'filename', 'size'])
END

# Found by its content, whatever it is called.
cp "$chunk" renamed
check 0 cairn inspect renamed <<'END'
file             renamed
kind             plain
file-size        65548
size             65536
sha256           DIGEST
END
cp "$chunk" "$(printf '%064d' 7)"
check 4 cairn inspect "$(printf '%064d' 7)" <<'END'
file             DIGEST
kind             plain
file-size        65548
size             65536
sha256           DIGEST
damage           the content's digest is not the one in the name
END
cp $s/a.img.fidx x.fidx
ok cairn inspect x.fidx
cp $s/a.img.fidx index-without-suffix
check 0 cairn inspect index-without-suffix <<'END'
file             index-without-suffix
kind             fixed index
uuid             UUID
created          TIME
size             200000
chunks           4
chunk-size       65536
checksum         DIGEST
END
cp $s/a.img.fidx wrong.didx
check 4 cairn inspect wrong.didx <<'END'
file             wrong.didx
kind             fixed index
uuid             UUID
created          TIME
size             200000
chunks           4
chunk-size       65536
checksum         DIGEST
damage           the name is that of another kind
END

# Damage is a result.
cp $s/a.img.fidx cut.fidx
truncate -s 4100 cut.fidx
check 4 cairn inspect cut.fidx <<'END'
file             cut.fidx
damage           'cut.fidx': 4 bytes behind the header, want a multiple of 32
END
cp $s/a.img.fidx lies.fidx
printf X | dd of=lies.fidx bs=1 seek=4100 conv=notrunc status=none
check 4 cairn inspect lies.fidx <<'END'
file             lies.fidx
kind             fixed index
uuid             UUID
created          TIME
size             200000
chunks           4
chunk-size       65536
checksum         DIGEST
damage           'lies.fidx': checksum DIGEST, want DIGEST
END
cp "$chunk" flipped
printf X | dd of=flipped bs=1 seek=100 conv=notrunc status=none
also='s/[0-9a-f]{8}(,|$)/XXXXXXXX\1/g' check 4 cairn inspect flipped <<'END'
file             flipped
damage           plain blob of 65548 bytes has CRC XXXXXXXX, its header says XXXXXXXX
END
cp $s/index.json.blob cut.json.blob
truncate -s 100 cut.json.blob
also='s/[0-9a-f]{8}(,|$)/XXXXXXXX\1/g' check 4 cairn inspect cut.json.blob <<'END'
file             cut.json.blob
damage           zstd blob of 100 bytes has CRC XXXXXXXX, its header says XXXXXXXX
END
: >empty
cp empty empty.blob
check 4 cairn inspect empty.blob <<'END'
file             empty.blob
damage           blob of 0 bytes, want at least 12
END
# What nobody would call a file of a datastore is not damaged.
echo 'root:x:0:0:root:/root:/bin/sh' >passwd
for file in empty passwd; do
	check 2 cairn inspect $file <<END
file             $file
! cairn: '$file' is no index, blob or chunk: neither its first bytes nor its name are those of one
END
done
mkdir -p other
cp $s/c.conf.blob other/index.json.blob
check 4 cairn inspect other/index.json.blob <<'END'
file             other/index.json.blob
kind             plain
file-size        17
size             5
sha256           DIGEST
damage           no JSON: line 1 column 4: invalid token near 'conf'
END
run cairn inspect --json cut.fidx
json "$out" '"damage" in d' >"$out.1"
mv "$out.1" "$out"
expect 4 <<'END'
True
END

# No file.
check 1 cairn inspect none <<'END'
! cairn: 'none': No such file or directory
END
check 2 cairn inspect store <<'END'
! cairn: 'store' is a directory, want a file
END
check 2 cairn inspect /dev/null <<'END'
! cairn: '/dev/null' is no regular file, want a file
END
mkfifo fifo
check 2 cairn inspect fifo <<'END'
! cairn: 'fifo' is no regular file, want a file
END
ln -s "$PWD/$s/a.img.fidx" link.fidx
check 0 cairn inspect link.fidx <<'END'
file             link.fidx
kind             fixed index
uuid             UUID
created          TIME
size             200000
chunks           4
chunk-size       65536
checksum         DIGEST
END
truncate -s 1G huge
check 1 cairn inspect huge <<'END'
file             huge
! cairn: 'huge' has 1073741824 bytes, more than any blob or chunk
END
