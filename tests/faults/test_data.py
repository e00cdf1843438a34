"""Data sets that are damaged, in several files, or named in ways a shell would read: what training makes of them."""

import os

import h5py
import pytest

from harness import ENV, assert_one_error, read, shoal, train

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
