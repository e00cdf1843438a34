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


def index(path):
    """The index of a checkpoint, from its data sets, whose attributes crc32c are set."""
    lines = []

    def visit(name, d):
        if not isinstance(d, h5py.Dataset):
            return
        crc = crc32c(np.ascontiguousarray(d[()]).tobytes())
        d.attrs["crc32c"] = np.int64(crc)
        shape = "x".join(map(str, d.shape)) or "scalar"
        lines.append(f"{name}\t{TYPES[d.dtype.name]}\t{shape}\t{crc:08x}\t{d.id.get_offset() or 0}\n")
    with h5py.File(path, "r+") as f:
        f.visititems(visit)
    return "".join(lines).encode()


def unseal(path):
    """Takes the seal and the index off a checkpoint; what is left is its HDF5 part."""
    with open(path, "r+b") as f:
        f.seek(-SEAL.size, os.SEEK_END)
        f.truncate(SEAL.unpack(f.read())[1])


def seal(path, lines=None):
    """Seals an HDF5 file as src/ckpt/seal.c does."""
    lines = index(path) if lines is None else lines
    with open(path, "r+b") as f:
        body = f.read()
        head = SEAL.pack(b"SHOALEND", len(body), len(lines), crc32c(body), crc32c(lines), 1, 0)
        f.write(lines + head[:-4] + struct.pack("<I", crc32c(head[:-4])))


def change(path, edit):
    """edit(h5py file) on a checkpoint, sealed again."""
    unseal(path)
    with h5py.File(path, "r+") as f:
        edit(f)
    seal(path)


def change_bytes(path, edit):
    """edit(bytearray) on the HDF5 part of a checkpoint, sealed again with the index that it has."""
    with open(path, "rb") as f:
        data = f.read()
    length, index_length = SEAL.unpack(data[-SEAL.size:])[1:3]
    body = bytearray(data[:length])
    edit(body)
    with open(path, "wb") as f:
        f.write(body)
    seal(path, data[length:length + index_length])


def metadata(path):
    """Offsets of the bytes of a checkpoint's HDF5 part that belong to no array."""
    with open(path, "rb") as f:
        data = f.read()
    length, index_length = SEAL.unpack(data[-SEAL.size:])[1:3]
    free, width = bytearray(b"\1" * length), {short: np.dtype(long).itemsize for long, short in TYPES.items()}
    for line in data[length:length + index_length].decode().splitlines():
        _, kind, shape, _, offset = line.split("\t")
        n = width[kind] * int(np.prod([int(d) for d in shape.split("x")] if shape != "scalar" else 1))
        free[int(offset):int(offset) + n] = bytes(n)
    return [i for i in range(length) if free[i]]


def set_array(f, name, values):
    """Replaces a data set by a contiguous one of the same type."""
    dtype = f[name].dtype
    del f[name]
    f.create_dataset(name, data=np.array(values, dtype))
    f[name].attrs["crc32c"] = np.int64(0)
