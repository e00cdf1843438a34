"""Whole runs of the methods that average parameters: local-sgd and daso."""
import json
import os
import re
import shutil
import struct

import h5py
import numpy as np
import pytest

import crafted
from harness import (MLP, ROOT, Trace, assert_differ, assert_equal, assert_formula, assert_one_error, column, metrics, newest, run,
                     sets, shoal, status, stops, train, train_command)


def same(a, b, what, *parts, tolerance=None):
    """The newest checkpoints of two methods' runs: the model and what else is named, in every bit or within a tolerance."""
    assert_equal(newest(a), newest(b), f"{what}: {a} and {b}", *(parts or ("model/", "replica/0/momentum")), tolerance=tolerance)


def refused(ranks, *options, says):
    """Exit code 2, one line on standard error with all that it must say, and no run left behind."""
    r = train(ranks, "refused", *options, code=2)
    assert_one_error(r, *says)
    assert not os.path.exists("runs/refused/run.yaml"), "something was left behind"


def statistics_hold(name, ranks):
    """Running means of the evaluated model are the mean over ranks, which hold different ones."""
    with h5py.File(newest(name)) as f:
        stats = [f[f"replica/{k}/stats"][()].astype(np.float64) for k in range(ranks)]
        mean = np.mean(stats, axis=0)
        assert any((s != stats[0]).any() for s in stats[1:]), f"{name}: ranks hold the same statistics"
        names = []
        f["model"].visit(lambda n: names.append(n) if n.endswith("running_mean") else None)
        assert len(names) > 10, f"{names}"
        for n in names:
            x = f[f"model/{n}"][()].ravel()
            assert any(np.allclose(mean[i:i + len(x)], x, rtol=1e-5, atol=1e-7) for i in range(len(mean) - len(x) + 1)), \
                f"{name}: {n} is not the mean over ranks"


def resume_everywhere(name, ranks, total, *options):
    """An uninterrupted run against one that is stopped at random steps: same bits, same rows of metrics.csv.  A stop comes some
    steps later, where a rank had promised to go on to."""
    steps = stops(3, total - 5, what=name)
    assert_formula(train(ranks, f"{name}-whole", *options))
    for step in steps:
        if step > steps[0] and status(f"{name}-cut")["step"] > step:
            continue
        r = train(ranks, f"{name}-cut", *options, "--allow-faults", *sets(fault__stop_step=step, fault__rank=step % ranks),
                  code=75)
        # a few steps may well send nothing
        assert "DIFFERENT" not in r.stdout, r.stdout
    r = train(ranks, f"{name}-cut", *options)
    assert "resumed from" in r.stdout, r.stdout
    assert_equal(newest(f"{name}-whole"), newest(f"{name}-cut"), f"{name} stopped at {steps}")
    rows = [column(f"{name}-{k}", "step", "train_loss", "test_acc") for k in ("whole", "cut")]
    assert rows[0] == rows[1], f"{name}: metrics differ"


# ---- local-sgd -------------------------------------------------------------------------------------------------------

LOCAL = sets(method__name="local-sgd")


