"""Numbers that are to be predicted (`--target`): what an import makes of them, what is refused, and how they come through other verbs."""
import json
import os
import re
import subprocess

import h5py
import numpy as np
import pytest
from harness import PLAIN_ENV, assert_one_error, program, run

HEAD = "size,rooms,price\n"
PRICES = [f"{100000 + 137 * i}.25" for i in range(40)]
ROWS = HEAD + "".join(f"{i}.5,{i % 7},{p}\n" for i, p in enumerate(PRICES))


def shoal(*args, **options):
    return run([program(), *args], base=PLAIN_ENV, timeout=60, **options)


def load(text, *args, code=0, out="t.h5"):
    with open("t.csv", "w") as f:
        f.write(text)
    return shoal("data", "import", "csv", "t.csv", "-o", out, *args, code=code)


def rows(path="t.h5"):
    """All samples, as (features..., targets...), in no order."""
    with h5py.File(path) as f:
        return sorted((*x, *np.atleast_1d(t)) for s in ("train", "test") for x, t in zip(f[f"{s}/x"][:].tolist(), f[f"{s}/targets"][:].tolist()))


EXACT = [(i + 0.5, i % 7, float(p)) for i, p in enumerate(PRICES)]
TABLES = (  # text, arguments: all are the same table
    (ROWS, ("--target", "price")),
    (ROWS, ("--target", "3")),
    (ROWS.replace("price", "label"), ("--target", "label")),
    (ROWS.split("\n", 1)[1], ("--target", "3")),
    (ROWS.replace(",", ";").replace(".", ","), ("--target", "price")),
    ("size,price,rooms\n" + "".join(f"{i}.5,{p},{i % 7}\n" for i, p in enumerate(PRICES)), ("--target", "price")),
)


@pytest.mark.parametrize("text, args", TABLES, ids=range(len(TABLES)))
def test_understood(text, args):
    """The column of the target may be anywhere, and all digits of a price stay."""
    r = load(text, *args)
    assert "the target is column" in r.stdout and "4 of 40 samples, drawn at random, are the test split" in r.stdout
    assert rows() == EXACT
    with h5py.File("t.h5") as f:
        assert f["train/targets"].dtype == "f8" and "train/y" not in f and "classes" not in f.attrs


def test_shown():
    """Range, mean and deviation are of the training split, in the import, in the table and in JSON."""
    r = load(ROWS, "--target", "price")
    with h5py.File("t.h5") as f:
        y = f["train/targets"][:, 0]
    assert f'target 3, "price": {y.min():.9g} to {y.max():.9g}, mean {y.mean():.6g}, standard deviation {y.std():.6g} in 36 training rows' in r.stdout
    assert "features, 1 target" in r.stdout and "-> 100000.25" in r.stdout
    told = json.loads(shoal("data", "inspect", "t.h5", "--json").stdout)
    assert [t["name"] for t in told["targets"]] == ["price"] and "classes" not in told and told["checksum_ok"]
    assert [told["targets"][0][k] for k in ("mean", "std", "least", "most")] == pytest.approx([y.mean(), y.std(), y.min(), y.max()], rel=1e-12)


def test_split():
    """Drawn at random, the same for the same seed; files by their names; --train-count cuts in order."""
    load(ROWS, "--target", "price", "--test-share", "0.25")
    with h5py.File("t.h5") as f:
        first = f["test/targets"][:, 0].tolist()
    assert len(first) == 10 and first != [float(p) for p in PRICES[30:]]
    load(ROWS, "--target", "price", "--test-share", "0.25")
    with h5py.File("t.h5") as f:
        assert f["test/targets"][:, 0].tolist() == first
    load(ROWS, "--target", "price", "--train-count", "30")
    with h5py.File("t.h5") as f:
        assert f["test/targets"][:, 0].tolist() == [float(p) for p in PRICES[30:]]


