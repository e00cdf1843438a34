"""Where the time of a rank went: every moment belongs to one category, that of the innermost span that covers it.

This is the breakdown of `shoal trace show`, in numpy instead of C, so that a notebook has it per rank and step; the tests
compare both, nanosecond by nanosecond.

    STEP      |------------------------------------|
    BACKWARD       |---------------|                       the begin and end of every span cut the time into pieces;
    WAIT                 |----|                            the span that is innermost after a cut has the piece
    pieces    |other|backw|wait|back|    other     | other between steps

The innermost span after a begin is the span that begins, after an end it is the parent of the one that ends.  A parent is found
by depth: depth = number of spans open at the begin, and the parent is the last span before that is one less deep.
"""
from __future__ import annotations

import dataclasses

import numpy as np

from .trace import (AGREEMENT, BACKWARD, CATEGORIES, CONTROL, EVALUATION, EXCHANGE, FORWARD, OPTIMIZER, OTHER, STEP, WAIT, Array,
                    RankTrace)

COMPUTE = (FORWARD, BACKWARD, OPTIMIZER, EVALUATION)  # what hides a transfer
LATEST = np.iinfo(np.int64).max


@dataclasses.dataclass(frozen=True)
class Pieces:
    """Disjoint pieces of time in order, on the clock of the rank: [begin[i], end[i]) belongs to category[i], and to the step
    number step[i] of the rank, or −1 between steps."""
    begin: Array
    end: Array
    category: Array
    step: Array


@dataclasses.dataclass(frozen=True)
class Split:
    """steps     {column: [n]} in order of time: step, begin_ns, a column per category, step_ns, transfer_ns, hidden_ns, beside_ns
    whole     {column: ns}, the same from the first span to the last, time between steps included, and wall_ns
    pieces    of the spans with a position in time"""
    steps: dict[str, Array]
    whole: dict[str, int]
    pieces: Pieces


def _columns() -> list[str]:
    return [f"{c}_ns" for c in CATEGORIES]


def _spans(records: Array) -> tuple[Array, Array, Array]:
    """Begin, end and category of the spans, ordered by begin, enclosing ones first."""
    t0 = records["t0_ns"].astype(np.int64)
    t1 = np.maximum(t0, records["t1_ns"].astype(np.int64))
    category = records["kind"].astype(np.int64)
    category[(records["kind"] == WAIT) & (records["link"] == CONTROL)] = AGREEMENT
    order = np.lexsort((category != STEP, -t1, t0))
    return t0[order], t1[order], category[order]


def _pieces(t0: Array, t1: Array, category: Array, begin: int, end: int) -> tuple[Array, Array, Array]:
    """The pieces of [begin, end).  Spans of no length have none."""
    real = t1 > t0
    t0, t1, category = t0[real], t1[real], category[real]
    n = len(t0)
    index = np.arange(n)
    depth = index - np.searchsorted(np.sort(t1), t0, side="right")
    parent = np.full(n, -1)
    for d in range(1, int(depth.max(initial=0)) + 1):
        here, above = index[depth == d], index[depth == d - 1]
        if len(above):
            at = np.searchsorted(above, here) - 1
            parent[here] = np.where(at >= 0, above[at], -1)
    # What is innermost after each event; of events at one time the ends come first, inner ones before outer ones.
    time = np.concatenate([t1, t0])
    top = np.concatenate([parent, index])
    order = np.lexsort((np.concatenate([-depth - 1, depth]), time))
    time, top = time[order], top[order]
    if not n or time[0] > begin:
        time, top = np.concatenate([[begin], time]), np.concatenate([[-1], top])
    until = np.append(time[1:], end)
    kept = until > time
    of = top[kept]
    return time[kept], until[kept], np.where(of >= 0, category[of] if n else OTHER, OTHER)


def _covered(intervals: tuple[Array, Array], t: Array) -> Array:
    """Nanoseconds before each time t that disjoint ordered intervals cover."""
    begin, end = intervals
    if not len(begin):
        return np.zeros(len(t), np.int64)
    before = np.concatenate([[0], np.cumsum(end - begin)])
    at = np.searchsorted(begin, t, side="right") - 1
    last = np.maximum(at, 0)
    return np.where(at >= 0, before[last] + np.minimum(t, end[last]) - begin[last], 0)


def _union(t0: Array, t1: Array) -> tuple[Array, Array]:
    """Disjoint ordered intervals that cover the same time."""
    order = np.argsort(t0, kind="stable")
    t0, t1 = t0[order], t1[order]
    reach = np.maximum.accumulate(t1) if len(t1) else t1
    first = np.ones(len(t0), bool)
    first[1:] = t0[1:] > reach[:-1]
    return t0[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(t0) - 1)] if len(t0) else t1


