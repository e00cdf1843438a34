"""`shoal data import` of NumPy arrays, and of folders in place of lists of files."""
import bz2
import gzip
import io
import lzma
import os
import pickle
import re
import struct
import shlex
import subprocess
import sys
import tarfile
import time
import warnings
import zipfile

import h5py
import numpy as np
import pytest

from harness import PLAIN_ENV, ROOT, assert_one_error, program, run
from importing import load, made, put, small

# ---- NumPy ----

def test_unused_arrays():
    """What an array that is not used holds does not matter."""
    x, y = np.arange(80, dtype="f4").reshape(20, 4), np.arange(20) % 2
    np.savez("a.npz", X_train=x, y_train=y, notes=np.array(["a", "b"]), meta=np.array([{}], dtype=object), when=np.float32(3))
    r = load("npy", "a.npz")
    for name in ("notes", "meta", "when"):
        assert f"a.npz: array {name} is not used" in r.stdout
    assert sorted(np.concatenate([made("train")[0], made("test")[0]]).tolist()) == x.tolist()


RNG = np.random.default_rng(1)
X = RNG.normal(size=(40, 6)).astype("f4")
Y = np.arange(40) % 4


@pytest.mark.parametrize("dtype", ("f4", "f8", ">f4", ">f8", "i1", "i2", "<i4", ">i8", "u2", "u4", "u8", "u1", "?"))
@pytest.mark.parametrize("order", "CF")
def test_npy_types(dtype, order):
    """Every number comes through, in either order of bytes and of dimensions; labels of any width."""
    x = np.array(X * 20 if dtype not in ("u1", "u2", "u4", "u8", "?") else np.abs(X * 20), dtype=dtype, order=order)
    np.save("X_train.npy", x)
    np.save("y_train.npy", Y.astype(">i8" if order == "F" else "u1"))
    load("npy", "X_train.npy", "y_train.npy", "--test-share", "0")
    got, labels = made()
    assert got.dtype == ("u1" if dtype in ("u1", "?") else "f4")
    assert np.array_equal(got, x.astype("f4")) and np.array_equal(labels, Y)


@pytest.mark.parametrize("shape, turn", (((40, 5, 6), lambda x: x[:, None]), ((40, 3, 5, 6), lambda x: x),
                                         ((40, 5, 6, 3), lambda x: x.transpose(0, 3, 1, 2)), ((40,), lambda x: x[:, None])),
                         ids=range(4))
@pytest.mark.parametrize("order", "CF")
def test_npy_shapes(shape, turn, order):
    x = np.array(RNG.integers(0, 256, size=shape), dtype="u1", order=order)
    np.savez_compressed("set.npz", images=x, labels=Y)
    load("npy", "set.npz", "--test-share", "0")
    assert np.array_equal(made()[0], turn(x))


def made_of_hdf5():
    """What a copy by our own rules has of a foreign file."""
    r = run([program(), "data", "repack", "f.h5", "-o", "t.h5"], base=PLAIN_ENV, code=0)
    return made()[0], r.stdout


SERIES = {3: np.r_[300, 5, 0.02], 20: np.logspace(-3, 4, 20)}  # a scale for each number


@pytest.mark.parametrize("numbers", SERIES)
@pytest.mark.parametrize("last", (True, False))
@pytest.mark.parametrize("order", "CF")
def test_series(numbers, last, order):
    """Each of the numbers of a series is a channel, wherever they lie and by both ways, or each of many a feature."""
    x = (RNG.normal(size=(40, 30, numbers)) * SERIES[numbers] + SERIES[numbers] * 8).astype("f4")
    turned = np.ascontiguousarray(x.transpose(0, 2, 1))
    stored = np.array(x if last else turned, order=order)
    np.savez("set.npz", images=stored, labels=Y)
    told = load("npy", "set.npz", "--test-share", "0").stdout
    if numbers == 3:
        assert np.array_equal(made()[0], turned[..., None])
    elif order == "C":
        assert np.array_equal(made()[0], stored.reshape(40, -1))
    assert (f"series of 30 steps of {numbers} numbers" in told) == (numbers == 3 or order == "C"), told
    with h5py.File("f.h5", "w") as f:
        f["train/x"], f["train/y"] = stored, Y
    got, told = made_of_hdf5()
    assert np.array_equal(got, turned[..., None] if numbers == 3 else stored.reshape(40, -1))
    assert f"series of 30 steps of {numbers} numbers, whose scales differ" in told, told


@pytest.mark.parametrize("form", ("csr_matrix", "csc_matrix"))
def test_sparse(form):
    """A sparse matrix with several columns of labels, as AnnData has them: all are named, and the command writes the matrix in full."""
    x = RNG.poisson(0.5, size=(40, 12)).astype("f4")
    kind = np.arange(40) % 3
    rows, columns = np.nonzero(x if form == "csr_matrix" else x.T)
    with h5py.File("cells.h5ad", "w") as f:
        g = f.create_group("X")
        g.attrs["encoding-type"], g.attrs["shape"] = form, x.shape
        g["data"] = (x if form == "csr_matrix" else x.T)[rows, columns]
        g["indices"], g["indptr"] = columns, np.searchsorted(rows, np.arange((40 if form == "csr_matrix" else 12) + 1))
        f["obs/_index"] = [f"cell{i}" for i in range(40)]
        f["obs/n_counts"] = x.sum(1)
        for name, words, codes in (("batch", ["b1", "b2"], np.arange(40) % 2), ("cell_type", ["T", "B", "NK"], kind)):
            f[f"obs/{name}/categories"], f[f"obs/{name}/codes"] = words, codes.astype("i1")
    r = run([program(), "data", "inspect", "cells.h5ad"], base=PLAIN_ENV, code=7)
    assert_one_error(r, "/X is sparse", "labels may be /obs/batch (2 classes), /obs/cell_type (3 classes); with those of /obs/cell_type (put another")
    subprocess.run(re.search(r"tests: (\S*python3 -c .*)", r.stderr)[1], shell=True, check=True)
    test = np.random.default_rng(1).permutation(40) < 4
    with h5py.File("cells.h5ad.plain.h5") as f:
        assert np.array_equal(f["train/x"][:], x[~test]) and np.array_equal(f["test/x"][:], x[test])
        assert f.attrs["class_names"] in ("B\nNK\nT", b"B\nNK\nT") and np.array_equal(f["train/y"][:], np.array([2, 0, 1])[kind[~test]])
    assert run([program(), "data", "inspect", "cells.h5ad.plain.h5"], base=PLAIN_ENV, code=0)


