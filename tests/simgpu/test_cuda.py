"""Training with `device: cuda`, on the simulated device (docs/gpu.md): every method and model, on one GPU or several, trains what the
CPU trains; checkpoints go from one to the other; each rank takes the right GPU; an error of a GPU ends the run with one line."""
import itertools
import json
import math
import os
import re

import pytest

from harness import (ENV, FULL, METHODS, Trace, arrays, assert_equal, assert_one_error, build, column, diff, log, newest, places,
                     random_source, said, sets, shoal, train, train_through)

# Convolutions of the CPU are direct, as those of the device: Winograd's algorithm rounds more.
COMMON = sets(data__file="glyphs.h5", run__steps=8, threads=1, cpu__winograd="false")
SMALL = sets(optim__lr=0.05, optim__momentum=0.9)
MODELS = {
    "mlp": sets(model__name="mlp", model__widths="[24,20,16]", model__norm="batch", model__dropout=0.1, optim__clip=1, data__batch=8) + SMALL,
    "layers": sets(model__name="mlp", model__widths="[24,16]", model__norm="layer", model__activation="gelu", optim__name="adamw",
                   optim__lr=0.002, optim__weight_decay=0.01, data__batch=6, model__smoothing=0.1,
                   model__class_weights="[1,2,3,4,5,0,7,8,9,10]"),
    "resnet20": sets(model__name="resnet20", data__batch=4, optim__lr=0.002, optim__momentum=0.9),
}
SINGLE = {  # of 2 steps: a case each
    "vgg16": sets(model__name="vgg16", model__width=0.125, data__file="glyphs32.h5", data__batch=2, optim__lr=0.002, run__steps=2),
    "resnet18": sets(model__name="resnet18", model__width=0.125, data__file="glyphs32.h5", data__batch=2, optim__lr=0.002, run__steps=2),
    "gpt": sets(model__name="gpt", model__width=12, model__heads=2, model__depth=1, model__dropout=0.1, data__file="text.h5", data__context=70,
                data__batch=2, optim__lr=0.1, run__steps=2),
}
# Largest difference of a weight or a running statistic, as a part of the largest of its array.  Products are summed in another order,
# so that a relu or a maximum close to a tie falls to the other side (cpu and ref differ as much): a gradient then lacks one of its n
# terms, and is itself as large as sqrt(n) of them.  A norm behind convolutions has n >= 256, so its bias, which was zero, may be 1/16
# off; the rest has moved by at most 9 % of its largest in these steps.
BIAS, REST = 1 / 16, 0.09 / 16
# The same of other models; a weight at the edge of a step of the quantiser, and the sign of a singular vector, may also fall to the other
# side.  And of the loss.
WEIGHTS = {"mlp": 2e-4, "layers": 2e-4, "gpt": 2e-4, "swarm": 2e-2}
LOSS = {"ab": 3e-2, "swarm": 1e-2}
CNNS = ("resnet20", "vgg16", "resnet18")
NOISE = {"key.bias": math.inf}  # of attention: what all keys have in common changes nothing, so its gradient is rounding


def sim(devices, **more):
    """What makes the loader take the simulated device in place of CUDA."""
    path = f"{build()}/tests/simgpu"
    assert os.path.exists(path), f"{path} is missing: build the target simgpu"
    old = ENV.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{path}:{old}" if old else path, "SIMGPU_DEVICES": str(devices), **more}


def train_cuda(ranks, name, *args, devices=None, env=None, **options):
    return train(ranks, name, *args, *sets(device="cuda"), env=sim(devices or ranks, **(env or {})), **options)


def pairwise(*choices):
    """Cases such that every two values of two choices are together in one, fewest first; with SHOAL_FULL=1 all."""
    every = list(itertools.product(*choices))
    if FULL:
        return every
    random_source().shuffle(every)
    left = {pair for case in every for pair in itertools.combinations(enumerate(case), 2)}
    out = []
    while left:
        best = max(every, key=lambda case: sum(pair in left for pair in itertools.combinations(enumerate(case), 2)))
        left -= set(itertools.combinations(enumerate(best), 2))
        out.append(best)
    return out


def assert_losses(a, b, name, tolerance):
    losses = list(zip(column(a, name), column(b, name), strict=True))
    assert losses and all(x == y or math.isclose(float(x[0]), float(y[0]), rel_tol=tolerance) for x, y in losses), f"{a}: {name} {losses}"


def single():
    """As pairwise, of the models that are too slow for more than a case each."""
    if FULL:
        return pairwise(METHODS, SINGLE, (1, 2, 4))
    return [(random_source(model).choice([*METHODS]), model, 2) for model in SINGLE]


