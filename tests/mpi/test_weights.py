"""Fine-tuning, model.weights: a run that starts from the weights in a checkpoint, and from nothing else of it.

Oracles: a run whose weights are those that another seed would have drawn, taken from a file, equals bit for bit the run that
draws them, optimizer state and all; at a learning rate of nothing the first evaluation is the last one of the run that saved.
"""
import json
import subprocess
import os
import re

import numpy as np
import pytest
from harness import (arrays, assert_differ, assert_equal, assert_one_error, checkpoints, diff, log, metrics, newest, said, sets,
                     shoal, status, train, train_through)

NET = sets(model__name="mlp", model__widths="[16,12,8]", data__file="glyphs.h5", data__batch=5, optim__momentum=0.9)
NOTHING = sets(optim__lr=1e-44)
RANKS, TOPO = 4, ["--topo", "2x2"]
METHODS = {
    "sync": [],
    "local-sgd": sets(method__period=3),
    "daso": sets(method__warmup_epochs=0, method__cooldown_epochs=0),
    "swarm": sets(method__bits=0, method__deterministic="true"),
    "ab": sets(method__warmup=1000),  # whole weights: factors are only near them
    "ist": sets(method__round=4),
    "local": sets(method__chunks=2),
}
DRAWN = ("sync", "local-sgd", "daso", "swarm", "ab")  # every rank begins with the whole model that the seed draws


def options(method):
    return [*NET, *sets(method__name=method), *METHODS[method], *TOPO]


@pytest.mark.parametrize("method", METHODS)
def test_weights_methods(glyphs, method):
    """From a run of sync on one rank, under every method: what is evaluated first is its model; the next start goes on from its own
    checkpoint."""
    glyphs(200, 80)
    train(1, "old", *NET, *sets(run__epochs=3, optim__lr=0.05))
    weights = newest("old")
    base = [*options(method), *NOTHING, *sets(model__weights=weights)]
    r = train(RANKS, "new", *base, *sets(run__epochs=1))
    assert re.search(rf"weights from {weights} \(checksum [0-9a-f]{{8}}: run old, method sync, step \d+\), a new", r.stdout)
    assert_equal(weights, newest("new"), f"{method} began with other weights", "model/")
    first, last = metrics("new")[0], metrics("old")[-1]
    assert (first["epoch"], first["step"]) == ("1", "10"), f"{first}"
    assert (first["test_loss"], first["test_acc"]) == (last["test_loss"], last["test_acc"]), f"{first} {last}"
    assert arrays(newest("new"))["train/optimizer_steps"] <= 10
    os.rename("runs/old", "gone")  # is not needed any more
    r = train(RANKS, "new", *base, *sets(run__epochs=2))
    assert "model.weights is not read again" in r.stdout and "resumed from runs/new/ckpt" in r.stdout, r.stdout
    assert status("new")["step"] == 20, f'{status("new")}'
    assert_equal(f"gone/ckpt/{os.path.basename(weights)}", newest("new"), f"{method} went on with other weights", "model/")


@pytest.mark.parametrize("method", DRAWN)
def test_weights_drawn(glyphs, method):
    """The weights of seed 2 from a file equal those of seed 2 drawn, in every bit of what is trained from them."""
    glyphs(200, 80)
    train(1, "seed2", *NET, *NOTHING, *sets(run__seed=2, run__epochs=1))
    base = [*options(method), *sets(optim__lr=0.05, run__epochs=2)]
    hook = 'exec "$@" --allow-faults --set fault.seed=1 --set fault.rank=$R'  # the weights alone are of seed 1 + 1
    train_through(hook, RANKS, "drawn", *base)
    train(RANKS, "read", *base, *sets(model__weights=newest("seed2")))
    r = diff(newest("drawn"), newest("read"), "--except", "train/")
    assert r.returncode == 0, said(r)
    train(RANKS, "other", *base)
    assert_differ(newest("drawn"), newest("other"), "seed 1 draws the same weights", "--only", "model/")


def test_weights_statistics(glyphs):
    """Running statistics come along: after one step they are near those of the file, and not near those of a start."""
    glyphs(200, 80)
    net = [*NET, *sets(model__norm="batch")]
    train(1, "old", *net, *sets(run__epochs=3, optim__lr=0.05))
    train(1, "new", *net, *NOTHING, *sets(model__weights=newest("old"), run__steps=1))
    old, new = arrays(newest("old")), arrays(newest("new"))
    names = [n for n in old if "running_mean" in n]
    assert names, f"{sorted(old)}"
    for n in names:
        moved = np.abs(new[n] - old[n]).max() / np.abs(old[n]).max()
        assert 0 < moved < 0.5, f"{n} moved by {moved}"


