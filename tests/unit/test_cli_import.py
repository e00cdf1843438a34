"""`shoal data import csv` with tables as people have them: what is understood, what is warned of, what is refused."""
import csv
import gzip
import os
import re
import resource
import struct
import subprocess
import time

import h5py
import numpy as np
import pytest

from harness import PLAIN_ENV, assert_one_error, program, random_source, run
from importing import made, put

ROWS = "".join(f"{i}.5,{i % 7},{i % 2}\n" for i in range(40))
STAMPS = "".join(f"{1700000001 + i},{i % 7},{i % 2}\n" for i in range(40))
CLOSE = "".join(f"{1000 + i % 3 / 1e5},{i % 7},{i % 2}\n" for i in range(40))


def npy_header(descr, shape):
    """What is before the elements of a .npy file."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def labels(*names):
    """A table whose last column takes these labels in turn."""
    return "".join(f"{i}.5,{i % 7},{names[i % len(names)]}\n" for i in range(40))


def load(text, *args, name="t.csv", code=0, encoding="utf-8"):
    with open(name, "w", newline="", encoding=encoding) as f:
        f.write(text)
    return run([program(), "data", "import", "csv", name, "-o", "t.h5", *args], base=PLAIN_ENV, timeout=30, code=code)


def samples():
    """All samples of the file that was made, as (features..., class), in no order."""
    with h5py.File("t.h5") as f:
        return sorted((*x, y) for s in ("train", "test") for x, y in zip(f[f"{s}/x"][:].tolist(), f[f"{s}/y"][:].tolist()))


UNDERSTOOD = (  # text, arguments, words printed, number of features, smallest sample
    (ROWS, (), "separated by commas; no header; the label is column 3; features are the other 2", (0.5, 0, 0)),
    (ROWS, ("--label", "2"), "the label is column 2", (0.5, 0, 0)),
    (ROWS, ("--drop", "2"), "features are the other 1; dropped: 2", (0.5, 0)),
    ("a,b,y\n" + ROWS, (), 'the first row is the header; the label is column 3, "y"', (0.5, 0, 0)),
    ("a,b,y\n" + ROWS, ("--drop", "a"), "dropped: 1", (0, 0)),
    ("a,b,y\n" + ROWS, ("--drop", "a", "--label", "b"), 'the label is column 2, "b"; features are the other 1', (0, 0)),
    ("a,b,kind\n" + labels("cat", "dog"), (), "labels become classes 0 to 1 in sorted order: cat", (0.5, 0, 0)),
    ("1999,2000,kind\n" + labels("cat", "dog"), ("--header", "yes"), "the first row is the header", (0.5, 0, 0)),
    ("a,b,y,\n" + ROWS.replace("\n", ",\n"), (), "the label is column 3", (0.5, 0, 0)),
    ("a b y\n" + ROWS.replace(",", " "), ("--separator", " "), "separated by spaces", (0.5, 0, 0)),
    (ROWS.replace(",", "\t"), ("--separator", "tab"), "separated by tabs", (0.5, 0, 0)),
    ("a;b;y\n" + ROWS.replace(",", ";").replace(".", ","), ("--decimal", ","), "with a decimal comma", (0.5, 0, 0)),
    ('a,b,y\n' + '"0,5",1,0\n' * 40, (), "separated by commas, with a decimal comma", (0.5, 1, 0)),
)


@pytest.mark.parametrize("text, args, words, smallest", UNDERSTOOD, ids=range(len(UNDERSTOOD)))
def test_understood(text, args, words, smallest):
    r = load(text, *args)
    assert words in r.stdout
    assert "first row: " in r.stdout and "last row: " in r.stdout
    assert len(samples()) == 40 and samples()[0] == smallest


WARNED = (  # text, arguments, words of a warning
    ("".join(f"{i % 9},{'AB'[i >= 30]}\n" for i in range(40)), ("--train-count", "30"),
     "sorted by label when it was cut? Drawn from each class instead of by --train-count: shoal data import csv t.csv --test-share 0.25 -o NEW.h5"),
    ("a,b,y,\n" + ROWS.replace("\n", ",\n"), (), 'column 4, "" is empty: dropped'),
    ("id,b,y\n" + "".join(f"{i},{i * i % 7},{i % 2}\n" for i in range(40)), (), "counts the rows: if it is an index"),
    ("".join(f"{i},{i * i % 7},{i % 2}\n" for i in range(40)), (), "column 1 counts the rows"),
    (",b,y\n" + "".join(f"{i * 17 % 41},{i % 7},{i % 2}\n" for i in range(40)), (), "column 1, without a name, numbers the rows"),
    ("class,b,species\n" + "".join(f"{i % 3},{i}.5,{i % 2}\n" for i in range(40)), (), 'because it is called "class"'),
    ("7,8,breed\n" + labels("cat", "dog"), (), "t.csv:1:5: label \"breed\" is in the first row only"),
    (labels("0", "1", "2", "-1"), (), 'label "-1" (10 rows) becomes a class of its own'),
    (labels("0", "1", "2", "255"), (), 'label "255" (10 rows)'),
    (labels("a", "b", "NA"), (), 'label "NA" (13 rows)'),
    (labels("4"), (), "one class only: all 40 labels are 0"),
    (STAMPS, (), "t.csv: column 1: 40 of 40 numbers are too large for 32-bit floats, 1700000001 becomes 1700000000: subtract an offset, or leave it "
                 "out with --drop 1; of 40 different values 1 remains: neighbours become equal"),
    ("".join(f"{20190601 + i % 30},{i % 7},{i % 2}\n" for i in range(60)), (),
     "20190601 becomes 20190600: they look like dates (YYYYMMDD), write days since the first, or leave it out with --drop 1; of 30 different values 16"),
    (CLOSE, (), "column 1: 39 of 40 numbers become equal to their neighbours"),
    ("a,b,y\n" + labels("0", "1") + "1,1,2\n", (), "1 class has no test sample (2)"),
    (ROWS, ("--test-share", "0"), "no test split: of 40 samples none"),
    ("a,b,y\n" + ROWS.replace("\n", "\n,,\n", 3) + ',"",\n', (), "t.csv:3: 4 rows of separators alone are left out"),
    ("a,b,y\n" + ROWS.replace("\n", "\na,b,y\n", 1), (), "t.csv:3: 1 row repeats the header and is left out"),
    ("a,a,y\n" + ROWS, (), 'column 2 has the same name as column 1, "a": both are used; --drop 2 leaves one out'),
    (labels("1", "01", "2"), (), 't.csv:2:7: labels "1" and "01" are equal as numbers, and become one class'),
    (labels("10E2", "1E3", "1000", "2", "02", "5"), (), 'labels "2" and "02" are equal as numbers, and become one class; and so do '
     '"10E2", "1E3" and "1000"; if they are several, put a letter in front of all labels, as in "c02"'),
    (labels(*(f"{'0' * k}{n}" for n in range(1, 6) for k in range(2)), *("0" * k + "7" for k in range(12))), (),
     '; and so for 3 more numbers; if they'),
    (labels(*("0" * k + "7" for k in range(12)), "8"), (), '"0000007", "00000007" and 4 more are equal as numbers'),
    (labels("0", "1", "0|1"), (), 't.csv:3:7: label "0|1" looks like several labels of one sample, between |'),
    (labels('"[0, 1]"', '"[1, 2]"'), (), 'label "[0, 1]" looks like several labels'),
    ("a,b,y,\n" + ROWS, ("--label", "y"), "t.csv: the first row ends with a separator, and the rows below do not: the empty column behind it is left out"),
    (labels(*"0" * 39, "1"), (), "class 0 has 97.22 % of the training samples: a model that knows nothing else"),
)


@pytest.mark.parametrize("text, args, words", WARNED, ids=range(len(WARNED)))
def test_warned(text, args, words):
    assert words in load(text, *args).stderr


@pytest.mark.parametrize("text", (ROWS, labels("-1", "1"), labels("1", "2", "3"), labels("a", "b", "c"), labels("pet/cat", "pet/dog", "n.a.")),
                         ids=range(5))
def test_nothing_odd(text):
    """Good tables are not warned of."""
    assert load(text).stderr == ""


SOME_WORDS = "name,mix,gap,a,y\n" + "".join(
    f"n{i % 9},{'AB'[i % 2] + ' 7' if i % 4 == 3 else i},{i if i % 5 else ''},{'1x' if i == 35 else i % 7},{i % 2}\n" for i in range(40))
REFUSED = (  # text, arguments, exit code, words
    ("a,b,y\n" + ROWS, ("--label", "Art"), 2, 't.csv has no column "Art" in its first row, which has "a", "b", "y"; give --label one of them, or the number'),
    ("text\n" + "the cat, the dog\nno comma\nwell, yes, no\n" * 9, (), 7, "t.csv:1:1: one column only, with words between commas or the like from line 2 on"),
    (",".join(f"c{i}" for i in range(20)) + "\n" + "1," * 19 + "0\n", ("--drop", "c100"), 2,
     'has no column "c100" in its first row; did you mean "c10"? It also has "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7" and 11 more'),
    (SOME_WORDS, ("--label", "y"), 7, "columns 1, 2 hold words, and --drop 1 --drop 2 leave all of these out; 3 has gaps, which --missing mean fills"),
    ("a,b,y\n" + ROWS + "Total,3,\n", (), 7, '"Total" in column 1, "a" is not a number, and the fields above it are: correct it, '
     "or remove the row, as sed 42d t.csv >NEW does, or leave the column out with --drop 1"),
    ("0,1\n" + "".join(f"{i % 7},{i % 2}\n" for i in range(20)), (), 7, "give --header yes or --header no"),
    ("".join(f"{4 * i},{4 * i + 1},{4 * i + 2},{4 * i + 3}\n" for i in range(20)), (), 7, "give --header yes"),
    ("label,b,class,y\n" + "0,1,0,1\n1,2,1,2\n", (), 7, '2 columns have names of labels ("class" is one)'),
    ("a,b,label\n" + ROWS.replace(",0\n", ",\n").replace(",1\n", ",\n").replace(",2\n", ",\n"), (), 7, 'column 3, "label" is empty: there is no label to learn'),
    ("a,a,y\n" + ROWS, ("--label", "a"), 2, 't.csv has 2 columns called "a"'),
    ("a,b,y\n" + ROWS, ("--drop", "c"), 2, 'no column "c" in its first row'),
    ("a,b,y\n" + ROWS, ("--drop", "4"), 2, "there is no column 4 for --drop"),
    ("a,b,y\n" + ROWS, ("--drop", "y", "--label", "y"), 2, "column 3 is the label and cannot be dropped"),
    ("a,b,y\n" + ROWS, ("--drop", "a", "--drop", "b"), 2, "no column is left for a feature"),
    (ROWS, ("--header", "maybe"), 2, '--header is "maybe": must be yes or no'),
    (ROWS, ("--separator", "ab"), 2, '--separator is "ab"'),
    (ROWS, ("--decimal", ";"), 2, '--decimal is ";"'),
    (ROWS, ("--decimal", ","), 2, "the comma separates fields, so numbers with one would be in quotes, and none is: leave --decimal"),
    (ROWS, ("--thousands", ","), 2, "the comma separates fields, so numbers with one would be in quotes, and none is: leave --thous"),
    (ROWS, ("--thousands", "_"), 2, '--thousands is "_": must be one of'),
    (ROWS, ("--thousands", ".", "--decimal", "."), 2, '--decimal and --thousands are both "."'),
    (ROWS, ("--train-count", "0"), 2, "--train-count is 0"),
    (ROWS, ("--train-count", "41"), 2, "40 samples are there"),
    (ROWS, ("--test-share", "1"), 2, "the test share is 1"),
    (ROWS, ("--train-count", "30", "--seed", "2"), 2, "--seed does nothing"),
    ("a,b,y\n1,NA,0\n2,3,1\n", (), 7, '"NA" in column 2, "b" marks a missing value'),
    ("a,b,y\n1,,0\n2,3,1\n", (), 7, "is empty; features are numbers: --missing mean fills such fields, --drop 2 the column, --missing drop leaves"),
    ("a,b,y\n1,2,0\n2;3;1\n", (), 7, "it has another separator than the others: write all alike, as sed '3s/;/,/g' t.csv >NEW does"),
    (ROWS, ("--missing", "zero"), 2, '--missing is "zero": must be drop or mean'),
    ("a,b,y\n0.1,\"2,5\",0\n2,3,1\n", (), 7, '"2,5" in column 2, "b" has a decimal comma, but "0.1" at t.csv:2:1 has not'),
    ("b;y\n0.1;0\n2,5;1\n", (), 7, 't.csv:3:1: "2,5" in column 1, "b" has a decimal comma, but "0.1" at t.csv:2:1 has not'),
    ("a;b;y\n1;2.5;0\n2;3;1\n", ("--decimal", ","), 7, "has a decimal point, which --decimal , excludes: leave --decimal out if all numbers are written so, else write this one"),
    ("a;b;y\n1;2.5;0\n2;3;1\n", ("--thousands", "."), 7, "has a decimal point, which --thousands . excludes: leave --thousands out if all numbers are written so, else write this one"),
    ("b;y\n1,20,000;0\n2,3;1\n", (), 7, '"1,20,000" in column 1, "b" is not a number'),
    ("a b y\n" + ROWS.replace(",", " "), (), 7, "one column only"),
    ("id,b,y,\n" + "".join(f"{i},{i * i % 7},{i % 2},\n" for i in range(40)) + "40,x,0,\n", (), 7, '"x" in column 2, "b"'),
    ("class,b,y\n0,2,1\n1,x,2\n", (), 7, '"x" in column 2, "b"'),
)


@pytest.mark.parametrize("text, args, code, words", REFUSED, ids=range(len(REFUSED)))
def test_refused(text, args, code, words):
    """The refusal is all that is said: advice about an index, or what was left out, is for a data set that is made."""
    r = load(text, *args, code=code)
    assert_one_error(r, words)
    assert r.stderr.count("\n") == 1 and "(null)" not in r.stderr, r.stderr


@pytest.mark.parametrize("word", ("x", "1.5D-02", "yes", "$3", "2020-01-31", "3 kg", "1e400", "#DIV/0!"), ids=range(8))
def test_drop_is_advised_where_columns_are_left(word):
    """Typed as it stands it works; where all other features are the same, it is not advised."""
    rows = [f"{word},{word},{i % 7},{i % 2}\n" for i in range(40)]
    r = load("a,b,c,y\n" + "".join(rows), code=7)
    drops = re.findall(r"--drop (\d)", r.stderr)
    assert drops or word.startswith("1.5D"), r.stderr
    assert set(drops) <= {"1", "2"}
    if drops:
        load("a,b,c,y\n" + "".join(rows), "--drop", "1", "--drop", "2")
    for text in ("a,b,y\n" + "".join(f"{word},{word},{i % 2}\n" for i in range(40)),
                 "a,y\n" + "".join(f"{word if i == 30 else i * i % 7},{i % 2}\n" for i in range(40))):
        r = load(text, code=7)
        assert "--drop" not in r.stderr, r.stderr


def test_formulas_that_guard_text():
    """As spreadsheets keep zeros in front, in quotes or not: the command printed makes a table that is read as meant."""
    for guard in ('="%05d"', '"=""%05d"""'):
        r = load("a,b,y\n" + "".join(f"{guard % (i * i % 97)},{i % 7},{i % 2}\n" for i in range(40)), code=7)
        assert_one_error(r, "is a formula that keeps a text in a spreadsheet: write what is in it alone")
        command = re.search(r"as (sed .*) >NEW does", r.stderr).group(1)
        mended = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
        load(mended, "--test-share", "0")
        with h5py.File("t.h5") as f:
            assert f["train/x"][:, 0].tolist() == [i * i % 97 for i in range(40)]