def assert_close(a, b, tolerance):
    """The models of two checkpoints; the tolerance is a function of an array's name."""
    of_a, of_b = ({name: x.astype(float) for name, x in arrays(newest(of)).items() if name.startswith("model/")} for of in (a, b))
    assert of_a.keys() == of_b.keys()
    far = {name: abs(x - of_b[name]).max() / abs(x).max() for name, x in of_a.items() if abs(x).max() > 0}
    assert not {name: part for name, part in far.items() if not part <= tolerance(name)}, f"{a} and {b}"


@pytest.mark.parametrize("method, model, ranks", pairwise(METHODS, MODELS, (1, 2, 4)) + single())
def test_cuda_methods(glyphs, method, model, ranks):
    """As many GPUs as ranks, or one for two of them."""
    glyphs(64, 16, 8)
    glyphs(16, 4, 32, name="glyphs32.h5")
    shoal(*"data synth text -o text.h5 --train 1000 --test 300".split())
    what, devices = f"{method}-{model}-{ranks}", ranks if method in ("sync", "swarm", "ist") else (ranks + 1) // 2
    options = [*COMMON, *(MODELS | SINGLE)[model], *METHODS[method], *sets(method__name=method)]
    if method == "local" and model in CNNS:  # chunks part from each other within two steps, those of the CPU with Winograd's algorithm as well
        options += sets(run__steps=1)
    topo = ["--topo", "2x2"] if ranks == 4 else []
    r = train(ranks, f"{what}-cpu", *options, *sets(device="cpu"), *topo, code=None, timeout=600)
    if r.returncode == 2:  # a method may refuse a model or a number of ranks
        assert_one_error(train_cuda(ranks, f"{what}-cuda", *options, *topo, devices=devices, code=2))
        pytest.skip("refused")
    assert r.returncode == 0, said(r)
    order = str(random_source(what).randrange(1000))  # of streams, blocks and threads
    r = train_cuda(ranks, f"{what}-cuda", *options, *topo, devices=devices, env={"SIMGPU_SEED": order}, timeout=600)
    assert ("no GPU of their own" in said(r)) == (devices < ranks), said(r)
    least, ties = WEIGHTS.get(method, WEIGHTS.get(model, 0)), model not in WEIGHTS
    if method != "ab":
        assert_close(f"{what}-cpu", f"{what}-cuda",
                     lambda name: max(least, (BIAS if name.endswith(".bias") else REST) if ties else 0, NOISE.get(name[-8:], 0)))
    for name in ("train_loss", "test_loss"):
        assert_losses(f"{what}-cpu", f"{what}-cuda", name, LOSS.get(method, 1e-3))


def test_cuda_resume(glyphs):
    """A checkpoint is the same file, whoever wrote it: one run on the CPU, then on a GPU, then on the CPU, ends where a run on the CPU
    alone does; and a run on a GPU alone that stops and goes on has the bits of one that did not."""
    glyphs(64, 16, 8)
    options = [*COMMON, *MODELS["mlp"], *sets(ckpt__every="4steps", run__steps=12)]
    train(1, "cpu", *options, *sets(device="cpu"))
    train_cuda(1, "cuda", *options)
    for steps, device in ((4, "cpu"), (8, "cuda"), (12, "cpu")):
        train(1, "both", *options, *sets(device=device, run__steps=steps), env=sim(1))
    for steps in (4, 12):
        train_cuda(1, "again", *options, *sets(run__steps=steps))
    assert_equal(newest("cpu"), newest("both"), "to the GPU and back", tolerance=2e-4)
    assert_equal(newest("cuda"), newest("again"), "stopped and resumed")
    of_cpu, of_cuda = arrays(newest("cpu")), arrays(newest("cuda"))
    assert {k: (v.dtype, v.shape) for k, v in of_cpu.items()} == {k: (v.dtype, v.shape) for k, v in of_cuda.items()}
    assert diff(newest("cpu"), newest("cuda")).returncode == 7, "the comparison can fail"


