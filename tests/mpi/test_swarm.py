"""Whole runs of swarm, in lockstep and on ranks' own clocks."""
import re
import shutil
import signal

import h5py
import numpy as np

import pytest
from harness import (FULL, MLP, RESNET, assert_equal, assert_formula, column, log, metrics, newest, random_source, ranks_of,
                     read, replicas, sampled, send, sets, shoal, status, stops, trace_table, train, wait_for)

LOCKSTEP = sets(method__name="swarm", method__deterministic="true")
MLP_COUNT = 784 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10


def test_swarm_neutral(glyphs):
    """One rank is plain SGD bit for bit; without interactions ranks train alone.  Two ranks that average after
    every step are data-parallel SGD, with Nesterov momentum and weight decay, to rounding."""
    glyphs(400)
    options = [*MLP, *sets(run__epochs=2, data__batch=16, optim__nesterov="true", optim__weight_decay=1e-3)]
    train(1, "sync1", *options)
    for mode in ("true", "false"):
        train(1, f"one{mode}", *options, *sets(method__name="swarm", method__deterministic=mode))
        for part in ("model/", "replica/0/momentum"):
            assert_equal(newest("sync1"), newest(f"one{mode}"), f"one rank is not plain SGD: {part}", part)
    train(2, "sync2", *options)
    pair = sets(method__variant="blocking", method__local_steps=1, method__bits=0)
    train(2, "pair", *options, *LOCKSTEP, *pair)
    weights = replicas(newest("pair"), "weights")
    assert np.array_equal(weights[0], weights[1]), "two ranks that have just averaged differ"
    assert_equal(newest("sync2"), newest("pair"), "H = 1 at two ranks is not data-parallel SGD", "model/", tolerance=1e-4)
    # Alone: rank k's slots of the unshuffled data, as a data set of their own.
    # One thread each, as two ranks on two cores have: how oneDNN splits a product among threads may show in the last bit.
    alone = [*options, *sets(data__shuffle="false", threads=1)]
    train(2, "apart", *alone, *LOCKSTEP, *sets(method__local_steps=1000000))
    weights = replicas(newest("apart"), "weights")
    for k in range(2):
        with h5py.File("glyphs.h5") as f, h5py.File(f"half{k}.h5", "w") as g:
            for key in ("kind", "classes", "mean", "std"):  # not the check sums: half of the samples has others
                g.attrs[key] = f.attrs[key]
            for name in ("train/x", "train/y", "test/x", "test/y"):
                g.create_dataset(name, data=f[name][k::2] if name.startswith("train") else f[name][()])
        train(1, f"alone{k}", *alone, *sets(data__file=f"half{k}.h5", method__name="sync"))
        with h5py.File(newest(f"alone{k}")) as f:
            single = np.concatenate([f[f"model/fc{i}.{what}"][()].ravel() for i in (1, 2, 3) for what in ("weight", "bias")])
        assert np.array_equal(single, weights[k]), f"rank {k} without interactions did not train alone"


LONG = [*MLP, *sets(run__epochs=3, data__batch=16), *LOCKSTEP]  # 134 or 135 samples a rank, 9 steps per epoch
VARIANTS = [("nonblocking", 8, "nearest", "fixed", "complete"), ("nonblocking-symmetric", 14, "stochastic", "geometric", "ring"),
            ("pull", 4, "nearest", "fixed", "random"), ("blocking", 16, "stochastic", "fixed", "torus"),
            ("nonblocking", 0, "nearest", "geometric", "complete")]


@pytest.mark.parametrize("variant, bits, rounding, draw, graph", VARIANTS[:2] + sampled(VARIANTS[2:], 1))
def test_swarm_lockstep(glyphs, variant, bits, rounding, draw, graph):
    """H12: the deterministic mode: the same bits twice, stopped and resumed at random steps for every variant."""
    glyphs(403, 60)
    options = [*LONG, *sets(method__variant=variant, method__bits=bits, method__rounding=rounding, method__graph=graph,
                            method__local_steps_draw=draw, method__local_steps=2)]
    assert_formula(train(3, "whole", *options))
    steps = stops(2, 24, what=variant)
    for step in steps:
        train(3, "cut", *options, "--allow-faults", *sets(fault__stop_step=step, fault__rank=step % 3), code=75)
    train(3, "cut", *options)
    assert_equal(newest("whole"), newest("cut"), f"stopped at {steps}")
    kept = ("step", "train_loss", "test_acc", "consensus", "own_acc")
    assert column("whole", *kept) == column("cut", *kept)
    for row in metrics("whole"):
        assert float(row["consensus"]) > 0, row
        assert len(row["own_acc"].split()) == 3, row