REFUSED = (  # text, arguments, words of the error
    (ROWS, (), 't.csv:2:7: label 100000.25 is not a class; classes are integers or text: if column 3, "price" has the numbers that are to be '
               "predicted (regression), give --target 3; else"),
    (ROWS.replace(".25", ""), (), 't.csv: column 3, "price" has 40 different labels in 40 rows: if it has numbers that are to be predicted '
                                  "(regression), give --target 3; else name the column of the label with --label"),
    (ROWS.replace(".25", ""), ("--label", "price"), "give --target 3;"),
    (ROWS, ("--target", "prize"), 'no column "prize"'),
    (ROWS, ("--target", "price", "--target", "3"), 'column 3, "price" is given by --target twice'),
    (ROWS, ("--target", "price", "--drop", "price"), 'column 3, "price" is a target and cannot be dropped'),
    (ROWS + "1,1,\n", ("--target", "price"), 't.csv:42:5: the target is missing (column 3, "price"): remove all such rows, as'),
    (ROWS + "1,1,NA\n", ("--target", "price", "--missing", "drop"), "the target is missing"),
    (ROWS + "1,1,inf\n", ("--target", "price"), 'the target is infinite (column 3, "price"): remove all such rows, as'),
    (ROWS + "1,1,$5\n", ("--target", "price"), "has a sign that is no part of a number: remove it, as sed 's/[$]//g' t.csv >NEW does"),
    (ROWS + "1,1,cheap\n", ("--target", "price"), '"cheap" in column 3, "price" is not a number'),
    (HEAD + "1,2,7\n2,2,7\n" * 9, ("--target", "price"), 'column 3, "price" is 7 in all 17 training rows: there is nothing to learn'),
)


def test_missing():
    """The command that is printed leaves out the rows without a target, and no other."""
    r = load(ROWS + "1,1,\n2,2,NA\n3,3,#N/A\n4,4,7.5\n", "--target", "price", code=7)
    subprocess.run(re.search(r"remove all such rows, as (\S*python3 -c '[^']*' t.csv NEW) does", r.stderr)[1], shell=True, check=True)
    with open("NEW") as f:
        assert f.read() == ROWS + "4,4,7.5\n"


@pytest.mark.parametrize("text, args, words", REFUSED, ids=range(len(REFUSED)))
def test_refused(text, args, words):
    assert_one_error(load(text, *args, code=None), words)


def test_whole_prices():
    """Few enough to be classes, and too many to be meant so: a warning has the way."""
    text = HEAD + "".join(f"{i}.5,{i % 7},{100000 + 500 * (i % 60)}\n" for i in range(240))
    told = 'column 3, "price" has 60 different whole numbers, each of which becomes a class: if numbers are to be predicted (regression), give --target 3'
    assert told in load(text).stderr
    assert "--target" not in load(text, "--target", "price").stderr + load(ROWS.replace("price", "y"), "--label", "rooms").stderr
    with h5py.File("h.h5", "w") as f:
        f["train/x"], f["train/y"] = np.zeros((300, 2), "f4"), 1000 + 7 * np.arange(300)
    assert "if they are numbers that are to be predicted (regression), make them targets" in shoal("data", "inspect", "h.h5").stderr


def test_options():
    r = load(ROWS, "--target", "price", "--label", "rooms", code=2)
    assert_one_error(r, "--label is for a column of classes, --target for columns of numbers that are to be predicted")
    assert_one_error(shoal("data", "import", "text", "t.csv", "-o", "t.h5", "--target", "1", code=2), "--target does nothing for text, it is for csv, npy")


