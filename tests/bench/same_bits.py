#!/usr/bin/env python3
"""Do two builds of the program train bitwise the same weights?  same_bits.py OLD NEW [--resume] [options]

OLD and NEW are two `shoal` programs.  Both train from the same run file and data, on 2 x 2 pretended ranks, every method in
several cases: small networks with settings that use the special features of the method (sums in flight, quantised models,
new subnets, phases, a pipeline), and resnet20 for convolutions and batch norm.  Compares the last checkpoints: the list of
data sets and the checksum of each (attribute crc32c), except for the clock.  With --resume, NEW resumes from a checkpoint
that OLD wrote in the middle of a cycle, and is compared with the uninterrupted run of OLD.

Prints one line per method, case and seed with a checksum over all data sets of each side, and `same` or `DIFFERENT`.
After an intended change of results, --expect 'model/*running_var' names data sets that may differ; they are listed.
The exit code is 1 if anything else differs.  All cases take 5 minutes on 2 cores; --methods and --cases select some.
"""
import argparse
import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import zlib

import h5py

sys.dont_write_bytecode = True  # no files among the sources
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
import crafted
from launch import environment, mpirun

TOPOLOGY = "2x2"
CLOCK = ["train/seconds"]  # not a result of training
MIDDLE = {"small.h5": 14, "images.h5": 3}  # --resume starts from the checkpoint of this step, or one of the next two

# An mlp of three hidden layers: 230 samples, 24 per step, 10 steps in each of 3 epochs.
MLP = {"run.epochs": 3, "model.name": "mlp", "model.widths": "[24,20,16,12]", "model.norm": "batch", "model.dropout": 0.1,
       "data.file": "small.h5", "data.batch": 6, "optim.lr": 0.05, "optim.momentum": 0.9, "optim.nesterov": "true",
       "optim.weight_decay": 1e-3, "optim.schedule": "cosine", "optim.warmup_epochs": 0.5}
ADAMW = {"optim.name": "adamw", "optim.lr": 0.005, "optim.momentum": None, "optim.nesterov": None, "optim.weight_decay": 0.01,
         "optim.clip": 0.5}
# resnet20 on 32 x 32 pixels with augmentation: 16 samples per step, 4 steps in each of 2 epochs.
RESNET = {"run.epochs": 2, "model.name": "resnet20", "model.dropout": 0.2, "data.file": "images.h5", "data.batch": 4,
          "data.augment": "[crop4,hflip]", "optim.lr": 0.05, "optim.momentum": 0.9, "optim.weight_decay": 5e-4}
BUCKETS = {"method.bucket": 0.002, "method.first_bucket": 0.001}  # MiB: several even in a small network

CASES = {  # method: case: settings
    "sync": {
        "buckets": {**MLP, **BUCKETS},
        "bf16": {**MLP, **ADAMW, **BUCKETS, "method.wire": "bf16", "method.algorithm": "two-level"},
        "resnet20": RESNET,
    },
    "local-sgd": {
        "node level": {**MLP, "method.period": 4, "method.switch_epoch": 1, "method.node_level": "true"},
        "f16": {**MLP, "method.period": 7, "method.wire": "f16"},
        "resnet20": {**RESNET, "method.period": 3},
    },
    "daso": {
        "phases": {**MLP, "method.warmup_epochs": 1, "method.cooldown_epochs": 1, "method.every": 4, "method.wait": 3},
        "by loss": {**MLP, "method.warmup_epochs": 0, "method.cooldown_epochs": 0, "method.patience": 0, "method.threshold": 0.9},
        "quirks": {**MLP, "method.warmup_epochs": 0, "method.cooldown_epochs": 0, "method.every": 4, "method.wait": 3,
                   "method.ref_quirks": "true"},
        "resnet20": {**RESNET, "method.warmup_epochs": 0, "method.cooldown_epochs": 1, "method.every": 2, "method.wait": 2},
    },
    "swarm": {
        "8 bits": {**MLP, "method.deterministic": "true", "method.local_steps": 2, "method.local_steps_draw": "geometric"},
        "pull": {**MLP, "method.deterministic": "true", "method.variant": "pull", "method.bits": 4, "method.rounding": "stochastic",
                 "method.graph": "ring"},
        "blocking": {**MLP, "method.deterministic": "true", "method.variant": "blocking", "method.bits": 16, "method.local_steps": 3},
        "resnet20": {**RESNET, "method.deterministic": "true", "method.variant": "nonblocking-symmetric", "method.bits": 14},
    },
    "ist": {
        "carry": {**MLP, "method.round": 4, "method.moments": "carry"},
        "stratified": {**MLP, "method.round": 7, "method.partition": "stratified"},
        "channels": {**RESNET, "model.name": "vgg16", "model.width": 0.125, "method.cut": "units", "method.round": 3},
        "blocks": {**RESNET, "method.cut": "blocks", "method.round": 3},
    },
    "ab": {
        "stale": {**MLP, **ADAMW, "method.warmup": 5, "method.cycle": 6, "method.rebound": 2, "method.ramp": 3},
        "learned": {**MLP, "method.mode": "only-learned", "method.warmup": 3, "method.cycle": 8, "method.rebound": 1, "method.ramp": 2,
                    "method.swap": "true", "method.reset": "true", "method.cut_first": "true"},
        "resnet20": {**RESNET, "method.warmup": 2, "method.cycle": 4, "method.rebound": 1, "method.ramp": 1},
    },
    "local": {
        "replicas": {**MLP, "method.chunks": 2},
        "pipeline": {**MLP, "method.cut": "[1,2,3]", "method.queue": 8},
        "overlapping": {**MLP, "method.form": "overlapping", "optim.clip": 0.3},
        "resnet20": {**RESNET, "method.cut": "[4]"},
    },
}