def test_swarm_moved(glyphs):
    """It goes on at another number of ranks, in sync and back, and under another variant."""
    glyphs(403, 60)
    options = [*LONG, *sets(method__local_steps=2)]
    stop = ["--allow-faults", *sets(fault__stop_step=11)]
    train(3, "moved", *options, *stop, code=75)
    r = train(2, "moved", *options, "--allow-faults", *sets(fault__stop_step=14), code=75)
    assert "layout changed" in r.stdout, r.stdout
    train(2, "moved", *MLP, *sets(run__epochs=3, data__batch=16), "--allow-faults", *sets(fault__stop_step=18), code=75)
    train(3, "moved", *options)
    assert status("moved")["state"] == "done", f'{status("moved")}'
    assert float(metrics("moved")[-1]["test_acc"]) > 0.15, f'{metrics("moved")}'
    # Another variant takes over what was pending: the mean model does not change.
    train(2, "other", *options, *stop, code=75)
    before = newest("other")
    shutil.copy(before, "before.h5")
    train(2, "other", *options, *sets(method__variant="blocking", run__steps=1, ckpt__keep=9))  # nothing to train
    with h5py.File("before.h5") as f, h5py.File(newest("other")) as g:
        for name in f["model"]:
            assert np.allclose(f[f"model/{name}"][()], g[f"model/{name}"][()], atol=1e-6), f"{name} moved with the variant"


@pytest.mark.parametrize("ranks, topo, variant, bits", (
    (2, "2x1", "nonblocking", 0), (4, "2x2", "nonblocking", 8), (3, "2,1", "pull", 16), (4, "1,2,1", "blocking", 4),
    (3, "1x3", "nonblocking-symmetric", 14)))
