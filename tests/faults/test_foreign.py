"""HDF5 files from elsewhere: arrays in forms that are not read, whose cures must work as they are printed, and files that refer to
other files of whoever reads them."""

import io
import os
import re
import shlex
import subprocess
import sys

import h5py
import numpy as np
import pytest

from harness import PLAIN_ENV, assert_one_error, program, run

N, TRAIN = 40, 30
CLASSES = np.arange(N) % 3
X = np.random.default_rng(1).standard_normal((N, 4)).astype("f4")
WORDS = np.array([b"cat", b"dog", b"eel"])


@pytest.fixture(autouse=True)
def folder(work):
    return work


def shoal(*args, **options):
    return run([program(), *args], base=PLAIN_ENV, timeout=60, **options)


def records(**members):
    out = np.zeros(N, [(name, values.dtype, values.shape[1:]) for name, values in members.items()])
    for name, values in members.items():
        out[name] = values
    return out


def put(f, name, values):
    """An array, or what a function makes of a name and the numbers of its samples."""
    rows = slice(TRAIN) if "train" in name else slice(TRAIN, N)
    if callable(values):
        values(f, name, rows)
    else:
        f[name] = values[rows]


def make(path, x=X, y=CLASSES):
    with h5py.File(path, "w") as f:
        for split in ("train", "test"):
            put(f, f"{split}/x", x)
            put(f, f"{split}/y", y)


def run_cure(r):
    """Runs the command at the end of a message as a shell would."""
    line = re.search(r"python3 (-c \".*\")$", r.stderr.strip())[1]
    subprocess.run(f"{shlex.quote(sys.executable)} {line}", shell=True, check=True)


def of_type(dtype):
    return lambda f, name, rows: f.create_dataset(name, data=CLASSES[rows], dtype=dtype)


def texts(f, name, rows):
    f.create_dataset(name, data=[WORDS[c].decode() for c in CLASSES[rows]], dtype=h5py.string_dtype())


LABELS = {
    "compound {label: f32}": records(label=CLASSES.astype("f4")),
    "compound {name: text of 3 bytes}": records(name=WORDS[CLASSES]),
    "text of 3 bytes": WORDS[CLASSES],
    "text of variable length": texts,
    "enumeration {\\x1b[31m, BLUE, RED}": of_type(h5py.enum_dtype({"BLUE": 4, "RED": 7, "\x1b[31m": 9}, "i1")),
    "no integers but f64": CLASSES.astype("f8"),
    "a row per sample (one-hot?) of f64": np.eye(3)[CLASSES],
    "no numbers but text of 3 bytes": WORDS[CLASSES][:, None],
}


@pytest.mark.parametrize("words, y", LABELS.items())
def test_labels(words, y):
    """One command mends both splits alike, though the test split lacks a class, and keeps what was there."""
    if isinstance(y, np.ndarray):
        y = y[np.concatenate([np.arange(TRAIN), np.full(N - TRAIN, 2)])]  # the test split has the last class only
    make("a.h5", y=y)
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, "a.h5: /train/y holds " if "row per" not in words else "a.h5: /train/y has ", words)
    run_cure(r)
    shoal("data", "inspect", "a.h5")
    with h5py.File("a.h5") as f:
        assert f["train/y"][()].ravel().tolist() == CLASSES[:TRAIN].tolist()
        assert f["test/y"][()].ravel().tolist() == ([2] * 10 if isinstance(y, np.ndarray) else CLASSES[TRAIN:].tolist())
        assert len(f["train/y_original"]) == TRAIN and len(f["test/y_original"]) == N - TRAIN
        if "text" in words and "compound" not in words:
            assert f.attrs["class_names"] == "cat\ndog\neel"


def test_odd_paths():
    """Commands hold up with names that a shell, or Python, would take apart."""
    odd, name = "it's $HOME's \"set\"\xe9.h5", "train/y '\"$1`"
    make(odd, y=WORDS[CLASSES])
    with h5py.File(odd, "a") as f:
        f.move("train/y", name)
    run_cure(shoal("data", "inspect", odd, code=7))
    assert "3 classes" in shoal("data", "inspect", odd).stdout


def test_labels_that_argmax_would_spoil():
    """Rows with several classes, or with probabilities, get no command that makes one of them."""
    rows = np.eye(3)[CLASSES]
    for values, words in ((np.maximum(rows, np.eye(3)[0]), "row 1 of /train/y, f64, has more than one 1: several classes"),
                          (rows * 0.8 + 0.1, "row 0 of /train/y, f64, is not one-hot"), (rows * 0, "has no 1")):
        make("a.h5", y=values)
        r = shoal("data", "inspect", "a.h5", code=7)
        assert_one_error(r, words)
        assert "python3" not in r.stderr


