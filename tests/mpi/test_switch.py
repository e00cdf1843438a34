"""A checkpoint of any method goes on under any other.  The oracle is the model itself: at a learning rate of nothing, loading it,
cutting it up as the other method wants, taking a step and putting it together again may move it by rounding at most.
"""
import h5py

from harness import FULL, newest, random_source, sets, shoal, status, train

METHODS = {
    "sync": {},
    "local-sgd": dict(method__period=3),
    "daso": {},
    "swarm": dict(method__bits=0),  # the quantiser moves a model by more than rounding
    "ab": dict(method__warmup=3, method__cycle=6, method__rebound=2, method__ramp=2, method__cutoff=0),
    "ist": dict(method__round=4),
    "local": dict(method__chunks=2),
}
NET = sets(model__name="mlp", model__widths="[14,12,10,9]", model__norm="batch", data__file="glyphs.h5", data__batch=10,
           run__epochs=4, optim__momentum=0.9)


def test_switch(glyphs):
    """Every checkpoint is exported whole, verifies, and goes on under other methods; each says what it does with the state."""
    glyphs(200, 40, 8)
    rng = random_source("switch")
    for name, options in METHODS.items():
        train(2, name, *NET, *sets(method__name=name, optim__lr=0.05, fault__stop_step=8, **options), "--allow-faults", code=75)
    layers = None
    for name in METHODS:
        file = newest(name)
        shoal("ckpt", "verify", file)
        shoal("ckpt", "export", file, "-o", f"{name}.h5")
        with h5py.File(f"{name}.h5") as f:
            shapes = {n: f[n].shape for n in f}
        layers = layers or shapes
        assert shapes == layers, f"{name} exports {shapes}, sync {layers}"
        others = [m for m in METHODS if m != name]
        for other in others if FULL else rng.sample(others, 2):
            print(name, "then", other, flush=True)
            next_step = sets(method__name=other, optim__lr=1e-30, run__steps=status(name)["step"] + 1, **METHODS[other])
            r = train(2, f"{name}-{other}", *NET, "--resume", file, *next_step)
            assert f"method {name}) then" in r.stdout, r.stdout
            assert "DIFFERENT" not in r.stdout, r.stdout
            assert ("; lost: " in r.stdout) == (name != "sync"), f"{name}: what is lost {r.stdout}"
            with h5py.File(file) as before, h5py.File(newest(f"{name}-{other}")) as after:
                for n in (f"model/{n}" for n in shapes if "running" not in n):
                    a, b = before[n][()], after[n][()]
                    moved = abs(a - b).max() / abs(a).max()
                    assert moved < 1e-5, f"{name}, then {other}: {n} moved by {moved}"