def test_swarm_bytes(glyphs, ranks, topo, variant, bits):
    """What is sent is parcels of 4 d, or bits d / 8 and 8 bytes per block of 4096, and blocks sent again; on every rank
    and link class as counted."""
    glyphs(320)
    blocks = -(-MLP_COUNT // 4096)
    options = sets(run__epochs=2, data__batch=8, method__variant=variant, method__bits=bits)
    assert_formula(train(ranks, "b", *MLP, *LOCKSTEP, "--topo", topo, *options))
    packed = sum(n + -(-6 * n // 8) if bits == 14 else -(-n * bits // 8)
                 for n in [4096] * (MLP_COUNT // 4096) + [MLP_COUNT % 4096]) + 8 * blocks
    counts = [[int(x) for x in c] for c in replicas(newest("b"), "swarm_counts")]
    for row in trace_table("b")["ranks"]:
        begun, since, turns, met, served, parcels, full, again = counts[row["rank"]]
        got = sum(row["links"][k]["payload"] for k in ("node", "between"))
        assert got == (parcels - full) * packed + full * 4 * MLP_COUNT + again, f"rank {row['rank']}"
        assert parcels == (served if variant == "pull" else met + served), f"rank {row['rank']}: {met} met, {served} served"
        assert full == parcels if bits == 0 else full < parcels, f"rank {row['rank']}"
        assert met == 2 * -(-320 // ranks // 8), f"rank {row['rank']} does not begin an interaction in every step"
    assert sum(c[3] for c in counts) == sum(c[4] for c in counts), f"initiators and partners {counts}"


FREE = sets(method__name="swarm")


def steps_of(path):
    """Each rank's own number of steps."""
    return [int(p[2]) for p in replicas(path, "place")]


def check_mean_model(path, name):
    """The model in a checkpoint is the mean of what all ranks have learned, pending updates included."""
    with h5py.File(path) as f:
        model = np.concatenate([f[f"model/fc{i}.{what}"][()].ravel() for i in (1, 2, 3) for what in ("weight", "bias")])
        copies = [f"replica/{k}" for k in range(len(f["replica"]))]
        nodes = [f[f"{c}/weights"][()].astype(float) + (f[f"{c}/swarm_common"][()].astype(float) - f[f"{c}/swarm_base"][()]
                                                        if "swarm_base" in f[c] else 0) for c in copies]
    assert np.abs(np.mean(nodes, axis=0) - model).max() < 1e-6, f"{name}: the model is not the mean of the ranks"


def test_swarm_free(glyphs):
    """Ranks on their own clocks: every variant trains, counts its bytes, stops at a signal with a complete state, goes on from
    it with the mean unchanged, also at another number of ranks, and saves and evaluates in mid-epoch when rank 0 says so."""
    glyphs(403, 60)
    base = [*MLP, *FREE, *sets(run__epochs=4, data__batch=8, method__local_steps=2)]  # 17 steps per epoch at 3 ranks
    other = random_source("swarm free").choice(("pull", "blocking", "nonblocking-symmetric"))
    for variant, bits, graph in (("nonblocking", 8, "complete"), ("pull", 16, "ring"), ("blocking", 4, "torus"),
                                 ("nonblocking-symmetric", 0, "random")):
        options = [*base, *sets(method__variant=variant, method__bits=bits, method__graph=graph)]
        r = train(3, variant, *options, "--topo", "2,1")
        assert_formula(r)
        assert steps_of(newest(variant)) == [68] * 3, f"{steps_of(newest(variant))}"
        assert len(metrics(variant)) == 4, f"{metrics(variant)}"
        assert float(metrics(variant)[-1]["test_acc"]) > 0.15, f"{metrics(variant)}"
        check_mean_model(newest(variant), variant)
        counts = [[int(x) for x in c] for c in replicas(newest(variant), "swarm_counts")]
        assert sum(c[3] for c in counts) == sum(c[4] for c in counts) > 20, f"interactions {counts}"
        if not FULL and variant not in ("nonblocking", other):
            continue
        name = f"{variant}cut"
        train(3, name, *options, "--allow-faults", *sets(fault__stop_step=21, fault__rank=1), code=75)
        assert steps_of(newest(name))[1] in (21, 22), f"{steps_of(newest(name))}"
        check_mean_model(newest(name), name)
        shutil.copy(newest(name), "stopped.h5")
        r = train(3, name, *options, *sets(run__steps=1, ckpt__keep=9), "--resume", "stopped.h5")  # nothing to train
        with h5py.File("stopped.h5") as f, h5py.File(newest(name)) as g:
            assert all((f[f"model/{k}"][()] == g[f"model/{k}"][()]).all() for k in f["model"]), "the mean moved"
        train(3, name, *options)
        assert status(name)["state"] == "done", f"{status(name)}"
        assert steps_of(newest(name)) == [68] * 3, f"{status(name)}"
    r = train(2, "nonblockingcut", *base, *sets(run__epochs=6))
    assert "layout changed" in r.stdout, r.stdout
    assert status("nonblockingcut")["state"] == "done", r.stdout
    r = train(3, "often", *base, *sets(ckpt__every="5 steps", eval__every="7 steps", ckpt__keep=50))
    assert len(metrics("often")) >= 9, f'{metrics("often")}'
    assert r.stdout.count("checkpoint runs/often") >= 12, r.stdout
    train(3, "rarely", *base, *sets(eval__every="3 epochs"))
    assert [m["epoch"] for m in metrics("rarely")] == ["3", "4"], f'{metrics("rarely")}'
    train(3, "nan", *base, "--allow-faults", *sets(fault__nan_step=45, fault__rank=2, ckpt__every="4 steps"), code=6)
    assert status("nan")["state"] == "failed", f'{status("nan")}'
    assert status("nan")["exit_code"] == 6, f'{status("nan")}'
    shoal("ckpt", "verify", newest("nan"))


def test_swarm_batchnorm(glyphs):
    """The mean model's running statistics are measured anew, not taken from the ranks; and come out the same every time."""
    glyphs(96, 20, 32)
    options = [*RESNET, *LOCKSTEP, *sets(run__epochs=1, model__dropout=0)]
    for name in ("a", "b"):
        train(2, name, *options)
    assert_equal(newest("a"), newest("b"), "twice the same run")
    with h5py.File(newest("a")) as f:
        model = np.concatenate([f[f"model/{k}"][()].ravel() for k in f["model"] if k.endswith("running_var")])
        own = np.concatenate([f["replica/0/stats"][()]])
    assert np.isfinite(model).all(), "variances"
    assert (model > 0).all(), "variances"
    assert not np.isin(model.astype(np.float32), own).any(), "the model has a rank's own statistics"


def test_swarm_statistics(glyphs):
    """2 ranks x 4 batches of 8 are all 64 samples: measured mean and variance are those of the whole training split."""
    glyphs(64, 20)
    train(2, "whole", *LOCKSTEP, *sets(model__name="mlp", model__widths="[16]", model__norm="batch", data__file="glyphs.h5",
                                       data__batch=8, eval__statistics=4, run__epochs=2, optim__lr=0.05))
    with h5py.File("glyphs.h5") as f:
        x = f["train/x"][()].reshape(64, -1).astype(np.float64)
    with h5py.File(newest("whole")) as f:
        model = {k: v[()].astype(np.float64) for k, v in f["model"].items()}
    h = (x - x.mean()) / x.std() @ model["fc1.weight"].T + model["fc1.bias"]
    for name, right in (("mean", h.mean(axis=0)), ("var", h.var(axis=0))):
        error = np.abs(model[f"norm1.running_{name}"] - right).max() / np.abs(right).max()
        assert error < 1e-5, f"norm1.running_{name} is off by {error:.2e} of NumPy's"


def test_swarm_straggler(glyphs, jobs):
    """One rank's steps take a second more.  The others do not wait for it: they make at least 5 times as many."""
    glyphs(2000, 40)
    options = sets(run__epochs=1000, eval__every="1000 epochs", data__batch=4, fault__rank=1, fault__compute="sleep:1000",
                   run__log_every="1 steps")
    job = jobs.start(3, "slow", *MLP, *FREE, "--allow-faults", *options)
    wait_for("runs/slow/log.txt", r"step 300:")
    send(ranks_of(job)[0], signal.SIGUSR1)
    assert job.wait(60) == 75, read("slow.out")
    steps, counts = steps_of(newest("slow")), replicas(newest("slow"), "swarm_counts")
    assert min(steps[0], steps[2]) >= 5 * steps[1], f"steps {steps}"
    assert counts[1][4] >= 1, f"the slow rank answered nobody: {counts}"
    check_mean_model(newest("slow"), "slow")


def test_swarm_lost(glyphs, jobs):
    """A rank that is stopped for a while: the others give it up and train on, take it back when it is heard of again, and all
    stop together.  With method.on_lost: stop the run ends with 4."""
    glyphs(2000, 40)
    options = [*MLP, *FREE, *sets(run__epochs=1000, eval__every="1000 epochs", data__batch=4, method__drop_after=0.5,
                                  run__log_every="1 steps")]
    job = jobs.start(3, "lost", *options)
    wait_for("runs/lost/log.txt", r"step 100:")
    pids = ranks_of(job)
    send(pids[2], signal.SIGSTOP)
    wait_for("lost.out", r"rank 2 has not been heard of")
    before = [int(x) for x in re.findall(r"step (\d+): loss", log("lost"))][-1]
    wait_for("runs/lost/log.txt", rf"step {before + 200}:")
    send(pids[2], signal.SIGCONT)
    wait_for("lost.out", r"rank 2 is back")
    send(pids[1], signal.SIGUSR1)
    assert job.wait(60) == 75, read("lost.out")[-2000:]
    silences = [float(x) for x in re.findall(r"not been heard of for ([\d.]+) s", read("lost.out"))]
    assert min(silences) >= 0.5, f"given up before method.drop_after: {silences}"
    shoal("ckpt", "verify", newest("lost"))
    job = jobs.start(3, "stop", *options, *sets(method__on_lost="stop"))
    wait_for("runs/stop/log.txt", r"step 100:")
    pids = ranks_of(job)
    send(pids[2], signal.SIGSTOP)
    assert job.wait(60) not in (0, 75), read("stop.out")[-2000:]
    send(pids[2], signal.SIGKILL)
    assert status("stop")["exit_code"] == 4, status("stop")
    assert "rank 2" in status("stop")["reason"]
