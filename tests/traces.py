"""Trace files with known contents, written through h5py as docs/trace-format.md describes format 2, for tests of what reads them."""
import os

import h5py
import numpy as np

KINDS = ["forward", "backward", "optimizer", "exchange", "wait", "input", "checkpoint", "evaluation", "other", "step"]
TEXT = h5py.string_dtype("utf-8", 64)
RECORD = np.dtype({
    "names": ["t0_ns", "t1_ns", "step", "op", "kind", "link", "role", "peer", "group", "bytes", "seq"],
    "formats": ["<u8", "<u8", "<u8", "<u4", "u1", "u1", "u1", "<i4", "<u4", "<u8", "<u8"],
    "offsets": [0, 8, 16, 24, 28, 29, 30, 32, 36, 40, 48], "itemsize": 56})
GROUP = np.dtype([("id", "<u4"), ("size", "<i4"), ("name", h5py.string_dtype("utf-8", 56))])
ALL, SOURCE, SINK, SWAP, SEND, RECEIVE = range(1, 7)  # roles
WORLD = 77  # a group
INFO = np.dtype([
    *[(n, "<i4") for n in ("attempt", "size", "node", "local_rank")], ("first_record", "<u8"),
    *[(n, "<u8") for n in ("started_ns", "opened_ns", "flushed_ns", "overhead_ns", "spans", "voluntary_switches",
                           "involuntary_switches", "peak_bytes", "dropped", "overwritten", "steps", "samples")],
    ("formula", "<u8", (4,)), ("batch", "<i4"),
    *[(n, "<f8") for n in ("clock_offset_ns", "clock_drift", "clock_bound_ns")], ("clock_readings", "u1"), ("contended", "u1"),
    *[(n, "<u8", (4,)) for n in ("payload", "wire", "messages")], ("level", "u1"), ("closed", "u1"), ("host", TEXT)])
STARTED = 1_764_000_000_000_000_000


def records(rows, names):
    """Records of (t0_ns, t1_ns, step, kind, name, link, bytes, seq, role, peer), the last six optional; `names` grows by the new
    ones."""
    out = np.zeros(len(rows), RECORD)
    for r, (t0, t1, step, kind, *rest) in zip(out, rows):
        name, link, size, seq, role, peer = (*rest, *(KINDS[kind], 255, 0, 0, 0, -1)[len(rest):])
        if name not in names:
            names.append(name)
        r["t0_ns"], r["t1_ns"], r["step"], r["kind"], r["op"] = t0, t1, step, kind, names.index(name)
        r["link"], r["peer"], r["bytes"], r["seq"], r["role"], r["group"] = link, peer, size, seq, role, WORLD if role else 0
    return out


def write(folder, node, ranks, name="made", size=None, attempt=1, config=""):
    """A file of a node: `ranks` is {rank: (rows or records, names or None, members of info)}; its path."""
    os.makedirs(f"{folder}/trace", exist_ok=True)
    path = f"{folder}/trace/attempt-{attempt:04d}-node-{node:05d}.h5"
    size = size or len(ranks)
    with h5py.File(path, "w", libver="earliest") as f:
        for key, value in {"format": "shoal-trace", "run": name, "host": f"n{node}", "started": "2026-01-01T00:00:00Z",
                           "config": config or f"run:\n  name: {name}\n"}.items():
            f.attrs[key] = np.bytes_(value.encode())
        for key, value in {"version": 2, "attempt": attempt, "node": node, "size": size}.items():
            f.attrs[key] = np.int64(value)
        for local, (rank, (rows, names, members)) in enumerate(ranks.items()):
            names = names or list(KINDS)
            rows = rows if isinstance(rows, np.ndarray) else records(rows, names)
            g = f.create_group(f"rank-{rank:05d}")
            g.create_dataset("records", data=rows, maxshape=(None,), chunks=(4096,))
            g.create_dataset("ops", data=np.array([n.encode() for n in names], TEXT), maxshape=(None,), chunks=(16,))
            g.create_dataset("groups", data=np.array([(WORLD, size, b"world")], GROUP), maxshape=(None,), chunks=(16,))
            info = np.zeros(1, INFO)
            placed = rows[rows["t0_ns"] > 0]
            info[0]["flushed_ns"] = rows["t1_ns"].max() if len(rows) else 0
            for key, value in {"attempt": attempt, "size": size, "node": node, "local_rank": local, "started_ns": STARTED,
                               "opened_ns": placed["t0_ns"].min() if len(placed) else 1, "clock_drift": 1.0, "level": 2, "closed": 1,
                               "clock_readings": 2, "clock_bound_ns": 10.0, "host": f"n{node}".encode(), **members}.items():
                info[0][key] = value
            g.create_dataset("info", data=info, maxshape=(None,), chunks=(1,))
    return path
