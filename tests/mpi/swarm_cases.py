#!/usr/bin/env python3
"""Whole runs of swarm: swarm_cases.py SHOAL CASE.  Tools and oracles are those of train_cases.py."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True  # nothing is written beside the sources
import train_cases
from train_cases import (FULL, MLP, RESNET, check, check_equal, children, diff, glyphs, main, metrics, newest, ranks_of, sets, shoal, start,
                         status, train, wait_for)

LOCKSTEP = sets(method__name="swarm", method__deterministic="true")
MLP_COUNT = 784 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10


def replica(path, what):
    """One array of every rank in a checkpoint, in rank order."""
    import h5py
    with h5py.File(path) as f:
        return [f[f"replica/{k}/{what}"][()] for k in range(len(f["replica"]))]


def case_swarm_neutral():
    """S1: one rank is plain SGD bit for bit; without interactions ranks train alone.  S2: two ranks that average after
    every step are data-parallel SGD, with Nesterov momentum and weight decay, to rounding."""
    import h5py
    import numpy as np
    glyphs(400)
    options = [*MLP, *sets(run__epochs=2, data__batch=16, optim__nesterov="true", optim__weight_decay=1e-3)]
    train(1, "sync1", *options)
    for mode in ("true", "false"):
        train(1, f"one{mode}", *options, *sets(method__name="swarm", method__deterministic=mode))
        for part in ("model/", "replica/0/momentum"):
            r = diff(newest("sync1"), newest(f"one{mode}"), "--only", part)
            check(r.returncode == 0, f"one rank is not plain SGD: {part}\n{r.stdout}")
    train(2, "sync2", *options)
    pair = sets(method__variant="blocking", method__local_steps=1, method__bits=0)
    train(2, "pair", *options, *LOCKSTEP, *pair)
    weights = replica(newest("pair"), "weights")
    check(np.array_equal(weights[0], weights[1]), "two ranks that have just averaged differ")
    r = diff(newest("sync2"), newest("pair"), "--only", "model/", "--tolerance", "1e-4")
    check(r.returncode == 0, f"H = 1 at two ranks is not data-parallel SGD\n{r.stdout}")
    # Alone: rank k's slots of the unshuffled data, as a data set of their own.
    alone = [*options, *sets(data__shuffle="false")]
    train(2, "apart", *alone, *LOCKSTEP, *sets(method__local_steps=1000000))
    weights = replica(newest("apart"), "weights")
    for k in range(2):
        with h5py.File("glyphs.h5") as f, h5py.File(f"half{k}.h5", "w") as g:
            for key, value in f.attrs.items():
                g.attrs[key] = value
            for name in ("train/x", "train/y", "test/x", "test/y"):
                g.create_dataset(name, data=f[name][k::2] if name.startswith("train") else f[name][()])
                for key, value in f[name].attrs.items():
                    g[name].attrs[key] = value
        train(1, f"alone{k}", *alone, *sets(data__file=f"half{k}.h5", method__name="sync"))
        with h5py.File(newest(f"alone{k}")) as f:
            single = np.concatenate([f[f"model/fc{i}.{what}"][()].ravel() for i in (1, 2, 3) for what in ("weight", "bias")])
        check(np.array_equal(single, weights[k]), f"rank {k} without interactions did not train alone")


def case_swarm_lockstep():
    """The deterministic mode: the same bits twice, stopped and resumed at random steps for every variant, and it goes on at
    another number of ranks, in sync and back."""
    import h5py
    import numpy as np
    glyphs(403, 60)
    base = [*MLP, *sets(run__epochs=3, data__batch=16), *LOCKSTEP]  # 134 or 135 samples a rank, 9 steps per epoch
    rng = random.Random(int(os.environ.get("SHOAL_TEST_SEED", time.time())))
    runs = [("nonblocking", 8, "nearest", "fixed", "complete"), ("nonblocking-symmetric", 14, "stochastic", "geometric", "ring"),
            ("pull", 4, "nearest", "fixed", "random"), ("blocking", 16, "stochastic", "fixed", "torus"),
            ("nonblocking", 0, "nearest", "geometric", "complete")]
    for variant, bits, rounding, draw, graph in runs if FULL else runs[:2] + [rng.choice(runs[2:])]:
        name = f"{variant}{bits}"
        options = [*base, *sets(method__variant=variant, method__bits=bits, method__rounding=rounding, method__graph=graph,
                                method__local_steps_draw=draw, method__local_steps=2)]
        r = train(3, name, *options)
        check("DIFFERENT" not in r.stdout and "equal to the method's formula" in r.stdout, r.stdout)
        stops = rng.choice([(a, b) for a in range(20) for b in range(a + 2, 24)])
        print(name, "stop steps", stops)
        for step in stops:
            train(3, f"{name}cut", *options, "--allow-faults", *sets(fault__stop_step=step, fault__rank=step % 3), code=75)
        train(3, f"{name}cut", *options)
        check_equal(newest(name), newest(f"{name}cut"), f"{name} stopped at {stops}")
        kept = ("step", "train_loss", "test_acc", "consensus", "own_acc")
        rows = [[m[k] for k in kept] for m in metrics(name)]
        check(rows == [[m[k] for k in kept] for m in metrics(f"{name}cut")], "rows of metrics.csv")
        check(all(float(r[3]) > 0 and len(r[4].split()) == 3 for r in rows), rows)
    options = [*base, *sets(method__local_steps=2)]
    stop = ["--allow-faults", *sets(fault__stop_step=11)]
    train(3, "moved", *options, *stop, code=75)
    r = train(2, "moved", *options, "--allow-faults", *sets(fault__stop_step=14), code=75)
    check("layout changed" in r.stdout, r.stdout)
    train(2, "moved", *MLP, *sets(run__epochs=3, data__batch=16), "--allow-faults", *sets(fault__stop_step=18), code=75)
    train(3, "moved", *options)
    check(status("moved")["state"] == "done", status("moved"))
    check(float(metrics("moved")[-1]["test_acc"]) > 0.15, metrics("moved"))
    # Another variant takes over what was pending: the mean model does not change.
    train(2, "other", *options, *stop, code=75)
    before = newest("other")
    shutil.copy(before, "before.h5")
    train(2, "other", *options, *sets(method__variant="blocking", run__steps=1, ckpt__keep=9))  # nothing to train
    with h5py.File("before.h5") as f, h5py.File(newest("other")) as g:
        for name in f["model"]:
            check(np.allclose(f[f"model/{name}"][()], g[f"model/{name}"][()], atol=1e-6), f"{name} moved with the variant")


def case_swarm_bytes():
    """S14: what is sent is parcels of 4 d, or bits d / 8 and 8 bytes per block of 4096, and blocks sent again; on every rank
    and link class as counted."""
    glyphs(320)
    blocks = -(-MLP_COUNT // 4096)
    for ranks, topo, variant, bits in ((2, "2x1", "nonblocking", 0), (4, "2x2", "nonblocking", 8), (3, "2,1", "pull", 16),
                                       (4, "1,2,1", "blocking", 4), (3, "1x3", "nonblocking-symmetric", 14)):
        name = f"b{ranks}{variant}{bits}"
        r = train(ranks, name, *MLP, *LOCKSTEP, "--topo", topo,
                  *sets(run__epochs=2, data__batch=8, method__variant=variant, method__bits=bits))
        check("DIFFERENT" not in r.stdout and "equal to the method's formula" in r.stdout, r.stdout)
        table = json.loads(shoal("trace", "show", f"runs/{name}", "--json").stdout)
        packed = sum(n + -(-6 * n // 8) if bits == 14 else -(-n * bits // 8)
                     for n in [4096] * (MLP_COUNT // 4096) + [MLP_COUNT % 4096]) + 8 * blocks
        counts = [[int(x) for x in c] for c in replica(newest(name), "swarm_counts")]
        for row in table["ranks"]:
            begun, since, turns, met, served, parcels, full, again = counts[row["rank"]]
            got = sum(row["links"][k]["payload"] for k in ("node", "between"))
            expected = (parcels - full) * packed + full * 4 * MLP_COUNT + again
            check(got == expected, f"{name} rank {row['rank']}: counted {got}, formula {expected}")
            check(parcels == (served if variant == "pull" else met + served), name, met, served, parcels)
            check(full == parcels if bits == 0 else full < parcels, f"{name}: {full} of {parcels} parcels in full")
        check(sum(c[3] for c in counts) == sum(c[4] for c in counts), "initiators and partners", counts)
        check(all(c[3] == 2 * -(-320 // ranks // 8) for c in counts), "an interaction begun in every step", counts)

FREE = sets(method__name="swarm")


def steps_of(path):
    """Each rank's own number of steps."""
    return [int(p[2]) for p in replica(path, "place")]


