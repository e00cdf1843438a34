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
from .runs import Run, Runs

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
    return f"{run.size} rank{'s' * (run.size != 1)} on {run.nodes} node{'s' * (run.nodes != 1)}"


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
    return f"{found[0]:.4g}" if found[0] == found[-1] else f"{found[0]:.4g} to {found[-1]:.4g}"


def sentence(run: Run) -> str:
    """A run in one sentence."""
    s = run.summary()
    said = f"{run.method} trained {run.model} on {ranks_and_nodes(run)}"
    if math.isfinite(s["samples_per_s"]):
        said += f" at {rate(s['samples_per_s'])}"
    if math.isfinite(s["test_acc"]):
        said += f" and has {percent(s['test_acc'])} test accuracy after {quantity(s['time_s'], figures.TRAINED)}"
    elif math.isfinite(s["train_loss"]):
        said += f" and has a training loss of {s['train_loss']:.4g} after {quantity(s['time_s'], figures.TRAINED)}"
    ranks = run.ranks
    if len(ranks) and ranks["wall_ns"].sum():
        share = {c: float(ranks[f"{c}_ns"].sum() / ranks["wall_ns"].sum()) for c in figures.KIND_ORDER}
        compute = sum(share[c] for c in ("forward", "backward", "optimizer"))
        most = max((c for c in share if c not in ("forward", "backward", "optimizer")), key=lambda c: share[c])
        said += (f"; of the time of its ranks {percent(compute, 0)} went into computing, and of all else {_SPENT[most]} took most, "
                 f"{percent(share[most], 0)}")
    return f"{said}."


_SPENT = {"wait": "waiting for exchanges", "agreement": "waiting for votes", "input": "waiting for input", "evaluation": "evaluation",
          "checkpoint": "checkpoints", "other": "work outside all spans"}


# ---- sections ------------------------------------------------------------------------------------------------------------

