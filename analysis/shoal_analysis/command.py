"""The command line of the report.  `shoal report` gives its arguments on as they are."""
from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import report
from .runs import RunError, Runs, load
from .words import counted, plain

USAGE, IO = 2, 7  # exit codes, docs/exit-codes.md


def fail(code: int, said: str) -> NoReturn:
    """Ends with one line, as the program does."""
    print(f"shoal: error: {plain(said)}", file=sys.stderr)
    sys.exit(code)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(USAGE, message.replace("argument ", ""))


def _steps(said: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+):(\d+)", said)
    if not found or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"{said} is not a first and a last step, such as 100:120")
    return int(found[1]), int(found[2])


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser("shoal report", description="Runs as one HTML file with figures.", allow_abbrev=False)
    parser.add_argument("run", nargs="+", help="run folder")
    parser.add_argument("-o", dest="output", metavar="FILE", help="instead of RUN/report.html, or report.html for several runs")
    parser.add_argument("--figures", metavar="FOLDER", help="also every figure as SVG and PDF, and its numbers as CSV")
    parser.add_argument("--target", type=float, help="accuracy, rmse, perplexity or loss that runs are compared by")
    parser.add_argument("--attempt", type=int, help="traces of this attempt")
    parser.add_argument("--steps", type=_steps, metavar="A:B", help="steps in the timelines")
    parser.add_argument("--title", help="of the page")
    parser.add_argument("--program", default="shoal", help="whose `trace show --json` computes efficiencies")
    return parser.parse_args(arguments)


def _have_steps(runs: Runs, first: int, last: int) -> bool:
    return any(run.steps["step"].between(first, last).any() for run in runs if len(run.steps))


def main(arguments: Sequence[str]) -> None:
    """Writes the report that the arguments ask for, and says where it is.  Ends the process with an exit code on an error."""
    a = _parse(arguments)
    try:
        runs = load(*a.run, attempt=a.attempt, program=a.program)
    except RunError as e:
        fail(USAGE if a.attempt is not None and "no trace of attempt" in str(e) else IO, str(e))
    if a.steps and not _have_steps(runs, *a.steps):
        fail(USAGE, f"--steps {a.steps[0]}:{a.steps[1]}: there is no trace of these steps")
    made = report.build(runs, a.title, a.target, a.steps)
    path = a.output or (f"{runs[0].path}/report.html" if len(runs) == 1 else "report.html")
    data = made.html.encode("utf-8", "replace")
    try:
        report.write_file(path, data)
        files = report.save_figures(made, a.figures) if a.figures else []
    except OSError as e:
        elsewhere = "; -o FILE writes it elsewhere" if not a.output else ""
        fail(IO, f"cannot write {path if not a.figures else f'{path} or {a.figures}'}: {e.strerror or e}{elsewhere}")
    size = f"{len(data) / 1e6:.1f} MB" if len(data) >= 1e5 else f"{len(data) / 1e3:.0f} kB"
    print(f"{path}: {counted(len(runs), 'run')}, {counted(len(made.figures), 'figure')}, {size}")
    if files:
        print(f"{a.figures}: {len(made.figures)} figures as SVG and PDF, with their numbers as CSV")
    for name, lines in runs.problems.items():
        more = f"; the report has {counted(len(lines) - 1, 'more line')}" if len(lines) > 1 else ""
        print(f"shoal: warning: {plain(f'{name}: {lines[0]}{more}')}", file=sys.stderr)
