#!/usr/bin/env python3
"""Numbers no run can mean, wherever a user can write one: cli_numbers.py SHOAL

Periods, counts and times end up in integers of the program.  Each line below gives one that does not fit or means
nothing; the answer must be one line that names the setting and the value, and exit code 2, before anything is written.
"""
import glob
import os
import subprocess
import sys
import tempfile

SHOAL = os.path.abspath(sys.argv[1])
FOREIGN = ("SLURM", "SRUN", "PMI", "OMPI", "MPI_", "HWLOC", "SHOAL")
ENV = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
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
failures = 0


def shoal(*args):
    r = subprocess.run([SHOAL, *args], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
    return r.returncode, r.stderr


def check(ok, *what):
    global failures
    if not ok:
        failures += 1
        print("CHECK failed:", *what)


def refused(what, answer, *words):
    code, err = answer
    check(code == 2, what, f"exit {code}, expected 2\n{err}")
    check(err.count("shoal: error") == 1, what, f"not one line of error\n{err}")
    for word in words:
        check(word in err, what, f"does not say {word!r}\n{err}")


runs = 0


def train(name, value, *more):
    global runs
    runs += 1
    flags = [flag for text in (f"run.name=run{runs}", f"{name}={value}", *more) for flag in ("--set", text)]
    return shoal("train", "run.yaml", "--quiet", "--allow-faults", "--resume", "never", *flags)


with tempfile.TemporaryDirectory(prefix="shoal-numbers-") as folder:
    os.chdir(folder)
    check(shoal("data", "synth", "glyphs", "-o", "glyphs.h5", "--train", "32", "--test", "8")[0] == 0, "no data")
    with open("run.yaml", "w") as f:
        f.write("run: { epochs: 1 }\nmodel: { name: mlp, widths: [8, 8, 8] }\ndata: { file: glyphs.h5, batch: 8 }\n")
    for name, value in SETTINGS:
        method = METHOD.get(name.removeprefix("method."))
        refused(f"{name}={value}", train(name, value, *([f"method.name={method}"] if method else [])), f'{name} is "{value}": must be ')
    for line, words in COMMANDS:
        refused(line, shoal(*line.split()), words)
    # 2^32 x 2^32 weights wrap around to none; the sum of many layers may pass the bound, too
    for widths, layer in (("[4294967296, 4294967296]", "fc2"), ("[16777216, 8388608, 16777216]", "fc3")):
        refused(widths, train("model.widths", widths), f"layer {layer}: the model has more than 281474976710656 weights")
    check(not glob.glob("runs/*/ckpt/*"), "a refused run wrote checkpoints")
    # the largest that mean something
    for name, value in (("ckpt.every", "1e15 steps"), ("ckpt.every", "1e9 s"), ("eval.every", "1e15 epochs"), ("fault.kill_step", "4294967299"), ("fault.ckpt", "sleep:0")):
        code, err = train(name, value)
        check(code == 0, name, value, f"exit {code}, expected 0\n{err}")
print(f"cli_numbers: {failures} failures")
sys.exit(failures != 0)
