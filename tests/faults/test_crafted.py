"""Malicious checkpoints: all checksums are correct, the numbers are not.  Each is refused in one clear line."""
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import zlib

import h5py
import numpy as np
import pytest

import crafted
from harness import (ENV, PLAIN_ENV, TESTS, assert_one_error, newest, program, run, said, sets, train, train_command)

GIB = 1 << 30
RUN = ("run: {{ name: {name}, epochs: 2 }}\nmodel: {{ name: mlp, widths: [4] }}\n"
       "data: {{ file: glyphs.h5, batch: 8 }}\noptim: {{ momentum: 0.9 }}\n")
METHODS = {  # ranks, options
    "sync": (1, ()),
    "ab": (2, sets(method__name="ab", method__exempt="[]", method__warmup=2, method__cycle=4, method__rebound=1)),
    "daso": (2, ("--topo", "2x1", *sets(method__name="daso", method__every=4, method__wait=2, method__warmup_epochs=0,
                                        method__cooldown_epochs=0))),
    "swarm": (2, sets(method__name="swarm")),
}


def limited():
    resource.setrlimit(resource.RLIMIT_DATA, (GIB, GIB))
    resource.setrlimit(resource.RLIMIT_CPU, (10, 10))


def shoal(*args, **options):
    return run([program(), *map(str, args)], base=PLAIN_ENV, timeout=20, preexec_fn=limited, **options)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Folder with a run of each method that was stopped in its second epoch, with a sum under way for daso."""
    folder, before = tmp_path_factory.mktemp("stopped"), os.getcwd()
    os.chdir(folder)
    shoal("data", "synth", "glyphs", "-o", "glyphs.h5", "--train", 64, "--test", 8, "--size", 8)
    for name, (ranks, options) in METHODS.items():
        with open(f"{name}.yaml", "w") as f:
            f.write(RUN.format(name=name))
        train(ranks, name, f"{name}.yaml", *options, "--allow-faults", *sets(fault__stop_step=4), code=75)
    os.chdir(before)
    return folder


def resume(stopped, method, name, edit):
    """Resumes a copy of a run of this method whose checkpoint was changed."""
    ranks, options = METHODS[method]
    shutil.copytree(stopped / "runs" / method, f"runs/{name}")
    for file in ("glyphs.h5", f"{method}.yaml"):
        if not os.path.exists(file):
            shutil.copy(stopped / file, file)
    crafted.change(newest(name), edit)
    return run(train_command(ranks, name, f"{method}.yaml", *options), base=ENV, timeout=60, code=None)


ATTRIBUTES = (  # attribute, value, words
    ("size", 1 << 31, "attribute size is 2147483648, must be 1 to 1048576"),
    ("size", 0, "attribute size is 0, must be 1"),
    ("size", -2, "attribute size is -2"),
    ("step", -1, "attribute step is -1"),
    ("epoch", (1 << 63) - 1, "attribute epoch is 9223372036854775807"),
    ("samples", -(1 << 62), "attribute samples is -4611686018427387904"),
)


def test_attributes(stopped):
    """Counts that nobody can have: refused by every verb, at once."""
    for name, value, words in ATTRIBUTES:
        shutil.copy(newest_in(stopped, "sync"), "c.h5")
        crafted.change("c.h5", lambda f: f.attrs.modify(name, value))
        assert_one_error(shoal("ckpt", "show", "c.h5", code=7), words)
        r = shoal("ckpt", "verify", "c.h5", code=7)
        assert words in r.stdout, said(r)


def newest_in(stopped, name):
    before = os.getcwd()
    os.chdir(stopped)
    try:
        return os.path.abspath(newest(name))
    finally:
        os.chdir(before)


def test_index(stopped):
    """Names that would reach a terminal or a path, and two data sets of one name."""
    for change, words in ((lambda t: t.replace(b"model/", b"mo\x1b[2Jl/", 1), "of its index is invalid"),
                          (lambda t: t + t.splitlines(True)[1], "twice"),
                          (lambda t: t.replace(crafted.SAVE.encode(), b"../" * 10 + b"xy"), "line 1 of its index is invalid"),
                          (lambda t: t.replace(b"\t0\t0\n", b"\t0\t1048576\n", 1), "lists fewer than 1048576 shards")):
        shutil.copy(newest_in(stopped, "sync"), "c.h5")
        crafted.unseal("c.h5")
        index = crafted.index("c.h5")
        crafted.seal("c.h5", change(index))
        r = shoal("ckpt", "show", "c.h5", code=7)
        assert_one_error(r, words)
        assert "\x1b" not in r.stdout + r.stderr


# Bytes of the golden checkpoints' metadata on which HDF5 1.10.8 crashes, and once never ends; other versions may read them.
METADATA = (
    ("v1-run.h5", {1022: 8}),
    ("v1-run.h5", {894: 4, 8549: 0, 9580: 255, 7012: 128}),
    ("v1-run.h5", {4573: 255, 2134: 255, 1154: 255, 9771: 235}),
    ("v1-run.h5", {2129: 2, 15153: 0}),
    ("v1-sync.h5", {2075: 255}),
    ("v1-sync.h5", {1238: 128}),
)
GOLDEN = f"{TESTS}/../checkpoints/golden"


@pytest.mark.parametrize("number", range(len(METADATA)))
def test_metadata(number):
    """HDF5's own structures made up and sealed: every verb, and a resume, refuse the file in one line."""
    name, edits = METADATA[number]
    shutil.copy(f"{GOLDEN}/{name}", "c.h5")
    crafted.change_bytes("c.h5", lambda body: [body.__setitem__(i, value) for i, value in edits.items()])
    seen = set()
    for command in ("ckpt show c.h5", "ckpt show c.h5 --json", "ckpt verify c.h5", "ckpt diff c.h5 c.h5", "ckpt export c.h5 -o m.h5"):
        r = shoal(*command.split(), code=None)
        assert r.returncode in (0, 7), said(r)
        if r.returncode == 7 and "verify" not in command:
            assert_one_error(r, "c.h5")
        seen.add("HDF5 crashes on it, or does not come to an end" in r.stdout + r.stderr)
    if name == "v1-sync.h5":
        shutil.copy(f"{GOLDEN}/v1-glyphs.h5", ".")
        r = shoal("train", f"{GOLDEN}/v1-sync.yaml", "--resume", "c.h5", "--set=run.steps=1", code=None)
        assert r.returncode in (0, 7), said(r)
    if h5py.version.hdf5_version_tuple[:3] == (1, 10, 8):
        assert seen == {True}, "this HDF5 crashed when the case was found"