def test_localsgd_neutral(glyphs):
    """One rank is plain SGD, and a switch that never comes is sync, in every bit; H = 1 is sync to rounding."""
    glyphs(307, 50)
    options = [*MLP, *sets(run__epochs=2, optim__nesterov="true", optim__weight_decay=1e-3)]
    for ranks, topo in ((1, "1x1"), (4, "2x2"), (3, "2,1")):
        o = [*options, "--topo", topo, *sets(data__global_batch=26)]
        train(ranks, f"sync{ranks}", *o)
        train(ranks, f"late{ranks}", *o, *LOCAL, *sets(method__switch_epoch=2, method__period=5))
        same(f"sync{ranks}", f"late{ranks}", "the switch never comes")
        train(ranks, f"often{ranks}", *o, *LOCAL, *sets(method__period=1))
        same(f"sync{ranks}", f"often{ranks}", "H = 1", "model/", tolerance=1e-4)
        train(ranks, f"level{ranks}", *o, *LOCAL, *sets(method__period=1, method__node_level="true"))
        same(f"sync{ranks}", f"level{ranks}", "H = 1 with the node level", "model/", tolerance=1e-4)
    train(1, "alone", *options, *LOCAL, *sets(data__global_batch=26, method__period=7))
    same("sync1", "alone", "one rank")
    # An outer optimizer of rate 1 without momentum is the plain average; with its defaults it is not.
    o = [*options, *LOCAL, "--topo", "2,1", *sets(data__global_batch=26, method__period=4)]
    train(3, "plain", *o)
    for outer in ("slowmo", "nesterov"):
        train(3, f"{outer}-1", *o, *sets(method__outer=outer, method__outer_lr=1, method__outer_momentum=0))
        same("plain", f"{outer}-1", f"{outer} without effect")
        r = train(3, outer, *o, *sets(method__outer=outer))
        assert f"then a step of {outer}, rate" in r.stdout, r.stdout
        assert_differ(newest("plain"), newest(outer), f"{outer} has no effect", "--only", "model/", "--tolerance", "1e-4")
    # One fragment and no overlap are what there is without the options; two, or an overlap, are another model.
    train(3, "parts-1", *o, *sets(method__fragments=1, method__overlap=0))
    same("plain", "parts-1", "one fragment, no overlap")
    for name, more in (("parts", sets(method__fragments=2)), ("overlap", sets(method__overlap=1))):
        assert "averaged over 3 ranks every 4 steps" in train(3, name, *o, *more).stdout
        assert_differ(newest("plain"), newest(name), f"{name} has no effect", "--only", "model/", "--tolerance", "1e-4")
    # Few bits are close to the plain average; between the ranks of one node they have no effect.
    loss = [float(column("plain", "train_loss")[-1][0])]
    for bits in (8, 4):
        assert f"as changes of {bits} bits between nodes" in train(3, f"bits{bits}", *o, *sets(method__outer_bits=bits)).stdout
        assert_differ(newest("plain"), newest(f"bits{bits}"), f"{bits} bits are 32", "--only", "model/")
        loss.append(float(column(f"bits{bits}", "train_loss")[-1][0]))
    assert abs(loss[1] - loss[0]) < 0.02 and abs(loss[2] - loss[0]) < 0.05, f"{loss}"
    r = train(3, "near", *options, *LOCAL, "--topo", "1x3", *sets(data__global_batch=26, method__period=4, method__outer_bits=8))
    assert "method.outer_bits is 8, but all ranks are on one node" in r.stderr and "as changes" not in r.stdout, r.stderr
    # Fewer samples than ranks: those without any join in the average.
    few = [*MLP, *sets(run__epochs=1, run__steps=6, data__global_batch=3)]
    train(1, "few1", *few)
    train(4, "few4", *few, *LOCAL, *sets(method__period=1))
    same("few1", "few4", "a batch of 3 for 4 ranks", "model/", tolerance=1e-4)
    # The tolerance can fail: with H = 4 it is another model.
    train(4, "seldom", *options, *LOCAL, "--topo", "2x2", *sets(data__global_batch=26, method__period=4))
    assert_differ(newest("sync4"), newest("seldom"), "H = 4 equals sync", "--only", "model/", "--tolerance", "1e-4")


def test_localsgd_resume(glyphs):
    """H12: stop anywhere, before and after the switch and between averages: same bits.  Elsewhere the mean model goes on."""
    glyphs(200, 50)
    options = [*MLP, *LOCAL, *sets(run__epochs=3, data__batch=8, model__dropout=0.2)]
    resume_everywhere("flat", 4, 21, *options, "--topo", "2x2",
                      *sets(method__period=4, method__switch_epoch=1, method__outer="slowmo"))
    resume_everywhere("level", 3, 27, *options, "--topo", "2,1",
                      *sets(method__period=5, method__node_level="true", method__outer="nesterov", method__overlap=2, method__outer_bits=8))
    resume_everywhere("parts", 4, 21, *options, "--topo", "2x2",
                      *sets(method__period=5, method__fragments=2, method__overlap=3, method__outer="nesterov"))
    stop = ["--allow-faults", *sets(fault__stop_step=9)]
    outer = sets(method__period=1000, method__outer="nesterov", run__epochs=5)
    train(4, "moved", *options, *outer, *stop, code=75)
    before = newest("moved")
    # The outer optimizer goes on with what it has, here that of the only average.
    train(3, "moved", *options, *outer, "--allow-faults", *sets(fault__stop_step=status("moved")["step"]), code=75)
    with h5py.File(before) as a, h5py.File(newest("moved")) as b:
        assert a.attrs["step"] < b.attrs["step"], f"{dict(a.attrs)} {dict(b.attrs)}"
        for part in ("x", "momentum"):
            x, y = (f[f"method/outer_{part}"][()] for f in (a, b))
            assert x.any() and (x == y).all(), f"outer_{part} did not move along"
    before = newest("moved")
    r = train(4, "moved", *options, *sets(method__period=8, data__batch=8, run__epochs=5))
    assert "layout changed" in r.stdout, r.stdout
    assert "the mean optimizer state" in r.stdout, r.stdout
    assert newest("moved") != before, f'{status("moved")}'
    assert status("moved")["state"] == "done", f'{status("moved")}'
    # Ranks that trained alone are not taken for a synchronous run.
    train(2, "back", *options, *sets(method__period=8), *stop, code=75)
    r = train(2, "back", *options, *sets(method__period=8, method__switch_epoch=3), code=2)
    assert "method.switch_epoch" in r.stderr, r.stderr
    assert "at most" in r.stderr, r.stderr


