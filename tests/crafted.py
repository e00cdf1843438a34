"""Malicious files: changed through h5py, with all checksums recomputed."""
import os
import struct

import h5py
import numpy as np

SEAL = struct.Struct("<8sQQIIII")
TYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
         "uint64": "u64"}


def _table():
    out = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
        out.append(i)
    return out


TABLE = _table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def data_sets(group, prefix=""):
    """Names and data sets below a group, each by all its names; visititems shows an array with two names once."""
    for name, d in group.items():
        if isinstance(d, h5py.Dataset):
            yield prefix + name, d
        elif isinstance(d, h5py.Group):
            yield from data_sets(d, f"{prefix}{name}/")


SAVE = "0123456789abcdef" * 2  # the number of a save


def index(path):
    """The index of a checkpoint of one file, from its data sets, whose attributes crc32c are set."""
    lines = [f"save\t{SAVE}\t0\t0\n"]
    with h5py.File(path, "r+") as f:
        for name, d in data_sets(f):
            crc = crc32c(np.ascontiguousarray(d[()]).tobytes())
            d.attrs["crc32c"] = np.int64(crc)
            shape = "x".join(map(str, d.shape)) or "scalar"
            lines.append(f"{name}\t{TYPES[d.dtype.name]}\t{shape}\t{crc:08x}\t{d.id.get_offset() or 0}\t0\n")
    return "".join(lines).encode()


def unseal(path):
    """Takes the seal and the index off a checkpoint; what is left is its HDF5 part."""
    with open(path, "r+b") as f:
        f.seek(-SEAL.size, os.SEEK_END)
        f.truncate(SEAL.unpack(f.read())[1])


def seal(path, lines=None, version=2):
    """Seals an HDF5 file as src/ckpt/seal.c does; version 1 has no line of the save and no shards in its index."""
    lines = index(path) if lines is None else lines
    with open(path, "r+b") as f:
        body = f.read()
        head = SEAL.pack(b"SHOALEND", len(body), len(lines), crc32c(body), crc32c(lines), version, 0)
        f.write(lines + head[:-4] + struct.pack("<I", crc32c(head[:-4])))


def change(path, edit):
    """edit(h5py file) on a checkpoint, sealed again."""
    unseal(path)
    with h5py.File(path, "r+") as f:
        edit(f)
    seal(path)


def parts(path):
    """The HDF5 part of a file of a checkpoint, its index, and its version."""
    with open(path, "rb") as f:
        data = f.read()
    _, length, index_length, _, _, version, _ = SEAL.unpack(data[-SEAL.size:])
    return bytearray(data[:length]), data[length:length + index_length], version


def put_together(path, body, lines, version):
    """Writes a file of a checkpoint of its parts, and returns how a main file lists it: bytes and checksum of the seal."""
    with open(path, "wb") as f:
        f.write(body)
    seal(path, lines, version)
    with open(path, "rb") as f:
        data = f.read()
    return len(data), struct.unpack("<I", data[-4:])[0]


def change_bytes(path, edit):
    """edit(bytearray) on the HDF5 part of a checkpoint, sealed again with the index that it has."""
    body, lines, version = parts(path)
    edit(body)
    put_together(path, body, lines, version)


def metadata(path):
    """Offsets of the bytes of a checkpoint's HDF5 part that belong to no array."""
    with open(path, "rb") as f:
        data = f.read()
    length, index_length = SEAL.unpack(data[-SEAL.size:])[1:3]
    free, width = bytearray(b"\1" * length), {short: np.dtype(long).itemsize for long, short in TYPES.items()}
    for line in data[length:length + index_length].decode().splitlines()[1:]:
        _, kind, shape, _, offset, _ = line.split("\t")
        n = width[kind] * int(np.prod([int(d) for d in shape.split("x")] if shape != "scalar" else 1))
        free[int(offset):int(offset) + n] = bytes(n)
    return [i for i in range(length) if free[i]]


def set_array(f, name, values):
    """Replaces a data set by a contiguous one of the same type."""
    dtype = f[name].dtype
    del f[name]
    f.create_dataset(name, data=np.array(values, dtype))
    f[name].attrs["crc32c"] = np.int64(0)
