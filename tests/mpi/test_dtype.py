"""Runs with `compute.dtype: bf16` on the CPU, emulated where the processor has no instructions for it."""
import math
import os

import h5py
import pytest
from harness import (assert_equal, assert_one_error, column, diff, newest, said, sets, shoal, train)

EMULATED = ["--allow-faults", *sets(fault__emulate="true", compute__dtype="bf16")]
COMMON = sets(run__steps=6, threads=1, run__seed=3, cpu__winograd="false")
MODELS = {
    "mlp": sets(model__name="mlp", model__widths="[48,32]", model__norm="batch", model__dropout=0.1, optim__lr=0.05, optim__momentum=0.9,
                data__global_batch=16, data__file="glyphs.h5"),
    "resnet20": sets(model__name="resnet20", optim__lr=0.01, optim__momentum=0.9, data__global_batch=8, data__file="glyphs.h5"),
    "vgg16": sets(model__name="vgg16", optim__lr=0.01, data__global_batch=4, data__file="glyphs.h5", run__steps=2),
    "gpt": sets(model__name="gpt", model__width=24, model__heads=2, model__depth=2, data__file="text.h5", data__context=8,
                data__global_batch=14, optim__lr=0.1),
    "vit": sets(model__name="vit", model__width=24, model__heads=2, model__depth=2, model__patch=8, data__file="glyphs.h5",
                data__global_batch=10, optim__lr=0.05),
}

with open("/proc/cpuinfo") as f:
    pytestmark = pytest.mark.skipif("avx512bw" not in f.read(), reason="bf16 is emulated with AVX-512 only")


def data(glyphs):
    glyphs(64, 16, 32)
    shoal(*"data synth text -o text.h5 --train 900 --test 200".split())


@pytest.mark.parametrize("model", MODELS)
def test_losses(glyphs, model):
    """The first steps have f32's losses to what rounding activations to 8 bits does, and weights that it changes."""
    data(glyphs)
    train(1, "f32", *COMMON, *MODELS[model])
    r = train(1, "bf16", *COMMON, *MODELS[model], *EMULATED)
    assert "backend cpu in bf16" in said(r), said(r)
    for name in ("train_loss", "test_loss"):
        losses = list(zip(column("f32", name), column("bf16", name), strict=True))
        assert losses and all(x == y or math.isclose(float(x[0]), float(y[0]), rel_tol=0.05) for x, y in losses), f"{name} {losses}"
    assert diff(newest("f32"), newest("bf16"), "--only", "model").returncode == 7, "bf16 has no effect"


@pytest.mark.parametrize("model", ["mlp", "resnet20", "gpt"])
def test_resume(glyphs, model):
    """Two ranks, stopped and resumed, have the bits of those that were not; the checkpoint is one of f32, which f32 goes on from."""
    data(glyphs)
    options = [*COMMON, *MODELS[model]]
    train(2, "whole", *options, *EMULATED)
    train(2, "cut", *options, *EMULATED, *sets(fault__stop_step=3), code=75)
    with h5py.File(newest("cut")) as f:
        kinds = set()
        f["model"].visititems(lambda _, x: kinds.add(x.dtype.str) if isinstance(x, h5py.Dataset) and x.dtype.kind == "f" else None)
    assert kinds == {"<f4"}, kinds
    train(2, "cut", *options, *EMULATED)
    assert_equal(newest("whole"), newest("cut"), "stopped at step 3")
    train(2, "whole", *options, *sets(run__steps=8))


def test_refused(glyphs):
    """Without instructions for it, and on other backends, bf16 is refused with the reason and the cure."""
    data(glyphs)
    options = [*COMMON, *MODELS["mlp"], *sets(compute__dtype="bf16")]
    r = train(1, "refused", *options, env={"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, code=2)
    assert_one_error(r, "no instructions for bf16", "compute.dtype to f32")
    assert_one_error(train(1, "refused", *options, *sets(device="ref"), code=2), "ref", "compute.dtype to f32")
    assert_one_error(train(1, "refused", *options, *sets(compute__dtype="tf32"), code=2), "no tf32", "compute.dtype")
    assert not os.path.exists("runs/refused/ckpt") or not os.listdir("runs/refused/ckpt")
