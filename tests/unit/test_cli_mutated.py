"""Mutated inputs of `shoal data import`: each ends in a data set that holds what it says, or in one line, within a second or two
and 1 GiB.  Seeded, 200 of each kind; 5000 with SHOAL_FULL=1."""
import gzip
import os
import resource
import struct

import numpy as np
import pytest

from harness import FULL, PLAIN_ENV, program, random_source, run
from test_cli_arrays import X, Y
from test_cli_images import GREY_JPEG, chunk, exif, pixels, png

RUNS = 5000 if FULL else 200
TABLE = "a;b;y\n" + "".join(f"{i},5;{i % 7};{'cat' if i % 2 else 'dog'}\n" for i in range(30))


def seeds():
    """Kind of the import, arguments, and the files by name; the first one is mutated."""
    np.save("x.npy", X)
    np.savez_compressed("x.npz", x=X[:, :2], y=Y)
    np.savez_compressed("y.npz", y=Y)
    array, archive, classes = (open(name, "rb").read() for name in ("x.npy", "x.npz", "y.npz"))
    labels = struct.pack(">4BI", 0, 0, 8, 1, 40) + Y.astype("u1").tobytes()
    images = struct.pack(">4B3I", 0, 0, 8, 3, 40, 2, 2) + bytes(range(160))
    return {
        "csv": [("csv", ("m.csv",), {"m.csv": TABLE.encode()}), ("csv", ("m.csv",), {"m.csv": gzip.compress(TABLE.encode())})],
        "npy": [("npy", ("X.npy", "y.npz"), {"X.npy": array, "y.npz": classes}), ("npy", ("m.npz",), {"m.npz": archive})],
        "images": [("images", ("d",), {f"d/a/1.{k}": b, "d/b/2.jpg": GREY_JPEG, "d/c/3.jpg": GREY_JPEG})
                   for k, b in (("png", png(pixels(1, 16, 16), extra=chunk(b"eXIf", exif(6, True)[10:]))), ("png", png(pixels(1, 16, 16, 3))), ("jpg", GREY_JPEG),
                                ("jpg", GREY_JPEG[:2] + exif(6, False) + GREY_JPEG[2:]))],
        "idx": [("idx", ("m", "labels"), {"m": images, "labels": labels}), ("idx", ("m", "images"), {"m": labels, "images": images})],
    }


def mutate(rng, data):
    """Bytes changed, cut, doubled or taken from elsewhere."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(min(len(data), 140))
        what = rng.randrange(5)
        if what == 0:
            data[at] = rng.randrange(256)
        elif what == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif what == 2:
            data[at:at + rng.choice((1, 2, 4))] = rng.choice((b"\xff" * 4, b"\0" * 4, b";", b",", b'"', b"-1", b"1e39", b"\n"))
        elif what == 3:
            data[at:at] = data[at:at + rng.randrange(1, 40)]
        elif len(data) > 8:
            del data[at:at + rng.randrange(1, 40)]
        data = data or bytearray(b"\n")
    return bytes(data)


@pytest.mark.parametrize("kind", ("csv", "npy", "images", "idx"))
def test_mutated(kind):
    rng, chosen, made = random_source(kind), seeds()[kind], 0
    for i in range(RUNS):
        verb, args, files = chosen[i % len(chosen)]
        first = next(iter(files))
        for name, data in files.items():
            os.makedirs(os.path.dirname(f"./{name}"), exist_ok=True)
            with open(name, "wb") as f:
                f.write(mutate(rng, data) if name == first else data)
        r = run([program(), "data", "import", verb, *args, "-o", "m.h5"], base=PLAIN_ENV, timeout=10, code=None, errors="replace",
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
        lines = [line for line in r.stderr.splitlines() if line.startswith("shoal: error: ")]
        assert r.returncode in (0, 2, 7) and len(lines) == (r.returncode != 0), (i, r.returncode, r.stderr[-2000:])
        assert not [name for name in os.listdir(".") if name.startswith(".m.h5")], f"run {i} left a temporary file"
        made += r.returncode == 0  # inspected, too: an import ends with that
        for name in (first, "m.h5"):
            if os.path.exists(name):
                os.remove(name)
    assert 0 < made < RUNS