def test_chunks_that_were_never_written():
    """Their samples are none, although they read as zeros: told by inspect and training, packed or not, with the first."""
    for options in ({}, {"compression": "gzip"}):
        with h5py.File("a.h5", "w") as f:
            f.create_dataset("train/x", (N, 4), "f4", chunks=(8, 2), **options)[:N // 2] = X[:N // 2]
            f["train/y"] = CLASSES
        words = "a.h5: 4 of 10 chunks of /train/x were never written, the first is that of sample 24"
        assert words in shoal("data", "inspect", "a.h5").stderr
    with h5py.File("a.h5", "w") as f:
        f.create_dataset("train/x", (N, 4), "f4")
        f["train/y"] = CLASSES
    assert "a.h5: 1 of 1 chunks of /train/x were never written" in shoal("data", "inspect", "a.h5").stderr
    make("a.h5", x=X[:, :2])
    assert "never written" not in shoal("data", "inspect", "a.h5").stderr


def test_images_of_matlab():
    """Their sides are exchanged, which is told."""
    make("a.h5", x=np.zeros((N, 3, 5, 6), "u1"))
    assert "MATLAB" not in shoal("data", "inspect", "a.h5").stdout
    with h5py.File("a.h5", "a") as f:
        f["train/x"].attrs["MATLAB_class"] = np.bytes_("uint8")
    assert "MATLAB wrote /train/x" in shoal("data", "inspect", "a.h5").stdout


def references(f, name, rows):
    d = f.create_dataset(name, (len(CLASSES[rows]),), h5py.ref_dtype)
    d[0] = f.require_group("g").ref


def test_labels_in_a_row():
    """As arrays of other shapes hold them: the command makes a list, and no class of the row itself."""
    for shape in ((1, -1), (-1, 1, 1)):
        make("a.h5", y=lambda f, name, rows: f.create_dataset(name, data=CLASSES[rows].reshape(shape)))
        r = shoal("data", "inspect", "a.h5", code=7)
        assert_one_error(r, "a.h5: /train/y is no list but an array of i64; labels are one class number")
        run_cure(r)
        assert "3 classes" in shoal("data", "inspect", "a.h5").stdout
        with h5py.File("a.h5") as f:
            assert f["train/y"][()].tolist() == CLASSES[:TRAIN].tolist()


IMAGES = np.arange(N * 2 * 4 * 3).reshape(N, 2, 4, 3).astype("u1")


@pytest.mark.parametrize("x", (X, IMAGES), ids=("features", "images"))
@pytest.mark.parametrize("column", (False, True))
def test_matlab(x, column):
    """Arrays whose dimensions are reversed: not taken for one-hot rows, and turned by one command."""
    y = np.array([CLASSES.astype("f8")]) if column else CLASSES
    with h5py.File("a.h5", "w") as f:
        for split, rows in (("train", slice(TRAIN)), ("test", slice(TRAIN, N))):
            f[f"X_{split}"], f[f"y_{split}"] = x[rows].T, y[..., rows]
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, "a.h5: /y_train has 30 labels, and /X_train is [", "30 is its last dimension and not the first, as MATLAB writes")
    run_cure(r)
    assert "3 classes" in shoal("data", "inspect", "a.h5").stdout
    shoal("data", "repack", "a.h5", "-o", "b.h5")
    with h5py.File("b.h5") as f:
        want = x if x.ndim == 2 else x.transpose(0, 3, 1, 2)
        assert (f["train/x"][()] == want[:TRAIN]).all() and (f["test/x"][()] == want[TRAIN:]).all()
        assert f["test/y"][()].tolist() == CLASSES[TRAIN:].tolist()


def test_labels_with_fractions():
    """They are numbers to be predicted, which a command calls so; marks of a missing label are nothing to mend."""
    make("a.h5", y=CLASSES + 0.5)
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, "a.h5: /train/y holds f64, of which sample 0 has 0.5, which is no class", "(regression) are called targets")
    run_cure(r)
    assert "features, 1 target\n" in shoal("data", "inspect", "a.h5").stdout
    with h5py.File("a.h5") as f:
        assert f["test/targets"][:].tolist() == (CLASSES[TRAIN:] + 0.5).tolist()
    make("b.h5", y=np.where(CLASSES == 2, np.nan, CLASSES))
    r = shoal("data", "inspect", "b.h5", code=7)
    assert_one_error(r, "b.h5: /train/y holds f64, of which sample 2 has nan, which is no class", "remove samples without a label")
    assert "python3" not in r.stderr


def test_two_cures():
    """One after the other, and what was there first stays."""
    make("a.h5", y=WORDS[CLASSES])
    run_cure(shoal("data", "inspect", "a.h5", code=7))
    with h5py.File("a.h5", "a") as f:
        for split in ("train", "test"):
            one_hot = np.eye(3)[f[f"{split}/y"][()].ravel()]
            del f[f"{split}/y"]
            f[f"{split}/y"] = one_hot
    run_cure(shoal("data", "inspect", "a.h5", code=7))
    assert "3 classes" in shoal("data", "inspect", "a.h5").stdout
    with h5py.File("a.h5") as f:
        assert f["train/y_original"].dtype == "S3" and f["test/y"][()].tolist() == CLASSES[TRAIN:].tolist()