def check_mean_model(path, name):
    """The model in a checkpoint is the mean of what all ranks have learned, pending updates included."""
    import h5py
    import numpy as np
    with h5py.File(path) as f:
        model = np.concatenate([f[f"model/fc{i}.{what}"][()].ravel() for i in (1, 2, 3) for what in ("weight", "bias")])
        copies = [f"replica/{k}" for k in range(len(f["replica"]))]
        nodes = [f[f"{c}/weights"][()].astype(float) + (f[f"{c}/swarm_common"][()].astype(float) - f[f"{c}/swarm_base"][()]
                                                        if "swarm_base" in f[c] else 0) for c in copies]
    check(np.abs(np.mean(nodes, axis=0) - model).max() < 1e-6, f"{name}: the model is not the mean of the ranks")


def case_swarm_free():
    """Ranks on their own clocks: every variant trains, counts its bytes, stops at a signal with a complete state, goes on from
    it with the mean unchanged, also at another number of ranks, and saves and evaluates in mid-epoch when rank 0 says so."""
    import h5py
    glyphs(403, 60)
    base = [*MLP, *FREE, *sets(run__epochs=4, data__batch=8, method__local_steps=2)]  # 17 steps per epoch at 3 ranks
    other = random.choice(("pull", "blocking", "nonblocking-symmetric"))
    for variant, bits, graph in (("nonblocking", 8, "complete"), ("pull", 16, "ring"), ("blocking", 4, "torus"),
                                 ("nonblocking-symmetric", 0, "random")):
        options = [*base, *sets(method__variant=variant, method__bits=bits, method__graph=graph)]
        r = train(3, variant, *options, "--topo", "2,1")
        check("DIFFERENT" not in r.stdout and "equal to the method's formula" in r.stdout, r.stdout)
        check(steps_of(newest(variant)) == [68] * 3, steps_of(newest(variant)))
        check(len(metrics(variant)) == 4 and float(metrics(variant)[-1]["test_acc"]) > 0.15, metrics(variant))
        check_mean_model(newest(variant), variant)
        counts = [[int(x) for x in c] for c in replica(newest(variant), "swarm_counts")]
        check(sum(c[3] for c in counts) == sum(c[4] for c in counts) > 20, "interactions", counts)
        if not FULL and variant not in ("nonblocking", other):
            continue
        name = f"{variant}cut"
        train(3, name, *options, "--allow-faults", *sets(fault__stop_step=21, fault__rank=1), code=75)
        check(steps_of(newest(name))[1] in (21, 22), steps_of(newest(name)))
        check_mean_model(newest(name), name)
        shutil.copy(newest(name), "stopped.h5")
        r = train(3, name, *options, *sets(run__steps=1, ckpt__keep=9), "--resume", "stopped.h5")  # nothing to train
        with h5py.File("stopped.h5") as f, h5py.File(newest(name)) as g:
            check(all((f[f"model/{k}"][()] == g[f"model/{k}"][()]).all() for k in f["model"]), "the mean moved")
        train(3, name, *options)
        check(status(name)["state"] == "done" and steps_of(newest(name)) == [68] * 3, status(name))
    r = train(2, "nonblockingcut", *base, *sets(run__epochs=6))
    check("layout changed" in r.stdout and status("nonblockingcut")["state"] == "done", r.stdout)
    r = train(3, "often", *base, *sets(ckpt__every="5 steps", eval__every="7 steps", ckpt__keep=50))
    check(len(metrics("often")) >= 9, metrics("often"))
    check(r.stdout.count("checkpoint runs/often") >= 12, r.stdout)
    train(3, "rarely", *base, *sets(eval__every="3 epochs"))
    check([m["epoch"] for m in metrics("rarely")] == ["3", "4"], metrics("rarely"))
    train(3, "nan", *base, "--allow-faults", *sets(fault__nan_step=45, fault__rank=2, ckpt__every="4 steps"), code=6)
    check(status("nan")["state"] == "failed" and status("nan")["exit_code"] == 6, status("nan"))
    shoal("ckpt", "verify", newest("nan"))


