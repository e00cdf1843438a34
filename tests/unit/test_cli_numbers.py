"""Numbers that make no sense, wherever a user can write one.

Periods, counts and times end up in integers of the program.  Each line below gives one that does not fit or means
nothing; the answer must be one line that names the setting and the value, and exit code 2, before anything is written.
"""
import glob

import pytest

from harness import PLAIN_ENV, assert_one_error, program, run, sets

PERIODS = ("1e20 steps", "1e16 steps", "1e300 epochs", "1e19 epochs", "0.5 epochs", "0 steps", "0s", "1e300", "1e10 s", "20000 d")
SLEEPS = ("sleep:1e300", "sleep:nan", "sleep:-5", "sleep:", "sleep:10x", "sleepy", "3600001")
SETTINGS = (
    *(("ckpt.every", p) for p in PERIODS),
    ("eval.every", "1e20 steps"),
    ("run.log_every", "1e20 steps"),
    ("comm.warn", "1e300"),
    ("comm.hang", "1e300"),
    *(("fault.compute", s) for s in SLEEPS),
    *(("fault.ckpt", s) for s in SLEEPS),
    ("ckpt.keep", "4294967296"),
    ("ckpt.keep", "2147483648"),
    ("method.local_steps", "9223372036854775807"),
    ("method.overlap", "9223372036854775807"),
    ("method.warmup", "9223372036854775807"),
    ("method.cycle", "6148914691236517206"),  # three of them are 2 more than 2^64
    ("method.rebound", "9223372036854775807"),
    ("method.ramp", "9223372036854775807"),
)
METHOD = {"local_steps": "swarm", "overlap": "swarm", "warmup": "ab", "cycle": "ab", "rebound": "ab", "ramp": "ab"}
COMMANDS = (
    ("ckpt prune . --keep 4294967296", '--keep is "4294967296": must be a whole number, 1 to 1000000'),
    ("bench step mlp --threads 4294967297 --seconds 0.01", '--threads is "4294967297": must be a whole number, 1 to 4096'),
    ("bench comm --poll 1e300 --beside 1 --sizes 1", '--poll is "1e300": must be milliseconds, 0 to 1000000'),
)


def shoal(*args, **options):
    return run([program(), *args], base=PLAIN_ENV, timeout=30, **options)


@pytest.fixture(autouse=True)
def run_file(work, glyphs):
    glyphs(32, 8)
    with open("run.yaml", "w") as f:
        f.write("run: { epochs: 1 }\nmodel: { name: mlp, widths: [8, 8, 8] }\ndata: { file: glyphs.h5, batch: 8 }\n")


def train(name, value, *more, **options):
    return shoal("train", "run.yaml", "--quiet", "--allow-faults", "--resume", "never", "--set", f"{name}={value}", *more,
                 **options)


@pytest.mark.parametrize("name, value", SETTINGS)
def test_settings(name, value):
    method = METHOD.get(name.removeprefix("method."))
    r = train(name, value, *(sets(method__name=method) if method else []), code=2)
    assert_one_error(r, f'{name} is "{value}": must be ')
    assert not glob.glob("runs/*/ckpt/*"), "a refused run wrote checkpoints"


@pytest.mark.parametrize("line, words", COMMANDS)
def test_commands(line, words):
    assert_one_error(shoal(*line.split(), code=2), words)


@pytest.mark.parametrize("widths, layer", (("[4294967296, 4294967296]", "fc2"), ("[16777216, 8388608, 16777216]", "fc3")))
def test_weights(widths, layer):
    """2^32 x 2^32 weights wrap around to none; the sum of many layers may pass the bound, too."""
    r = train("model.widths", widths, code=2)
    assert_one_error(r, f"layer {layer}: the model has more than 281474976710656 weights")
    assert not glob.glob("runs/*/ckpt/*"), "a refused run wrote checkpoints"


@pytest.mark.parametrize("name, value", (
    ("ckpt.every", "1e15 steps"), ("ckpt.every", "1e9 s"), ("eval.every", "1e15 epochs"), ("fault.kill_step", "4294967299"),
    ("fault.ckpt", "sleep:0")))
def test_largest(name, value):
    """The largest valid values."""
    train(name, value)