def test_labels_that_look_alike():
    """Capitals, spaces, signs that are not seen, and letters in two forms; what looks different is not told."""
    for one, other, what in (("Cat", "cat", "capitals"), ("cat", '"cat "', "spaces"), ("cat", "cat\u00a0", "spaces (nothing and U+00A0)"),
                             ("cat", "cat\u200b", "spaces (nothing and U+200B)"), ("Ma\u00c9", "Ma\u00e9", "capitals (U+00C9 and U+00E9)"),
                             ("Mana\u0301", "Man\u00e1", "signs that look alike (U+0061 U+0301 and U+00E1)"),
                             ("cat", "c\uff41t", "capitals (U+0061 and U+FF41)"),
                             ("\u1112\u1161\u11ab", "\ud55c", "signs that look alike (U+1112 U+1161 U+11AB and U+D55C)"),
                             ("\u304b\u3099", "\u304c", "signs that look alike (U+304B U+3099 and U+304C)")):
        words = f'classes 0 "{one}" and 1 "{other.strip(chr(34))}" differ only in {what}, and are two: if one is meant, write them alike'
        r = load(labels(one, other, "\U0001f600"))
        assert r.stderr.count(words) == 1, (words, r.stderr)
        assert words in run([program(), "data", "inspect", "t.h5"], base=PLAIN_ENV).stderr
    dots = 'classes 0 "cat" and 1 "cat." differ only in a dot at the end, and are two: if one is meant, write them alike, as sed'
    assert load(labels("cat", "cat.", "dog")).stderr.count(dots) == 1
    assert "differ only" not in load(labels("cat", "dog", "cats", "Man\u00e1", "Mana", "Man\u00e3", "Mane\u0301", "Ma", "M\u00e4")).stderr
    names = 'the names of column 1, "a\u0301" and column 2, "\u00e1", differ only in signs that look alike (U+0061 U+0301 and U+00E1): are they one?'
    assert names in load("a\u0301,\u00e1,y\n" + ROWS).stderr