@pytest.mark.parametrize("name", ("test_idx", "split", "testMask", "folds", "attribute"))
def test_split_beside(name):
    """Test samples among the others, told by an array or an attribute that is not read: warned of before they are trained on."""
    with h5py.File("a.h5", "w") as f:
        f["x"], f["y"] = X, CLASSES
        if name == "attribute":
            f.attrs["split"] = [0, 1]
        else:
            f[name] = np.arange(N) > TRAIN
    what = "the attribute split" if name == "attribute" else f"/{name}"
    assert shoal("data", "inspect", "a.h5").stderr.count(f"a.h5: {what} may say which samples are for tests, and is not read") == 1
    with h5py.File("a.h5", "a") as f:
        f["x_test"], f["y_test"], f["fit_index"] = X[:9], CLASSES[:9], np.arange(3)
    assert "may " not in shoal("data", "inspect", "a.h5").stderr
    with h5py.File("a.h5", "a") as f:
        f["sample_weight"] = np.ones(N)
    assert "a.h5: /sample_weight may weigh samples or classes, and is not read" in shoal("data", "inspect", "a.h5").stderr


def test_pandas():
    with h5py.File("a.h5", "w") as f:
        f["df/block0_values"], f["df/axis0"] = X, np.arange(4)
    assert_one_error(shoal("data", "inspect", "a.h5", code=7), "/df/block0_values [40, 4] f32; pandas wrote it: python3 -c ",
                     "pandas.read_hdf('a.h5').to_csv('a.h5.csv', index=False)")


HOPELESS = {
    "references": references,
    "lists of variable length of i32": lambda f, name, rows: f.create_dataset(name, (len(CLASSES[rows]),), h5py.vlen_dtype("i4")),
    "opaque data of 2 bytes": np.array([b"ab", b"cd", b"ef"], "V2")[CLASSES],
    "compound {p: arrays of f32}": records(p=np.zeros((N, 3), "f4")),
}


@pytest.mark.parametrize("words, y", HOPELESS.items())
def test_no_cure(words, y):
    """What nobody can turn into classes is named, without a command that fails or harms."""
    make("a.h5", y=y)
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, f"a.h5: /train/y holds no numbers but {words}; labels are one class number from 0 per sample")
    assert "python3" not in r.stderr


def test_several_members():
    """Which member is the label is for the user to say, and nothing happens until then."""
    make("a.h5", y=records(id=np.arange(N), label=CLASSES))
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, "compound {id: i64, label: i64}", "for MEMBER put the one that tells the class", "f[n]['MEMBER']")
    r.stderr = r.stderr.replace("MEMBER']", "label']")
    run_cure(r)
    assert "3 classes" in shoal("data", "inspect", "a.h5").stdout


def bits(values, bytes_each=1):
    """As PyTables writes truth values."""
    def write(f, name, rows):
        data = np.ascontiguousarray(values[rows], f"u{bytes_each}")
        kind = h5py.h5t.STD_B8LE if bytes_each == 1 else h5py.h5t.STD_B16LE
        group, _, last = name.rpartition("/")
        h5py.h5d.create(f.require_group(group or "/").id, last.encode(), kind, h5py.h5s.create_simple(data.shape)).write(
            h5py.h5s.ALL, h5py.h5s.ALL, data, mtype=kind)
    return write


def test_bit_labels():
    make("a.h5", y=bits(CLASSES > 0))
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, "a.h5: /train/y holds no numbers but bit fields of 1 byte; labels are one class number")
    run_cure(r)
    assert "2 classes" in shoal("data", "inspect", "a.h5").stdout
    with h5py.File("a.h5") as f:
        assert (f["train/y"][()] == (CLASSES > 0)[:TRAIN]).all() and (f["test/y"][()] == (CLASSES > 0)[TRAIN:]).all()


@pytest.mark.parametrize("words, x, want", (
    ("bit fields of 1 byte", bits(X > 0), (X > 0).astype("u1")),
    ("bit fields of 2 bytes", bits(X > 0, 2), (X > 0).astype("u1")),
    ("enumeration {FALSE, TRUE}", X > 0, (X > 0).astype("u1")),
    ("enumeration {NO, YES}", lambda f, name, rows: f.create_dataset(
        name, data=np.sign(X[rows]).astype("i1"), dtype=h5py.enum_dtype({"NO": -1, "YES": 1}, "i1")), np.sign(X)),
    ("compound {a: f32, b: f64}", records(a=X[:, 0], b=X[:, 1].astype("f8")), X[:, :2])))
