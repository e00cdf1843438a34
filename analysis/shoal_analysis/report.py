"""The page of `shoal report`: one HTML file that needs nothing else, from the runs of shoal_analysis.load.

Sections: summary, what was not readable, training, comparison of methods, scaling, cost, and for every run where its time and its
bytes went.  A section without data is left out, or says what it lacks.  Efficiencies come from `shoal trace show --json`, so that
there is one definition of them.
"""
from __future__ import annotations

import concurrent.futures
import dataclasses
import errno
import importlib.resources
import math
import os
import re
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Optional

import matplotlib
import numpy as np
import pandas as pd

from . import figures, page, timeline
from .figures import SECONDS, STYLE, Figure
from .page import text
from .runs import MEASURES, Measure, Run, Runs, alike, differing, last_of, told_apart
from .words import counted, digits, listed

RECORDS = 1_000_000  # spans in the timelines of a page, all runs together: about 5 bytes each
# Factors of efficiency, docs/efficiency.md: key of `trace show --json` and what it is called here, indented as in the tree.
FACTORS = (("parallel", "parallel efficiency", 0), ("load_balance", "load balance", 1), ("communication", "communication", 1),
           ("useful_share", "useful share", 2), ("serialisation", "serialisation", 2), ("transfer", "transfer", 2))
PRODUCT = ("Parallel = load balance × communication; communication = useful share × serialisation × transfer, by replay on a network "
           "without delay, as shoal trace show computes them (docs/efficiency.md).")


@dataclasses.dataclass(frozen=True)
class Report:
    """html     the page
    figures  every figure in it, by its file name without an ending"""
    html: str
    figures: dict[str, Figure]


def quantity(value: float, units: figures.Units, digits: int = 3) -> str:
    if not math.isfinite(value):
        return "–"
    size, unit = figures.with_unit(np.array([abs(value)]), units)
    shown = f"{value / size:.{digits}g}" if abs(value / size) < 1000 else page.number(round(value / size))
    return f"{shown}\u202f{unit}"


def rate(value: float) -> str:
    return f"{page.number(float(f'{value:.3g}'))} samples/s" if math.isfinite(value) else "–"


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}\u202f%" if math.isfinite(share) else "–"


def ranks_and_nodes(run: Run) -> str:
    return f"{counted(run.size, 'rank')} on {counted(run.nodes, 'node')}"


def efficiency(run: Run) -> dict[str, Any]:
    """What `trace show` computed by replay; empty without it."""
    shown = run.show.get("run")
    found = shown.get("efficiency") if isinstance(shown, dict) else None
    return found if isinstance(found, dict) else {}


def factors(run: Run) -> dict[str, float]:
    """Efficiencies of a run by name, as shares of 1; what is not known is left out."""
    found = efficiency(run)
    return {name: float(found[key]) for key, name, _ in FACTORS if isinstance(found.get(key), (int, float))}


def advice(run: Run) -> str:
    """What `trace show` suggests to try, or nothing."""
    said = efficiency(run).get("to_try")
    return f"To try: {said}." if isinstance(said, str) and said else ""


def who_is_last(run: Run) -> Any:
    """DataFrame with a row per kind of exchange: how often, how long ranks waited, and which rank began last most often."""
    rows = []
    for x in efficiency(run).get("exchanges") or []:
        last = sorted(x.get("last") or [], key=lambda entry: -int(entry["number"]))
        decided = sum(int(entry["number"]) for entry in last)
        rows.append({"exchange": str(x["name"]), "number": int(x["number"]), "waited by all ranks, s": float(x["wait_ns"]) * 1e-9,
                     "last most often": f"rank {last[0]['rank']}" if last else "–",
                     "in, % of those decided": round(100 * int(last[0]["number"]) / decided, 1) if decided else math.nan,
                     "others began earlier by, ms": float(x["ahead_ns"]) * 1e-6 / x["others"] if x.get("others") else math.nan,
                     "undecided": int(x["undecided"])})
    return pd.DataFrame(rows).sort_values("waited by all ranks, s", ascending=False) if rows else pd.DataFrame()