def test_like(tmp_path):
    """A table for what a data set has: its columns in its order, its classes, its means for what is missing; what lacks is named."""
    load("a,b,kind\n" + labels("cat", "dog", "emu"), "--test-share", "0")
    os.rename("t.h5", "base.h5")
    mean = h5py.File("base.h5").attrs["mean"][:]
    like = ("--like", "base.h5")
    r = load("b,id,a,what\n4,1,0.5,emu\n,2,1.5,cat\n", *like, "--missing", "mean", name="n.csv")
    assert 'the label is column 4, "what"; features are the other 2; dropped: 2 "id"' in r.stdout and "features: a, b\n" in r.stdout, r.stdout
    assert "labels are the 3 classes of base.h5" in r.stdout
    with h5py.File("t.h5") as f:
        assert np.allclose(f["train/x"][:], [[0.5, 4], [1.5, mean[1]]]) and f["train/y"][:].tolist() == [2, 0] and not len(f["test/y"])
        assert f.attrs["class_names"] == b"cat\ndog\nemu" and f.attrs["feature_names"] == b"a\nb", dict(f.attrs)
    r = load("a,b\n0.5,\n", *like, "--missing", "mean")
    assert "there is no label" in r.stdout and np.allclose(made()[0], [[0.5, mean[1]]]) and "(missing)" in r.stdout
    for text, args, code, words in (
            ("a\n0.5\n", ("--separator", ","), 7, "one column only"),
            ("a,c\n0.5,1\n", (), 2, 't.csv lacks the column "b", which base.h5 was trained on; that does not know "c": add it'),
            ("a,b,kind\n0.5,1,cow\n1,1,cat\n", (), 7, 't.csv:2:7: label "cow" is no class of base.h5: correct it'),
            ("a,b,kind\n0.5,1,cat.\n1,1,dog.\n", (), 7, 't.csv:2:7: label "cat." is no class of base.h5 ("cat" with a dot: sed \'s/\\.$//\' t.csv >NEW'),
            ("a,b,kind\n0.5,1,cat\n1,1,emuu\n", (), 7, 't.csv:3:5: label "emuu" is no class of base.h5 (did you mean "emu"?): correct it'),
            ("a,b\n0.5,\n", (), 7, '"" in column 2, "b" is empty; features are numbers: --missing mean fills such fields with the mean that'),
            ("1,2,3,4,5\n" * 2, (), 2, "t.csv has 5 columns for features, base.h5 was trained on 2, and the table has no header")):
        assert_one_error(load(text, *like, *args, code=code), words)
    assert '"B", is taken for "b" of base.h5: they differ only in capitals' in load("a,B \n0.5,1\n", *like).stderr
    assert "t.csv has no header that names its columns: they are taken in the order of base.h5" in load("0.5,1\n", *like).stderr
    assert_one_error(load("a,b\n0.5,\n", "--label", "none", code=7), "--like RUN --missing mean fills such fields with the mean that the model")
    r = load("a,b\n1,\n3,2\n", "--label", "none", "--missing", "mean")
    assert "--like RUN takes that of what the model" in r.stderr and "features, no labels\n" in r.stdout and " class" not in r.stdout, r.stdout
    assert_one_error(run([program(), "data", "import", "npy", "x.npy", "--like", "base.h5", "-o", "t.h5"], base=PLAIN_ENV, code=2), "--like does nothing for npy")
    assert_one_error(load("a,b\n1,2\n", "--like", "t.csv", code=7), "t.csv is a CSV file")
    with open("m.onnx", "wb") as f:
        f.write(bytes(range(256)))
    assert_one_error(load("a,b\n1,2\n", "--like", "m.onnx", code=7), "--like takes a run, a checkpoint, a model exported as .h5, or a data set")


def image_rows(x, y, label=0):
    """A table with the label as that column, as Kaggle's digits have it in front."""
    names = [f"pixel{k}" for k in range(x.shape[1])]
    rows = [[*r[:label], c, *r[label:]] for r, c in zip(x.tolist(), y)]
    return "".join(",".join(map(str, r)) + "\n" for r in [[*names[:label], "label", *names[label:]], *rows])


def test_shape():
    """Rows become images of the table's pixels, bytes where they are whole numbers to 255, with means by channel; --like takes the shape."""
    rng = np.random.default_rng(5)
    y = np.arange(40) % 4
    x = rng.integers(0, 256, (40, 36))
    x[0, :2] = 0, 255
    whole = ("--test-share", "0", "--shape", "3,4,3")
    load(image_rows(x, y), *whole)
    images, classes = made()
    assert images.dtype == np.uint8 and np.array_equal(images, x.reshape(40, 3, 4, 3)) and np.array_equal(classes, y)
    with h5py.File("t.h5") as f:
        assert f.attrs["kind"] == b"images" and f.attrs["mean"] == pytest.approx(images.mean((0, 2, 3)))
        means = f.attrs["mean"]
    os.rename("t.h5", "base.h5")
    new = x[:4, ::-1].astype(float)
    lines = image_rows(new, y[:4]).splitlines()
    lines[0] = ",".join(["label", *(f"pixel{k}" for k in reversed(range(36)))])  # columns the other way round, one value of the last pixel missing
    lines[1] = re.sub(r",[^,]*", ",", lines[1], count=1)
    load("\n".join(lines) + "\n", "--like", "base.h5", "--missing", "mean", name="n.csv")
    images, classes = made()
    expected = x[:4].astype("f4").reshape(4, 3, 4, 3)
    expected[0, 2, 3, 2] = means[2]
    assert images.dtype == np.float32 and np.array_equal(images, expected) and np.array_equal(classes, y[:4])
    for value in (256, -1, 0.5):
        other = x.astype(float)
        other[3, 7] = value
        load(image_rows(other, y), *whole)
        assert made()[0].dtype == np.float32 and np.array_equal(made()[0], other.astype("f4").reshape(40, 3, 4, 3))
    for shape, words in (("3,4,4", "--shape 3,4,4 is 48 numbers, and samples of t.csv have 36: give another shape, or name the columns"),
                         ("36", '--shape is "36": must be channels (1 to 16), height and width, as 1,28,28'), ("17,1,1", '"17,1,1": must be'),
                         ("3,4,3,1", "must be"), ("0,4,3", "must be"), ("3,4,x", "must be"), ("3, 4,3", "must be")):
        assert_one_error(load(image_rows(x, y), "--shape", shape, code=2), words)
    assert_one_error(load(image_rows(x, y), "--shape", "3,4,3", "--like", "base.h5", code=2), "--shape does nothing beside --like")
    assert_one_error(run([program(), "data", "import", "idx", "x", "--shape", "3,4,3", "-o", "t.h5"], base=PLAIN_ENV, code=2),
                     "--shape does nothing for idx, it is for csv, npy")


@pytest.mark.parametrize("order", "CF")
def test_shape_of_arrays(order):
    """The same of NumPy's arrays, whose own images have a shape."""
    x = np.random.default_rng(6).integers(0, 256, (40, 36)).astype("u1")
    command = [program(), "data", "import", "npy", "set.npz", "--test-share", "0", "-o", "t.h5", "--shape", "3,4,3"]
    np.savez("set.npz", X=np.asarray(x, order=order), y=np.arange(40) % 4)
    run(command, base=PLAIN_ENV)
    images, classes = made()
    assert images.dtype == np.uint8 and np.array_equal(images, x.reshape(40, 3, 4, 3)) and np.array_equal(classes, np.arange(40) % 4)
    np.savez("set.npz", X=x.reshape(40, 3, 4, 3), y=np.arange(40) % 4)
    assert_one_error(run(command, base=PLAIN_ENV, code=2), "--shape is for samples that are numbers in a row, and those of X have 3 dimensions")


def test_rows_for_images():
    """A network for images is not given rows: the refusal has the shape that they may have."""
    with open("own.yaml", "w") as f:
        f.write("layers:\n  - { op: conv, width: 2, kernel: 1 }\n  - { op: globalpool }\n  - { op: linear, width: classes }\n")
    for numbers, shape, network, who in ((16, "1,4,4", ("model.name=resnet20",), "model resnet20"), (15, "C,H,W", ("model.name=vit",), "model vit"),
                                         (48, "3,4,4", ("model.name=file", "model.file=own.yaml"), "own.yaml:2:5: layer conv1")):
        load(image_rows(np.arange(40 * numbers).reshape(40, -1) % 7, np.arange(40) % 2))
        r = run([program(), "train", *(a for s in (*network, "data.file=t.h5") for a in ("--set", s))], base=PLAIN_ENV, timeout=20, code=2)
        assert_one_error(r, f"{who} takes images [channels, h, w], and this data has {numbers} features in a row: if they are pixels, import them as "
                         f"images, by shoal data import csv (or npy) with --shape {shape}; if not, take model mlp")


def test_parts_without_rows():
    """As writers of parts leave them: empty, or the header alone, wherever they stand."""
    os.mkdir("parts")
    for k, text in enumerate(("a,b,y\r\n", "a,b,y\n" + ROWS, "a,b,y", "", "a,b,y\n" + ROWS)):
        with open(f"parts/part-{k}.csv", "w", newline="") as f:
            f.write(text)
    command = [program(), "data", "import", "csv", "parts", "-o", "t.h5", "--test-share", "0"]
    r = run(command, base=PLAIN_ENV)
    assert "parts/part-0.csv and 2 more of the 5 files have no rows with data, and are left out" in r.stderr, r.stderr
    assert len(samples()) == 80
    for k in (1, 4):
        os.remove(f"parts/part-{k}.csv")
    assert_one_error(run(command, base=PLAIN_ENV, code=7), "no rows with data")


def test_line_end_in_a_label():
    """It is kept as an escape in the name of its class, and told; the other names are as they were."""
    r = load("a,b,y\n" + "".join(f'{i}.5,{i % 5},{("cat", "dog", chr(34) + "sea" + chr(13) + "lion" + chr(34))[i % 3]}\n' for i in range(60)))
    assert r.stderr.count("warning") == 1 and 't.csv:4:7: label "sea\\rlion" has a line end, which the name of its class has' in r.stderr
    with h5py.File("t.h5") as f:
        assert f.attrs["class_names"] == b"cat\ndog\nsea\\rlion"


