#!/usr/bin/env python3
"""Are quantised exchanges faster in a new build than in an old one?  swarm_pairs.py OLD NEW [--pairs 20] [--bits 8] [--threads 2]

OLD and NEW are two `shoal` programs.  Each pair trains once with each, one after the other, the first program alternating: two
ranks of method swarm, an MLP of 4.4 million parameters with one sample per step, and an exchange after every step, so that most
of the time is the quantiser's, the decoder's and the averages'.  Prints the geometric mean of the ratio new / old of samples per
second and its 95 % interval, as step_pairs.py does, first for the exchange in --bits and then in 32 bits (--bits 0), which shows
what the rest of the step contributes.  The exit code is 1 if the quantised interval does not lie above 1.

With the default settings it takes about 5 minutes on two idle cores.
"""
import argparse
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]
import launch
from step_pairs import WIDE, interval

RUN = {"model.name": "mlp", "model.widths": "[2048,2048]", "data.file": "data.h5", "data.batch": 1, "optim.lr": 0.001, "run.steps": 64,
       "ckpt.every": "600min", "method.name": "swarm", "method.deterministic": "true", "method.local_steps": 1, "device": "cpu"}


def samples_per_s(program, bits, threads, folder):
    with tempfile.TemporaryDirectory(dir=folder) as run:
        options = {**RUN, "threads": threads, "method.bits": bits, "run.dir": run}
        command = launch.mpirun(2, program, "train", *(a for k, v in options.items() for a in ("--set", f"{k}={v}")))
        env = launch.environment(OMP_NUM_THREADS=str(threads))
        r = subprocess.run(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if r.returncode:
            sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}")
        with open(next(pathlib.Path(run).rglob("metrics.csv"))) as f:
            return float(list(csv.DictReader(f))[-1]["samples_per_s"])  # of the last epoch, when everything is in place


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--pairs", type=int, default=20)
    p.add_argument("--bits", type=int, default=8, choices=(4, 8, 14, 16))
    p.add_argument("--threads", type=int, default=2, help="of each rank")
    a = p.parse_args()
    if a.pairs < 2:
        p.error("--pairs must be 2 or more")
    programs = {"old": os.path.realpath(a.old), "new": os.path.realpath(a.new)}
    ratios = {a.bits: [], 0: []}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([programs["old"], "data", "synth", "glyphs", "-o", "data.h5", "--train", "64", "--test", "2", "--size", "8"],
                       cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for pair in range(a.pairs):
            for bits, values in ratios.items():
                order = ("old", "new") if pair % 2 == 0 else ("new", "old")
                speed = {which: samples_per_s(programs[which], bits, a.threads, folder) for which in order}
                values.append(speed["new"] / speed["old"])
            print(f"# pair {pair + 1} of {a.pairs}: " + ", ".join(f"{b} bits {r[-1]:.3f}" for b, r in ratios.items()), file=sys.stderr, flush=True)
    for bits, values in ratios.items():
        mean, low, high = interval(values)
        print(f"{f'{bits} bits' if bits else '32 bits':8} {len(values):3} pairs  new/old {mean:.4f}  95 % {low:.4f} to {high:.4f}"
              f"{'  (wide: more pairs)' if high / low > WIDE else ''}")
    return 0 if interval(ratios[a.bits])[1] > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
