"""Classes of unequal size: weights of classes in the loss, and what is told of such data.  Oracles: PyTorch's loss and its gradient,
sync on one rank for every method, equal bits where weights are 1 or are written otherwise, and after a stop."""
import json

import h5py
import numpy as np
import pytest
from harness import assert_differ, assert_equal, assert_one_error, metrics, newest, sampled, sets, shoal, train
from test_network import METHODS

N = 307
MLP = sets(data__file="rare.h5", model__name="mlp", model__widths="[24,16]", optim__lr=0.05, threads=1)
SOFTMAX = sets(data__file="rare.h5", model__file="linear.yaml", optim__momentum=0, threads=1)
WEIGHTS = "[1,4,20]"


def rare(counts=(270, 30, 7), names=None, name="rare.h5", apart=0.6):
    """Three classes whose features overlap, in an order that mixes them; the test split has 20 of each."""
    rng = np.random.default_rng(3)
    with open("linear.yaml", "w") as f:
        f.write("layers:\n  - { op: linear, width: classes }\n")
    with h5py.File(name, "w") as f:
        for split, sizes in (("train", counts), ("test", [20] * len(counts))):
            y = rng.permutation(np.repeat(np.arange(len(counts)), sizes)).astype("i4")
            f[f"{split}/x"] = (rng.normal(0, 1, (len(y), 12)) + apart * np.eye(12)[y]).astype("f4")
            f[f"{split}/y"] = y
        f.attrs["classes"] = len(counts)
        if names:
            f.attrs["class_names"] = "\n".join(names)


@pytest.mark.parametrize("smoothing", (0, 0.1))
def test_classes_torch(work, smoothing):
    """A step on the whole split is one along the gradient of PyTorch's loss, its weighted mean over the samples."""
    torch = pytest.importorskip("torch")
    rare()
    lr = 2
    options = [*SOFTMAX, *sets(data__global_batch=N, optim__lr=lr, model__smoothing=smoothing, model__class_weights=WEIGHTS)]
    for epochs in (1, 2):
        train(1, f"r{epochs}", *options, *sets(run__epochs=epochs))
    with h5py.File(newest("r1")) as a, h5py.File(newest("r2")) as b, h5py.File("rare.h5") as d:
        x, y = d["train/x"][()].astype("f8"), torch.tensor(d["train/y"][()].astype("i8"))
        x = torch.tensor((x - x.mean(0)) / x.std(0))
        names = sorted(a["model"])
        first = {k.rsplit(".")[-1]: torch.tensor(a[f"model/{k}"][()].astype("f8"), requires_grad=True) for k in names}
        moved = {k.rsplit(".")[-1]: (a[f"model/{k}"][()].astype("f8") - b[f"model/{k}"][()]) / lr for k in names}
    w = torch.tensor(json.loads(WEIGHTS), dtype=torch.float64)
    each = torch.nn.functional.cross_entropy(x @ first["weight"].T + first["bias"], y, reduction="none", label_smoothing=smoothing)
    loss = (w[y] * each).sum() / w[y].sum()
    if not smoothing:
        assert torch.nn.functional.cross_entropy(x @ first["weight"].T + first["bias"], y, weight=w).item() == pytest.approx(loss.item(), rel=1e-12)
    loss.backward()
    assert float(metrics("r2")[-1]["train_loss"]) == pytest.approx(loss.item(), rel=1e-5)
    for k, g in moved.items():
        wanted = first[k].grad.numpy()
        assert abs(g - wanted).max() < 1e-5 * abs(wanted).max(), k


NEUTRAL = {
    "sync": (3, []),
    "local-sgd": (3, sets(method__period=1)),
    "daso": (3, [*sets(method__warmup_epochs=2, method__wire="f32"), "--topo", "2,1"]),
    "swarm": (2, sets(method__variant="blocking", method__local_steps=1, method__bits=0, method__deterministic="true")),
    "ab": (3, sets(method__warmup=1000)),
    "ist": (1, sets(method__round=7, method__moments="carry")),
    "local": (3, sets(method__chunks=1)),
}


def test_classes_methods(work):
    """Each method where it is sync by its options: the weighted loss does not depend on how many ranks share a batch, nor on the short
    one at the end of an epoch, which swarm does not share."""
    rare()
    rare((270, 30, 8), name="even.h5")
    base = [*MLP, *sets(run__epochs=2, data__global_batch=22, model__class_weights=WEIGHTS)]
    for data in ("rare", "even"):
        train(1, data, *base, *sets(data__file=f"{data}.h5"))
    for method, (ranks, options) in NEUTRAL.items():
        data = "even" if method == "swarm" else "rare"
        train(ranks, method, *base, *sets(data__file=f"{data}.h5", method__name=method), *options)
        assert_equal(newest(data), newest(method), f"{method} weighs otherwise on {ranks} ranks", "model/", tolerance=1e-4)
    train(1, "plain", *base, *sets(model__class_weights="none"))
    assert_differ(newest("rare"), newest("plain"), "weights have no effect", "--only", "model/", "--tolerance", "1e-2")