def test_many_names():
    """What is longer than an attribute of the old format, 64 KiB, is kept: names of classes and of features, and a mean for each of these."""
    r = load("a,b,y\n" + "".join(f"{i * i % 7},{i % 5},{'x' * 60}{i % 1500:04d}\n" for i in range(3000)), "--test-share", "0")
    assert "not stored" not in r.stderr
    with h5py.File("t.h5") as f:
        assert f.attrs["class_names"].decode().split("\n") == ["x" * 60 + f"{i:04d}" for i in range(1500)]
    x = np.random.default_rng(1).integers(0, 9, size=(40, 10000)) * 10 ** (np.arange(10000) % 4)
    columns = [f"gene{i}" for i in range(10000)]
    load(",".join(columns) + ",y\n" + "".join(",".join(map(str, row)) + f",{i % 2}\n" for i, row in enumerate(x)), "--test-share", "0")
    with h5py.File("t.h5") as f:
        assert f.attrs["feature_names"].decode().split("\n") == columns
        assert np.allclose(f.attrs["mean"], x.mean(0)) and np.allclose(f.attrs["std"], x.std(0))


def first_column(text, *args):
    r = load(text, *args, "--test-share", "0")
    with h5py.File("t.h5") as f:
        return [round(x, 3) for x in f["train/x"][:, 0].tolist()], r.stdout


THOUSANDS = (  # separator, numbers of the first column, of the second, what the first is, sign that is told
    (",", ("1,200", "3,400.5", "-12,345,678"), ("1", "2", "3"), (1200, 3400.5, -12345678), ","),
    (";", ("1,200", "3,400"), ("0.5", "2"), (1200, 3400), ","),
    (";", ("1,200", "3,400,500"), ("1", "2"), (1200, 3400500), ","),
    (";", ("1,200", "0.125"), ("1", "2"), (1200, 0.125), ","),
    (";", ("1,200", "0,5"), ("1", "2"), (1.2, 0.5), None),
    (";", ("1,200", "3.400,5"), ("1", "2"), (1.2, 3400.5), "."),
    (";", ("1,200", "3,400"), ("0,5", "2"), (1.2, 3.4), None),
    (";", ("1.200", "3.400"), ("0,5", "2"), (1200, 3400), "."),
    (";", ("1.200", "3.400"), ("1", "2"), (1.2, 3.4), None),
    (";", ("1 200", "3\u202f400,5"), ("1", "2"), (1200, 3400.5), "space"),
    ("\t", ("1\u00a0200.25", "7"), ("1", "2"), (1200.25, 7), "space"),
    (",", ("1'200", "3\u2019400.5"), ("1", "2"), (1200, 3400.5), "'"),
)


@pytest.mark.parametrize("separator, column, other, numbers, told", THOUSANDS, ids=range(len(THOUSANDS)))
def test_thousands(separator, column, other, numbers, told):
    """Read as what they are, and told once; another number of the column or the file decides what 1,200 is."""
    quoted = [f'"{c}"' if separator in c else c for c in column]
    lines = [separator.join((q, o, str(i % 2))) for i, (q, o) in enumerate(zip(quoted, other))]
    got, out = first_column("\n".join((separator.join(("price", "b", "y")), *lines)) + "\n")
    assert got == list(numbers)
    assert out.count("thousands separator") == (told is not None)
    assert told is None or f't.csv: column 1, "price": thousands separator {told}\n' in out


def test_thousands_or_decimals():
    """1,200 without another number that tells is refused, with both cures, and both work; the last row can tell, too."""
    rows = "price;y\n" + "1,200;0\n" * 1500
    words = ('t.csv:2:1: "1,200" in column 1, "price" can be 1200 or 1.2, and no other number tells: give --thousands , for the '
             "first, --decimal , for the second")
    r = load(rows, code=7)
    assert_one_error(r, words)
    assert r.stderr.count("\n") == 1
    for args, value in ((("--thousands", ","), 1200), (("--decimal", ","), 1.2), (("--decimal", "."), 1200), (("--thousands", " "), 1.2)):
        assert first_column(rows, *args)[0] == [value] * 1500
    assert first_column("price;y\n1.200;0\n1.300;1\n", "--thousands", ".")[0] == [1200, 1300]
    got, out = first_column(rows + "0,5;1\n")
    assert got == [1.2] * 1500 + [0.5] and 't.csv:1502:1: "0,5" has a decimal comma: all is read so' in out
    assert out.count("the label is column 2") == 1 and "with a decimal comma" in out
    assert first_column(rows + "0.5;1\n")[0] == [1200] * 1500 + [0.5]
    with open("more.csv", "w") as f:
        f.write("price;y\n3,5;1\n")
    assert first_column(rows, "more.csv")[0] == [1.2] * 1500 + [3.5]


def test_numbers_of_every_country():
    """Tables written by any convention hold the numbers that were written, or are refused: none is ever another number."""
    rng, refused = random_source("countries"), 0
    for _ in range(60):
        separator, decimal = rng.choice((",", ";", "\t", "|")), rng.choice(".,")
        groups = rng.choice(("", " ", "'", "\u202f", "." if decimal == "," else ","))
        places = rng.choice((0, 2, 3))
        values = [round(rng.uniform(-1, 1) * 10 ** rng.randrange(1, 7), places) for _ in range(8)]
        texts = [f"{v:,.{places}f}".replace(",", "G").replace(".", decimal).replace("G", groups) for v in values]
        tells = any(places != 3 and decimal in t for t in texts)
        if (groups == "." or separator == decimal) and not tells:
            continue  # 1.200 alone, and "1,200" between commas, are always read with a decimal point
        lines = [separator.join((f'"{t}"' if separator in t else t, str(i % 2))) + "\n" for i, t in enumerate(texts)]
        r = load("".join(lines), "--test-share", "0", "--header", "no", code=None)
        refused += r.returncode != 0
        assert r.returncode == 0 or "no other number tells" in r.stderr, (texts, r.stderr)
        if r.returncode == 0:
            with h5py.File("t.h5") as f:
                assert f["train/x"][:, 0].tolist() == pytest.approx(values, rel=1e-6), (texts, r.stdout)
    assert refused < 20


def test_split_is_drawn_from_each_class():
    """Sorted by label, every class is in both splits by its share; another seed draws others, the same the same."""
    text = "".join(f"{i}.5,1,{i // 100}\n" for i in range(400))
    def tests(*args):
        load(text, *args)
        with h5py.File("t.h5") as f:
            assert len(f["train/x"]) + len(f["test/x"]) == 400
            return f["test/x"][:, 0].tolist(), f["test/y"][:].tolist()
    x, y = tests("--test-share", "0.25")
    assert [y.count(k) for k in range(4)] == [25] * 4
    assert x == sorted(x) and x != list(range(int(x[0]), int(x[0]) + 100))
    assert tests("--test-share", "0.25") == (x, y)
    assert tests("--test-share", "0.25", "--seed", "2")[0] != x
    assert len(tests()[0]) == 40


def test_names_on_one_line():
    """Names with line breaks are escaped, long lists of columns and classes are shortened."""
    r = load('"a\nb","c\td",kind\n' + labels("cat", "dog"))
    assert "t.csv: features: a\\nb, c\\td\n" in r.stdout
    r = load('a,"b\nc",kind\n' + labels("cat", "dog") + "1,no number,dog\n", code=7)
    assert_one_error(r, 'in column 2, "b\\nc" is not a number')
    r = load("a,b,kind\n" + "".join(f"{i},{i * i % 7},k{i // 2:02}\n" for i in range(200)))
    assert "labels become classes 0 to 99 in sorted order: k00, k01, k02, k03, k04, k05, ... (100 in all)\n" in r.stdout
    r = load(",".join(f"c{i}" for i in range(30)) + ",kind\n" + "".join(f"{'.5,' * 30}{i % 2}\n" for i in range(40)))
    assert "t.csv: features: c0, c1, c2, c3, c4, ..., c29\n" in r.stdout


def test_other_header():
    """A second file with other columns is not read as if it had the same."""
    with open("more.csv", "w") as f:
        f.write("b,z,y\n" + ROWS)
    assert_one_error(load("a,b,y\n" + ROWS, "more.csv", code=7), 'more.csv:1:3: this header has "z" as column 2, that of t.csv has "b"',
                     "the same columns in the same order")
    with open("test.csv", "w") as f:  # the same ones in another order, with a header in the middle
        f.write("y,b,a\n1,2,3\n0,4,5\ny,b,a\n1,6,7\n")
    r = load("a,b,y\n" + ROWS, "test.csv")
    assert "test.csv: its columns are in another order, and are taken by their names\n" in r.stdout, r.stdout
    x, y = made("test")
    assert x.tolist() == [[3, 2], [5, 4], [7, 6]] and y.tolist() == [1, 0, 1], f"{x} {y}"
    with open("test.csv", "w") as f:
        f.write("y,b,b\n1,2,3\n")
    assert_one_error(load("a,b,y\n" + ROWS, "test.csv", code=7), 'this header has "b" as column 3, that of t.csv has "y"')
    with open("test.csv", "w") as f:
        f.write("y,b,a\n1,2,3\n0,x,5\n")
    assert_one_error(load("a,b,y\n" + ROWS, "test.csv", code=7), 'test.csv:3:3: "x" in column 2, "b" is not a number')
    assert_one_error(load("a,b,y\n1,2,3,0\n" + ROWS, code=7), "this row has 4 fields, the first row has 3; put a field that holds the separator in double quotes")


