"""NaN, infinity and spikes (docs/numbers.md): what is told, what is left out, and what a run goes back to; all methods, odd rank
counts.

Oracles: every number of every checkpoint is finite; a step that is left out leaves weights and optimizer state as they were,
bit for bit, on the ranks that share it and on no others; counters are those of a run without the fault.
"""
import os
import re

import numpy as np
import pytest
from harness import arrays, assert_one_error, checkpoints, log, metrics, newest, sets, shoal, status, train

NET = sets(model__name="mlp", model__widths="[16,12,10]", model__norm="batch", optim__lr=0.05, optim__momentum=0.9, data__batch=6,
           data__file="n.h5", run__epochs=1, ckpt__every="3 steps", ckpt__keep=100)
RANKS, TOPO = 3, "2,1"
METHODS = {  # settings; ranks whose update is left out with that of rank 1
    "sync": ([], {0, 1, 2}),
    "local-sgd": (sets(method__period=1000), {1}),
    "local-sgd-node": (sets(method__period=1000, method__node_level="true"), {0, 1}),
    "daso": (sets(method__warmup_epochs=0, method__cooldown_epochs=0, method__every=8, method__wait=2), {0, 1}),
    "swarm": (sets(method__deterministic="true", method__local_steps=1000), {1}),
    "swarm-free": (sets(method__local_steps=2), None),
    "ab": (sets(method__warmup=4, method__cycle=12, method__rebound=2), None),
    "ist": (sets(method__round=4), {1}),
    "local": (sets(method__chunks=3), {1}),
}


def features(name, bad=(), n=240, tests=60, split="X_train", value=np.nan):
    """A foreign file of 16 features and two classes; `bad` are (sample, feature) that hold `value`."""
    import h5py
    r = np.random.default_rng(1)
    x = r.normal(size=(n, 16)).astype("f4")
    y = (x[:, 0] > 0).astype("i4")
    parts = {"X_train": x, "y_train": y, "X_test": x[:tests].copy(), "y_test": y[:tests]}
    for sample, feature in bad:
        parts[split][sample, feature] = value
    with h5py.File(name, "w") as f:
        for key, values in parts.items():
            f[key] = values


def options(method):
    return [*NET, *METHODS[method][0], *sets(method__name=method.split("-node")[0].split("-free")[0]), "--topo", TOPO]


def assert_finite(name):
    for path in checkpoints(name):
        for key, value in arrays(path).items():
            assert key.endswith("best") or value.dtype.kind != "f" or np.isfinite(value).all(), f"{path}: {key}"
    for row in metrics(name):
        assert not any(text in ("nan", "-nan", "inf", "-inf") for text in row.values()), f"{row}"
    assert "nan" not in open(f"runs/{name}/status.json").read().lower()


def step_of(path):
    return int(path[-12:-3])


@pytest.mark.parametrize("method", METHODS)
def test_numbers_methods(work, method):
    """A NaN in a gradient of rank 1: stop ends all with 6; skip leaves that update out where it is shared; rollback goes on."""
    features("n.h5")
    fault = ["--allow-faults", *sets(fault__nan_step=9, fault__rank=1)]
    r = train(RANKS, "stop", *options(method), *fault, code=6)
    assert status("stop")["exit_code"] == 6, r.stderr
    blame = re.compile(r"rank 1, the gradient of \S+ is not finite at step 9")
    assert len(blame.findall(r.stderr)) == 1, r.stderr
    assert_finite("stop")
    if METHODS[method][1]:  # ranks that step together
        assert step_of(newest("stop")) == 9, f'{checkpoints("stop")}'
    short = sets(run__steps=10, ckpt__every="9 steps")  # before the step and after it
    r = train(RANKS, "skip", *options(method), *fault, *short, *sets(numbers__bad="skip"))
    told = [line for line in r.stderr.splitlines() if "left out" in line]
    assert len(told) == 1 and blame.search(told[0]), r.stderr
    if method not in ("swarm-free", "ab"):  # pairs and splits send what depends on the numbers
        assert "DIFFERENT" not in r.stdout, r.stdout
    assert_finite("skip")
    train(RANKS, "whole", *options(method), *short)
    assert step_of(newest("skip")) == step_of(newest("whole")), f'{newest("skip")} {newest("whole")}'
    shared = METHODS[method][1]
    if shared:
        assert_left_out(method, shared)
    r = train(RANKS, "back", *options(method), *fault, *sets(numbers__bad="rollback", ckpt__every="4 steps"))
    assert "going back to the " in r.stderr, r.stderr
    if method != "swarm-free":  # whose rank 1 may be there before there is a checkpoint
        assert "going back to the last checkpoint" in r.stderr, r.stderr
        assert "resumed from runs/back/ckpt/step-00000000" in r.stdout, r.stdout
    assert_finite("back")
    assert step_of(newest("back")) == 14, f'{newest("back")}'
    assert arrays(newest("back"))["train/rollbacks"] == 1
    assert "train/rollbacks" not in arrays(newest("whole")), "a healthy run's checkpoint has changed"
    steps = [int(m["step"]) for m in metrics("back")]
    assert steps == sorted(set(steps)), f"rows of before the rollback are left: {steps}"