def test_localsgd_numeric(glyphs):
    """A NaN on one rank, alone, in an average or before the switch, ends the run with 6; the checkpoint before is good."""
    glyphs(200)
    options = [*MLP, *LOCAL, *sets(run__epochs=2, data__batch=10, ckpt__every="4 steps"), "--topo", "2,1"]
    for name, more, step, rank in (("alone", sets(method__period=8), 5, 1), ("average", sets(method__period=3), 6, 2),
                                   ("level", sets(method__period=8, method__node_level="true"), 5, 0),
                                   ("before", sets(method__switch_epoch=1), 5, 2)):
        train(3, name, *options, *more, "--allow-faults", *sets(fault__nan_step=step, fault__rank=rank), code=6)
        assert status(name)["state"] == "failed", f"{status(name)}"
        assert status(name)["exit_code"] == 6, f"{status(name)}"
        assert "step-000000004" in newest(name), f"{newest(name)}"
    train(3, "alone", *options, *sets(method__period=8))
    train(3, "whole", *options, *sets(method__period=8))
    assert_equal(newest("whole"), newest("alone"), "after the NaN")


LOCALSGD_BAD = (
    (sets(method__period=0), ("method.period", '"0"', "[1,")),
    (sets(method__perod=3), ("method.perod", "did you mean method.period?")),
    (sets(method__switch_epoch=-1), ("method.switch_epoch", '"-1"', "[0,")),
    (sets(method__wire="f17"), ("method.wire", '"f17"', "did you mean f16?")),
    (sets(method__outer="slomo"), ("method.outer", '"slomo"', "did you mean slowmo?")),
    (sets(method__outer_lr=0.5), ("method.outer_lr", "method.outer")),
    (sets(method__period=4, method__fragments=5), ("method.fragments is 5", "4 steps", "lower fragments")),
    (sets(method__period=4, method__overlap=4), ("method.overlap is 4", "method.period = 4", "lower overlap")),
    (sets(method__mixing=0.5), ("method.mixing has no effect", "set method.overlap")),
    (sets(method__period=60000, method__fragments=60000), ("method.fragments is 60000", "parameters", "lower fragments to")),
    (sets(method__outer="nesterov", method__outer_momentum=1), ("method.outer_momentum", '"1"', "[0,1)")),
)


@pytest.mark.parametrize("option, says", LOCALSGD_BAD)
def test_localsgd_refused(glyphs, option, says):
    """Unknown words, and settings that contradict each other."""
    glyphs(120, 40)
    refused(3, *MLP, *LOCAL, *sets(run__epochs=3, data__global_batch=12), "--topo", "2,1", *option, says=says)


def test_localsgd_settings(glyphs):
    """Settings that leave the method without effect are reported, in one line each; every split of ranks and batches works."""
    glyphs(120, 40)
    options = [*MLP, *LOCAL, *sets(run__epochs=3, data__global_batch=12), "--topo", "2,1"]
    for name, option, says in (("late", sets(method__switch_epoch=3), "all of it is synchronous"),
                               ("long", sets(method__period=30), "only the first one ends in an average"),
                               ("never", sets(method__switch_epoch=1, method__period=1000), "nothing is averaged")):
        r = train(3, name, *options, *option)
        assert r.stderr.count("shoal: warning") == 1, f"{name} {r.stderr}"
        assert says in r.stderr, f"{name} {r.stderr}"
    r = train(3, "fine", *options, *sets(method__period=29))
    assert "shoal: warning" not in r.stderr, r.stderr
    # Any number of ranks, batches that leave some without samples, and every way to end an epoch.
    for ranks, topo, batch, last in ((5, "3,2", 2, "short"), (7, "4,2,1", 50, "pad"), (3, "3x1", 119, "drop")):
        assert_formula(train(ranks, f"odd{ranks}", *MLP, *LOCAL, "--topo", topo,
                            *sets(run__epochs=2, run__steps=9, data__global_batch=batch, data__last=last, method__period=2)))


