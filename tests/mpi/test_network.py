"""Networks of one's own, model.file: trained, resumed, predicted with and exported like those that are built in.

Oracle: `shoal models NAME --yaml` describes a built-in network, and a run of that file has the same weights, bit for bit, as a
run of the name, under every method.
"""
import csv
import json
import os
import re
import subprocess
import sys

import h5py
import numpy as np
import onnx
import onnx_numpy
import pytest
from harness import FULL, ROOT, arrays, assert_equal, assert_one_error, metrics, newest, program, random_source, run, said, sampled, sets, shoal, train

METHODS = {
    "sync": [],
    "local-sgd": sets(method__period=3),
    "daso": sets(method__warmup_epochs=0, method__cooldown_epochs=0),
    "swarm": sets(method__bits=0, method__deterministic="true"),
    "ab": sets(method__warmup=4),
    "ist": sets(method__round=4),
    "local": sets(method__chunks=2),
}
RUN = [*sets(data__file="glyphs.h5", data__batch=5, optim__lr=0.05, optim__momentum=0.9, run__epochs=2)]
OPEN = ("input:", "classes:")  # lines of a description that tie it to one kind of data


def describe(name):
    return "".join(line for line in shoal("models", name, "--yaml").stdout.splitlines(keepends=True) if not line.startswith(OPEN))


@pytest.mark.parametrize("method", sampled([m for m in METHODS if m != "ab"], 2))  # ab trains otherwise before an end that comes early
def test_network_methods(glyphs, method):
    """A residual network in two parts, the file under another name then."""
    glyphs(80, 40)
    with open("net.yaml", "w") as f:
        f.write(describe("resnet20").replace("width: 64", "width: 8").replace("width: 32", "width: 6").replace("width: 16", "width: 4"))
    base = [*RUN, *sets(method__name=method, model__file="net.yaml"), *METHODS[method]]
    train(2, "whole", *base)
    train(2, "parts", *base, *sets(run__steps=7))
    os.rename("net.yaml", "moved.yaml")
    train(2, "parts", *base, *sets(model__file="moved.yaml"))
    assert_equal(newest("whole"), newest("parts"), f"{method} goes on otherwise than it began", "model/", "replica/")


def test_network_groups(glyphs):
    """ab makes products of convolutions in groups, which cannot become two layers, however much cheaper those would be."""
    glyphs(80, 40)
    with open("net.yaml", "w") as f:
        f.write("layers:\n  - { name: stem, op: conv, width: 16, kernel: 3, pad: 1 }\n  - { name: deep, op: conv, width: 16, kernel: 3, groups: 16, relu: true }\n"
                "  - { name: wide, op: conv, width: 32, kernel: 3, groups: 2, relu: true }\n  - { op: globalpool }\n  - { name: fc, op: linear, width: classes }\n")
    r = train(2, "r", *RUN, *sets(method__name="ab", model__file="net.yaml", method__warmup=2, method__cycle=3, method__cutoff=0.5))
    assert "ab: 2 layers become products" in r.stdout, said(r)
    assert all(float(m["train_loss"]) < 3 for m in metrics("r")), metrics("r")


@pytest.mark.parametrize("method", sampled(METHODS, 2))
def test_network_name(glyphs, method):
    """The MLP by its name and as a file; predictions and export without the file."""
    glyphs(80, 40)
    with open("net.yaml", "w") as f:
        f.write(describe("mlp").replace("4096", "24"))
    base = [*RUN, *sets(method__name=method), *METHODS[method]]
    train(2, "name", *base, *sets(model__name="mlp", model__widths="[24, 24]"))
    train(2, "file", *base, *sets(model__file="net.yaml"))
    assert_equal(newest("name"), newest("file"), f"{method} trains another network", "model/", "replica/")
    os.remove("net.yaml")
    acc = json.loads(shoal("predict", "runs/file", "glyphs.h5", "--json").stdout)["accuracy"]
    assert acc == pytest.approx(float(metrics("file")[-1]["test_acc"]), abs=1e-6)
    shoal("ckpt", "export", "runs/file", "-o", "file.h5")
    shoal("ckpt", "export", "runs/name", "-o", "name.h5")
    with h5py.File("file.h5") as a, h5py.File("name.h5") as b:
        assert a.attrs["layers"] == b.attrs["layers"]
    assert bytes(arrays(newest("file"))["train/network"]).startswith(b"name: mlp\nlayers:\n")
    with open("net.yaml", "w") as f:
        f.write(describe("mlp").replace("4096", "24").replace("width: 24, relu: true, cut", "width: 24, cut"))
    r = train(2, "file", *base, *sets(model__file="net.yaml", run__epochs=3))
    told = "1 layer of the network has changed since the checkpoint: was { name: fc2, op: linear, width: 24, relu: true, cut: true }; is {"
    assert r.stderr.count(told) == 1, said(r)