def learning_rate(run: Run) -> str:
    """The learning rate, or the first and the last one; "–" if none is known."""
    found = run.metrics["lr"].dropna().to_numpy(float)
    if not len(found):
        return "–"
    return digits(found[0]) if found[0] == found[-1] else f"{digits(found[0])} to {digits(found[-1])}"


def value_in_words(measure: Measure, value: float, runs: Sequence[Run]) -> str:
    """76.67 % test accuracy; a test rmse of 10 184 (price); runs have the same targets."""
    if measure.column == "test_acc":
        return f"{min(100 * value, 99.99 if value < 1 else 100):.4g} % {measure.name}"
    targets = runs[0].targets if measure.column == "test_rmse" else []
    of = f" ({'deviations, mean of ' if len(targets) > 1 else ''}{listed(targets)})" if targets else ""
    return f"a {measure.name} of {page.number(value)}{of}"


def result(run: Run) -> str:
    """The last value of what the run is judged by, in words; empty if it has none."""
    measure = measure_of([run])
    value = last_of(run.metrics[measure.column])
    if not math.isfinite(value):
        return ""
    beside = {"test_rmse": ("test_r2", "R2"), "perplexity": ("bits_per_byte", "bits per byte")}.get(measure.column)
    more = last_of(run.metrics[beside[0]]) if beside else math.nan
    return value_in_words(measure, value, [run]) + (f" and {beside[1]} of {digits(more)}" if beside and math.isfinite(more) else "")


