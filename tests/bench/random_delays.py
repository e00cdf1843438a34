#!/usr/bin/env python3
"""What ranks lose to random delays of each other, by method.

random_delays.py SHOAL [--topo 4x2] [--ms 30] [--mean 10] [--steps 200] [--rounds 3]

Compute is simulated on every rank (a sleep that polls, fault.compute, --ms per step), so that the number of cores does not matter.
Each method runs without delays and with them: exponential with this mean, drawn for every rank and step (fault.delay), the same
for all methods.  From the traces: the time of a step, from the end of step 10 to that of the last one, of the slowest rank.  *lost*
is the difference; a rank's own delays are --mean of it, and the rest is waiting for others.  Prints a table in Markdown; the last
columns are the ratios to sync.  local-sgd and daso must wait at most half as long as sync does.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, f"{os.path.dirname(os.path.realpath(__file__))}/..")
import launch
from harness import STEP, Trace, read

METHODS = {
    "sync": {"method.name": "sync"},
    "local-sgd, period 8": {"method.name": "local-sgd", "method.period": 8},
    "local-sgd, period 8, node level": {"method.name": "local-sgd", "method.period": 8, "method.node_level": "true"},
    "daso, B = 4, W = 1": {"method.name": "daso", "method.warmup_epochs": 0, "method.cooldown_epochs": 0, "method.every": 4,
                           "method.wait": 1},
    "daso, B = 8, W = 2": {"method.name": "daso", "method.warmup_epochs": 0, "method.cooldown_epochs": 0, "method.every": 8,
                           "method.wait": 2},
}
FIRST = 10


def step_ms(shoal, a, method, mean):
    """Milliseconds of a step."""
    nodes, each = a.topo.split("x")
    ranks = int(nodes) * int(each)
    with open("rank.sh", "w") as f:
        f.write(f'#!/bin/sh\nexec "$@" --set fault.rank=$OMPI_COMM_WORLD_RANK --set fault.compute=sleep:{a.ms}\n')
    os.chmod("rank.sh", 0o755)
    options = {"run.name": "r", "run.epochs": 1, "run.steps": a.steps, "eval.every": "never", "ckpt.every": "never", "model.name": "mlp",
               "model.widths": "[64,32]", "data.file": "glyphs.h5", "data.batch": 2, "optim.lr": 0.01, "fault.delay": mean, **method}
    command = launch.mpirun(ranks, "./rank.sh", shoal, "train", "--allow-faults", "--resume", "never", "--topo", a.topo)
    for key, value in options.items():
        command += ["--set", f"{key}={value}"]
    with open("out", "w") as log:
        if subprocess.run(command, env=launch.environment(), stdout=log, stderr=log).returncode:
            raise SystemExit(read("out"))
    slowest = 0
    for rank in range(ranks):
        records = Trace("r", rank).records
        ends = records[records["kind"] == STEP]["t1_ns"]
        slowest = max(slowest, (int(ends[-1]) - int(ends[FIRST])) / (len(ends) - 1 - FIRST) * 1e-6)
    shutil.rmtree("runs")
    return slowest


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shoal")
    p.add_argument("--topo", default="4x2", help="nodes x ranks, pretended on this machine")
    p.add_argument("--ms", type=float, default=30)
    p.add_argument("--mean", type=float, default=10)
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    shoal = os.path.realpath(a.shoal)
    work = tempfile.mkdtemp(prefix="delays-")
    os.chdir(work)
    times = {name: ([], []) for name in METHODS}
    try:
        subprocess.run([shoal, "data", "synth", "glyphs", "-o", "glyphs.h5", "--train", "6000", "--test", "20", "--size", "28"],
                       check=True, capture_output=True)
        for _ in range(a.rounds):
            for name, method in METHODS.items():
                for mean, to in zip((0, a.mean), times[name]):
                    to.append(step_ms(shoal, a, method, mean))
    finally:
        os.chdir("/")
        shutil.rmtree(work)
    if statistics.median(times["sync"][0]) > 1.3 * a.ms:
        print(f"the machine is too busy: without delays a step of {a.ms:g} ms took {statistics.median(times['sync'][0]):.0f} ms")
    print(f"| {a.topo}, {a.ms:g} ms a step, delays of {a.mean:g} ms | without, ms | with, ms | lost, ms | waits, ms | lost / sync's | waits / sync's |")
    print("|---|---|---|---|---|---|---|")
    failed, sync = [], None
    for name, (even, uneven) in times.items():
        without, with_ = statistics.median(even), statistics.median(uneven)
        lost, waits = with_ - without, with_ - without - a.mean
        sync = sync or (lost, waits)
        print(f"| {name} | {without:.1f} | {with_:.1f} | {lost:.1f} | {waits:.1f} | {lost / sync[0]:.2f} | {waits / sync[1]:.2f} |")
        if name != "sync" and waits > sync[1] / 2:
            failed.append(name)
    raise SystemExit(f"more than half of what sync waits: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