TOKENS = """layers:
  - { name: table, op: embedding, rows: classes, width: 12 }
  - { name: places, op: parameter, shape: [8, 12] }
  - { name: placed, op: add, in: [table, places] }
  - { name: norm, op: layernorm, cut: true }
  - { name: q, op: linear, width: 12 }
  - { name: k, op: linear, width: 12, in: norm }
  - { name: v, op: linear, width: 12, in: norm }
  - { name: heads, op: attention, heads: 3, causal: true, in: [q, k, v] }
  - { name: fc1, op: linear, width: 24, relu: true }
  - { name: fc2, op: linear, width: 12 }
  - { name: sum, op: add, in: [placed, fc2] }
  - { name: fc, op: linear, width: classes, cut: true }
"""


def page_of_text(name, loss, tokens):
    """docs/predict.py, and the lines of docs/predict.md for ONNX: the loss of a text, and what the network goes on with."""
    said_of_all = rf"loss ([\d.]+) per token, perplexity ([\d.]+), of {tokens} tokens\n"
    told = re.fullmatch(said_of_all, run([sys.executable, f"{ROOT}/docs/predict.py", f"{name}.h5", "text.h5"]).stdout)
    assert [float(x) for x in told.groups()] == pytest.approx([loss, np.exp(loss)], rel=1e-5), told
    with h5py.File("short.h5", "w") as f, h5py.File("large.h5", "w") as g, h5py.File("table.h5", "w") as h:
        f["test/tokens"], g["test/tokens"], h["test/x"] = np.zeros(8, "u1"), np.full(20, 300, "u2"), np.zeros((1, 8), "f4")
    for data, words in (("short", "the text has 8 tokens, and the model needs 8 and the one"), ("large", "token 300 is none of the model's, which are 0 to 255"),
                        ("table", "table.h5 has no test/tokens and no train/tokens: give a data set, as `shoal data import text` makes it")):
        r = run([sys.executable, f"{ROOT}/docs/predict.py", f"{name}.h5", f"{data}.h5"], code=1)
        assert r.stderr.startswith("predict.py: ") and words in r.stderr and r.stderr.count("\n") == 1, r.stderr
    with open(f"{ROOT}/docs/predict.md") as f:
        page = next(block.split("```")[0] for block in f.read().split("```python\n") if "gpt.onnx" in block)
    shoal("ckpt", "export", f"runs/{name}", "-o", "gpt.onnx")
    os.symlink("text.h5", "book.h5")
    with open("onnxruntime.py", "w") as f:
        f.write(onnx_numpy.RUNTIME)
    first, drawn = run([sys.executable, "-c", page], env={"PYTHONPATH": f"{os.getcwd()}:{ROOT}/tests"}).stdout.split("\n", 1)
    assert float(first.split()[1]) == pytest.approx(loss, rel=1e-5), first
    expected = subprocess.check_output([program(), "predict", f"runs/{name}", "--prompt", "ROMEO:", "--temperature", "0", "--generate", "100"])
    assert drawn == expected.decode(errors="replace"), drawn