def write_run_file(path, method, settings, seed, every):
    sections = {"run": {"seed": seed, "log_every": "1000 steps"}, "method": {"name": method}}
    for key, value in settings.items():
        section, option = key.split(".")
        if value is not None:
            sections.setdefault(section, {})[option] = value
    with open(path, "w") as f:
        f.write(f"threads: 1\nckpt: {{ every: {every}, keep: 9 }}\n")
        for section, options in sections.items():
            f.write(f"{section}: {{ {', '.join(f'{k}: {v}' for k, v in options.items())} }}\n")


def train(program, run_file, name, *more):
    command = [*mpirun(4), program, "train", run_file, "--quiet", "--topo", TOPOLOGY, "--set", f"run.name={name}", *more]
    r = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}")


def newest_checkpoint(name):
    files = sorted(f for f in os.listdir(f"runs/{name}/ckpt") if re.fullmatch(r"step-\d+\.h5", f))
    return f"runs/{name}/ckpt/{files[-1]}"


def sums(name):
    """Checksum of every data set of a run's last checkpoint."""
    with h5py.File(newest_checkpoint(name)) as f:
        return {path: int(d.attrs["crc32c"]) for path, d in crafted.data_sets(f) if path not in CLOCK}


def summary(crcs):
    """A checksum over names and checksums."""
    return zlib.crc32("".join(f"{path} {crc:08x}\n" for path, crc in sorted(crcs.items())).encode())


def compare(a, method, case, seed):
    """Trains both sides of a case and prints its line; returns data sets that differ or exist on one side only."""
    name = f"{method}-{case.replace(' ', '-')}-{seed}"
    run_file = f"{name}.yaml"
    settings = CASES[method][case]
    middle = MIDDLE[settings["data.file"]] + seed % 3
    write_run_file(run_file, method, settings, seed, f"{middle} steps" if a.resume else "1000 epochs")
    train(a.old, run_file, f"{name}-old")
    train(a.new, run_file, f"{name}-new", *(["--resume", f"runs/{name}-old/ckpt/step-{middle:09d}.h5"] if a.resume else []))
    old, new = sums(f"{name}-old"), sums(f"{name}-new")
    different = sorted(p for p in {*old, *new} if old.get(p) != new.get(p))
    expected = [p for p in different if any(fnmatch.fnmatchcase(p, e) for e in a.expect)]
    kept = [{p: c for p, c in side.items() if p not in expected} for side in (old, new)]
    verdict = "same" if kept[0] == kept[1] else "DIFFERENT"
    print(f"{method:10} {case:12} {seed:4}  {len(old):4}  {summary(kept[0]):08x}  {summary(kept[1]):08x}  {verdict}"
          f"{f', {len(expected)} differ as expected' if expected else ''}", flush=True)
    return [p for p in different if p not in expected], expected, old, new


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--resume", action="store_true", help="NEW resumes from a checkpoint of OLD")
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--methods", default=",".join(CASES))
    p.add_argument("--cases", help="comma-separated names of cases; all if not given")
    p.add_argument("--expect", action="append", default=[], metavar="PATTERN", help="data sets that may differ; may be repeated")
    a = p.parse_args()
    a.old, a.new = os.path.realpath(a.old), os.path.realpath(a.new)
    plan = [(m, c, int(s)) for m in a.methods.split(",") for c in CASES[m] if not a.cases or c in a.cases.split(",")
            for s in a.seeds.split(",")]
    if not plan:
        sys.exit("no such case")
    failed = expected = 0
    with tempfile.TemporaryDirectory(prefix="same-bits-") as folder:
        os.chdir(folder)
        for name, size, train_count, test in (("small", 16, 230, 40), ("images", 32, 64, 16)):
            subprocess.run([a.old, "data", "synth", "glyphs", "-o", f"{name}.h5", "--train", str(train_count), "--test", str(test),
                            "--size", str(size), "--seed", "3"], check=True, capture_output=True)
        print(f"{'method':10} {'case':12} seed  sets  {'old':8}  {'new':8}")
        for line in plan:
            wrong, meant, old, new = compare(a, *line)
            failed, expected = failed + bool(wrong), expected + bool(meant)
            for path in wrong[:8]:
                print(f"    {path}: {old.get(path, 'missing')}, {new.get(path, 'missing')}")
            if len(wrong) > 8:
                print(f"    and {len(wrong) - 8} more")
        os.chdir("/")
    print(f"{len(plan)} lines, {failed} different" + (f", {expected} only in {' '.join(a.expect)}" if expected else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