def case_swarm_batchnorm():
    """The mean model's running statistics are measured anew, not taken from the ranks; and come out the same every time."""
    import h5py
    import numpy as np
    glyphs(96, 20, 32)
    options = [*RESNET, *LOCKSTEP, *sets(run__epochs=1, model__dropout=0)]
    for name in ("a", "b"):
        train(2, name, *options)
    check_equal(newest("a"), newest("b"), "twice the same run")
    with h5py.File(newest("a")) as f:
        model = np.concatenate([f[f"model/{k}"][()].ravel() for k in f["model"] if k.endswith("running_var")])
        own = np.concatenate([f["replica/0/stats"][()]])
    check(np.isfinite(model).all() and (model > 0).all(), "variances")
    check(not np.isin(model.astype(np.float32), own).any(), "the model has a rank's own statistics")


@contextlib.contextmanager
def running(ranks, name, *args):
    """A job that does not outlive its test, whatever happens."""
    job = start(ranks, name, *args)
    try:
        yield job
    finally:
        for pid in [*children(job.pid), job.pid] if job.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        job.wait()


def case_swarm_straggler():
    """S18 as counts: one rank's steps take 50 ms more.  The others do not wait for it: they make at least 5 times as many."""
    glyphs(2000, 40)
    options = sets(run__epochs=1000, eval__every="1000 epochs", data__batch=4, fault__rank=1, fault__compute="sleep:50",
                   run__log_every="1 steps")
    with running(3, "slow", *MLP, *FREE, "--allow-faults", *options) as job:
        wait_for("runs/slow/log.txt", r"step 600:")
        os.kill(ranks_of(job)[0], signal.SIGUSR1)
        code = job.wait(60)
        check(code == 75, f"exit {code}\n{open('slow.out').read()}")
    steps, counts = steps_of(newest("slow")), replica(newest("slow"), "swarm_counts")
    check(min(steps[0], steps[2]) >= 5 * steps[1], f"steps {steps}")
    check(counts[1][4] >= 1, f"the slow rank answered nobody: {counts}")
    check_mean_model(newest("slow"), "slow")