def test_large_images():
    """A few large samples are looked at, not 256 of them at once."""
    x = np.zeros((60, 900, 900), "f4")
    x[:, 3] = np.arange(60)[:, None]
    np.savez("set.npz", images=x, labels=np.arange(60) % 2)
    load("npy", "set.npz", "--test-share", "0", **small(64))
    assert np.array_equal(made()[0][:, 0, 3, 0], np.arange(60))


def edged(n, side, noise):
    """Images of a spot, faint at all edges."""
    at = np.linspace(-3, 3, side)
    return np.exp(-(at ** 2 + at[:, None] ** 2))[None] * RNG.uniform(0.5, 1, size=(n, 1, 1)) + noise * RNG.normal(size=(n, side, side))


@pytest.mark.parametrize("scale, offset", ((16, 0), (1, 0), (2.5, -0.4), (1000, 30000)))
@pytest.mark.parametrize("side", (8, 14, 28))
def test_no_series(scale, offset, side):
    """Images as floats stay images, in whichever range."""
    x = (edged(40, side, 1e-4) * scale + offset).astype("f4")
    np.savez("set.npz", images=x, labels=Y)
    assert "series" not in load("npy", "set.npz", "--test-share", "0").stdout and np.array_equal(made()[0], x[:, None])


def test_npz_splits():
    """Named arrays are the splits they say; unnamed ones are told apart by dimensions, and the rest is drawn."""
    np.savez("set.npz", x_train=X[:30], y_train=Y[:30], x_test=X[30:], y_test=Y[30:], other=np.ones(3))
    assert "array other is not used" in load("npy", "set.npz").stdout
    assert np.array_equal(made("train")[0], X[:30]) and np.array_equal(made("test")[0], X[30:])
    np.savez("two.npz", X, Y)
    load("npy", "two.npz", "--test-share", "0.25")
    assert [len(made(s)[0]) for s in ("train", "test")] == [30, 10] and sorted(made("test")[1]) == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]


def test_npz_splits_unlike():
    """Test samples of another shape: both are named, with their forms."""
    np.savez("set.npz", x_train=X, y_train=Y, x_test=X[:, 1:], y_test=Y)
    assert_one_error(load("npy", "set.npz", code=7), "set.npz: x_train has samples [6] of f4, x_test has samples [5] of f4: save both splits alike")


def test_npy_half():
    """Half precision, in either order of bytes, with its subnormal numbers."""
    x = np.concatenate([X.astype("f2"), np.array([[65504, -65504, 6e-8, -6e-5, 0, 1]], "f2")])
    for order in "<>":
        np.savez("half.npz", X=x.astype(order + "f2"), y=np.r_[Y, 0])
        load("npy", "half.npz", "--test-share", "0")
        assert np.array_equal(made()[0], x.astype("f4"))


def test_npz_names_with_folders():
    """Folders of members tell the split, and do not matter if they say nothing; validation beside tests is left out, and told."""
    np.savez("set.npz", **{"train/x": X, "train/y": Y, "test/x": X[:9], "test/y": Y[:9]})
    load("npy", "set.npz")
    assert np.array_equal(made()[0], X) and np.array_equal(made("test")[0], X[:9])
    np.savez("set.npz", **{"mine/X_train": X, "mine/y_train": Y, "X_val": X[:5], "y_val": Y[:5], "X_test": X[:9], "y_test": Y[:9]})
    assert "X_val and 1 more are for validation, by their names, and left out: X_test is the test split" in load("npy", "set.npz").stderr
    assert np.array_equal(made()[0], X) and np.array_equal(made("test")[0], X[:9])


