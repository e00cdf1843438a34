"""Trace files, read as docs/trace-format.md describes them, of format 2 (a node and attempt each) and 1 (a rank each).

A trace may come from a rank that was killed or from a file that was cut.  Everything up to the first unreadable block is used,
and what is missing is said in words: Index.problems and RankTrace.problem.  Reading a file never changes it.
"""
from __future__ import annotations

import dataclasses
import os
import re
import resource
import select
import shutil
import signal
import struct
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any, Optional

import h5py
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

KINDS = ("forward", "backward", "optimizer", "exchange", "wait", "input", "checkpoint", "evaluation", "other", "step")
FORWARD, BACKWARD, OPTIMIZER, EXCHANGE, WAIT, INPUT, CHECKPOINT, EVALUATION, OTHER, STEP = range(10)
# What time is attributed to: the kinds of spans, with waits for agreement apart; exchanges and steps contain others.
CATEGORIES = ("forward", "backward", "optimizer", "agreement", "wait", "input", "checkpoint", "evaluation", "other")
AGREEMENT = 3  # in the place of exchange
LINKS = ("self", "node", "between", "control")
CONTROL, NO_LINK = 3, 255
BY_STEP = 1  # trace.level: step
NEWEST_FORMAT = 2
SECONDS_TO_READ, READ_PER_SECOND = 10.0, 32e6  # of a file, until it is taken for one without end; bytes
LATEST_NS = 1 << 62  # no clock shows more: such a record was never written
RECORD = np.dtype({
    "names": ["t0_ns", "t1_ns", "step", "op", "kind", "link", "role", "peer", "group", "bytes", "seq"],
    "formats": ["<u8", "<u8", "<u8", "<u4", "u1", "u1", "u1", "<i4", "<u4", "<u8", "<u8"],
    "offsets": [0, 8, 16, 24, 28, 29, 30, 32, 36, 40, 48], "itemsize": 56})
# What older files do not have.
ABSENT: dict[str, Any] = {"peak_bytes": 0, "dropped": 0, "clock_readings": 2, "contended": 0, "overwritten": 0, "steps": 0,
                          "samples": 0, "formula": (0, 0, 0, 0), "batch": 0}


class TraceError(Exception):
    """A file that is no trace, has a newer format, or cannot be read at all.  The text names the file and the reason."""


@dataclasses.dataclass(frozen=True)
class Source:
    """What one file has of one rank in one attempt."""
    path: str
    rank: int
    info: dict[str, Any]   # the row of `info`, docs/trace-format.md
    last_record: int       # -1: all of them; format 1 keeps several attempts in one data set

    @property
    def attempt(self) -> int:
        return int(self.info["attempt"])


@dataclasses.dataclass(frozen=True)
class RankTrace:
    """Records and names of a rank in an attempt."""
    source: Source
    records: Array         # [n] of RECORD, without what was not readable
    ops: list[str]
    problem: str           # "" if all records were readable

    @property
    def rank(self) -> int:
        return self.source.rank

    @property
    def info(self) -> dict[str, Any]:
        return self.source.info

    @property
    def by_step(self) -> bool:
        """True if most kinds were recorded as one sum per step."""
        return int(self.info["level"]) == BY_STEP

    def transfers(self) -> Array:
        """Mask of the exchanges that move data: an agreement under way is none."""
        return np.asarray((self.records["kind"] == EXCHANGE) & (self.records["link"] != CONTROL))

    def sums(self) -> Array:
        """Mask of the records that are sums over their step and so have no position in time."""
        kind = self.records["kind"]
        if not self.by_step:
            return np.zeros(len(kind), bool)
        return ~np.isin(kind, (STEP, INPUT, CHECKPOINT, EVALUATION))

    def time_on_rank0(self, ns: Array, zero_ns: float = 0.0) -> Array:
        """Seconds after `zero_ns` on the clock of rank 0, for times `ns` on the clock of this rank."""
        base = int(self.info["opened_ns"])  # differences first: a double holds nanoseconds of 104 days only
        offset, drift = float(self.info["clock_offset_ns"]), float(self.info["clock_drift"])
        if not int(self.info["clock_readings"]) or not np.isfinite(offset) or not 0.5 < drift < 2:
            offset, drift = 0.0, 1.0
        since_base = ns.astype(np.int64) - base
        return np.asarray((since_base + (base - offset - zero_ns * drift)) / drift * 1e-9)

    def zero(self) -> float:
        """The moment at which this rank opened its trace, in nanoseconds on the clock of rank 0."""
        return float(self.time_on_rank0(np.array([self.info["opened_ns"]], np.uint64))[0] * 1e9)