@pytest.mark.parametrize("kind, words", ((1, "/train/x"), (0, "/train")))
def test_endless_tree(kind, words):
    """A node of a tree, of chunks or of a group, that is its own child: the array, or the group, is named where HDF5 does not
    come to an end."""
    with h5py.File("t.h5", "w", libver="earliest") as f:
        f.create_dataset("train/x", data=np.zeros((512, 64), "f4"), chunks=(64, 64), compression="gzip")
        f["train/y"] = np.arange(512) % 2
    with open("t.h5", "r+b") as f:
        data = f.read()
        nodes = [at for at in range(len(data)) if data[at:at + 5] == b"TREE" + bytes([kind])]
        at = nodes[-1]  # of groups, the first is that of the root
        child = at + 24 + (8 if kind == 0 else 8 + 8 * 3)
        f.seek(at + 5)
        f.write(b"\1")
        f.seek(child)
        f.write(struct.pack("<Q", at))
    commands = {1: ("train", *sets(data__file="t.h5", model__name="mlp", model__widths="[4]", run__name="r")),
                0: ("data", "inspect", "t.h5")}
    r = shoal(*commands[kind], code=7)
    assert_one_error(r, "t.h5 is damaged: HDF5 crashes on it, or does not come to an end, at " + words)


def test_memory_of_texts():
    """A text that HDF5 believes to have GiB, and fills: refused without them, at once."""
    edits = {990: 5, 3734: 13, 3911: 120, 3912: 16, 3913: 1, 3915: 48, 3916: 97, 4230: 12, 4500: 109, 4501: 101, 4502: 116,
             4503: 104, 4504: 111, 4505: 100, 4506: 47, 4507: 115, 4508: 107, 4509: 105, 4510: 112, 5977: 128, 8290: 0, 8291: 0,
             1205: 202, 1206: 12, 1207: 61, 1208: 162, 1209: 173, 1210: 88, 1211: 189, 1212: 223, 1213: 122, 11292: 0, 13619: 4,
             14716: 188}
    shutil.copy(f"{GOLDEN}/v1-run.h5", "c.h5")
    crafted.change_bytes("c.h5", lambda body: [body.__setitem__(i, value) for i, value in edits.items()])
    job = subprocess.Popen([program(), "ckpt", "show", "c.h5"], env=PLAIN_ENV, stdout=subprocess.DEVNULL)
    _, how, used = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(how)
    assert job.returncode in (0, 7)
    assert used.ru_maxrss < 400 << 10, f"{used.ru_maxrss} KiB"
    assert used.ru_utime + used.ru_stime < 5