def test_samples(words, x, want):
    make("a.h5", x=x)
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, f"a.h5: /train/x holds no numbers but {words}")
    run_cure(r)
    shoal("data", "inspect", "a.h5")
    with h5py.File("a.h5") as f:
        assert (f["train/x"][()] == want[:TRAIN]).all() and (f["test/x"][()] == want[TRAIN:]).all()


Y = CLASSES
MISSING = (
    ({"foo": X, "bar": Y}, "has no training samples: ", "; it has /bar [40] i64, /foo [40, 4] f32"),
    ({f"a{k}": X[:, :k % 2 + 1] for k in range(9)}, "has no training samples: ", "/a5 [40, 2] f32 and 3 more (h5ls -r lists them)"),
    ({}, "has no training samples: ", "; it has no arrays"),
    ({"train/x/a": X, "train/y": Y}, "has no training samples: ", "it has /train/x/a [40, 4] f32, /train/y [40] i64"),
    ({"test/x": X, "test/y": Y}, "/test/x and /test/y are for tests", "data.file=[train.h5,a.h5]"),
    ({"train/x": X}, "/train/x has samples but no array has their labels: /train/y is expected", "it has /train/x [40, 4] f32"),
    ({"train/x": X, "train/y": Y, "test/x": X}, "/test/x has samples", "/test/y is expected; it has /test/x [40, 4] f32"),
    ({"X_train": X, "t\x1b[31m": Y}, "/X_train has samples", "/y_train is expected", "/t\\x1b[31m [40] i64"),
    ({"train/x": Y, "train/y": X}, "/train/x has one number per sample and /train/y several, 4: are they swapped?"),
    ({"train/x": X, "train/y": Y, "test/x": X[:, :3], "test/y": Y}, "/train/x and /test/x differ", "[4] of 4 bytes and [3] of 4"),
)


@pytest.mark.parametrize("arrays, words", [(a, w) for a, *w in MISSING])
def test_missing(arrays, words):
    """What is not there is said together with what is."""
    with h5py.File("a.h5", "w") as f:
        for name, values in arrays.items():
            f[name] = values
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, *words)
    if "This exchanges their names: " in r.stderr:
        subprocess.run(r.stderr.split("This exchanges their names: ")[1], shell=True, check=True)
        assert "one number per sample" not in shoal("data", "inspect", "a.h5").stderr


def put_lists(values, dtype):
    def write(f, name, rows):
        f.create_dataset(name, (len(CLASSES[rows]),), h5py.vlen_dtype(dtype))
        for k, v in enumerate(values[rows]):
            f[name][k] = v
    return write


def test_lists():
    """Samples of several lengths get zeros at their ends, in both splits; the parts of complex numbers lie beside each other."""
    rows = [X[i, :i % 4 + 1] for i in range(N)]
    make("a.h5", x=put_lists(rows, "f4"))
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, "a.h5: /train/x holds no numbers but lists of variable length of f32; write all with the length of the longest")
    run_cure(r)
    shoal("data", "inspect", "a.h5")
    want = np.array([np.pad(v, (0, 4 - len(v))) for v in rows])
    with h5py.File("a.h5") as f:
        assert (f["train/x"][()] == want[:TRAIN]).all() and (f["test/x"][()] == want[TRAIN:]).all()
    make("c.h5", x=X + 1j * X[:, ::-1])
    run_cure(shoal("data", "inspect", "c.h5", code=7))
    shoal("data", "inspect", "c.h5")
    with h5py.File("c.h5") as f:
        assert (f["test/x"][()] == np.hstack([X, X[:, ::-1]])[TRAIN:]).all()


def test_images_as_files():
    """Bytes of PNG or JPEG files become pixels, all of one size."""
    Image = pytest.importorskip("PIL.Image")
    pictures = np.random.default_rng(2).integers(0, 256, (N, 5, 6, 3)).astype("u1")

    def packed(i):
        out = io.BytesIO()
        Image.fromarray(pictures[i]).resize((6, 5) if i != 3 else (12, 10)).save(out, "PNG")
        return np.frombuffer(out.getvalue(), "u1")
    make("a.h5", x=put_lists([packed(i) for i in range(N)], "u1"))
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, "lists of variable length of u8; if they are images as in files, write their pixels, all scaled to the size of the first")
    run_cure(r)
    assert "images" in shoal("data", "inspect", "a.h5").stdout
    with h5py.File("a.h5") as f:
        x = np.concatenate([f["train/x"][()], f["test/x"][()]])
    keep = np.arange(N) != 3
    assert x.shape == (N, 3, 5, 6) and (x[keep] == pictures.transpose(0, 3, 1, 2)[keep]).all()


