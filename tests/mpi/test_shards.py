"""Checkpoints in several files: every verb, and a resume, treats them as one.

Shoal writes one file today; the program ckpt_split writes one again as a main file and shards, by the code that writers of
shards will use.  Golden checkpoints tell what a resume must end with (test_golden.py).
"""
import json
import os
import shutil

import h5py
import pytest

import launch
from harness import ROOT, built, checkpoints, log, newest, program, run, said, shoal, train

GOLDEN = f"{ROOT}/checkpoints/golden"
SHARDS = 3


def split(path, to, shards=SHARDS):
    run([built("ckpt_split"), path, to, shards])
    files = files_of(to)
    assert len(files) == shards + 1, files
    return files


def files_of(path):
    """A checkpoint's files, the main one first."""
    folder, stem = os.path.split(path[:-len(".h5")])
    shards = [f for f in os.listdir(folder or ".") if f.startswith(f"{stem}.") and ".shard-" in f]
    return [path, *(os.path.join(folder, f) for f in sorted(shards))]


@pytest.mark.parametrize("method", ["daso", "ist"])
def test_resume(method):
    """The same arrays as the whole file, and the same bits at the end: a sum in flight, subnets."""
    whole = f"{GOLDEN}/v1-{method}.h5"
    shutil.copy(f"{GOLDEN}/v1-glyphs.h5", ".")
    files = split(whole, "split.h5")
    names = []
    for file in files:  # each file by itself, for any reader
        shoal("ckpt", "verify", file)
        with h5py.File(file) as f:
            assert f.attrs["version"] == 2
            f.visit(names.append)
    assert {"model", "replica/0/weights", "replica/3/score"} <= set(names)
    assert "agree in every bit" in shoal("ckpt", "diff", whole, "split.h5").stdout
    for path, to in ((whole, "whole-model.h5"), ("split.h5", "split-model.h5")):
        shoal("ckpt", "export", path, "-o", to)
    with h5py.File("whole-model.h5") as f, h5py.File("split-model.h5") as g:
        assert list(f) == list(g) and all((f[name][()] == g[name][()]).all() for name in f)
    shown = json.loads(shoal("ckpt", "show", "split.h5", "--json").stdout)
    assert shown["shards"] == SHARDS and shown["bytes"] == sum(map(os.path.getsize, files))
    assert {s["shard"] for s in shown["data_sets"]} == set(range(SHARDS + 1))
    run(launch.mpirun(4, program(), "train", f"{GOLDEN}/v1-{method}.yaml", "--quiet", "--topo", "2x2", "--resume", "split.h5"),
        timeout=120)
    assert "layout changed" not in log("golden") and "; lost: " not in log("golden")
    with open(f"{GOLDEN}/v1-train.json") as f:
        want = json.load(f)[method]
    with h5py.File(f"runs/golden/ckpt/step-{want['last_step']:09d}.h5") as f:
        assert {name: f"{int(f['model'][name].attrs['crc32c']):08x}" for name in want["model"]} == want["model"]


def test_folder():
    """In a run's folder: found by auto, skipped when a shard is lost, pruned, set aside and swept with its shards."""
    shoal(*"data synth glyphs -o data.h5 --train 64 --test 8 --size 8".split())
    args = ("--set", "data.file=data.h5", "--set", "data.batch=8", "--set", "model.name=mlp", "--set", "model.widths=[8]", "--quiet")
    more = (*args, "--set", "ckpt.every=4 steps", "--set", "ckpt.keep=2")
    train(1, "r", *more, "--set", "run.epochs=2")
    second, first = checkpoints("r")[::-1]
    for path in (first, second):
        os.rename(path, "whole.h5")
        split("whole.h5", path)
    listed = json.loads(shoal("ckpt", "list", "runs/r", "--json").stdout)
    assert [c["bytes"] for c in listed["checkpoints"]] == [sum(map(os.path.getsize, files_of(p))) for p in (second, first)]
    assert [c["good"] for c in listed["checkpoints"]] == [True, True] and not listed["unfinished"]

    lost = files_of(second)[2]
    os.rename(lost, "lost")
    r = shoal("ckpt", "list", "runs/r")
    assert f"DAMAGED: {second} is not whole: its shard {lost} is missing" in r.stdout, said(r)
    r = train(1, "r", *more, "--set", "run.epochs=3", code=None)
    assert r.returncode == 0 and f"resumed from {first}" in log("r"), said(r)
    assert not [f for f in os.listdir("runs/r/ckpt") if ".shard-" in f], "of the checkpoints pruned and set aside"
    aside = f"runs/r/ckpt/before-attempt-2/{os.path.basename(second)}"
    assert len(files_of(aside)) == SHARDS
    os.rename("lost", os.path.join(os.path.dirname(aside), os.path.basename(lost)))
    shoal("ckpt", "verify", aside)

    last = newest("r")
    os.rename(last, "whole.h5")
    split("whole.h5", last)
    for path in files_of(last)[1:]:  # as of a save that was killed
        os.link(path, path.replace(last[:-len(".h5")], f"runs/r/ckpt/step-{90:09d}"))
    assert len(json.loads(shoal("ckpt", "list", "runs/r", "--json").stdout)["unfinished"]) == SHARDS
    train(1, "r", *more, "--set", "run.epochs=4")
    assert f"resumed from {last}" in log("r")
    assert all(f.count(".") == 1 for f in os.listdir("runs/r/ckpt") if f.startswith("step-")), os.listdir("runs/r/ckpt")