def test_cuda_targets(work):
    """Numbers that are predicted: losses and errors of a GPU are those of the CPU."""
    with open("t.csv", "w") as f:
        f.write("a,b,y\n" + "".join(f"{i % 7},{i % 11},{100 + 3 * (i % 7) - 2 * (i % 11) + i % 3}\n" for i in range(120)))
    sets_of = lambda loss: [*sets(data__file="t.h5", model__name="mlp", model__widths="[9]", model__loss=loss, data__batch=20, optim__lr=0.05, run__epochs=2)]
    shoal(*"data import csv t.csv --target y -o t.h5".split())
    for loss in ("mse", "mae"):
        train(1, f"{loss}-cpu", *sets_of(loss), *sets(device="cpu"))
        train_cuda(1, f"{loss}-cuda", *sets_of(loss))
        train_cuda(1, f"{loss}-graphs", *sets_of(loss), *sets(cuda__graphs="true"))
        assert_equal(newest(f"{loss}-cuda"), newest(f"{loss}-graphs"), "with graphs")
        for name in ("train_loss", "test_loss", "test_rmse", "test_mae", "test_r2"):
            assert_losses(f"{loss}-cpu", f"{loss}-cuda", name, 1e-5)


def uuid(number):
    return f"GPU-00000000-0000-0000-0000-0000000000{number + 1:02x}"


def test_cuda_devices(glyphs):
    glyphs(64, 16, 8)
    options = [*COMMON, *MODELS["mlp"], *sets(run__steps=1)]
    has = lambda name: [p.get("device") for p in places(name)]
    r = train(2, "own", *options, *sets(device="auto"), env=sim(3))
    assert has("own") == [uuid(0), uuid(1)] and "backend cuda on simulated device, device auto: a GPU for each rank" in said(r), said(r)
    assert all(id in log("own") for id in has("own")), log("own")
    assert [p["device"] for p in json.loads(Trace("own", 0).attrs["placement"])["places"]] == has("own")
    # With MPI that takes the memory of GPUs, which is tried, the same bits.
    ring = [*options, *sets(comm__nccl="off", method__algorithm="ring")]
    for name, more in (("direct", []), ("mirror", sets(comm__cuda_aware="false"))):
        r = train_cuda(2, name, *ring, *more, env={"LD_PRELOAD": f"{build()}/tests/simgpu/libsimgpu_mpi.so"})
        assert ("rings of sums give MPI the memory of GPUs" in said(r)) == (name == "direct"), said(r)
    assert_equal(newest("direct"), newest("mirror"), "direct")
    r = train_cuda(2, "shared", *options, devices=3, env={"CUDA_VISIBLE_DEVICES": "2"})
    assert has("shared") == [uuid(2)] * 2 and said(r).count("no GPU of their own") == 1, said(r)
    train_through("export CUDA_VISIBLE_DEVICES=$((2 - R)); exec \"$@\"", 2, "given", *options, *sets(device="cuda"), env=sim(3))
    assert has("given") == [uuid(2), uuid(1)]
    r = train(2, "auto", *options, *sets(device="auto"), env=sim(1))
    assert has("auto") == [None] * 2 and "backend cpu, device auto: not every rank has a GPU of its own" in said(r), said(r)
    r = train(1, "none", *options, *sets(device="auto"), env=sim(1, SIMGPU_DRIVER="0"))
    assert "backend cpu, device auto: no NVIDIA driver is loaded on this host" in said(r), said(r)
    r = train_cuda(1, "refused", *options, devices=1, env={"CUDA_VISIBLE_DEVICES": "1"}, code=3)
    assert_one_error(r, "no usable GPU", "CUDA_VISIBLE_DEVICES is '1'", "--gres=gpu:1")
    r = train_through("[ $R = 1 ] && export SIMGPU_DRIVER=0; exec \"$@\"", 2, "half", *options, *sets(device="cuda"), env=sim(2), code=3)
    assert_one_error(r, "no NVIDIA driver is loaded")


def test_cuda_errors(glyphs):
    """An error that the device makes while a kernel runs comes out at a later call, on one rank, and ends all of them."""
    glyphs(64, 16, 8)
    options = [*COMMON, *MODELS["mlp"], *sets(ckpt__every="2steps", device="cuda")]
    for ranks, error, code, words in ((1, "kernel shoal_k_sgd:4:719", 3, "unspecified launch failure"),
                                      (2, "kernel shoal_k_sgd:4:719", 3, "unspecified launch failure"),
                                      (1, "cudaMalloc:5:2", 7, "bytes of device memory")):
        name = f"r{ranks}-{code}"
        r = train_through(f"[ $R = {ranks - 1} ] && export SIMGPU_INJECT='{error}'; exec \"$@\"", ranks, name, *options, env=sim(ranks), code=code)
        lines = [line for line in r.stderr.splitlines() if "shoal: error:" in line]
        wanted = [words] + ([uuid(ranks - 1), "the checkpoint of step 4 is untouched"] if code == 3 else [])
        assert len(lines) == 1 and all(word in lines[0] for word in wanted), said(r)
    # A kernel that does not end, with nobody else who could miss this rank.
    r = train(1, "never", *options, *sets(comm__warn=1, comm__hang=2), env=sim(1, SIMGPU_INJECT="kernel shoal_k_sgd:4:-1"), code=5)
    told = [line for line in r.stderr.splitlines() if "has not ended" in line]
    assert len(told) == 2 and "warning" in told[0] and "gave up after 2 s" in told[1], said(r)
    assert f"rank 0 ({os.uname().nodename}): its device {uuid(0)} has not ended" in told[1] and "in training step 4" in told[1], said(r)
    of = re.search(r"one of up to 16 kernels after (\w+), of which the last is (\w+), or a copy", told[1])
    assert of and json.load(open("runs/never/status.json"))["state"] == "failed", said(r)
    # In a graph it is the graph that is named.
    r = train(1, "graph", *options, *sets(cuda__graphs="true", comm__warn=1, comm__hang=2), env=sim(1, SIMGPU_INJECT="kernel shoal_k_softmax:6:-1"),
              code=5)
    assert "in training step 6" in r.stderr and re.search(r"the graph of forward, which comes after \w+, or a copy; gave up", r.stderr), said(r)