def test_network_text(tmp_path, monkeypatch):
    """A GPT on text, a label for each token: one rank and two train the same network, which goes on as it began; its loss is that of
    an independent evaluation, over the windows of the test split."""
    monkeypatch.chdir(tmp_path)
    shoal(*"data synth text -o text.h5 --train 900 --test 200".split())
    with open("net.yaml", "w") as f:
        f.write(TOKENS)
    data = sets(data__file="text.h5", data__context=8, data__global_batch=10, run__epochs=1)
    base = [*data, *sets(model__name="gpt", model__width=12, model__heads=3, model__depth=2, optim__lr=0.5)]
    train(2, "whole", *base)
    train(2, "parts", *base, *sets(run__steps=7))
    train(2, "parts", *base)
    assert_equal(newest("whole"), newest("parts"), "text goes on otherwise than it began", "model/", "replica/")
    train(1, "one", *base, *sets(run__steps=7))
    said_of_one = train(1, "one", *base).stdout
    one, two = arrays(newest("one")), arrays(newest("whole"))
    for k in one:
        if k.startswith("model/"):
            assert two[k] == pytest.approx(one[k], abs=1e-4), k
    shoal("ckpt", "export", "runs/one", "-o", "one.h5")
    predict = {"__name__": "predict"}
    with open(f"{ROOT}/docs/predict.py") as f:
        exec(f.read(), predict)
    with h5py.File("one.h5") as model, h5py.File("text.h5") as text:
        t = text["test/tokens"][:].astype(int)
        n = (len(t) - 1) // 8
        p = predict["predict"](model, t[:8 * n].reshape(n, 8)).reshape(8 * n, -1)
    last, after = metrics("one")[-1], t[1:8 * n + 1]
    loss = -np.log(p[range(8 * n), after]).mean()
    assert float(last["test_loss"]) == pytest.approx(loss, abs=1e-5) and loss < 4.5, "a text of 256 bytes"
    assert float(last["test_acc"]) == pytest.approx((p.argmax(1) == after).mean(), abs=1e-6)
    told = re.search(r"perplexity ([\d.]+), ([\d.]+) bits per byte\n", said_of_one)
    assert [float(x) for x in told.groups()] == pytest.approx([np.exp(loss), loss / np.log(2)], rel=1e-3), said_of_one
    assert [float(last[k]) for k in ("perplexity", "bits_per_byte")] == pytest.approx([np.exp(loss), loss / np.log(2)], rel=1e-4), last
    of_text = json.loads(shoal("predict", "runs/one", "text.h5", "--json").stdout)
    assert (of_text["tokens"], of_text["split"], of_text["without_prediction"]) == (8 * n, "test", 0), of_text
    assert [of_text[k] for k in ("loss", "perplexity", "bits", "bits_per_byte")] == pytest.approx([loss, np.exp(loss), *2 * [loss / np.log(2)]], rel=1e-5), of_text
    page_of_text("one", loss, 8 * n)
    with open("prose.txt", "w") as f:
        f.write("Late, and in the rain, the boats came home.\nNobody spoke.\n")
    with open("t.csv", "w") as f:
        f.write("a,b\n1,2\n")
    for name, what in (("prose.txt", "text"), ("t.csv", "a CSV file")):
        assert_one_error(shoal("predict", "runs/one", name, code=7), f"{name} is {what}, not", f"shoal data import text {name} --like runs/one -o NAME.h5")
    draw = lambda *options: subprocess.check_output([program(), "predict", "runs/one", "--prompt", "it", *options])[:-1]
    drawn = [draw("--generate", "300", "--seed", s) for s in "112"]
    assert drawn[0] == drawn[1] != drawn[2] and drawn[0].startswith(b"it"), drawn
    told = list(draw("--generate", "12", "--temperature", "0"))
    with h5py.File("one.h5") as model:
        for k in range(2, 14):  # what lies behind the last token of a window changes nothing
            window = told[max(k - 8, 0):k]
            p = predict["predict"](model, np.array([window + [0] * (8 - len(window))])).reshape(8, -1)
            assert told[k] == p[len(window) - 1].argmax(), (told, k)
    assert len(told) == 14, told
    r = train(4, "ist", *data, *sets(method__name="ist", model__file="net.yaml", data__global_batch=12), code=2)
    assert_one_error(r, "layer q of model net has 3 heads and cannot be cut into 4 subnets: use at most 3 ranks or more heads")
    local = [*base, *sets(method__name="local", optim__lr=0.1), *METHODS["local"]]
    train(2, "blocks", *local)
    train(2, "blocks2", *local, *sets(run__steps=7))
    train(2, "blocks2", *local)
    assert_equal(newest("blocks"), newest("blocks2"), "blocks go on otherwise than they began", "model/", "replica/")
    assert float(metrics("blocks")[-1]["test_loss"]) < 4.5, metrics("blocks")
    r = train(1, "odd", *base, *sets(model__heads=5), code=2)
    assert_one_error(r, "model.width is 12 and model.heads 5: the width must be a multiple of the heads")