def array(name, values):
    return lambda f: crafted.set_array(f, name, values)


def element(name, i, value):
    def edit(f):
        f[name][i] = value
    return edit


STATES = (  # method, what is changed, words of the one line
    ("sync", array("train/optimizer_steps", -1), "train/optimizer_steps is -1"),
    ("sync", array("train/plateau_scale", float("nan")), "train/plateau_scale is nan"),
    ("ab", element("method/ab_ranks", 0, 0), "ab_ranks is 0, must be 1"),
    ("ab", element("method/ab_ranks", 0, 5000), "rank 5000 for a layer of at most"),
    ("ab", element("method/ab_place", 1, -1), "ab_place is -1"),
    ("daso", array("method/sums", [[5, 0, 3]]), "groups that do not exist"),
    ("daso", array("method/turn", -3), "turn is -3"),
    ("swarm", element("replica/0/swarm_counts", 0, -1), "swarm_counts is -1"),
    ("swarm", element("replica/0/swarm_distance", 0, float("inf")), "distance of block 0"),
)


@pytest.mark.parametrize("case", STATES, ids=lambda c: f"{c[0]}: {c[2]}")
def test_state(stopped, case):
    """What a method reads back is as impossible as no run could have written it."""
    method, edit, words = case
    r = resume(stopped, method, "edited", edit)
    assert r.returncode == 7, said(r)
    assert_one_error(r, words)


def test_names_of_files(stopped):
    """A name in a command is shown as text, whatever it would do to a terminal."""
    odd = "a\x1b[31mb\nc"
    shutil.copy(newest_in(stopped, "sync"), f"{odd}.ckpt")
    shutil.copy(f"{stopped}/glyphs.h5", f"{odd}.h5")
    for command in (("data", "inspect", f"{odd}.h5"), ("ckpt", "verify", f"{odd}.ckpt"), ("ckpt", "show", f"{odd}.ckpt"),
                    ("ckpt", "diff", f"{odd}.ckpt", f"{odd}.ckpt")):
        r = shoal(*command)
        assert "a\\x1b[31mb\\nc" in r.stdout, said(r)
        assert "\x1b" not in r.stdout + r.stderr, said(r)


def test_attempt(stopped):
    """A number of an attempt that no run can have does not count: log.txt has that of the first."""
    for number in (-2, 1 << 40, (1 << 31) - 1):
        shutil.rmtree("runs", ignore_errors=True)
        shutil.copytree(stopped / "runs" / "sync", "runs/sync")
        for file in ("glyphs.h5", "sync.yaml"):
            shutil.copy(stopped / file, file)
        with open("runs/sync/status.json") as f:
            status = json.load(f)
        with open("runs/sync/status.json", "w") as f:
            json.dump({**status, "attempt": number}, f)
        train(1, "sync", "sync.yaml")
        with open("runs/sync/status.json") as f:
            assert json.load(f)["attempt"] == 2


