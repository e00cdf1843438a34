"""Traces with known answers: what `trace show` makes of runs that were worked out by hand.

Each run is a list of steps that repeat every `T` ms; its times, in ms from the begin of a step, are in the table beside it, and
the answers follow from them by the definitions of docs/efficiency.md:

    U   compute (forward, backward, optimizer) of a rank in a step       W   its own time: the step without waits
    T   length of the step                                               I   length of the step if data moved in no time

    load balance = mean U / max U    communication = max U / T = max U / max W  x  max W / I  x  I / T
"""
import json
import os
from fractions import Fraction

import h5py
import numpy as np
import pytest

from harness import PLAIN_ENV, program, run
from traces import (ALL, RECEIVE, SEND, SWAP, WORLD, records, write)

FORWARD, BACKWARD, OPTIMIZER, EXCHANGE, WAIT, INPUT, CHECKPOINT, EVALUATION, OTHER, STEP = range(10)
MS = 1_000_000
BEGIN = 1000  # of the first step, ms on rank 0's clock


class Made:
    """The records of some ranks; times in ms on rank 0's clock, from the begin of the step."""

    def __init__(self, ranks, length):
        self.ranks, self.length, self.rows = ranks, length, [[] for _ in range(ranks)]

    def span(self, rank, step, kind, t0, t1, *rest):
        begin = BEGIN + step * self.length
        self.rows[rank].append(((begin + t0) * MS, (begin + t1) * MS, step, kind, *rest))

    def step(self, rank, step, samples=0):
        self.span(rank, step, STEP, 0, self.length, "step", 255, 0, samples)

    def exchange(self, rank, step, name, begin, waits, end, complete=None, role=ALL, peer=-1, link=2):
        """Begun at `begin`, complete at `complete` or `end`, and waited for from `waits` to `end`."""
        if role != RECEIVE:
            self.span(rank, step, EXCHANGE, begin, complete or end, name, link, 1000, step, role, peer)
        self.span(rank, step, WAIT, waits, end, name, link, 0, step, role, peer)

    def save(self, folder, per_node, clocks=None, members=None, attempt=1):
        """Files of nodes with `per_node` ranks each.  `clocks`: by rank, (offset_ns, drift): its clock shows offset + drift * t."""
        for node in range(-(-self.ranks // per_node)):
            ranks = {}
            for rank in range(node * per_node, min(self.ranks, (node + 1) * per_node)):
                offset, drift = (clocks or {}).get(rank, (0, Fraction(1)))
                names, more = ["forward", "backward", "optimizer", "exchange", "wait", "input", "checkpoint", "evaluation", "other",
                               "step"], dict((members or {}).get(rank, {}))
                rows = [(exactly(offset + drift * t0), exactly(offset + drift * t1), *rest) for t0, t1, *rest in self.rows[rank]]
                rows.sort(key=lambda r: r[1])
                more = {"clock_offset_ns": float(offset), "clock_drift": float(drift), "clock_bound_ns": 1000.0 if rank else 0.0, **more}
                ranks[rank] = (records(rows, names), names, more)
            write(folder, node, ranks, size=self.ranks, attempt=attempt)


def exactly(t):
    assert t == int(t), f"{t} is no nanosecond"
    return int(t)


def shown(folder, *args):
    return json.loads(run([program(), "trace", "show", folder, "--json", *map(str, args)], base=PLAIN_ENV).stdout)["run"]


def check(folder, steps, useful, own, length, ideal, *args):
    """The answers, as integers and as the quotients of them.  `useful` and `own`: by rank, ms of a step; `ideal` None: unknown."""
    table = shown(folder, *args)["efficiency"]
    print(json.dumps(table, indent=1))
    mean = sum(useful) / len(useful)
    assert table["runtime_ns"] == steps * length * MS
    assert table["useful_ns"] == steps * sum(useful) * MS
    assert table["useful_most_ns"] == steps * max(useful) * MS
    assert table["parallel"] == pytest.approx(mean / length, rel=1e-12)
    assert table["load_balance"] == pytest.approx(mean / max(useful), rel=1e-12)
    assert table["communication"] == pytest.approx(max(useful) / length, rel=1e-12)
    if ideal is None:
        assert [table[k] for k in ("ideal_ns", "own_most_ns", "useful_share", "serialisation", "transfer")] == [None] * 5
        return table
    assert table["own_most_ns"] == steps * max(own) * MS
    assert table["ideal_ns"] == steps * ideal * MS
    assert table["useful_share"] == pytest.approx(max(useful) / max(own), rel=1e-12)
    assert table["serialisation"] == pytest.approx(max(own) / ideal, rel=1e-12)
    assert table["transfer"] == pytest.approx(ideal / length, rel=1e-12)
    product = table["load_balance"] * table["useful_share"] * table["serialisation"] * table["transfer"]
    assert product == pytest.approx(table["parallel"], rel=1e-12)
    return table


def last(table, name):
    (kind,) = [k for k in table["exchanges"] if k["name"] == name]
    return {x["rank"]: x["number"] for x in kind["last"]}, kind


STEPS = 10


def test_perfect(work):
    """All ranks compute 100 of 100 ms; the sum, begun at 90, is complete when it is waited for."""
    m = Made(4, 100)
    for rank in range(4):
        for step in range(STEPS):
            m.span(rank, step, FORWARD, 0, 30)
            m.span(rank, step, BACKWARD, 30, 90)
            m.exchange(rank, step, 'exchange "bucket 0"', 80, 90, 90, complete=85)
            m.span(rank, step, OPTIMIZER, 90, 100)
            m.step(rank, step, samples=8)
    m.save("r", 2, members={r: {"steps": STEPS, "samples": 8 * STEPS, "batch": 8} for r in range(4)})
    table = check("r", STEPS, [100] * 4, [100] * 4, 100, 100)
    assert last(table, "bucket") == ({}, {"name": "bucket", "number": STEPS, "wait_ns": 0, "ahead_ns": 0, "others": 3 * STEPS,
                                          "undecided": STEPS, "last": []})
    assert "nothing" in table["to_try"]
    both = shown("r")
    assert (both["batch"], both["samples"]) == (32, 32 * STEPS)
    assert both["samples_per_s"] == pytest.approx(320, rel=1e-12), "32 samples in 100 ms"


def slow_rank(steps=STEPS, until=None):
    """Rank 3 computes 100 ms, the others 60; all wait for it.  `until`: rank 3 has no records of that step and later."""
    m = Made(4, 100)
    for rank in range(4):
        for step in range(steps):
            busy = 100 if rank == 3 else 60
            if rank == 3 and until is not None and step >= until:
                m.span(rank, step, FORWARD, 0, 20)
                break
            m.span(rank, step, FORWARD, 0, 20)
            m.span(rank, step, BACKWARD, 20, busy)
            if until is not None and step >= until:
                break  # it waits for ever
            m.exchange(rank, step, 'exchange "bucket 0"', busy, busy, 100)
            m.step(rank, step)
    return m


def test_slow_rank(work):
    slow_rank().save("r", 2)
    table = check("r", STEPS, [60, 60, 60, 100], [60, 60, 60, 100], 100, 100)
    ranks, kind = last(table, "bucket")
    assert ranks == {3: STEPS}
    assert (kind["wait_ns"], kind["ahead_ns"], kind["undecided"]) == (3 * 40 * STEPS * MS, 3 * 40 * STEPS * MS, 0)
    assert "rank 3" in table["to_try"]


def test_clocks(work):
    """The same, with a node whose clock is 3 s ahead and 50 ppm fast: the same numbers to the nanosecond."""
    clock = (3_000_000_000, Fraction(100005, 100000))
    slow_rank().save("r", 2, clocks={2: clock, 3: clock})
    table = check("r", STEPS, [60, 60, 60, 100], [60, 60, 60, 100], 100, 100)
    assert last(table, "bucket")[0] == {3: STEPS}
    # Without the drift it would be told wrong after a while: of 50 ppm, 1 s is 50 us.
    slow_rank().save("wrong", 2, clocks={2: clock, 3: clock}, members={r: {"clock_drift": 1.0} for r in (2, 3)})
    assert shown("wrong")["efficiency"]["runtime_ns"] != STEPS * 100 * MS


def test_one_host(work):
    """Two ranks of a host have one clock: though each compared it within 100 ms only, who came last is known."""
    members = {r: {"clock_bound_ns": 1e8, "clock_offset_ns": 2e6 * (r % 2)} for r in range(4)}
    slow_rank().save("r", 4, members=members)
    table = check("r", STEPS, [60, 60, 60, 100], [60, 60, 60, 100], 100, 100)
    assert last(table, "bucket")[0] == {3: STEPS}
    slow_rank().save("apart", 1, members=members)  # four hosts
    assert last(shown("apart")["efficiency"], "bucket")[1]["undecided"] == STEPS


def test_killed(work):
    """Rank 3 was killed in step 6: only the steps that all have count, so the answers are those of six."""
    killed = {r: {"closed": int(r != 3)} for r in range(4)}
    slow_rank(until=6).save("r", 2, members=killed)
    table = check("r", 6, [60, 60, 60, 100], [60, 60, 60, 100], 100, 100)
    assert last(table, "bucket")[0] == {3: 6}
    assert "rank 3 was killed" in run([program(), "trace", "show", "r"], base=PLAIN_ENV).stdout


def test_killed_writer(work):
    """The second node's ranks were killed with their writer, which had written six steps; the others have all ten."""
    m = slow_rank()
    for rank in (2, 3):
        m.rows[rank] = [r for r in m.rows[rank] if r[2] < 6]
    m.save("r", 2, members={r: {"closed": 0} for r in (2, 3)})
    table = check("r", 6, [60, 60, 60, 100], [60, 60, 60, 100], 100, 100)
    assert last(table, "bucket")[0] == {3: 6}


def test_no_step(work):
    """A rank was killed in its first step: nothing is known of the attempt, which is not an efficiency of 0."""
    m = slow_rank()
    m.rows[3] = [r for r in m.rows[3] if r[2] == 0 and r[3] != STEP]
    m.save("r", 2, members={3: {"closed": 0}})
    table = shown("r")["efficiency"]
    assert {k: v for k, v in table.items() if v is not None} == {"exchanges": []}
    assert "efficiency of" not in run([program(), "trace", "show", "r"], base=PLAIN_ENV).stdout


def test_cut(work):
    """The file of the second node ends in the middle: what the others tell is shown, the rest is not known, and both are said."""
    slow_rank().save("r", 2)
    cut = "r/trace/attempt-0001-node-00001.h5"
    os.truncate(cut, os.path.getsize(cut) // 2)
    table = check("r", STEPS, [60, 60], [60, 60], 100, None)
    r = run([program(), "trace", "show", "r"], base=PLAIN_ENV)
    assert "attempt-0001-node-00001.h5" in r.stderr and "rank 2, 3" in r.stderr, r.stderr
    assert "not known: the traces of some ranks are missing" in r.stdout, r.stdout
    assert table["to_try"]


def test_serial_chain(work):
    """Four ranks compute 25 ms, one after the other: each receives from the one before; then all go on together."""
    m = Made(4, 100)
    for rank in range(4):
        for step in range(STEPS):
            begin, end = 25 * rank, 25 * rank + 25
            if rank > 0:
                m.exchange(rank, step, "activations", 0, 0, begin, role=RECEIVE, peer=rank - 1)
            m.span(rank, step, FORWARD, begin, end)
            if rank < 3:
                m.exchange(rank, step, "activations", end, end, end, role=SEND, peer=rank + 1)
            m.exchange(rank, step, "end", end, end, 100)
            m.step(rank, step)
    m.save("r", 4)
    table = check("r", STEPS, [25] * 4, [25] * 4, 100, 100)
    assert table["serialisation"] == 0.25
    assert last(table, "end")[0] == {3: STEPS}
    assert "in turn" in table["to_try"]


def test_late_sender(work):
    """Rank 0 computes 80 ms and sends; rank 1 needs it after 50 ms and has it at 100: 20 ms are the network's."""
    m = Made(2, 100)
    for step in range(STEPS):
        m.span(0, step, FORWARD, 0, 80)
        m.exchange(0, step, "activations", 80, 80, 100, role=SEND, peer=1)
        m.span(1, step, FORWARD, 0, 50)
        m.exchange(1, step, "activations", 50, 50, 100, role=RECEIVE, peer=0)
        for rank in range(2):
            m.step(rank, step)
    m.save("r", 1)
    table = check("r", STEPS, [80, 50], [80, 50], 100, 80)
    assert table["transfer"] == 0.8
    assert "rank 0" in table["to_try"] or "transfers" in table["to_try"]


def test_hidden(work):
    """An exchange that is complete when it is waited for still orders the ranks in the replay.

        ms       0        20        60        90   100       110    130
        rank 0   compute  |A waits  |compute       |B |compute      |C        B begun at 60, complete at 95
        rank 1   compute                       |B  |B |compute|C waits        B begun at 90
        rank 2   compute  |A waits  |compute       |C waits

    Replayed, A costs nothing, so rank 0 reaches its wait for B at 60; but rank 1 begins B at 90 only.  Then 30 ms more, and C.
    """
    m = Made(3, 130)
    for step in range(STEPS):
        m.span(0, step, FORWARD, 0, 20)
        m.exchange(0, step, "A", 20, 20, 60, role=SWAP, peer=2)
        m.span(0, step, BACKWARD, 60, 100)
        m.exchange(0, step, "B", 60, 100, 100, complete=95, role=SWAP, peer=1)
        m.span(0, step, OPTIMIZER, 100, 130)
        m.exchange(0, step, "C", 130, 130, 130)
        m.span(1, step, FORWARD, 0, 90)
        m.span(1, step, BACKWARD, 90, 100)
        m.exchange(1, step, "B", 90, 100, 100, complete=95, role=SWAP, peer=0)
        m.span(1, step, OPTIMIZER, 100, 110)
        m.exchange(1, step, "C", 110, 110, 130)
        m.span(2, step, FORWARD, 0, 20)
        m.exchange(2, step, "A", 20, 20, 60, role=SWAP, peer=0)
        m.span(2, step, BACKWARD, 60, 100)
        m.exchange(2, step, "C", 100, 100, 130)
        for rank in range(3):
            m.step(rank, step)
    m.save("r", 3)
    table = check("r", STEPS, [90, 110, 60], [90, 110, 60], 130, 120)
    assert last(table, "B")[0] == {1: STEPS}
    assert last(table, "C")[0] == {0: STEPS}
    rank = json.loads(run([program(), "trace", "show", "r", "--json"], base=PLAIN_ENV).stdout)["ranks"][0]
    assert rank["exchange"]["hidden_ns"] == 35 * STEPS * MS, "B, while rank 0 computed"


def test_pauses(work):
    """Input and the method's work are own time; evaluations are left out, whoever is first at their end."""
    m = Made(2, 100)
    for rank in range(2):
        for step in range(STEPS):
            m.span(rank, step, INPUT, 0, 10)
            m.span(rank, step, FORWARD, 10, 70)
            m.exchange(rank, step, "sum", 80, 80, 100)  # 10 ms of the method before it, 20 ms of network
            m.step(rank, step)
    # An evaluation of 300 ms takes the place of steps 4 to 6.  Rank 1 leaves it 2 ms earlier, and waits; what is exchanged in it
    # does not count.
    for rank in range(2):
        m.rows[rank] = [r for r in m.rows[rank] if r[2] not in (4, 5, 6)]
        m.span(rank, 4, EVALUATION, 0, 300 - 2 * rank)
        m.exchange(rank, 4, "scores", 100 + 30 * rank, 100 + 30 * rank, 200)
    m.span(1, 4, WAIT, 298, 300, "room")
    m.save("r", 2)
    table = shown("r")["efficiency"]
    assert table["runtime_ns"] == (700 + 2) * MS, "seven steps, and the 2 ms that rank 1 came earlier"
    assert table["own_most_ns"] == 7 * 80 * MS
    assert table["ideal_ns"] == (7 * 80 + 2) * MS, "rank 0 came 2 ms later"
    assert [k["name"] for k in table["exchanges"]] == ["sum"]
    assert table["useful_most_ns"] == 7 * 60 * MS


def test_many_ranks(work):
    """Of 64 ranks a page shows the extremes and how each column is distributed; --json has all."""
    m = Made(64, 400)
    for rank in range(64):
        for step in range(3):
            m.span(rank, step, FORWARD, 0, 100 + rank)  # rank 63 computes longest
            m.exchange(rank, step, "sum", 100 + rank, 100 + rank, 400)
            m.step(rank, step)
    m.save("r", 16, members={r: {"closed": 0} for r in range(30)})
    text = run([program(), "trace", "show", "r"], base=PLAIN_ENV).stdout
    lines = text.splitlines()
    assert len(lines) < 100, f"{len(lines)} lines"
    assert max(map(len, lines)) <= 180
    first = lines.index(next(line for line in lines if line.startswith("  rank   steps")))
    names = [line[:6].strip() for line in lines[first + 1:first + 14]]
    assert names == ["63", "62", "61", "...", "2", "1", "0", "least", "5 %", "median", "95 %", "most", "all"], names
    share = [float(line.split()[4 if line[:6].strip().isdigit() else -9]) for line in lines[first + 8:first + 13]]
    assert share == [pytest.approx(100 * (100 + r) / 400, abs=0.051) for r in (0, 3, 32, 60, 63)], lines[first + 8]
    assert "and so 14 more ranks" in text
    table = json.loads(run([program(), "trace", "show", "r", "--json"], base=PLAIN_ENV).stdout)
    assert len(table["ranks"]) == 64
    assert last(table["run"]["efficiency"], "sum")[0] == {63: 3}


def test_several_runs(work):
    """Runs beside each other: a column each, with what each is by itself."""
    slow_rank().save("slow", 2)
    pair = Made(2, 50)
    for rank in range(2):
        for step in range(STEPS):
            pair.span(rank, step, FORWARD, 0, 50)
            pair.step(rank, step, samples=4)
    pair.save("a-run-with-a-long-name", 2, members={r: {"steps": STEPS, "samples": 4 * STEPS, "batch": 4} for r in range(2)})
    text = run([program(), "trace", "show", "slow", "a-run-with-a-long-name"], base=PLAIN_ENV).stdout
    columns = {line[:25].strip(): line[30:].split() for line in text.splitlines()}
    assert text.split("\n")[0].split() == ["slow", "~h-a-long-name"], text
    assert columns["ranks"] == ["4", "2"]
    assert columns["parallel efficiency"] == ["70.0", "100.0"], text
    assert columns["load balance"] == ["70.0", "100.0"], text
    assert columns["samples per second"] == ["-", "160.0"], text
    both = json.loads(run([program(), "trace", "show", "slow", "a-run-with-a-long-name", "--json"], base=PLAIN_ENV).stdout)
    assert [r["run"] for r in both["runs"]] == [shown("slow"), shown("a-run-with-a-long-name")]


def test_attempts_apart(work):
    """Attempts with different numbers of ranks are summed on request, never averaged."""
    slow_rank().save("r", 4)
    two = Made(2, 50)
    for rank in range(2):
        for step in range(4):
            two.span(rank, step, FORWARD, 0, 50)
            two.step(rank, step, samples=4)
    two.save("r", 2, attempt=2)
    assert shown("r")["ranks"] == 2 and shown("r")["step_ms"] == 50
    assert shown("r", "--attempt", 1)["ranks"] == 4 and shown("r", "--attempt", 1)["step_ms"] == 100
    both = shown("r", "--attempt", "all")
    assert both["step_ns"] == (4 * STEPS * 100 + 2 * 4 * 50) * MS
    assert [both[k] for k in ("step_ms", "step_median_ms", "step_p95_ms", "samples_per_s")] == [None] * 4
    assert both["exchange"]["exposed_ms_per_step"] is None and both["exchange"]["exposed_ns"] == 3 * 40 * STEPS * MS
    text = run([program(), "trace", "show", "r", "--attempt", "all"], base=PLAIN_ENV).stdout
    assert "different numbers of ranks are not averaged" in text
    (line,) = [line for line in text.splitlines() if line.startswith("   all")][:1]
    assert line.split()[1:5] == ["14", "-", "-", "-"], line


@pytest.mark.parametrize("job,words", ((64, "the job has them to itself"), (8, "this one has 16 of 128 hardware threads"),
                                       (0, "other jobs on them are in it")))
def test_energy(work, job, words):
    """Two nodes with two packages each: the sum of their energy, and what else may be in it."""
    slow_rank().save("r", 2)
    row = np.dtype([("domain", h5py.string_dtype("utf-8", 32)), ("uj", "<u8"), ("t0_ns", "<u8"), ("t1_ns", "<u8")])
    for node in range(2):
        with h5py.File(f"r/trace/attempt-0001-node-{node:05d}.h5", "r+") as f:
            f.create_dataset("energy", data=np.array([(b"package-0", 1_500_000_000, 1, 2), (b"package-1", 500_000_000, 1, 2)], row))
            f.attrs["node_cpus"], f.attrs["job_cpus"] = np.int64(64), np.int64(job)
    assert shown("r")["energy"] == {"joules": 4000, "packages": 4, "nodes": 2, "node_cpus": 128 if job else None,
                                    "job_cpus": 2 * job or None}
    text = run([program(), "trace", "show", "r"], base=PLAIN_ENV).stdout
    assert "energy: 4.0 kJ in 4 processor packages of 2 of 2 nodes" in text and words in text, text


def test_formula(work):
    """Bytes against what the method predicts, by link class."""
    m = slow_rank()
    payload = {"payload": (0, 1000, 3000, 70), "formula": (0, 1000, 2000, 0), "steps": STEPS}
    m.save("r", 2, members={r: payload for r in range(4)})
    text = run([program(), "trace", "show", "r"], base=PLAIN_ENV).stdout
    lines = {line.split()[0]: line for line in text.splitlines() if line[:8].strip() in ("node", "between", "control")}
    assert lines["node"].endswith("equal to payload") and lines["between"].endswith("  7.8 KiB"), text
    assert lines["control"].endswith("  -"), text
    assert [shown("r")["links"][k]["formula"] for k in ("node", "between", "control")] == [4000, 8000, None]
    assert shown("r")["links"]["between"]["payload_per_step"] == 4 * 3000 / STEPS


def test_votes(work):
    """A vote is waited for a step after it was cast, so it delays nobody who is less than a step behind."""
    m = Made(2, 100)
    for rank in range(2):
        for step in range(STEPS):
            m.span(rank, step, FORWARD, 0, 60 + 20 * rank)
            m.span(rank, step, WAIT, 60 + 20 * rank, 80, "sum", 2, 0, step, ALL, -1)
            m.span(rank, step, EXCHANGE, 60 + 20 * rank, 80, "sum", 2, 9, step, ALL, -1)
            m.span(rank, step, STEP, 0, 80, "step")
            m.span(rank, step, EXCHANGE, 0, 100, "agreement", 3, 0, step, ALL, -1)
            m.span(rank, step, WAIT, 80, 100, "agreement", 3, 0, step, ALL, -1)  # 20 ms that no rank explains
    m.save("r", 2)
    table = shown("r")["efficiency"]
    assert table["runtime_ns"] == (STEPS * 100 - 20) * MS
    assert table["ideal_ns"] == STEPS * 80 * MS
    assert last(table, "agreement")[1]["wait_ns"] == 2 * 20 * (STEPS - 1) * MS
    row = json.loads(run([program(), "trace", "show", "r", "--json"], base=PLAIN_ENV).stdout)["ranks"][0]
    assert row["ns"]["agreement"] == 20 * STEPS * MS
    assert row["exchange"]["count"] == STEPS, "agreements are no exchanges of data"