def _add_sums(trace: RankTrace, steps: dict[str, Array], whole: dict[str, int]) -> None:
    """Level step: sums of a step have no position.  They take from `other` of their step as far as there is any; agreements are
    between steps."""
    r = trace.records[trace.sums()]
    r = r[(r["kind"] != OTHER) & (r["kind"] != EXCHANGE)]
    ns = np.maximum(r["t1_ns"], r["t0_ns"]).astype(np.int64) - r["t0_ns"].astype(np.int64)
    agreement = (r["kind"] == WAIT) & (r["link"] == CONTROL)
    numbers = steps["step"]
    at = np.searchsorted(numbers, r["step"].astype(np.int64))
    found = (at < len(numbers)) & ~agreement
    found[found] = numbers[at[found]] == r["step"].astype(np.int64)[found]
    taken = np.zeros(len(numbers), np.int64)
    for kind in np.unique(r["kind"]):
        here = r["kind"] == kind
        name = f"{CATEGORIES[int(kind)]}_ns"
        per_step = np.bincount(at[found & here], weights=ns[found & here], minlength=len(numbers)).astype(np.int64)
        steps[name] += per_step
        taken += per_step
        whole[name] += int(ns[here & ~agreement].sum())
    whole[f"{CATEGORIES[AGREEMENT]}_ns"] += int(ns[agreement].sum())
    taken = np.minimum(taken, steps["other_ns"])
    steps["other_ns"] -= taken
    loose = int(ns[~found].sum())
    whole["other_ns"] -= int(taken.sum()) + min(loose, whole["other_ns"] - int(taken.sum()))


def split(trace: RankTrace) -> Split:
    """Breaks down the time of a rank in an attempt.  With trace.level: step the transfers are unknown, and 0 here."""
    transfer = trace.transfers()
    records = trace.records[~trace.sums() & (transfer | (trace.records["kind"] != EXCHANGE))]
    exchange = records["kind"] == EXCHANGE
    t0, t1, category = _spans(records[~exchange])
    x = records[exchange]
    x0 = x["t0_ns"].astype(np.int64)
    transfers = _union(x0, np.maximum(x0, x["t1_ns"].astype(np.int64)))
    is_step = category == STEP
    s0, s1 = t0[is_step], t1[is_step]
    stepping = records[records["kind"] == STEP]
    numbers = stepping["step"].astype(np.int64)[np.lexsort((-stepping["t1_ns"].astype(np.int64), stepping["t0_ns"]))]
    begin = int(min(t0.min(initial=LATEST), transfers[0].min(initial=LATEST))) if len(records) else 0
    end = int(max(t1.max(initial=0), transfers[1].max(initial=0)))
    ends = np.maximum.accumulate(s1) if len(s1) else s1
    b, e, c = _pieces(t0, t1, category, begin, end)
    c = np.where(c == STEP, OTHER, c)
    at = np.searchsorted(s0, b, side="right") - 1
    inside = at >= 0
    inside[inside] = b[inside] < ends[at[inside]]
    ns, moved = e - b, _covered(transfers, e) - _covered(transfers, b)
    hidden = np.where(np.isin(c, COMPUTE), moved, 0)
    beside = np.where(np.isin(c, (*COMPUTE, WAIT)), 0, moved)

    n, kinds = len(s0), len(CATEGORIES)
    table = np.bincount(at[inside] * kinds + c[inside], weights=ns[inside], minlength=n * kinds).astype(np.int64).reshape(n, kinds)
    steps: dict[str, Array] = {"step": numbers, "begin_ns": s0, **{name: table[:, i].copy() for i, name in enumerate(_columns())},
                               "step_ns": s1 - s0}
    total = np.bincount(c, weights=ns, minlength=kinds)
    whole = {name: int(total[i]) for i, name in enumerate(_columns())}
    for name, amount in (("transfer_ns", moved), ("hidden_ns", hidden), ("beside_ns", beside)):
        steps[name] = np.bincount(at[inside], weights=amount[inside], minlength=n).astype(np.int64)
        whole[name] = int(amount.sum())
    if trace.by_step:
        _add_sums(trace, steps, whole)
    whole.update(wall_ns=end - begin, step_ns=int((s1 - s0).sum()))
    return Split(steps, whole, Pieces(b, e, c, np.where(inside, numbers[np.maximum(at, 0)] if n else -1, -1)))


def share_in_bins(pieces: Pieces, categories: tuple[int, ...], edges_ns: Array) -> Array:
    """Share of each bin between edges that pieces of some categories cover; [len(edges) − 1]."""
    chosen = np.isin(pieces.category, categories)
    covered = _covered((pieces.begin[chosen], pieces.end[chosen]), edges_ns.astype(np.int64))
    return np.asarray(np.diff(covered) / np.maximum(np.diff(edges_ns), 1))