def own(a, rank):
    """Weights and optimizer state of a rank: its own, or those all have."""
    keys = [k for k in a if k.startswith(f"replica/{rank}/") and k.split("/")[-1] in ("weights", "momentum")]
    keys = keys or [k for k in a if k == "replica/0/momentum" or (k.startswith("model/") and "running" not in k)]
    return [a[k] for k in sorted(keys)]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b))


def assert_left_out(method, shared):
    """Before the step and after it, and against the run without the fault."""
    before, after, whole = (arrays(f"runs/{name}/ckpt/step-{step:09d}.h5") for name, step in
                            (("skip", 9), ("skip", 10), ("whole", 10)))
    for rank in range(RANKS):
        out = rank in shared
        assert same(own(before, rank), own(after, rank)) == out, f"{method}: rank {rank}"
        assert same(own(after, rank), own(whole, rank)) == (not out), f"{method}: rank {rank}, and the run without the fault"
    for key in ("train/optimizer_steps", *(f"replica/{k}/place" for k in range(RANKS))):
        if key in whole:
            assert np.array_equal(after[key], whole[key]), f"{method}: {key}"


BAD_DATA = {"sync": 3, "local-sgd": 1, "swarm-free": 3, "ist": 2, "local": 3}


@pytest.mark.parametrize("method", BAD_DATA)
def test_numbers_data(method):
    """A NaN in the data is told with rank, sample, array and feature, in the step that reads it; no other line blames the rate."""
    features("n.h5", [(77, 3)])
    ranks = BAD_DATA[method]
    args = [*options(method)[:-2], *sets(ckpt__every="1 epoch")]
    r = train(ranks, "stop", *args, code=6)
    assert_one_error(r, "sample 77 of /X_train is not finite: feature 3 is nan", "rank ", "step ")
    assert "optim.lr" not in r.stderr, r.stderr
    assert not checkpoints("stop"), f'{checkpoints("stop")}'
    assert "sample 77" in status("stop")["reason"], f'{status("stop")}'
    r = train(ranks, "skip", *args, *sets(numbers__bad="skip"))
    assert r.stderr.count("sample 77 of /X_train") == 1, r.stderr
    assert_finite("skip")
    assert float(metrics("skip")[-1]["train_loss"]) > 0, f'{metrics("skip")}'