# ---- data sets and traces ------------------------------------------------------------------------------------------------

def features(f, n=8):
    f["train/x"] = np.zeros((n, 3), "f4")
    f["train/y"] = np.arange(n, dtype="i4") % 2


def huge_samples(f):
    f.create_dataset("train/x", (1, 16, 1 << 29, 1 << 29), "f4", chunks=(1, 1, 64, 64))
    f["train/y"] = np.zeros(1, "i4")


def wrapping_samples(f):
    f.create_dataset("train/x", (0, 16, 1 << 30, 1 << 30), "f4", chunks=(1, 1, 64, 64), maxshape=(None, 16, 1 << 30, 1 << 30))
    f["train/y"] = np.zeros(0, "i4")


def many_labels(f):
    f.create_dataset("train/x", (1 << 33, 3), "f4", chunks=(64, 3))
    f.create_dataset("train/y", (1 << 33,), "i4", chunks=(64,))


def packed_labels(f):
    f.create_dataset("train/x", (1 << 33, 3), "u1", chunks=(1 << 20, 3), compression="gzip")
    f.create_dataset("train/y", (1 << 33,), "u1", chunks=(1 << 20,), compression="gzip")


def many_tokens(f):
    f.create_dataset("train/tokens", (1 << 50,), "u2", chunks=(64,))


def many_classes(f):
    features(f)
    f.attrs["classes"] = (1 << 31) - 1


def large_label(f):
    features(f)
    f["train/y"][3] = (1 << 31) - 1


DATA_SETS = (
    (huge_samples, "says it has"), (wrapping_samples, ""), (many_labels, "says it has"), (packed_labels, "says it has"),
    (many_tokens, "says it has"), (large_label, "2147483647"),
)


@pytest.mark.parametrize("make, words", DATA_SETS, ids=lambda a: getattr(a, "__name__", ""))
def test_data_set(make, words):
    """Sizes that the file cannot hold or that no memory has."""
    with h5py.File("d.h5", "w") as f:
        make(f)
    for command in ("inspect d.h5", "repack d.h5 -o e.h5"):
        assert_one_error(shoal("data", *command.split(), code=7), "d.h5", words)
    assert not os.path.exists("e.h5")


ABC, ZEROS = zlib.compress(b"abc"), zlib.compress(bytes(1 << 21))
MADE_UP = (  # array, filters, those that the chunk skips, what it is stored as, words
    ("train/x", {}, 0, ABC, "a chunk unpacks to 3 bytes, not to its 512"),
    ("train/x", {"shuffle": True}, 0, ABC, "a chunk unpacks to 3 bytes, not to its 512"),
    ("train/x", {"fletcher32": True}, 0, ABC, "the check sum of a chunk is wrong"),
    ("train/x", {}, 1, b"abc", "a chunk unpacks to 3 bytes, not to its 512"),
    ("train/x", {}, 0, zlib.compress(bytes(513)), "a chunk unpacks to 513 bytes, not to its 512"),
    ("train/x", {}, 0, ZEROS, "a chunk unpacks to more than its 512 bytes"),
    ("train/y", {}, 0, ABC, "a chunk unpacks to 3 bytes, not to its 32"),
    ("train/y", {"shuffle": True}, 3, b"abc", "a chunk unpacks to 3 bytes, not to its 32"),
    ("test/x", {}, 0, ABC, "a chunk unpacks to 3 bytes, not to its 512"),
    ("test/y", {}, 0, ABC, "a chunk unpacks to 3 bytes, not to its 32"),
)