def test_cuda_products(glyphs):
    """By option, products on the GPU are those of factors with 10 bits of mantissa, or 7; without, they are not."""
    glyphs(64, 16, 8)
    options = [*COMMON, *MODELS["resnet20"], *sets(run__steps=1, data__batch=32, optim__lr=0.01)]
    train(1, "cpu", *options, *sets(device="cpu"))
    train_cuda(1, "f32", *options)
    train_cuda(1, "tf32", *options, *sets(compute__dtype="tf32"), env={"SIMGPU_TF32": "1"})
    assert_equal(newest("cpu"), newest("f32"), "f32", "model", tolerance=1e-4)
    assert_losses("cpu", "tf32", "test_loss", 1e-2)
    assert diff(newest("f32"), newest("tf32"), "--only", "model", "--tolerance", 1e-4).returncode == 7, "TF32 has no effect"
    # Without cuDNN convolutions are products of patches.
    small, folder = [*COMMON, *MODELS["resnet20"], *sets(run__steps=1, data__batch=2)], f"{build()}/tests/simgpu"
    train(1, "cpu2", *small, *sets(device="cpu"))
    r = train(1, "patches", *small, *sets(device="cuda"), env=sim(1, LD_LIBRARY_PATH=f"{folder}/without_cudnn:{folder}"))
    assert "backend cuda on simulated device, without cuDNN" in said(r), said(r)
    assert_equal(newest("cpu2"), newest("patches"), "patches", "model", tolerance=1e-4)
    options, bf16 = [*COMMON, *MODELS["mlp"], *sets(run__steps=2)], sets(compute__dtype="bf16")
    train(1, "mlp", *options, *sets(device="cpu"))
    train_cuda(1, "bf16", *options, *bf16)
    # Each of 3 products is off by 2^-7 of what it sums at most, which logits of about 1 and their loss follow twice.
    assert_losses("mlp", "bf16", "test_loss", 2 * 3 * 2**-7)
    assert diff(newest("mlp"), newest("bf16"), "--only", "model", "--tolerance", 1e-4).returncode == 7, "bf16 has no effect"
    # What only a GPU has is refused without one, also where the device was left open.
    r = train(1, "auto", *options, *sets(compute__dtype="tf32", device="auto"), env=sim(1, SIMGPU_DRIVER="0"), code=2)
    assert_one_error(r, "no tf32", "compute.dtype")


def launches_by_step(path):
    """Of training: up to the optimizer; what comes behind the last one is the evaluation."""
    steps = [[]]
    for line in open(path):
        steps[-1].append(line)
        if re.match("shoal_k_(sgd|adam) ", line):
            steps.append([])
    return steps[:-1]


