"""Text of files, made fit to be shown."""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

SPACES = " \u202f"  # the narrow one is between digits
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain(value: Any) -> str:
    """Any value as text on one line, with control characters made visible."""
    return "".join(c if c.isprintable() or c in SPACES else f"\\x{ord(c):02x}" for c in str(value))


def label(value: Any, most: int = 28) -> str:
    """The same for a drawing, in which dollars would begin a formula; shortened in its middle, for names of runs often differ at the end."""
    shown = plain(value)
    if len(shown) > most:
        shown = f"{shown[:most // 2]}…{shown[len(shown) - (most - most // 2 - 1):]}"
    return shown.replace("$", r"\$")


def grouped(x: float) -> str:
    """A whole number with narrow spaces: 25 000."""
    return f"{x:,.0f}".replace(",", "\u202f") if abs(x) >= 1e4 else f"{x:.0f}"


def digits(x: float, most: int = 4) -> str:
    """A number with so many digits, its exponent as short as it can be: 0.25, 5.835e17, 2.5e-7."""
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{x:.{most}g}")


def power_of_ten(x: float) -> str:
    """A number of an axis: 10⁻⁵, 2×10⁻⁵."""
    factor, exponent = f"{x:.2e}".split("e")
    shown = f"10{str(int(exponent)).translate(_RAISED)}"
    return shown if float(factor) == 1 else f"{float(factor):g}×{shown}"


def counted(n: float, noun: str) -> str:
    """A number of things: 1 epoch, 1.5 epochs."""
    return f"{grouped(n) if n == int(n) else digits(n)} {noun}{'s' * (n != 1)}"


def listed(words: Sequence[str], most: int = 6) -> str:
    """a, b and c; of many the first, and how many more."""
    shown = [plain(w) for w in words[:most]] + ([f"{len(words) - most} more"] if len(words) > most else [])
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)