@pytest.mark.parametrize("number", range(len(MADE_UP)))
def test_chunk(number):
    """A packed chunk that is not what it should be: refused where it is read, before memory is taken for samples."""
    array, filters, skipped, stored, words = MADE_UP[number]
    rng = np.random.default_rng(1)
    with h5py.File("d.h5", "w") as f:
        for split in ("train", "test"):
            f.create_dataset(f"{split}/x", data=rng.random((64, 16), "f4"), chunks=(8, 16), compression="gzip", **filters)
            f.create_dataset(f"{split}/y", data=np.arange(64, dtype="i4") % 2, chunks=(8,), compression="gzip", **filters)
        d = f[array]
        d.id.write_direct_chunk((16,) + (0,) * (d.ndim - 1), stored, skipped)
    with open("r.yaml", "w") as f:
        f.write(RUN.format(name="r").replace("glyphs.h5", "d.h5"))
    for command in ("data inspect d.h5", "data repack d.h5 -o e.h5", "train r.yaml"):
        assert_one_error(shoal(*command.split(), code=7), f"of /{array} in d.h5: {words}", "the file is damaged; get it again")
    assert not os.path.exists("e.h5")


def claim(path, shape, rows):
    """Changes the shape of the one array of this shape to so many rows; what is stored of it stays as it was."""
    with open(path, "r+b") as f:
        old = f.read()
        dims = struct.pack("<2Q", *shape)
        assert old.count(dims) == 2, "current and largest dimensions"
        new = old.replace(dims, struct.pack("<2Q", rows, shape[1]))
        f.seek(0)
        f.write(new)


def with_rows(layout, stored, rows):
    """A data set that says its train/x has more rows than are stored."""
    with h5py.File("d.h5", "w") as f:
        x = np.arange(stored * 8).reshape(stored, 8).astype("u1")
        f.create_group("train")
        how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        how.set_layout(layout)
        d = h5py.h5d.create(f["train"].id, b"x", h5py.h5t.STD_U8LE, h5py.h5s.create_simple(x.shape), how)
        d.write(h5py.h5s.ALL, h5py.h5s.ALL, x)
        f["train/y"] = np.arange(rows, dtype="i4") % 2
    claim("d.h5", (stored, 8), rows)


def beyond_compact():
    with_rows(h5py.h5d.COMPACT, 123, 1001)
    return "/train/x in d.h5 says it has 8008 bytes, but 984 are stored"


def beyond_contiguous():
    with_rows(h5py.h5d.CONTIGUOUS, 123, 124)
    return "/train/x in d.h5 says it has 992 bytes, but 984 are stored"


def beyond_file():
    """The header agrees with the shape, the file ends before."""
    with_rows(h5py.h5d.CONTIGUOUS, 123, 123)
    with h5py.File("d.h5") as f:
        offset = f["train/x"].id.get_offset()
    with_rows(h5py.h5d.CONTIGUOUS, 123, 1 << 16)
    with open("d.h5", "r+b") as f:
        old = f.read()
        layout = struct.pack("<2Q", offset, 984)
        assert old.count(layout) == 1
        f.seek(0)
        f.write(old.replace(layout, struct.pack("<2Q", offset, 1 << 19)))
    return f"/train/x in d.h5 takes 524288 bytes from byte {offset}, but the file has {len(old)}"


@pytest.mark.parametrize("make", (beyond_compact, beyond_contiguous, beyond_file), ids=lambda f: f.__name__)
def test_more_than_stored(make):
    """HDF5 1.10 would fill the rest with the memory of the process, or with other parts of the file; 1.14 finds some of it itself."""
    words = make()
    for command in (("data", "inspect", "d.h5"), ("data", "repack", "d.h5", "-o", "e.h5"),
                    ("train", *sets(data__file="d.h5", model__name="mlp", run__dir=".", run__name="r"))):
        r = shoal(*command, code=7)
        if "cannot open" in r.stderr:
            words = "cannot open /train/x in d.h5"
        assert_one_error(r, words, "damaged", "get it again")
        assert "h5py" not in r.stderr
        assert os.listdir() == ["d.h5"], "something was written"


