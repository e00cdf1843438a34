"""`shoal predict`, and what `shoal ckpt export` writes: compared with an evaluation by NumPy, docs/predict.py."""
import csv
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import types

import h5py
import numpy as np
import onnx
import onnx.numpy_helper
import onnx
import onnx_numpy
import pytest
from harness import FULL, PLAIN_ENV, ROOT, assert_one_error, newest, program, run, sets, shoal, train

PROGRAM = f"{ROOT}/docs/predict.py"


def numpy_program():
    module = types.ModuleType("predict")
    with open(PROGRAM) as f:
        exec(f.read(), module.__dict__)
    return module


def safetensors(path):
    """Metadata and tensors, by the format's own words: length of the header, JSON, values."""
    with open(path, "rb") as f:
        raw = f.read()
    length = int.from_bytes(raw[:8], "little")
    head, values = json.loads(raw[8:8 + length]), raw[8 + length:]
    metadata = head.pop("__metadata__")
    assert (8 + length) % 8 == 0 and sum(t["data_offsets"][1] - t["data_offsets"][0] for t in head.values()) == len(values)
    return metadata, {k: np.frombuffer(values[slice(*t["data_offsets"])], "<f4").reshape(t["shape"]) for k, t in head.items()}


def read(name):
    with h5py.File(name) as f:
        return {k: f[k][:] for k in f}


MODELS = {"mlp": dict(model__name="mlp", model__widths="[12,9]", model__norm="layer", model__activation="gelu", model__dropout="0.2"),
          "mlp-batch": dict(model__name="mlp", model__widths="[12]", model__norm="batch"),
          "resnet20": dict(model__name="resnet20"), "vgg16": dict(model__name="vgg16", model__width="0.0625"),
          "resnet18": dict(model__name="resnet18"), "odd": dict(model__file="odd.yaml"), "curves": dict(model__file="curves.yaml"),
          "joins": dict(model__file="joins.yaml")}
ODD = """layers:
  - { name: conv1, op: conv, width: 6, kernel: [3, 2], stride: [2, 1], pad: [1, 0] }
  - { name: deep, op: conv, width: 6, kernel: 3, pad: 2, dilation: 2, groups: 6, bias: false }
  - { name: groups, op: conv, width: 4, kernel: [1, 3], pad: [0, 1], groups: 2, relu: true }
  - { name: pool1, op: avgpool, kernel: 3, stride: 1, pad: 1 }
  - { name: drop1, op: dropout, p: 0.5 }
  - { name: wide, op: linear, width: 5 }
  - { name: act, op: gelu }
  - { name: norm, op: layernorm, eps: 0.001 }
  - { name: pool2, op: maxpool, kernel: 2, pad: [0, 1] }
  - { name: relu, op: relu }
  - { name: flat, op: flatten }
  - { name: fc, op: linear, width: classes, bias: false }
  - { name: last, op: dropout, p: 0.1 }
"""
CURVES = """layers:
  - { name: conv1, op: conv, width: 6, kernel: 3, pad: 1 }
  - { name: b, op: gelu-tanh, in: conv1 }
  - { name: c, op: sigmoid, in: conv1 }
  - { name: d, op: tanh, in: conv1 }
  - { name: e, op: silu, in: conv1 }
  - { name: f, op: leakyrelu, slope: 0.2, in: conv1 }
  - { name: g, op: relu6, in: conv1 }
  - { name: h, op: hardswish, in: conv1 }
  - { name: i, op: hardsigmoid, in: conv1 }
  - { name: j, op: add, in: [b, c, d, e, f, g, h, i], relu: true }
  - { name: flat, op: flatten }
  - { name: fc, op: linear, width: classes }
"""
JOINS = """layers:
  - { name: conv1, op: conv, width: 6, kernel: 3, pad: 1, relu: true }
  - { name: conv2, op: conv, width: 3, kernel: 1, in: input }
  - { name: both, op: concat, in: [conv1, conv2, input] }
  - { name: mean, op: globalpool }
  - { name: squeeze, op: linear, width: 4, relu: true }
  - { name: excite, op: linear, width: 10 }
  - { name: gate, op: sigmoid }
  - { name: scaled, op: mul, in: [both, gate] }
  - { name: conv3, op: conv, width: 10, kernel: 1 }
  - { name: pool3, op: avgpool, kernel: 3, stride: 2, pad: 1, ceil: true, count_pad: true, in: scaled }
  - { name: pool4, op: maxpool, kernel: 2, stride: 3, ceil: true, in: scaled }
  - { name: long, op: reshape, shape: [10, -1], in: pool3 }
  - { name: more, op: reshape, shape: [10, 9], in: pool4 }
  - { name: turned, op: transpose, order: [1, 0] }
  - { name: tokens, op: linear, width: 10 }
  - { name: places, op: parameter, shape: [9, 10] }
  - { name: placed, op: add, in: [tokens, places] }
  - { name: gains, op: parameter, shape: [1, 10] }
  - { name: gained, op: mul, in: [placed, gains] }
  - { name: back, op: transpose, order: [1, 0] }
  - { name: some, op: slice, first: 2, count: 5, in: both }
  - { name: product, op: mul, in: [conv3, scaled] }
  - { name: mean2, op: avgpool, kernel: 8 }
  - { name: gate2, op: hardsigmoid }
  - { name: scaled2, op: mul, in: [product, gate2] }
  - { name: flat, op: flatten }
  - { name: flat2, op: flatten, in: long }
  - { name: flat3, op: flatten, in: back }
  - { name: flat4, op: flatten, in: some }
  - { name: more2, op: parameter, shape: [3] }
  - { name: all, op: concat, in: [flat, flat2, flat3, flat4, more2] }
  - { name: fc, op: linear, width: classes }
"""
FILES = {"odd": ODD, "curves": CURVES, "joins": JOINS}