def test_file_without_labels():
    """As competitions give it away."""
    for head, rest in (("a,b,y\n", "a,b\n"), ("y,a,b\n", "a,b\n")):
        with open("test.csv", "w") as f:
            f.write(rest + "1,2\n")
        assert_one_error(load(head + ROWS.replace(".5", ""), "test.csv", code=7, name="train.csv"),
                         "test.csv:1:3: this row has 2 fields, the first row of train.csv has 3; ",
                         'the label, "y", is missing: nothing can be tested without, leave the file out (for shoal predict, import it alone with --like RUN)')
    assert_one_error(load("a,b\n1,2\n", "train.csv", code=7, name="test.csv"),
                     'this row has 3 fields, the first row of test.csv has 2; test.csv lacks "y": if that is the label, nothing can be learnt of it')


def test_row_without_end():
    """Fields beyond all bounds: told as in shorter rows, with the number that there should be and a cure."""
    long = ",".join("1" * ((1 << 20) + 1)) + "\n"
    assert_one_error(load("a,b,y\n" + ROWS + long, code=7), "t.csv:42:2097153: this row has more than 1048576 fields, the first row has 3; ",
                     "put a field that holds the separator in double quotes, or correct the row")
    assert_one_error(load(long + "1,2\n", code=7), "the first row has more than 1048576 fields", "--separator")


HEAD = "a,b,kind\n"
PETS = labels("cat", "dog")
CURED = (  # what is wrong, words, options that the message adds to those of the import
    (("# made by hand\n# today\n" + HEAD + PETS), "t.csv:1:1: lines with # are no comments here", ()),
    (("# a, b, c, and d\n" + HEAD + PETS), "t.csv:2:5: this row has 3 fields, the first row has 4; lines with #", ()),
    (HEAD + PETS + "# the end\n", "this row has 1 field, the first row has 3; lines with #", ()),
    ("Report\n\n" + HEAD + PETS, "t.csv:1:1: one column only, and more in line 3", ()),
    (HEAD + PETS.replace("\n", ",\n"), "this row has 4 fields, the first row has 3; it ends with a separator", ()),
    (HEAD + PETS.replace("\n", ",\r\n"), "this row has 4 fields, the first row has 3; it ends with a separator", ()),
    (HEAD + re.sub(r"[^,\n]+", r"'\g<0>'", PETS), "t.csv:2:1: \"'0.5'\" in column 1, \"a\" is in single quotes", ()),
    ("".join(f'"{row}"\n' for row in (HEAD + PETS).splitlines()), "t.csv:1:1: the row is in quotes as a whole", ()),
    ((HEAD + PETS).replace(",", " "), "one column only", ("--separator", " ")),
    (HEAD + PETS.replace("cat", '"ca\\"t"').replace("dog", '"do\\"g"'), "t.csv:2:12: a quote inside a field is written twice", ()),
    (HEAD + "s,mm,\n" + PETS, 't.csv:2:1: "s" in column 1, "a" is not a number, and no other field of this row is one', ()),
    (HEAD + PETS.replace(",0,", ",$0,"), '"$0" in column 2, "b" has a sign that is no part of a number', ()),
    (HEAD + PETS.replace(",0,", ",FALSE,").replace(",1,", ",true,"), '"FALSE" in column 2, "b" is a truth value', ()),
)


@pytest.mark.parametrize("text, words, options", CURED, ids=range(len(CURED)))
def test_cures_of_tables(text, words, options):
    """The command or option of the refusal makes a file that is read as it was meant."""
    r = load(text, code=7)
    assert_one_error(r, words)
    command = re.search(r"as ((grep|tail|sed|tr|\S*python3) .*?) does($|,| in)", r.stderr.strip())
    if command:
        subprocess.run(command[1], shell=True, check=True)
        with open("NEW") as f:
            text = f.read()
    assert bool(command) != bool(options) and (command or "as in --separator ' '" in r.stderr)
    load(text, *options)
    assert samples() == sorted((i + 0.5, i % 7, i % 2) for i in range(40))


@pytest.mark.parametrize("separator, header, args", ((",", True, ()), (";", True, ("--label", "gene")), ("\t", False, ())))
def test_table_on_its_side(separator, header, args):
    """Samples are columns: the command that turns it makes a table that is read as it was meant."""
    rows = [[f"g{k}", *(f"{(i + k) % 9}.5" for i in range(40))] for k in range(5)]
    kinds = ["kind", *("cat dog".split()[i % 2] for i in range(40))]
    names = [["gene", *(f"s{i}" for i in range(40))]] if header else []
    for table in (names + rows + [kinds], names + [kinds] + rows)[:2 if header else 1]:
        r = load("".join(separator.join(row) + "\n" for row in table), *args, code=7)
        assert_one_error(r, f't.csv lies on its side: line {table.index(kinds) + 1}, "kind", has classes')
        command, label = re.search(r"turn it, as (.*python3 -c '.*?' t.csv NEW) does, and import NEW with (--label kind)", r.stderr).groups()
        subprocess.run(command, shell=True, check=True)
        with open("NEW") as f:
            load(f.read(), *label.split())
        os.remove("NEW")
        assert samples() == sorted((*((i + k) % 9 + 0.5 for k in range(5)), i % 2) for i in range(40))
    odd = [["gene", *(f"s{i}" for i in range(40))], *rows, ["kind", *(f"word{i}" for i in range(40))]]
    assert "lies on its side" not in load("".join(separator.join(row) + "\n" for row in odd), "--label", "gene", code=7).stderr


@pytest.mark.parametrize("encoding, name", (("utf-16", "UTF-16"), ("utf-16-le", "UTF-16LE"), ("utf-16-be", "UTF-16BE"),
                                            ("utf-32-le", "UTF-32LE"), ("utf-32-be", "UTF-32BE"), ("cp1252", "WINDOWS-1252")))
def test_encodings(encoding, name):
    """Names of classes are UTF-8 in the file that is made, or the table is refused with the command that converts it."""
    with open("my table.csv", "wb") as f:
        f.write(("länge,b,kind\n" + labels("Käfer", "Bär")).encode(encoding))
    r = run([program(), "data", "import", "csv", "my table.csv", "-o", "t.h5"], base=PLAIN_ENV, timeout=30, code=7)
    assert_one_error(r, f"iconv -f {name} -t UTF-8 'my table.csv' >NEW")
    subprocess.run(re.search("iconv .* >NEW", r.stderr)[0], shell=True, check=True)
    with open("NEW") as f:
        assert re.search(r"^ +0 +[\d.]+ +[\d.]+   länge$", load(f.read()).stdout, re.M)  # the table says what the columns are called
    with h5py.File("t.h5") as f:
        assert bytes(f.attrs["class_names"]).decode() == "Bär\nKäfer"
    if encoding == "cp1252":  # bytes, column, how it reads
        assert 'the name of column 1, "l\\xe4nge", is no UTF-8 text; in WINDOWS-1252' in r.stderr and 'it reads "länge"' in r.stderr
        like = load("länge,b,kind\n" + labels("a", "b"), "--like", "t.h5", "--label", "none", code=7, encoding=encoding)
        assert_one_error(like, "the name of column 1", "iconv -f WINDOWS-1252 -t UTF-8 t.csv >NEW")
        assert_one_error(load("a,b,kind\n" + labels("Käfer", "Bär"), code=7, encoding=encoding), 'the label, "K\\xe4fer"', '"Käfer"')
        assert_one_error(load("l\x81,b,kind\n" + labels("a", "b"), code=7, encoding="latin-1"), "iconv -f ENCODING -t UTF-8 t.csv")
        load("länge,b,kind\n" + labels("a", "b"), "--drop", "1", encoding=encoding)  # what is left out does not count
    with open("my table.csv", "wb") as f:  # numbers may have the space of Latin-1
        f.write(("a,b,y\n" + ROWS.replace("0.5,", "1\xa0000.5,", 1)).encode("latin-1"))
    run([program(), "data", "import", "csv", "my table.csv", "-o", "t.h5"], base=PLAIN_ENV, timeout=30)


def test_zero_bytes():
    """A row of zero bytes, as a power cut leaves it: refused with their place and number; what is left after the command that is
    printed is a row less, which is told.  Empty lines in front and at the end are nothing."""
    rows = ROWS.splitlines()
    rows[19] = "\0" * len(rows[19])
    r = load("a,b,y\n" + "\n".join(rows) + "\n", name="my t.csv", code=7)
    assert_one_error(r, f"my t.csv:21:1: {len(rows[19])} zero bytes: what was there is lost", "look at line 21 of it")
    subprocess.run(re.search("tr -d .* >NEW", r.stderr)[0], shell=True, check=True)
    with open("NEW") as f:
        text = f.read()
    assert "t.csv:21: 1 empty line is between rows: if a row is missing there" in load(text).stderr
    assert len(samples()) == 39
    assert "t.csv:21: 2 empty lines are between rows" in load(text.replace("\n\n", "\n\n\n")).stderr
    assert "empty line" not in load("\n\na,b,y\n" + ROWS + "\n\n\n").stderr