def test_cuda_launches(glyphs):
    """Rate, seed, step and labels are read on the device: all steps launch the same kernels with the same arguments, so that they can be
    recorded once; then a step launches a graph forward and one for each bucket, and the optimizer's kernels."""
    glyphs(96, 16, 8)
    counted = {"mlp": (33, 5), "layers": (27, 1)}  # kernels of our own in a step; in front of and with the optimizer
    for model, (all_of, optimizer) in counted.items():
        options = [*COMMON, *MODELS[model], *sets(run__epochs=1, optim__schedule="cosine", model__dropout=0.1, data__batch=8)]
        train_cuda(1, model, *options, env={"SIMGPU_LAUNCHES": f"{model}.txt"})
        steps = launches_by_step(f"{model}.txt")
        assert len(steps) == 8 and len(steps[1]) == all_of, [len(step) for step in steps]
        for step in steps[2:]:  # the first has what is filled before it
            assert step == steps[1], [(a, b) for a, b in zip(step, steps[1], strict=True) if a != b]
        for parts, bucket in (("one", 1), ("many", 1e-6)):
            name = f"{model}-{parts}"
            train_cuda(1, name, *options, *sets(cuda__graphs="true", method__bucket=bucket, method__first_bucket=bucket),
                       env={"SIMGPU_LAUNCHES": f"{name}.txt"})
            steps = launches_by_step(f"{name}.txt")
            graphs = [sum(line.startswith("graph ") for line in step) for step in steps]
            assert len(steps) == 8 and graphs[:2] == [0, 0] and len(set(graphs[2:])) == 1, graphs
            assert graphs[-1] == 2 if parts == "one" else graphs[-1] > 4, graphs
            assert [len(step) for step in steps[2:]] == [graphs[-1] + optimizer] * 6, [len(step) for step in steps]
            assert_equal(newest(model), newest(name), "with graphs", "model")


@pytest.mark.parametrize("graphs", ("false", "true"))
def test_cuda_recompute(glyphs, graphs):
    """Activations that are computed again for backward, asked for or recorded: the same bits as when all are kept."""
    glyphs(64, 16)
    options = [*COMMON, *MODELS["mlp"], *sets(cuda__graphs=graphs)]
    train_cuda(1, "kept", *options)
    r = train_cuda(1, "again", *options, *sets(compute__recompute="units"))
    assert "of forward computed twice" in r.stdout, said(r)
    assert_equal(newest("kept"), newest("again"), "with compute.recompute")


def graph_cases():
    """Every method with an MLP on 2 GPUs, sync with every kind of layer on one; with SHOAL_FULL=1 with both MLPs."""
    mlps = lambda method: ("mlp", "layers") if FULL else (random_source(method).choice(("mlp", "layers")),)
    return [(method, model, 2) for method in METHODS for model in mlps(method)] + [("sync", model, 1) for model in ("mlp", "resnet20", "gpt")]


@pytest.mark.parametrize("method, model, ranks", graph_cases())
def test_cuda_graphs(glyphs, method, model, ranks):
    """Steps that are launched as graphs have the bits of steps that are not: several buckets, a schedule, dropout, clipping, a short last
    batch, and evaluations in between; on a GPU each."""
    glyphs(60, 16, 8)
    shoal(*"data synth text -o text.h5 --train 1000 --test 300".split())
    what, slow = f"{method}-{model}-{ranks}", model in ("resnet20", "gpt")  # recorded in steps 2 and 3
    options = [*COMMON, *(MODELS | SINGLE)[model], *METHODS[method],
               *sets(method__name=method, optim__schedule="cosine", optim__clip=1, run__epochs=3, ckpt__every="5steps", run__steps=4 if slow else 12)]
    if method not in ("swarm", "ist"):  # which have no buckets
        options += sets(method__bucket=1e-3, method__first_bucket=1e-3)
    if method == "sync":
        options += sets(numbers__bad="skip")  # reads the loss between forward and backward
    train_cuda(ranks, what, *options, timeout=600)
    order = {"SIMGPU_SEED": str(random_source(what).randrange(1000))}
    train_cuda(ranks, f"{what}-graphs", *options, *sets(cuda__graphs="true"), env=order, timeout=600)
    assert_equal(newest(what), newest(f"{what}-graphs"), "with graphs")
    for name in ("train_loss", "test_loss"):
        assert column(what, name) == column(f"{what}-graphs", name)


def test_cuda_graphs_resume(glyphs):
    """Stopped with graphs and resumed with them, and without; where there are no GPUs they are refused, or told to do nothing."""
    glyphs(60, 16, 8)
    options = [*COMMON, *MODELS["mlp"], *sets(ckpt__every="6steps", run__steps=12)]
    graphs = sets(cuda__graphs="true")
    train_cuda(1, "plain", *options)
    for name, second in (("with", graphs), ("without", [])):
        train_cuda(1, name, *options, *graphs, *sets(run__steps=6))
        train_cuda(1, name, *options, *second)
        assert_equal(newest("plain"), newest(name), name)
    assert_one_error(train(1, "refused", *options, *graphs, *sets(device="cpu"), code=2), "cuda.graphs", "device")
    r = train(1, "auto", *options, *graphs, *sets(device="auto", run__steps=1), env=sim(1, SIMGPU_DRIVER="0"))
    assert "cuda.graphs does nothing" in said(r), said(r)