def npy(header, data=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def test_samples_are_columns():
    """As MATLAB has them: labels in one row are a list; the command turns samples, of both splits."""
    np.savez("s.npz", X_train=X.T, y_train=Y[None], X_test=X[:8].T, y_test=Y[None, :8])
    r = load("npy", "s.npz", code=7)
    assert_one_error(r, "and give 2-s.npz instead")
    subprocess.run([sys.executable, "-c", re.search(r'-c "(.*?)" does', r.stderr)[1]], check=True)
    load("npy", "2-s.npz")
    assert np.array_equal(made()[0], X.astype("f4")) and np.array_equal(made()[1], Y)
    assert np.array_equal(made("test")[0], X[:8].astype("f4"))


def test_npy_double_quotes():
    """Other programs write the header so, and NumPy reads it."""
    put("X_train.npy", npy('{"descr": "<f8", "fortran_order": False, "shape": (40, 6)}', X.astype("<f8").tobytes()))
    np.save("y_train.npy", Y)
    load("npy", "X_train.npy", "y_train.npy", "--test-share", "0")
    assert np.array_equal(made()[0], X.astype("f4"))


@pytest.mark.parametrize("kind", ("f8", "f4", "u1", "?", ">i4"))
def test_one_hot_labels(kind):
    """The class is the place of the 1; a column without a 1 is a class without a sample."""
    rows = np.eye(6)[Y].astype(kind)
    np.save("X_train.npy", X), np.save("X_test.npy", X[:10])
    np.save("y_train.npy", np.asfortranarray(rows)), np.save("y_test.npy", rows[:10])
    r = load("npy", "X_train.npy", "y_train.npy", "X_test.npy", "y_test.npy")
    assert "y_train.npy: labels y_train [40, 6] are one-hot" in r.stdout and "y_test.npy: labels y_test [10, 6] are one-hot" in r.stdout
    assert np.array_equal(made()[1], Y) and np.array_equal(made("test")[1], Y[:10]) and h5py.File("t.h5").attrs["classes"] == 6
    assert "2 of 6 classes have no training sample (4 to 5)" in r.stderr, r.stderr
    np.save("y_test.npy", rows[:10, :5])
    assert_one_error(load("npy", "X_train.npy", "y_train.npy", "X_test.npy", "y_test.npy", code=7),
                     "y_test have 5 numbers per sample, y_train of y_train.npy has 6")


def cure(r):
    """Types the command of a message."""
    subprocess.run(re.search(r'as (\S*python3 -c ".*") does, and give 2-', r.stderr)[1], shell=True, check=True)


@pytest.mark.parametrize("archive", (False, True))
@pytest.mark.parametrize("form", ("ragged", "objects", "clips", "complex", "wide", "turned", "planes"))
def test_cures_of_both_splits(form, archive):
    """Arrays that are not read, in both splits: one command mends all, in an archive or in files, with every number in its place."""
    r = np.random.default_rng(3)
    rows = [r.standard_normal(3 + i % 4) for i in range(50)]
    raw = {"clips": r.standard_normal((50, 5, 2, 6, 3)), "complex": r.standard_normal((50, 4)) + 1j * r.standard_normal((50, 4)),
           "wide": r.standard_normal((50, 4)).astype("g"), "turned": r.standard_normal((50, 4)), "planes": r.standard_normal((50, 20, 6, 7))}
    if form in ("ragged", "objects"):
        raw[form] = np.empty(50, dtype=object)
        raw[form][:] = rows if form == "ragged" else [row[:3] for row in rows]
    x = raw[form]
    want = {"ragged": np.array([np.pad(row, (0, 6 - len(row))) for row in rows]), "objects": np.array([row[:3] for row in rows]),
            "clips": np.moveaxis(raw["clips"], -1, 1).reshape(50, 15, 2, 6), "complex": np.hstack([raw["complex"].real, raw["complex"].imag]),
            "wide": raw["wide"], "turned": raw["turned"], "planes": raw["planes"].reshape(50, 1, 120, 7)}[form].astype("f4")
    y = np.arange(50) % 3
    turn = (lambda v: v.T) if form == "turned" else (lambda v: v)
    arrays = {"X_train": turn(x[:40]), "y_train": y[:40], "X_test": turn(x[40:]), "y_test": y[40:]}
    if archive:
        np.savez("s.npz", **arrays)
        files = ["s.npz"]
    else:
        for name, values in arrays.items():
            np.save(f"{name}.npy", values)
        files = [f"{name}.npy" for name in arrays]
    cure(load("npy", *files, code=7))
    load("npy", *(f"2-{f}" if archive or f[0] == "X" else f for f in files))
    assert (made()[0] == want[:40]).all() and (made("test")[0] == want[40:]).all()
    assert made()[1].tolist() == y[:40].tolist() and made("test")[1].tolist() == y[40:].tolist()


def test_other_words():
    """Where no name is clear, words beside those of a role do not matter."""
    for name, values in {"mnist_x_train": X, "mnist_y_train": Y, "mnist_x_test": X[:7], "mnist_y_test": Y[:7]}.items():
        np.save(f"{name}.npy", values)
    r = load("npy", *(f"mnist_{k}.npy" for k in ("x_train", "y_train", "x_test", "y_test")))
    assert "train/x is mnist_x_train, train/y is mnist_y_train" in r.stdout and len(made("test")[1]) == 7
    assert np.array_equal(made()[0], X.astype("f4"))


@pytest.mark.parametrize("splits", (False, True))
def test_arrays_in_folders(splits):
    """An array for each sample, in folders of the classes: one command makes the data set, with zeros where an array is smaller."""
    r = np.random.default_rng(4)
    want = {"train": [], "test": []}
    for split in ("train", "test") if splits else ("train",):
        for k, label in enumerate(("9", "10")):
            for i in range(4):
                v = r.standard_normal((3, 4 + (i == 2))).astype("f4")
                path = f"my set/{split}/{label}" if splits else f"my set/{label}"
                os.makedirs(path, exist_ok=True)
                np.save(f"{path}/{i}.npy", v)
                want[split].append((k, np.pad(v, ((0, 0), (0, 5 - v.shape[1]))).tobytes()))
    r = load("npy", "my set", code=7)
    assert_one_error(r, "the folder my set has no file called like *.npy, *.npz; its folders have them, as of a class each")
    command = r.stderr.strip().split("numbers the classes: ")[1].replace("&& shoal ", f"&& {shlex.quote(program())} ")
    subprocess.run(command, shell=True, check=True)
    with h5py.File("my set-joined.h5") as f:
        got = {s: [(k, x.tobytes()) for k, x in zip(f[f"{s}/y"], f[f"{s}/x"])] if s in f else [] for s in ("train", "test")}
    if splits:
        assert {s: sorted(v) for s, v in got.items()} == {s: sorted(v) for s, v in want.items()}
    else:
        assert sorted(got["train"] + got["test"]) == sorted(want["train"])


PICKLED = {  # what a script pickles; whether tests are among it
    "dict": (lambda x, y: {"X_train": x[:30], "y_train": y[:30], b"X_test": x[30:], b"y_test": y[30:]}, True),
    "pair": (lambda x, y: (x, y), False),
    "splits": (lambda x, y: ((x[:30], y[:30]), (x[:5], y[:5]), (x[30:], y[30:])), True),
    "four": (lambda x, y: [x[:30], x[30:], y[:30], y[30:]], True),
    "keras": (lambda x, y: (x[:30], y[:30], x[30:], y[30:]), True),
}


@pytest.mark.parametrize("how, form", [("plain", form) for form in PICKLED] + [("gzip", "pair"), ("torch", "splits")])
def test_pickled(how, form):
    """Pickles and files of PyTorch are not loaded; the command, for who trusts them, makes a data set of what is in them."""
    make_it, tests = PICKLED[form]
    if how == "torch":
        torch = pytest.importorskip("torch")
        what = make_it(torch.from_numpy(X.astype("f4")), torch.from_numpy(Y))
        torch.save(what, "my set.pt")
    else:
        what = pickle.dumps(make_it(X.astype("f4"), Y))
        put("my set.pt", gzip.compress(what) if how == "gzip" else what)
    r = load("npy", "my set.pt", code=7)
    assert_one_error(r, "my set.pt is a ", "if you trust who made it, ")
    assert r.stderr == load("npy", "my set.pt", code=7).stderr
    command = re.search("python3 (-c .*) makes a data set of its arrays", r.stderr)[1]
    subprocess.run(f"{shlex.quote(sys.executable)} {command}".replace("&& shoal ", f"&& {shlex.quote(program())} "), shell=True, check=True)
    with h5py.File("my set.pt.h5") as f:
        got = {s: list(zip(f[f"{s}/y"], map(bytes, f[f"{s}/x"]))) for s in ("train", "test")}
    want = list(zip(Y, map(bytes, X.astype("f4"))))
    if tests:
        assert got == {"train": want[:30], "test": want[30:]}
    else:
        assert sorted(got["train"] + got["test"]) == sorted(want)


@pytest.mark.parametrize("form", ("commas", "spaces", "pandas"))
def test_labels_beside(form):
    """Features and labels in tables of their own: the command joins them row by row, and imports what it made."""
    x, y = np.random.default_rng(1).standard_normal((30, 3)).round(4), np.arange(30) % 3
    for split, rows in (("train", slice(20)), ("test", slice(20, 30))):
        for name, values in (("X", x[rows]), ("y", y[rows, None])):
            ends = {"commas": ",", "spaces": "  ", "pandas": ","}[form]
            lines = [ends.join(map(str, row)) for row in values]
            if form == "pandas":
                head = "," + (",".join("abc") if name == "X" else "species")
                lines = [head] + [f"{i},{line}" for i, line in enumerate(lines)]
            put(f"my data/{name}_{split}.csv", ("\n".join(("  " if form == "spaces" else "") + line for line in lines) + "\n").encode())
    r = load("csv", *(f"my data/{n}_{s}.csv" for s in ("train", "test") for n in "Xy"), code=7)
    assert_one_error(r, "my data/X_train.csv has features and my data/y_train.csv their labels, by their names")
    command = r.stderr.strip().split("imports that: ")[1].replace("&& shoal ", f"&& {shlex.quote(program())} ")
    subprocess.run(command, shell=True, check=True)
    for split, rows in (("train", slice(20)), ("test", slice(20, 30))):
        assert np.array_equal(made(split)[0], x[rows].astype("f4")) and made(split)[1].tolist() == y[rows].tolist()


SHAPED = (  # arrays whose names do not tell; which are samples and labels, or None
    ({"fea": X, "gnd": Y[:, None], "subject": np.ones((1, 1))}, "fea", "gnd"),
    ({"a": X, "b": Y}, "a", "b"),
    ({"a": Y[None].astype("f8"), "b": X, "few": X[:, :2]}, "b", "a"),
    ({"id": np.arange(40), "spectra": X, "kind": Y}, "spectra", "kind"),
    ({"data_norm": X, "classlabel": Y, "other": np.arange(40) % 2}, "data_norm", "classlabel"),
    ({"images": X, "gnd": Y, "age": np.arange(40)}, "images", "gnd"),
    ({"a": X, "b": X[:, :3]}, None, None),
    ({"a": X, "b": Y[:39]}, None, None),
)


@pytest.mark.parametrize("arrays, x, y", SHAPED, ids=range(len(SHAPED)))
def test_by_shape(arrays, x, y):
    """Where names do not tell, shapes do, and it is told; labels may be in a row or a column."""
    np.savez("s.npz", **arrays)
    r = load("npy", "s.npz", "--test-share", "0", code=0 if x else 7)
    if not x:
        return assert_one_error(r, "no training samples, for there are 2 arrays")
    assert f"train/x is {x}, train/y is {y}" in r.stdout
    assert np.array_equal(made()[0], X.astype("f4")) and np.array_equal(made()[1], Y)
    for unused in set(arrays) - {x, y}:
        assert f"array {unused} is not used" in r.stdout


REFUSED = (  # contents of X_train.npy, of y_train.npy (arrays or bytes), words
    (np.array([1, "a"], dtype=object), Y, "holds Python objects, which are not loaded"),
    (X, np.array(["a", "b"] * 20), "holds text; samples are numbers, and labels class numbers from 0: write class numbers, as "),
    (X.astype("g"), Y, "has type '<f16'"),
    (X + 1j, Y, "array X_train holds complex numbers: save real ones"),
    (X, np.eye(4)[Y] + np.eye(4)[0], "row 0 of labels y_train is not one-hot: it has other numbers than 0 and 1"),
    (X, np.maximum(np.eye(4)[Y], np.eye(4)[0]), "row 1 of labels y_train has more than one 1: several classes per sample"),
    (X, np.eye(4)[Y] * (np.arange(40) != 7)[:, None], "row 7 of labels y_train has no 1"),
    (X.T, Y, "X_train has 6 rows, y_train has 40 labels, as many as the last dimension of X_train: rows must be samples; turn it, as "),
    (X, Y[:39], "X_train has 40 samples, y_train has 39 labels"),
    (X, Y / 2, "label 1 of y_train is 0.5; classes are whole numbers"),
    (X, np.where(np.arange(40) == 7, np.nan, Y), "label 7 of y_train is nan; classes are whole numbers from 0: remove samples without"),
    (X, Y - 1, "4 to 4"),
    (X, Y.astype("u8") * 2**40, "classes are small numbers"),
    (np.where(np.arange(240).reshape(40, 6) == 17, np.nan, X), Y, "sample 2 of X_train has nan, which is not finite in f32, as feature 5: remove such samples, or fill"),
    (np.full((40, 2), 1e300), Y, "which is not finite in f32, as feature 0: divide"),
    (np.zeros((0, 3)), Y, "X_train.npy: no rows in X_train: give arrays that have some"),
    (np.zeros((0, 3)), np.zeros(0), "X_train.npy: no rows in X_train, y_train: give"),
    (np.zeros((40, 0)), Y, "array X_train has shape (40, 0), so its rows hold nothing"),
    (np.zeros((40, 2, 2, 2, 2)), Y, "has shape (40, 2, 2, 2, 2); arrays of 1 to 4 dimensions are read: make images [4, 2, 2], with their planes as channels, as "),
    (b"text", Y, "is not a NumPy array"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (40, 6)}", bytes(100)), Y, "X_train has 960 bytes of numbers by its header, but the file can hold 100: "),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4)}"), Y,
     "has shape (4294967296, 4294967296, 4) by its header, more than 64 bits count: it is damaged"),
    (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 1073741824)}"), Y, "more bytes than 64 bits count"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-40, -6)}"), Y, "has shape (-40, -6) by its header, which no array has"),
    (npy("{'descr': '<f999', 'fortran_order': False, 'shape': (40, 6)}"), Y, "says type '<f999', which NumPy has not: it is damaged"),
    (npy("{'descr': '<i0', 'fortran_order': False, 'shape': (40, 6)}"), Y, "says type '<i0', which NumPy has not: it is damaged"),
    (npy("{'descr': '|V2', 'fortran_order': False, 'shape': (40, 6)}"), Y, "holds raw bytes ('|V2'), as types that NumPy does not know"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (40, 1000000000000)}"), Y, "has 160000000000000 bytes of numbers by its header, but the file can hold 0:"),
    (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (40,)}"), Y, "structured data"),
    (npy("{}"), Y, "does not say its type"),
    (b"\x93NUMPY\x01\x00\xff\xff{", Y, "says that its header has 65535 bytes, but it ends after 1 of them"),
    (b"\x93NUMPY\x02\x00\xf0\xff\xff\xff{", Y, "says that its header has 4294967280 bytes; those of NumPy have some hundred"),
)