def test_lines_above():
    """What an instrument says about itself, above a table of more columns: the command leaves the table."""
    above = "Record Length,Analog:10000\nSample Interval,1.0E-06\nVertical Units,V,\nModel,SDS2104X\nSource,CH1\n"
    for first in (above, "10000,1\n0.5,2\n"):
        r = load(first + "a,b,y\n" + ROWS, code=7)
        n = first.count("\n") + 1
        assert_one_error(r, f"t.csv:{n}:1: the rows from here on have more fields than the first one, which has 2")
        subprocess.run(re.search(r"as (tail .*?) does", r.stderr)[1], shell=True, check=True)
        with open("NEW") as f:
            load(f.read())
        os.remove("NEW")
        assert samples() == sorted((i + 0.5, i % 7, i % 2) for i in range(40))
    r = load("a,b,y\n" + "".join(f"r{i},{row}\n" for i, row in enumerate(ROWS.splitlines())), code=7)  # as R writes names of rows
    subprocess.run(re.search(r"as (sed .*?) gives", r.stderr)[1], shell=True, check=True)
    with open("NEW") as f:
        load(f.read(), "--drop", "row")
    assert samples() == sorted((i + 0.5, i % 7, i % 2) for i in range(40))
    assert_one_error(load("a,b,y\n" + ROWS.replace("20.5,6,0", "20.5,6,ca\nt"), code=7), "this row has 1 field, the first row has 3",
                     "a field with a line end in it belongs in double quotes")


def test_python_of_cures(tmp_path):
    """A command for Python calls one that has what it needs, or says what that is."""
    (tmp_path / "python3").symlink_to("/bin/false")
    text, needed = "".join(f"{i % 2} 1:{i}.5 3:2\n" for i in range(9)), "sklearn"
    there = os.path.exists(f"/usr/lib/python3/dist-packages/{needed}")
    for env, wanted in (({"PATH": "/usr/bin"}, "python3 -c"), ({"PATH": f"{tmp_path}:/usr/bin"}, "/usr/bin/python3 -c" if there else "python3 -c"),
                        ({"SHOAL_PYTHON": "/opt/p/bin/python"}, "/opt/p/bin/python -c")):
        with open("t.csv", "w") as f:
            f.write(text)
        r = run([program(), "data", "import", "csv", "t.csv", "-o", "t.h5"], base=PLAIN_ENV, env=env, timeout=30, code=7)
        assert_one_error(r, f"are not read: {wanted} ")
        assert ("it needs sklearn (apt install python3-sklearn)" in r.stderr) == (not there and "SHOAL_PYTHON" not in env), r.stderr
    with h5py.File("a.h5", "w") as f:
        f["train/x"], f["train/y"] = np.zeros((4, 2), "f4"), np.zeros(4, "f4")
    r = run([program(), "data", "inspect", "a.h5"], base=PLAIN_ENV, env={"PATH": f"{tmp_path}:/usr/bin"}, timeout=30, code=7)
    there = os.path.exists("/usr/lib/python3/dist-packages/h5py")
    assert ("/usr/bin/python3 -c" in r.stderr and "#" not in r.stderr) == there, r.stderr
    assert there or r.stderr.endswith("  # needs h5py (apt install python3-h5py)\n"), r.stderr


@pytest.mark.parametrize("classes", (2, 3))
def test_one_hot_columns(classes):
    """Classes in a column each become one label by the command; the last of them alone is none, for the others would tell it."""
    text = "a,b," + ",".join(f"c{k}" for k in range(classes)) + "\n" + "".join(
        f"{i}.5,{i % 7},{','.join(str(int(i % classes == k)) for k in range(classes))}\n" for i in range(40))
    r = load(text, code=7)
    assert_one_error(r, f'column {2 + classes}, "c{classes - 1}" and the {classes - 1} before it hold one 1 in every row, as classes one-hot do: make one label of columns 3, ')
    subprocess.run(re.search(r"as (\S*python3 -c '[^']*' t.csv NEW) does, and shoal data import csv NEW --label label -o", r.stderr)[1], shell=True, check=True)
    with open("NEW") as f:
        load(f.read(), "--label", "label")
    assert samples() == sorted((i + 0.5, i % 7, i % classes) for i in range(40))
    if classes == 2:
        assert "one-hot" not in load(text + "1,1,1,1\n").stderr
    load(text, "--label", str(2 + classes))


def test_label_called_y_in_front():
    r = load("y,a,b\n" + "".join(f"{i % 2},{i}.5,{i % 7}\n" for i in range(40)))
    assert "the label is column 1 because it is called \"y\"" in r.stderr and samples()[0] == (0.5, 0, 0)
    assert "the label is column 3" in load("x,y,kind\n" + PETS).stdout


def test_ids_from_anywhere():
    assert "column 1, \"id\" counts the rows" in load("id,b,y\n" + "".join(f"{i + 1000},{i % 7},{i % 2}\n" for i in range(40))).stderr


def test_labels_in_capitals():
    assert "classes 0 \"Cat\" and 1 \"cat\" differ only in capitals" in load(HEAD + labels("cat", "dog", "Cat", "dog")).stderr
    assert "capitals" not in load(HEAD + PETS).stderr


FIELDS = (("$1.5", "has a sign that is no part of a number"), ("12%", "has a sign that is no part"), ("\u22121.5", "has a minus that is not the one"),
          ("5 kg", "is not a number alone"), ("<0.5", "is not a number alone"), ("2020-01-31", "is not a number, and the fields above it are: correct it, or remove the row, as sed 42d t.csv >NEW does"),
          ("1.234D-02", "has an exponent as Fortran writes it"), ("-2.d+1", "has an exponent as Fortran"),
          ("(1.5)", "is in parentheses, which stand for a minus in accounts: write -1.5"),
          ("True", "is a truth value; features are numbers: write 1 and 0"), ("1e400", "is larger than any 32-bit float; features are finite numbers: --missing mean"),
          ("1e39", "is larger than any 32-bit float; features are finite"), ("inf", "is infinite, so not finite"), ("-Infinity", "is infinite, so not finite"),
          *((text, "is infinite, so not finite") for text in ("+inf", "1.#INF", "-1.#INF00", "1.#J", "1.#INF00e+000", "\u221e")),
          ("0x1F", "is written in base 16"), ("1_000", "has underscores between its digits: remove them, as sed"))


NAN = ("-1.#IND", "1.#QNAN0", "-1.#IND00e+000", "-1.#J", "-1.#IO", "1.#R", "NaN(ind)", "-nan(ind)", "-nan(0x7ff8)", "+nan", "NaNQ", "#DIV/0!",
       "#NUM!", "#VALUE!")


@pytest.mark.parametrize("text", (*NAN, "#N/A"))
def test_results(text):
    """What programs print for the result of a computation that is no number is a missing value, as nan is."""
    rows = "".join(f'{i}.5,"{text if i == 30 else i % 7}",{i % 2}\n' for i in range(40))
    words = "is not a number (NaN), which marks a missing value" if text in NAN else "marks a missing value"
    assert_one_error(load("a,b,y\n" + rows, code=7), f'"{text}" in column 2, "b" {words}', "--missing drop leaves their rows out")
    load("a,b,y\n" + rows, "--missing", "drop")
    assert [x[0] for x in samples()] == [i + .5 for i in range(40) if i != 30]


@pytest.mark.parametrize("text", ("-1.#INF", "Inf", "\u221e", "4e42", "1e400"))
def test_infinite_results(text):
    """--missing takes what no 32-bit float holds for missing; all such fields are told at once, and the largest."""
    big = text[0].isdigit()
    table = "a,b,y\n" + ROWS.replace("30.5,2", f'"{text}",2').replace("17.5,3", "-3e39,3" if big else "-inf,3")
    more = f', as 2 fields of the file (the largest, "{text}", in line 32)' if big else ", as 2 fields of the file; features"
    assert_one_error(load(table, code=7), 't.csv:19:1: "-', more, "--missing drop leaves their rows out")
    warned = load(table, "--missing", "drop").stderr
    assert 't.csv:19: "-' in warned and "is infinite, or larger than any 32-bit float, as 1 more fields are: taken for missing" in warned
    assert [x[0] for x in samples()] == [i + .5 for i in range(40) if i not in (17, 30)]
    load(table, "--missing", "mean", "--test-share", "0")
    mean = np.mean([i + .5 for i in range(40) if i not in (17, 30)])
    assert np.allclose(made()[0][:, 0], [mean if i in (17, 30) else i + .5 for i in range(40)])


def test_aligned_columns():
    """Several spaces are one separator where spaces were asked for; the first command made of words reads them likewise."""
    text = "  a   b   y  \n" + "".join(f"{i:6.1f}  {i % 7}   {i % 2}{' ' * (i % 3)}\n" for i in range(40))
    assert_one_error(load(text, code=7), "as in --separator ' '")
    load(text, "--separator", " ")
    assert samples() == [(i, i % 7, i % 2) for i in range(40)]
    words = load(text.replace("  0   ", "  zero ").replace("  1   ", "  one   "), "--separator", " ", code=7).stderr
    subprocess.run(re.search(r"as (\S*python3 -c '[^']*' t.csv NEW) does, and shoal data import csv NEW --label y --separator ' ' ", words)[1], shell=True, check=True)


def test_two_label_columns():
    """A column of 1 and 0 beside such a label may be one, too, which is told; behind texts it is."""
    def table(first, names):
        return names + "\n" + "".join(f"{first(i)},{i % 2},{i // 2 % 2}\n" for i in range(40))
    number, text = (lambda i: f"{i}.5"), (lambda i: f"what was said {i} times")
    command = r"(shoal data import csv t.csv --target 2 --target 3) -o NEW.h5"
    r = load(table(number, "a,smoke,fire"))
    assert re.search(command, r.stderr) and "only the last is the label" in r.stderr
    assert "only the last" not in load(table(number, "a,smoker,died")).stderr + load(table(number, "a,port_S,port_C")).stderr
    assert "only the last" not in load(table(number, "a,smoke,fire"), "--label", "3").stderr
    load(table(number, "a,smoke,fire"), "--target", "2", "--target", "3")
    assert re.search(command, load(table(text, "text,toxic,insult"), code=7).stderr)