def measure_of(runs: Sequence[Run]) -> Measure:
    """What runs with one task are judged by."""
    measures = MEASURES[runs[0].kind]
    return next((m for m in measures if any(run.metrics[m.column].notna().any() for run in runs)), measures[-1])


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that can be compared, for they have one task and one model.

    goal  value of `measure` that they are compared by: --target, else the best that three quarters of them reached, for one that
          learns nothing must not decide; NaN if none is known"""
    title: str
    runs: list[Run]
    measure: Measure
    goal: float

    @property
    def reached(self) -> list[tuple[Run, Optional[Any]]]:
        """The runs, with the first row of metrics that has the goal."""
        return [(run, run.time_to(self.goal, self.measure)) for run in self.runs]

    @property
    def target(self) -> str:
        return value_in_words(self.measure, self.goal, self.runs)


def groups(runs: Sequence[Run], target: Optional[float]) -> list[Group]:
    """All runs, in groups that can be compared."""
    found = alike(runs, lambda run: (run.task, run.options("model.")))
    titles = told_apart([f"{group[0].model} on {group[0].data}" for group in found], [group[0].options("model.") for group in found])
    out = []
    for title, group in zip(titles, found):
        measure = measure_of(group)
        values = [v for v in (run.metrics[measure.column].dropna() for run in group) if len(v)]
        best = sorted((float(v.max() if measure.rises else v.min()) for v in values), reverse=not measure.rises)
        out.append(Group(title, group, measure, target if target is not None else best[(len(best) - 1) // 4] if best else math.nan))
    return out


def sentence(run: Run) -> str:
    """A run in one sentence."""
    s = run.summary()
    said = f"{run.method} trained {run.model} on {ranks_and_nodes(run)}"
    if math.isfinite(s["samples_per_s"]):
        said += f" at {rate(s['samples_per_s'])}"
    if result(run):
        said += f" and has {result(run)} after {quantity(s['time_s'], figures.TRAINED)}"
    ranks = run.ranks
    if len(ranks) and ranks["wall_ns"].sum():
        share = {c: float(ranks[f"{c}_ns"].sum() / ranks["wall_ns"].sum()) for c in figures.KIND_ORDER}
        compute = sum(share[c] for c in ("forward", "backward", "optimizer"))
        most = max((c for c in share if c not in ("forward", "backward", "optimizer")), key=lambda c: share[c])
        said += f"; of the time of its ranks {percent(compute, 0)} went into computing"
        if share[most] >= 0.005:
            said += f", and of all else {_SPENT[most]} took most, {percent(share[most], 0)}"
    return f"{said}.{after_the_last_row(run)}"


def after_the_last_row(run: Run) -> str:
    """A sentence about the steps of a run that was stopped, or goes on, between two rows of metrics.csv; or nothing."""
    last = last_of(run.metrics["step"])
    if not run.steps_done > (last if math.isfinite(last) else 0):
        return ""
    loss = (run.status.get("progress") or {}).get("loss")
    seen = f"The last row of metrics.csv is of step {page.number(last)}" if math.isfinite(last) else "There is no row of metrics.csv yet"
    has = f", with a training loss of {digits(loss)} there" if isinstance(loss, (int, float)) else ""
    return f" {seen}; the run came to step {page.number(run.steps_done)}{has}."


RESULTS = (("test_rmse", "test rmse"), ("test_mae", "test mae"), ("test_r2", "test R2"), ("perplexity", "test perplexity"),
           ("bits_per_byte", "bits per byte"), ("test_loss", "test loss"), ("train_loss", "training loss"))  # besides the accuracy
_SPENT = {"wait": "waiting for exchanges", "agreement": "waiting for votes", "input": "waiting for input", "evaluation": "evaluation",
          "checkpoint": "checkpoints", "other": "work outside all spans"}


def trained(run: Run) -> str:
    """How far a run came; "–" if that is not known."""
    known = [counted(n, noun) for n, noun in ((run.epochs_done, "epoch"), (run.steps_done, "step")) if math.isfinite(n)]
    return ", ".join(known) or "–"


def numbered(prefix: str, k: int) -> str:
    """A name for the figures of each of several groups: training, training-2, …"""
    return prefix if k == 0 else f"{prefix}-{k + 1}"


# ---- sections ------------------------------------------------------------------------------------------------------------

class _Page:
    """Collects sections and figures."""

    def __init__(self, runs: Runs, target: Optional[float], steps: Optional[tuple[int, int]]):
        self.runs, self.target, self.steps = runs, target, steps
        self.groups = groups(runs, target)
        self.sections: list[tuple[str, str, str]] = []  # id, title, HTML
        self.figures: dict[str, Figure] = {}

    def put(self, items: Sequence[Optional[Figure]], prefix: str) -> str:
        there = [f for f in items if f is not None]
        for f in there:
            self.figures[re.sub(r"[^\w.-]+", "-", f"{prefix}-{f.name}")] = f
        return page.figures(there, prefix)

    def add(self, key: str, title: str, inside: str) -> None:
        if inside:
            self.sections.append((key, title, inside))

    def summary(self) -> None:
        inside = ""
        if len(self.runs) == 1:
            run, s = self.runs[0], self.runs.runs.iloc[0]
            inside += f'<p class="lead">{text(sentence(run))}</p>'
            if advice(run):
                inside += f"<p>{text(advice(run))}</p>"
            found = factors(run)
            pairs = [("method", run.method), ("model", run.model), ("ranks × nodes", f"{run.size} × {run.nodes}"),
                     ("throughput", rate(s["samples_per_s"])), ("step, median", quantity(run.step_s, SECONDS)),
                     ("test accuracy", percent(s["test_acc"])), ("predicts", listed(run.targets) or "–"),
                     *((name, page.number(s[column])) for column, name in RESULTS), ("trained", trained(run)),
                     ("learning rate", learning_rate(run)), ("training time", quantity(s["time_s"], figures.TRAINED)), ("waiting", percent(s["wait_share"])),
                     ("parallel efficiency", percent(found.get("parallel efficiency", math.nan))), ("node-hours", f"{s['node_hours']:.3g}"),
                     ("state", s["state"])]
            inside += page.facts([(k, v) for k, v in pairs if not v.startswith(("–", "?", "nan"))])
        else:
            inside += "".join(f'<p class="lead">{text(best)}</p>' for best in map(self._best, self.groups) if best)
            inside += "<ul>" + "".join(f"<li><strong>{text(run.name)}</strong>: {text(sentence(run))}</li>" for run in self.runs[:12]) + "</ul>"
            if len(self.runs) > 12:
                inside += f'<p class="note">{len(self.runs) - 12} more runs are in the table.</p>'
        table = self._table()
        same = [c for c in table.columns if table[c].nunique(dropna=False) == 1] if len(table) > 1 else []
        known = [c for c in same if table[c].notna().all()]
        note = f'<p class="note">The same in all runs: {text("; ".join(f"{c} {page.number(table[c].iloc[0])}" for c in known))}.</p>' if known else ""
        inside += page.details("Runs as a table", page.csv_link(table, "runs") + note + page.table_of(table.drop(columns=same), row_head=True),
                               len(self.runs) > 1)
        self.add("summary", "Summary", inside + self._options())

    def _options(self) -> str:
        """What the run files of the runs differ in."""
        keys = [k for k in differing([run.options() for run in self.runs]) if k != "run.name"]
        if not keys:
            return ""
        table = pd.DataFrame([{"run": run.name, **{k: run.config.get(k, "–") for k in keys}} for run in self.runs])
        return page.details("Options in which the runs differ", page.csv_link(table, "options") + page.table_of(table, row_head=True))

    def _table(self) -> Any:
        t = self.runs.runs
        shown = pd.DataFrame({
            "run": t["run"], "method": t["method"], "model": t["model"], "data": t["data"], "ranks": t["ranks"], "nodes": t["nodes"],
            "global batch": t["global_batch"], "epochs": [round(run.epochs_done, 3) for run in self.runs], "samples/s": t["samples_per_s"].round(1),
            "step, ms": (t["step_s"] * 1e3).round(4), "waiting, %": (100 * t["wait_share"]).round(2),
            "test accuracy, %": (100 * t["test_acc"]).round(3), **{name: t[column] for column, name in RESULTS}, "training time, s": t["time_s"],
            "node-hours": t["node_hours"], "attempts": t["attempts"], "state": t["state"]})
        parallel = FACTORS[0][1]  # the other factors have a figure of their own
        if any(parallel in factors(run) for run in self.runs):
            shown[f"{parallel}, %"] = [round(100 * factors(run).get(parallel, math.nan), 2) for run in self.runs]
        return shown.dropna(axis="columns", how="all")

    def _best(self, group: Group) -> str:
        reached = [(run, row) for run, row in group.reached if row is not None]
        if len(reached) < 2:
            return ""
        fastest = min(reached, key=lambda pair: float(pair[1]["time_s"]))
        cheapest = min(reached, key=lambda pair: float(pair[1]["time_s"]) * pair[0].nodes)
        of = f"Of the {len(group.runs)} runs of {group.title} " if len(self.groups) > 1 else ""
        said = f"{of}{fastest[0].name} reached {group.target} first, after {quantity(float(fastest[1]['time_s']), figures.TRAINED)}"
        spent = float(cheapest[1]["time_s"]) * cheapest[0].nodes
        cost = f"{spent / 3600:.3g} node-hours" if spent >= 36 else f"{spent:.3g} node-seconds"
        return said + (f"; with {cost} it was also the cheapest." if cheapest[0] is fastest[0] else
                       f"; {cheapest[0].name} was the cheapest with {cost}.")

    def problems(self) -> None:
        lines = [f"<li>{text(run.name)}: {text(line)}</li>" for run in self.runs for line in dict.fromkeys(run.problems)]
        if lines:
            more = f"<li>… and {len(lines) - 30} more</li>" if len(lines) > 30 else ""
            self.add("problems", "What is missing",
                     f'<div class="problems"><p>What follows shows what there is.</p><ul>{"".join(lines[:30])}{more}</ul></div>')

    def training(self) -> None:
        inside = ""
        tasks = alike(self.runs, lambda run: run.task)
        for k, runs in enumerate(tasks):
            drawn = self.put(figures.training(runs), numbered("training", k))
            inside += f"<h3>{text(runs[0].data)}</h3>{drawn}" if drawn and len(tasks) > 1 else drawn
        self.add("training", "Training", inside)

    def comparison(self) -> None:
        if len(self.runs) < 2:
            return
        inside = ""
        compared = [group for group in self.groups if len(group.runs) > 1]
        alone = [group.runs[0].name for group in self.groups if len(group.runs) == 1]
        for k, group in enumerate(compared):
            drawn = self.put(self._compared(group), numbered("comparison", k))
            inside += f"<h3>{text(group.title)}</h3>{drawn}" if len(self.groups) > 1 else drawn
        if alone:
            inside += f'<p class="muted">Compared with no other run, for none has the same data set and model: {text(listed(alone))}.</p>'
        found = [(run, factors(run)) for run in self.runs if factors(run)]
        if found:
            names = [name for _, name, _ in FACTORS if any(name in f for _, f in found)]
            inside += self.put([figures.efficiencies([run for run, _ in found], [f for _, f in found], names, PRODUCT)], "comparison")
        self.add("comparison", "Methods compared", inside)

    def _compared(self, group: Group) -> list[Figure]:
        methods = list(dict.fromkeys(run.method for run in group.runs))
        colours = [figures.SERIES[methods.index(run.method) % len(figures.SERIES)] for run in group.runs]
        names = [run.name for run in group.runs]
        rows = []
        for run, row in group.reached:
            sent = figures.sent_at(run)
            at = None if row is None else run.metrics.index.get_loc(row.name)
            rows.append({"run": run.name, "method": run.method, "ranks": run.size, "nodes": run.nodes,
                         "time to target, s": math.nan if row is None else float(row["time_s"]),
                         "epochs": math.nan if row is None else float(row["epoch"]), "steps": math.nan if row is None else float(row["step"]),
                         "bytes sent by then": math.nan if at is None else float(sent[at]),
                         "node-hours to target": math.nan if row is None else float(row["time_s"]) * run.nodes / 3600,
                         "samples/s": round(run.samples_per_s, 1)})
        table = pd.DataFrame(rows)
        items = []
        if table["time to target, s"].notna().any():
            values = table["time to target, s"].to_numpy(float)
            size, unit = figures.with_unit(values, figures.TRAINED)
            origin = "given by --target" if self.target is not None else "the best that three quarters of the runs reached"
            items.append(figures.bars("time-to-target", f"Time to {group.target}", f"Training time; the target is {origin}. "
                                      "Bars of one method have one colour.", names, values / size, f"time, {unit}", colours, table))
        items.append(figures.bars("throughput", "Throughput", "Without the first step, evaluations and checkpoints.", names,
                                  np.array([run.samples_per_s for run in group.runs]), "samples/s", colours,
                                  table[["run", "method", "ranks", "nodes", "samples/s"]]))
        return items

    def scaling(self) -> None:
        inside = ""
        for k, study in enumerate(figures.studies(self.runs)):
            inside += f"<h3>{text(study.title)}</h3>"
            inside += self.put(figures.scaling(study), numbered("scaling", k)) + self._laws(study)
        if not inside and len(self.runs) > 1:
            others = differing([run.options(without=figures.FREE) for run in self.runs])
            inside = ('<p class="muted">These runs are no scaling study: no two of them differ in their number of ranks alone, with the same method, '
                      "and the same global batch (strong scaling) or batch per rank (weak scaling)."
                      f"{text(f' Options in which they differ: {listed(others)}.') if others else ''}</p>")
        self.add("scaling", "Scaling", inside)

    def _laws(self, study: figures.Study) -> str:
        rows, refused = [], []
        for method, runs in study.methods.items():
            fits, reason = figures.fits_of(runs, study.weak)
            if reason:
                refused.append(f"{method}: {reason}")
            most = max(run.size for run in runs)
            for fit in fits:
                for name, value in fit.values.items():
                    if name == "peak":
                        continue
                    rows.append({"method": method, "law": fit.law, "parameter": name, "estimate": value, "95 %, low": fit.low[name],
                                 "95 %, high": fit.high[name], "points": fit.points,
                                 f"samples/s at twice the ranks ({2 * most})": round(float(fit.throughput(np.array([2.0 * most]))[0]), 1),
                                 "fastest at, ranks": round(fit.values["peak"], 1) if "peak" in fit.values else math.nan})
        note = "".join(f'<p class="muted">No fit for {text(r)}.</p>' for r in refused)
        if not rows:
            return note
        table = pd.DataFrame(rows)
        law = ("Gustafson: X(n) = X₁ (s + (1 − s) n)" if study.weak else "Amdahl: X(n) = X₁ / (s + (1 − s)/n)")
        return (f'<p class="note">{law}, s: serial. USL: X(n) = X₁ n / (1 + a (n − 1) + b n (n − 1)), a: contention, b: coherency. '
                f"Intervals of 95 % by Student's t; values outside the measured range are guesses.</p>"
                f"{page.csv_link(table, 'laws')}{page.table_of(table)}{note}")

    def cost(self) -> None:
        rows = []
        for run, row in (pair for group in self.groups for pair in group.reached):
            s = run.summary()
            epochs = float(s["epochs"]) if s["epochs"] == s["epochs"] else math.nan
            per_epoch = run.nodes * float(s["time_s"]) / 3600 / epochs if epochs and epochs > 0 else math.nan
            rows.append({"run": run.name, "nodes": run.nodes, "node-hours so far": run.node_hours, "node-hours per epoch": per_epoch,
                         "node-hours for 10 more epochs": 10 * per_epoch,
                         "node-hours to the target": math.nan if row is None else float(row["time_s"]) * run.nodes / 3600,
                         "node-hours per million samples": run.nodes / 3.6e3 / run.samples_per_s * 1e6 if run.samples_per_s > 0 else math.nan})
        table = pd.DataFrame(rows)
        if not len(table) or not table["node-hours so far"].notna().any():
            return
        targets = [group.target for group in self.groups if math.isfinite(group.goal)]
        goal = f" The target is {', '.join(dict.fromkeys(targets))}." if targets else ""
        inside = (f'<p>So far: from opening the traces to their last update, over all attempts. Per epoch: training time with evaluations and '
                  f'checkpoints.{text(goal)}</p>{page.csv_link(table, "cost")}{page.table_of(table, row_head=True)}')
        inside += self._energy()
        if len(self.runs) > 1:
            methods = list(dict.fromkeys(run.method for run in self.runs))
            colours = [figures.SERIES[methods.index(run.method) % len(figures.SERIES)] for run in self.runs]
            comparable = len(self.groups) == 1 and table["node-hours to the target"].notna().any()
            column = "node-hours to the target" if comparable else "node-hours so far"
            values = table[column].to_numpy(float)
            size, unit = (1.0, "node-hours") if np.nanmax(values) >= 0.1 else (1 / 3600, "node-seconds")
            inside += self.put([figures.bars("node-hours", column.capitalize(), "Nodes times training time.", list(table["run"]),
                                             values / size, unit, colours, table)], "cost")
        self.add("cost", "Cost", inside)

    def _energy(self) -> str:
        """What the processors used, where nodes have counters."""
        rows = []
        for run in self.runs:
            e = run.energy
            if not len(e):
                continue
            nodes = e.drop_duplicates("node")
            alone = bool((nodes["node_cpus"] == nodes["job_cpus"]).all())
            share = "all of their processors" if alone else "shared with other jobs" if (nodes["job_cpus"] > 0).all() else "not known"
            rows.append({"run": run.name, "nodes with counters": f"{len(nodes)} of {run.nodes}", "energy, kWh": e["joules"].sum() / 3.6e6,
                         "mean power, W": e["joules"].sum() / max(e["seconds"].max(), 1e-9), "joules per sample": e["joules"].sum()
                         / max(run.samples_per_s * e["seconds"].max(), 1e-9), "the job had": share})
        if not rows:
            return ""
        table = pd.DataFrame(rows)
        return ('<p>Energy of the processor packages in the attempt, by their counters: without memory, network, disks and power '
                f'supplies, and with all that other jobs do there.</p>{page.csv_link(table, "energy")}{page.table_of(table, row_head=True)}')

    def each(self) -> None:
        many = len(self.runs) > 3
        for k, run in enumerate(self.runs):
            tree = [(name, indent, factors(run)[name]) for _, name, indent in FACTORS if name in factors(run)]
            items = [figures.time_split(run), figures.wait_heat(run), figures.efficiency_tree(tree, PRODUCT) if tree else None,
                     figures.bytes_per_link(run), figures.step_times(run)]
            inside = self.put(items, run.name if len(self.runs) > 1 else "run")
            if advice(run) and len(self.runs) > 1:
                inside = f"<p>{text(advice(run))}</p>{inside}"
            last = who_is_last(run)
            if len(last):
                inside += (f'<h3>Who begins exchanges last</h3><p class="note">Others wait for the rank that begins last; undecided: closer than '
                           f'the clocks are known.</p>{page.csv_link(last, f"{run.name}-last")}{page.table_of(last, 12, row_head=True)}')
            inside += timeline.section(run, max(RECORDS // len(self.runs), 20_000), self.steps)
            of = "no trace" if run.attempt is None else f"attempt {run.attempt} of {max(run.attempts)}"
            folder = f'<p class="note">Folder <code>{text(run.path)}</code>, {of}, {text(ranks_and_nodes(run))}.</p>'
            title = "Where time and bytes went" if len(self.runs) == 1 else run.name
            if many:
                self.add(f"run-{k}", title, f'<details class="run"><summary>{text(sentence(run))}</summary>{folder}{inside}</details>')
            else:
                self.add(f"run-{k}", title, folder + inside)

    def html(self, title: str) -> str:
        nav = "".join(f'<a href="#{key}">{text(name)}</a>' for key, name, _ in self.sections)
        body = "".join(f'<section id="{key}"><h2>{text(name)}</h2>{inside}</section>' for key, name, inside in self.sections)
        files = importlib.resources.files(__package__)
        css = page.colours_css() + files.joinpath("report.css").read_text(encoding="utf-8")
        script = files.joinpath("timeline.js").read_text(encoding="utf-8") if 'class="timeline"' in body else ""
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
                f'<meta name="generator" content="shoal report"><title>{text(title)}</title><style>{css}</style></head><body><main>'
                f'<h1>{text(title)}</h1><p class="muted">Made by shoal report on {when}.</p><nav aria-label="Sections">{nav}</nav>{body}'
                f'<footer>Definitions: docs/trace-format.md for times and bytes, docs/report.md for everything else.</footer>'
                f"</main><script>{script}</script></body></html>\n")


def build(runs: Runs, title: Optional[str] = None, target: Optional[float] = None, steps: Optional[tuple[int, int]] = None) -> Report:
    """The report of runs.

    title   of the page; None: made of the names
    target  accuracy (0.9) or loss to compare runs by; None: the best that three quarters of them reached
    steps   first and last step of the timelines; None: as many as fit
    """
    with concurrent.futures.ThreadPoolExecutor(1) as beside:  # trace show has a process of its own
        shown = [beside.submit(getattr, run, "show") for run in runs]
        for run in runs:
            run.ranks  # so that all problems are known
        for result in shown:
            result.result()
    p = _Page(runs, target, steps)
    p.summary()
    p.problems()
    p.training()
    p.comparison()
    p.scaling()
    p.cost()
    p.each()
    names = ", ".join(run.name for run in runs[:4]) + (f" and {len(runs) - 4} more" if len(runs) > 4 else "")
    return Report(p.html(title or f"Shoal: {names}"), p.figures)


def write_file(path: str, data: bytes) -> None:
    """Writes a file whole or not at all.  What is there and no file, such as a device, is left alone: OSError."""
    if os.path.lexists(path) and not os.path.isfile(path) and not os.path.islink(path):
        raise OSError(errno.EEXIST, "it exists and is not a regular file: choose another name")
    folder = os.path.dirname(path) or "."
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.tmp-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def save_figures(report: Report, folder: str) -> list[str]:
    """Every figure as SVG and PDF, and its numbers as CSV; the paths."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for name, f in report.figures.items():
        with matplotlib.rc_context(STYLE):
            for kind in ("svg", "pdf"):
                f.draw.savefig(f"{folder}/{name}.{kind}", metadata={"Date": None} if kind == "svg" else {"CreationDate": None})
                paths.append(f"{folder}/{name}.{kind}")
        f.table.to_csv(f"{folder}/{name}.csv", index=False)
        paths.append(f"{folder}/{name}.csv")
    return paths


