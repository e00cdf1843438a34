"""What `shoal report` starts: finds the libraries, or says how to install them, and runs shoal_analysis, which lies beside this file.

This is no part of the package because importing the package already needs the libraries.
"""
from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig

OLDEST = (3, 10)
NEEDED = ("h5py", "numpy", "pandas", "matplotlib")
UNSUPPORTED = 2  # exit code, docs/exit-codes.md
SYSTEM = "/usr/bin/python3"


def try_system() -> None:
    """Another python3 may come first in PATH than that of the distribution, whose packages have the libraries: that one takes over,
    unless an interpreter was named."""
    if not os.environ.get("SHOAL_PYTHON") and os.path.exists(SYSTEM) and os.path.realpath(SYSTEM) != os.path.realpath(sys.executable):
        os.environ["SHOAL_PYTHON"] = SYSTEM  # so it is tried once
        os.execv(SYSTEM, [SYSTEM, "-B", *sys.argv])


def cure(missing: list[str]) -> str:
    """The command that installs them: packages of the distribution for its own interpreter, which pip may not touch."""
    apt = os.path.realpath(sys.executable) == os.path.realpath(SYSTEM) and os.path.exists("/etc/debian_version")
    if apt:
        return f"apt install {' '.join(f'python3-{name}' for name in missing)}"
    outside = sys.prefix == sys.base_prefix and os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED"))
    return f"{sys.executable} -m pip install {'--user --break-system-packages ' if outside else ''}{' '.join(missing)}"


def main() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    said = ""
    if sys.version_info < OLDEST:
        said = f"the report needs Python {OLDEST[0]}.{OLDEST[1]}, {sys.executable} is {sys.version.split()[0]}; name a newer one in SHOAL_PYTHON"
    elif missing:
        said = f"the report needs {', '.join(missing)}, which {sys.executable} does not have; to install: {cure(missing)}"
    if said:
        try_system()
        print(f"shoal: error: {said}", file=sys.stderr)
        sys.exit(UNSUPPORTED)
    from shoal_analysis.command import main as run
    run(sys.argv[1:])


if __name__ == "__main__":
    main()