def layers(text):
    """What a description says of each layer but where units begin, how weights are drawn, and what evaluation has not."""
    lines = [line for line in text.splitlines() if line.startswith("  - {") and "op: dropout" not in line]
    return [re.sub(r", (cut|init|block): [\w-]+", "", line) for line in lines]


def check_import(name, metadata, tensors):
    """ONNX reads back to the layers and the tensors that were written, bit for bit; a run begins with them."""
    shoal("model", "import", "model.onnx", "-o", "back.yaml")
    told, back = safetensors("back.safetensors")
    assert set(back) == set(tensors) and all(np.array_equal(back[k], tensors[k]) for k in tensors)
    assert [told[k] for k in ("classes", "kind")] == [metadata[k] for k in ("classes", "kind")]
    for key in ("mean", "std"):
        assert np.array(told[key].split(","), "f8") == pytest.approx(np.array(metadata[key].split(","), "f8"), rel=1e-6)
    with open("back.yaml") as f:
        text = f.read()
    assert shoal("models", "back.yaml", "--yaml").stdout == text
    with open("back0.yaml", "w") as f:
        f.write(text.replace("op: batchnorm", "op: batchnorm, momentum: 0"))
    weights = "model.onnx" if name in ("odd", "resnet20") else "back.safetensors"
    r = train(1, "back", *sets(data__file="data.h5", data__batch=10, run__steps=1, optim__lr=1e-44, model__file="back0.yaml", model__weights=weights))
    assert re.search(rf"weights from {weights} \(checksum [0-9a-f]{{8}}\), a new schedule", r.stdout)
    shoal("predict", "runs/back", "data.h5", "-o", "back.h5")
    if name in FILES:
        head = "".join(line for line in text.splitlines(keepends=True) if line.startswith(("input:", "classes:")))
        with open("whole.yaml", "w") as f:
            f.write(head + FILES[name])
        was = [line for line in layers(shoal("models", "whole.yaml", "--yaml").stdout) if "name: long" not in line]  # only reshaped again
        assert sorted(re.sub(r", in: \w+", "", line) for line in layers(text)) == sorted(re.sub(r", in: \w+", "", line) for line in was)


@pytest.mark.parametrize("name", [m for m in MODELS if FULL or m not in ("resnet18", "vgg16")])
def test_numpy(work, name):
    """Probabilities are those of an independent evaluation of the exported layers, for every kind of network."""
    images = "--size 32" if name == "vgg16" else "--size 16" if name.startswith("res") else "--size 8"
    if name in FILES:
        with open(f"{name}.yaml", "w") as f:
            f.write(FILES[name])
    shoal(*f"data synth glyphs -o data.h5 --train 40 --test 21 {images}".split())
    train(1, "r", *sets(data__file="data.h5", data__batch=10, run__epochs=1, optim__lr=0.02, **MODELS[name]), "-q")
    shoal("predict", "runs/r", "data.h5", "-o", "p.h5", "--batch", "8")
    for ending in ("h5", "onnx", "safetensors"):
        shoal("ckpt", "export", "runs/r", "-o", f"model.{ending}")
    with h5py.File("model.h5") as model, h5py.File("data.h5") as data:
        x = data["test/x"][:]
        expected = numpy_program().predict(model, x.astype("f8"))
        labels = data["test/y"][:]
        tensors = {k: model[k][()] for k in model}
    got = read("p.h5")
    assert got["probability"] == pytest.approx(expected, abs=2e-5)
    onnx = onnx_numpy.run(onnx_numpy.load("model.onnx"), x)
    assert list(onnx) == ["probabilities", "logits"]
    assert onnx["probabilities"] == pytest.approx(expected, abs=2e-5)
    metadata, others = safetensors("model.safetensors")
    assert metadata["classes"] == "10" and float(metadata["std"].split(",")[0]) > 0
    assert set(others) == set(tensors) and all(np.array_equal(others[k], tensors[k]) for k in tensors)
    check_import(name, metadata, others)
    assert read("back.h5")["probability"] == pytest.approx(expected, abs=2e-5)
    assert np.array_equal(got["label"], labels) and np.array_equal(got["predicted"], got["probability"].argmax(1))
    table = np.zeros((10, 10), int)
    np.add.at(table, (labels, got["predicted"]), 1)
    assert np.array_equal(got["confusion"], table)


def check_text(x, logits):
    tokens, (n, context, classes) = np.append(x.reshape(-1), 0), logits.shape
    with h5py.File("data.h5", "w") as f:
        f["train/tokens"], f["test/tokens"], f.attrs["classes"] = tokens.astype("u1"), tokens.astype("u1"), classes
    train(1, "r", *sets(data__file="data.h5", data__context=context, data__batch=n, run__epochs=1, optim__lr=1e-44, model__file="net.yaml",
                        model__weights="net.safetensors"))
    wide = logits.reshape(-1, classes).astype("f8")
    loss = (np.log(np.exp(wide).sum(1)) - wide[range(len(wide)), tokens[1:]]).mean()
    with open("runs/r/metrics.csv") as f:
        assert float(list(csv.DictReader(f))[-1]["test_loss"]) == pytest.approx(loss, abs=1e-5)
    shoal("ckpt", "export", "runs/r", "-o", "model.onnx")
    assert onnx_numpy.run(onnx_numpy.load("model.onnx"), x)["logits"] == pytest.approx(logits, abs=1e-5)
    shoal("model", "import", "model.onnx", "-o", "back.yaml")
    back, given = safetensors("back.safetensors")[1], safetensors("net.safetensors")[1]
    assert set(back) == set(given) and all(np.array_equal(back[k], given[k]) for k in given)
    texts = []
    for name in ("net.yaml", "back.yaml"):
        with open(name) as f:
            texts.append(sorted(layers(f.read())))
    assert texts[0] == texts[1] and "causal: true" in str(texts) and str(texts[0]).count("tied: true") == 1


