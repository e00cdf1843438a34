"""Run folders as tables.

    runs = shoal_analysis.load("runs/*")
    runs.runs       a row per run: method, ranks, nodes, speed, accuracy, node-hours
    runs.metrics    metrics.csv;  runs.ranks, runs.steps, runs.bytes, runs.exchanges, runs.spans: from the traces

Tables are tidy: a row is one observation, columns of identity come first (run, attempt, rank, step), and every other column names
its unit at its end (_ns, _s, _bytes …).  They are made when they are first asked for, and kept.  A run in `runs` has the same
tables.  Tables of the traces are of one attempt, by default the last that completed a step; times in seconds are on the clock of
rank 0 and count from the moment in which it opened its trace.
"""
from __future__ import annotations

import dataclasses
import functools
import glob
import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Optional, Union, overload

import numpy as np
import pandas as pd

from . import timing
from .trace import CATEGORIES, CHECKPOINT, EVALUATION, EXCHANGE, KINDS, LINKS, STEP, WAIT, Array, Index, RankTrace

BETWEEN = LINKS.index("between")
COLUMNS = ("epoch", "step", "time_s", "train_loss", "test_loss", "test_acc", "lr", "samples_per_s", "wait_share",  # of all runs,
           "test_rmse", "test_mae", "test_r2", "perplexity", "bits_per_byte")                                     # of some


@dataclasses.dataclass(frozen=True)
class Measure:
    """A column of metrics.csv that runs are judged by, what it is called, and whether more of it is better."""
    column: str
    name: str
    rises: bool = False


# By what a run predicts; the first that it has.
LOSSES = (Measure("test_loss", "test loss"), Measure("train_loss", "training loss"))
MEASURES = {"classes": (Measure("test_acc", "test accuracy", True), *LOSSES), "numbers": (Measure("test_rmse", "test rmse"), *LOSSES),
            "text": (Measure("perplexity", "test perplexity"), *LOSSES)}


class RunError(Exception):
    """There is no run, or none of its files can be read.  The text names the folder and the reason."""


def read_config(text: str) -> dict[str, str]:
    """The resolved run file as {"data.batch": "32"}: two levels of keys, each with a value on its line, texts in quotes where
    they need them.  That is all the YAML that the program writes; values stay text."""
    out: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        found = re.fullmatch(r"(\s*)([\w.-]+):\s*(.*?)\s*", line)
        if not found:
            continue
        indent, key, value = found.groups()
        if value.startswith('"'):
            try:
                value = str(json.loads(value))
            except ValueError:
                pass
        if indent:
            out[f"{section}.{key}"] = value
        elif value:
            out[key] = value
        else:
            section = key
    return out


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def _check_readable(path: str) -> None:
    """Raises RunError for a run of somebody else that we may not read, with its owner, and what he could do."""
    for name in (path, *(os.path.join(path, n) for n in ("run.yaml", "metrics.csv", "status.json", "trace"))):
        wanted = os.R_OK | os.X_OK if os.path.isdir(name) else os.R_OK
        if os.path.exists(name) and not os.access(name, wanted):
            s = os.stat(name)
            raise RunError(f"cannot look into {name}: Permission denied (it belongs to user {s.st_uid}, with mode {s.st_mode & 0o7777:03o}; "
                           f"`chmod -R {'u+rwX' if s.st_uid == os.geteuid() else 'a+rX'} {shlex.quote(path)}`"
                           f"{'' if s.st_uid == os.geteuid() else ' by its owner'} makes it readable)")


def _number(text: str, otherwise: float = float("nan")) -> float:
    try:
        return float(text)
    except ValueError:
        return otherwise


