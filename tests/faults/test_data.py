"""Data sets that are damaged, in several files, or named in ways a shell would read: what training makes of them."""

import json
import os
import re
import shutil
import socket

import h5py
import numpy as np
import pytest

from harness import (ENV, METHODS, assert_equal, assert_one_error, checkpoints, log, metrics, newest, read, sets, shoal, status,
                     train, train_through)

RUN = ("--set", "model.name=mlp", "--set", "model.widths=[16]", "--set", "optim.lr=0.05", "--set", "data.file=g.h5",
       "--set", "run.steps=5")


@pytest.fixture(autouse=True)
def glyphs(work):
    shoal("data", "synth", "glyphs", "-o", "g.h5", "--train", 200, "--test", 40)


def make_old():
    """A file as it was before samples had check sums."""
    with h5py.File("g.h5", "a") as f:
        for split in ("train", "test"):
            del f[split]["x_crc32c"]
            del f[split]["y"].attrs["crc32c"]


@pytest.mark.parametrize("ranks", (1, 2))
def test_flipped_pixel(ranks):
    """One bit of one sample, which no statistics show: training ends before it learns from it."""
    with h5py.File("g.h5", "a") as f:
        f["train/x"][150, 0, 3, 3] ^= 1
    r = train(ranks, "r", *RUN, code=7)
    assert_one_error(r, "g.h5: sample 150 of /train/x is damaged") if ranks == 1 else None
    assert "sample 150 of /train/x is damaged" in r.stderr
    assert "damaged" in shoal("data", "inspect", "g.h5", code=7).stderr


def end_of(name):
    s = status(name)
    return s["state"], s["exit_code"], s["rank"]


@pytest.mark.parametrize("method, split", (("sync", "train"), ("local-sgd", "train"), ("swarm", "train"), ("ab", "train"),
                                           ("swarm", "test")))
def test_flipped_on_one_node(method, split):
    """Two of four ranks have a bad copy.  All end with 7, none by an abort; one line names the host, the lowest of the two and the
    sample, on the terminal as in log.txt and status.json; and nothing is saved of a step in which a rank had no samples."""
    os.mkdir("bad")
    shutil.copy("g.h5", "bad")
    with h5py.File("bad/g.h5", "a") as f:
        f[f"{split}/x"][5, 0, 3, 3] ^= 1
    os.mkdir("ends")
    ends = os.path.abspath("ends")  # mpirun ends the other ranks when one has ended
    script = f'[ $R -lt 2 ] || cd bad; "$@"; touch {ends}/$R.$?; while [ $(ls {ends} | wc -l) -lt 4 ]; do sleep 0.1; done; exit 7'
    r = train_through(script, 4, "r", *RUN, *METHODS[method], "--topo", "2x2",
                      *sets(method__name=method, model__widths="[64,32]", run__dir=os.path.abspath("runs"), data__global_batch=40,
                            ckpt__every="1 steps"), code=7)
    host = socket.gethostname().split(".")[0]
    text = f"g.h5: sample 5 of /{split}/x is damaged: check sum"
    errors = [line for line in r.stderr.splitlines() if "shoal: " in line]
    assert len(errors) == 1 and errors[0].startswith(f"[rank 2] shoal: error: {text}"), r.stderr
    assert errors[0].endswith(f"(host {host})") and "MPI_ABORT" not in r.stderr, r.stderr
    assert sorted(os.listdir("ends")) == [f"{k}.7" for k in range(4)]
    assert log("r").count(f"error: rank 2 ({host}) failed: {text}") == 1 == log("r").count("error"), log("r")
    assert status("r")["reason"].startswith(f"rank 2 ({host}) failed: {text}") and end_of("r") == ("failed", 7, 2), status("r")
    assert bool(checkpoints("r")) == (split == "test"), checkpoints("r")


@pytest.mark.parametrize("method, split", (("sync", "train"), ("local", "train"), ("sync", "test")))
def test_flipped_in_all_copies(method, split):
    """Every rank that reads meets the same sample (those of local that have no input layer read none): the lowest tells it for
    all."""
    with h5py.File("g.h5", "a") as f:
        f[f"{split}/x"][5, 0, 3, 3] ^= 1
    r = train(4, "r", *RUN, *METHODS[method], "--topo", "4x1", *sets(method__name=method, model__widths="[64,32]"), code=7)
    errors = [line for line in r.stderr.splitlines() if "shoal: " in line]
    assert len(errors) == 1 and errors[0].startswith(f"[rank 0] shoal: error: g.h5: sample 5 of /{split}/x is damaged"), r.stderr
    assert log("r").count("error") == 1 and end_of("r") == ("failed", 7, 0), log("r")


def test_flipped_elsewhere():
    """In the test split, in a label, and in a file that has only the one check sum over everything."""
    with h5py.File("g.h5", "a") as f:
        f["test/x"][7, 0, 3, 3] ^= 1
    assert_one_error(train(1, "r", *RUN, code=7), "g.h5: sample 7 of /test/x is damaged")
    with h5py.File("g.h5", "a") as f:
        f["test/x"][7, 0, 3, 3] ^= 1
        f["train/y"][5] = 9 - f["train/y"][5]
    assert_one_error(train(1, "s", *RUN, code=7), "g.h5: /train/y is damaged")
    make_old()
    assert_one_error(train(1, "t", *RUN, code=7), "g.h5 is damaged: its data has check sum")
    with h5py.File("g.h5", "a") as f:
        f["train/y"][5] = 9 - f["train/y"][5]
    train(1, "u", *RUN)