@pytest.mark.parametrize("name", ("train", "train/x", "test/y"))
def test_damaged_header(name):
    """No copy is advised where h5py fails as Shoal does."""
    with h5py.File("d.h5", "w") as f:
        features(f)
        f["test/x"], f["test/y"] = f["train/x"][...], f["train/y"][...]
        at = h5py.h5o.get_info(f[name].id).addr
    with open("d.h5", "r+b") as f:
        f.seek(at)
        f.write(b"\xff" * 8)
    r = shoal("data", "inspect", "d.h5", code=7)
    assert_one_error(r, f"cannot open /{name} in d.h5", "the file is damaged, or newer than this HDF5: get it again")
    assert "h5py" not in r.stderr and "(null)" not in r.stderr


@pytest.mark.parametrize("layout", (h5py.h5d.COMPACT, h5py.h5d.CONTIGUOUS))
def test_as_much_as_stored(layout):
    """What is stored in full is read, and an array that was never written is zeros."""
    with_rows(layout, 123, 123)
    with h5py.File("d.h5", "r+") as f:
        want = f["train/x"][...]
        f.create_dataset("test/x", (5, 8), "u1")
        f["test/y"] = np.zeros(5, "i4")
        assert f["test/x"].id.get_storage_size() == 0
    shoal("data", "repack", "d.h5", "-o", "e.h5")
    with h5py.File("e.h5") as f:
        assert (f["train/x"][...] == want).all() and (f["test/x"][...] == 0).all()


def test_stray_label():
    """One damaged label makes no model of millions of classes, unless they are stated."""
    with h5py.File("d.h5", "w") as f:
        features(f)
        f["train/y"][3] = 0x00ff0001
    for command in ("inspect d.h5", "repack d.h5 -o e.h5"):
        assert_one_error(shoal("data", *command.split(), code=7), "d.h5: sample 3 of /train/y has label 16711681, the largest of "
                         "all others is 1: correct it, or if it is meant, state the number of classes as the attribute classes")
    assert not os.path.exists("e.h5")
    with h5py.File("d.h5", "r+") as f:
        f.attrs["classes"] = 16711682
    shoal("data", "inspect", "d.h5")


def test_many_classes():
    """A number of classes that no memory has is not used: the labels say how many there are."""
    with h5py.File("d.h5", "w") as f:
        many_classes(f)
    for command in ("inspect d.h5", "repack d.h5 -o e.h5"):
        assert "attribute classes is not used: 2147483647 is not in 1 to 16777216" in shoal("data", *command.split()).stderr
    assert h5py.File("e.h5").attrs["classes"] == 2


def rows(f, **values):
    info = f["rank-00000/info"]
    a = info[...]
    for key, value in values.items():
        a[key] = value
    info[...] = a


def grow(name, n):
    return lambda f: f[f"rank-00000/{name}"].resize((n,))


def replace(name, **how):
    """Another data set in place of one of the rank's."""
    def edit(f):
        del f[f"rank-00000/{name}"]
        f["rank-00000"].create_dataset(name, **how)
    return edit


TRACES = (
    (lambda f: rows(f, attempt=-2), "attempt -2"),
    (lambda f: rows(f, size=0), "0 ranks"),
    (lambda f: rows(f, node=-1), "node -1"),
    (lambda f: rows(f, started_ns=1 << 63), "began at 9223372036854775808 ns"),
    (lambda f: rows(f, clock_readings=2, clock_drift=float("nan")), "drift nan"),
    (lambda f: rows(f, clock_readings=2, clock_drift=1e-300), "drift 1e-300"),
    (lambda f: f.move("rank-00000", "rank--1"), "has no group of a rank"),
    (lambda f: f.move("rank-00000", "rank-0"), "has no group of a rank"),
    (lambda f: f.move("rank-00000", "rank-99999999"), "has no group of a rank"),
    (lambda f: f.create_group("rank-00007"), "rank-00007/info"),
    (grow("records", 1 << 40), "says it has"),
    (grow("ops", 1 << 31), "says it has"),
    (grow("ops", 3), "lacks the names of the kinds"),
    (replace("info", data=np.zeros(2, [("attempt", "<i4")])), "rank-00000/info"),
    (replace("info", shape=(0,), dtype=[("attempt", "<i4")]), "rank-00000/info"),
    (replace("ops", data=["text of any length"] * 20, dtype=h5py.string_dtype()), "rank-00000/ops"),
    (replace("records", shape=(3, 4), dtype="f8"), "rank-00000/records"),
)
FIRST = (  # of format 1
    (lambda f: f.attrs.modify("rank", -1), "rank -1"),
    (lambda f: f["attempts"].resize((14000,)), "has 14000 rows"),
    (lambda f: f["ops"].resize((1 << 31,)), "says it has"),
)