@pytest.mark.parametrize("path", sorted(glob.glob(f"{ROOT}/tests/golden/onnx/*.onnx")), ids=os.path.basename)
def test_torch(work, path):
    """Networks that PyTorch's exporters wrote (tests/torch_onnx.py) give the probabilities that PyTorch computed; of text also the
    loss, and what is exported of it, which reads back to the same."""
    given = np.load(path.removesuffix(".onnx") + ".npz")
    shoal("model", "import", path, "-o", "net.yaml")
    if given["x"].dtype.kind == "i":
        check_text(given["x"], given["logits"])
        return
    with open("net.yaml") as f:
        text = f.read().replace("op: batchnorm", "op: batchnorm, momentum: 0")
    with open("net.yaml", "w") as f:
        f.write(text)
    with h5py.File("data.h5", "w") as f:
        for part, x in (("train", given["x"]), ("test", given["x"])):
            f[f"{part}/x"], f[f"{part}/y"] = x, np.arange(len(x), dtype="i4")
        f.attrs["mean"], f.attrs["std"] = np.zeros(3, "f4"), np.ones(3, "f4")  # as the networks take them
        f.attrs["classes"] = 5
    train(1, "r", *sets(data__file="data.h5", data__batch=4, run__steps=1, optim__lr=1e-44, model__file="net.yaml", model__weights="net.safetensors"))
    shoal("predict", "runs/r", "data.h5", "-o", "p.h5")
    e = np.exp(given["logits"] - given["logits"].max(1, keepdims=True))
    assert read("p.h5")["probability"] == pytest.approx(e / e.sum(1, keepdims=True), abs=1e-5)
    if os.path.exists(f"{path}.data"):
        check_links(path)


TIED = {"once": True, "again": True, "gemm": True, "one number differs": False, "all alike": False, "two tables": False}


@pytest.mark.parametrize("how", TIED)
def test_tied(tmp_path, monkeypatch, how):
    """An output with the numbers of the embedding's table is tied to it, however the table is written; others have weights of their own."""
    monkeypatch.chdir(tmp_path)
    table = np.ones((7, 4), "f4") if how == "all alike" else np.arange(28, dtype="f4").reshape(7, 4)
    again, node = table.T.copy(), onnx.helper.make_node
    again[-1, -1] += how == "one number differs"
    tensors = {"token.weight": table, "other.weight": table[::-1], "again": again, "rows": np.array([5, 4]), "tokens": np.array([1, 5, 7])}
    embed = [node("Gather", ["token.weight", "x"], ["e"])]
    if how == "two tables":
        embed = [node("Gather", ["token.weight", "x"], ["a"]), node("Gather", ["other.weight", "x"], ["b"]), node("Add", ["a", "b"], ["e"])]
    last = [node("MatMul", ["e", "again"], ["y"], "/head/MatMul")]
    if how == "once":
        last = [node("Transpose", ["token.weight"], ["t"], perm=[1, 0]), node("MatMul", ["e", "t"], ["y"], "/head/MatMul")]
    elif how == "gemm":
        last = [node("Reshape", ["e", "rows"], ["r"]), node("Gemm", ["r", "token.weight"], ["g"], "/head/Gemm", transB=1), node("Reshape", ["g", "tokens"], ["y"])]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(embed + last, "net", [value("x", onnx.TensorProto.INT64, [1, 5])], [value("y", onnx.TensorProto.FLOAT, [1, 5, 7])],
                                   [onnx.numpy_helper.from_array(np.ascontiguousarray(t), name) for name, t in tensors.items()])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
    shoal("model", "import", "net.onnx", "-o", "net.yaml")
    head = [line for line in layers(open("net.yaml").read()) if "name: head" in line]
    assert len(head) == 1 and ("tied: true" in head[0]) == TIED[how], head
    assert ("head.weight" in safetensors("net.safetensors")[1]) != TIED[how]


def check_links(path):
    """Weights beside a network are read through links that stay in its folder, and through none that leads out of it."""
    name = os.path.basename(path) + ".data"
    for folder in ("stays/deep", "leaves", "between"):
        os.makedirs(folder)
    shutil.copy(path, "stays/net.onnx")
    shutil.copy(f"{path}.data", "stays/deep/weights")
    os.symlink("deep/weights", f"stays/{name}")
    shoal("model", "import", "stays/net.onnx", "-o", "stays.yaml")
    shutil.copy(path, "leaves/net.onnx")
    os.symlink("../stays/deep/weights", f"leaves/{name}")
    with open(path, "rb") as f:  # the same length, so that no size in the file changes
        text = f.read().replace(name.encode(), b"sub/".ljust(len(name), b"w"))
    with open("between/net.onnx", "wb") as f:
        f.write(text)
    os.symlink("../stays/deep", "between/sub")
    shutil.copy(f"{path}.data", "stays/deep/" + "w" * (len(name) - 4))
    for folder in ("leaves", "between"):
        r = shoal("model", "import", f"{folder}/net.onnx", "-o", "out.yaml", code=7)
        assert_one_error(r, f"{folder}/net.onnx has its weights in", "which is behind a link that leads out of its folder", "cp -rL")
        assert not os.path.exists("out.yaml") and not os.path.exists("out.safetensors")
        subprocess.run(["cp", "-rL", folder, f"{folder}.own"], check=True)
        shoal("model", "import", f"{folder}.own/net.onnx", "-o", f"{folder}.yaml")


