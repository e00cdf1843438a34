"""The figures of a report, each with the numbers it shows.

A figure is drawn once, in light colours.  In a page its colours become variables of the page, so that one drawing serves light,
dark and print (page.py); saved as SVG or PDF it keeps them.  Colours are those of Okabe and Ito, which people with any colour
vision tell apart, and lines also differ in dashes and markers.
"""
from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Optional, ParamSpec, TypeVar

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import Formatter, LogLocator, MaxNLocator, NullFormatter

from .fits import Fit, FitError, amdahl, gustafson, usl
from .runs import Run, alike, told_apart
from .trace import LINKS, Array
from .words import grouped, label, power_of_ten

# name: (light, dark).  Light ones are all different: they are looked up when a page replaces them.
COLOURS = {
    "ink": ("#1b2026", "#e6e8eb"), "muted": ("#57606b", "#a9b1ba"), "grid": ("#dde0e5", "#343b43"), "paper": ("#fefefe", "#14171b"),
    "blue": ("#0072b2", "#3a9bdc"), "vermilion": ("#d55e00", "#f07b2a"), "green": ("#009e73", "#2bbf94"),
    "purple": ("#cc79a7", "#d993ba"), "orange": ("#e69f00", "#efb02e"), "sky": ("#56b4e9", "#86cdf5"),
    "yellow": ("#f0e442", "#efe65c"), "dark": ("#3d434a", "#d3d7dc"), "grey": ("#b4bac2", "#68717b"),
}
KIND_COLOURS = {"forward": "sky", "backward": "blue", "optimizer": "purple", "wait": "vermilion", "agreement": "orange",
                "input": "yellow", "evaluation": "green", "checkpoint": "dark", "other": "grey"}
KIND_ORDER = ("forward", "backward", "optimizer", "input", "evaluation", "checkpoint", "other", "agreement", "wait")
KIND_NAMES = {"wait": "exposed exchange", "input": "input wait"}
SERIES = ("blue", "vermilion", "green", "purple", "orange", "sky", "dark")
MARKS, DASHES = "osD^vPX", ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
STYLE: dict[str, Any] = {
    "font.size": 10, "axes.titlesize": 10, "axes.labelsize": 10, "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True, "grid.linewidth": 0.6,
    "axes.linewidth": 0.8, "lines.linewidth": 1.5, "lines.markersize": 4, "legend.frameon": False, "svg.fonttype": "none",
    "pdf.fonttype": 42, "axes.unicode_minus": True, "savefig.transparent": True, "axes.facecolor": "none", "figure.facecolor": "none", "svg.hashsalt": "shoal",
    **{key: COLOURS["ink"][0] for key in ("text.color", "axes.labelcolor")},
    **{key: COLOURS["muted"][0] for key in ("axes.edgecolor", "xtick.color", "ytick.color")}, "grid.color": COLOURS["grid"][0]}
WIDTH, HEIGHT = 5.2, 2.7  # inches, without a legend: in a page one column of a desktop, or the width of a phone
MOST_BARS = 32            # more ranks become thin columns
HEAT_BINS = 160


P = ParamSpec("P")
T = TypeVar("T")


def styled(function: Callable[P, T]) -> Callable[P, T]:
    """Calls a function with the style of these figures, and leaves that of a notebook alone."""
    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        with matplotlib.rc_context(STYLE):
            return function(*args, **options)
    return call


@dataclasses.dataclass(frozen=True)
class Figure:
    """name     of its files
    title    what it shows, a few words
    caption  how to read it, with definitions; plain text
    table    the numbers it shows, a DataFrame
    draw     the drawing"""
    name: str
    title: str
    caption: str
    table: Any
    draw: Drawing


def colour(name: str) -> str:
    return COLOURS[name][0]


def _axes(height: float = HEIGHT) -> tuple[Drawing, Any]:
    drawing = Drawing(figsize=(WIDTH, height), layout="constrained")
    return drawing, drawing.subplots()


