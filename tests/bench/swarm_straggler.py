#!/usr/bin/env python3
"""Effect of a slow rank on the others, as ratios measured in one run.

swarm_straggler.py SHOAL [--ranks 4] [--ms 20] [--rounds 3]

Compute is simulated on every rank (a sleep that polls, fault.compute), so that the number of cores does not matter: in one
run all ranks need --ms per step, in another rank 1 needs 10 times that.  Each run is stopped after a while; the speed of
the other ranks is computed from their trace (steps, and time from the first to the last).  Rounds alternate.  Prints, per
variant, the ratio slow / even of the others' mean speed, its range over rounds, and the speed of the slow rank.  pull and
nonblocking must keep at least 0.9; blocking shows the cost of waiting.
"""
import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time


sys.path.insert(0, f"{os.path.dirname(os.path.realpath(__file__))}/..")
import launch
from harness import STEP, Trace, kill_all, ranks_of, read, wait_for


def run(shoal, name, ranks, variant, even_ms, slow_ms, seconds):
    """Steps per second of every rank."""
    with open("rank.sh", "w") as f:
        f.write(f'#!/bin/sh\nr=$OMPI_COMM_WORLD_RANK\nms={even_ms}\n[ "$r" = 1 ] && ms={slow_ms}\n'
                f'exec "$@" --set fault.rank=$r --set fault.compute=sleep:$ms\n')
    os.chmod("rank.sh", 0o755)
    options = {"run.name": name, "run.epochs": 1000, "eval.every": "1000 epochs", "model.name": "mlp", "model.widths": "[64,32]",
               "data.file": "glyphs.h5", "data.batch": 4, "optim.lr": 0.01, "method.name": "swarm", "method.variant": variant,
               "run.log_every": "10 steps"}
    command = launch.mpirun(ranks, "./rank.sh", shoal, "train", "--allow-faults")
    for key, value in options.items():
        command += ["--set", f"{key}={value}"]
    with open(f"{name}.out", "w") as log:
        job = subprocess.Popen(command, env=launch.environment(), stdout=log, stderr=log)
    try:
        wait_for(f"runs/{name}/log.txt", "step 10:")  # warm-up
        time.sleep(seconds)
        os.kill(ranks_of(job)[0], signal.SIGUSR1)
        if job.wait(120) != 75:
            raise SystemExit(f"{name}: exit {job.returncode}\n" + read(f"{name}.out"))
    finally:
        kill_all(job)
    speeds = []
    for rank in range(ranks):
        records = Trace(name, rank).records
        steps = records[records["kind"] == STEP]
        speeds.append((len(steps) - 1) / ((int(steps["t1_ns"][-1]) - int(steps["t1_ns"][0])) * 1e-9))
    shutil.rmtree(f"runs/{name}")
    return speeds


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shoal")
    p.add_argument("--ranks", type=int, default=4)
    p.add_argument("--ms", type=float, default=20)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--variants", default="nonblocking,pull,nonblocking-symmetric,blocking")
    a = p.parse_args()
    shoal = os.path.realpath(a.shoal)
    work = tempfile.mkdtemp(prefix="swarm-")
    os.chdir(work)
    failed = []
    try:
        subprocess.run([shoal, "data", "synth", "glyphs", "-o", "glyphs.h5", "--train", "4000", "--test", "40", "--size", "28"],
                       check=True, capture_output=True)
        print(f"{a.ranks} ranks, {a.ms:g} ms of simulated compute per step, rank 1 ten times that; {a.rounds} rounds of {a.seconds:g} s")
        for variant in a.variants.split(","):
            ratios, slow = [], []
            for round_ in range(a.rounds):
                even = run(shoal, f"even{round_}", a.ranks, variant, a.ms, a.ms, a.seconds)
                uneven = run(shoal, f"slow{round_}", a.ranks, variant, a.ms, 10 * a.ms, a.seconds)
                others = [r for r in range(a.ranks) if r != 1]
                ratios.append(statistics.mean(uneven[r] for r in others) / statistics.mean(even[r] for r in others))
                slow.append(uneven[1] / statistics.mean(even))
            ratio = statistics.median(ratios)
            print(f"{variant:22} the others keep {ratio:.3f} of their steps per second ({min(ratios):.3f} to {max(ratios):.3f}), "
                  f"the slow one {statistics.median(slow):.3f}", flush=True)
            if variant != "blocking" and ratio < 0.9:
                failed.append(variant)
    finally:
        os.chdir("/")
        shutil.rmtree(work)
    raise SystemExit(f"below 0.9: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