@pytest.fixture
def named(work):
    """A run on features of classes with names; a CSV file of other samples with fewer classes in another order."""
    rng = np.random.default_rng(3)
    centres = {"oak": (5, 0), "ash": (-4, 60), 'a "fir", tall': (0, -70)}
    rows = [(kind, *(rng.normal(c, (1, 20)))) for kind, c in centres.items() for _ in range(40)]
    with open("trees.csv", "w", newline="") as f:
        csv.writer(f).writerows([("kind", "a", "b"), *(rows[i] for i in rng.permutation(len(rows)))])
    new = [("oak", 6, 10), ("yew", 0, 0), ('a "fir", tall', 0, -75), ("oak", -5, 70), ("yew", 1, 1)]
    with open("new.csv", "w", newline="") as f:
        csv.writer(f).writerows([("kind", "a", "b"), *new])
    shoal(*"data import csv trees.csv -o trees.h5 --label kind".split())
    shoal(*"data import csv new.csv -o new.h5 --label kind --test-share 0".split())
    train(1, "r", *sets(data__file="trees.h5", model__name="mlp", model__widths="[8]", data__batch=12, run__epochs=20, optim__lr=0.1,
                        eval__every="1 epoch"), "-q")
    return new


def test_names(named):
    """Classes are matched by name, inputs are scaled as in training, unknown labels count for nothing; CSV and JSON agree."""
    r = shoal("predict", "runs/r", "new.h5", "-o", "p.csv")
    assert r.stdout.endswith("\np.csv: 5 rows, a sample each, of 6 columns: sample, label, predicted, and p_CLASS, a probability for each class\n"), r.stdout
    with open("p.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert [r["label"] for r in rows] == [k if k != "yew" else "" for k, *_ in named]
    assert [rows[i]["predicted"] for i in (0, 2, 3)] == ["oak", 'a "fir", tall', "ash"]
    for r in rows:
        p = {k[2:]: float(v) for k, v in r.items() if k.startswith("p_")}
        assert set(p) == {"oak", "ash", 'a "fir", tall'} and sum(p.values()) == pytest.approx(1) and max(p, key=p.get) == r["predicted"]
    told = json.loads(shoal("predict", "runs/r", "new.h5", "--json").stdout)
    assert told["samples"] == 5 and told["labelled"] == 3 and told["accuracy"] == pytest.approx(2 / 3) and told["split"] == "train"
    assert told["loss"] == pytest.approx(-np.mean([np.log(float(r[f"p_{r['label']}"])) for r in rows if r["label"]]), rel=1e-4)
    names = told["classes"]
    shoal("ckpt", "export", "runs/r", "-o", "model.h5")
    shoal("ckpt", "export", "runs/r", "-o", "model.onnx")
    network = onnx_numpy.load("model.onnx")
    facts = onnx_numpy.facts(network)
    assert (facts["class_names"], facts["feature_names"], facts["sample"]) == ("\n".join(names), "a\nb", "2"), facts
    with h5py.File("model.h5") as model:
        expected = numpy_program().predict(model, np.array([row[1:] for row in named], "f8"))
    assert np.array([[float(r[f"p_{n}"]) for n in names] for r in rows]) == pytest.approx(expected, abs=1e-5)
    graph = onnx_numpy.run(network, np.array([row[1:] for row in named]))
    assert graph["probabilities"] == pytest.approx(expected, abs=1e-5)
    with h5py.File("trees.h5") as data:
        lines = run([sys.executable, PROGRAM, "model.h5", "trees.h5"]).stdout.splitlines()
        known = data.attrs["class_names"].decode().split("\n")
        assert [line.rsplit(" ", 1)[0] for line in lines] == [known[y] for y in data["test/y"][:]]
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does
    assert run([sys.executable, PROGRAM, "model.h5", "new.h5"], stdout=writer, code=-signal.SIGPIPE).stderr == ""
    os.close(writer)
    bare = run([sys.executable, "-S", PROGRAM, "model.h5", "new.h5"], code=1).stderr  # -S: as without packages
    assert re.match(r"predict.py needs h5py and NumPy, which /\S+ lacks \(No module named", bare) and bare.count("\n") == 1, bare
    with open("new.csv", "w") as f:
        f.write("a,b\n1,2\n")
    with h5py.File("turned.h5", "w") as f:
        f["test/x"], f["test/y"], f.attrs["feature_names"] = np.zeros((2, 2), "f4"), np.array([0, 1], "i4"), "b\na"
    with h5py.File("wide.h5", "w") as f:
        f["test/x"], f["test/y"] = np.zeros((2, 3), "f4"), np.array([0, 1], "i4")
    for model, data, words in (("model.onnx", "new.h5", "model.onnx cannot be read as HDF5"), ("model.h5", "new.csv", "new.csv cannot be read as"),
                               ("new.h5", "model.h5", "new.h5 has no layers: give what `shoal ckpt export"),
                               ("model.h5", "model.h5", "model.h5 has no test/x and no train/x: give a data set"),
                               ("model.h5", "wide.h5", "samples have the shape [3], the model was trained on [2]"),
                               ("model.h5", "turned.h5", "the features are b, a, and the model was trained on the order a, b")):
        r = run([sys.executable, PROGRAM, model, data], code=1)
        assert r.stderr.startswith("predict.py: ") and words in r.stderr and r.stderr.count("\n") == 1 and not r.stdout, r.stderr
    lines = run([sys.executable, PROGRAM, "model.h5", "new.h5"]).stdout.splitlines()  # a set without a test split
    assert [line.rsplit(" ", 1)[0] for line in lines] == [r["predicted"] for r in rows]
    assert told["confusion"][names.index("oak")][names.index("ash")] == 1 and np.sum(told["confusion"]) == 3
    page = shoal("predict", newest("r"), "new.h5").stdout
    with h5py.File("alike.h5", "w") as f:
        f["test/x"], f["test/y"], f.attrs["class_names"] = np.zeros((2, 2), "f4"), np.array([0, 1], "i4"), "oak\nASH"
    page2 = shoal("predict", "runs/r", "alike.h5").stdout  # tests alone
    assert "on 2 test samples of alike.h5" in page2, page2
    assert "1 with a label that the model does not know, such as ASH, which differs from its class ash only in capitals: not" in page2
    assert "2 with a label that the model does not know, such as yew: not counted" in page and "accuracy 66.67 % (2 of 3)" in page


def heads(page):
    """The lines of the table."""
    lines = page.splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith("label")):]