@pytest.mark.parametrize("x, y, words", REFUSED, ids=range(len(REFUSED)))
def test_npy_refused(x, y, words):
    for name, value in (("X_train.npy", x), ("y_train.npy", y)):
        if isinstance(value, bytes):
            with open(name, "wb") as f:
                f.write(value)
        else:
            np.save(name, value)
    r = load("npy", "X_train.npy", "y_train.npy", code=7)
    assert_one_error(r, "not in 0 to" if words == "4 to 4" else words)
    assert not os.path.exists("t.h5")


@pytest.mark.parametrize("archive", (False, True))
def test_npy_filled(archive):
    """Gaps are filled by the mean of the feature, of an archive in both splits by that of the training split."""
    x = np.arange(80.).reshape(40, 2)
    bad = x.copy()
    bad[3, 1], bad[5, 0] = np.nan, -np.inf
    arrays = {"X_train": bad, "y_train": Y, "X_test": bad[:9] + 1, "y_test": Y[:9]} if archive else {"X": bad, "y": Y}
    if archive:
        np.savez("set.npz", **arrays)
    else:
        for name, values in arrays.items():
            np.save(name, values)
    files = ("set.npz",) if archive else ("X.npy", "y.npy")
    r = load("npy", *files, code=7)
    subprocess.run(re.search(r'as (\S*python3 -c ".*") does, and give 2-', r.stderr)[1], shell=True, check=True)
    load("npy", f"2-{files[0]}", *files[1:], *(() if archive else ("--test-share", "0")))
    filled = np.where(np.isfinite(bad), bad, np.nanmean(np.where(np.isfinite(bad), bad, np.nan), 0))
    assert np.array_equal(made()[0], filled.astype("f4"))
    if archive:
        assert made("test")[0][3, 1] == np.float32(filled[3, 1]) and made("test")[0][4, 1] == bad[4, 1] + 1