def test_other_verbs():
    """Repacked, joined of several files, and in files of h5py's usual types, they are the same numbers."""
    load(ROWS, "--target", "price")
    shoal("data", "repack", "t.h5", "-o", "again.h5")
    assert rows("again.h5") == EXACT
    with h5py.File("t.h5") as a, h5py.File("again.h5") as b:
        assert a.attrs["checksum"] == b.attrs["checksum"] and b.attrs["target_names"] in (b"price", "price")
    with h5py.File("t.h5") as f:
        x, y = f["train/x"][:], f["train/targets"][:, 0]
    for name, part in (("one.h5", slice(0, 10)), ("two.h5", slice(10, None))):
        with h5py.File(name, "w") as f:
            f["train/x"], f["train/targets"] = x[part], y[part].astype("f4")
    told = json.loads(shoal("data", "inspect", "one.h5", "two.h5", "--json").stdout)
    target = told["targets"][0]
    assert [target[k] for k in ("mean", "std", "least", "most")] == pytest.approx([y.mean(), y.std(), y.min(), y.max()], rel=1e-6)
    shoal("data", "repack", "one.h5", "two.h5", "-o", "both.h5")
    with h5py.File("both.h5") as f:
        assert f["train/targets"][:, 0].tolist() == y.astype("f4").tolist()
    with h5py.File("two.h5", "a") as f:
        del f["train/targets"]
        f["train/targets"] = np.zeros((len(x) - 10, 2))
    assert_one_error(shoal("data", "inspect", "one.h5", "two.h5", code=7), "the first has 1 target per sample, the other 2")


def test_damaged():
    """A price that was changed is found by its check sum, before step 1 and by inspect."""
    load(ROWS, "--target", "price")
    with h5py.File("t.h5", "a") as f:
        f["train/targets"][3] += 1
    assert_one_error(shoal("data", "inspect", "t.h5", code=7), "t.h5: /train/targets is damaged: check sum")


def test_numpy():
    """--target names the array; fractions alone are refused with it."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 1, (30, 4)).astype("f4"), rng.normal(1000, 50, (30, 2))
    np.savez("set.npz", X_train=x[:20], y_train=y[:20], X_test=x[20:], y_test=y[20:])
    shoal("data", "import", "npy", "set.npz", "-o", "t.h5", "--target", "y_train")
    with h5py.File("t.h5") as f:
        assert f["train/targets"][:].tolist() == y[:20].tolist() and f["test/targets"][:].tolist() == y[20:].tolist()
    np.save("X.npy", x)
    for values in (y[:, 0], y[:, 0].astype(int)):
        np.save("y.npy", values)
        shoal("data", "import", "npy", "X.npy", "y.npy", "-o", "t.h5", "--target", "y")
        assert len(rows()) == 30 and sorted(r[-1] for r in rows()) == sorted(values)
    np.save("y.npy", y[:, 0])
    assert_one_error(shoal("data", "import", "npy", "X.npy", "y.npy", "-o", "t.h5", code=7), "give --target y")
    assert_one_error(shoal("data", "import", "npy", "X.npy", "y.npy", "-o", "t.h5", "--target", "X", code=2), "--target X is no array of labels: that is y")
    np.save("y.npy", np.where(np.arange(30) == 7, np.nan, y[:, 0]))
    assert_one_error(shoal("data", "import", "npy", "X.npy", "y.npy", "-o", "t.h5", "--target", "y", code=7), "target 0 of sample 7 in y is nan")


def test_like_one_row():
    """A table to be predicted may have one row, with its target: it is imported, and told that nothing can be learnt from it."""
    load(ROWS, "--target", "price", out="base.h5")
    r = load("\n".join(ROWS.splitlines()[:2]) + "\n", "--like", "base.h5")
    assert "t.h5: price is 100000.25 in all 1 training samples: there is nothing to learn" in r.stderr and r.stderr.count("\n") == 1
    assert rows() == EXACT[:1]
    load(HEAD + "1,2,7\n2,3,7\n", "--like", "base.h5")
    assert rows() == [(1, 2, 7), (2, 3, 7)]
    r = run([program(), "data", "repack", "t.h5", "-o", "copy.h5"], base=PLAIN_ENV)
    assert "t.h5: price is 7 in all 2 training samples: there is nothing to learn" in r.stderr and os.path.exists("copy.h5")
    assert "--seed does nothing beside --like" in load(ROWS, "--like", "base.h5", "--seed", "3", code=2).stderr
