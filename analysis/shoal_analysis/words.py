"""Text of files, made fit to be shown."""
from __future__ import annotations

from typing import Any

SPACES = " \u202f"  # the narrow one is between digits


def plain(value: Any) -> str:
    """Any value as text on one line, with control characters made visible."""
    return "".join(c if c.isprintable() or c in SPACES else f"\\x{ord(c):02x}" for c in str(value))


def label(value: Any, most: int = 28) -> str:
    """The same for a drawing, in which dollars would begin a formula; shortened."""
    shown = plain(value)
    return (shown if len(shown) <= most else f"{shown[:most - 1]}…").replace("$", r"\$")