def test_npz_damaged():
    """Flipped bits in the packed data, a cut archive, and a member that claims more than it can hold."""
    np.savez_compressed("good.npz", x=X, y=Y)
    with open("good.npz", "rb") as f:
        good = bytearray(f.read())
    for at, words in ((120, "bad.npz"), (None, "bad.npz is a zip archive that has no directory that fits it at its end: it was cut short")):
        bad = good[:] if at else good[:300]
        if at:
            bad[at] ^= 0xFF
        with open("bad.npz", "wb") as f:
            f.write(bad)
        assert_one_error(load("npy", "bad.npz", code=7), words)
    at = good.rfind(b"PK\1\2") + 20  # what the directory says of the packed size
    good[at] ^= 0xFF
    with open("bad.npz", "wb") as f:
        f.write(good)
    assert_one_error(load("npy", "bad.npz", code=7), "bad.npz is a zip archive that has no directory that fits it")
    with zipfile.ZipFile("twice.npz", "w") as z, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            z.writestr("x.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (40, 6)}", X.tobytes()))
    assert_one_error(load("npy", "twice.npz", code=7), "twice.npz is a zip archive that has two members of one name")


def test_empty_test_arrays():
    """As a split of 0 leaves them: left out, all named at once, and a test split is drawn; never beside half of one."""
    np.savez("t.npz", x_train=X, y_train=Y, x_test=np.array([]), y_test=np.array([]))
    r = load("npy", "t.npz")
    assert r.stderr.count("t.npz: no rows in x_test, y_test: left out\n") == 1 and "are the test split" in r.stdout
    np.savez("t.npz", x_train=X, y_train=Y, x_test=X, y_test=np.array([]))
    assert_one_error(load("npy", "t.npz", code=7), "t.npz: the test split has samples only")