def case_swarm_lost():
    """A rank that is stopped for a while: the others give it up and train on, take it back when it is heard of again, and all
    stop together.  With method.on_lost: stop the run ends with 4."""
    glyphs(2000, 40)
    options = [*MLP, *FREE, *sets(run__epochs=1000, eval__every="1000 epochs", data__batch=4, method__drop_after=0.5,
                                  run__log_every="1 steps")]
    with running(3, "lost", *options) as job:
        wait_for("runs/lost/log.txt", r"step 100:")
        pids = ranks_of(job)
        os.kill(pids[2], signal.SIGSTOP)
        wait_for("lost.out", r"rank 2 has not been heard of")
        before = [int(x) for x in re.findall(r"step (\d+):", open("runs/lost/log.txt").read())][-1]
        wait_for("runs/lost/log.txt", rf"step {before + 200}:")
        os.kill(pids[2], signal.SIGCONT)
        wait_for("lost.out", r"rank 2 is back")
        os.kill(pids[1], signal.SIGUSR1)
        code = job.wait(60)
        check(code == 75, f"exit {code}\n{open('lost.out').read()[-2000:]}")
    shoal("ckpt", "verify", newest("lost"))
    with running(3, "stop", *options, *sets(method__on_lost="stop")) as job:
        wait_for("runs/stop/log.txt", r"step 100:")
        pids = ranks_of(job)
        os.kill(pids[2], signal.SIGSTOP)
        code = job.wait(60)
        check(code not in (0, 75), f"exit {code}")
        try:
            os.kill(pids[2], signal.SIGKILL)
        except ProcessLookupError:
            pass
    check(status("stop")["exit_code"] == 4 and "rank 2" in status("stop")["reason"], status("stop"))


if __name__ == "__main__":
    vars(train_cases).update({k: v for k, v in globals().items() if k.startswith("case_")})
    sys.exit(main())