def test_network_vocabulary(tmp_path, monkeypatch):
    """Tokens of a vocabulary: their bytes count for bits per byte, and a checkpoint encodes a prompt and decodes what it draws."""
    monkeypatch.chdir(tmp_path)
    words = ["th", "the", "\u0120the", "\u0120a"]
    tokens = [*(chr(b) for b in range(0x21, 0x7f)), "\u0120", "\u010a", *words]
    with open("tokenizer.json", "w") as f:
        json.dump({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)},
                   "merges": ["t h", "th e", "\u0120 the", "\u0120 a"]}}, f)
    with open("a.txt", "w") as f:
        f.write("the cat is the cat and a dog is the dog\n" * 25)
    shoal(*"data import text a.txt -o a.h5 --tokenizer tokenizer.json".split())
    r = train(1, "r", *sets(model__name="gpt", model__width=12, model__heads=3, model__depth=1, data__file="a.h5", data__context=8,
                            data__global_batch=10, run__epochs=2, optim__name="adamw", optim__lr=0.01))
    with h5py.File("a.h5") as f:
        t = f["test/tokens"][:]
    text = lambda ids: "".join(tokens[i] for i in ids).replace("\u0120", " ").replace("\u010a", "\n")
    last = metrics("r")[-1]
    bits = float(last["test_loss"]) / np.log(2)
    assert float(last["bits_per_byte"]) == pytest.approx(bits * len(t) / len(text(t)), rel=1e-4), last
    assert re.search(r"perplexity [\d.]+, [\d.]+ bits per token, [\d.]+ per byte\n", r.stdout), said(r)
    told = json.loads(shoal("predict", "runs/r", "a.h5", "--json").stdout)
    assert (told["bits"], told["bits_per_byte"]) == pytest.approx((bits, bits * len(t) / len(text(t))), rel=1e-4), told
    drawn = subprocess.check_output([program(), "predict", "runs/r", "--prompt", "a dog is the", "--generate", "20", "--temperature", "0"])
    shoal("ckpt", "export", "runs/r", "-o", "r.h5")
    with h5py.File("r.h5") as model, h5py.File("a.h5") as data:
        assert bytes(model["vocabulary"][:]) == bytes(data["vocabulary"][:])
        predict = {"__name__": "predict"}
        with open(f"{ROOT}/docs/predict.py") as f:
            exec(f.read(), predict)
        ids = [tokens.index(c) for c in ("a", "\u0120", "d", "o", "g", "\u0120", "i", "s", "\u0120the")]
        for k in range(len(ids), len(ids) + 20):
            ids.append(int(predict["predict"](model, np.array([ids[-8:]])).reshape(8, -1)[-1].argmax()))
    assert drawn.decode() == text(ids) + "\n"
    shoal("ckpt", "export", "runs/r", "-o", "r.safetensors")
    with open("r.safetensors", "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    assert json.loads(header["__metadata__"]["vocabulary"])["model"]["vocab"] == {t: i for i, t in enumerate(tokens)}
    with h5py.File("a.h5") as f:
        expected = [*f["train/tokens"], *f["test/tokens"]]
    for like in ("runs/r", newest("r"), "r.h5", "a.h5"):
        shoal(*f"data import text a.txt --like {like} -o again.h5".split())
        with h5py.File("again.h5") as f, h5py.File("a.h5") as data:
            assert [*f["train/tokens"]] == expected and len(f["test/tokens"]) == 0 and bytes(f["vocabulary"][:]) == bytes(data["vocabulary"][:])
    told = json.loads(shoal("predict", "runs/r", "again.h5", "--json", "-o", "rows.csv").stdout)
    n = (len(expected) - 1) // 8 * 8
    assert told["split"] == "train" and told["tokens"] == n
    shoal("predict", "runs/r", "again.h5", "-o", "rows.h5")
    with open("rows.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert [*rows[0]] == ["token", "label", "predicted", "loss"] and [int(r["token"]) for r in rows] == [*range(1, n + 1)]
    with h5py.File("rows.h5") as f, h5py.File("r.h5") as model:
        p = predict["predict"](model, np.array(expected[:n]).reshape(-1, 8)).reshape(n, -1)
        assert [*f["label"]] == [int(r["label"]) for r in rows] == expected[1:n + 1] and f.attrs["split"] in ("train", b"train")
        assert [*f["predicted"]] == [int(r["predicted"]) for r in rows]
        assert p[range(n), f["predicted"]] == pytest.approx(p.max(1), rel=1e-5)
        assert f["loss"][:] == pytest.approx(-np.log(p[range(n), expected[1:n + 1]]), rel=1e-4)
        assert [float(r["loss"]) for r in rows] == pytest.approx(f["loss"][:], rel=1e-8)
        assert (told["loss"], told["accuracy"]) == pytest.approx((f["loss"][:].mean(), np.mean(f["predicted"][:] == f["label"][:])), rel=1e-6)
    shoal(*"data import text a.txt -o bytes.h5".split())
    shoal(*"data import text a.txt --like bytes.h5 --test-share 0.5 -o again.h5".split())
    with h5py.File("again.h5") as f, h5py.File("bytes.h5") as data:
        assert "vocabulary" not in f and [*f["train/tokens"], *f["test/tokens"]] == [*data["train/tokens"], *data["test/tokens"]]
        assert len(f["train/tokens"]) == len(f["test/tokens"])
    r = shoal(*"data import text a.txt --like runs/r --tokenizer tokenizer.json -o again.h5".split(), code=2)
    assert_one_error(r, "--tokenizer does nothing beside --like, which has a vocabulary")
    with h5py.File("numbers.h5", "w") as f:
        f["train/tokens"], f.attrs["classes"], f.attrs["kind"] = np.arange(100, dtype="u2"), 100, "text"
    r = shoal(*"data import text a.txt --like numbers.h5 -o again.h5".split(), code=2)
    assert_one_error(r, "its 100 tokens are neither bytes nor of a vocabulary")
    shoal(*"data synth blobs -o blobs.h5 --train 20 --test 10".split())
    r = shoal(*"data import text a.txt --like blobs.h5 -o again.h5".split(), code=2)
    assert_one_error(r, "--like blobs.h5: it is no run on text, or checkpoint, model exported as .h5, or data set of text")
    assert_one_error(shoal("predict", "runs/r", "bytes.h5", code=2), "bytes.h5 has a vocabulary of 256 tokens, and the network one of 100")
    with open("tokenizer.json") as f:
        other = f.read().replace('"th e", ', "")
    with open("other.json", "w") as f:
        f.write(other)
    shoal(*"data import text a.txt -o other.h5 --tokenizer other.json".split())
    assert_one_error(shoal("predict", "runs/r", "other.h5", code=2), "other.h5 has other tokens than the network was trained with")


TRANSFORMERS = {"gpt": sets(model__name="gpt", data__file="text.h5", data__context=8, data__global_batch=14),
                "vit": sets(model__name="vit", model__patch=7, data__file="glyphs.h5", data__global_batch=10)}


RECOMPUTED = {"gpt": [*TRANSFORMERS["gpt"], *sets(model__width=12, model__heads=4, model__depth=4, model__dropout=0.1)],
              "resnet20": sets(model__file="net.yaml", data__file="glyphs.h5", data__global_batch=10)}


@pytest.mark.parametrize("method, model", [(m, t) for m in METHODS for t in (TRANSFORMERS if FULL else random_source(m).sample(sorted(TRANSFORMERS), 1))])
def test_network_transformers(glyphs, method, model):
    """A small transformer under every method on 2 ranks: stopped in the middle it goes on with the same bits."""
    glyphs(80, 40)
    shoal(*"data synth text -o text.h5 --train 900 --test 200".split())
    base = [*TRANSFORMERS[model], *METHODS[method], *sets(method__name=method, model__width=12, model__heads=4, model__depth=2, optim__lr=0.02, run__epochs=2)]
    train(2, "whole", *base)
    train(2, "parts", *base, "--allow-faults", *sets(fault__stop_step=3, fault__rank=1), code=75)
    train(2, "parts", *base)
    assert_equal(newest("whole"), newest("parts"), f"{method} goes on otherwise than it began", "model/", "replica/")
    assert float(metrics("whole")[-1]["test_loss"]) < {"gpt": 5.7, "vit": 3}[model], "of 256 bytes, of 10 classes"


@pytest.mark.parametrize("method", ("sync", "ab", "ist"))
def test_network_tied(tmp_path, monkeypatch, method):
    """An output that is tied to the tokens' table: a run goes on with the same bits, and what is exported has the table once, and
    predicts as the run did."""
    monkeypatch.chdir(tmp_path)
    shoal(*"data synth text -o text.h5 --train 900 --test 200".split())
    base = [*TRANSFORMERS["gpt"], *METHODS[method], *sets(method__name=method, model__width=12, model__heads=4, model__depth=1, model__tied="true",
                                                          optim__lr=0.02, run__epochs=1)]
    train(2, "whole", *base)
    train(2, "parts", *base, "--allow-faults", *sets(fault__stop_step=3, fault__rank=1), code=75)
    train(2, "parts", *base)
    assert_equal(newest("whole"), newest("parts"), f"{method} goes on otherwise than it began", "model/", "replica/")
    shoal("ckpt", "export", "runs/whole", "-o", "whole.h5")
    predict = {"__name__": "predict"}
    with open(f"{ROOT}/docs/predict.py") as f:
        exec(f.read(), predict)
    with h5py.File("whole.h5") as model, h5py.File("text.h5") as text:
        assert "wte.weight" in model and "lm_head.weight" not in model
        t = text["test/tokens"][:].astype(int)
        n = (len(t) - 1) // 8
        p = predict["predict"](model, t[:8 * n].reshape(n, 8)).reshape(8 * n, -1)
    loss = -np.log(p[range(8 * n), t[1:8 * n + 1]]).mean()
    assert float(metrics("whole")[-1]["test_loss"]) == pytest.approx(loss, abs=1e-5) and loss < 5.7, "of 256 bytes"
    shoal("ckpt", "export", "runs/whole", "-o", "whole.onnx")
    with open("whole.onnx", "rb") as f:
        graph = f.read()
    assert b"lm_head.weight" not in graph and graph.count(b"wte.weight") == 3, "the tensor, and two nodes that read it"
    if method == "sync":
        shoal("model", "import", "whole.onnx", "-o", "back.yaml")
        assert "{ name: lm_head, op: linear, width: classes, bias: false, tied: true, cut: true }" in open("back.yaml").read()
        local = [*TRANSFORMERS["gpt"], *METHODS["local"], *sets(method__name="local", model__width=12, model__heads=4, model__tied="true")]
        assert_one_error(train(2, "local", *local, code=2), "layer lm_head has the table of layer wte as its weight", "set tied: false")


@pytest.mark.parametrize("method, model", [(m, t) for m in sampled(METHODS, 3)
                                           for t in ([*RECOMPUTED] if FULL else random_source(m).sample(sorted(RECOMPUTED), 1))])
def test_network_recompute(glyphs, method, model):
    """Activations that are computed again for backward: the same bits as when all are kept, under every method, and less memory than
    the start tells."""
    glyphs(40, 10)
    shoal(*"data synth text -o text.h5 --train 500 --test 100".split())
    with open("net.yaml", "w") as f:
        f.write(describe("resnet20").replace("width: 64", "width: 8").replace("width: 32", "width: 6").replace("width: 16", "width: 4"))
    base = [*RECOMPUTED[model], *METHODS[method], *sets(method__name=method, optim__lr=0.02, run__epochs=1)]
    train(2, "kept", *base)
    r = train(2, "again", *base, *sets(compute__recompute="units"))
    assert_equal(newest("kept"), newest("again"), f"{method} with compute.recompute")
    told = re.search(r"activations and their gradients, of \d+ samples: ([\d.]+) MiB instead of ([\d.]+) MiB, with \d+ % of forward computed twice", r.stdout)
    if method == "local":
        assert not told, "its blocks have plans of their own"
    else:
        assert float(told[1]) < 0.8 * float(told[2]), said(r)


def test_network_rows(work):
    """Digits as rows of a table, as they stand: refused once by all ranks, trained and predicted with as images by what the message says."""
    rng = np.random.default_rng(2)
    y = np.arange(60) % 2
    x = np.clip(np.where(y, 200, 60)[:, None] + rng.normal(0, 20, (60, 64)), 0, 255).astype(int)
    for name, last in (("digits.csv", 60), ("new.csv", 20)):
        head = ["label", *(f"pixel{k}" for k in range(64))]
        with open(name, "w") as f:
            f.writelines(",".join(map(str, row)) + "\n" for row in (head, *([c, *r] for c, r in zip(y[:last], x[:last].tolist()))))
    with open("own.yaml", "w") as f:
        f.write("layers:\n  - { op: conv, width: 4, kernel: 3, relu: true }\n  - { op: globalpool }\n  - { op: linear, width: classes }\n")
    run = sets(data__file="d.h5", model__file="own.yaml", data__global_batch=12, optim__lr=0.1, optim__momentum=0.9, run__epochs=10)
    shoal("data", "import", "csv", "digits.csv", "-o", "d.h5")
    r = train(2, "r", *run, code=2)
    assert_one_error(r, "layer conv1 takes images [channels, h, w], and this data has 64 features in a row")
    shape = re.search(r"by shoal data import csv \(or npy\) with (--shape) (\S+);", r.stderr).groups()
    assert shape == ("--shape", "1,8,8")
    shoal("data", "import", "csv", "digits.csv", *shape, "-o", "d.h5")
    train(2, "r", *run)
    assert float(metrics("r")[-1]["test_acc"]) == 1
    shoal("data", "import", "csv", "new.csv", "--like", "runs/r", "-o", "new.h5")
    told = json.loads(shoal("predict", "runs/r", "new.h5", "--json").stdout)
    assert (told["samples"], told["accuracy"]) == (20, 1)


@pytest.mark.parametrize("scales", (1, 3))
def test_network_channels_last(work, scales):
    """A network of Keras as ONNX, channels last: imported with channels first, it predicts images as they were made for it, and its scale of
    the inputs, one for all or one for each channel, stays that of the run."""
    rng = np.random.default_rng(4)
    known = {"std": np.array([1 / 255] * scales if scales > 1 else 1 / 255, "f4"), "kernel": rng.uniform(-0.3, 0.3, (8, 3, 3, 3)).astype("f4"),
             "flat": np.array([-1, 72]), "dense": rng.uniform(-0.3, 0.3, (72, 2)).astype("f4")}
    node = onnx.helper.make_node
    nodes = [node("Mul", ["images", "std"], ["scaled"]), node("Transpose", ["scaled"], ["first"], perm=[0, 3, 1, 2]),
             node("Conv", ["first", "kernel"], ["convolved"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
             node("Transpose", ["convolved"], ["last"], perm=[0, 2, 3, 1]), node("Reshape", ["last", "flat"], ["row"]),
             node("MatMul", ["row", "dense"], ["logits"])]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "keras", [info("images", onnx.TensorProto.FLOAT, ["n", 6, 6, 3])],
                                   [info("logits", onnx.TensorProto.FLOAT, ["n", 2])], [onnx.numpy_helper.from_array(v, k) for k, v in known.items()])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.save(model, "net.onnx")
    x = rng.integers(0, 256, (20, 3, 6, 6)).astype("u1")
    with h5py.File("d.h5", "w") as f:
        f["train/x"], f["train/y"] = x, np.arange(20) % 2
    r = shoal("model", "import", "net.onnx", "-o", "net.yaml")
    assert "its input images has channels last, [1,6,6,3]; samples have them first here, [3,6,6]" in r.stderr
    r = train(2, "r", *sets(data__file="d.h5", model__file="net.yaml", model__weights="net.safetensors", optim__lr=1e-9, run__epochs=1, eval__every="never"))
    assert "inputs are normalised by mean and std of the weights, which differ from those of the data set" in r.stdout
    shoal("predict", "runs/r", "d.h5", "-o", "p.h5")
    padded = np.pad(x / 255, ((0, 0), (0, 0), (1, 1), (1, 1)))
    rows = np.array([[np.einsum("nikl,oikl->no", padded[:, :, 2 * i:2 * i + 3, 2 * j:2 * j + 3], known["kernel"]) for j in range(3)] for i in range(3)])
    logits = rows.transpose(2, 0, 1, 3).reshape(20, 72) @ known["dense"]
    wanted = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    with h5py.File("p.h5") as f:
        assert f["probability"][:] == pytest.approx(wanted, abs=1e-5)


def test_network_refused(glyphs):
    glyphs(80, 40)
    with open("net.yaml", "w") as f:
        f.write("layers:\n  - { op: flatten }\n  - { op: linear, width: 7 }\n")
    for ranks in (1, 2):
        r = train(ranks, "r", *RUN, *sets(model__file="net.yaml"), code=2)
        assert_one_error(r, "net.yaml:3:5: layer linear2: its output is [7] for a sample", "10 classes")
    r = train(1, "r", *RUN, *sets(model__file="absent.yaml"), code=None)
    assert_one_error(r, "absent.yaml")
    r = train(1, "r", *RUN, *sets(model__file="net.yaml", model__name="mlp"), code=2)
    assert_one_error(r, "model.file", "mlp")
    r = train(1, "r", *RUN, *sets(model="net.yaml"), code=2)
    assert_one_error(r, "model: { file: net.yaml }")
    assert not os.path.exists("runs/r/ckpt") or not os.listdir("runs/r/ckpt")