def test_numbers_kinds():
    """Values of every kind: infinite, too large once normalised, in an image; and where rollback cannot help, it ends."""
    import h5py
    features("n.h5", [(5, 0), (9, 1)], value=-np.inf)
    r = train(1, "inf", *NET, code=6)
    assert "of /X_train is not finite: feature" in r.stderr, r.stderr
    assert " is -inf" in r.stderr, r.stderr
    x = np.random.default_rng(1).normal(size=(48, 16)).astype("f4")
    x[5, 2] = 3e38
    with h5py.File("n.h5", "w") as f:  # without a checksum, so mean and std are compared with the data
        for split, rows in (("train", x), ("test", x[10:20])):
            f[f"{split}/x"], f[f"{split}/y"] = rows, np.arange(len(rows), dtype="i4") % 2
        f.attrs.update(kind="features", classes=2, mean=np.zeros(16), std=np.full(16, 0.01))
    r = train(1, "large", *NET, code=6)
    assert "attributes mean and std are not used: 0 and 0.01 are not those of /train/x" in r.stderr, r.stderr
    assert "sample 5 of /train/x is beyond 1e30 once normalised: feature 2 is 3e+38, where the mean is 0.002087" in r.stderr, r.stderr
    x = np.random.default_rng(1).random((48, 3, 8, 8)).astype("f4")
    x[40, 2, 5, 7] = np.nan
    with h5py.File("n.h5", "w") as f:
        f["x_train"], f["y_train"] = x, np.arange(48, dtype="i4") % 3
        f["x_test"], f["y_test"] = x[:10], np.arange(10, dtype="i4") % 3
    r = train(2, "image", *NET, code=6)
    assert_one_error(r, "sample 40 of /x_train is not finite: channel 2, row 5, column 7 is nan")
    r = train(2, "back", *NET, *sets(numbers__bad="rollback", numbers__limit=2, run__epochs=3), code=6)
    assert r.stderr.count("going back to the start, for nothing was saved yet") == 2, r.stderr
    assert_one_error(r, "sample 40 of /x_train", "went back 2 times already (numbers.limit)")
    features("n.h5")
    r = train(1, "decay", *NET, *sets(optim__weight_decay=1000), code=6)
    assert r.stderr.count("optim.weight_decay of 1000 times optim.lr of 0.05 is 50: from 1 on, an update takes away more") == 1, r.stderr
    assert "with a smaller optim.weight_decay (times optim.lr it is 50, and has to be below 1)" in r.stderr
    r = train(1, "wide", *NET, *sets(data__batch=1000000000))  # no memory for more samples than there are
    assert "1 step per epoch" in r.stdout, r.stdout


def test_numbers_test_split():
    """A NaN in the test split: told once, left out of every evaluation; the rest is scored as without it."""
    features("bad.h5", [(4, 3), (7, 0)], split="X_test")
    features("n.h5")
    import h5py
    with h5py.File("n.h5", "a") as f:  # the same test split without the two
        keep = [i for i in range(60) if i not in (4, 7)]
        x, y = f["X_test"][keep], f["y_test"][keep]
        del f["X_test"], f["y_test"]
        f["X_test"], f["y_test"] = x, y
    r = train(3, "bad", *NET, *sets(data__file="bad.h5"))
    assert "of /X_test is not finite: feature" in r.stderr, r.stderr
    train(3, "good", *NET)
    for key in ("test_loss", "test_acc"):
        a, b = (float(metrics(name)[-1][key]) for name in ("bad", "good"))
        assert abs(a - b) < 1e-4 * b, f"{key}: {a} {b}"
    assert_finite("bad")


@pytest.mark.parametrize("value, more, words", (
    (3e38, {}, "sample 7 of /X_test is beyond 1e30 once normalised: feature 0 is 3e+38"),
    (1e25, {"optim__lr": 1e9, "run__steps": 1}, "the model's outputs for sample 7 of /X_test are not finite at step 1")))
def test_numbers_test_split_far(value, more, words):
    """A test sample of finite values and infinite outputs is told once and in neither loss nor accuracy, for the best model, too."""
    import h5py
    far = sets(**{"model__norm": "none", "ckpt__best": "test_loss", "run__epochs": 3, "optim__lr": 0.01, **more})
    for name, bad in (("bad", [(7, f) for f in range(16)]), ("n", [])):
        features(f"{name}.h5", bad, split="X_test", value=value)
        with h5py.File(f"{name}.h5", "a") as f:
            f.attrs["mean"], f.attrs["std"] = np.zeros(16), np.ones(16)
            for key in ("X_test", "y_test") if not bad else ():
                values = np.delete(f[key], 7, 0)
                del f[key]
                f[key] = values
    r = train(2, "bad", *NET, *far, *sets(data__file="bad.h5"))
    train(2, "good", *NET, *far)
    assert r.stderr.count(words) == 1 and r.stderr.count("/X_test") == 1, r.stderr
    for a, b in zip(metrics("bad"), metrics("good"), strict=True):
        assert abs(float(a["test_loss"]) - float(b["test_loss"])) <= 1e-4 * float(b["test_loss"]), (a, b)
        assert a["test_acc"] == b["test_acc"], (a, b)
    best = [sorted(os.listdir(f"runs/{name}/ckpt/best")) for name in ("bad", "good")]
    assert best[0] == best[1], best
    assert_finite("bad")


