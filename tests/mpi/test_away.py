"""Training where the host cannot reach the backend's memory: the program with its backend behind a veil (tests/veil/veil.h) trains the
same bits, and no host code touches what it may not."""
from harness import METHODS, assert_equal, built, newest, program, run, sampled, sets, train, train_command

NET = sets(model__name="mlp", model__widths="[24,20,16]", model__norm="batch", model__dropout=0.1, data__file="glyphs.h5", data__batch=8,
           data__prefetch=2, optim__lr=0.05, optim__momentum=0.9, optim__clip=1, run__steps=14, threads=1)
CASES = {
    **{name: sets(method__name=name, **({} if name != "sync" else dict(method__bucket=0.002, method__first_bucket=0.001))) + options
       for name, options in METHODS.items()},
    "skip": sets(method__name="sync", method__wire="bf16", method__algorithm="two-level", numbers__bad="skip", optim__name="adamw"),
    "halves": sets(method__name="daso", method__warmup_epochs=1),
    "overlapping": sets(method__name="local", method__form="overlapping"),
    "free": sets(method__name="local-sgd", method__period=4, method__node_level="true"),
}


def without(options, *keys):
    """Options that a case replaces, such as momentum, which adamw refuses."""
    pairs = list(zip(options[::2], options[1::2]))
    return [a for pair in pairs if not pair[1].startswith(tuple(f"{k}=" for k in keys)) for a in pair]


def test_away(glyphs):
    glyphs(160, 40, 8)
    for name in sampled(list(CASES), 2):
        net = without(NET, "optim.momentum") if "adamw" in " ".join(CASES[name]) else NET
        train(4, f"{name}-here", *net, *CASES[name], "--topo", "2x2")
        command = train_command(4, f"{name}-away", *net, *CASES[name], "--topo", "2x2")
        run([built("shoal.veiled") if word == program() else word for word in command])
        assert_equal(newest(f"{name}-here"), newest(f"{name}-away"), name)
