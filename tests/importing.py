"""What the tests of `shoal data import` share: they all make t.h5."""
import os
import resource

import h5py

from harness import PLAIN_ENV, program, run


def load(*args, code=0, **options):
    return run([program(), "data", "import", *args, "-o", "t.h5"], base=PLAIN_ENV, timeout=30, code=code, **options)


def made(split="train"):
    with h5py.File("t.h5") as f:
        return f[f"{split}/x"][:], f[f"{split}/y"][:]


def names():
    """Names of the classes, and their number."""
    with h5py.File("t.h5") as f:
        text = f.attrs["class_names"]
        return (text.decode() if isinstance(text, bytes) else text).split("\n"), int(f.attrs["classes"])


def put(path, contents):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(contents)


def small(megabytes):
    """Limits of a process that may have so much memory of its own, beside its libraries."""
    return {"env": {"SHOAL_MEMORY_LIMIT_MIB": str(megabytes)},
            "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_DATA, ((100 + megabytes) << 20,) * 2)}