def test_numbers_beyond_floats():
    """Time stamps and nearly equal numbers of a foreign file: the feature is named once per job, with an example."""
    rng = np.random.default_rng(1)
    for name, column, wide in (("stamps", 1700000000 + np.arange(200), "i8"), ("close", 1 + 1e-9 * np.arange(200), "f8"),
                               ("fine", np.arange(200) / 7, "f8"), ("single", 1 + 1e-9 * np.arange(200), "f4")):
        with h5py.File(f"{name}.h5", "w") as f:
            f["train/x"] = np.stack([rng.integers(0, 9, 200), column], 1).astype(wide)
            f["train/y"] = rng.integers(0, 2, 200)
    run = (*RUN, "--set", "data.batch=8", "--set")
    lost = "/train/x, feature 1: "
    stamps = train(2, "a", *run, "data.file=stamps.h5").stderr
    assert stamps.count(lost) == 1 and "too large for 32-bit floats, 1700000001 becomes 1700000000: subtract" in stamps
    close = train(2, "b", *run, "data.file=close.h5").stderr
    assert close.count(lost) == 1 and "become equal to their neighbours in 32-bit floats, such as 1 and 1.00000" in close
    assert "floats" not in train(1, "c", *run, "data.file=fine.h5").stderr
    assert "floats" not in train(1, "d", *run, "data.file=single.h5").stderr
    assert shoal("data", "inspect", "stamps.h5").stderr.count(lost) == 1
    assert shoal("data", "repack", "stamps.h5", "-o", "packed.h5").stderr.count(lost) == 1


def test_numbers_far_behind():
    """Ids that outgrow 32-bit floats long after the first samples."""
    with h5py.File("ids.h5", "w") as f:
        f["train/x"] = np.stack([np.arange(20000) * 2001, np.arange(20000) % 7], 1)
        f["train/y"] = np.arange(20000) % 2
    assert "/train/x, feature 0: " in shoal("data", "inspect", "ids.h5").stderr


@pytest.mark.parametrize("n, features, period, rtol", ((40960, 4, 10, 1e-4), (40960, 4, 4096, 1e-4), (8192, 33000, 2, 0.05)))
def test_periodic(n, features, period, rtol):
    """Samples of two kinds that alternate: mean and deviation are those of all, in a run as after repacking; where the split is
    too large to be read whole, nearly."""
    x = np.random.default_rng(1).integers(0, 3, (n, features) if features < 9 else features, "u1")
    x = np.broadcast_to(x, (n, features)).astype("f4" if features < 9 else "u1")
    x[::period, 0 if features < 9 else slice(None)] += 200
    with h5py.File("p.h5", "w") as f:
        f["train/x"], f["train/y"] = x, (np.arange(n) % period == 0).astype("i4")
    first = x[:, 0] if features < 9 else x[:64]
    wanted = first.mean(dtype="f8"), first.std(dtype="f8")
    names = ("p",)
    if features < 9:
        shoal("data", "repack", "p.h5", "-o", "q.h5")
        names = ("p", "q")
    for name in names:
        r = train(1, name, *RUN[:3], "model.widths=[2]", *sets(data__file=f"{name}.h5", run__steps=1, data__batch=8))
        assert ("measured over all 40960 training samples" in r.stdout) == (name == "p" and features < 9), r.stdout
        with h5py.File(newest(name)) as f:
            assert np.allclose((f.attrs["mean"][0], f.attrs["std"][0]), wanted, rtol=rtol), (f.attrs["mean"], wanted)


