"""Numbers that are predicted: whole runs on float targets.  Oracles: the closed form of linear regression, an evaluation by NumPy
(docs/predict.py), equal bits after a stop."""
import csv
import json
import re
import sys

import h5py
import numpy as np
import onnx_numpy
import pytest
from harness import ROOT, assert_equal, assert_one_error, metrics, newest, program, random_source, run, sampled, sets, shoal, status, train
from test_network import METHODS
from test_predict import numpy_program, safetensors

N = 240
LINEAR = sets(model__file="linear.yaml", data__global_batch=64, threads=1)


def table(targets=("price",), name="homes.csv", n=N, seed=1):
    """Three features, and numbers that are nearly a linear function of them, in units far from 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal((50, 3, -1), (20, 1, 0.01), (n, 3))
    y = np.stack([200000 + 3000 * x[:, 0] - 40000 * x[:, 1] + rng.normal(0, 15000, n), 0.01 * x[:, 0] + 2 * x[:, 2] + rng.normal(0, 0.1, n)], 1)
    y[:, 0] = y[:, 0].round()
    with open(name, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["size", "rooms", "slope", *targets])
        for a, b in zip(x, y):
            w.writerow([*a, *(f"{v:.9g}" for v in b[:len(targets)])])
    with open("linear.yaml", "w") as f:
        f.write("layers:\n  - { op: linear, width: classes }\n")
    return x, y[:, :len(targets)]


def made(*targets, **options):
    table(targets, **options)
    r = shoal("data", "import", "csv", "homes.csv", "-o", "homes.h5", *(a for t in targets for a in ("--target", t)))
    with h5py.File("homes.h5") as f:
        return {s: (f[f"{s}/x"][:].astype("f8"), f[f"{s}/targets"][:]) for s in ("train", "test")}, r


def scores(y, wanted):
    e = y - wanted
    return (np.sqrt((e**2).mean(0)).mean(), abs(e).mean(), (1 - (e**2).sum(0) / ((wanted - wanted.mean(0))**2).sum(0)).mean())


def test_targets_linear(work):
    """A linear layer learns what the closed form says; the run tells its errors in the units of the prices."""
    data, r = made("price")
    x, y = data["train"]
    assert 'the target is column 4, "price"; features are the other 3' in r.stdout
    assert f"24 of {N} samples, drawn at random, are the test split" in r.stdout
    assert re.search(rf'target 4, "price": {y.min():.9g} to {y.max():.9g}, mean {y.mean():.6g}, standard deviation {y.std():.6g} in 216', r.stdout)
    r = train(1, "r", *LINEAR, *sets(data__file="homes.h5", data__global_batch=216, optim__lr=0.3, run__epochs=200, eval__every="50 epoch"))
    design = np.c_[x, np.ones(len(x))]
    best = np.linalg.lstsq(design, y, rcond=None)[0]
    tx, ty = data["test"]
    wanted = np.c_[tx, np.ones(len(tx))] @ best
    shoal("predict", "runs/r", "homes.h5", "-o", "p.h5")
    with h5py.File("p.h5") as f:
        assert f["predicted"][:] == pytest.approx(wanted, abs=1e-4 * y.std())
        assert np.array_equal(f["target"][:], ty) and f.attrs["target_names"] in (b"price", "price")
    rmse, mae, r2 = scores(wanted, ty)
    last = metrics("r")[-1]
    assert [float(last[k]) for k in ("test_rmse", "test_mae", "test_r2")] == pytest.approx([rmse, mae, r2], rel=1e-4)
    assert last["test_acc"] == "" and float(last["test_loss"]) == pytest.approx((rmse / y.std())**2, rel=1e-4)
    squares = ((design @ best - y)**2).mean() / y.var()
    assert float(last["train_loss"]) == pytest.approx(squares, rel=1e-4)
    assert f"rmse {rmse:.6g}"[:10] in r.stdout and "accuracy" not in r.stdout
    losses = f"of (price - {y.mean():.6g}) / {y.std():.6g}; times {y.var():.6g} they are mean squared errors of price\n"
    assert f"losses are {losses}" in r.stdout and f"  losses         {losses}" in r.stdout
    told = status("r")["progress"]
    assert told["test_acc"] is None and [told[k] for k in ("test_rmse", "test_r2")] == pytest.approx([rmse, r2], rel=1e-4)
    assert f"rmse {told['test_rmse']:.4g}, R2" in shoal("watch", "runs/r", "--once").stdout


def test_targets_predicted(work):
    """Two targets of different units: the CSV, the summary, the exports and docs/predict.py agree; a table without them has predictions."""
    data, _ = made("price", "rent")
    said = train(1, "r", *sets(data__file="homes.h5", model__name="mlp", model__widths="[8]", data__batch=36, run__epochs=6, optim__lr=0.05)).stdout
    of = "{:.6g} of price, {:.6g} of rent".format(*data["train"][1].std(0))
    assert said.count(f"mean squared errors over 2 targets, each as (y - mean) / deviation; deviations: {of}\n") == 2
    shoal("predict", "runs/r", "homes.h5", "-o", "p.csv")
    with open("p.csv") as f:
        rows = list(csv.DictReader(f))
    assert list(rows[0]) == ["sample", *(f"{w}_{t}" for t in ("price", "rent") for w in ("target", "predicted", "error"))]
    got, wanted, error = (np.array([[float(r[f"{w}_{t}"]) for t in ("price", "rent")] for r in rows]) for w in ("predicted", "target", "error"))
    assert np.array_equal(wanted, data["test"][1]) and error == pytest.approx(got - wanted, rel=1e-6, abs=1e-6)
    told = json.loads(shoal("predict", "runs/r", "homes.h5", "--json").stdout)
    assert (told["samples"], told["labelled"], [t["name"] for t in told["targets"]]) == (24, 24, ["price", "rent"]) and "accuracy" not in told
    for k, t in enumerate(told["targets"]):
        assert [t[s] for s in ("rmse", "mae", "r2")] == pytest.approx(scores(got[:, k:k + 1], wanted[:, k:k + 1]), rel=1e-5)
    last = metrics("r")[-1]
    deviations = data["train"][1].std(0)  # errors in the units of both have no mean
    rmse, mae, r2 = scores(got / deviations, wanted / deviations)
    assert [float(last[f"test_{s}"]) for s in ("rmse", "mae", "r2")] == pytest.approx((rmse, mae, r2), rel=1e-4)
    told = re.findall(r", means of 2 targets in deviations: rmse ([\d.]+), mae ([\d.]+), R2 ([\d.]+)", said)
    assert [float(v) for v in told[-1]] == pytest.approx((rmse, mae, r2), rel=1e-3)
    assert re.search(r"^price: rmse \d+.*\nrent: rmse 0\.\d+, mae 0\.\d+, R2 0\.\d+$", shoal("predict", "runs/r", "homes.h5").stdout, re.M)
    for ending in ("h5", "onnx", "safetensors"):
        shoal("ckpt", "export", "runs/r", "-o", f"model.{ending}")
    with h5py.File("model.h5") as model:
        assert numpy_program().predict(model, data["test"][0]) == pytest.approx(got, rel=1e-5)
        scale = [model.attrs[f"target_{s}"] for s in ("mean", "std")]
    y = data["train"][1]
    assert np.array(scale) == pytest.approx(np.array([y.mean(0), y.std(0)]), rel=1e-12)
    graph = onnx_numpy.run(onnx_numpy.load("model.onnx"), data["test"][0].astype("f4"))
    assert list(graph) == ["predictions"] and graph["predictions"] == pytest.approx(got, rel=1e-5)
    facts, tensors = safetensors("model.safetensors")
    shoal("model", "import", "model.onnx", "-o", "back.yaml")
    _, back = safetensors("back.safetensors")
    assert set(back) == set(tensors) and all(np.array_equal(back[k], tensors[k]) for k in tensors)
    assert facts["target_names"] == "price\nrent" and facts["targets"] == "2" and "classes" not in facts
    assert np.array(facts["target_std"].split(","), "f8") == pytest.approx(scale[1], rel=1e-8)
    lines = run([sys.executable, f"{ROOT}/docs/predict.py", "model.h5", "homes.h5"]).stdout.splitlines()
    assert np.array([line.split() for line in lines], "f8") == pytest.approx(got, rel=1e-5)
    table(("rent", "price"), name="new.csv", n=30, seed=2)
    for args, words in ((("--label", "none", "--drop", "rent", "--drop", "price"), "no targets to compare with"), ((), "price: rmse")):
        r = shoal("data", "import", "csv", "new.csv", "--like", "runs/r", "-o", "new.h5", *args)
        assert words in shoal("predict", "runs/r", "new.h5", "-o", "n.csv").stdout
        with open("n.csv") as f:
            assert all((r["error_price"] == "") == bool(args) and float(r["predicted_price"]) for r in csv.DictReader(f))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_targets_methods(work, method):
    """Every method trains them on 2 ranks, and (a sample) after a stop in the middle goes on with the same bits."""
    made("price", "rent")
    loss = random_source(method).choice(["mse", "mae"])
    base = [*METHODS[method], *sets(method__name=method, data__file="homes.h5", model__name="mlp", model__widths="[12,10,8]", model__loss=loss,
                                    data__global_batch=24, optim__lr=0.05, optim__momentum=0.9, run__epochs=3, threads=1)]
    train(2, "whole", *base)
    if method in sampled(METHODS, 3):
        train(2, "parts", *base, "--allow-faults", *sets(fault__stop_step=7, fault__rank=1), code=75)
        train(2, "parts", *base)
        assert_equal(newest("whole"), newest("parts"), f"{method} goes on otherwise than it began", "model/", "replica/")
    first, *_, last = metrics("whole")
    assert float(last["train_loss"]) < float(first["train_loss"]) and float(last["test_r2"]) < 1 and last["test_acc"] == "", (first, last)
    assert not any("acc" in k for k in last if k != "test_acc"), last


def test_targets_images(work):
    """A CNN on images: how bright they are, in f32 of one number per sample; the training loss falls."""
    rng = np.random.default_rng(1)
    with h5py.File("bright.h5", "w") as f:
        for split, n in (("train", 96), ("test", 32)):
            level = rng.uniform(20, 230, n)
            f[f"{split}/x"] = np.clip(level[:, None, None, None] + rng.normal(0, 20, (n, 1, 8, 8)), 0, 255).astype("u1")
            f[f"{split}/targets"] = (100 + level).astype("f4")
    r = shoal("data", "inspect", "bright.h5")
    assert "images, 1 target" in r.stdout
    with open("cnn.yaml", "w") as f:
        f.write("layers:\n  - { op: conv, width: 8, kernel: 3, pad: 1, relu: true }\n  - { op: conv, width: 8, kernel: 3, stride: 2, relu: true }\n"
                "  - { op: globalpool }\n  - { op: linear, width: classes }\n")
    train(1, "r", *sets(data__file="bright.h5", model__file="cnn.yaml", data__batch=12, run__epochs=8, optim__lr=0.02, optim__momentum=0.9))
    assert float(metrics("r")[-1]["test_r2"]) > 0.9, metrics("r")
    said = train(1, "mae", *sets(data__file="bright.h5", model__file="cnn.yaml", model__loss="mae", data__batch=48, run__epochs=1)).stdout
    with h5py.File("bright.h5") as f:
        y = f["train/targets"][:].astype("f8")
    assert said.count(f"of (target - {y.mean():.6g}) / {y.std():.6g}; times {y.std():.6g} they are mean absolute errors of target\n") == 2
    shoal("predict", "runs/r", "bright.h5", "-o", "p.csv")
    with open("p.csv") as f:
        assert list(next(csv.DictReader(f))) == ["sample", "target", "predicted", "error"]


def test_targets_refused(work):
    """What makes no sense of numbers is refused before step 1, with what to do."""
    made("price")
    run([program(), "data", "import", "csv", "homes.csv", "--label", "none", "--drop", "price", "-o", "none.h5"])
    shoal(*"data synth blobs -o blobs.h5 --train 60 --test 20 --features 3".split())
    small = dict(model__name="mlp", model__widths="[4]")
    for options, words in ((dict(ckpt__best="test_acc", **small), "which have no accuracy: give test_loss"),
                           (dict(model__smoothing=0.1, **small), "model.smoothing is for classes"),
                           (dict(model__name="gpt"), "model gpt reads tokens, and homes.h5 holds features"),
                           (dict(data__file="blobs.h5", model__loss="mse", **small), "model.loss is mse, which is for targets, and blobs.h5 has classes")):
        r = train(1, "r", *sets(**{"data__file": "homes.h5", "run__steps": 2, **options}), code=2)
        assert_one_error(r, words)
    with h5py.File("homes.h5", "a") as f:
        f["train/targets"][5] = np.nan
    r = train(1, "r", *sets(data__file="homes.h5", model__name="mlp", run__steps=2), code=7)
    assert_one_error(r, "homes.h5: sample 5 of /train/targets has nan as price: remove the sample")
    with h5py.File("homes.h5", "a") as f:
        f["train/targets"][:] = 7
        del f.attrs["checksum"], f["train/targets"].attrs["crc32c"]
    words = "homes.h5: price is 7 in all 216 training samples: there is nothing to learn"
    assert_one_error(train(1, "r", *sets(data__file="homes.h5", model__name="mlp", run__steps=2), code=7), words)
    assert f"shoal: warning: {words}" in shoal("data", "inspect", "homes.h5").stderr
    train(1, "classes", *sets(data__file="blobs.h5", model__name="mlp", model__widths="[4]", run__steps=2), "-q")
    made("price")
    train(1, "numbers", *sets(data__file="homes.h5", model__name="mlp", model__widths="[4]", run__steps=2), "-q")
    assert_one_error(shoal("predict", "runs/classes", "homes.h5", code=2), "homes.h5 has targets, which are numbers, and")
    assert_one_error(shoal("predict", "runs/numbers", "blobs.h5", code=2), "blobs.h5 has classes, and", "predicts numbers")