@pytest.mark.parametrize("names", (("train/x", "train/y"), ("images", "labels"), ("train/x", "train/targets")))
def test_no_test_split(names):
    """A data set without a test split: training tells the command that makes one with it, and with all other samples."""
    y = X[:, 0].astype("f8") if "targets" in names[1] else CLASSES
    with h5py.File("a.h5", "w") as f:
        f[names[0]], f[names[1]] = X, y
        f.attrs["class_names"] = b"ant\nbee\ncat"
    r = shoal("train", "--set", "run.name=a", "--set", "data.file=a.h5", "--set", "model.name=mlp", "--set", "model.widths=[4]", "--set",
              "run.epochs=1")
    line = re.search("nothing will be evaluated: a.h5 has no test split; this writes a.h5.plain.h5, .*python3 (-c .*)", r.stdout)[1]
    subprocess.run(f"{shlex.quote(sys.executable)} {line}", shell=True, check=True)
    part = names[1].split("/")[-1].replace("labels", "y")
    assert part == "targets" or "cat" in shoal("data", "inspect", "a.h5.plain.h5").stdout
    with h5py.File("a.h5.plain.h5") as f:
        got = {s: list(zip(f[f"{s}/{part}"], map(bytes, f[f"{s}/x"]))) for s in ("train", "test")}
    assert len(got["test"]) == N // 10 and sorted(got["train"] + got["test"]) == sorted(zip(y, map(bytes, X)))


PAIRS = (  # arrays of other names; what is said; the samples and labels in the order of all
    ({"spectra": X, "kind": Y}, "if /spectra are the samples and /kind their classes", X, Y),
    ({"fea": X.T, "gnd": (Y + 1.0)[None]}, "if /fea are the samples and /gnd their classes", X, Y),
    ({"id": np.arange(N), "signal": X, "extra": X[:, :2], "animal": WORDS[Y]}, "if /signal are the samples and /animal their classes", X, Y),
    ({"blobs": X, "price": X[:, 0] * 3}, "if /blobs are the samples and /price the numbers to be predicted", X, X[:, 0] * 3),
    ({"X_train": X[:TRAIN], "answers_train": Y[:TRAIN], "X_test": X[TRAIN:], "answers_test": Y[TRAIN:]},
     "if /X_train are the samples and /answers_train their classes", X, Y),
    ({"data": X, "images": X[:, :3], "labels": np.eye(3)[Y]}, "both /data and /images could be the training samples; if /data are", X, Y),
    ({"clips": np.tile(X[:, None, :, None, None], (1, 5, 1, 2, 3)), "kind": Y}, "if /clips are the samples", np.tile(X[:, None, None, :, None], (1, 3, 5, 1, 2)).reshape(N, 15, 4, 2), Y),
)


@pytest.mark.parametrize("arrays, words, x, y", PAIRS, ids=range(len(PAIRS)))
def test_pair(arrays, words, x, y):
    """Names that tell nothing: the likely samples and labels are named, and the command makes a data set of them."""
    with h5py.File("a.h5", "w") as f:
        for name, values in arrays.items():
            f[name] = values
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, words)
    run_cure(r)
    shoal("data", "inspect", "a.h5.plain.h5")
    with h5py.File("a.h5.plain.h5") as f:
        part = "targets" if y.dtype.kind == "f" else "y"
        test = np.arange(N) >= TRAIN if "X_test" in arrays else np.random.default_rng(1).permutation(N) < N // 10
        for split, rows in (("train", ~test), ("test", test)):
            assert (f[f"{split}/x"][()] == x[rows]).all() and (f[f"{split}/{part}"][()] == y[rows]).all()
        names = f.attrs.get("class_names", "").split("\n")
        assert names == ([""] if part == "targets" else ["cat", "dog", "eel"] if "animal" in arrays else ["1", "2", "3"] if "fea" in arrays else ["0", "1", "2"])


FOLDED = (  # shape of a sample as stored; its samples as images
    ((5, 6, 7, 3), lambda v: np.moveaxis(v, -1, 1).reshape(len(v), 15, 6, 7), "images [15, 6, 7], with their planes as channels"),
    ((9, 6, 7, 3), lambda v: np.moveaxis(v, -1, 1).reshape(len(v), 3, 54, 7), "images [3, 54, 7], with their planes one under another"),
    ((1, 9, 6, 7), lambda v: v.reshape(len(v), 9, 6, 7), "images [9, 6, 7], with"),
    ((9, 3, 6, 7), lambda v: np.moveaxis(v, 2, 1).reshape(len(v), 3, 54, 7), "images [3, 54, 7], with"),
    ((20, 6, 7), lambda v: v.reshape(len(v), 1, 120, 7), "images [1, 120, 7], with"),
    ((2, 2, 2, 2, 2), lambda v: v.reshape(len(v), 32), "rows of features"),
)


