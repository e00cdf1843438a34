"""Traces and metrics of Shoal runs: tables for a notebook, figures, and the page that `shoal report` writes.

    import shoal_analysis
    runs = shoal_analysis.load("runs/*")
    runs.runs[["run", "method", "ranks", "samples_per_s", "wait_share"]]
    runs.steps.groupby(["run", "rank"])["wait_ns"].mean() / 1e6        # ms per step
"""
from .fits import Fit, amdahl, gustafson, usl
from .runs import Run, RunError, Runs, load
from .trace import TraceError

__version__ = "0.1.0"
__all__ = ["Fit", "Run", "RunError", "Runs", "TraceError", "amdahl", "gustafson", "load", "usl"]