def test_heads(work):
    """Names that differ at their end stay apart, in full or by numbers with those that are cut below, in 80 columns.  A folder
    of a run stands for its newest checkpoint, to all verbs that take one."""
    many = ["a breed of cats of the northern forests and of the islands, number %d" % k for k in range(9)] + ["katze\u0301 \u732b"]
    for case, kinds in (("few", ["33554433", "33554434", "33554435"]), ("many", many), ("wide", [str(k) for k in range(16)])):
        with open("t.csv", "w", newline="") as f:
            csv.writer(f).writerows([("a", "kind"), *((k, kind) for k, kind in enumerate(kinds)
                                                      for _ in range(1200 if case == "wide" and k == 0 else 10))])
        shoal(*"data import csv t.csv -o t.h5 --label kind".split())
        train(1, case, *sets(data__file="t.h5", model__name="mlp", model__widths="[4]", data__batch=9, run__epochs=2,
                             ckpt__every="1 epoch"), "-q")
        page = shoal("predict", f"runs/{case}", "t.h5", "--split", "train").stdout
        if case == "wide":  # in two parts, which together are the table
            parts = [[line.split() for line in part.splitlines()] for part in page.split("\n\n")[1:]]
            told = json.loads(shoal("predict", f"runs/{case}", "t.h5", "--split", "train", "--json").stdout)["confusion"]
            assert len(parts) == 2 and max(map(len, page.splitlines()[1:])) <= 80 and parts[1][0][-1] == "recall", page
            assert parts[0][0][3:] + parts[1][0][3:-1] == kinds and told[0][0] > 999
            assert [[int(v) for v in a[1:] + b[1:-1]] for a, b in zip(parts[0][1:], parts[1][1:])] == told
            continue
        table = heads(page)
        if case == "few":
            assert table[0].split() == ["label", "\\", "as", *kinds, "recall"] and [t.split()[0] for t in table[1:]] == kinds
            continue
        rows, legend = table[1:11], table[12:]
        assert table[0].split()[3:-1] == [str(k) for k in range(10)] and table[11] == "in full:", table
        assert all(line.startswith(f"{k} a breed of cats o...") for k, line in enumerate(rows[:9])) and rows[9].startswith("9 katze\u0301 \u732b")
        assert legend == [f"{k} {kind}" for k, kind in enumerate(many[:9])]
        wide = [len(line) - line.count("\u0301") + line.count("\u732b") for line in table[:11]]
        assert wide[:10] == [wide[0]] * 10 and wide[0] <= 80 and rows[9].rstrip("%")[-1] in "0123456789-", table
    last = newest("few")
    assert shoal("ckpt", "show", "runs/few").stdout == shoal("ckpt", "show", last).stdout
    shoal("ckpt", "diff", "runs/few", last)
    shoal("ckpt", "diff", "runs/few", "runs/many", code=7)
    both = sorted(glob.glob("runs/few/ckpt/*.h5"), reverse=True)
    assert len(both) == 2 and shoal("ckpt", "verify", "runs/few").stdout == shoal("ckpt", "verify", *both).stdout
    assert_one_error(shoal("ckpt", "diff", "runs", last, code=7), "runs holds no checkpoint that verifies")