@pytest.mark.parametrize("sample, want, words", FOLDED, ids=range(len(FOLDED)))
def test_folded(sample, want, words):
    """Videos and volumes: the command makes images of both splits, with every number in its place."""
    x = np.random.default_rng(2).standard_normal((N, *sample)).astype("f4")
    make("a.h5", x=x)
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, f"a.h5: /train/x has shape [{TRAIN}, ", f"this makes {words}")
    run_cure(r)
    shoal("data", "inspect", "a.h5")
    with h5py.File("a.h5") as f:
        assert (f["train/x"][()] == want(x[:TRAIN])).all() and (f["test/x"][()] == want(x[TRAIN:])).all()


SCATTERED = (  # of 20 samples of two classes, how each is written; what is said
    (lambda f, g, i, x, c: f.create_group(f"{g}sample_{i}").update({"image": x, "label": "ab"[c]}), "a group for each sample"),
    (lambda f, g, i, x, c: f.create_group(f"{g}{i}").update({"x": x, "y": np.int64(c)}), "a group for each sample"),
    (lambda f, g, i, x, c: (f.create_dataset(f"{g}{i}/data", data=x), f[f"{g}{i}"].attrs.create("label", "ab"[c])), "a group for each sample"),
    (lambda f, g, i, x, c: f.create_dataset(f"{g}{i}", data=x).attrs.create("class", c), "an array for each sample"),
    (lambda f, g, i, x, c: f.create_dataset(f"{g}{'ab'[c]}/{i}", data=x), "a group for each class"),
    (lambda f, g, i, x, c: (f.require_dataset(f"{g}{'ab'[c]}", (10, *x.shape), x.dtype), f[f"{g}{'ab'[c]}"].__setitem__(i // 2, x)),
     "an array for each class"))


@pytest.mark.parametrize("splits", (False, True))
@pytest.mark.parametrize("write, words", SCATTERED, ids=range(len(SCATTERED)))
def test_scattered(write, words, splits):
    """Samples in many arrays: the command writes them as one, in their order, with their classes and splits."""
    x = np.arange(20 * 16).reshape(20, 4, 4).astype("u1")
    with h5py.File("a.h5", "w") as f:
        for g in ("train/", "test/") if splits else ("",):
            for i in range(20):
                write(f, g, i, x[i] + (g == "test/"), i % 2)
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, words, "this writes them so into a.h5.plain.h5")
    run_cure(r)
    assert shoal("data", "inspect", "a.h5.plain.h5").returncode == 0
    with h5py.File("a.h5.plain.h5") as f:
        made = {(s, v.tobytes(), int(c)) for s in ("train", "test") for v, c in zip(f[f"{s}/x"][:], f[f"{s}/y"][:])}
        assert len(f["train/x"]) == (20 if splits else 18) and f["train/x"].dtype == np.uint8
    if splits:
        assert made == {(s, (x[i] + (s == "test")).tobytes(), i % 2) for s in ("train", "test") for i in range(20)}
    else:
        assert {m[1:] for m in made} == {(x[i].tobytes(), i % 2) for i in range(20)}


def test_groups_of_samples():
    """A group for each subject, with several samples and as many labels: all samples count, each with its label."""
    with h5py.File("a.h5", "w") as f:
        for s, rows in enumerate((slice(0, 12), slice(12, 30), slice(30, N))):
            f[f"s{s}/eeg"], f[f"s{s}/labels"] = X[rows], CLASSES[rows]
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, "a.h5 has groups with several samples each; samples are expected in one array")
    run_cure(r)
    shoal("data", "inspect", "a.h5.plain.h5")
    with h5py.File("a.h5.plain.h5") as f:
        got = {s: list(zip(f[f"{s}/y"], map(bytes, f[f"{s}/x"]))) for s in ("train", "test")}
    assert len(got["test"]) == N // 10 and sorted(got["train"] + got["test"]) == sorted(zip(CLASSES, map(bytes, X)))


def test_groups_of_splits():
    """Of "x_train/labels" the last word is the part, whatever the group is called."""
    with h5py.File("a.h5", "w") as f:
        for split, rows in (("train", slice(TRAIN)), ("test", slice(TRAIN, N))):
            f[f"x_{split}/data"], f[f"x_{split}/labels"] = X[rows], CLASSES[rows]
    assert "train/x is /x_train/data, train/y is /x_train/labels" in shoal("data", "inspect", "a.h5").stdout
    with h5py.File("b.h5", "w") as f:
        f["Xtr"], f["Ytr"], f["Xte"], f["Yte"] = X[:TRAIN], CLASSES[:TRAIN], X[TRAIN:], CLASSES[TRAIN:]
    assert "test/x is /Xte, test/y is /Yte" in shoal("data", "inspect", "b.h5").stdout