def test_weights_killed(glyphs):
    """Killed before its first checkpoint it begins again from the weights; killed later, it goes on from its own."""
    glyphs(200, 80)
    train(1, "old", *NET, *sets(run__epochs=1, optim__lr=0.05))
    base = [*NET, *sets(model__weights=newest("old"), run__epochs=2, optim__lr=0.02, ckpt__every="12 steps")]
    train(1, "whole", *base)
    hooks = [*base, "--allow-faults"]
    train(1, "cut", *hooks, *sets(fault__kill_step=5), code=None)
    assert not checkpoints("cut"), f'{checkpoints("cut")}'
    r = train(1, "cut", *hooks, *sets(fault__kill_step=30), code=None)
    assert "weights from" in r.stdout, r.stdout
    r = train(1, "cut", *base)
    assert "resumed from runs/cut/ckpt/step-000000024.h5" in r.stdout, r.stdout
    assert_equal(newest("whole"), newest("cut"), "killed twice")
    checksum = arrays(newest("cut"))["train/weights_checksum"]
    assert f"(checksum {int(checksum):08x}:" in log("cut"), log("cut")


@pytest.mark.parametrize("method", ("sync", "ist"))
def test_weights_fresh(glyphs, method):
    """A new head: its weights are those of a new run, the others those of the file, whether a checkpoint or safetensors."""
    glyphs(200, 80)
    train(1, "old", *NET, *sets(run__epochs=1, run__seed=7, optim__lr=0.05))
    shoal("ckpt", "export", newest("old"), "-o", "old.safetensors")
    shoal("ckpt", "export", newest("old"), "-o", "old.onnx")
    base = [*NET, *sets(method__name=method), *METHODS[method], *NOTHING, *sets(run__epochs=1)]
    train(2, "drawn", *NET, *NOTHING, *sets(run__epochs=1))
    for k, weights in enumerate((newest("old"), "old.safetensors", "old.onnx")):
        r = train(2, f"r{k}", *base, *sets(model__weights=weights, model__fresh="[fc3]"))
        assert "drawn anew: fc3.weight [8, 12], [8, 12] there" in r.stdout, r.stdout
        assert "which differ from those of the data set" not in r.stdout, r.stdout
        new, old, drawn = arrays(newest(f"r{k}")), arrays(newest("old")), arrays(newest("drawn"))
        for name in (n for n in new if n.startswith("model/")):
            assert np.array_equal(new[name], (drawn if "fc3" in name else old)[name]), f"{weights}: {name}"
    wider = [*base, *sets(model__widths="[16,12,9]", model__weights="old.safetensors")]
    r = train(2, "bad", *wider, code=2)
    assert_one_error(r, "old.safetensors does not fit: fc3.weight has the shape [8, 12] there and [9, 12] in", "(5 of this model's 8 tensors match)",
                     "draw layers anew by --set 'model.fresh=[fc3,fc4]'")
    train(2, "wide", *wider, *sets(model__fresh="[fc3,fc4]"))
    r = train(2, "bad", *wider, *sets(model__fresh="[fc9]"), code=2)
    assert_one_error(r, "model.fresh names fc9")
    with open("old.safetensors", "rb") as f:
        whole = f.read()
    n = int.from_bytes(whole[:8], "little")
    header, size = json.loads(whole[8:8 + n]), len(whole)
    text = whole[8:8 + n].decode()
    for new, code in (("module.fc", 0), ("seq", 2)):  # what is in front of all names is left out
        changed = text.replace('"fc', f'"{new}').encode()
        with open("other.safetensors", "wb") as f:
            f.write(len(changed).to_bytes(8, "little") + changed + whole[8 + n:])
        r = train(2, new, *base, *sets(model__weights="other.safetensors"), code=code)
        if code == 0:
            assert 'taken without the "module." in front of them' in r.stdout, r.stdout
            assert_equal(newest("old"), newest(new), "names with a prefix", "model/")
        else:
            assert_one_error(r, "lacks fc1.weight [16, ", "(0 of this model's 8 tensors match; 8 of the 8 there are none of it, such as seq", "none of its names is one of this model, its first is seq")
            subprocess.run(r.stderr.split(", into other-named.safetensors: ")[1].splitlines()[0], shell=True, check=True)
            train(2, "named", *base, *sets(model__weights="other-named.safetensors"))
            assert_equal(newest("old"), newest("named"), "names by shape and order", "model/")
    assert_one_error(train(2, "bad", *base, *sets(model__weights="runs/old"), code=2), "runs/old is a folder: give a checkpoint, as runs/old/ckpt/step-")
    last = max((k for k in header if k != "__metadata__"), key=lambda k: header[k]["data_offsets"][1])
    begin, end = header[last]["data_offsets"]
    count, shape = end - begin, header[last]["shape"]
    takes = f"bad.safetensors is no safetensors, or damaged: {last} of shape {shape} takes {count} bytes, its data_offsets "

    def bad(content, *words):
        with open("bad.safetensors", "wb") as f:
            f.write(content)
        assert_one_error(train(2, "bad", *base, *sets(model__weights="bad.safetensors"), code=7), *words)
        assert not os.path.exists("runs/bad/ckpt")
    for name, content, words in (  # downloads that failed, and a file of PyTorch
            ("bad.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS without the data: git lfs pull fetches that"),
            ("bad.onnx", b"<!DOCTYPE html><html></html>\n" * 9, "a web page: the download of the file failed, get it again"),
            ("bad.h5", b"PK\3\4" + bytes(26) + b"net/data.pkl", "a file of PyTorch: weights are read as safetensors, which safetensors.torch.save_file"),
            ("bad.keras", b"PK\3\4" + bytes(26) + b"config.json", "a model of Keras: weights are read as ONNX, which model.export('NAME.onnx'"),
            ("bad.tflite", bytes(4) + b"TFL3" + bytes(99), "a model of TensorFlow Lite: weights are read as ONNX, which tf2onnx makes")):
        with open(name, "wb") as f:
            f.write(content)
        assert_one_error(train(1, "bad", *base, *sets(model__weights=name), code=7), f"model.weights: {name} is {words}")
    bad(whole[:-4], f"{takes}[{begin}, {end}] hold {count} and end at byte {size} of a file of {size - 4}; copy or export it anew")
    at = 8 + n + begin
    bad(whole[:at] + b"\0\0\xc0\x7f" + whole[at + 4:], f"number 0 of {count // 4} of {last} is nan as a 32-bit float",
        f"model.fresh={last.rsplit('.', 1)[0]}")
    for new, words in ((begin + 4, "hold 4; copy"), (end + 10**9, f"hold {count + 10**9} and end at byte ")):
        header[last]["data_offsets"] = [begin, new]
        text = json.dumps(header).encode()
        bad(len(text).to_bytes(8, "little") + text + whole[8 + n:], f"{takes}[{begin}, {new}] {words}")


