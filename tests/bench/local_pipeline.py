#!/usr/bin/env python3
"""Overhead of the pipeline of method `local` over its slowest chunk: local_pipeline.py SHOAL [--steps 40] [--batch 32] [--rounds 3]

VGG-16 in two chunks on two ranks, one thread each, so that both cores are loaded at the same time.  In the steady state the
pipeline is as fast as its slowest chunk, whose own time is that of forward, backward, optimizer and input.  Prints both
times and their ratio, for the cut that `shoal` chooses and, to check the measurement, for the replay form, where chunks do
not wait for each other.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/..")
import launch


def run(a, name, *more):
    """Milliseconds per step of one run, and the compute time of its slowest rank."""
    settings = {"run.name": name, "run.epochs": 1000, "run.steps": a.steps, "model.name": "vgg16", "data.file": "glyphs.h5",
                "data.global_batch": a.batch, "optim.lr": 0.01, "optim.momentum": 0.9, "method.name": "local", "method.chunks": 2,
                "eval.every": "1000 epochs", "trace.level": "op", "threads": 1}
    command = [*launch.mpirun(2), a.shoal, "train", "--quiet", "--resume", "never",
               *(x for k, v in settings.items() for x in ("--set", f"{k}={v}")), *more]
    subprocess.run(command, check=True, capture_output=True, text=True)
    show = subprocess.run([a.shoal, "trace", "show", f"runs/{name}", "--steps"], check=True, capture_output=True, text=True).stdout.splitlines()
    columns = show[0].split(",")
    steps = {}
    for line in show[1:]:
        row = dict(zip(columns, line.split(",")))
        steps.setdefault(int(row["rank"]), []).append({k: float(v) for k, v in row.items() if v and k != "rank"})
    warm = a.steps // 4  # warm-up: the pipeline fills, page faults
    period, own = [], []
    for rows in steps.values():
        rows = rows[warm:]
        period.append((rows[-1]["begin_ns"] - rows[0]["begin_ns"]) / (len(rows) - 1) / 1e6)
        own.append(statistics.mean(sum(r[k] for k in ("forward_ns", "backward_ns", "optimizer_ns", "input_ns")) for r in rows) / 1e6)
    return max(period), max(own)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("shoal")
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    a.shoal = os.path.abspath(a.shoal)
    os.environ.update(launch.ENVIRONMENT)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([a.shoal, "data", "synth", "glyphs", "-o", "glyphs.h5", "--train", "2000", "--test", "20", "--size", "32"], check=True,
                       capture_output=True)
        forms = {"in step, queue 1": ["--set", "method.queue=1"], "in step, queue 2": [], "replay": ["--set", "method.replay=4"]}
        results = {name: [] for name in forms}
        for n in range(a.rounds):
            for name, more in forms.items():
                results[name].append(run(a, f"{name.replace(' ', '-').replace(',', '')}-{n}", *more))
    print(f"{'form':>18}  {'ms per minibatch':>16}  {'slowest own, ms':>15}  {'ratio':>6}")
    for name, rounds in results.items():
        period, own = (statistics.median(r[i] for r in rounds) for i in (0, 1))
        ratio = statistics.median(r[0] / r[1] for r in rounds)
        print(f"{name:>18}  {period:>16.1f}  {own:>15.1f}  {ratio:>6.3f}")


if __name__ == "__main__":
    main()