def test_table():
    """An array of rows with members of their own, as PyTables and others write tables: the command makes a CSV."""
    rows = np.zeros(N, dtype=[("a", "f4"), ("b", "i8"), ("kind", "S3")])
    rows["a"], rows["b"], rows["kind"] = X[:, 0], np.arange(N) % 7, WORDS[CLASSES]
    with h5py.File("a.h5", "w") as f:
        f["group/table"] = rows
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, "has no training samples: ", "/group/table [40] compound", ", a table: ", "for shoal data import csv a.h5.csv -o NEW.h5")
    subprocess.run(re.search(r', a table: (.*?) makes a CSV', r.stderr)[1], shell=True, check=True)
    shoal("data", "import", "csv", "a.h5.csv", "-o", "NEW.h5", "--test-share", "0")
    with h5py.File("NEW.h5") as f:
        assert f["train/x"][:] == pytest.approx(np.stack([X[:, 0], np.arange(N) % 7], 1), rel=1e-6) and f["train/y"][:].tolist() == CLASSES.tolist()
        assert f.attrs["class_names"].decode().split("\n") == ["cat", "dog", "eel"]


@pytest.mark.parametrize("shape", ((N, 4), (N, 3, 4, 4)))
def test_filled(shape):
    """Values that are not finite get the mean of the others in the training split: of the feature, or of all pixels."""
    x = np.arange(np.prod(shape)).reshape(shape).astype("f4")
    bad = x.copy()
    bad[(3, 2) if len(shape) == 2 else (3, 2, 1, 1)], bad[TRAIN + 1] = np.nan, np.inf
    make("a.h5", bad)
    r = shoal("data", "inspect", "a.h5", code=7)
    assert_one_error(r, "the first is nan in sample 3", "remove the samples, or fill them by the mean of the others")
    run_cure(r)
    shoal("data", "inspect", "a.h5")
    kept = np.where(np.isfinite(bad[:TRAIN]), bad[:TRAIN], np.nan)
    want = np.where(np.isfinite(bad), bad, np.nanmean(kept, 0 if len(shape) == 2 else None))
    with h5py.File("a.h5") as f:
        assert f["train/x"].dtype == np.float32
        assert np.concatenate([f["train/x"][:], f["test/x"][:]]) == pytest.approx(want, rel=1e-6)


# ---- other files ----

SECRET = "sec\x1b[31mret.h5"


def link(f):
    f["train/x"] = h5py.ExternalLink(SECRET, "/train/x")


def link_of_group(f):
    f["train"] = h5py.ExternalLink(SECRET, "/train")


def link_behind_link(f):
    f["there"] = h5py.ExternalLink(SECRET, "/train")
    f["train"] = h5py.SoftLink("/there")


def foreign_name(f):
    f["X_train"] = h5py.ExternalLink(SECRET, "/train/x")
    f["y_train"] = CLASSES


def storage(f):
    f.create_dataset("train/x", (N, 4), "f4", external=[(SECRET, 0, h5py.h5f.UNLIMITED)])


def view(f):
    layout = h5py.VirtualLayout((N, 4), "f4")
    layout[:] = h5py.VirtualSource(SECRET, "train/x", (N, 4))
    f.create_virtual_dataset("train/x", layout)


def packed_beside_link(f):
    """What h5py could copy, and what it must not."""
    f.create_dataset("train/x", data=X, compression="lzf")
    f["test/x"] = h5py.ExternalLink(SECRET, "/test/x")
    f["test/y"] = CLASSES


@pytest.mark.parametrize("trap, words", (
    (link, "/train/x in a.h5 is a link to"), (link_of_group, "/train in a.h5 is a link to"),
    (link_behind_link, "/there in a.h5 is a link to"), (foreign_name, "/X_train in a.h5 is a link to"),
    (storage, "/train/x in a.h5 keeps its data in"), (view, "/train/x in a.h5 is a virtual data set of"),
    (packed_beside_link, "/test/x in a.h5 is a link to")))
def test_elsewhere(trap, words):
    """The other file is named, none of it is read, nothing advises to copy it, and a refused run leaves nothing behind."""
    os.mkfifo(SECRET)  # whoever opens it waits
    with h5py.File("a.h5", "w") as f:
        trap(f)
        if trap in (link, storage, view, packed_beside_link):
            f["train/y"] = CLASSES
    before = sorted(os.listdir())
    for command in (("data", "inspect", "a.h5"), ("data", "repack", "a.h5", "-o", "b.h5"),
                    ("train", "--set", "data.file=a.h5", "--set", "model.name=mlp", "--set", "run.dir=.", "--set", "run.name=r")):
        r = shoal(*command, code=7)
        assert_one_error(r, words, 'another file, "sec\\x1b[31mret.h5"', ": ask its maker for a file that holds its data itself")
        assert "h5py" not in r.stderr
        assert sorted(os.listdir()) == before