def test_weights_refused(glyphs):
    """One line: the first tensor that differs, both shapes, how many match; or what else does not go together."""
    glyphs(200, 80)
    train(1, "old", *NET, *sets(run__epochs=1))
    weights = newest("old")
    for extra, words in (
        (sets(model__widths="[16,12,9]"), ["fc3.weight has the shape [8, 12] there and [9, 12] in", "(5 of this model's 8 tensors match)"]),
        (sets(model__widths="[16,12]"), ["fc3.weight has the shape [8, 12] there and [10, 12] in", "(4 of this model's 6 tensors match; 2 of the 8 there are none of it, such as fc4.bias)"]),
        (sets(model__norm="batch"), ["lacks norm1.weight [16]", "(8 of this model's 20 tensors match)"]),
        (sets(model__orthogonal="true"), ["model.orthogonal"]),
        (["--resume", weights], ["--resume", "model.weights", "leave one out"]),
    ):
        for ranks in (1, 2):
            r = train(ranks, "bad", *NET, *sets(run__epochs=1, model__weights=weights), *extra, code=2)
            assert_one_error(r, *words)
            assert not checkpoints("bad"), f'{checkpoints("bad")}'
    r = train(2, "old", *NET, *sets(run__epochs=1, model__weights=weights), code=2)  # a run's own, to be trained on
    assert_one_error(r, weights, "the run in this folder", "--set run.name=NAME")
    r = train(2, "bad", *NET, *sets(run__epochs=1, model__weights="absent.h5"), code=7)
    assert_one_error(r, "model.weights: cannot open absent.h5")
    with open(weights, "r+b") as f:
        f.truncate(os.path.getsize(weights) - 100)
    r = train(2, "bad", *NET, *sets(run__epochs=1, model__weights=weights), code=7)
    assert_one_error(r, "model.weights: ", weights)
    assert "model.weights" in shoal("config", "model").stdout