def test_options_of_other_kinds():
    """Whose they are is said, and for missing values what helps instead."""
    np.savez("t.npz", x=X, y=Y)
    assert_one_error(load("npy", "t.npz", "--missing", "mean", code=2), "--missing does nothing for npy, it is for csv: leave it out",
                     "numpy.isfinite(x).all(1)")
    assert_one_error(load("npy", "t.npz", "--label", "y", code=2), "--label does nothing for npy, it is for csv: leave it out")
    assert_one_error(load("idx", "t.npz", "--seed", "1", code=2), "--seed does nothing for idx, it is for csv, npy, images: leave")


def test_npz_bomb():
    """100 KB that unpack to 100 MB of zeros: refused by both sizes; if they are right, the cure imports them in little memory."""
    n = 100_000
    np.savez_compressed("zeros.npz", X_train=np.zeros((n, 250), "f4"), y_train=np.arange(n) % 3)
    begin = time.monotonic()
    r = load("npy", "zeros.npz", code=7, **small(32))
    assert_one_error(r, "zeros.npz: array X_train unpacks to more than 250 times its size (", " KiB to 95.4 MiB or more)",
                     "unzip zeros.npz and import its .npy files")
    assert time.monotonic() - begin < 10 and not os.path.exists("t.h5")
    with zipfile.ZipFile("zeros.npz") as z:
        z.extract("X_train.npy")
        z.extract("y_train.npy")
    load("npy", "X_train.npy", "y_train.npy", "--test-share", "0", **small(32))
    with h5py.File("t.h5") as f:
        assert f["train/x"].shape == (n, 250) and np.array_equal(f["train/y"][:], np.arange(n) % 3)


@pytest.mark.parametrize("save", (np.savez, np.savez_compressed))
def test_npz_in_little_memory(save):
    """Members are read row by row; only Fortran order needs all of an array in memory, and says so."""
    x = np.repeat(np.arange(20_000, dtype="f4"), 300).reshape(20_000, 300)
    x[:, 7] = -1
    save("c.npz", x=x, y=np.arange(20_000) % 2)
    save("f.npz", x=np.asfortranarray(x), y=np.arange(20_000) % 2)
    load("npy", "c.npz", "--test-share", "0", **small(8))
    assert np.array_equal(made()[0], x)
    assert_one_error(load("npy", "f.npz", code=7, **small(8)), "f.npz: x would take 22.9 MiB of memory", "np.ascontiguousarray")
    load("npy", "f.npz", "--test-share", "0")
    assert np.array_equal(made()[0], x)


def test_npz_sizes_disagree():
    """The shape in a member's header and the archive's directory must say the same."""
    for rows, words in ((39, "array x has 936 bytes of numbers by its header, and 960 by the archive's directory"),
                        (41, "array x has 984 bytes of numbers by its header, but the archive's directory says 960:")):
        np.savez("bad.npz", y=Y)
        with zipfile.ZipFile("bad.npz", "a") as z:
            z.writestr("x.npy", npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 6)}}", X.tobytes()))
        assert_one_error(load("npy", "bad.npz", code=7), words)


def test_npy_one_large_label():
    """A class of 16 million among ten samples takes no memory for the classes between."""
    np.savez("large.npz", x=X[:10], y=np.array([0, 2**22] * 4 + [0, 2**24 - 1]))
    assert "is 16777215 (train sample 7, 1 in all) a mark" in load("npy", "large.npz", "--test-share", "0.2", **small(32)).stderr
    assert "1 class has no test sample (16777215)" in run([program(), "data", "inspect", "t.h5"], base=PLAIN_ENV).stderr
    assert sorted(made("test")[1]) == [0, 2**22]
    np.savez("stray.npz", x=X[:10], y=np.array([0, 1] * 4 + [0, 2**24 - 1]))
    r = load("npy", "stray.npz", code=7)
    assert_one_error(r, "sample 9 of /y has label 16777215, the largest of all others is 1")
    assert "attribute" not in r.stderr, "NumPy has none"
    a = dict(np.load("stray.npz"))
    exec(re.search(r"\((y = .*)\)$", r.stderr.strip())[1], {"numpy": np}, a)  # its cure
    np.savez("stray.npz", x=a["x"], y=a["y"])
    load("npy", "stray.npz", "--test-share", "0")
    assert made()[1].tolist() == [0, 1] * 4 + [0, 2]


def test_npy_time_stamps():
    np.savez("t.npz", x=np.arange(1.7e9, 1.7e9 + 40)[:, None] + [[0, 0]], y=Y)
    r = load("npy", "t.npz")
    assert "array x, feature 0: 39 of 40 numbers are too large for 32-bit floats" in r.stderr