def test_packed_and_large():
    """Where one sample unpacks a chunk, all of the chunk are looked at, at fewer places: together as much as of other files."""
    n, rows = 20000, 256
    x = np.zeros((n, 1024), "u1")
    x[:n // 2, 0] = 200  # sorted by class
    with h5py.File("p-0.h5", "w") as f:
        f.create_dataset("train/x", data=x, chunks=(rows, 1024), compression="gzip", compression_opts=1)
        f["train/y"] = (x[:, 0] > 0).astype("i4")
    for i in range(1, 16):
        os.link("p-0.h5", f"p-{i}.h5")
    r = train(1, "r", *RUN[:2], *sets(model__widths="[2]", data__file="[p-*.h5]", run__steps=1, data__batch=8))
    looks = [int(k) for k in re.findall(r"estimated from (\d+) of 320000 training samples", r.stdout)]
    assert len(looks) == 1 and 16 * 64 * rows / 2 < looks[0] <= 16 * 64 * rows, looks
    with h5py.File(newest("r")) as f:
        assert np.allclose((f.attrs["mean"][0], f.attrs["std"][0]), (100, 100), rtol=0.1), (f.attrs["mean"][0], f.attrs["std"][0])


def test_scale_beside_kind():
    """A stated mean and deviation are looked at also where a file states its kind, and feature by feature."""
    x = np.random.default_rng(1).integers(0, 256, (60, 1, 4, 4), "u1")
    with h5py.File("a.h5", "w") as f:
        f["train/x"], f["train/y"] = x, np.arange(60) % 2
        f.attrs.update(kind="images", classes=2, mean=0.5, std=0.29)
    words = "attributes mean and std are not used: 0.5 and 0.29 are not those of /train/x, which has "
    assert shoal("data", "inspect", "a.h5").stderr.count(words) == 1
    x = plain_set()
    with h5py.File("a.h5", "a") as f:
        f["train/x"][:, 3] += 50  # hidden by the deviation of feature 0
        f["train/x"][:, 0] *= 1e4
        f.attrs.update(mean=np.zeros(5), std=np.array([1e4, 1, 1, 1, 1]))
    r = shoal("data", "inspect", "a.h5")
    assert r.stderr.count("0 and 1 in feature 3 are not those of /train/x, which has 49.9") == 1, r.stderr
    with h5py.File("a.h5", "a") as f:
        f.attrs["mean"] = np.array([0, 0, 0, 48, 0.0])
    assert "not used" not in shoal("data", "inspect", "a.h5").stderr


def edge(name, scale, dtype):
    """Feature 1 alone tells the classes apart, and has this scale."""
    rng = np.random.default_rng(1)
    y = np.arange(400) % 2
    x = np.stack([rng.standard_normal(400), (2 * y - 1 + 0.1 * rng.standard_normal(400)) * scale], 1).astype(dtype)
    with h5py.File(f"{name}.h5", "w") as f:
        for split, rows in (("train", slice(300)), ("test", slice(300, None))):
            f[f"{split}/x"], f[f"{split}/y"] = x[rows], y[rows]


EDGES = (("subnormal", 1e-39, "f4", 1), ("doubles", 1e-39, "f8", 1), ("few", 1e-44, "f8", 1), ("small", 1e-37, "f4", 0),
         ("large", 2.5e38, "f4", 0), ("rounded", 1e30, "f8", 0))


@pytest.mark.parametrize("flush", ("true", "false"))
@pytest.mark.parametrize("name, scale, dtype, warnings", EDGES)
def test_ends_of_floats(name, scale, dtype, warnings, flush):
    """A feature near either end of what a 32-bit float holds is learnt from, flushed or not; told once if it has lost digits, with
    its range and a cure that works."""
    edge(name, scale, dtype)
    run = ("--set", "model.name=mlp", "--set", "model.widths=[16]", "--set", "optim.lr=0.1", "--set", "data.batch=20", "--set",
           "run.epochs=4", "--set", f"numbers.flush={flush}")
    r = train(2, "a", *run, "--set", f"data.file={name}.h5")
    assert float(metrics("a")[-1]["test_acc"]) == 1, r.stdout
    cure = f"multiply them by 1e{-np.floor(np.log10(scale)):.0f}"
    assert r.stderr.count("warning") == r.stderr.count("/train/x, feature 1: all 300 numbers are between") == warnings, r.stderr
    assert r.stderr.count(cure) == warnings
    assert shoal("data", "inspect", f"{name}.h5").stderr.count(cure) == warnings
    shoal("data", "repack", f"{name}.h5", "-o", "packed.h5")  # states the standard deviation
    assert shoal("data", "inspect", "packed.h5").stderr.count(cure) == warnings
    train(1, "b", *run, "--set", "data.file=packed.h5")
    assert float(metrics("b")[-1]["test_acc"]) == 1
    edge(name, scale * 10 ** -np.floor(np.log10(scale)), "f8")
    assert "warning" not in shoal("data", "inspect", f"{name}.h5").stderr


def test_outside_floats():
    """Doubles that become 0 or infinite are told with the range and the factor; as text at their import, too."""
    for name, scale, words in (("gone", 1e-60, "1.4e-45 it is 0: multiply them by 1e60"),
                               ("beyond", 1e300, "numbers are larger than any 32-bit float; they are between -1.31e+300 and "
                                                 "1.27e+300: divide them by 1e300")):
        edge(name, scale, "f8")
        r = shoal("data", "inspect", f"{name}.h5", code=7 if name == "beyond" else 0)
        assert r.stderr.count("/train/x, feature 1: all ") + r.stderr.count("/train/x, feature 1: 300 of ") == 1 and words in r.stderr, r.stderr
    with open("t.csv", "w") as f:
        f.write("a,b,label\n" + "".join(f"{k * k % 7},{k}e-60,{k % 2}\n" for k in range(1, 40)))
    r = shoal("data", "import", "csv", "t.csv", "-o", "t.h5")
    assert 't.csv: column 2, "b": all 39 numbers are between 1e-60 and 3.9e-59' in r.stderr, r.stderr


def plain_set(name="a.h5", tests=slice(200, 240), dtype="f4", scale=1, **values):
    """Five features; `values` are numbers at places such as x3_2, sample 3 and feature 2."""
    x = (np.random.default_rng(1).standard_normal((240, 5)) * scale).astype(dtype)
    for place, value in values.items():
        sample, feature = map(int, place[1:].split("_"))
        x[sample, feature] = value
    with h5py.File(name, "w") as f:
        for split, rows in (("train", slice(200)), ("test", tests)):
            f[f"{split}/x"], f[f"{split}/y"] = x[rows], np.arange(240)[rows] % 3
    return x


MARKS = ((-9999, True), (999, True), (99.99, True), (-32768, True), (1e20, True), (9.96921e36, True), (4e5, True), (8, False), (99, True),
         (30, False), (-100, False))


@pytest.mark.parametrize("value, told", MARKS)
def test_marks_of_missing_values(value, told):
    """A number apart from all others: told once, with its feature, how often it occurs and the range of the rest, by `inspect` of a
    file from elsewhere and of ours, by training, and of the test split alone."""
    plain_set(x3_2=value, x7_2=value)
    words = f"/train/x, feature 2: 2 of 200 numbers are {value:g}, all others are between -"
    for command in (("data", "inspect", "a.h5"), ("train", *RUN, "--set", "data.file=a.h5", "--set", "run.name=m",
                                                  "--set", "numbers.bad=skip")):
        assert shoal(*command).stderr.count(words) == told, command
    shoal("data", "repack", "a.h5", "-o", "b.h5")
    assert shoal("data", "inspect", "b.h5").stderr.count(words) == told
    plain_set(x203_4=value)
    r = shoal("data", "inspect", "a.h5")
    assert r.stderr.count(f"/test/x, feature 4: 1 of 40 numbers is {value:g}, all others") == told
    assert r.stderr.count("numbers") == told


def test_outliers():
    """A few samples that are absurdly far away neither decide about the mean and deviation that a file states, nor about those that
    are measured, of an import as of a file from elsewhere; they are told with sample, feature and value, also where they are
    too near to be left out.  Training takes what is beyond 1e30 for a bad input."""
    good = plain_set()[:200]
    bad = good.copy()
    bad[[0, 7, 9], 1] = 3e38, -2e7, 1e7  # the first sample, too
    bad[11, 2:] = 2e38

    def write(x, stated):
        with h5py.File("a.h5", "w") as f:
            f["train/x"], f["train/y"] = x, np.arange(200) % 3
            if stated:
                f.attrs["mean"], f.attrs["std"] = 0.0, 1.0
        np.savez("a.npz", X_train=x, y_train=np.arange(200) % 3)

    run = ("train", *RUN, "--set", "data.file=a.h5", "--set", "data.global_batch=40", "--set", "numbers.bad=skip")
    for stated in (False, True):
        write(bad, stated)
        r = shoal(*run, "--set", f"run.name=stated{stated}")
        assert ("/train/x, feature 1: 3 of 200 numbers are far from all others, which are between " in r.stderr and
                "the first is 3e+38 in sample 0; correct it" in r.stderr), r.stderr
        assert "feature 2: 1 of 200 numbers is 2e+38, all others are between -" in r.stderr, r.stderr
        assert ": in sample 11, and so in 2 more features of it; correct it" in r.stderr, r.stderr
        assert "not used" not in r.stderr, r.stderr
        assert "sample 11 of /train/x is beyond 1e30 once normalised: feature 2 is 2e+38" in r.stderr, r.stderr
        with h5py.File(newest(f"stated{stated}")) as f:
            mean, std = f.attrs["mean"], f.attrs["std"]
        rest = good.astype("f8")
        wanted = [np.delete(rest[:, k], gone) for k, gone in enumerate(([], [0, 7, 9], 11, 11, 11))]
        assert np.allclose(mean, 0 if stated else [c.mean() for c in wanted], rtol=0, atol=1e-12)
        assert np.allclose(std, 1 if stated else [c.std() for c in wanted], rtol=1e-12)
        if not stated:
            shoal("data", "import", "npy", "a.npz", "-o", "i.h5", "--test-share", 0)
            with h5py.File("i.h5") as f:
                assert np.allclose(f.attrs["mean"], mean, rtol=1e-12) and np.allclose(f.attrs["std"], std, rtol=1e-12)
    assert_one_error(shoal(*run, "--set", "run.name=stop", "--set", "numbers.bad=stop", code=6), "is beyond 1e30 once normalised")
    # The ends of f32 in several features, one of each sign: one line.
    far = good.copy()
    far[[2, 4], 1], far[[3, 5], 3], far[[6, 7, 8], 0] = (3.4028235e38 * np.array(sign) for sign in ((1, -1), (-1, 1), (1, 1, -1)))
    write(far, False)
    r = shoal("data", "inspect", "a.h5")
    lines = [line for line in r.stderr.splitlines() if "all others" in line]
    assert len(lines) == 1 and "feature 0: 3 of 200 numbers are far from all others" in lines[0], r.stderr
    assert "the first is 3.40282e+38 in sample 6; 2 more features have numbers as large; correct it" in lines[0], r.stderr
    near = good.copy()
    near[33, 4] = 1e5
    write(near, True)
    assert "not used" not in shoal("data", "inspect", "a.h5").stderr
    write(near, False)
    words = "in sample 33; correct it, or if it marks missing values, fill these or remove the samples; with it, all others are normalised to"
    assert words in shoal("data", "inspect", "a.h5").stderr
    write(good * 100, True)  # most values do not fit
    assert "attributes mean and std are not used" in shoal("data", "inspect", "a.h5").stderr


def test_marks_of_ordinary_numbers():
    """Counts, truth values, constants, numbers of any scale: nothing is told."""
    rng = np.random.default_rng(2)
    for scale in (1e-30, 1, 1e5, 1e25):
        plain_set(scale=scale)
        assert "missing" not in shoal("data", "inspect", "a.h5").stderr
    columns = [rng.integers(0, 2, 240), np.full(240, -9999), rng.integers(0, 100, 240), np.exp(3 * rng.standard_normal(240)),
               rng.poisson(0.02, 240), 1900 + rng.integers(0, 100, 240), rng.integers(0, 2**24, 240)]
    with h5py.File("a.h5", "w") as f:
        f["train/x"], f["train/y"] = np.stack(columns, 1).astype("f4"), np.arange(240) % 3
    assert shoal("data", "inspect", "a.h5").stderr == ""


@pytest.mark.parametrize("attribute", ("_FillValue", "missing_value"))
@pytest.mark.parametrize("dtype, value", (("f4", -1), ("i2", 7), ("u1", 255)))
def test_fill_value(attribute, dtype, value):
    """What an array itself calls no value is told where samples have it, whatever number it is."""
    plain_set(dtype=dtype, scale=3, x3_2=value, x3_4=value, x9_0=value)
    with h5py.File("a.h5", "a") as f:
        wanted = (f["train/x"][()] == value).any(1).sum()
        f["train/x"].attrs[attribute] = np.array([value], dtype)
    words = f"{wanted} of 200 samples of /train/x have {value}, which its attribute {attribute} says is no value"
    assert shoal("data", "inspect", "a.h5").stderr.count(words) == 1
    with h5py.File("a.h5", "a") as f:
        f["train/x"].attrs[attribute] = np.array([123], dtype)
    assert "no value" not in shoal("data", "inspect", "a.h5").stderr
    with h5py.File("a.h5", "a") as f:
        f["train/x"].attrs[attribute] = "none"
    assert "no value" not in shoal("data", "inspect", "a.h5").stderr


def test_samples_in_both_splits():
    """Told by `inspect`, and by imports, which end with it, with how many there are and the first."""
    plain_set(tests=slice(180, 240))
    words = "20 of 60 samples of /test/x are in /train/x, too, the first is sample 0: accuracy on what was learnt from says little"
    assert words in shoal("data", "inspect", "a.h5").stderr
    plain_set(tests=slice(198, 240))  # less than a tenth of a table: rows are equal by chance
    assert "too, the first" not in shoal("data", "inspect", "a.h5").stderr
    with h5py.File("g.h5") as g, h5py.File("b.h5", "w") as f:
        for name in ("train/x", "train/y", "test/x", "test/y"):
            f[name] = g[name][()]
        assert "too, the first" not in shoal("data", "inspect", "g.h5").stderr
        f["test/x"][39] = f["train/x"][7]
    assert "1 of 40 samples of /test/x are in /train/x, too, the first is sample 39" in shoal("data", "inspect", "b.h5").stderr


def test_splits_scaled_otherwise():
    """A test split that was divided by 255, and one that was not, is told; features that are constant are shown."""
    x = np.random.default_rng(1).integers(0, 256, (60, 4)).astype("f4")
    x[:, 2] = 7
    for factor in (1, 1 / 255):
        with h5py.File("a.h5", "w") as f:
            f["train/x"], f["train/y"], f["test/x"], f["test/y"] = x[:40], np.arange(40) % 2, factor * x[40:], np.arange(20) % 2
        r = shoal("data", "inspect", "a.h5")
        assert ("a.h5: /test/x has mean" in r.stderr and "are both scaled alike?" in r.stderr) == (factor < 1), r.stderr
        assert "1 of 4 have the same value in all samples, the first is 2 (7)" in r.stdout
        assert ("feature 2 is 7 in all of /train/x and not in /test/x: its weights are never trained" in r.stderr) == (factor < 1)
    with h5py.File("a.h5", "a") as f:
        f["test/x"][...] = x[40:]
        f["test/x"][:, 1] *= 1000
    assert "in feature 1, /train/x" in (told := shoal("data", "inspect", "a.h5").stderr) and "in the same units?" in told


def test_first_bad_value():
    """`inspect` says where it is, in features and in images."""
    plain_set(x7_2=np.nan, x205_1=np.inf)
    assert_one_error(shoal("data", "inspect", "a.h5", code=7), "a.h5: 2 values are not finite as 32-bit floats",
                     "the first is nan in sample 7 of /train/x, feature 2: remove the samples, or fill them by the mean")
    x = np.zeros((40, 3, 4, 5), "f4")
    x[5, 2, 1, 3] = -np.inf
    with h5py.File("a.h5", "w") as f:
        f["train/x"], f["train/y"] = x[:5], np.arange(5) % 3
        f["test/x"], f["test/y"] = x[5:], np.arange(35) % 3
    assert_one_error(shoal("data", "inspect", "a.h5", code=7), "a.h5: 1 value is not finite as a 32-bit float",
                     "the first is -inf in sample 0 of /test/x, channel 2, row 1, column 3")


def test_paths(monkeypatch):
    """~ and variables in every path option and flag, from the run file, --set and the environment; nothing is guessed."""
    os.makedirs("home/in$put")
    os.rename("g.h5", "home/in$put/g.h5")
    monkeypatch.setitem(ENV, "HOME", f"{os.getcwd()}/home")
    monkeypatch.setitem(ENV, "WHERE", "home")
    with open("r.yaml", "w") as f:
        f.write("run: {dir: ~/runs, name: a}\ndata: {file: '${WHERE}/in$$put/g.h5'}\n")
    run = RUN[:6] + RUN[8:]
    shoal("train", "r.yaml", *run)
    resolved = f"{os.getcwd()}/home/runs/a/run.yaml"
    assert "home/in$$put/g.h5" in read(resolved) and f"dir: {os.getcwd()}/home/runs" in read(resolved)
    shoal("train", resolved, "--set", "run.name=b", "--resume", "never", "--allow-faults")  # reads back as it is
    shoal("train", *run, "--set", "data.file=~/in$$put/g.h5", env={"SHOAL_RUN_DIR": "$WHERE/c"})
    assert os.path.exists("home/c/run/status.json")
    newest = sorted(os.listdir("home/runs/a/ckpt"))[-1]
    shoal("ckpt", "export", f"home/runs/a/ckpt/{newest}", "-o", "~/m.h5")
    assert os.path.exists("home/m.h5")
    for bad, words in (("$NO_SUCH/g.h5", ("$NO_SUCH is not set here", "write the path")), ("~who/g.h5", ("only ~/ is expanded",)),
                       ("${x/g.h5", ("not a variable", "${NAME}"))):
        assert_one_error(shoal("train", *run, "--set", f"data.file={bad}", code=2), f'data.file is "{bad}"', *words)
    assert_one_error(shoal("ckpt", "export", "x.h5", "-o", "$NO_SUCH/m.h5", code=2), "is not set")


def split_up():
    """g.h5 as three files: two for training and one whose name says that it is for tests."""
    with h5py.File("g.h5") as g:
        for name, split, a, b in (("part-1.h5", "train", 0, 70), ("part-2.h5", "train", 70, 200), ("part-test.h5", "test", 0, 40)):
            with h5py.File(name, "w") as f:
                f["x"], f["y"] = g[split]["x"][a:b], g[split]["y"][a:b]


def test_several():
    """Three files train like one, whatever the way they are given, on several ranks and resumed."""
    split_up()
    with h5py.File("g.h5") as g, h5py.File("whole.h5", "w") as f:
        for split in ("train", "test"):
            for part in "xy":
                f[f"{split}/{part}"] = g[split][part][:]
    run = RUN[:6]
    more = ("--set", "run.epochs=3", "--set", "data.global_batch=20")
    train(1, "one", *run, *more, "--set", "data.file=whole.h5")
    for ranks, name, files in ((1, "list", "[part-1.h5,part-2.h5,part-test.h5]"), (2, "glob", "part-?*.h5")):
        r = train(ranks, name, *run, *more, "--set", f"data.file={files}")
        assert "3 files are one data set, in this order: part-1.h5, part-2.h5, part-test.h5" in r.stdout
        assert "200 training and 40 test samples" in r.stdout
        assert_equal(newest("one"), newest(name), name, "model/", tolerance=1e-4)
    train(1, "half", *run, *more, "--set", "data.file=part-*", "--allow-faults", "--set", "fault.stop_step=12", code=75)
    train(1, "half", *run, *more, "--set", "data.file=part-*")
    assert_equal(newest("list"), newest("half"), "resumed")
    r = train(1, "half", *run, *more, "--set", "data.file=[part-2.h5,part-1.h5,part-test.h5]", "--set", "run.epochs=4", code=2)
    assert_one_error(r, "is not the data set this run was trained on", "of 200 that were compared are others")


def test_empty_parts():
    """Of several files those without a sample, whatever their shape, are left out and told at once: the run is that of the others.
    Alone, or all, they are refused, with all empty arrays."""
    def write(name, n, tests=None):
        with h5py.File(name, "w") as f:
            for split, k in (("train", n), ("test", tests)):
                if k is not None:
                    f[f"{split}/x"], f[f"{split}/y"] = x[:k] + n, np.arange(k) % 3
    x = np.random.default_rng(4).standard_normal((100, 8)).astype("f4")
    write("p0.h5", 100, 20)
    write("p1.h5", 0)
    write("p2.h5", 37)
    with h5py.File("p3.h5", "w") as f:
        f["train/x"] = f["train/y"] = f["test/x"] = f["test/y"] = np.array([])
    run = (*RUN[:6], *sets(data__global_batch=16, run__epochs=1))
    r = train(2, "parts", *run, "--set", "data.file=p?.h5")
    assert r.stderr.count("warning") == 1 and "p1.h5, p3.h5: no samples in these of the 4 files, which are left out" in r.stderr, r.stderr
    train(2, "two", *run, "--set", "data.file=[p0.h5,p2.h5]")
    assert_equal(newest("parts"), newest("two"), "parts")
    assert_one_error(shoal("data", "inspect", "p1.h5", code=7), "p1.h5: /train/x has no samples: write some, or give a file that has")
    assert_one_error(shoal("data", "inspect", "p3.h5", code=7), "p3.h5: /train/x and /test/x have no samples: write some")
    assert_one_error(shoal("data", "repack", "p1.h5", "p3.h5", "-o", "n.h5", code=7), "p1.h5, p3.h5: no samples in any of the 2 files")
    write("p4.h5", 0, 20)  # for tests alone
    shown = json.loads(shoal("data", "inspect", "p2.h5", "p4.h5", "--json").stdout)
    assert (shown["train"]["samples"], shown["test"]["samples"]) == (37, 20)


def test_class_names_of_others():
    """Fewer names than classes, or more than a checkpoint holds: told, not used."""
    plain_set()
    for names, words in (("a\nb", "it has 2 lines for 3 classes"), ("\n".join(["x" * 1500000] * 3), "it takes 4500002 bytes, checkpoints hold 4194304")):
        with h5py.File("a.h5", "a", libver="latest") as f:
            f.attrs["class_names"] = names
        assert f"attribute class_names is not used: {words}" in shoal("data", "inspect", "a.h5").stderr


def test_mended():
    """A run that a bad sample ended goes on with the mended file from its last checkpoint, if that is asked for, to the bits of one
    that had the mended file from its start; never with another number of samples, and not by itself."""
    x, y = np.random.default_rng(3).standard_normal((320, 5)).astype("f4"), np.arange(320) % 3

    def write(n=320, **values):
        with h5py.File("a.h5", "w") as f:
            f["train/x"], f["train/y"] = x[:n], y[:n]
            f.attrs.update(values, mean=0.0, std=1.0, kind="features")
    run = (*RUN[:6], "--set", "data.file=a.h5", "--set", "data.batch=20", "--set", "run.epochs=2", "--set", "ckpt.every=2 steps")
    x[150, 3], mended = np.nan, x[150, 3]
    write()
    assert_one_error(train(1, "r", *run, code=6), "sample 150 of /train/x is not finite")
    last = newest("r")
    x[150, 3] = mended
    write()
    r = train(1, "r", *run, code=2)
    assert_one_error(r, "was changed since this run was trained on it: it has 320 training samples",
                     ", and 1 of 256 that were compared are others; give", "set data.changed to accept")
    good = x.copy()
    x[:] = -x
    write()
    for change in ("refuse", "accept"):  # not mended: others
        r = train(1, "r", *run, "--set", f"data.changed={change}", code=2)
        assert_one_error(r, "its 320 training samples are as many, and 256 of 256 that were compared are others; give the same")
    x[:] = good
    write(310)
    assert_one_error(train(1, "r", *run, "--set", "data.changed=accept", code=2), "it has 310 training samples", "that one had 320")
    write()
    r = train(1, "r", *run, "--set", "data.changed=accept")
    words = "its 320 training samples are as many as then, and 1 of 256 that were compared are others; the run goes on with them"
    assert r.stderr.count(words) == 1, r.stderr
    assert f"resumed from {last}" in r.stdout, r.stdout
    train(1, "whole", *run)
    assert_equal(newest("r"), newest("whole"), "mended", "model/")
    assert "going on" not in train(1, "r", *run).stderr  # the next start knows the new file


def test_several_shown():
    """`inspect` shows each of several files and what they are together; `repack` makes one of them, with which a run goes on."""
    split_up()
    text = shoal("data", "inspect", "part-1.h5", "part-2.h5", "part-test.h5").stdout
    parts = text.split("3 files as one data set\n  kind")
    assert len(parts) == 2 and all(f"\npart-{name}.h5\n" in parts[0] for name in ("1", "2", "test"))
    assert re.search(r"train +200 .*\n +test +40 ", parts[1])
    shown = json.loads(shoal("data", "inspect", "part-*.h5", "--json").stdout)
    one = json.loads(shoal("data", "inspect", "g.h5", "--json").stdout)
    assert [f["path"] for f in shown["files"]] == ["part-1.h5", "part-2.h5", "part-test.h5"]
    for split in ("train", "test"):
        assert shown[split] == {k: one[split][k] for k in ("samples", "histogram")}
        assert sum(f[split]["samples"] for f in shown["files"]) == one[split]["samples"]
    assert np.allclose(shown["mean"] + shown["std"], one["mean"] + one["std"], rtol=1e-9)

    shoal("data", "repack", "part-*.h5", "-o", "packed.h5")
    with h5py.File("g.h5") as g, h5py.File("packed.h5") as p:
        for name in ("train/x", "train/y", "test/x", "test/y"):
            assert (g[name][()] == p[name][()]).all(), name
    run = RUN[:6]
    train(1, "a", *run, "--set", "data.file=part-*.h5", "--set", "run.epochs=1")
    train(1, "a", *run, "--set", "data.file=packed.h5", "--set", "run.epochs=2")

    for name, label in (("part-1.h5", -3), ("part-2.h5", 77)):
        with h5py.File(name, "a") as f:
            f["y"][5] = label
            f.attrs["classes"] = 10
    r = shoal("data", "inspect", "part-*.h5", code=7)
    assert r.stderr.count("error: part-1.h5: 1 labels of /y") == r.stderr.count("error: part-2.h5: 1 labels of /y") == 1, r.stderr
    assert "3 files as one data set" in r.stdout


def test_several_classes():
    """Files that number their classes differently are matched by name: training sees the labels of the file that repack makes of them,
    which are those of one import of both; what cannot be matched says both."""
    rng = np.random.default_rng(1)
    files = (("a", "ant cow"), ("b", "ant bee cow"))
    for name, classes in files:
        with open(f"{name}.csv", "w") as f:
            f.write("u,v,label\n")
            for i in range(60):
                c = classes.split()[i % len(classes.split())]
                f.write(f"{rng.normal() + 9 * (c > 'b')},{rng.normal() + 9 * (c > 'c')},{c}\n")
        shoal("data", "import", "csv", f"{name}.csv", "-o", f"{name}.h5")
    r = shoal("data", "repack", "a.h5", "b.h5", "-o", "both.h5")
    assert 'b.h5 numbers its classes differently than a.h5, so classes are matched by name: 3 in all, "ant", "cow", "bee"' in r.stdout + r.stderr
    shoal("data", "inspect", "both.h5")
    with h5py.File("both.h5") as f:
        known = f.attrs["class_names"].decode().split("\n")
        for x, y in zip(f["train/x"][:], f["train/y"][:]):
            assert known[y] == ("ant" if x[0] < 4.5 else "bee" if x[1] < 4.5 else "cow"), (x, y)
        want = len(f["train/y"])
    r = shoal("data", "inspect", "a.h5", "b.h5")
    assert "2 files as one data set" in r.stdout, r.stdout
    run = ["--set", "model.name=mlp", "--set", "model.widths=[4]", "--set", "data.global_batch=8", "--set", "run.epochs=2", "--set", "optim.lr=0.1"]
    for name, file in (("two", "[a.h5,b.h5]"), ("one", "both.h5")):
        train(2, name, *run, "--set", f"data.file={file}")
    assert [row["train_loss"] for row in metrics("two")] == [row["train_loss"] for row in metrics("one")] and want
    with h5py.File("b.h5", "a") as f:
        f.attrs["class_names"] = "ant\nant\ncow"
    r = shoal("data", "inspect", "a.h5", "b.h5", code=7)
    assert_one_error(r, 'b.h5 has two classes "ant", 0 and 1: with other files classes are matched by name')
    with h5py.File("b.h5", "a") as f:
        f.attrs["class_names"] = "Ameise\nBiene\nKuh"
    r = shoal("data", "inspect", "a.h5", "b.h5", code=0)
    assert 'b.h5 has no class that the files before it have, but "Ameise", "Biene", "Kuh"' in r.stderr, r.stderr
    with h5py.File("b.h5", "a") as f:
        del f.attrs["class_names"]
    r = shoal("data", "inspect", "a.h5", "b.h5", code=7)
    assert_one_error(r, 'the first names its classes (attribute class_names: "ant", "cow"), the other has none of these, for labels 0 to 2')


def test_several_refused():
    """What does not fit together is said with both names, a wrong label or sample with the file it is in."""
    split_up()
    run = RUN[:6] + RUN[8:]

    def refused(files, code, *words):
        assert_one_error(train(1, "r", *run, "--set", f"data.file={files}", code=code), *words)
    refused("[part-1.h5,part-1.h5]", 2, "part-1.h5 is given twice")
    refused("none-*.h5", 7, "none-*.h5: no file matches (host ")
    os.rename("part-1.h5", "part[1].h5")
    assert "read as a pattern" not in shoal("data", "inspect", "part[1].h5").stdout
    os.rename("part[1].h5", "part-1.h5")
    r = shoal("data", "inspect", "part[-]1.h5")
    assert "there is no file part[-]1.h5: it is read as a pattern, which 1 file fits, part-1.h5" in r.stdout + r.stderr, r.stdout + r.stderr
    with h5py.File("part-2.h5", "a") as f:
        f["y"][5] = -1
    refused("part-*", 7, "part-2.h5: 1 labels of /y are not in 0 to 9, the first is -1 of sample 5")
    with h5py.File("part-2.h5", "a") as f:
        f["y"][5] = 1
        x = f["x"][:]
        del f["x"]
        f["x"] = x[:, :, :14]
    refused("part-*", 7, "part-1.h5 and part-2.h5 cannot be one data set: samples are images [1, 28, 28]")
    shoal("data", "synth", "glyphs", "-o", "h.h5", "--train", 50, "--test", 10, "--seed", 2)
    with h5py.File("h.h5", "a") as f:
        f["train/x"][7, 0, 3, 3] ^= 1
    refused("[g.h5,h.h5]", 7, "h.h5: sample 7 of /train/x is damaged")


def test_no_test_split():
    """What is chosen by evaluations is refused before step 1 if there are none, and both cures work; a run without says so."""
    with h5py.File("g.h5", "a") as f, h5py.File("test.h5", "w") as t:
        f.copy("test", t)
        del f["test"]
    choices = (("ckpt.best and eval.patience need evaluations", "ckpt.best=test_acc", "eval.patience=2"),
               ("ckpt.best needs evaluations", "ckpt.best=test_loss"), ("eval.patience needs evaluations", "eval.patience=2"))
    for words, *options in choices:
        r = train(3, "r", *RUN, *(a for o in options for a in ("--set", o)), code=2)
        assert_one_error(r, words, "g.h5 has no test split", "/test/x and /test/y")
        assert not os.path.exists("runs")
    r = train(3, "without", *RUN)
    assert r.stdout.count("nothing will be evaluated: g.h5 has no test split") == 1, r.stdout
    assert all(row["test_acc"] == row["test_loss"] == "" for row in metrics("without"))
    best = ("--set", "ckpt.best=test_acc", "--set", "eval.patience=2")
    r = train(3, "beside", *RUN, *best, "--set", "data.file=[g.h5,test.h5]")
    with h5py.File("g.h5", "a") as f, h5py.File("test.h5") as t:
        t.copy("test", f)
    train(3, "added", *RUN, *best)
    assert len(os.listdir("runs/beside/ckpt/best")) == len(os.listdir("runs/added/ckpt/best")) == 1
    assert "nothing will be evaluated" not in r.stdout and float(metrics("added")[-1]["test_acc"]) >= 0