def test_unlabelled(named):
    """A table without a column of labels has the predictions of one with, also for a model whose classes are numbers; labels that are
    numbers in a table with some of them only are matched by what they are."""
    with open("bare.csv", "w", newline="") as f:
        csv.writer(f).writerows([("a", "b"), *(row[1:] for row in named)])
    r = shoal(*"data import csv bare.csv -o bare.h5 --label none".split())
    assert "there is no label; columns that are features: 2\n" in r.stdout and "-> ?" in r.stdout, r.stdout
    assert r.stderr == "shoal: warning: bare.h5: no labels: these samples can be predicted, and not trained on\n", r.stderr
    told = shoal("predict", "runs/r", "bare.h5", "-o", "bare-p.h5").stdout
    assert told.endswith("\nbare-p.h5: label and predicted of 5 samples, probability with 3 columns, and confusion\n"), told
    shoal("predict", "runs/r", "new.h5", "-o", "p.h5")
    assert np.array_equal(read("bare-p.h5")["probability"], read("p.h5")["probability"]) and set(read("bare-p.h5")["label"]) == {-1}
    assert "no labels to compare with" in shoal("predict", "runs/r", "bare.h5").stdout
    r = train(2, "bare", *sets(data__file="bare.h5", model__name="mlp", data__batch=2), code=7)
    assert_one_error(r, "bare.h5 has no labels: its samples can be predicted, as shoal predict RUN bare.h5 does, and not trained on")
    shoal(*"data synth blobs -o blobs.h5 --train 60 --test 0 --features 2 --classes 5".split())
    train(1, "n", *sets(data__file="blobs.h5", model__name="mlp", model__widths="[8]", data__batch=12, run__epochs=9, optim__lr=0.1), "-q")
    assert json.loads(shoal("predict", "runs/n", "bare.h5", "--json").stdout)["labelled"] == 0
    with h5py.File("blobs.h5") as f:
        rows = [(*x, y) for x, y in zip(f["train/x"][:], f["train/y"][:]) if y in (1, 4)]
    with open("some.csv", "w", newline="") as f:
        csv.writer(f).writerows([("a", "b", "label"), *rows])
    shoal(*"data import csv some.csv -o some.h5 --test-share 0".split())
    told = json.loads(shoal("predict", "runs/n", "some.h5", "--json").stdout)
    assert told["labelled"] == len(rows) and [k for k, row in enumerate(told["confusion"]) if any(row)] == [1, 4]


def test_accuracy(named):
    """Accuracy and loss on the test split are those that the run itself measured last."""
    with open("runs/r/metrics.csv") as f:
        last = list(csv.DictReader(f))[-1]
    told = json.loads(shoal("predict", "runs/r", "trees.h5", "--json", "--threads", "2").stdout)
    assert told["split"] == "test"
    assert told["accuracy"] == pytest.approx(float(last["test_acc"]), abs=1e-6) and told["loss"] == pytest.approx(float(last["test_loss"]), rel=1e-4)


def test_no_number(named):
    """A sample that is no number has no prediction, and does not harm its batch."""
    with h5py.File("new.h5", "r+") as f:
        x = f["train/x"][:]
        del f["train/x_crc32c"], f.attrs["checksum"]
        f["train/x"][1] = np.nan
    r = shoal("predict", "runs/r", "new.h5", "-o", "p.h5")
    assert re.search("1 without a prediction, for outputs are not finite: sample 1, whose .* 0 is nan\n", r.stdout), r.stdout
    assert json.loads(shoal("predict", "runs/r", "new.h5", "--json").stdout)["first_without_prediction"] == 1
    with_nan = read("p.h5")
    assert with_nan["predicted"][1] == -1 and np.isnan(with_nan["probability"][1]).all()
    with h5py.File("new.h5", "r+") as f:
        f["train/x"][1] = x[1]
    shoal("predict", "runs/r", "new.h5", "-o", "q.h5")
    rest = [0, 2, 3, 4]
    assert np.array_equal(read("q.h5")["probability"][rest], with_nan["probability"][rest])


def test_refusals(named):
    """One line that names the thing and the cure."""
    shoal(*"data synth blobs -o blobs.h5 --train 10 --test 0 --features 5".split())
    with h5py.File("old.h5", "w"):
        pass
    os.mkdir("pics")
    with open("a.txt", "w") as f:
        f.write("Late, and in the rain, the boats came home.\nNobody spoke.\n")
    with h5py.File("nothing.h5", "w") as f, h5py.File("bare.h5", "w") as g:
        f["test/x"], f["test/y"], g["test/x"] = np.zeros((0, 2), "f4"), np.zeros(0, "i4"), np.zeros((3, 2), "f4")
    with h5py.File("new.h5") as f, h5py.File("less.h5", "w") as g:
        g["train/x"], g["train/y"] = f["train/x"][:, :1], f["train/y"][:]
        g.attrs.update({"kind": "features", "feature_names": "a"})
    assert_one_error(shoal("ckpt", "export", "runs/r", "-o", "model.pt", code=2), "-o model.pt: its ending says the format", "NAME.h5 (or .hdf5")
    assert not os.path.exists("model.pt")
    for words, code, text in ((["runs/r", "blobs.h5"], 2, "samples of blobs.h5 have the shape [5], the model was trained on [2]"),
                              (["runs/r", "less.h5"], 2, "less.h5 has 1 feature, runs/r/ckpt/"),
                              (["runs/r", "less.h5"], 2, "missing: b: shoal data import csv TABLE --like runs/r/ckpt/"),
                              (["runs/r", "new.csv"], 7, "new.csv is a CSV file, not an HDF5 data set: make one of it with shoal data import csv "
                                                         "new.csv --like runs/r -o NAME.h5"),
                              (["runs/r", "pics"], 7, "make one of its files with shoal data import images pics --like runs/r -o NAME.h5"),
                              (["runs/r", "a.txt"], 7, "a.txt is text, and the network of runs/r reads none"),
                              (["runs/r", "nothing.h5"], 2, "nothing.h5 has no samples: there is nothing to predict"),
                              (["runs/r", "bare.h5"], 7, "/test/y is expected; for predictions any class does"),
                              (["runs/none", "trees.h5"], 7, "runs/none"), (["runs", "trees.h5"], 7, "runs holds no checkpoint"),
                              (["old.h5", "trees.h5"], 7, "old.h5"), (["runs/r", "new.h5", "--split", "test"], 2, "no test split"),
                              (["runs/r", "new.h5", "--split", "val"], 2, "must be test or train"),
                              (["runs/r", "new.h5", "-o", "p.txt"], 2, ".csv or .h5"),
                              (["runs/r", "new.h5", "-o", "none/p.csv"], 7, "none/p.csv"), (["runs/r", "new.h5", "--batch", "0"], 2, "--batch")):
        r = run([program(), "predict", *words], code=code, base=PLAIN_ENV)
        assert_one_error(r, text)