Units = Sequence[tuple[float, float, str]]  # from which value on, its size, its name; falling


def _each_from(*units: tuple[float, str]) -> Units:
    """Units that are used from 1 of them on."""
    return [(size, size, name) for size, name in units]


SECONDS = _each_from((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
TRAINED = [(7200.0, 3600.0, "h"), (120.0, 60.0, "min"), *_each_from((1.0, "s"), (1e-3, "ms"))]
BYTES = _each_from((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def with_unit(values: Array, units: Units) -> tuple[float, str]:
    """Size and name of the unit for the largest value."""
    most = float(np.nanmax(values)) if len(values) and np.isfinite(values).any() else 0.0
    return next(((size, name) for least, size, name in units if most >= least), units[-1][1:])


class Numbers(Formatter):  # type: ignore[misc]
    """Ticks of numbers without a unit, all of an axis in one notation: 0.25, 1200, 25 000; or, if one of them is very small or large,
    as powers of ten."""

    def __call__(self, x: float, pos: Optional[int] = None) -> str:
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        low, high = sorted(self.axis.get_view_interval()) if self.axis else (-math.inf, math.inf)
        if any(low <= x <= high and x and not 1e-4 <= abs(x) < 1e7 for x in values):
            return [power_of_ten(x) if x else "0" for x in values]
        return [grouped(x) if abs(x) >= 1e4 else f"{x:.6g}" for x in values]


def _log2_axis(axes: Any, n: Array) -> None:
    """Numbers of ranks, doubling, with those that were measured as ticks."""
    axes.set_xscale("log", base=2)
    ticks = np.unique(n)
    axes.set_xticks(ticks if len(ticks) <= 8 else ticks[::math.ceil(len(ticks) / 8)])
    axes.xaxis.set_major_formatter(Numbers())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("ranks")


def _log_axis(axes: Any, values: Array) -> None:
    """A logarithmic y axis with a few numbers at it, however little the values differ."""
    axes.set_yscale("log")
    decades = math.log10(values.max() / values.min()) if len(values) else 0.0
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7) if decades < 1 else (1, 2, 5) if decades < 3 else (1,), numticks=12))
    axes.yaxis.set_major_formatter(Numbers())
    axes.yaxis.set_minor_formatter(NullFormatter())


def _legend(axes: Any) -> None:
    """Above the axes, where it covers nothing, in as many columns as fit into a page's column."""
    handles, names = axes.get_legend_handles_labels()
    if not 0 < len(names) <= MOST_BARS:
        return
    per_letter, handle, room = 0.078, 0.52, WIDTH - 0.2  # inches
    columns = max(1, min(len(names), int(room / (handle + per_letter * max(map(len, names))))))
    drawing, rows = axes.figure, math.ceil(len(names) / columns)
    drawing.set_figheight(drawing.get_figheight() + 0.19 * rows)
    axes.legend(handles, names, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, ncol=columns, handlelength=1.8,
                columnspacing=1.0)


# ---- training ----------------------------------------------------------------------------------------------------------

def _styles(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Label and style of each run: colours first, then dashes, so that 28 runs differ without their markers."""
    count = len(SERIES)
    return [{"label": label(run.name, 40), "color": colour(SERIES[i % count]), "marker": MARKS[(i + i // count) % len(MARKS)],
             "linestyle": DASHES[i // count % len(DASHES)]} for i, run in enumerate(runs)]


def sent_at(run: Run) -> Array:
    """Bytes of payload that all ranks had sent at each row of metrics; NaN if the attempt that has traces did not begin the run: its
    bytes are not those of the times and steps of all attempts."""
    sent, steps = run.sent, run.metrics["step"].to_numpy(float)
    if not len(run.steps) or float(run.steps["step"].min()) > 0:
        return np.full(len(steps), np.nan)
    total = np.concatenate([[0.0], np.cumsum(sent["payload_bytes"].to_numpy(float))])
    at = np.searchsorted(sent["step"].to_numpy(float), steps, side="left")  # row "step 20" is after steps 0 to 19
    return total[at]


@dataclasses.dataclass(frozen=True)
class Quantity:
    """Curves of metrics.csv: `column`, and `beside` it another one, dotted.  Both have a few words for the caption.  `everywhere`: drawn
    against time, steps and bytes, else against steps alone."""
    name: str
    title: str
    axis: str
    column: str
    words: str = ""
    beside: str = ""
    beside_words: str = ""
    scale: float = 1.0
    logarithmic: bool = False
    everywhere: bool = True

    @property
    def columns(self) -> list[str]:
        return [self.beside, self.column] if self.beside else [self.column]


QUANTITIES = (
    Quantity("loss", "Loss", "loss", "test_loss", "Test loss", "train_loss", "training loss", logarithmic=True),
    Quantity("accuracy", "Accuracy", "test accuracy, %", "test_acc", scale=100),
    Quantity("error", "Error of the predictions", "test error", "test_rmse", "In the units of the table, of several targets in deviations: "
             "root of the mean squared error (rmse)", "test_mae", "mean absolute error (mae)", logarithmic=True),
    Quantity("r2", "R2", "test R2", "test_r2", "1: perfect; 0: no better than the mean of the test samples", everywhere=False),
    Quantity("perplexity", "Perplexity", "test perplexity", "perplexity", "Of a token", logarithmic=True),
    Quantity("bits", "Bits per byte", "test bits per byte", "bits_per_byte", everywhere=False),
    Quantity("rate", "Learning rate", "learning rate", "lr", logarithmic=True, everywhere=False))
AGAINST = (("time", "time_s", "training time", TRAINED, "Training time as in metrics.csv, evaluations and checkpoints included."),
           ("steps", "step", "steps", (), "A step is one batch of each rank."),
           ("bytes", "sent_bytes", "bytes sent by all ranks", BYTES,
            "Payload of all exchanges of the attempt, summed over ranks and link classes."))


def _axis_name(quantity: Quantity, runs: Sequence[Run]) -> str:
    """With the names of the targets, if the quantity has their units."""
    targets = runs[0].targets
    if quantity.name != "error" or not targets:
        return quantity.axis
    return f"{quantity.axis}, {label(targets[0]) if len(targets) == 1 else f'mean of {len(targets)} targets, in deviations'}"


@styled
def training(runs: Sequence[Run]) -> list[Figure]:
    """What metrics.csv has of runs with one task, a figure for each quantity and what it is drawn against."""
    figures: list[Figure] = []
    tables = [run.metrics.assign(sent_bytes=sent_at(run)) for run in runs]
    many = len(runs) > len(SERIES)
    for q in QUANTITIES:
        have = pd.concat([t[q.columns] for t in tables]).to_numpy(float)
        have = have[np.isfinite(have)]
        if not len(have) or (q.name == "rate" and all(t["lr"].nunique() < 2 for t in tables)):
            continue
        for over, x, xlabel, units, explained in AGAINST:
            positions = np.concatenate([t[x].to_numpy(float) for t in tables])
            if not np.isfinite(positions).any() or (over == "bytes" and not np.nanmax(positions) > 0) or (over != "steps" and not q.everywhere):
                continue
            size, unit = with_unit(positions, units) if units else (1.0, "")
            drawing, axes = _axes()
            for style, table in zip(_styles(runs), tables):
                for column in q.columns:
                    rows = table[table[column].notna() & table[x].notna()]
                    dotted = column == q.beside and table[q.column].notna().any()
                    if not len(rows) or (over == "bytes" and not rows[x].max() > 0) or (dotted and many):
                        continue  # a run that sends nothing has no curve over bytes; many runs have one curve each
                    extra = {"linestyle": (0, (1.2, 1.2)), "marker": "" if len(rows) > 1 else ".", "linewidth": 1.3, "label": None}
                    axes.plot(rows[x] / size, rows[column] * q.scale, markevery=max(1, len(rows) // 12),
                              **{**style, **(extra if dotted else {})})
            if q.logarithmic and (have > 0).all():
                _log_axis(axes, have)
            else:
                axes.yaxis.set_major_formatter(Numbers())
            axes.xaxis.set_major_formatter(Numbers())
            axes.set_xlabel(f"{xlabel}{f', {unit}' if unit else ''}")
            axes.set_ylabel(_axis_name(q, runs))
            if len(runs) > 1:
                _legend(axes)
            dotted_too = q.beside and not many and any(t[q.beside].notna().any() for t in tables)
            words = f"{q.words}{f'; dotted: {q.beside_words}' if dotted_too else ''}. " if q.words else ""
            if not any(t[q.column].notna().any() for t in tables):
                words = f"{q.beside_words.capitalize()}. "
            table = pd.concat([t[list(dict.fromkeys(["run", "epoch", "step", x, *q.columns]))] for t in tables])
            figures.append(Figure(f"{q.name}-{over}", f"{q.title} against {over}", words + explained, table.dropna(how="all", subset=q.columns), drawing))
    return figures


# ---- a run's time ------------------------------------------------------------------------------------------------------

def kind_name(category: str) -> str:
    return KIND_NAMES.get(category, category)


@styled
def time_split(run: Run) -> Optional[Figure]:
    """Share of each category, a bar per rank."""
    ranks = run.ranks
    if not len(ranks) or not ranks["wall_ns"].sum():
        return None
    share = pd.DataFrame({c: 100 * ranks[f"{c}_ns"] / ranks["wall_ns"].clip(lower=1) for c in KIND_ORDER})
    shown = [c for c in KIND_ORDER if share[c].max() >= 0.05]
    few = len(ranks) <= MOST_BARS
    drawing, axes = _axes(0.75 + 0.21 * max(len(ranks), 2) if few else HEIGHT)
    at, base = np.arange(len(ranks)), np.zeros(len(ranks))
    for c in shown:
        options: dict[str, Any] = {"label": kind_name(c), "color": colour(KIND_COLOURS[c])}
        if few:
            axes.barh(at, share[c], left=base, height=0.78, edgecolor=colour("paper"), linewidth=0.4, **options)
        else:
            axes.fill_between(np.append(at, len(at)) - 0.5, np.append(base, base[-1]), np.append(base + share[c], (base + share[c]).iloc[-1]),
                              step="post", linewidth=0, **options)
        base = base + share[c].to_numpy()
    if few:
        axes.set_yticks(at, [str(r) for r in ranks["rank"]])
        axes.invert_yaxis()
        axes.set(xlim=(0, 100), xlabel="share of the time, %", ylabel="rank")
        axes.grid(axis="y", visible=False)
    else:
        axes.set(xlim=(-0.5, len(at) - 0.5), ylim=(0, 100), xlabel="rank", ylabel="share of the time, %")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(axes)
    table = ranks[["rank", "host", "steps", "wall_ns"]].assign(wall_s=ranks["wall_ns"] * 1e-9).drop(columns="wall_ns")
    for c in KIND_ORDER:
        table[f"{kind_name(c)}, %"] = share[c].round(3)
    table["step, ms"] = (ranks["step_ns"] * 1e-6 / ranks["steps"].clip(lower=1)).round(4)
    return Figure("time-split", "Where the time went, per rank",
                  "From a rank's first span to its last; every moment counts for the innermost span. Exposed exchange: blocked in an "
                  "exchange. Agreement: waiting for a vote of all ranks.", table, drawing)


@styled
def step_times(run: Run) -> Optional[Figure]:
    """Duration of the steps over the run, mean over ranks; many steps are put together."""
    steps = run.steps
    if not len(steps):
        return None
    per_step = steps.groupby("step")["step_ns"].mean() * 1e-6
    waits = (steps.groupby("step")["wait_ns"].mean() + steps.groupby("step")["agreement_ns"].mean()) * 1e-6
    width = max(1, math.ceil(len(per_step) / 400))
    group = np.arange(len(per_step)) // width
    table = pd.DataFrame({
        "first step": per_step.index.to_series().groupby(group).min(), "step, median ms": per_step.groupby(group).median(),
        "step, largest ms": per_step.groupby(group).max(), "waiting, mean ms": waits.groupby(group).mean()})
    drawing, axes = _axes()
    x = table["first step"]
    if width > 1:
        axes.plot(x, table["step, largest ms"], color=colour("grey"), linewidth=0.9, label=f"largest of {width} steps")
    axes.plot(x, table["step, median ms"], color=colour("blue"), linewidth=1.2,
              label="step" if width == 1 else f"median of {width} steps")
    axes.plot(x, table["waiting, mean ms"], color=colour("vermilion"), linewidth=1.0, linestyle=DASHES[1], label="of it waiting, mean")
    largest = float(np.quantile(table["step, largest ms"], 0.98)) if len(table) > 20 else float(table["step, largest ms"].max())
    above = int((per_step > 1.25 * largest).sum())
    axes.set(xlabel="step", ylabel="duration, ms", ylim=(0, 1.25 * largest))
    axes.xaxis.set_major_formatter(Numbers())
    _legend(axes)
    return Figure("steps", "Duration of the steps", "Mean over ranks." + (
        f" {above} step{'s' if above > 1 else ''} longer than {_short(1.25 * largest)} ms {'are' if above > 1 else 'is'} cut off above"
        f" (the longest: {_short(float(per_step.max()))} ms)." if above else ""), table.round(5), drawing)


def _short(x: float) -> str:
    return f"{x:.3g}" if abs(x) < 1000 else f"{x:.0f}"


HEAT = LinearSegmentedColormap.from_list("waits", ["#f3efe6", "#f2c56b", "#d55e00", "#5c1a00"])


@styled
def wait_heat(run: Run) -> Optional[Figure]:
    """Share of the time that ranks waited: a row per rank, a column per part of the run."""
    if not len(run.steps):
        return None
    edges, share = run.wait_share(HEAT_BINS)
    size, unit = with_unit(edges, TRAINED)
    ranks = run.ranks["rank"].to_numpy()
    drawing, axes = _axes(min(4.6, max(1.7, 1.1 + 0.2 * len(ranks))))
    axes.grid(False)
    image = axes.imshow(100 * share, aspect="auto", interpolation="nearest", cmap=HEAT, vmin=0, vmax=100,
                        extent=(edges[0] / size, edges[-1] / size, len(ranks) - 0.5, -0.5))
    if len(ranks) <= MOST_BARS:
        axes.set_yticks(np.arange(len(ranks)), [str(r) for r in ranks])
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel=f"time since rank 0 opened its trace, {unit}", ylabel="rank")
    bar = drawing.colorbar(image, ax=axes, pad=0.02, fraction=0.05)
    bar.set_label("waiting, %")
    bar.outline.set_visible(False)
    table = pd.DataFrame(np.round(100 * share.T, 2), columns=[f"rank {r}, %" for r in ranks])
    table.insert(0, "from, s", np.round(edges[:-1], 6))
    return Figure("waits", "Who waited, and when",
                  "Share of each moment that a rank was blocked in an exchange or in a vote. A rank that is lighter than the others "
                  "is the one they wait for.", table, drawing)


@styled
def bytes_per_link(run: Run) -> Optional[Figure]:
    """Payload and wire bytes per step by link class."""
    sent = run.bytes.groupby("link", sort=False)[["payload_bytes", "wire_bytes", "messages"]].sum().reindex(list(LINKS))
    steps = int(run.ranks["steps"].max()) if len(run.ranks) else 0
    if not steps or not sent["wire_bytes"].sum():
        return None
    per_step = sent / steps
    size, unit = with_unit(per_step["wire_bytes"].to_numpy(), BYTES)
    drawing, axes = _axes(1.7)
    at = np.arange(len(LINKS))
    axes.barh(at - 0.19, per_step["payload_bytes"] / size, height=0.36, color=colour("blue"), label="payload")
    axes.barh(at + 0.19, per_step["wire_bytes"] / size, height=0.36, color=colour("sky"), label="wire: with estimated headers")
    most = float(per_step["wire_bytes"].max()) / size
    for i, value in enumerate(per_step["wire_bytes"]):
        axes.text(value / size + 0.01 * most, i + 0.2, _quantity(value, BYTES), va="center", fontsize=9)
    axes.set_yticks(at, list(LINKS))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set(xlabel=f"{unit} per step, all ranks together", xlim=(0, 1.22 * most))
    rank = run.bytes.groupby("link", sort=False)["payload_bytes"].agg(["min", "max"]).reindex(list(LINKS))
    formula = run.bytes.groupby("link", sort=False)["formula_bytes"].sum().reindex(list(LINKS)) / steps
    known = formula[:3] if formula.sum() else formula[:0]  # no formula has votes
    if len(known):
        axes.plot(known / size, at[:3] - 0.19, linestyle="", marker="|", markersize=13, markeredgewidth=2, color=colour("ink"),
                  label="by the method's formula")
    _legend(axes)
    table = pd.DataFrame({"link": list(LINKS), "payload per step, bytes": per_step["payload_bytes"].round(1).to_numpy(),
                          "wire per step, bytes": per_step["wire_bytes"].round(1).to_numpy(),
                          "messages per step": per_step["messages"].round(2).to_numpy(), "payload, bytes": sent["payload_bytes"].to_numpy(),
                          "formula per step, bytes": formula.round(1).to_numpy(),
                          "of the rank that sent least": rank["min"].to_numpy(), "of the rank that sent most": rank["max"].to_numpy()})
    return Figure("bytes", "Bytes per step and link class",
                  "Each byte counts once, at its sender. Self: within a rank; node: through memory; between: between nodes; control: "
                  "votes and losses.", table, drawing)


def _quantity(value: float, units: Units) -> str:
    if not math.isfinite(value):
        return "–"
    size, name = with_unit(np.array([value]), units)
    return f"{value / size:.3g} {name}" if value / size < 1000 else f"{value / size:.0f} {name}"


# ---- several runs --------------------------------------------------------------------------------------------------------

@styled
def bars(name: str, title: str, caption: str, labels: Sequence[str], values: Array, unit: str, colours: Sequence[str],
         table: Any) -> Figure:
    """A horizontal bar with its number for each label."""
    drawing, axes = _axes(max(1.5, 0.75 + 0.23 * len(labels)))
    at = np.arange(len(labels))
    most = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    axes.barh(at, np.nan_to_num(values), height=0.7, color=[colour(c) for c in colours])
    for i, value in enumerate(values):
        text = f"{value:.3g}" if math.isfinite(value) and value < 1000 else grouped(value) if math.isfinite(value) else "not reached"
        axes.text((value if math.isfinite(value) else 0) + 0.01 * most, i, text, va="center", fontsize=9)
    axes.set_yticks(at, [label(name) for name in labels])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_formatter(Numbers())
    axes.set(xlabel=unit, xlim=(0, 1.15 * most))
    return Figure(name, title, caption, table, drawing)


# Options in which the runs of a study may differ: those of the method make curves of their own, the batch decides the kind of study, and
# the others are no part of the work that its throughput is measured of.
FREE = ("run.", "method.", "ckpt.", "trace.", "eval.", "data.batch", "data.global_batch", "data.stage")


@dataclasses.dataclass(frozen=True)
class Study:
    """Runs that differ in nothing but their ranks and methods: strong scaling with one global batch, weak with one batch per rank."""
    weak: bool
    title: str
    batch: int                       # samples per step: of all ranks if strong, of a rank if weak
    methods: dict[str, list[Run]]    # ordered by ranks


def studies(runs: Sequence[Run]) -> list[Study]:
    """All studies that the runs have, of at least two different numbers of ranks with a method."""
    found: list[tuple[bool, int, dict[str, list[Run]]]] = []
    for weak in (False, True):
        measured = [run for run in runs if run.size and run.global_batch and run.samples_per_s > 0
                    and (not weak or run.global_batch % run.size == 0)]
        for group in alike(measured, lambda run, weak=weak: (run.global_batch // run.size if weak else run.global_batch, run.options(without=FREE))):
            curves = alike(group, lambda run: run.options("method."))
            names = told_apart([curve[0].method for curve in curves], [curve[0].options("method.") for curve in curves])
            methods = {name: sorted(curve, key=lambda run: run.size) for name, curve in zip(names, curves)}
            kept = {m: r for m, r in methods.items() if len({run.size for run in r}) > 1}
            alone = {m: r for m, r in methods.items() if m not in kept and len(r) == 1 and r[0].size == 1}
            if kept:
                batch = group[0].global_batch // (group[0].size if weak else 1)
                found.append((weak, batch, {**kept, **(alone if len(kept) > 1 else {})}))
    first = [next(iter(methods.values()))[0] for _, _, methods in found]
    titles = told_apart([f"{'Weak' if weak else 'Strong'} scaling of {run.model}: {batch} samples per step{' and rank' if weak else ''}"
                         for (weak, batch, _), run in zip(found, first)], [run.options(without=FREE) for run in first])
    return [Study(weak, title, batch, methods) for (weak, batch, methods), title in zip(found, titles)]


def fits_of(runs: Sequence[Run], weak: bool) -> tuple[list[Fit], str]:
    """The laws that apply to the runs of one method; or why there are none."""
    n, x = [run.size for run in runs], [run.samples_per_s for run in runs]
    try:
        return [(gustafson if weak else amdahl)(n, x), usl(n, x)], ""
    except FitError as e:
        return [], str(e)


@styled
def scaling(study: Study) -> list[Figure]:
    """Throughput and efficiency against ranks, with the fitted laws."""
    name = f"{'weak' if study.weak else 'strong'}-{study.batch}"
    draw_x, axes_x = _axes(3.0)
    draw_e, axes_e = _axes(3.0)
    rows, laws = [], set()
    everything = np.array([run.size for runs in study.methods.values() for run in runs], float)
    values = np.array([run.samples_per_s for runs in study.methods.values() for run in runs], float)
    grid = np.geomspace(everything.min(), everything.max() * 2, 80)
    for i, (method, runs) in enumerate(study.methods.items()):
        n = np.array([run.size for run in runs], float)
        x = np.array([run.samples_per_s for run in runs], float)
        style = {"color": colour(SERIES[i % len(SERIES)]), "marker": MARKS[i % len(MARKS)]}
        first = x[n == n.min()].mean() / n.min()
        fits, _ = fits_of(runs, study.weak)
        for axes, y in ((axes_x, x), (axes_e, 100 * x / n / first)):
            axes.plot(n, y, label=label(method), linestyle="", **style)
            if not fits:  # through the mean of the runs with one number of ranks
                mean = pd.Series(y).groupby(n).mean()
                axes.plot(mean.index, mean, linewidth=0.9, color=style["color"])
        for fit in fits:
            dash = DASHES[1] if fit.law != "USL" else DASHES[2]
            laws.add(fit.law)
            for axes, y in ((axes_x, fit.throughput(grid)), (axes_e, 100 * fit.throughput(grid) / grid / first)):
                axes.plot(grid, y, color=style["color"], linestyle=dash, linewidth=1.0)
        rows += [{"method": method, "run": run.name, "ranks": run.size, "nodes": run.nodes, "samples_per_s": round(float(xi), 3),
                  "speedup": round(float(xi / first / n.min()), 4), "efficiency, %": round(float(100 * xi / ni / first), 3)}
                 for run, ni, xi in zip(runs, n, x)]
    ideal = grid * (values / everything)[everything == everything.min()].mean()
    axes_x.plot(grid, ideal, color=colour("muted"), linewidth=0.8, label="linear")
    axes_e.axhline(100, color=colour("muted"), linewidth=0.8)
    _log_axis(axes_x, values)
    axes_x.set_ylim(values.min() * 0.7, max(values.max() * 2, min(ideal.max(), values.max() * 4)))
    for axes, unit in ((axes_x, "samples/s"), (axes_e, "efficiency, %")):
        _log2_axis(axes, np.append(everything, 2 * everything.max()))
        axes.set_ylabel(unit)
        _legend(axes)
    axes_e.set_ylim(0, max(105.0, 1.08 * max(row["efficiency, %"] for row in rows)))
    lines = f" Dashed: {'Gustafson' if study.weak else 'Amdahl'}, dotted: USL; both go on to twice the ranks." if laws else ""
    caption = f"Samples per second without the first step, evaluations and checkpoints.{lines}"
    table = pd.DataFrame(rows)
    return [Figure(f"scaling-{name}", "Throughput", caption, table, draw_x),
            Figure(f"efficiency-{name}", "Efficiency",
                   f"Throughput per rank, as a share of that with the fewest ranks.{lines}", table, draw_e)]


@styled
def efficiency_tree(factors: Sequence[tuple[str, int, float]], caption: str) -> Figure:
    """A bar for each (name, depth in the tree, share of 1)."""
    drawing, axes = _axes(0.7 + 0.24 * len(factors))
    at = np.arange(len(factors))
    values = np.array([100 * value for _, _, value in factors])
    axes.barh(at, 100, height=0.7, color=colour("grid"))
    axes.barh(at, values, height=0.7, color=[colour(("blue", "sky", "grey")[min(depth, 2)]) for _, depth, _ in factors])
    for i, value in enumerate(values):
        axes.text(101.5, i, f"{value:.1f}", va="center", fontsize=9)
    axes.set_yticks(at, ["\u00a0" * 4 * depth + name for name, depth, _ in factors])
    for tick in axes.get_yticklabels():
        tick.set_horizontalalignment("left")
    axes.tick_params(axis="y", length=0, pad=108)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="%", xlim=(0, 112))
    axes.set_xticks(range(0, 101, 20))
    return Figure("efficiency", "Efficiency", caption,
                  pd.DataFrame([{"factor": name, "%": round(100 * value, 4)} for name, _, value in factors]), drawing)


@styled
def efficiencies(runs: Sequence[Run], rows: Sequence[dict[str, float]], names: Sequence[str], caption: str) -> Figure:
    """A dot for each factor of each run, in percent."""
    drawing, axes = _axes(max(1.6, 0.95 + 0.23 * len(runs)))
    at = np.arange(len(runs))
    for i, factor in enumerate(names):
        shift = 0.6 * ((i + 0.5) / len(names) - 0.5)  # equal ones beside each other
        axes.plot([100 * row.get(factor, math.nan) for row in rows], at + shift, linestyle="", marker=MARKS[i], markersize=5,
                  color=colour(SERIES[i % len(SERIES)]), label=factor)
    axes.set_yticks(at, [label(run.name) for run in runs])
    axes.set(xlim=(0, 104), ylim=(len(runs) - 0.5, -0.5), xlabel="%")
    _legend(axes)
    table = pd.DataFrame([{"run": run.name, **{f"{n}, %": round(100 * row.get(n, math.nan), 3) for n in names}}
                          for run, row in zip(runs, rows)])
    return Figure("efficiencies", "Efficiencies", caption, table, drawing)
