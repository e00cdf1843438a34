"""The spans of a run, packed for the timeline of a page (timeline.js, which describes the format)."""
from __future__ import annotations

import base64
import json
import zlib
from typing import Any, Optional

import numpy as np

from .figures import COLOURS, KIND_COLOURS, KIND_ORDER, kind_name
from .page import text
from .runs import Run
from .trace import EXCHANGE, KINDS, LINKS, OTHER, STEP, Array, RankTrace

UNIT_S = 1e-7


def _planes(values: Array, width: int) -> bytes:
    """The bytes of unsigned numbers, all lowest ones first."""
    return np.ascontiguousarray(values.astype("<u8").view("u1").reshape(len(values), 8)[:, :width].T).tobytes()


def window(run: Run, most: int, wanted: Optional[tuple[int, int]] = None) -> Optional[tuple[float, float, str]]:
    """Which part of a run a page has: begin and end in seconds, and a sentence if it is not everything.  The steps `wanted`, else
    as many as `most` records allow, after the first ones, which have one-time costs."""
    steps = run.steps
    if not len(steps):
        return None
    begin = steps.groupby("step")["begin_s"].min()
    end = (steps["begin_s"] + steps["step_ns"] * 1e-9).groupby(steps["step"]).max()
    total = int(run.ranks["records"].sum())
    count = len(begin)
    if wanted is not None:
        inside = begin[(begin.index >= wanted[0]) & (begin.index <= wanted[1])]
        if not len(inside):
            return None
        first, last = int(inside.index[0]), int(inside.index[-1])
    elif total <= most:
        return float("-inf"), float("inf"), ""
    else:
        at = min(count // 20, max(count - 1, 0))
        first = int(begin.index[at])
        last = int(begin.index[min(count - 1, at + max(1, int(count * most / total)) - 1)])
    a, b = float(begin[first]), float(end[last])
    return a, b, (f"The page has steps {first} to {last} of {int(begin.index[0])} to {int(begin.index[-1])}; --steps A:B chooses others.")


def _spans(trace: RankTrace, run: Run, a: float, b: float) -> tuple[Array, Array, Array]:
    """Begin and end in seconds, and the records, of the spans in a window, ordered for drawing.  Sums of a step (trace.level: step)
    are laid one behind the other from the begin of their step, waits last."""
    kept = trace.transfers() | (trace.records["kind"] != EXCHANGE)
    if trace.by_step:
        kept &= ~(trace.sums() & np.isin(trace.records["kind"], (EXCHANGE, OTHER)))
    r = trace.records[kept]
    t0, t1 = (trace.time_on_rank0(r[name], run.zero_ns) for name in ("t0_ns", "t1_ns"))
    t1 = np.maximum(t0, t1)
    if trace.by_step:
        summed = ~np.isin(r["kind"], (STEP, 5, 6, 7))
        at_step = {int(s): i for i, s in enumerate(r["step"]) if r["kind"][i] == STEP}
        used: dict[int, float] = {int(s): float(t1[i]) for i, s in enumerate(r["step"]) if r["kind"][i] == 5}
        for i in np.flatnonzero(summed):
            s = int(r["step"][i])
            if s not in at_step or r["link"][i] == 3:
                t1[i] = t0[i] = -np.inf
                continue
            begin = max(used.get(s, 0.0), float(t0[at_step[s]]))
            t0[i], t1[i] = begin, min(begin + float(t1[i] - t0[i]), float(t1[at_step[s]]))
            used[s] = float(t1[i])
    kept = (t1 > a) & (t0 < b)
    r, t0, t1 = r[kept], t0[kept], t1[kept]
    order = np.lexsort((r["kind"] != STEP, -t1, t0))
    return t0[order], t1[order], r[order]


def pack(run: Run, a: float, b: float) -> Optional[dict[str, Any]]:
    """The data of timeline.js."""
    ranks, counts, steps, parts = [], [], [], []
    entries: dict[tuple[int, str, int, int, int], int] = {}
    first = np.inf
    for trace in run.traces():
        t0, t1, r = _spans(trace, run, a, b)
        if not len(r):
            continue
        key = np.stack([r["kind"].astype(np.int64), r["op"].astype(np.int64), r["link"].astype(np.int64), r["peer"].astype(np.int64),
                        r["bytes"].astype(np.int64)])
        code = key[0]
        for k in (1, 2, 3, 4):  # one number per combination, without sorting rows
            values, at = np.unique(key[k], return_inverse=True)
            code = code * len(values) + at
        _, which, entry = np.unique(code, return_index=True, return_inverse=True)
        names = [(int(r["kind"][i]), trace.ops[int(r["op"][i])], int(r["link"][i]), int(r["peer"][i]), int(r["bytes"][i])) for i in which]
        index = np.array([entries.setdefault(name, len(entries)) for name in names])
        numbers = r["step"][r["kind"] == STEP].astype(np.int64)
        plain = len(numbers) > 0 and bool((np.diff(numbers) == 1).all())
        steps.append(int(numbers[0]) if plain else numbers.tolist())
        ranks.append(trace.rank)
        counts.append(len(r))
        first = min(first, float(t0[0]))
        parts.append((t0, t1, index[entry]))
    if not parts:
        return None
    unit = max(UNIT_S, (max(float(t1.max()) for _, t1, _ in parts) - first) / 4e9)
    gaps, lengths = [], []
    for t0, t1, _ in parts:
        begin = np.rint((t0 - first) / unit).astype(np.int64)
        gaps.append(np.diff(begin, prepend=0))
        lengths.append(np.rint((t1 - first) / unit).astype(np.int64) - begin)
    width = 2 if len(entries) <= 1 << 16 else 4
    data = (_planes(np.concatenate(gaps), 4) + _planes(np.concatenate(lengths), 4)
            + _planes(np.concatenate([e for _, _, e in parts]), width))
    return {"name": run.name, "lane": 10 if len(ranks) > 64 else 16 if len(ranks) > 16 else 26, "ranks": ranks, "counts": counts, "steps": steps, "begin_s": first, "unit_s": unit, "entry_width": width,
            "entries": [list(e) for e in entries], "kinds": list(KINDS), "links": list(LINKS), "colours": KIND_COLOURS,
            "light": {name: light for name, (light, _) in COLOURS.items()},
            "data": base64.b64encode(zlib.compress(data, 6)).decode()}


def legend() -> str:
    """What the colours mean."""
    items = [(KIND_COLOURS[c], kind_name(c)) for c in KIND_ORDER] + [("muted", "thin: exchange in flight")]
    return '<div class="legend">' + "".join(f'<span><i style="background:var(--{c})"></i>{text(n)}</span>' for c, n in items) + "</div>"


def section(run: Run, most: int, wanted: Optional[tuple[int, int]]) -> str:
    """The timeline of a run as HTML; empty without a trace."""
    part = window(run, most, wanted)
    packed = pack(run, part[0], part[1]) if part else None
    if part is None or packed is None:
        return ""
    by_step = bool((run.ranks["level"] == "step").any())
    note = " Recorded per step (trace.level: step): the order within a step is not known." if by_step else ""
    hint = "Point at a span, or touch it, to read it. Drag to move; Ctrl and wheel, two fingers or a double click to zoom; arrows, + and −."
    data = json.dumps(packed, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    buttons = "".join(f'<button class="{c}" aria-label="{label}" title="{label}">{sign}</button>' for c, label, sign in (
        ("left", "earlier", "←"), ("right", "later", "→"), ("in", "zoom in", "+"), ("out", "zoom out", "−"), ("all", "everything", "all"),
        ("save", "spans of this window as CSV", "CSV")))
    return (f'<div class="timeline"><h3>Timeline</h3><p class="note">Inner spans cover outer ones; what is narrower than a pixel is shown '
            f'as its share of the column. Times in seconds since rank 0 opened its trace, on its clock. {text(part[2])}{text(note)}</p>'
            f'<div class="bar"><label>steps <input class="from" type="number" inputmode="numeric" aria-label="first step"></label>'
            f'<label>to <input class="to" type="number" inputmode="numeric" aria-label="last step"></label>{buttons}</div>{legend()}'
            f'<div class="view"><canvas class="spans" style="height:{packed["lane"] * len(packed["ranks"]) + 2}px" tabindex="0" role="img" aria-label="Timeline of the spans of all ranks"></canvas></div>'
            f'<div><canvas class="axis" style="height:30px"></canvas></div><p class="readout" aria-live="polite" data-hint="{hint}">'
            f'<noscript>The timeline needs JavaScript; all other figures do not.</noscript></p>'
            f'<script type="application/json">{data}</script></div>')