def test_numbers_test_split_measured():
    """Where batch norm measures the batch, a bad test sample takes none of its batch along: told, and 58 of 60 are scored."""
    import h5py
    features("bad.h5", [(4, 3)], split="X_test")
    with h5py.File("bad.h5", "a") as f:
        f["X_test"][7] = 1e20
    r = train(1, "bad", *NET, *sets(data__file="bad.h5", eval__batch_norm="batch", eval__batch=30))
    assert "of /X_test is " in r.stderr and "outputs" not in r.stderr, r.stderr
    right = 58 * float(metrics("bad")[-1]["test_acc"])
    assert abs(right - round(right)) < 1e-3 and right > 20, right
    assert_finite("bad")


def test_numbers_test_split_none():
    """No test sample with a finite loss: the best model and the patience say that they pass over it."""
    features("n.h5")
    for options, words in (({"ckpt__best": "test_loss"}, "ckpt.best passes"), ({"eval__patience": 2}, "eval.patience passes"),
                           ({"ckpt__best": "test_loss", "eval__patience": 2}, "ckpt.best and eval.patience pass")):
        name = "-".join(options)
        r = train(2, name, *NET, *sets(model__norm="none", optim__lr=1e25, run__steps=1, **options))
        assert r.stderr.count(f"no test sample has a finite loss at step 1: {words} over this evaluation") == 1, r.stderr
        assert [row["test_loss"] + row["test_acc"] for row in metrics(name)] == [""]
        assert_finite(name)


@pytest.mark.parametrize("place,skips", [("loss", True), ("input", True), ("weight", False), ("statistics", False), ("spike", True)])
def test_numbers_places(place, skips):
    """Loss, input, weight and running statistics of one rank: the run ends with 6 and keeps only good checkpoints; skip leaves the
    update out on all ranks, or ends where numbers were bad before the step."""
    features("n.h5")
    fault = ["--allow-faults", *sets(fault__nan_step=25, fault__rank=2, fault__nan_place=place, numbers__spike=50, run__epochs=2)]
    r = train(3, "stop", *NET, *fault, code=6)
    assert r.stderr.count("error: ") == 1, r.stderr
    assert ("far above its range" if place == "spike" else "not finite") in r.stderr, r.stderr
    assert_finite("stop")
    assert "rank 2, " in r.stderr, r.stderr
    assert "the checkpoint of step 24 is untouched" in r.stderr, r.stderr
    assert step_of(newest("stop")) == 24, f'{checkpoints("stop")}'
    r = train(3, "skip", *NET, *fault, *sets(numbers__bad="skip"), code=0 if skips else 6)
    assert_finite("skip")
    if skips:
        assert step_of(newest("skip")) == 28, f'{checkpoints("skip")}'
        assert r.stderr.count("left out") == r.stderr.count("rank 2, the training loss is ") == 1, r.stderr
        train(3, "whole", *NET, *sets(run__epochs=2, numbers__bad="skip"))
        whole, skip = (arrays(f"runs/{name}/ckpt/step-000000024.h5") for name in ("whole", "skip"))
        assert same(own(whole, 0), own(skip, 0)), "skip changes a healthy step"
    else:
        assert "before it either" in r.stderr or place == "statistics", r.stderr
        assert "numbers.bad set" not in r.stderr, "an advice to set what is set"


def test_numbers_end():
    """In the last step of an epoch and of the run, and with several ends of epochs: neither evaluated nor saved."""
    features("n.h5")
    for step in (13, 27):
        r = train(2, f"end{step}", *NET, *sets(run__epochs=2, data__batch=9, ckpt__every="1 epoch"), "--allow-faults",
                  *sets(fault__nan_step=step, fault__rank=1), code=6)
        assert f"not finite at step {step}" in r.stderr, r.stderr
        assert len(checkpoints(f"end{step}")) == step // 14, f'{checkpoints(f"end{step}")}'
        assert len(metrics(f"end{step}")) == step // 14, f'{metrics(f"end{step}")}'


def test_numbers_guessing():
    """A run that has learnt nothing says so, with the rate; one that has, also little, does not."""
    features("n.h5")
    net = [*NET, *sets(model__norm="none", run__epochs=5, data__batch=9)]
    for lr, words in ((0.02, None), (1e-9, "that of guessing by the classes' shares"), (3, "training diverged; give a smaller optim.lr (it is 3)")):
        r = train(2, f"lr{lr}", *net, *sets(optim__lr=lr))
        lines = [line for line in r.stderr.splitlines() if "guessing" in line]
        assert len(lines) == bool(words) and all(words in line for line in lines), f"{lr}: {r.stderr}"