@pytest.mark.parametrize("method", sampled(METHODS, 2))
def test_classes_resume(work, method):
    """With its own options, after a stop in the middle: the same bits."""
    rare()
    base = [*MLP, *METHODS[method], *sets(method__name=method, data__global_batch=24, run__epochs=3, model__class_weights="balanced",
                                          model__widths="[24,16,12]")]
    train(2, "whole", *base)
    train(2, "parts", *base, "--allow-faults", *sets(fault__stop_step=7, fault__rank=1), code=75)
    train(2, "parts", *base)
    assert_equal(newest("whole"), newest("parts"), f"{method} goes on otherwise than it began", "model/", "replica/")


def test_classes_bits(work):
    """One number for all is no weight; balanced is what its formula says; a factor on all changes nothing but rounding."""
    rare((100, 100, 100), name="even.h5")
    even = [*MLP, *sets(data__file="even.h5", run__epochs=1)]
    train(1, "plain", *even)
    for i, words in enumerate(("balanced", "[7,7,7]", "none")):
        train(1, f"same{i}", *even, *sets(model__class_weights=words))
        assert_equal(newest("plain"), newest(f"same{i}"), words, "model/", "replica/")
    rare(names=("common", "rare", "rarest"))
    base = [*MLP, *sets(run__epochs=3)]
    r = train(1, "balanced", *base, *sets(model__class_weights="balanced"))
    told = 'class weights in the training loss: 0.379 (class 0 "common", 270 samples) to 14.62 (class 2 "rarest", 7 samples); test losses have none'
    assert told in r.stdout, r.stdout
    train(1, "formula", *base, *sets(model__class_weights=f"[{','.join(repr(N / (3 * n)) for n in (270, 30, 7))}]"))
    assert_equal(newest("balanced"), newest("formula"), "balanced is n / (classes * count)", "model/")
    train(1, "large", *base, *sets(model__class_weights=f"[{','.join(repr(1000 / n) for n in (270, 30, 7))}]"))
    assert_equal(newest("balanced"), newest("large"), "a factor on all", "model/", tolerance=1e-6)
    train(1, "balanced", *base, *sets(model__class_weights="none", run__epochs=4))
    with open("runs/balanced/log.txt") as f:
        assert "changed since the checkpoint: model.class_weights: [none] (was [balanced])" in f.read()


def test_classes_told(work):
    """Weights do what they are for, and the warning of such data names them; an evaluation does without."""
    rare((970, 30), names=("no", "yes"), apart=1.2)
    told = 'class 0 "no" has 97 % of the training samples: a model that knows nothing else is right as often; model.class_weights: balanced trains all classes alike'
    assert told in shoal("data", "inspect", "rare.h5").stderr
    runs = {}
    for words in ("none", "balanced"):
        r = train(1, words, *SOFTMAX, *sets(run__epochs=20, optim__lr=0.2, model__class_weights=words))
        assert told in r.stderr
        p = json.loads(shoal("predict", f"runs/{words}", "rare.h5", "--json").stdout)
        share = [row[k] / sum(row) for k, row in enumerate(p["confusion"])]
        assert p["balanced_accuracy"] == pytest.approx(sum(share) / 2)
        assert f"balanced accuracy {100 * sum(share) / 2:.2f} %" in shoal("predict", f"runs/{words}", "rare.h5").stdout
        assert float(metrics(words)[-1]["test_loss"]) == pytest.approx(p["loss"], rel=1e-4)
        runs[words] = share
    assert runs["none"][1] < 0.3 and runs["balanced"][1] > 0.5, runs


def test_classes_refused(work):
    rare()
    for words, complaint in (("[1,2]", "model.class_weights has 2 numbers, but rare.h5 has 3 classes: give one number for each"),
                             ("[1,-2,3]", 'model.class_weights has "-2": must be none, balanced, or a list of numbers'),
                             ("balance", 'model.class_weights has "balance": must be none, balanced'),
                             ("[none,1]", 'model.class_weights has "none": must be none, balanced'),
                             ("[0,0,0]", "model.class_weights is 0 for every class that has training samples")):
        assert_one_error(train(1, "r", *MLP, *sets(model__class_weights=words), code=2), complaint)
    with open("t.txt", "w") as f:
        f.write("abcd" * 500)
    shoal("data", "import", "text", "t.txt", "-o", "t.h5")
    with open("tokens.yaml", "w") as f:
        f.write("layers:\n  - { op: embedding, rows: classes, width: 8 }\n  - { op: linear, width: classes }\n")
    text = sets(data__file="t.h5", model__file="tokens.yaml", model__class_weights="balanced", data__context=16)
    assert_one_error(train(1, "r", *text, code=2), "model.class_weights is for samples that have a class, and t.h5 holds text: leave it out")
    with h5py.File("rare.h5", "a") as f:
        for s in ("train", "test"):
            f[f"{s}/targets"] = f[f"{s}/y"][()].astype("f4") * 1.5
            del f[f"{s}/y"]
        del f.attrs["classes"]
    assert_one_error(train(1, "r", *MLP, *sets(model__class_weights="balanced"), code=2), "model.class_weights is for classes, and rare.h5 has targets: leave it out")
