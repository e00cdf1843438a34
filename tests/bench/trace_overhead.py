#!/usr/bin/env python3
"""What recording costs: trace_overhead.py SHOAL [--runs mlp,resnet20] [--ranks 2] [--level op] [--seconds 60] [--block 0.05]

One run per model, in which blocks of steps with records and blocks without take turns (fault.trace_off), so that both see the same
memory, cores and load of the machine; ranks have one thread each.  The trace itself has the times: of its blocks those of their
steps, of the blocks between them what is left.  Each block with records and the mean of the blocks before and after it are a
pair.  What is due to be written waits for a block with records, so that such a block pays for twice its own records: the cost is an
upper bound.  Blocks in which an epoch ends are left out, and so is the first.

Prints per model the geometric mean of the ratio on / off, its 95 % interval (paired t-interval of the logarithms; neighbours share
a block, so only every second pair counts), and what `shoal` itself says that tracing took, as a share of all blocks.  The exit code is 1
if the upper end of an interval is not below --at-most.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import h5py

sys.path.insert(0, f"{os.path.dirname(os.path.realpath(__file__))}/..")
import launch
from step_pairs import interval

STEP = 9  # kind of a record: docs/trace-format.md
MODELS = {  # options, size of an image, samples
    "mlp": ({"model.name": "mlp", "model.widths": "[512,512]", "data.global_batch": 128}, 28, 256_000),
    "resnet20": ({"model.name": "resnet20", "data.global_batch": 128}, 32, 25_600),
}


def run(a, model, steps, block):
    """Steps as (number, start, end) in ns of rank 0 that have records, and the percentage that tracing took by its own account."""
    options, size, samples = MODELS[model]
    data = f"{model}.h5"
    if not os.path.exists(data):
        subprocess.run([a.shoal, "data", "synth", "glyphs", "-o", data, "--train", str(samples), "--test", "10", "--size", str(size)],
                       check=True, capture_output=True)
    settings = {"run.name": "r", "run.steps": steps, "run.epochs": 1000, "data.file": data, "optim.lr": 0.01, "method.name": "sync", "threads": 1,
                "eval.every": "1000 epochs", "ckpt.every": "1000 epochs", "trace.level": a.level, "fault.trace_off": block, **options}
    command = [*launch.mpirun(a.ranks), a.shoal, "train", "--quiet", "--allow-faults",
               *(x for k, v in settings.items() for x in ("--set", f"{k}={v}"))]
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    with h5py.File("runs/r/trace/attempt-0001-node-00000.h5") as f:
        records = f["rank-00000/records"][:]
    with open("runs/r/log.txt") as f:
        said = float(re.search(r"tracing +took ([\d.]+) %", f.read())[1])
    shutil.rmtree("runs/r")
    records = records[records["kind"] == STEP]
    return list(zip(records["step"].tolist(), records["t0_ns"].tolist(), records["t1_ns"].tolist())), said


def blocks(recorded, block, epoch):
    """ns per step of each block from the second on; None if an epoch ends in it.  Even numbers have records."""
    at = {step: (t0, t1) for step, t0, t1 in recorded}
    ns = []
    for first in range(2 * block, max(at) - 2 * block, 2 * block):
        for begin, end, lasts in ((first, first + block, at[first + block - 1][1] - at[first][0]),
                                  (first + block, first + 2 * block, at[first + 2 * block][0] - at[first + block - 1][1])):
            ns.append(None if begin // epoch != end // epoch or begin % epoch == 0 else lasts / block)
    return ns


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shoal")
    p.add_argument("--runs", default="mlp,resnet20", help=f"of {', '.join(MODELS)}")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--level", default="op", choices=("op", "step"))
    p.add_argument("--seconds", type=float, default=60, help="of each run, about")
    p.add_argument("--block", type=float, default=0.05, help="seconds, about; at least three steps")
    p.add_argument("--at-most", type=float, default=1.01)
    a = p.parse_args()
    a.shoal = os.path.realpath(a.shoal)
    os.environ.update(launch.ENVIRONMENT)
    bad = 0
    print(f"{a.ranks} ranks, trace.level: {a.level}, blocks with and without records in turns")
    print(f"{'model':10} {'ms/step off':>11}  {'pairs':>5} of {'steps':5}  {'on/off':>7}  {'95 % interval':>16}  {'own account':>11}  verdict")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for m in a.runs.split(","):
            settings, _, samples = MODELS[m]
            epoch = samples // settings["data.global_batch"]
            first, _ = run(a, m, 100, 50)
            step_s = statistics.median(t1 - t0 for _, t0, t1 in first) * 1e-9
            block = max(round(a.block / step_s), 3)
            recorded, own = run(a, m, max(round(a.seconds / step_s), 20 * block), block)
            ns = blocks(recorded, block, epoch)
            triples = [(ns[i], ns[i - 1], ns[i + 1]) for i in range(2, len(ns) - 1, 4)]
            pairs = [(on, (before + after) / 2) for on, before, after in triples if None not in (on, before, after)]
            mean, low, high = interval([on / off for on, off in pairs])
            bad += high >= a.at_most
            print(f"{m:10} {statistics.median(off for _, off in pairs) * 1e-6:11.2f}  {len(pairs):5} of {block:5}  {mean:7.4f}  {low:7.4f}–{high:<8.4f}  "
                  f"{own:9.3f} %  {'below' if high < a.at_most else 'NOT SHOWN to be below'} {a.at_most:g}", flush=True)
        os.chdir("/")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