def test_average_statistics(glyphs):
    """Batch norm: every rank keeps its running statistics, the model has their mean, and a stop changes no bit."""
    glyphs(60, 20, 32)
    for name, method in (("local", LOCAL + sets(method__period=3)),
                         ("daso", sets(method__name="daso", method__warmup_epochs=0, method__every=3, method__wait=2))):
        options = [*method, "--topo", "2,1", *sets(model__name="resnet20", data__file="glyphs.h5", data__global_batch=12,
                                                   run__epochs=1, optim__momentum=0.9, optim__lr=0.02)]
        train(3, name, *options)
        statistics_hold(name, 3)
        train(3, f"{name}-cut", *options, "--allow-faults", *sets(fault__stop_step=0, fault__rank=2), code=75)
        statistics_hold(f"{name}-cut", 3)
        train(3, f"{name}-cut", *options)
        assert_equal(newest(name), newest(f"{name}-cut"), f"{name} stopped")
    unsettled_are_told()


def unsettled_are_told():
    """Running means that one step cannot mend: told at the end, and measured anew by the option, as by the printed command."""
    shoal(*"data synth blobs --train 240 --test 60 --classes 3 --features 8 --noise 0.3 -o blobs.h5".split())
    net = sets(model__name="mlp", model__widths="[16]", model__norm="batch", data__file="blobs.h5", run__epochs=1)
    r = train(2, "fit", *net, *sets(data__global_batch=24, optim__lr=0.1))
    assert "settled" not in r.stderr and float(metrics("fit")[-1]["test_acc"]) == 1, r.stderr
    shoal("ckpt", "export", newest("fit"), "-o", "fit.safetensors")
    with open("fit.safetensors", "r+b") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        tensors = json.loads(f.read(n))
        first, end = next(t["data_offsets"] for name, t in tensors.items() if name.endswith("running_mean"))
        f.seek(8 + n + first)
        f.write(np.linspace(-30, 30, (end - first) // 4, dtype="<f4").tobytes())
    late = [*net, *sets(data__global_batch=240, optim__lr=1e-9, model__weights="fit.safetensors")]
    r = train(2, "late", *late)
    told = re.search(r"of 240 training samples are right, with those of each batch 100 %.* (--set eval.*)", r.stderr)
    assert told and float(metrics("late")[-1]["test_acc"]) < 0.8, r.stderr
    r = train(2, "measured", *late, *sets(eval__batch_norm="measured"))
    assert "settled" not in r.stderr and float(metrics("measured")[-1]["test_acc"]) == 1, r.stderr
    words = "with the running statistics of batch norm "
    assert re.search(words + r"\d.* of 60 samples are right, with those of each batch 100 %", shoal("predict", "runs/late", "blobs.h5").stderr)
    assert words not in shoal("predict", "runs/measured", "blobs.h5").stderr
    train(2, "again", *late, *told[1].replace("NEW", "again").split())
    assert_equal(newest("again"), newest("measured"), "measured afterwards", "model/")


# ---- daso ------------------------------------------------------------------------------------------------------------

DASO = sets(method__name="daso")


def test_daso_neutral(glyphs):
    """On one node DASO is sync in every bit; with blocking sums in f32 it is sync to rounding, on any layout."""
    glyphs(307, 50)
    options = [*MLP, *sets(run__epochs=2, optim__nesterov="true", optim__weight_decay=1e-3, data__global_batch=26)]
    for ranks in (1, 4):
        train(ranks, f"sync{ranks}", *options, "--topo", f"1x{ranks}")
        r = train(ranks, f"daso{ranks}", *options, *DASO, "--topo", f"1x{ranks}")
        assert "on one node" in r.stdout, r.stdout
        same(f"sync{ranks}", f"daso{ranks}", "one node")
    for ranks, topo in ((4, "2x2"), (4, "2,1,1"), (3, "3x1"), (8, "4x2")):
        name = f"block-{topo.replace(',', '-')}"
        assert_formula(train(ranks, name, *options, *DASO, "--topo", topo,
                            *sets(method__warmup_epochs=2, method__wire="f32")))
        same("sync1", name, f"blocking on {topo}", "model/", tolerance=1e-4)
        name = f"one-{topo.replace(',', '-')}"
        train(ranks, name, *options, *DASO, "--topo", topo,
              *sets(method__warmup_epochs=0, method__cooldown_epochs=0, method__every=1, method__wait=0))
        same("sync1", name, f"B = 1, W = 0 on {topo}", "model/", tolerance=1e-4)
    # Fewer samples than ranks, and than nodes.
    few = [*MLP, *sets(run__epochs=1, run__steps=6, data__global_batch=3)]
    train(1, "few1", *few)
    train(4, "few4", *few, *DASO, "--topo", "4x1", *sets(method__warmup_epochs=1, method__wire="f32"))
    same("few1", "few4", "a batch of 3 for 4 nodes", "model/", tolerance=1e-4)
    # The tolerance can fail.
    train(4, "late", *options, *DASO, "--topo", "2x2", *sets(method__warmup_epochs=0))
    assert_differ(newest("sync1"), newest("late"), "cycling equals sync", "--only", "model/", "--tolerance", "1e-4")


def test_daso_resume(glyphs):
    """H12: stop anywhere in a cycle, with one or two sums under way, in warm-up and cool-down: same bits."""
    glyphs(250, 50)
    options = [*MLP, *DASO, *sets(data__batch=6, model__dropout=0.2)]
    cycling = sets(method__warmup_epochs=0, method__cooldown_epochs=0)
    resume_everywhere("slow", 4, 22, *options, *cycling, "--topo", "2x2",
                      *sets(run__epochs=2, method__every=4, method__wait=4))  # nearly always one under way
    resume_everywhere("two", 3, 28, *options, *cycling, "--topo", "3x1",
                      *sets(run__epochs=2, method__every=1, method__wait=1))
    resume_everywhere("quirks", 4, 22, *options, *cycling, "--topo", "2x2",
                      *sets(run__epochs=2, method__every=4, method__wait=3, method__ref_quirks="true"))
    for wire, delta in (("f16", "off"), ("bf16", "on")):
        resume_everywhere(wire, 3, 14, *options, "--topo", "2,1",
                          *sets(run__epochs=1, method__warmup_epochs=1, method__wire=wire, method__delta=delta))
    resume_everywhere("whole", 4, 66, *options, "--topo", "2,1,1",
                      *sets(run__epochs=6, method__patience=0, method__threshold=0.9, method__max_every=2))


def test_daso_moved(glyphs):
    """Another layout goes on from the mean of the nodes, and from any method's checkpoint; what is lost is reported."""
    glyphs(250, 50)
    options = [*MLP, *DASO, *sets(run__epochs=3, data__batch=6, method__warmup_epochs=0, method__cooldown_epochs=0,
                                  method__every=4, method__wait=4)]  # one is always under way
    stop = ["--allow-faults", *sets(fault__stop_step=14)]
    for ranks, topo in ((3, "3x1"), (4, "4x1"), (2, "1x2")):
        name = f"moved-{topo}"
        train(4, name, *options, "--topo", "2x2", *stop, code=75)
        with h5py.File(newest(name)) as f:
            assert len(f["method/sums"]) == 1, "no sum under way"
            assert len(f[f"replica/{f['method/sums'][0][0]}/sum_0"]) > 0, "no sum under way"
            w = [f[f"replica/{k}/weights"][()].astype(np.float64) for k in range(4)]
            model = f["model/fc1.weight"][()].ravel()
            at = [i for i in range(0, len(w[0]) - len(model) + 1)
                  if np.allclose(np.mean([x[i:i + 5] for x in w], axis=0), model[:5], rtol=1e-5, atol=1e-8)]
            assert any(np.allclose(np.mean([x[i:i + len(model)] for x in w], axis=0), model, rtol=1e-5, atol=1e-8) for i in at), \
                "the model is not the mean of the replicas"
            assert (w[0] == w[1]).all(), "replicas"
            assert (w[2] == w[3]).all(), "replicas"
            assert (w[0] != w[2]).any(), "replicas"
        r = train(ranks, name, *options, "--topo", topo)
        assert "layout changed" in r.stdout, r.stdout
        assert "the mean optimizer state" in r.stdout, r.stdout
        assert "1 sum in flight when the checkpoint was written will not be collected" in r.stdout, r.stdout
        assert status(name)["state"] == "done", f"{status(name)}"
        assert len(metrics(name)) == 3, f"{status(name)}"
    # A synchronous run goes on as DASO where it stands, and back.
    plain = [*MLP, *sets(run__epochs=10, data__batch=6, run__steps=44)]
    train(4, "from", *plain, "--topo", "2x2")
    r = train(4, "from", *plain, *DASO, "--topo", "2x2", *sets(run__steps=60))
    assert "from epoch 5 on a sum between nodes every B = 4" in r.stdout, r.stdout
    assert "method sync" in r.stdout, r.stdout
    assert_formula(r)
    r = train(4, "from", *plain, "--topo", "2x2", *sets(run__steps=70))
    assert "layout changed" in r.stdout, r.stdout


def crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x82F63B78 * (byte & 1)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def doctor(path, to, *changes):
    """A copy with other texts of the same length in its HDF5 part, sealed again (checkpoints/format.md, section 4)."""
    with open(path, "rb") as f:
        data = f.read()
    hdf5, index = struct.unpack("<QQ", data[-32:-16])
    body = data[:hdf5]
    for old, new in changes:
        assert len(old) == len(new), f"{old!r} and {new!r} differ in length"
        assert body.count(old) == 1, f"{old!r} is there {body.count(old)} times"
        body = body.replace(old, new)
    seal = data[-40:-16] + struct.pack("<I", crc32c(body)) + data[-12:-4]
    with open(to, "wb") as f:
        f.write(body + data[hdf5:hdf5 + index] + seal + struct.pack("<I", crc32c(seal)))
    shoal("ckpt", "verify", to)


def test_daso_placement(glyphs):
    """A checkpoint in mid-cycle is not resumed where other ranks share nodes, though each node has as many: nodes would mix.
    The layout is known by its hash, in older files by the placement, and in the oldest not at all."""
    golden = f"{ROOT}/checkpoints/golden"
    shutil.copy(f"{golden}/v1-glyphs.h5", ".")
    swap = [(b'{"rank": 1, "node": 0', b'{"rank": 1, "node": 1'), (b'{"rank": 2, "node": 1', b'{"rank": 2, "node": 0')]
    unnamed = (b"placement\0", b"placemant\0")
    options = [f"{golden}/v1-daso.yaml", "--topo", "2x2"]

    def resume(path, name):
        out = train(4, name, *options, "--resume", path).stdout
        return "the layout changed" in out, "does not tell which ranks shared a node" in out

    old = f"{golden}/v1-daso.h5"
    assert resume(old, "same") == (False, False)
    doctor(old, "swapped.h5", *swap)
    assert resume("swapped.h5", "swapped") == (True, False), "other ranks shared nodes"
    doctor(old, "untold.h5", unnamed)
    assert resume("untold.h5", "untold") == (True, True), "nobody knows who shared nodes"
    doctor(f"{golden}/v1-sync.h5", "equal.h5", unnamed)
    out = train(4, "equal", f"{golden}/v1-sync.yaml", "--topo", "2x2", "--resume", "equal.h5").stdout
    assert "layout changed" not in out, "all ranks hold the same weights"
    # What is written now has the hash, and goes by it.
    train(4, "new", *options, "--resume", old, "--allow-faults", *sets(fault__stop_step=8), code=75)
    with h5py.File(newest("new")) as f:
        assert f.attrs["layout_hash"].decode() == "092004b8ac45d6d5"  # 0, 0, 1, 1: tests/unit/topo_place.c
        assert f.attrs["layout"].decode() == "2,2"
    assert json.loads(shoal("ckpt", "show", "--json", newest("new")).stdout)["layout_hash"] == "092004b8ac45d6d5"
    assert resume(newest("new"), "again") == (False, False)
    shutil.copy(newest("new"), "cyclic.h5")
    crafted.change("cyclic.h5", lambda f: f.attrs.modify("layout_hash", np.bytes_("32d748215c66e845")))
    assert resume("cyclic.h5", "cyclic") == (True, False), "other ranks shared nodes"


def events(name, rank):
    """What a rank's trace says happened after each step: ["0:S0", "1:R0", ...]."""
    t = Trace(name, rank)
    found = [(int(r["step"]), t.ops[r["op"]].split()) for r in t.records if t.ops[r["op"]].startswith("daso ")]
    letter = {"start": "S", "collect": "R", "block": "X", "drop": "D"}
    return [f"{step}:{letter[w[1]]}{w[2]}" for step, w in found]


@pytest.mark.parametrize("ranks, topo, batch, more, expected", (
    (4, "2x2", 22, sets(method__every=4, method__wait=1), "0:S0 1:R0 4:S1 5:R1 8:S0 9:R0 10:X1"),
    (4, "2x2", 40, sets(method__every=1, method__wait=1), "0:S0 1:S1 1:R0 2:S0 2:R1 3:S1 3:R0 4:S0 4:R1 5:D0 5:X1"),
    (4, "2x2", 37, sets(method__every=2, method__wait=1, method__ref_quirks="true"), "0:S0 2:S1 2:R0 4:S0 4:R1 6:D0 6:X1"),
    (8, "2x4", 24, sets(method__every=4, method__wait=1), "0:S0 1:R0 4:S1 5:R1 8:S2 9:D2 9:X3"),
    (3, "2,1", 60, [], "0:S0 1:R0 3:X0"),
    (4, "2x2", 60, sets(method__warmup_epochs=1), "0:X0 1:X1 2:X0 3:X1")))
def test_daso_events(glyphs, ranks, topo, batch, more, expected):
    """The events of a run are those worked out by hand, on every rank."""
    glyphs(240, 40)
    options = [*MLP, *DASO, *sets(run__epochs=1, trace__level="op", method__warmup_epochs=0, method__cooldown_epochs=0)]
    r = train(ranks, "e", *options, "--topo", topo, *sets(data__global_batch=batch), *more)
    assert_formula(r)
    for rank in range(ranks):
        assert events("e", rank) == expected.split(), f"rank {rank}"


def test_daso_alone(glyphs):
    """method: daso and nothing else is a sensible run of any length; impossible settings are refused."""
    glyphs(400, 100)
    plain = [*MLP, *sets(method="daso", data__batch=8), "--topo", "2x2"]
    for epochs, phases in ((1, ["1 on a sum between"]), (2, ["1 on a blocking", "2 on a sum between"]),
                           (3, ["1 on a blocking", "2 on a sum between", "3 on a blocking"]),
                           (12, ["1 on a blocking", "3 on a sum between", "11 on a blocking"])):
        r = train(4, f"a{epochs}", *plain, *sets(run__epochs=epochs))
        assert_formula(r)
        said = [l.split("epoch ")[1] for l in r.stdout.splitlines() if "daso: from epoch" in l]
        kept = [l for l in said if "every B = 2" not in l and "every B = 1" not in l]
        assert len(kept) == len(phases), f"{epochs} {said}"
        assert all(l.startswith(p) for l, p in zip(kept, phases)), f"{epochs} {said}"
    assert float(metrics("a12")[-1]["train_loss"]) < 0.1, f'{metrics("a12")[-1]}'
    train(4, "adam", *plain, *sets(run__epochs=3, optim__name="adamw", optim__lr=1e-3))
    r = train(4, "bad", *plain, *sets(method__every=2, method__wait=3), code=2)
    assert "method.wait is 3" in r.stderr, r.stderr
    assert "lower wait" in r.stderr, r.stderr
    r = train(4, "bad", *plain, *sets(method__staleness_adjustment=0), code=2)
    assert "method.staleness_adjustment" in r.stderr, r.stderr


def test_daso_numeric(glyphs):
    """A NaN on any rank, in any phase, ends the run with 6 before it reaches another node; the checkpoint before is good."""
    glyphs(400)
    options = [*MLP, *DASO, *sets(run__epochs=2, data__batch=10, ckpt__every="4 steps"), "--topo", "2x2"]
    cycling = sets(method__warmup_epochs=0, method__cooldown_epochs=0)
    for name, more, step, rank in (("blocks", sets(method__warmup_epochs=2), 5, 1),
                                   ("f32", sets(method__warmup_epochs=2, method__wire="f32"), 5, 2),
                                   ("start", [*cycling, *sets(method__every=3)], 6, 3),
                                   ("between", [*cycling, *sets(method__every=8)], 5, 0)):
        train(4, name, *options, *more, "--allow-faults", *sets(fault__nan_step=step, fault__rank=rank), code=6)
        assert status(name)["state"] == "failed", f"{status(name)}"
        assert status(name)["exit_code"] == 6, f"{status(name)}"
        assert "step-000000004" in newest(name), f"{newest(name)}"
        if name != "start":
            continue
        r = train(4, name, *options, *more)
        assert status(name)["state"] == "done", f"{status(name)}"
        assert "resumed from" in r.stdout, f"{status(name)}"
        train(4, f"{name}-whole", *options, *more)
        assert_equal(newest(f"{name}-whole"), newest(name), f"{name}: after the NaN")


DASO_BAD = (
    (sets(method__every=0), ("method.every", '"0"', "[1,")),
    (sets(method__everry=2), ("method.everry", "did you mean method.every?")),
    (sets(method__warmup_epochs="two"), ("method.warmup_epochs", '"two"', "an integer")),
    (sets(method__threshold="nan"), ("method.threshold", '"nan"', "[0,1)")),
    (sets(method__wire="bf17"), ("method.wire", '"bf17"', "did you mean bf16?")),
    (sets(method__delta="yes"), ("method.delta", '"yes"', "auto, on, off")),
    (sets(method__wait=9), ("method.wait is 9", "method.max_every = 8", "lower wait")),
    (sets(method__every=3, method__wait=4), ("method.wait is 4", "method.every = 3", "raise every")),
)


@pytest.mark.parametrize("option, says", DASO_BAD)
def test_daso_refused(glyphs, option, says):
    """Unknown words, and settings that contradict each other."""
    glyphs(120, 40)
    refused(2, *MLP, *DASO, *sets(run__epochs=3, data__global_batch=12), "--topo", "2x1", *option, says=says)


def test_daso_settings(glyphs):
    """Phases that leave no epoch to cycle in are reported; every split of ranks and batches works."""
    glyphs(120, 40)
    options = [*MLP, *DASO, *sets(run__epochs=3, data__global_batch=12), "--topo", "2x1"]
    for name, option, warns in (("warm", sets(method__warmup_epochs=99), 1), ("cool", sets(method__cooldown_epochs=3), 1),
                                ("slow", sets(method__every=1000000), 0), ("one", sets(method__cooldown_epochs=1), 0)):
        r = train(2, name, *options, *option)
        assert_formula(r)
        assert r.stderr.count("leave none of run.epochs = 3 to cycle in") == warns, f"{name} {r.stderr}"
    # Any number of ranks, batches that leave some or whole nodes without samples, and every way to end an epoch.
    for ranks, topo, batch, last in ((3, "2,1", 7, "pad"), (5, "3,2", 2, "short"), (7, "4,2,1", 50, "pad"), (5, "5x1", 119, "drop"),
                                     (7, "2,1,1,3", 119, "short")):
        assert_formula(train(ranks, f"odd{topo.replace(',', '-')}", *MLP, *DASO, "--topo", topo,
                            *sets(run__epochs=2, run__steps=9, data__global_batch=batch, data__last=last,
                                  method__warmup_epochs=0, method__cooldown_epochs=0, method__every=2)))


def test_daso_killed(glyphs, jobs):
    """kill -9 of a rank, member or not, with sums under way in the last checkpoint: it resumes to the same bits."""
    glyphs(250, 50)
    options = [*MLP, *DASO, "--topo", "2,1", *sets(run__epochs=2, data__batch=8, ckpt__every="5 steps", method__warmup_epochs=0,
                                                   method__cooldown_epochs=0, method__every=4, method__wait=3)]
    train(3, "whole", *options)
    for rank in (1, 2):
        name = f"killed{rank}"
        job = jobs.start(3, name, *options, "--allow-faults", *sets(fault__kill_step=8, fault__rank=rank))
        assert job.wait(60) not in (0, 75), "a killed job ends well"
        with h5py.File(newest(name)) as f:
            assert len(f["method/sums"]) == 1, "no sum under way at step 5"
        r = train(3, name, *options)
        assert "resumed from" in r.stdout, r.stdout
        assert "step 5" in r.stdout, r.stdout
        assert_equal(newest("whole"), newest(name), f"rank {rank} killed")


def test_daso_round(glyphs):
    """One run through other methods and back, with sums and copies of each left behind: the model goes on every time."""
    glyphs(250, 50)
    options = [*MLP, "--topo", "2,1", *sets(run__epochs=9, data__batch=8)]
    steps, last = 0, None
    for method in ("daso", "swarm", "daso", "ist", "local-sgd", "daso", "local", "ab", "daso", "sync", "daso"):
        steps += 5
        own = sets(method__warmup_epochs=0, method__every=4, method__wait=4) if method == "daso" else []
        r = train(3, "round", *options, *own, *sets(method__name=method, run__steps=steps))
        assert not last or f"method {last}) then, 3 ranks (2,1, method {method}) now" in r.stdout, f"{method} {r.stdout}"
        assert status("round")["state"] == "done", f'{status("round")}'
        shoal("ckpt", "verify", newest("round"))
        last = method


def test_daso_disk(glyphs):
    """A disk with room for the model but not for sums under way: told before anything is written, with the real need."""
    glyphs(120, 40)
    os.makedirs("runs")
    options = [*MLP, *DASO, "--topo", "2x1", *sets(
        model__widths="[512,256]", data__batch=2, run__epochs=1, trace__level="off",
        method__warmup_epochs=0, method__every=4, method__wait=4, fault__stop_step=5), "--allow-faults"]
    small = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=12m none runs || exit 99; "$@"; code=$?; '
             'ls -A runs/full/ckpt; exit $code', "sh"]
    if run([*small[:4], "mount -t tmpfs none runs"], code=None).returncode:
        pytest.skip("no small file system can be mounted here")
    # After step 6 one sum is under way.  f32: the model, and weights, momentum and that sum of one or two ranks.
    numbers = 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10
    r = run([*small, *train_command(2, "full", *options)], code=7, timeout=120)
    assert_one_error(r, f"a checkpoint needs {6 * 4 * numbers / 2**20:.1f} MiB, but there is", "make room")
    assert ".h5" not in r.stdout.splitlines()[-1], f"something was left behind {r.stdout}"