# ---- opening -----------------------------------------------------------------------------------------------------------

def _end_of_file(path: str) -> int:
    """Size that the file has by its superblock, which of the earliest format is at the begin; 0 if that is not known."""
    with open(path, "rb") as f:
        head = f.read(48)
    if len(head) < 48 or head[:8] != b"\x89HDF\r\n\x1a\n" or head[8] != 0 or head[13] != 8:
        return 0
    return int(struct.unpack_from("<Q", head, 40)[0])


def _open(path: str) -> tuple[Any, str]:
    """The open file, and what is wrong with it.  HDF5 refuses a file that was cut: a copy that is filled up with zeros is read
    instead, where what was cut off is unreadable and everything before it is not."""
    try:
        return h5py.File(path, "r"), ""
    except OSError as e:
        reason = str(e)
    try:
        size, whole = os.path.getsize(path), _end_of_file(path)
        if not 0 < size < whole <= size + (1 << 36):
            raise TraceError(f"{path} cannot be read: {reason}")
        with tempfile.NamedTemporaryFile(suffix=".h5") as copy:
            with open(path, "rb") as f:
                shutil.copyfileobj(f, copy)
            copy.truncate(whole)
            copy.flush()
            return h5py.File(copy.name, "r"), f"{path} was cut at {size} of {whole} bytes"
    except OSError as e:
        raise TraceError(f"{path} cannot be read: {e}") from None


def _member(group: Any, name: str, path: str) -> Any:
    """A group or a data set that lies in this file.  A trace from elsewhere could name another file, or a plug-in."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise TraceError(f"{path} has no {name} of its own")
    member = group[name]
    if isinstance(member, h5py.Dataset):
        filters = member.id.get_create_plist().get_nfilters()
        if member.is_virtual or member.external or filters:
            raise TraceError(f"{name} in {path} is not stored in this file as a trace is")
    return member


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = value.item()
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def attribute(f: Any, name: str) -> str:
    """A text attribute; one longer than 60 000 bytes goes on in NAME.1, NAME.2, …"""
    parts = [f.attrs[name]] if name in f.attrs else []
    while f"{name}.{len(parts)}" in f.attrs and parts:
        parts.append(f.attrs[f"{name}.{len(parts)}"])
    return "".join(map(_text, parts))


# ---- files that HDF5 does not survive ------------------------------------------------------------------------------------

def try_to_read(path: str) -> None:
    """Reads all that a trace file has.  An error is no crash: it is told where the file is read for use."""
    try:
        f, _ = _open(path)
        with f:
            for source in _sources_of(f, path):
                _read(f, source)
            _energy_of(f, path)
    except (OSError, KeyError, RuntimeError, ValueError, IndexError, TypeError, TraceError):
        pass


def _read_in_child(paths: list[str], seconds: float) -> int:
    """Tries files in a child process, one after another, for so long; how many it came back from."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there may be other threads: none is in HDF5
        pid = os.fork()
    if pid == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for path in paths:
                try_to_read(path)
                os.write(writer, b".")
        finally:
            os._exit(0)
    os.close(writer)
    back, deadline = 0, time.monotonic() + seconds
    while select.select([reader], [], [], max(deadline - time.monotonic(), 0))[0] and (said := os.read(reader, 4096)):
        back += len(said)
    os.close(reader)
    os.kill(pid, signal.SIGKILL)  # still a child of ours, whether it has ended or not
    os.waitpid(pid, 0)
    return back


