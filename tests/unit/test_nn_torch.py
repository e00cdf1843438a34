"""The same networks in PyTorch: logits, loss, every gradient, batch-norm statistics and three steps of two optimizers.

nn_dump.c writes the numbers of one of our networks; here PyTorch gets the same weights and inputs and computes
in double, so that what differs is our rounding.  Gradients and weight changes are compared per tensor: largest
difference over the largest value of that tensor, where tensors far smaller than the largest of all are measured against
a hundredth of that.

A relu or a maximum pool decides which gradients pass, and rounding decides about inputs close to the threshold: vgg16
with 8 images has 2.2 million of them, and one at 5e-7 of the largest, taken the other way, moves a row of a weight
gradient by 2 %.  So PyTorch computes the gradients with our decisions; where it would have decided otherwise, its input
must lie within rounding of the threshold.

The optimizers are compared twice.  Given our gradients of each step, torch.optim must arrive at our weights (to
the last bits of f32).  On its own, PyTorch must take the same way; since one relu turned over by rounding in the
second step changes the third visibly, that is measured over the whole network.
Skips without torch.
"""
import pytest

from harness import built, run

VIT = ["model.width=128", "model.heads=2", "model.depth=2", "model.patch=8"]
CASES = [
    ("ref", 5, 3, "mlp", ["model.widths=[20,12]"], lambda nets: nets.Mlp([20, 12]), 1e-5),
    ("ref", 5, 3, "mlp", ["model.widths=[20,12]", "model.activation=gelu", "model.norm=layer"],
     lambda nets: nets.Mlp([20, 12], "gelu", "layer"), 1e-5),
    ("ref", 4, 3, "resnet20", [], lambda nets: nets.ResNet(16, 3, 3), 5e-5),
    ("ref", 2, 0, "resnet18", [], lambda nets: nets.ResNet(64, 4, 2), 5e-5),
    ("ref", 2, 0, "vgg16", [], lambda nets: nets.Vgg(True), 5e-5),
    ("ref", 2, 0, "vgg16", ["model.batch_norm=false"], lambda nets: nets.Vgg(False), 5e-5),
    ("ref", 3, 0, "vit", VIT, lambda nets: nets.Vit("class"), 5e-5),
    ("cpu", 3, 0, "vit", [*VIT, "model.pool=mean"], lambda nets: nets.Vit("mean"), 5e-5),
    ("cpu", 32, 3, "mlp", ["model.widths=[256,128]"], lambda nets: nets.Mlp([256, 128]), 5e-5),
    ("cpu", 31, 3, "mlp", ["model.widths=[250,128]", "model.norm=batch"], lambda nets: nets.Mlp([250, 128], norm="batch"), 5e-5),
    ("cpu", 16, 3, "mlp", ["model.widths=[64]", "model.activation=gelu", "model.norm=layer"],
     lambda nets: nets.Mlp([64], "gelu", "layer"), 5e-5),
    ("cpu", 16, 3, "resnet20", [], lambda nets: nets.ResNet(16, 3, 3), 5e-5),
    ("cpu", 8, 0, "resnet18", [], lambda nets: nets.ResNet(64, 4, 2), 5e-5),
    ("cpu", 8, 0, "vgg16", [], lambda nets: nets.Vgg(True), 5e-5),
    ("cpu", 5, 0, "vgg16", ["model.batch_norm=false"], lambda nets: nets.Vgg(False), 5e-5),
]

# For what the last column does not bound.
BOUNDS = {"decisions": 1e-5, "sgd": 1e-6, "adamw": 1e-6, "sgd alone": 2e-2, "adamw alone": 2e-2}


def check(work, backend, batch, steps, name, options, build, bound):
    pytest.importorskip("torch")
    import torch_nets as nets

    run([built("unit.nn.dump"), backend, batch, steps, work, name, *options])
    found = nets.compare(nets.load(work), build(nets), steps)
    print(", ".join(f"{kind} {e:.0e}" for kind, (e, _) in found.items()))
    for kind, (error, where) in found.items():
        assert error < BOUNDS.get(kind, bound), f"{kind} of {where}"


def networks(backend):
    return pytest.mark.parametrize("case", [pytest.param(c, id=" ".join(c[3:4] + tuple(c[4]))) for c in CASES if c[0] == backend])


@networks("ref")
def test_ref(work, case):
    check(work, *case)


@networks("cpu")
def test_cpu(work, case):
    check(work, *case)