def test_one_array_alone():
    """Labels that are not there, and arrays of a class each: what is missing is said, not that one of them is too many."""
    np.savez("one.npz", np.zeros((9, 2)))
    assert_one_error(load("npy", "one.npz", code=7), "there is 1 array: samples and labels are two")
    np.save("plane.npy", np.zeros((9, 2)))
    np.save("cat.npy", np.ones((5, 2)))
    np.savez("two.npz", cat=np.ones((5, 2)), plane=np.zeros((9, 2)))
    for files, joined in ((("cat.npy", "plane.npy"), "2-cat.npz"), (("two.npz",), "2-two.npz")):
        r = load("npy", *files, code=7)
        assert_one_error(r, "arrays of a class each are to be joined, with an array of labels")
        cure(r)
        load("npy", joined, "--test-share", "0")
        assert made()[1].tolist() == [0] * 5 + [1] * 9 and np.array_equal(made()[0][:, 0], [1] * 5 + [0] * 9)
    put("q/train-images-idx3-ubyte", struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(8))
    put("q/train-labels-idx2-int", struct.pack(">4B2I", 0, 0, 12, 2, 2, 8) + bytes(64))
    assert_one_error(load("idx", "q", code=7), "q/train-labels-idx2-int: byte 2 says element type 0x0c")


# ---- folders of files ----

def test_folders():
    """A folder stands for its files of the kind, in sorted order, with their splits."""
    batch = lambda k: b"".join(bytes([(k + i) % 10]) + bytes([k]) * 3072 for i in range(10))
    for k in (2, 1):
        put(f"c/data_batch_{k}.bin", batch(k))
    put("c/test_batch.bin.gz", gzip.compress(batch(3)))
    put("c/readme.html", b"<html>")
    r = load("cifar10", "c")
    assert "c: 3 files in this order: data_batch_1.bin, data_batch_2.bin, test_batch.bin.gz" in r.stdout
    assert made()[0][:, 0, 0, 0].tolist() == [1] * 10 + [2] * 10 and made("test")[0][0, 0, 0, 0] == 3
    for name, n in (("train", 6), ("t10k", 4)):
        put(f"m/{name}-images-idx3-ubyte", struct.pack(">4B3I", 0, 0, 8, 3, n, 2, 2) + bytes(range(4 * n)))
        put(f"m/{name}-labels-idx1-ubyte", struct.pack(">4BI", 0, 0, 8, 1, n) + bytes(i % 2 for i in range(n)))
    load("idx", "m")
    assert len(made()[1]) == 6 and len(made("test")[1]) == 4
    put("v/test.csv", b"1,0\n2,1\n")
    put("v/train.csv", b"3,0\n4,1\n5,0\n")
    load("csv", "v")
    assert made()[0][:, 0].tolist() == [3, 4, 5]
    assert_one_error(load("csv", "m", code=7), "the folder m has no file called like *.csv", "; it has t10k-images-idx3-ubyte, t10k-")
    put("py/batches.meta", b"\x80\x02")
    assert_one_error(load("cifar10", "py", code=7), "; it has batches.meta: this is the version for Python, pickles")
    os.makedirs("outer/a")
    os.rename("c", "outer/c")
    assert_one_error(load("cifar10", "outer", code=7), "the folder outer has no file called like data_batch", "outer/c has: give that")


def test_folders_packed_twins():
    """Who unpacks files and keeps them has no sample twice, given as a folder or one by one."""
    for name, n in (("train", 6), ("t10k", 4)):
        for kind, data in (("images-idx3", struct.pack(">4B3I", 0, 0, 8, 3, n, 2, 2) + bytes(range(4 * n))),
                           ("labels-idx1", struct.pack(">4BI", 0, 0, 8, 1, n) + bytes(i % 2 for i in range(n)))):
            put(f"m/{name}-{kind}-ubyte", data)
            put(f"m/{name}-{kind}-ubyte.gz", gzip.compress(data))
    for sources in (["m"], sorted(f"m/{name}" for name in os.listdir("m"))):
        r = load("idx", *sources)
        assert len(made()[1]) == 6 and len(made("test")[1]) == 4
        assert r.stderr.count("is left out: it packs m/") == 4
    os.remove("m/t10k-images-idx3-ubyte")
    load("idx", "m")
    assert len(made("test")[1]) == 4


def test_other_cifar():
    """A file of the other kind is known by its size, and an empty array is said to be empty."""
    for kind, labels, other in (("cifar10", 2, "cifar100"), ("cifar100", 1, "cifar10")):
        put("train.bin", (bytes([3] * labels) + bytes(3072)) * 20)
        assert_one_error(load(kind, "train.bin", code=7), f"are 20 records of {3072 + labels}; import it as {other}")
        load(other, "train.bin")
    put("X.npy", b"")
    np.save("y.npy", Y)
    assert_one_error(load("npy", "X.npy", "y.npy", code=7), "X is empty (0 bytes)")


def test_idx_sizes():
    """What a header says is compared with what the file holds, unpacked, and both are told."""
    images = lambda n: struct.pack(">4B3I", 0, 0, 8, 3, n, 28, 28) + bytes(range(200)) * 392
    put("labels-idx1-ubyte", struct.pack(">4BI", 0, 0, 8, 1, 100) + bytes(k % 10 for k in range(100)))
    for n in (2**32 - 1, 101):
        put("images-idx3-ubyte.gz", gzip.compress(images(n)))
        r = load("idx", "images-idx3-ubyte.gz", "labels-idx1-ubyte", code=7)
        assert_one_error(r, *(["images-idx3-ubyte.gz is cut short at unpacked byte 78416: item 100 of 4294967295 is incomplete"]
                              if n > 101 else ["images-idx3-ubyte.gz has 101 images, but labels-idx1-ubyte has 100 labels"]))
    put("images-idx3-ubyte", struct.pack(">4B3I", 0, 0, 8, 3, 100, 1 << 31, 1 << 31) + bytes(78400))
    assert_one_error(load("idx", "images-idx3-ubyte", "labels-idx1-ubyte", code=7),
                     "dimension 1 at byte 8 is 2147483648, expected 1 to 4096; the file has 78416 bytes")