def survivors(paths: list[str]) -> tuple[list[str], list[str]]:
    """HDF5 crashes on some damaged files and loops on others, so a child process reads them first.  The paths that it came back
    from, and a line for each other one."""
    good: list[str] = []
    lines: list[str] = []
    while paths:
        size = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
        back = _read_in_child(paths, SECONDS_TO_READ * len(paths) + size / READ_PER_SECOND)
        good += paths[:back]
        if back < len(paths):
            lines.append(f"{paths[back]} is damaged: HDF5 crashes on it, or does not come to an end")
        paths = paths[back + 1:]
    return good, lines


# ---- which file has which rank -------------------------------------------------------------------------------------------

def _rows(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in table[:]:
        item = {**ABSENT, **{name: row[name] for name in row.dtype.names}}
        item["host"] = _text(item["host"]).split("\0")[0]
        if not (0 <= int(item["attempt"]) and 1 <= int(item["size"]) <= 1 << 20 and int(item["opened_ns"]) <= LATEST_NS):
            raise TraceError("the row of a rank is damaged")
        rows.append(item)
    return rows


def _sources_of(f: Any, path: str) -> Iterator[Source]:
    if _text(f.attrs.get("format", "")) != "shoal-trace":
        raise TraceError(f"{path} is not a Shoal trace")
    version = int(f.attrs.get("version", 0))
    if not 1 <= version <= NEWEST_FORMAT:
        raise TraceError(f"{path} has trace format {version}, this package reads up to {NEWEST_FORMAT}")
    if version == 1:
        rows = _rows(_member(f, "attempts", path))
        for row, after in zip(rows, [*rows[1:], None]):
            yield Source(path, int(f.attrs["rank"]), row, -1 if after is None else int(after["first_record"]))
        return
    for name in sorted(f):
        if re.fullmatch(r"rank-\d{5,}", name):
            row = {**_rows(_member(_member(f, name, path), "info", path))[0], "first_record": 0}
            yield Source(path, int(name[5:]), row, -1)


def _energy_of(f: Any, path: str) -> list[dict[str, Any]]:
    if "energy" not in f:
        return []
    cpus = {name: int(f.attrs.get(name, 0)) for name in ("node_cpus", "job_cpus")}
    return [{"node": int(f.attrs["node"]), "domain": _text(row["domain"]).split("\0")[0], "joules": int(row["uj"]) * 1e-6,
             "seconds": max(int(row["t1_ns"]) - int(row["t0_ns"]), 0) * 1e-9, **cpus}
            for row in _member(f, "energy", path)[:]]


class Index:
    """Which file has which rank of which attempt; no records are read.

    sources   {attempt: {rank: Source}}: of several starts with one number the last, without ranks that it did not have
    size      {attempt: ranks it ran with}
    config    the resolved run file of the last attempt
    run       name of the run
    energy    {attempt: rows of Run.energy}
    problems  what could not be read, a line each
    """

    def __init__(self, paths: list[str]):
        self.sources: dict[int, dict[int, Source]] = {}
        self.size: dict[int, int] = {}
        self.config, self.run = "", ""
        paths, self.problems = survivors(sorted(paths))
        self.energy: dict[int, list[dict[str, Any]]] = {}
        newest: dict[int, int] = {}
        found: list[Source] = []
        for path in paths:
            try:
                f, problem = _open(path)
            except TraceError as e:
                self.problems.append(str(e))
                continue
            if problem:
                self.problems.append(problem)
            with f:
                try:
                    found += _sources_of(f, path)
                    self.energy.setdefault(int(f.attrs.get("attempt", -1)), []).extend(_energy_of(f, path))
                    self.config, self.run = attribute(f, "config"), attribute(f, "run")
                except (OSError, KeyError, RuntimeError, ValueError, IndexError) as e:
                    self.problems.append(f"{path} is damaged: {e}")
                except TraceError as e:
                    text = str(e)
                    self.problems.append(text if path in text else f"{path}: {text}")
        for s in found:
            started = int(s.info["started_ns"])
            if started >= newest.get(s.attempt, -1):
                newest[s.attempt], self.size[s.attempt] = started, int(s.info["size"])
        for s in found:
            ranks = self.sources.setdefault(s.attempt, {})
            if s.rank < self.size[s.attempt] and (s.rank not in ranks
                                                  or int(ranks[s.rank].info["started_ns"]) < int(s.info["started_ns"])):
                ranks[s.rank] = s

    def missing(self, attempt: int) -> list[int]:
        """Ranks of an attempt that no file has."""
        return [r for r in range(self.size.get(attempt, 0)) if r not in self.sources[attempt]]

    def read(self, attempt: int) -> Iterator[RankTrace]:
        """The ranks of an attempt in order, read one after another.  One that is not readable at all has no records."""
        last: tuple[str, Any] = ("", None)
        for rank in sorted(self.sources.get(attempt, {})):
            source = self.sources[attempt][rank]
            if last[0] != source.path:
                if last[1] is not None:
                    last[1].close()
                last = (source.path, _open(source.path)[0])
            yield _read(last[1], source)
        if last[1] is not None:
            last[1].close()

    def last_with_steps(self) -> Optional[int]:
        """The last attempt in which a rank completed a step; else the last one, or None if there is none."""
        for attempt in sorted(self.sources, reverse=True):
            for trace in self.read(attempt):
                if (trace.records["kind"] == STEP).any():
                    return attempt
        return max(self.sources, default=None)


# ---- records -----------------------------------------------------------------------------------------------------------

def _sound(table: Any) -> tuple[Array, int]:
    """Rows up to the first block that cannot be read, and the number of rows that there should be."""
    n = int(table.shape[0])
    block = (table.chunks or (4096,))[0]
    try:
        return table[:], n
    except OSError:
        pass
    parts = []
    for begin in range(0, n, block):
        try:
            parts.append(table[begin:begin + block])
        except OSError:
            break
    return (np.concatenate(parts) if parts else np.zeros(0, RECORD)), n


def _names(table: Any) -> list[str]:
    return [_text(name).rstrip("\0") for name in table[:]]


def _read(f: Any, s: Source) -> RankTrace:
    group = f if "attempts" in f else f[f"rank-{s.rank:05d}"]
    try:
        rows, n = _sound(_member(group, "records", s.path))
        ops = _names(_member(group, "ops", s.path))
    except (OSError, KeyError, RuntimeError, TraceError) as e:
        return RankTrace(s, np.zeros(0, RECORD), list(KINDS), f"rank {s.rank}: nothing is readable in {s.path} ({e})")
    if rows.dtype != RECORD:
        same = np.zeros(len(rows), RECORD)
        for name in set(RECORD.names or ()).intersection(rows.dtype.names or ()):
            same[name] = rows[name]
        rows = same
    first = int(s.info["first_record"])
    end = n if s.last_record < 0 else min(s.last_record, n)
    rows = rows[first:max(first, end)]
    written = (((rows["t0_ns"] | rows["t1_ns"]) != 0) & (rows["t0_ns"] <= LATEST_NS) & (rows["t1_ns"] <= LATEST_NS)
               & (rows["kind"] < len(KINDS)))
    lost = max(0, end - first) - int(written.sum())
    if not written.all():
        rows = rows[written]
    if int(s.info["overwritten"]):  # trace.keep: last; records went round
        rows = rows[np.argsort(rows["t1_ns"], kind="stable")]
    unnamed = rows["op"] >= len(ops)
    if unnamed.any():
        rows["op"][unnamed] = rows["kind"][unnamed]
    if len(ops) < len(KINDS):
        ops = [*ops, *KINDS[len(ops):]]
    problem = f"rank {s.rank}: {lost} of {end - first} records are not readable" if lost else ""
    return RankTrace(s, rows, ops, problem)
