"""Checkpoints in several files: every verb, and a resume, treats them as one.

Ranks write shards if they have much of their own, or with ckpt.gather 0; the program ckpt_split writes any checkpoint again as a
main file and shards.  Golden checkpoints tell what a resume must end with (test_golden.py).
"""
import itertools
import json
import os
import shutil

import h5py
import numpy as np
import pytest

import launch
from harness import ROOT, Trace, arrays, assert_equal, built, checkpoints, log, newest, program, run, said, sets, shoal, train

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


def test_written():
    """What ranks write in shards, beside the training, is what one file has; other ranks go on from the mean of the replicas, of
    which each reads a part."""
    shoal(*"data synth glyphs -o data.h5 --train 64 --test 8 --size 8".split())
    args = ("--quiet", *sets(data__file="data.h5", data__global_batch=16, model__name="mlp", model__widths="[40]", optim__lr=0.01))
    own = (*args, *sets(method__name="local-sgd", method__period=3, ckpt__every="2 steps", run__steps=5, optim__momentum=0.9))
    train(4, "one", *own)
    train(4, "many", *own, *sets(ckpt__gather=0, ckpt__beside="always"))
    assert len(files_of(newest("one"))) == 1 and len(files_of(newest("many"))) == 4
    assert_equal(newest("one"), newest("many"), "in one file and in shards")
    momenta = [f[f"replica/{k}/momentum"][()] for k, f in enumerate(map(h5py.File, files_of(newest("many"))))]
    after = {}
    for mu in (0.5, 0.25):  # the momentum after a step is mu times that before, plus the gradient, which is the same
        shutil.copytree("runs/many", f"runs/mu{mu}")
        train(3, f"mu{mu}", *args, *sets(run__steps=6, optim__momentum=mu))
        with h5py.File(newest(f"mu{mu}")) as f:
            after[mu] = f["replica/0/momentum"][()]
    taken = (after[0.5] - after[0.25]) / 0.25
    assert np.allclose(taken, np.mean(momenta, axis=0), atol=1e-5), np.abs(taken - np.mean(momenta, axis=0)).max()


@pytest.mark.parametrize("method, terms", [("local-sgd", {"weights": 1}), ("daso", {"weights": 1}),
                                           ("swarm", {"swarm_common": 1, "swarm_base": -1, "weights": 1})])
def test_model(method, terms):
    """/model of ranks with weights of their own: summed in rank order from what each has written, and for no save does a rank send
    its weights to another one."""
    shoal(*"data synth glyphs -o data.h5 --train 256 --test 8 --size 8".split())
    own = {"local-sgd": dict(method__period=3), "daso": dict(method__warmup_epochs=0, method__cooldown_epochs=0), "swarm": {}}[method]
    args = ("--quiet", "--topo", "1,2", *sets(data__file="data.h5", data__batch=4, model__name="mlp", model__widths="[256,128]",
                                              optim__lr=0.01, method__name=method, run__steps=8, eval__every="never", **own))
    train(3, "once", *args, *sets(ckpt__every="never"))
    train(3, "often", *args, *sets(ckpt__every="2 steps", ckpt__keep=9, ckpt__gather=0, ckpt__beside="always"))
    sent = {name: sum(int(Trace(name, r).info["payload"][3]) for r in range(3)) for name in ("once", "often")}
    n = sum(x.nbytes for name, x in arrays(newest("often")).items() if name.startswith("model/"))
    least = 2 if method == "swarm" else 4  # its ranks meet when all have heard of it, which may be after the next is due
    assert len(checkpoints("often")) >= least and sent["often"] - sent["once"] < n, f"{sent}, a model has {n} bytes"
    share = [1 / 2, 1 / 4, 1 / 4] if method == "daso" else [1 / 3] * 3  # daso: the mean over nodes
    for path in checkpoints("often"):
        saved = {name: x for file in files_of(path) for name, x in arrays(file).items()}
        total = np.float32(0)
        for k, (name, factor) in itertools.product(range(3), terms.items()):
            x = saved[f"replica/{k}/{name}"]
            same = [j for j in range(3) if (saved[f"replica/{j}/{name}"] == x).all()]  # ranks with equal arrays count at once
            if same[0] == k:
                total = total + np.float32(factor * sum(share[j] for j in same)) * x
        model = np.concatenate([saved[f"model/fc{i}.{what}"].ravel() for i in (1, 2, 3) for what in ("weight", "bias")])
        assert (model.view("u4") == total.view("u4")).all(), f"{path}: {np.abs(model - total).max()}"


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