@pytest.mark.parametrize("gap", ("", "NA"))
def test_late_values(gap):
    """What a column holds whose first value comes late is known from the start: it is not taken for empty."""
    def table(late):
        return "d,a,y\n" + "".join(f"{gap if i < 1200 else late(i)},{i},{i % 2}\n" for i in range(1500))

    stderr = load(table(lambda i: f"2020-01-{i % 28 + 1:02}"), code=7).stderr
    command = re.search(r"as (\S*python3 -c '[^']*' t.csv NEW) does, and shoal data import csv NEW --label y --missing mean ", stderr)[1]
    subprocess.run(command, shell=True, check=True)
    with open("NEW") as f:
        load(f.read(), "--missing", "drop")
    assert sorted(s[1] for s in samples()) == [*range(1200, 1500)] and {s[0] for s in samples()} == {18262 + k for k in range(28)}
    assert '--missing mean fills such fields' in load(table(lambda i: str(i)), code=7).stderr
    load(table(lambda i: str(i)), "--missing", "drop")
    assert sorted(samples()) == sorted((i, i, i % 2) for i in range(1200, 1500))
    if not gap:
        assert 'column 1, "d" is empty: dropped' in load(table(lambda i: "")).stderr


def test_missing_values():
    """Rows in which a value is missing are left out, or filled with the mean of the training split, as asked for, and told."""
    rows = [[k, k * k % 7, k % 2] for k in range(40)]
    rows[3][1], rows[9][1], rows[20][0], rows[35][1] = "", "k. A.", "nan", "#DIV/0!"
    text = "a,b,y\n" + "".join(",".join(map(str, r)) + "\n" for r in rows)
    r = load(text, "--missing", "drop", "--train-count", "30")
    words = 't.csv:5: column 2, "b" has no value, the first of 4 such fields in 4 rows: '
    assert words + "these rows are left out, and samples are numbered without them" in r.stdout
    kept = [k for k in range(40) if k not in (3, 9, 20, 35)]
    assert made()[0].tolist() + made("test")[0].tolist() == [[k, k * k % 7] for k in kept]
    assert made()[1].tolist() + made("test")[1].tolist() == [k % 2 for k in kept]
    r = load(text, "--missing", "mean", "--train-count", "30")
    assert words + "filled with the mean of their column in the training split" in r.stdout
    a = np.array([k for k in range(30) if k != 20]).mean()
    b = np.array([k * k % 7 for k in range(30) if k not in (3, 9)]).mean()
    x = np.concatenate([made()[0], made("test")[0]])
    assert np.allclose(x, [[a if k == 20 else k, b if k in (3, 9, 35) else k * k % 7] for k in range(40)], rtol=1e-6)
    assert "no value is missing" in load("a,b,y\n" + ROWS, "--missing", "mean").stdout
    words = 't.csv: --missing drop leaves no row: all 40 rows have a missing value (column 1, "a" in 20, column 2, "b" in {}); --missing mean'
    gaps = "a,b,y\n" + "".join(f"{'' if k % 2 else k},{k if k % 2 else ''},{k % 3}\n" for k in range(40))
    assert_one_error(load(gaps, "--missing", "drop", code=7), words.format(20) + " fills them")
    load(gaps, "--missing", "mean")
    gaps = "a,b,y\n" + "".join(f"{'' if k % 2 else k},NA,{k % 3}\n" for k in range(40))
    assert_one_error(load(gaps, "--missing", "drop", code=7), words.format(40), "which are left out with --drop 2")
    load(gaps, "--missing", "mean", "--drop", "2")


def test_classes_lost():
    """Classes of which --missing drop leaves no row, or one, are named with what they had."""
    text = "a,b,y\n" + "".join(f"{k},{'' if k % 4 == 3 or (k % 4 == 2 and k > 2) else k % 7},{'cat dog cow owl'.split()[k % 4]}\n" for k in range(40))
    told = load(text, "--missing", "drop").stderr
    assert 'drop leaves none of the 10 rows of class "owl", so that the data has no such class: --missing mean keeps them' in told
    assert 'drop leaves one of the 10 rows of class "cow", too few to train and to test with: --missing mean' in told
    assert '"cat"' not in told and '"dog"' not in told
    assert "rows of class" not in load(text, "--missing", "mean").stderr


def test_equal_rows():
    """Rows that are equal but for the label are counted, once, and the first two are named."""
    rows = [f"{k},{k * k % 7},{k % 2}\n" for k in range(40)]
    rows += ["5,4,0\n", "6,1,0\n", "5,4,1\n"]
    words = ("t.h5: 3 of 43 samples of /train/x are equal to another one that has another label, the first are sample 5 (label 1) and "
             "sample 40 (label 0): no model can tell them apart")
    r = load("a,b,y\n" + "".join(rows), "--test-share", "0")
    assert r.stderr.count("no model can tell") == 1 and words in r.stderr, r.stderr
    assert "no model" not in load("a,b,y\n" + "".join(rows[:40] + rows[6:7]), "--test-share", "0").stderr


def test_lists_in_fields():
    """The command makes columns of the arrays that pandas writes into cells."""
    rows = "".join(f'"[{k}.5 {k % 7}\n {k % 3}]",{"cat" if k % 2 else "dog"}\n' for k in range(40))
    r = load("a,kind\n" + rows, code=7)
    assert_one_error(r, 'is a list in one field; features are numbers: give each number of the lists in column 1, "a" a column, as ')
    subprocess.run(re.search(r"as (\S*python3 .*? NEW) does", r.stderr)[1], shell=True, check=True)
    with open("NEW") as f:
        text = f.read()
    assert load(text).returncode == 0 and text.startswith("a_0,a_1,a_2,kind\n0.5,0,0,dog\n")


def put_texts(folder, words, n):
    os.makedirs(folder)
    for k in range(n):
        with open(f"{folder}/{k}_9.txt", "w") as f:
            f.write(f"a film\nof {words[k % len(words)]}\n")


def test_folders_of_texts():
    """Reviews in folders of classes are told from a text, by every kind that may be tried; the command makes tables of the splits as they are."""
    for split, n in (("train", 12), ("test", 4)):
        put_texts(f"films/{split}/neg", ["dull", "awful"], n)
        put_texts(f"films/{split}/pos", ["great", "lovely"], n)
    put_texts("films/train/unsup", ["dull", "great"], 4)
    for kind, words in (("csv", "the folder films has no file called like *.csv"), ("images", "films has no PNG or JPEG files"),
                        ("text", "the folder films has no file called like *.txt")):
        r = run([program(), "data", "import", kind, "films", "-o", "t.h5"], base=PLAIN_ENV, code=7)
        assert_one_error(r, words, "texts of 2 classes (neg, pos; left out: train/unsup, which not all splits have)")
    subprocess.run(re.search(r"which (\S*python3 .*? NEW) does, and shoal data import csv NEW -o NEW.h5$", r.stderr.strip())[1], shell=True, check=True)
    rows = {s: list(csv.reader(open(f"NEW/{s}.csv"))) for s in ("train", "test")}
    assert {s: len(x) for s, x in rows.items()} == {"train": 25, "test": 9} and rows["test"][0] == ["text", "label"]
    assert rows["train"][1] == ["a film of dull", "neg"] and rows["train"][24] == ["a film of lovely", "pos"]
    with open("films/train/urls.txt", "w") as f:
        f.write("where they are from\n" * 50)
    r = run([program(), "data", "import", "text", "films/train", "-o", "t.h5"], base=PLAIN_ENV)
    assert "films/train: only the files in the folder itself are read; its folders have texts of 3 classes (neg, pos, unsup)" in r.stderr, r.stderr


def test_copies_and_tails():
    """A file that is there twice is told; each header may end with a separator that no row has."""
    for name in ("p/t.csv", "p/t (1).csv"):
        os.makedirs("p", exist_ok=True)
        with open(name, "w") as f:
            f.write("a,b,kind,\n" + PETS)
    r = run([program(), "data", "import", "csv", "p", "-o", "t.h5"], base=PLAIN_ENV, timeout=30)
    assert r.stderr.count("p/t (1).csv and p/t.csv are equal: their rows are there twice") == 1, r.stderr


@pytest.mark.parametrize("field, words", FIELDS)
def test_fields_that_are_no_numbers(field, words):
    assert_one_error(load(HEAD + PETS + f"1,{field},dog\n", code=7), f't.csv:42:3: "{field}" in column 2, "b" {words}')


def test_other_formats_of_tables():
    """LIBSVM is named as what it is."""
    assert_one_error(load("".join(f"{i % 2} 1:0.5 3:{i}.25\n" for i in range(40)), code=7), "t.csv: rows of LIBSVM",
                     "load_svmlight_file('t.csv')")


def test_control_characters():
    """What a terminal would obey is shown as escapes."""
    r = load("a\x1b[2J,b,y\n" + labels("\x1b]0;x\x07", "b"))
    assert "\x1b" not in r.stdout + r.stderr and "\x07" not in r.stdout + r.stderr
    assert "\\x1b]0;x\\x07" in r.stdout


