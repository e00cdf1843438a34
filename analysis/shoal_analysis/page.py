"""Parts of the HTML page: escaped text, tables with their CSV, figures as SVG whose colours follow the page."""
from __future__ import annotations

import base64
import html
import io
import math
import re
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import matplotlib

from .figures import COLOURS, STYLE, Figure
from .words import digits, grouped, plain

ROWS_SHOWN = 40  # of a table; its CSV has all
GROUPED = 1e9    # from here on a number that is not counted has an exponent


def text(value: Any) -> str:
    """The same as HTML that shows it as it is."""
    return html.escape(plain(value), quote=True)


def number(value: Any) -> str:
    """A value of a table: digits enough to read it, – for what is missing."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        return text(value)
    x = float(value)
    if not math.isfinite(x):
        return "–" if math.isnan(x) else "∞"
    if isinstance(value, Integral) or (abs(x) < GROUPED and (x == int(x) or abs(x) >= 1e4)):
        return grouped(x)
    return digits(x)


def csv_link(table: Any, name: str) -> str:
    """A link that saves the whole table, which the page itself holds."""
    data = base64.b64encode(table.to_csv(index=False).encode()).decode()
    return f'<a class="csv" download="{text(name)}.csv" href="data:text/csv;base64,{data}">CSV</a>'


def table_of(table: Any, shown: int = ROWS_SHOWN, row_head: bool = False) -> str:
    """A DataFrame as an HTML table; long ones to the first rows, with a line that says so."""
    head = "".join(f'<th scope="col">{text(c).replace("_", " ")}</th>' for c in table.columns)
    rows = []
    for row in table.head(shown).itertuples(index=False, name=None):
        cells = []
        for i, value in enumerate(row):
            is_number = not isinstance(value, str) and hasattr(value, "__float__")
            tag = "th scope=\"row\"" if row_head and i == 0 else f'td{" class=n" if is_number else ""}'
            cells.append(f"<{tag}>{number(value)}</{tag.split()[0]}>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    rest = len(table) - shown
    note = f'<p class="note">{rest} more rows are in the CSV.</p>' if rest > 0 else ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>{note}'


def details(title: str, inside: str, opened: bool = False) -> str:
    return f'<details{" open" if opened else ""}><summary>{text(title)}</summary>{inside}</details>'


def numbers(table: Any, name: str) -> str:
    """What is behind a figure: its table, folded up, and the CSV."""
    return f'<div class="behind">{csv_link(table, name)}{details("Numbers", table_of(table))}</div>'


_HEX = re.compile("|".join(light for light, _ in COLOURS.values()))
_NAME = {light: name for name, (light, _) in COLOURS.items()}


def svg(figure: Figure, prefix: str) -> str:
    """The drawing as SVG to put into a page: colours are variables of the page, names are unique in it, and it has a title.  Names that
    nothing refers to, and digits beyond a hundredth of a point, are most of it, and are left out."""
    out = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.draw.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    drawing = out.getvalue()
    drawing = drawing[drawing.index("<svg"):]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.S)
    drawing = re.sub(r"<!--.*?-->", "", drawing, flags=re.S)
    drawing = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", drawing, count=1), count=1)
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', drawing))
    drawing = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", drawing)
    drawing = re.sub(r' (?:d|x|y|width|height|transform)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), drawing)
    drawing = re.sub(r"font: (?:(\d+) )?([\d.]+px) [^;\"]*", lambda m: f"font: {m[1] or 400} {m[2]} sans-serif", drawing)
    drawing = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", drawing)
    drawing = re.sub(r"\n\s*", "\n", drawing)
    drawing = _HEX.sub(lambda m: f"var(--{_NAME[m[0]]})", drawing)
    label = text(f"{figure.title}. {figure.caption}")
    return drawing.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def figure(f: Figure, prefix: str) -> str:
    name = re.sub(r"[^\w.-]+", "-", f"{prefix}-{f.name}")
    return (f'<figure id="{text(name)}"><h3>{text(f.title)}</h3>{svg(f, name)}'
            f"<figcaption>{text(f.caption)}</figcaption>{numbers(f.table, name)}</figure>")


def figures(items: Iterable[Figure], prefix: str) -> str:
    inside = "".join(figure(f, prefix) for f in items)
    return f'<div class="figures">{inside}</div>' if inside else ""


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """The big numbers at the top: (what, value)."""
    return '<dl class="facts">' + "".join(f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd></div>" for k, v in pairs) + "</dl>"


def colours_css() -> str:
    """The variables, light and dark; paper is always light."""
    light = "".join(f"--{name}:{a};" for name, (a, _) in COLOURS.items())
    dark = "".join(f"--{name}:{b};" for name, (_, b) in COLOURS.items())
    return (f":root{{color-scheme:light dark;{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
            "@media print{:root{color-scheme:light}}")