ALIENS = (  # first bytes, words of what it is, words of the cure
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS", "git lfs pull"),
    (b"\n<!DOCTYPE HTML>\n<html>,</html>\n", "a web page", "get it again"), (b"\xfd7zXZ\0" + bytes(9), "packed with xz", "xz -dc "),
    (b"BZh91AY&SY" + bytes(9), "packed with bzip2", "bzip2 -dc "), (b"\x28\xb5\x2f\xfd" + bytes(9), "packed with zstd", "zstd -dc "),
    (gzip.compress(gzip.compress(b"1,2\n")), "packed twice with gzip", "zcat "), (b"PAR1" + bytes(9), "a Parquet table", "read_parquet('"),
    (b"PK\3\4" + bytes(26) + b"[Content_Types].xml", "a spreadsheet", "save it as CSV"),
    (b"PK\3\4" + bytes(26) + b"a.csv", "a zip archive", "unzip -d FOLDER "), (b"\x80\4\x95" + bytes(9), "a Python pickle", "numpy.savez"),
    (b'{"a": 1, "b": 2}\n', "JSON", "read_json('"), (b'[{"a": 1, "b": 2}]', "JSON", "read_json('"),
    (bytes(257) + b"ustar" + bytes(9), "a tar archive", "tar --one-top-level=FOLDER -xf "), (b"CDF\1" + bytes(9), "a file of netCDF 3", "nccopy -k nc4 "),
    (b"\x89HDF\r\n\x1a\n" + bytes(9), "an HDF5 file", "data.file takes it"), (b"\x89PNG\r\n\x1a\n" + bytes(9), "an image", "import images"),
)


@pytest.mark.parametrize("contents, what, cure", ALIENS, ids=[a[1] for a in ALIENS])
def test_aliens(contents, what, cure):
    """A file of another kind is named, with what to do, in every import of tables and arrays, and as a data set."""
    put("a file", contents)
    for kind in ("csv", "idx"):
        r = load(kind, "a file", code=7)
        assert_one_error(r, f"a file is {what}", cure)
        assert "a file" in r.stderr.partition(cure)[2] or cure[-1] != " ", r.stderr
    if "PNG" not in str(contents) and "HDF" not in str(contents) and not contents.startswith(b"PK"):
        assert_one_error(run([program(), "data", "inspect", "a file"], base=PLAIN_ENV, code=7), f"a file is {what}", cure)


def archive(kind, path, member, text):
    """A file of that kind, whatever its name says, that holds `text`, as `member` where it has members."""
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr(member, text)
    elif kind == "tar":
        with tarfile.open(path, "w") as t:
            info = tarfile.TarInfo(member)
            info.size = len(text)
            t.addfile(info, io.BytesIO(text))
    else:
        put(path, {"xz": lzma.compress, "bzip2": bz2.compress, "gzip": lambda b: gzip.compress(gzip.compress(b))}[kind](text))


@pytest.mark.parametrize("kind", ("zip", "tar", "xz", "bzip2", "gzip"))
def test_unpacked_as_told(kind):
    """The printed command works as it stands, without a terminal, of an archive with the name of what it holds."""
    archive(kind, "a list.csv", "a list.csv", "".join(f"{i},{i % 2}\n" for i in range(40)).encode())
    with open("a list.csv", "rb") as f:
        before = f.read()
    r = load("csv", "a list.csv", code=7)
    run(["sh", "-c", re.search(r"a list.csv is [^:]*: (.*) unpacks it", r.stderr)[1]], base=PLAIN_ENV, stdin=subprocess.DEVNULL)
    with open("a list.csv", "rb") as f:
        assert f.read() == before
    made_of = "FOLDER" if kind in ("zip", "tar") else "NEW"
    run([program(), "data", "import", "csv", made_of], base=PLAIN_ENV, timeout=30)
    assert os.path.exists(f"{made_of}.h5")  # without -o


def test_matlab_as_told():
    """Arrays of MATLAB's own format: the printed command makes a data set of them."""
    scipy = pytest.importorskip("scipy.io")
    scipy.savemat("a set.mat", {"X_train": X, "y_train": Y[:, None].astype("f8"), "about": "text"})
    r = run([program(), "data", "inspect", "a set.mat"], base=PLAIN_ENV, code=7)
    assert_one_error(r, "a set.mat is a MATLAB file of version 5: save it in MATLAB with -v7.3")
    command = re.search(r"or (\S*python3 .*) makes a data set", r.stderr)[1]
    run(["sh", "-c", f"shoal() {{ {program()} \"$@\"; }}; {command}"], base=PLAIN_ENV, timeout=30)
    with h5py.File("a set.mat.h5") as f:
        assert f["train/x"].shape[1:] == (6,) and len(f["train/x"]) + len(f["test/x"]) == 40


def test_documented_layout():
    """The lines of h5py in docs/data-layout.md make a data set."""
    with open(f"{ROOT}/docs/data-layout.md") as f:
        lines = f.read().split("```python\n")[1].split("```")[0]
    exec(lines, {"x_train": X[:30], "y_train": Y[:30], "x_test": X[30:], "y_test": Y[30:]})
    assert run([program(), "data", "inspect", "set.h5"], base=PLAIN_ENV, timeout=30).stderr == ""