@pytest.mark.parametrize("change, words", (
    (lambda x: x * 100, "standard deviation 3913, what"), (lambda x: x + [200, 0], " in feature 0, what the model was trained on "), (lambda x: x, None)))
def test_other_units(named, change, words):
    """Samples in another scale, or one feature in another unit, are told by a prediction and by a run that begins with the weights."""
    with h5py.File("trees.h5") as f, h5py.File("other.h5", "w") as g:
        for split in ("train", "test"):
            g[f"{split}/x"], g[f"{split}/y"] = change(f[f"{split}/x"][:]).astype("f4"), f[f"{split}/y"][:]
    r = shoal("predict", "runs/r", "other.h5")
    s = train(2, "tuned", *sets(model__name="mlp", model__widths="[8]", data__file="other.h5", data__batch=8, run__steps=1,
                                model__weights=newest("r")))
    for text in (r.stderr, s.stderr):
        assert text.count("are both scaled alike, in the same units?") == (words is not None), text
        assert words is None or words in text, text


def test_feature_order(work):
    """A table with its columns in another order has the same shape: refused by the names of its columns, in predictions and where a
    run begins with weights, and so is one of other columns; one that was renamed is warned of.  Repacking keeps the names; files
    without names are not compared."""
    x = np.random.default_rng(1).standard_normal((40, 2))
    for name, header, columns in (("a", "a,b,y", (0, 1)), ("order", "b,a,y", (1, 0)), ("renamed", "length,b,y", (0, 1)), ("other", "length,mass,y", (0, 1)),
                                  ("plain", "", (0, 1))):
        with open(f"{name}.csv", "w") as f:
            f.write(f"{header}\n" + "".join(f"{r[columns[0]]:.4f},{r[columns[1]]:.4f},{r[0] > 0:d}\n" for r in x))
        shoal("data", "import", "csv", f"{name}.csv", "-o", f"{name}.h5")
    base = sets(model__name="mlp", model__widths="[4]", data__batch=8, run__epochs=1)
    train(2, "r", *base, *sets(data__file="a.h5"), "-q")
    shoal("data", "repack", "order.h5", "-o", "again.h5")
    words = 'in another order: number 0 is "b" here and "a" there; write its columns in the order a, b, and import it again'
    for name in ("order", "again"):
        assert_one_error(shoal("predict", "runs/r", f"{name}.h5", code=2), f"{name}.h5 has the features of runs/r/ckpt", words)
    assert_one_error(shoal("data", "inspect", "a.h5", "order.h5", code=2), words)
    r = train(2, "w", *base, *sets(data__file="order.h5", model__weights=newest("r")), "-q", code=2)
    assert r.stderr.count(words) == 1, r.stderr
    assert_one_error(shoal("predict", "runs/r", "other.h5", code=2), "other.h5 has 2 features, runs/r/ckpt/",
                     f"; missing: a, b; not known there: length, mass: shoal data import csv TABLE --like {newest('r')} -o NEW.h5 takes the same")
    warned = 'renamed.h5: feature 0 is called "length", that of runs/r/ckpt'
    assert shoal("predict", "runs/r", "renamed.h5").stderr.count(warned) == 1
    assert train(2, "v", *base, *sets(data__file="renamed.h5", model__weights=newest("r")), "-q").stderr.count(warned) == 1
    for name in ("a", "plain"):
        assert "feature" not in shoal("predict", "runs/r", f"{name}.h5").stderr