def test_pipes_and_devices():
    """They could block, or never end."""
    os.mkfifo("pipe.csv")
    for path in ("pipe.csv", "/dev/zero", "/dev/null"):
        for command in (("data", "import", "csv", path, "-o", "t.h5"), ("train", path)):
            r = run([program(), *command], base=PLAIN_ENV, timeout=10, code=7)
            assert_one_error(r, f"cannot read {path}: it is a pipe or a device")
    assert_one_error(run([program(), "data", "inspect", "pipe.csv"], base=PLAIN_ENV, timeout=10, code=7), "not a regular file")


SOURCES = (  # contents of a file that is no data set, words of the message
    (ROWS.encode(), "is a CSV file, not an HDF5 data set: make one of it with shoal data import csv source -o NAME.h5"),
    (gzip.compress(ROWS.encode()), "is a CSV file"),
    ("a;b\n1;2\n".encode("utf-16"), "is a CSV file"),
    (b"one line\nanother\n", "is text, not an HDF5 data set: make one of it with shoal data import text source"),
    ("Late, and in the rain, the boats,\none by one, came home; nobody\n\nspoke.\n".encode(), "is text, not an HDF5 data set"),
    ('name,word\n"Lee, Ann",a\n"Ek, Bo",b\n'.encode(), "is a CSV file"),
    (struct.pack(">4B3I", 0, 0, 8, 3, 1, 2, 2) + bytes(4), "is IDX images, not an HDF5 data set"),
    (bytes(range(256)), "is not an HDF5 file"),
)


@pytest.mark.parametrize("contents, words", SOURCES, ids=range(len(SOURCES)))
def test_train_names_import(contents, words):
    """A file that has to be imported first is refused with the command."""
    with open("source", "wb") as f:
        f.write(contents)
    with open("r.yaml", "w") as f:
        f.write("run: { name: r, epochs: 1 }\nmodel: { name: mlp, widths: [8] }\ndata: { file: source, batch: 8 }\n")
    assert_one_error(run([program(), "train", "r.yaml"], base=PLAIN_ENV, timeout=30, code=7), words)
    assert_one_error(run([program(), "data", "inspect", "source"], base=PLAIN_ENV, timeout=30, code=7), words)


PIECES = (b"1,0\n", b",", b"1,0," * 1000 + b"1\n", b"x")


@pytest.mark.parametrize("piece", PIECES, ids=range(len(PIECES)))
def test_bomb(piece):
    """A small gzip file that unpacks to 80 MB is refused, and plain text within the memory that it may take."""
    text = piece * (80_000_000 // len(piece))
    with open("bomb.csv.gz", "wb") as f:
        f.write(gzip.compress(text, 9))
    with open("plain.csv", "wb") as f:
        f.write(text)
    for name, limit, words in (("bomb.csv.gz", "400", "bomb.csv.gz unpacks to more than 250 times its size"),
                               ("plain.csv", "48", "plain.csv: the text would take")):
        r = run([program(), "data", "import", "csv", name, "-o", "t.h5"], base=PLAIN_ENV, timeout=60, code=7,
                env={"SHOAL_MEMORY_LIMIT_MIB": limit}, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
        assert_one_error(r, words)


def test_text():
    """Too short a text has no test split, and needs a network that reads it."""
    for n, words in ((40, ""), (9, "no test split: of 9 bytes none is for testing")):
        with open("a.txt", "wb") as f:
            f.write(b"x" * n)
        said = run([program(), "data", "import", "text", "a.txt", "-o", "t.h5"], base=PLAIN_ENV, timeout=10).stderr
        assert words in said and ("no test split" in said) == (n < 10), said
    for network, words in (("mlp", "t.h5 holds text, and model mlp has no layer that reads tokens: begin it with"),
                           ("resnet20", "model resnet20 takes images")):
        r = run([program(), "train", "--set", f"model.name={network}", "--set", "data.file=t.h5", "--set", "data.context=8"],
                base=PLAIN_ENV, timeout=20, code=2)
        assert_one_error(r, words)
    r = run([program(), "train", "--set", "model.name=mlp", "--set", "data.file=t.h5"], base=PLAIN_ENV, timeout=20, code=2)
    assert_one_error(r, "t.h5: /train/tokens has 9 tokens, and a sample needs 128 and the one that follows: lower data.context")


@pytest.mark.parametrize("kind, sources", (("idx", ("images.gz", "labels.gz")), ("cifar10", ("data_batch_1.bin",)),
                                           ("text", ("a.txt",)), ("npy", ("X_train.npy", "y_train.npy"))))
def test_bomb_of_other_kinds(kind, sources):
    """Gzip files of zeros are refused in every kind, by the sizes in their headers where there are some."""
    n = 100_000
    heads = {"images.gz": struct.pack(">4B3I", 0, 0, 8, 3, n, 32, 32), "labels.gz": struct.pack(">4BI", 0, 0, 8, 1, n),
             "X_train.npy": npy_header("<f4", (n, 256)), "y_train.npy": npy_header("|u1", (n,))}
    sizes = {"labels.gz": n, "y_train.npy": n, "data_batch_1.bin": 3073 * n // 3}
    for name in sources:
        with open(name, "wb") as f:
            f.write(gzip.compress(heads.get(name, b"") + bytes(sizes.get(name, 1024 * n)), 9))
    begin = time.monotonic()
    r = run([program(), "data", "import", kind, *sources, "-o", "t.h5"], base=PLAIN_ENV, timeout=60, code=7,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
    assert_one_error(r, f"{sources[0]} unpacks to more than 250 times its size (", "unpack it first (gunzip)")
    assert time.monotonic() - begin < 10 and not os.path.exists("t.h5")


def test_idx_sizes():
    """20 bytes that speak of images of 16 x 4096 x 4096."""
    for name, dims in (("images", (4, 1, 16, 4096, 4096)), ("labels", (1, 1))):
        with open(name, "wb") as f:
            f.write(struct.pack(f">4B{len(dims) - 1}I", 0, 0, 8, *dims) + bytes(1))
    r = run([program(), "data", "import", "idx", "images", "labels", "-o", "t.h5"], base=PLAIN_ENV, timeout=10, code=7)
    assert_one_error(r, "images says it has 256 MiB of an image, but can hold 21 B")


def arrays(y):
    """The file of arrays of 40 samples with these labels or targets."""
    np.savez("set.npz", x=np.arange(80, dtype="f4").reshape(40, 2), y=y)
    return "set.npz"


def numbers_of(*values, dims=()):
    """An IDX file of bytes."""
    head = struct.pack(f">4B{1 + len(dims)}I", 0, 0, 8, 1 + len(dims), len(values), *dims)
    return file_of(f"{len(dims)}-idx{1 + len(dims)}-ubyte", head + bytes(v for v in values for _ in range(int(np.prod(dims)))))


def file_of(name, contents):
    put(name, contents)
    return name


REFUSED_LATE = {  # what only the contents tell, of each importer
    "csv-label": (lambda: ["csv", file_of("a.csv", (ROWS + "1,2,\n").encode())], "label"),
    "csv-number": (lambda: ["csv", file_of("a.csv", (ROWS + "1e39,2,1\n").encode())], "1e39"),
    "csv-target": (lambda: ["csv", file_of("a.csv", b"a,b,y\n1,2,7\n2,2,7\n3,2,7\n"), "--target", "y"], "nothing to learn"),
    "npy-target": (lambda: ["npy", arrays(np.full(40, 7.5)), "--target", "y"], "target 0 in y is 7.5 in all training samples: there is nothing to learn"),
    "npy-targets": (lambda: ["npy", arrays(np.stack([np.arange(40.0), np.zeros(40)], 1)), "--target", "y"], "target 1 in y is 0 in all training samples"),
    "npy-label": (lambda: ["npy", arrays(np.arange(40) - 1)], "not in 0 to"),
    "npy-stray": (lambda: ["npy", arrays(np.r_[np.arange(39) % 2, 70000])], "70000"),
    "idx": (lambda: ["idx", numbers_of(1, 2, 3, dims=(4, 4)), numbers_of(1, 2)], "3 images"),
    "cifar10": (lambda: ["cifar10", file_of("a.bin", b"\x07" + bytes(3072) + b"\x0b" + bytes(3072))], "label 11"),
    "cifar10-count": (lambda: ["cifar10", file_of("a.bin", (b"\x07" + bytes(3072)) * 2), "--train-count", "3"], "2 images are there"),
    "images": (lambda: ["images", file_of("set/a/1.png", b"\x89PNG\r\n\x1a\n cut")[:3]], "set/a/1.png"),
    "text": (lambda: ["text", file_of("a.txt", b"words"), "--train-count", "6"], "5 bytes are there"),
}


@pytest.mark.parametrize("kind", REFUSED_LATE)
def test_refused_leaves_file(kind):
    """An import that is refused leaves an older file as it was, in all bytes, and no file where there was none."""
    make, words = REFUSED_LATE[kind]
    command = [program(), "data", "import", *make(), "-o", "t.h5"]
    before = sorted(os.listdir("."))
    refused = 2 if "--train-count" in command else 7
    assert words in run(command, base=PLAIN_ENV, timeout=30, code=refused).stderr
    assert sorted(os.listdir(".")) == before
    put("t.h5", b"an older file")
    run(command, base=PLAIN_ENV, timeout=30, code=refused)
    with open("t.h5", "rb") as f:
        assert f.read() == b"an older file"
    assert sorted(os.listdir(".")) == sorted([*before, "t.h5"])