class _Page:
    """Collects sections and figures."""

    def __init__(self, runs: Runs, target: Optional[float], steps: Optional[tuple[int, int]]):
        self.runs, self.target, self.steps = runs, target, steps
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
                     ("test accuracy", percent(s["test_acc"])), ("trained", f"{page.number(s['epochs'])} epochs"),
                     ("learning rate", learning_rate(run)), ("training time", quantity(s["time_s"], figures.TRAINED)), ("waiting", percent(s["wait_share"])),
                     ("parallel efficiency", percent(found.get("parallel efficiency", math.nan))), ("node-hours", f"{s['node_hours']:.3g}"),
                     ("state", s["state"])]
            inside += page.facts([(k, v) for k, v in pairs if not v.startswith(("–", "?", "nan"))])
        else:
            best = self._best()
            inside += f'<p class="lead">{text(best)}</p>' if best else ""
            inside += "<ul>" + "".join(f"<li><strong>{text(run.name)}</strong>: {text(sentence(run))}</li>" for run in self.runs[:12]) + "</ul>"
            if len(self.runs) > 12:
                inside += f'<p class="note">{len(self.runs) - 12} more runs are in the table.</p>'
        table = self._table()
        inside += page.details("Runs as a table", page.csv_link(table, "runs") + page.table_of(table, row_head=True), len(self.runs) > 1)
        self.add("summary", "Summary", inside)

    def _table(self) -> Any:
        t = self.runs.runs
        shown = pd.DataFrame({
            "run": t["run"], "method": t["method"], "model": t["model"], "ranks": t["ranks"], "nodes": t["nodes"],
            "global batch": t["global_batch"], "epochs": t["epochs"], "samples/s": t["samples_per_s"].round(1),
            "step, ms": (t["step_s"] * 1e3).round(4), "waiting, %": (100 * t["wait_share"]).round(2),
            "test accuracy, %": (100 * t["test_acc"]).round(3), "test loss": t["test_loss"], "training time, s": t["time_s"],
            "node-hours": t["node_hours"], "attempts": t["attempts"], "state": t["state"]})
        parallel = FACTORS[0][1]  # the other factors have a figure of their own
        if any(parallel in factors(run) for run in self.runs):
            shown[f"{parallel}, %"] = [round(100 * factors(run).get(parallel, math.nan), 2) for run in self.runs]
        return shown

    def _best(self) -> str:
        reached = [(run, row) for run, row in self._reached() if row is not None]
        if len(reached) < 2:
            return ""
        fastest = min(reached, key=lambda pair: float(pair[1]["time_s"]))
        cheapest = min(reached, key=lambda pair: float(pair[1]["time_s"]) * pair[0].nodes)
        what = self._target_name()
        said = f"{fastest[0].name} reached {what} first, after {quantity(float(fastest[1]['time_s']), figures.TRAINED)}"
        spent = float(cheapest[1]["time_s"]) * cheapest[0].nodes
        cost = f"{spent / 3600:.3g} node-hours" if spent >= 36 else f"{spent:.3g} node-seconds"
        return said + (f"; with {cost} it was also the cheapest." if cheapest[0] is fastest[0] else
                       f"; {cheapest[0].name} was the cheapest with {cost}.")

    def problems(self) -> None:
        lines = [f"<li>{text(run.name)}: {text(line)}</li>" for run in self.runs for line in dict.fromkeys(run.problems)]
        if lines:
            more = f"<li>… and {len(lines) - 30} more</li>" if len(lines) > 30 else ""
            self.add("problems", "Not everything could be read",
                     f'<div class="problems"><p>What follows shows what there is.</p><ul>{"".join(lines[:30])}{more}</ul></div>')

    def training(self) -> None:
        self.add("training", "Training", self.put(figures.training(self.runs), "training"))

    # -- target

    def _column(self) -> str:
        return "test_acc" if any(run.metrics["test_acc"].notna().any() for run in self.runs) else (
            "test_loss" if any(run.metrics["test_loss"].notna().any() for run in self.runs) else "train_loss")

    def _goal(self) -> float:
        """--target, else the best value that three quarters of the runs reached: one that learns nothing must not decide."""
        if self.target is not None:
            return self.target
        column = self._column()
        values = [run.metrics[column].dropna() for run in self.runs]
        values = [v for v in values if len(v)]
        if not values:
            return math.nan
        best = sorted(float(v.max()) for v in values) if column == "test_acc" else sorted((float(v.min()) for v in values), reverse=True)
        return best[(len(best) - 1) // 4]

    def _target_name(self) -> str:
        column, goal = self._column(), self._goal()
        return f"{min(100 * goal, 99.99 if goal < 1 else 100):.4g} % test accuracy" if column == "test_acc" else f"a {column.replace('_', ' ').replace('train', 'training')} of {goal:.4g}"

    def _reached(self) -> list[tuple[Run, Optional[Any]]]:
        goal = self._goal()
        return [(run, run.time_to(goal, self._column()) if math.isfinite(goal) else None) for run in self.runs]

    def comparison(self) -> None:
        reached = self._reached()
        if len(self.runs) < 2:
            return
        methods = list(dict.fromkeys(run.method for run in self.runs))
        colours = [figures.SERIES[methods.index(run.method) % len(figures.SERIES)] for run in self.runs]
        names = [run.name for run in self.runs]
        rows = []
        for run, row in reached:
            sent = figures.sent_at(run)
            at = None if row is None else run.metrics.index.get_loc(row.name)
            rows.append({"run": run.name, "method": run.method, "ranks": run.size, "nodes": run.nodes,
                         "time to target, s": math.nan if row is None else float(row["time_s"]),
                         "epochs": math.nan if row is None else float(row["epoch"]), "steps": math.nan if row is None else float(row["step"]),
                         "bytes sent by then": math.nan if at is None else float(sent[at]),
                         "node-hours to target": math.nan if row is None else float(row["time_s"]) * run.nodes / 3600,
                         "samples/s": round(run.samples_per_s, 1)})
        table = pd.DataFrame(rows)
        items: list[Optional[Figure]] = []
        if table["time to target, s"].notna().any():
            values = table["time to target, s"].to_numpy(float)
            size, unit = figures.with_unit(values, figures.TRAINED)
            origin = "given by --target" if self.target is not None else "the best that three quarters of the runs reached"
            items.append(figures.bars("time-to-target", f"Time to {self._target_name()}", f"Training time; the target is {origin}. "
                                      "Bars of one method have one colour.", names, values / size, f"time, {unit}", colours, table))
        items.append(figures.bars("throughput", "Throughput", "Without the first step, evaluations and checkpoints.", names,
                                  np.array([run.samples_per_s for run in self.runs]), "samples/s", colours, table[["run", "method", "ranks", "nodes", "samples/s"]]))
        found = [(run, factors(run)) for run in self.runs if factors(run)]
        if found:
            names = [name for _, name, _ in FACTORS if any(name in f for _, f in found)]
            items.append(figures.efficiencies([run for run, _ in found], [f for _, f in found], names, PRODUCT))
        self.add("comparison", "Methods compared", self.put(items, "comparison"))

    def scaling(self) -> None:
        inside = ""
        for study in figures.studies(self.runs):
            inside += f"<h3>{text(study.title)}</h3>"
            drawn = figures.scaling(study)
            inside += self.put(drawn, "scaling") + self._laws(study)
        if not inside and len(self.runs) > 1:
            inside = ('<p class="muted">These runs are no scaling study: there is no model and method with two numbers of ranks and the same '
                      "global batch (strong scaling) or batch per rank (weak scaling).</p>")
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
        for run, row in self._reached():
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
        goal = f" The target is {self._target_name()}." if math.isfinite(self._goal()) else ""
        inside = (f'<p>So far: from opening the traces to their last update, over all attempts. Per epoch: training time with evaluations and '
                  f'checkpoints.{text(goal)}</p>{page.csv_link(table, "cost")}{page.table_of(table, row_head=True)}')
        inside += self._energy()
        if len(self.runs) > 1:
            methods = list(dict.fromkeys(run.method for run in self.runs))
            colours = [figures.SERIES[methods.index(run.method) % len(figures.SERIES)] for run in self.runs]
            column = "node-hours to the target" if table["node-hours to the target"].notna().any() else "node-hours so far"
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
            if not inside:
                inside = '<p class="muted">There is no trace with a step: trace.level was off, or the run was too short.</p>'
            folder = f'<p class="note">Folder <code>{text(run.path)}</code>, attempt {run.attempt} of {len(run.attempts)}, ' \
                     f"{text(ranks_and_nodes(run))}.</p>"
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