def loans(numbers, kinds, label=True):
    """A table as spreadsheets of Germany write it, of words, dates and numbers."""
    lines = [";".join(["id", "day", "kind", *["approved"] * label, "part of town", "sum"])]
    for i in numbers:
        amount = f"{1000 + i * 37.25 % 4000:,.2f}".replace(",", "G").replace(".", ",").replace("G", ".")
        lines.append(";".join([f"L{i:03}", f"{i % 28 + 1:02}.0{i % 9 + 1}.2023", kinds[i % len(kinds)], *[("no", "yes")[i // 3 % 2]] * label,
                               ("north", "south east")[i % 2], amount]))
    return "\ufeff" + "".join(line + "\r\n" for line in lines)


def pasted(name, *args, code):
    """Runs the command that the import of a table prints, which makes another one of it, called NEW or as no file is; returns its name."""
    r = shoal("data", "import", "csv", name, *args, "-o", "refused.h5", code=code)
    command = re.search(rf"as (\S*python3 -c '[^']*' {name} (?:\S+ )?(NEW\d*)\b[^;]*) does", r.stderr)
    subprocess.run(command[1], shell=True, check=True)
    return command[2]


def probabilities(data, split):
    shoal("predict", "runs/r", data, "--split", split, "-o", "p.csv")
    with open("p.csv", newline="") as f:
        return [[float(v) for k, v in row.items() if k.startswith("p_")] for row in csv.DictReader(f)]


def test_text_columns(work):
    """docs/predict.md, "Text columns": rows of a new table with some of the words are predicted as they are in the table with all."""
    kinds = ("house", "car", "boat", "none")
    with open("loans.csv", "w", newline="") as f:
        f.write(loans(range(80), kinds))
    table = pasted("loans.csv", "--label", "approved", code=7)
    shoal(*f"data import csv {table} --label approved --test-share 0.1 -o loans.h5".split())
    train(1, "r", *sets(data__file="loans.h5", model__name="mlp", model__widths="[8]", data__batch=8, run__epochs=4, optim__lr=0.1), "-q")
    shoal(*f"data import csv {table} --label approved --like runs/r -o all.h5".split())
    expected = probabilities("all.h5", "train")
    rows = (1, 5, 9, 13, 41)  # all of "car"
    for label in (True, False):
        with open("new.csv", "w", newline="") as f:
            f.write(loans(rows, kinds, label))
        table = pasted("new.csv", "--like", "runs/r", code=2)
        shoal(*f"data import csv {table} --like runs/r --missing mean -o new.h5".split())
        assert np.array(probabilities("new.h5", "train")) == pytest.approx(np.array([expected[i] for i in rows]), abs=1e-6)


def test_page_of_onnx(named):
    """The lines of docs/predict.md that read a table of a spreadsheet for ONNX: classes and probabilities of `shoal predict`, with ids."""
    with open(f"{ROOT}/docs/predict.md") as f:
        page = next(block.split("```")[0] for block in f.read().split("```python\n") if "read_csv" in block)
    with open("onnxruntime.py", "w") as f:
        f.write(onnx_numpy.RUNTIME)
    rows = [("007", "5,25", "1.234"), ("008", "-4,5", "60,125"), ("009", "", "-1.003.969,96"), ("010", "0", "3,5"), ("011", "3", "")]
    with open("new.csv", "w", newline="") as f:
        f.write("\ufeff" + "".join(";".join(row) + "\r\n" for row in [("id", "a", "b"), *rows]))
    shoal(*"data import csv new.csv --like runs/r --missing mean -o spread.h5".split())
    shoal("predict", "runs/r", "spread.h5", "-o", "p.csv")
    shoal("ckpt", "export", "runs/r", "-o", "grains.onnx")
    lines = run([sys.executable, "-c", page], env={"PYTHONPATH": f"{os.getcwd()}:{ROOT}/tests"}).stdout.splitlines()
    with open("p.csv", newline="") as f:
        for line, row, (name, *_) in zip(lines, csv.DictReader(f), rows, strict=True):
            assert line.startswith(f"{name} {row['predicted']} ")
            assert float(line.rsplit(" ", 1)[1]) == pytest.approx(float(row["p_" + row["predicted"]]), abs=1e-5)


def test_other_channels(tmp_path, monkeypatch):
    """Images of other channels than the network's are refused in words, with the import that makes them alike."""
    monkeypatch.chdir(tmp_path)
    for name, channels in (("rgb", 3), ("grey", 1)):
        with h5py.File(f"{name}.h5", "w") as f:
            f["train/x"], f["train/y"] = np.arange(8 * channels * 36, dtype="u1").reshape(8, channels, 6, 6), np.arange(8, dtype="i4") % 2
            f.attrs.update({"kind": "images", "classes": 2, "source": "images: pics"})
    with open("net.yaml", "w") as f:
        f.write("layers:\n  - { name: c, op: conv, width: 4, kernel: 3 }\n  - { name: p, op: globalpool }\n  - { name: l, op: linear, width: classes }\n")
    small = dict(model__file="net.yaml", data__batch=4, run__steps=2)
    for name, other, has, needs in (("rgb", "grey", "grey, one channel", "three, for colours"), ("grey", "rgb", "in colour, three channels", "one, for grey")):
        train(1, name, *sets(data__file=f"{name}.h5", **small))
        path = newest(name)
        assert_one_error(shoal("predict", f"runs/{name}", f"{other}.h5", code=2), f"({has}; the network has {needs})",
                         f"shoal data import images FOLDER --like {path} -o NEW.h5")
        os.mkdir("pics")
        assert f"import images pics --like {path}" in shoal("predict", f"runs/{name}", f"{other}.h5", code=2).stderr
        os.rmdir("pics")
        r = train(1, "fine", *sets(data__file=f"{other}.h5", model__weights=path, **small), code=2)
        assert_one_error(r, "and this run's images are " + has, "shoal data import images with --like makes them alike")
    with h5py.File("rgb.h5") as f, h5py.File("flat.h5", "w") as g:
        g["train/x"], g["train/y"] = f["train/x"][:].reshape(8, -1), f["train/y"][:]
    r = shoal("predict", "runs/rgb", "flat.h5", code=2)
    assert_one_error(r, "flat.h5 have the shape [108], the model was trained on [3, 6, 6]: if they are its pixels, this makes images of them: ")
    subprocess.run(r.stderr.split("images of them: ")[1], shell=True, check=True)
    for name in ("rgb", "flat"):
        shoal("predict", "runs/rgb", f"{name}.h5", "--split", "train", "-o", f"{name}.csv")
    with open("rgb.csv") as f, open("flat.csv") as g:
        assert f.read() == g.read()