class Run:
    """A run folder.

    name, path, config (see read_config), status (status.json), attempt and attempts (with traces), size and nodes of the attempt,
    global_batch in samples (0: unknown), and `problems`: what could not be read, a line each.
    """

    def __init__(self, path: str, attempt: Optional[int] = None, program: str = "shoal"):
        self.path, self.program = path.rstrip("/") or "/", program
        _check_readable(self.path)
        self._index = Index(glob.glob(f"{glob.escape(self.path)}/trace/*.h5"))
        self.problems = list(self._index.problems)
        self.config = read_config(_read(f"{self.path}/run.yaml") or self._index.config)
        self.name = self.config.get("run.name") or self._index.run or os.path.basename(self.path)
        try:
            status = json.loads(_read(f"{self.path}/status.json") or "{}")
        except ValueError:
            status = {}
        self.status: dict[str, Any] = status if isinstance(status, dict) else {}
        if not self.config and not self._index.sources and not os.path.exists(f"{self.path}/metrics.csv"):
            reason = self.problems[0] if self.problems else "no run.yaml, metrics.csv or trace/"
            raise RunError(f"{self.path} is not the folder of a run: {reason}")
        self.attempts = sorted(self._index.sources)
        if attempt is not None and attempt not in self.attempts:
            raise RunError(f"{self.path} has no trace of attempt {attempt}; it has {', '.join(map(str, self.attempts)) or 'none'}")
        self.attempt = attempt if attempt is not None else self._index.last_with_steps()
        for rank in self._index.missing(self.attempt) if self.attempt is not None else []:
            self.problems.append(f"rank {rank}: no trace of attempt {self.attempt}")
        if self.attempt is None and not self.problems:
            off = self.config.get("trace.level") == "off"
            self.problems.append(f"there is no trace, so nothing is known of where time and bytes went: "
                                 f"{'trace.level is off' if off else 'the folder trace/ is missing or empty'}")
        if not os.path.exists(f"{self.path}/metrics.csv"):
            self.problems.append("there is no metrics.csv, so nothing is known of losses and results")

    def __repr__(self) -> str:
        return f"<Run {self.name}: {self.method} on {self.size} ranks, {self.path}>"

    @property
    def method(self) -> str:
        return self.config.get("method.name", "?")

    @property
    def model(self) -> str:
        """The model's name, with its widths where it has some."""
        widths = self.config.get("model.widths", "")
        return self.config.get("model.name", "?") + (f" {widths}" if widths.strip("[]") else "")

    @property
    def data(self) -> str:
        """The data set's name, without its folder."""
        return os.path.basename(self.config.get("data.file", "?"))

    @functools.cached_property
    def _log(self) -> str:
        return _read(f"{self.path}/log.txt")

    @functools.cached_property
    def targets(self) -> list[str]:
        """Names of the numbers that are predicted, as the log says what losses are of; the first few, if there are many."""
        one = re.search(r"losses are of .* they are mean (?:squared|absolute) errors of (.*)", self._log)
        several = re.search(r"losses are mean .* errors over \d+ targets, .*?; deviations: (.*)", self._log)
        return [one[1]] if one else re.findall(r"[\d.e+-]+ of (.*?)(?=, [\d.e+-]+ of |, \.\.\.|$)", several[1]) if several else []

    @property
    def kind(self) -> str:
        """What is predicted: "numbers", "text" or "classes"."""
        told = self.metrics.notna().any()
        return "numbers" if self.targets or told["test_rmse"] else "text" if told["perplexity"] else "classes"

    @property
    def task(self) -> tuple[Hashable, ...]:
        """What a run was to learn: runs that differ in it have results that cannot be compared."""
        samples = re.search(r"(\d+ training and \d+ test samples)", self._log)
        return self.data, samples[1] if samples else "", self.kind, tuple(self.targets)

    def options(self, of: str = "", without: tuple[str, ...] = ()) -> tuple[tuple[str, str], ...]:
        """Keys and values of the run file that begin with `of`, and with none of `without`."""
        return tuple((k, v) for k, v in sorted(self.config.items()) if k.startswith(of) and not k.startswith(without))

    @functools.cached_property
    def _placement(self) -> dict[str, Any]:
        try:
            found = json.loads(_read(f"{self.path}/placement.json") or "{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def size(self) -> int:
        """Ranks of the attempt."""
        if self.attempt is not None:
            return self._index.size[self.attempt]
        return int(self._placement.get("size", 0))

    @functools.cached_property
    def nodes(self) -> int:
        """Nodes of the attempt."""
        placed = int(self._placement.get("nodes", 0)) if self._placement.get("size") == self.size else 0
        return placed or self._nodes_of(self.attempt) or 1

    def _nodes_of(self, attempt: Optional[int]) -> int:
        return len({int(s.info["node"]) for s in self._index.sources.get(attempt if attempt is not None else -1, {}).values()})

    @functools.cached_property
    def global_batch(self) -> int:
        """Samples per step of all ranks: the log says them, because methods differ in what a batch is."""
        said = re.findall(r"; global batch (\d+)", self._log)
        if said:
            return int(said[-1])
        whole = int(_number(self.config.get("data.global_batch", "0"), 0))
        return whole or int(_number(self.config.get("data.batch", "0"), 0)) * self.size

    @functools.cached_property
    def show(self) -> dict[str, Any]:
        """`shoal trace show --json` of the attempt: efficiencies and what else is computed in one place.  Empty if the program is
        missing or refuses the traces; `problems` says why."""
        if self.attempt is None:
            return {}
        try:
            r = subprocess.run([self.program, "trace", "show", self.path, "--json", "--attempt", str(self.attempt)],
                               capture_output=True, text=True, errors="replace", check=False)
        except OSError as e:
            self.problems.append(f"efficiencies are left out: {self.program} cannot be started ({e.strerror})")
            return {}
        try:
            found = json.loads(r.stdout) if r.returncode == 0 else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            said = (r.stderr.strip().splitlines() or [f"exit code {r.returncode}"])[-1]
            self.problems.append(f"efficiencies are left out: trace show: {said}")
            return {}
        return found

    # ---- tables ----

    @functools.cached_property
    def metrics(self) -> Any:
        """DataFrame of metrics.csv: COLUMNS, NaN where a run has none, and what the method adds; a row per epoch and evaluation."""
        try:
            table = pd.read_csv(f"{self.path}/metrics.csv", on_bad_lines="skip", encoding_errors="replace")
        except (OSError, ValueError) as e:
            if os.path.exists(f"{self.path}/metrics.csv"):
                self.problems.append(f"{self.path}/metrics.csv: {e}")
            table = pd.DataFrame()
        for column in COLUMNS:
            table[column] = pd.to_numeric(table[column], errors="coerce") if column in table else np.nan
        table.insert(0, "run", self.name)
        return table

    def traces(self) -> Iterator[RankTrace]:
        """The ranks of the attempt in order, with their records, read one after another."""
        return self._index.read(self.attempt) if self.attempt is not None else iter(())

    @functools.cached_property
    def zero_ns(self) -> float:
        """The moment 0 of all times in seconds, in nanoseconds on the clock of rank 0."""
        sources = self._index.sources.get(self.attempt if self.attempt is not None else -1, {})
        if not sources:
            return 0.0
        return RankTrace(sources[min(sources)], np.zeros(0), [], "").zero()

    @property
    def goes_on(self) -> bool:
        """Whether the attempt is the run's last, and was heard of within two minutes, as `shoal status` decides it of other hosts."""
        try:
            age = time.time() - os.path.getmtime(f"{self.path}/status.json")
        except OSError:
            return False
        return self.status.get("state") in ("running", "stopping") and self.status.get("attempt") == self.attempt and age < 120

    def _note_open(self, rank: int) -> None:
        line = f"rank {rank}: its trace was not closed; the rank was killed, or the run goes on"
        if self.goes_on:
            line = f"the run goes on ({self.status['state']}): what is here is as far as its traces were written"
        if line not in self.problems:
            self.problems.append(line)

    @functools.cached_property
    def _collected(self) -> dict[str, Any]:
        """What one pass over the records gives."""
        ranks, steps, sent, pace, idle = [], [], [], [], {}
        for trace in self.traces():
            if trace.problem:
                self.problems.append(trace.problem)
            s, info = timing.split(trace), trace.info
            closed = bool(info["closed"])
            if not closed:
                self._note_open(trace.rank)
            if int(info["dropped"]):
                self.problems.append(f"rank {trace.rank}: {int(info['dropped'])} records were dropped while recording")
            ranks.append({"rank": trace.rank, "node": int(info["node"]), "local_rank": int(info["local_rank"]), "host": info["host"],
                          "steps": int(info["steps"]) or len(s.steps["step"]), "level": "step" if trace.by_step else "op",
                          "records": len(trace.records), "closed": closed, **s.whole,
                          **{k: int(info[k]) for k in ("peak_bytes", "dropped", "overhead_ns", "voluntary_switches",
                                                       "involuntary_switches", "contended", "clock_readings")},
                          **{k: float(info[k]) for k in ("clock_offset_ns", "clock_drift", "clock_bound_ns")}})
            table = pd.DataFrame({"rank": trace.rank, **s.steps})
            table.insert(2, "begin_s", trace.time_on_rank0(s.steps["begin_ns"], self.zero_ns))
            steps.append(table.drop(columns="begin_ns"))
            idle[trace.rank] = self._waits(trace, s)
            pace.append(_pace(trace))
            sent.append(_sent_by_step(trace))
        return {"ranks": pd.DataFrame(ranks), "steps": _concat(steps), "sent": _concat(sent), "pace": pace, "idle": idle}

    def _waits(self, trace: RankTrace, s: timing.Split) -> tuple[Array, Array, Array]:
        """Begin and end in seconds of the time in which a rank waited, and the share of it that it did: 1, or with trace.level:
        step that of the step."""
        if trace.by_step:
            begin, length = s.steps["begin_ns"], s.steps["step_ns"]
            share = (s.steps["wait_ns"] + s.steps["agreement_ns"]) / np.maximum(length, 1)
            end = begin + length
        else:
            mine = np.isin(s.pieces.category, (CATEGORIES.index("wait"), CATEGORIES.index("agreement")))
            begin, end = s.pieces.begin[mine], s.pieces.end[mine]
            share = np.ones(len(begin))
        return trace.time_on_rank0(begin, self.zero_ns), trace.time_on_rank0(end, self.zero_ns), share

    def _labelled(self, table: Any) -> Any:
        table = table.copy()
        table.insert(0, "run", self.name)
        table.insert(1, "attempt", self.attempt if self.attempt is not None else -1)
        return table

    @functools.cached_property
    def ranks(self) -> Any:
        """DataFrame with a row per rank: node, host, steps, time by category from the first span to the last (forward_ns …
        other_ns add up to wall_ns), transfer_ns, hidden_ns, beside_ns, memory, context switches, clock."""
        return self._labelled(self._collected["ranks"])

    @functools.cached_property
    def steps(self) -> Any:
        """DataFrame with a row per rank and step: begin_s, time by category, which add up to step_ns, and transfer_ns, hidden_ns,
        beside_ns, which are 0 with trace.level: step."""
        return self._labelled(self._collected["steps"])

    @functools.cached_property
    def bytes(self) -> Any:
        """DataFrame with a row per rank and link class: payload_bytes, wire_bytes, messages, from the counters of the attempt,
        and formula_bytes, the payload that the method's formula predicts (0: not known, in older files)."""
        rows = [{"rank": rank, "link": link, "payload_bytes": int(s.info["payload"][i]), "wire_bytes": int(s.info["wire"][i]),
                 "messages": int(s.info["messages"][i]), "formula_bytes": int(s.info["formula"][i])}
                for rank, s in sorted(self._index.sources.get(self.attempt if self.attempt is not None else -1, {}).items())
                for i, link in enumerate(LINKS)]
        return self._labelled(_typed(rows, {"rank": int, "link": str, "payload_bytes": int, "wire_bytes": int, "messages": int,
                                            "formula_bytes": int}))

    @functools.cached_property
    def energy(self) -> Any:
        """DataFrame with a row per node and processor package, where its counter could be read: joules, seconds, and of the node's
        hardware threads (node_cpus) those that the job had (job_cpus; 0: not known).  The counter has all jobs of the node."""
        rows = self._index.energy.get(self.attempt if self.attempt is not None else -1, [])
        return self._labelled(_typed(rows, {"node": int, "domain": str, "joules": float, "seconds": float, "node_cpus": int, "job_cpus": int}))

    @functools.cached_property
    def sent(self) -> Any:
        """DataFrame with a row per step: payload_bytes that all ranks sent in exchanges that completed in it, and between_bytes,
        the part that went between nodes.  An exchange of several levels is recorded once, so that part is the step's share of the
        counter."""
        table = self._collected["sent"]
        if not len(table):
            table = pd.DataFrame({"step": np.zeros(0, np.int64), "payload_bytes": np.zeros(0), "between_bytes": np.zeros(0)})
        return self._labelled(table.groupby("step", as_index=False)[["payload_bytes", "between_bytes"]].sum())

    @functools.cached_property
    def spans(self) -> Any:
        """DataFrame with a row per record: rank, step, kind, name, link, peer, bytes, seq, t0_s, t1_s, duration_ns, and `sum`,
        true for a record that is the sum of its step and has no position.  56 bytes of the file become about 80 here."""
        return self._labelled(_concat([self._spans_of(t, np.ones(len(t.records), bool)) for t in self.traces()]))

    @functools.cached_property
    def exchanges(self) -> Any:
        """DataFrame with a row per exchange and rank, like spans, with wait_ns: how long the rank was blocked at its end."""
        parts = []
        for trace in self.traces():
            r = trace.records
            part = self._spans_of(trace, r["kind"] == EXCHANGE).drop(columns=["kind"])
            ends = pd.DataFrame({"t1": r["t1_ns"], "op": r["op"], "kind": r["kind"],
                                 "ns": np.maximum(r["t1_ns"], r["t0_ns"]).astype(np.int64) - r["t0_ns"].astype(np.int64)})
            waits = ends[ends["kind"] == WAIT].groupby(["t1", "op"], as_index=False)["ns"].sum()
            names = np.array(trace.ops, object)
            waits["name"] = names[waits["op"].to_numpy()]
            mine = ends[ends["kind"] == EXCHANGE].assign(name=lambda t, names=names: names[t["op"].to_numpy()])
            found = mine[["t1", "name"]].merge(waits[["t1", "name", "ns"]].drop_duplicates(["t1", "name"]), how="left",
                                               on=["t1", "name"])
            part["wait_ns"] = found["ns"].fillna(0).astype(np.int64).to_numpy() if not trace.by_step else -1
            parts.append(part)
        return self._labelled(_concat(parts))

    def _spans_of(self, trace: RankTrace, mask: Array) -> Any:
        r = trace.records[mask]
        t0, t1 = (trace.time_on_rank0(r[name], self.zero_ns) for name in ("t0_ns", "t1_ns"))
        link = np.where(r["link"] < len(LINKS), r["link"], len(LINKS))
        return pd.DataFrame({
            "rank": trace.rank, "step": r["step"].astype(np.int64),
            "kind": pd.Categorical.from_codes(r["kind"].astype(np.int8), list(KINDS)),
            "name": pd.Series(np.array(trace.ops, object)[r["op"]], dtype="category") if len(r) else pd.Series([], dtype="category"),
            "link": pd.Categorical.from_codes(link.astype(np.int8), [*LINKS, "none"]),
            "peer": r["peer"], "bytes": r["bytes"].astype(np.int64), "seq": r["seq"].astype(np.int64), "t0_s": t0, "t1_s": t1,
            "duration_ns": np.maximum(r["t1_ns"], r["t0_ns"]).astype(np.int64) - r["t0_ns"].astype(np.int64),
            "sum": trace.sums()[mask]})

    # ---- numbers ----

    def wait_share(self, bins: int) -> tuple[Array, Array]:
        """How much each rank waited (for exchanges and agreements) in each of `bins` equal parts of the attempt: (edges in
        seconds [bins + 1], shares [ranks, bins] in the order of `ranks`)."""
        idle = self._collected["idle"]
        steps = self._collected["steps"]
        if not len(steps):
            return np.zeros(bins + 1), np.zeros((0, bins))
        first = float(steps["begin_s"].min())
        last = float((steps["begin_s"] + steps["step_ns"] * 1e-9).max())
        edges = np.linspace(first, max(last, first + 1e-9), bins + 1)
        rows = []
        for rank in sorted(idle):
            begin, end, share = idle[rank]
            before = np.concatenate([[0], np.cumsum((end - begin) * share)])
            times = np.empty(2 * len(begin))
            times[0::2], times[1::2] = begin, end
            amount = np.empty(2 * len(begin))
            amount[0::2], amount[1::2] = before[:-1], before[1:]
            covered = np.interp(edges, times, amount) if len(times) else np.zeros(len(edges))
            rows.append(np.diff(covered) / np.diff(edges))
        return edges, np.clip(np.array(rows), 0, 1)

    @functools.cached_property
    def step_s(self) -> float:
        """Median over steps of the mean over ranks of a step's duration, in seconds; NaN without a trace."""
        steps = self._collected["steps"]
        return float(steps.groupby("step")["step_ns"].mean().median() * 1e-9) if len(steps) else float("nan")

    @functools.cached_property
    def samples_per_s(self) -> float:
        """Samples per second of all ranks, from the end of the first step to that of the last, without evaluations and checkpoints;
        what else happens between steps counts.  Without a trace, and of older traces, from metrics.csv."""
        pace = sum(self._collected["pace"])
        if pace > 0:
            return float(pace)
        epochs, speed = self.metrics["epoch"].diff().fillna(self.metrics["epoch"]), self.metrics["samples_per_s"]
        told = (speed > 0) & (epochs > 0)
        return float(epochs[told].sum() / (epochs[told] / speed[told]).sum()) if told.any() else float("nan")

    @functools.cached_property
    def node_hours(self) -> float:
        """Nodes times hours, over all attempts: from opening a trace to its last update.  Without traces the trained time."""
        total = 0.0
        for attempt, sources in self._index.sources.items():
            spent = max(int(s.info["flushed_ns"]) - int(s.info["opened_ns"]) for s in sources.values())
            total += self._nodes_of(attempt) * max(spent, 0) / 3.6e12
        return total or self.nodes * float(self.metrics["time_s"].max()) / 3600

    def time_to(self, target: float, measure: Measure) -> Optional[Any]:
        """The first row of `metrics` that reaches a target: at least, if the measure rises, else at most.  None if none does."""
        values = self.metrics[measure.column]
        reached = self.metrics[values >= target if measure.rises else values <= target]
        return reached.iloc[0] if len(reached) else None

    @property
    def steps_done(self) -> float:
        """Steps that the run completed, those after the last row of `metrics` too; NaN if that is not known."""
        told = [x for x in (self.metrics["step"].max(), _number(str(self.status.get("step")))) if x == x]
        return max(told, default=float("nan"))

    @property
    def epochs_done(self) -> float:
        """The same in epochs, by the steps per epoch of the last row."""
        rows = self.metrics[self.metrics["step"] > 0]
        return float(rows["epoch"].iloc[-1] * self.steps_done / rows["step"].iloc[-1]) if len(rows) else float("nan")

    def summary(self) -> dict[str, Any]:
        """The row of this run in Runs.runs."""
        ranks, metrics = self._collected["ranks"], self.metrics
        wall = float(ranks["wall_ns"].sum()) if len(ranks) else 0.0
        waited = float(ranks["wait_ns"].sum() + ranks["agreement_ns"].sum()) if len(ranks) else 0.0
        last_test = metrics["test_acc"].dropna()
        return {
            "run": self.name, "path": self.path, "method": self.method, "model": self.model, "data": self.data,
            "seed": self.config.get("run.seed", "?"),
            "ranks": self.size, "nodes": self.nodes, "global_batch": self.global_batch, "attempts": len(self.attempts),
            "attempt": self.attempt, "state": str(self.status.get("state", "?")), "steps": metrics["step"].max(),
            "epochs": metrics["epoch"].max(), "time_s": metrics["time_s"].max(), "step_s": self.step_s,
            "samples_per_s": self.samples_per_s, "wait_share": waited / wall if wall else float("nan"),
            **{c: last_of(metrics[c]) for c in ("train_loss", "test_loss", "test_acc", "test_rmse", "test_mae", "test_r2", "perplexity",
                                                "bits_per_byte")}, "best_test_acc": last_test.max() if len(last_test) else float("nan"),
            "node_hours": self.node_hours}


def last_of(values: Any) -> float:
    """The last value that is one, of a column; NaN if there is none."""
    values = values.dropna()
    return float(values.iloc[-1]) if len(values) else float("nan")


def alike(runs: Iterable[Run], key: Callable[[Run], Hashable]) -> list[list[Run]]:
    """The runs in groups of one key, in the order in which each is first seen."""
    groups: dict[Hashable, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())


def differing(options: Sequence[Iterable[tuple[str, str]]]) -> list[str]:
    """Keys whose values are not the same in all of them."""
    maps = [dict(o) for o in options]
    return [k for k in sorted({k for m in maps for k in m}) if len({m.get(k) for m in maps}) > 1]


def told_apart(titles: Sequence[str], options: Sequence[Iterable[tuple[str, str]]]) -> list[str]:
    """The titles, those that are equal with the options in which they differ: "sync" twice as "sync, method.bucket 4" and 8."""
    maps, out = [dict(o) for o in options], []
    for title, mine in zip(titles, maps):
        keys = differing([list(m.items()) for t, m in zip(titles, maps) if t == title])
        out.append(", ".join([title, *(f"{k} {mine.get(k, 'unset')}" for k in keys)]))
    return out


def _typed(rows: list[Any], types: dict[str, type]) -> Any:
    """A DataFrame whose columns have these types also without rows."""
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def _concat(parts: list[Any]) -> Any:
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _sent_by_step(trace: RankTrace) -> Any:
    x = trace.records[trace.transfers()]
    step, sent = x["step"].astype(np.int64), x["bytes"].astype(float)
    outside = np.where(x["link"] == BETWEEN, sent, 0.0)
    counted = float(trace.info["payload"][BETWEEN])
    outside *= counted / outside.sum() if outside.sum() else 0.0
    numbers, at = np.unique(step, return_inverse=True)
    return pd.DataFrame({"step": numbers, "payload_bytes": np.bincount(at, weights=sent, minlength=len(numbers)),
                         "between_bytes": np.bincount(at, weights=outside, minlength=len(numbers))})


def _pace(trace: RankTrace) -> float:
    """Samples of this rank per second, see Run.samples_per_s; 0 if there are too few steps, and in older files."""
    r = trace.records
    steps = r[r["kind"] == STEP]
    if len(steps) < 2:
        return 0.0
    first = steps[np.argmin(steps["t0_ns"])]
    begin, end = first["t1_ns"], steps["t1_ns"].max()
    pauses = r[np.isin(r["kind"], (CHECKPOINT, EVALUATION)) & (r["t0_ns"] >= begin) & (r["t1_ns"] <= end)]
    spent = int(end - begin) - int((pauses["t1_ns"] - pauses["t0_ns"]).sum())
    return (int(steps["seq"].sum()) - int(first["seq"])) * 1e9 / spent if spent > 0 else 0.0


class Runs(Sequence[Run]):
    """Several runs, in the order of their names; the tables of all of them, one below the other."""

    def __init__(self, runs: Iterable[Run]):
        self._runs = list(runs)

    @overload
    def __getitem__(self, at: Union[int, str]) -> Run: ...
    @overload
    def __getitem__(self, at: slice) -> Runs: ...

    def __getitem__(self, at: Union[int, str, slice]) -> Union[Run, Runs]:
        if isinstance(at, slice):
            return Runs(self._runs[at])
        if isinstance(at, str):
            for run in self._runs:
                if run.name == at:
                    return run
            raise KeyError(at)
        return self._runs[at]

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<Runs {', '.join(r.name for r in self._runs)}>"

    def _all(self, table: str) -> Any:
        return _concat([getattr(run, table) for run in self._runs])

    @functools.cached_property
    def runs(self) -> Any:
        """A row per run: method, model, ranks, nodes, speed, losses, accuracy, node-hours."""
        return pd.DataFrame([run.summary() for run in self._runs])

    metrics = property(lambda self: self._all("metrics"), doc="See Run.metrics.")
    ranks = property(lambda self: self._all("ranks"), doc="See Run.ranks.")
    steps = property(lambda self: self._all("steps"), doc="See Run.steps.")
    bytes = property(lambda self: self._all("bytes"), doc="See Run.bytes.")
    sent = property(lambda self: self._all("sent"), doc="See Run.sent.")
    energy = property(lambda self: self._all("energy"), doc="See Run.energy.")
    exchanges = property(lambda self: self._all("exchanges"), doc="See Run.exchanges.")
    spans = property(lambda self: self._all("spans"), doc="See Run.spans.")

    @property
    def problems(self) -> dict[str, list[str]]:
        """What could not be read: {run: lines}."""
        return {run.name: run.problems for run in self._runs if run.problems}


def _below(path: str, attempt: Optional[int], program: str) -> list[Run]:
    """The run that a path is the folder of, or those in it, of which a study has some."""
    try:
        return [Run(path, attempt, program)]
    except RunError as e:
        reason = e
    found = []
    for inner in sorted(glob.glob(f"{glob.escape(path)}/*/")):
        try:
            found.append(Run(inner, attempt, program))
        except RunError as e:
            if attempt is not None and "attempt" in str(e):
                raise
    if not found:
        raise reason
    return found


def load(*patterns: str, attempt: Optional[int] = None, program: str = "shoal") -> Runs:
    """Run folders, by their paths, folders of runs, or patterns of paths (`runs/*`), as tables.

    attempt  of which the traces are shown; None: the last that completed a step
    program  the `shoal` whose `trace show --json` computes efficiencies
    Raises RunError if there is no run.  Of several paths those that are no run folders are passed over, unless nothing is there.
    """
    runs: list[Run] = []
    refused: list[RunError] = []
    for pattern in patterns:
        paths = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
        if not paths:
            meant = f"; did you mean runs/{pattern}?" if os.path.isdir(os.path.join("runs", pattern)) else ""
            raise RunError(f"{pattern}: there is no run folder of this name{meant}")
        for path in paths:
            try:
                runs += _below(path, attempt, program)
            except RunError as e:
                if len(paths) == len(patterns) == 1 or "attempt" in str(e):
                    raise
                refused.append(e)
    if not runs:
        raise refused[0]
    names = [run.name for run in runs]
    for run in runs:  # two folders with one name are told apart by their paths
        if names.count(run.name) > 1:
            run.name = run.path
    return Runs(runs)