@pytest.mark.parametrize("case", TRACES + FIRST, ids=lambda c: c[1])
def test_trace(stopped, case):
    """Numbers that no recorder writes."""
    edit, words = case
    shutil.copy(f"{TESTS}/golden/trace-v1-rank-00000.h5" if case in FIRST else f"{stopped}/{TRACE}", "t.h5")
    with h5py.File("t.h5", "r+") as f:
        edit(f)
    for command in ("show t.h5", "show t.h5 --json --attempt all", "export t.h5"):
        assert_one_error(shoal("trace", *command.split(), code=7), "t.h5", words)


@pytest.mark.parametrize("table", ("records", "info"))
def test_trace_chunks(stopped, table):
    """A packed table of a trace whose last chunk unpacks to less than it has: no memory is shown as records."""
    shutil.copy(f"{stopped}/{TRACE}", "t.h5")
    with h5py.File("t.h5", "r+") as f:
        data = f[f"rank-00000/{table}"][()]
        del f[f"rank-00000/{table}"]
        rows = (len(data) + 1) // 2
        d = f.create_dataset(f"rank-00000/{table}", data=data, chunks=(rows,), compression="gzip", shuffle=True)
        d.id.write_direct_chunk(((len(data) - 1) // rows * rows,), zlib.compress(b"abc"))
    if table == "info":
        assert_one_error(shoal("trace", "show", "t.h5", code=7), "rank-00000/info in t.h5: a chunk unpacks to 3 bytes, not to its")
    else:
        r = shoal("trace", "show", "t.h5")
        assert f"{len(data) - rows} of {len(data)} records of rank 0 in t.h5 are not readable" in r.stderr, said(r)


def replace_bytes(path, old, new):
    with open(path, "r+b") as f:
        data = f.read()
        assert data.count(old) == 1, data.count(old)
        f.seek(0)
        f.write(data.replace(old, new))


def test_damaged_types():
    """A member that lies beyond its record, and a number with more bits than bytes: HDF5 would convert memory of others."""
    shutil.copy(f"{TESTS}/golden/trace-v1-rank-00000.h5", "t.h5")
    member = b"op".ljust(8, b"\0")
    replace_bytes("t.h5", member + struct.pack("<I", 24), member + struct.pack("<I", 0xff0018))
    for command in ("show", "export"):
        r = shoal("trace", command, "t.h5", code=7)
        assert_one_error(r, "/records in t.h5")
        assert re.search("does not fit its own size|extends outside its parent", r.stderr), r.stderr  # HDF5 1.14 sees it, too
    with h5py.File("d.h5", "w") as f:
        f["train/x"] = np.ones((8, 3), "f4")
        f["train/y"] = np.arange(8) % 2
    f32 = struct.pack("<HHBBBBI", 0, 32, 23, 8, 0, 23, 127)
    replace_bytes("d.h5", f32, struct.pack("<HHBBBBI", 24, 32, 23, 8, 0, 23, 127))
    assert_one_error(shoal("data", "inspect", "d.h5", code=7), "/train/x in d.h5 does not fit its own size")


TRACE = "runs/sync/trace/attempt-0001-node-00000.h5"


def test_trace_elsewhere(stopped):
    """What somebody laid where the next attempt's trace goes, a file, a trace that HDF5 would continue in another file, a link:
    none is touched, and the attempt has a file of another name."""
    for what in ("text", "storage", "hard", "link", "broken"):
        shutil.rmtree("runs", ignore_errors=True)
        shutil.copytree(stopped / "runs" / "sync", "runs/sync")
        for file in ("glyphs.h5", "sync.yaml"):
            shutil.copy(stopped / file, file)
        planted = "runs/sync/trace/attempt-0002-node-00000.h5"
        with open("precious", "w") as f:
            f.write("precious\n" * 1000)
        if what == "storage":
            shutil.copy(TRACE, planted)
            with h5py.File(planted, "r+") as f:
                dtype = f["rank-00000/records"].dtype
                replace("records", shape=(9000 // dtype.itemsize,), dtype=dtype,
                        external=[(os.path.abspath("precious"), 0, 9000)])(f)
        elif what == "text":
            shutil.copy("precious", planted)
        elif what == "hard":
            os.link("precious", planted)
        else:
            os.symlink(os.path.abspath("precious" if what == "link" else "nowhere"), planted)
        before = contents("precious"), what == "broken" or contents(planted), contents(TRACE)
        train(1, "sync", "sync.yaml")
        after = contents("precious"), what == "broken" or contents(planted), contents(TRACE)
        assert before == after, f"{what}: a file that was there was written"
        assert not os.path.exists("nowhere"), f"{what}: a link was followed"
        assert sorted(os.listdir("runs/sync/trace")) == [
            "attempt-0001-node-00000.h5", "attempt-0002-node-00000-2.h5", "attempt-0002-node-00000.h5"], what
        os.remove(planted)
        shown = json.loads(shoal("trace", "show", "runs/sync", "--json").stdout)
        assert [a["attempt"] for a in shown["attempts"]] == [1, 2], shown["attempts"]


def contents(path):
    with open(path, "rb") as f:
        return f.read()


# ---- what lies where a file should ---------------------------------------------------------------------------------------

def test_pipes(stopped):
    """A FIFO in place of a file is refused at once: opening one waits for a writer that never comes."""
    shutil.copytree(stopped / "runs" / "sync", "runs/sync")
    for file in ("glyphs.h5", "sync.yaml"):
        shutil.copy(stopped / file, file)
    os.mkfifo("pipe")
    for command in ("train pipe", "config pipe", "data inspect pipe", "ckpt show pipe", "trace show pipe", "topo --xml pipe",
                    "topo --env pipe", "train sync.yaml --resume pipe", "train sync.yaml --set data.file=pipe",
                    "data import csv pipe -o x.h5", "data import idx pipe pipe -o x.h5"):
        r = shoal(*command.split(), "--set=run.name=other" if command.startswith("train") else "--", code=None)
        assert r.returncode in (2, 7), said(r)
        assert_one_error(r, "pipe")
    for name in ("log.txt", "status.json", "metrics.csv"):
        os.path.exists(f"runs/sync/{name}") and os.remove(f"runs/sync/{name}")
        os.mkfifo(f"runs/sync/{name}")
        r = shoal("train", "sync.yaml", code=None)
        assert r.returncode in (3, 7), said(r)
        os.remove(f"runs/sync/{name}")


def test_links(stopped):
    """Links that others laid where a run appends: what they point to stays as it is."""
    shutil.copytree(stopped / "runs" / "sync", "runs/sync")
    for file in ("glyphs.h5", "sync.yaml"):
        shutil.copy(stopped / file, file)
    with open("precious", "w") as f:
        f.write("precious\n")
    for name in ("log.txt", "metrics.csv"):
        os.remove(f"runs/sync/{name}")
        os.symlink(os.path.abspath("precious"), f"runs/sync/{name}")
        r = shoal("train", "sync.yaml", code=None)
        with open("precious") as f:
            assert f.read() == "precious\n", f"{name} was written through a link"
        if name == "log.txt":
            assert_one_error(r, "log.txt: it is a link")
            os.remove("runs/sync/log.txt")