def test_numbers_too_short():
    """A run that ends above guessing because it was too short is told to go on, not that it diverged."""
    import h5py
    draw = np.random.default_rng(0)
    with h5py.File("rare.h5", "w") as f:
        f["train/x"], f["train/y"] = draw.normal(size=(400, 3)).astype("f4"), (np.arange(400) % 20 == 0).astype("i4")
    net = [*sets(model__name="mlp", model__widths=[16], data__file="rare.h5", data__global_batch=32, optim__name="adamw", optim__lr=0.001)]
    r = train(2, "short", *net, *sets(run__epochs=6))
    assert "that of guessing by the classes' shares, but it only fell: give more run.epochs, or a larger optim.lr (it is 0.001)" in r.stderr, r.stderr
    assert "diverged" not in r.stderr


def test_numbers_again():
    """A rollback of a run is resumed to the same bits: the order of samples goes by the number of rollbacks, which is saved."""
    features("n.h5")
    base = [*NET, *sets(run__epochs=2, numbers__bad="rollback", ckpt__every="5 steps"), "--allow-faults"]
    fault = sets(fault__nan_step=12, fault__rank=1)
    train(3, "whole", *base, *fault)
    train(3, "cut", *base, *fault, *sets(run__steps=20))
    r = train(3, "cut", *base)
    assert "resumed from" in r.stdout, r.stdout
    from harness import assert_differ, assert_equal
    assert_equal(newest("whole"), newest("cut"), "resumed behind a rollback")
    train(3, "healthy", *base)
    assert_differ(newest("whole"), newest("healthy"), "the order of samples did not move on")
    r = train(3, "limit", *base, *fault, *sets(numbers__limit=0), code=6)
    assert "went back 0 times already" in r.stderr, r.stderr


@pytest.mark.parametrize("method", ["sync", "local-sgd"])
def test_numbers_range(method):
    """The range of losses goes through a stop: a run that was stopped ten steps before a spike leaves out the same updates as one
    that was not, and ends with the same bits."""
    features("n.h5")
    base = [*options(method), *sets(run__epochs=2, numbers__bad="skip", numbers__spike=50), "--allow-faults",
            *sets(fault__nan_step=25, fault__rank=1, fault__nan_place="spike")]
    whole = train(3, "whole", *base)
    train(3, "cut", *base, *sets(run__steps=16))
    rest = train(3, "cut", *base)
    assert "resumed from" in rest.stdout, rest.stdout
    for r in (whole, rest):
        assert r.stderr.count("far above its range") == 1, r.stderr
    from harness import assert_equal
    assert_equal(newest("whole"), newest("cut"), "stopped before a spike")


@pytest.mark.parametrize("method", ["local-sgd", "daso", "swarm", "ab", "ist", "local", "sync"])
def test_numbers_few(method):
    """Fewer samples than ranks: a rank without test samples is in no mean; without training samples it has no weight, or the run
    is refused before step 1."""
    features("n.h5", n=40, tests=3)
    base = [*NET, *sets(method__name=method, model__widths="[16,12,10,9]", data__batch=4), "--topo", "2,3"]
    train(5, "tests", *base)
    assert_finite("tests")
    row = metrics("tests")[-1]
    hits = 3 * float(row["test_acc"])
    assert abs(hits - round(hits)) < 1e-4, row
    if "own_acc" in row:
        cells = row["own_acc"].split(" ")
        scored = [float(c) for c in cells if c != "-"]
        assert len(cells) == 5, row
        assert cells.count("-") == 2, row
        assert abs(float(row["own_acc_mean"]) - sum(scored) / 3) < 1e-5, row
        assert float(row["own_acc_min"]) == min(scored), row
    features("n.h5", n=3, tests=20)
    r = train(5, "samples", *base, *sets(model__norm="none"), code=None)
    if method in ("swarm", "ist"):
        assert r.returncode == 2, r.stderr
        assert_one_error(r, "3 training samples for 5 ranks: use 3 ranks or fewer")
    else:
        assert r.returncode == 0, r.stderr
        assert "3 training samples for 5 ranks: 2 of them have nothing to compute" in r.stderr or method == "local", r.stderr
        assert_finite("samples")