@pytest.mark.parametrize("name, target, words", (
    ("train/x", "/train/x", "/train/x in a.h5 is not there: it is a link to \"/train/x\", which leads nowhere"),
    ("train/y", "gone", "/train/y in a.h5 is not there: it is a link to \"gone\", which leads nowhere"),
    ("test/x", "/other", "/test/x in a.h5 is not there: it is a link to \"/other\", which leads nowhere"),
    ("test/y", "/test/y", "/test/y in a.h5 is not there: it is a link"),
    ("train", "/lost", "/train/x in a.h5 is not there: /train is a link to \"/lost\""),
    ("X_test", "/lost", "/X_test in a.h5 is not there: it is a link to \"/lost\""),
    ("X_train", "/X_train", "/X_train in a.h5 is not there: it is a link to \"/X_train\"")))
def test_dangling(name, target, words):
    """An array whose link leads nowhere is named, by all that read it; the cure works; beside another array it does not matter."""
    make("a.h5")
    with h5py.File("a.h5", "a") as f:
        if "_" in name:
            for split in ("train", "test"):
                f.move(f"{split}/x", f"X_{split}")
                f.move(f"{split}/y", f"y_{split}")
        f.move(name, "kept")
        f[name] = h5py.SoftLink(target)
    before = sorted(os.listdir())
    go = ("train", "--set", "data.file=a.h5", "--set", "model.name=mlp", "--set", "run.steps=1", "--set", "run.dir=.", "--set")
    for command in (("data", "inspect", "a.h5"), ("data", "repack", "a.h5", "-o", "b.h5"), (*go, "run.name=r")):
        r = shoal(*command, code=7)
        assert_one_error(r, words)
        assert sorted(os.listdir()) == before
    with h5py.File("a.h5", "a") as f:
        exec(re.search(r"in h5py: (.*);", r.stderr)[1].replace("NAME", "kept"))
        if name == "X_train":
            f["Images_train"] = f["train_images"] = h5py.SoftLink("/lost")
    shoal("data", "inspect", "a.h5")


def test_refused_folder():
    """A refused run leaves the folder of an earlier run, and one that somebody else made, as they were."""
    make("a.h5")
    go = ("train", "--set", "data.file=a.h5", "--set", "model.name=mlp", "--set", "model.widths=[8]", "--set", "run.dir=.", "--set",
          "run.steps=2", "--set")
    shoal(*go, "run.name=r")
    files = sorted(os.listdir("r"))
    with h5py.File("a.h5", "a") as f:
        del f["test"]
    r = shoal(*go, "run.name=t", "--set", "eval.every=1 steps")
    assert "warning: eval.every does nothing: a.h5 has no test split" in r.stderr
    os.mkdir("made")
    os.rename("a.h5", "b.h5")
    for name in ("r", "made", "new"):
        assert_one_error(shoal(*go, f"run.name={name}", code=7), "a.h5")
    assert sorted(os.listdir("r")) == files and os.path.exists("made/log.txt") and not os.path.exists("new")


def test_refused_above():
    """Folders above that this start made go, too; one that was there, and one that another run uses, stay."""
    make("a.h5")
    os.mkdir("there")
    go = ("train", "--set", "data.file=a.h5", "--set", "model.name=mlp", "--set", "model.widths=[8]", "--set", "run.steps=2")
    drop = ("--set", "data.last=drop", "--set")
    before = sorted(os.listdir())
    for above in ("runs", "new/deep/runs", "there"):
        r = shoal(*go, *drop, f"run.dir={above}", "--set", "run.name=r", "--set", "data.batch=64", code=2)
        assert_one_error(r, f"than the {TRAIN} training samples: set data.last to short or pad, or data.batch to at most {TRAIN}")
        assert sorted(os.listdir()) == before and os.listdir("there") == []
    shoal(*go, *drop, "run.dir=runs", "--set", "run.name=r", "--set", f"data.batch={TRAIN}")
    shoal(*go, *drop, "run.dir=runs", "--set", "run.name=s", "--set", "data.batch=64", code=2)
    assert os.listdir("runs") == ["r"]


def test_only_batch():
    """Where the epoch has one batch, dropping the last one is no cure."""
    with h5py.File("a.h5", "w") as f:
        f["train/x"], f["train/y"] = np.zeros((9, 8, 8, 1), "u1"), np.arange(9, dtype="i4") % 3
    for samples, cure in ((9, "set data.last to drop or pad"), (1, "set data.last to pad")):
        with h5py.File("a.h5", "a") as f:
            for name in ("x", "y"):
                values = f[f"train/{name}"][:samples]
                del f[f"train/{name}"]
                f[f"train/{name}"] = values
            f.attrs["classes"] = 3
        r = shoal("train", "--set", "data.file=a.h5", "--set", "model.name=mlp", "--set", "model.widths=[8]", "--set",
                  "model.norm=batch", "--set", "run.name=r", "--set", "data.batch=8", code=2)
        assert_one_error(r, f"leaves 1 sample for a rank, too few to train this model: {cure}, or choose another batch")
