#!/usr/bin/env python3
"""What recording costs: trace_overhead.py SHOAL [--pairs 20] [--runs mlp,resnet20] [--ranks 2] [--level op] [--seconds 24]

Each pair is one run with trace.level at --level and one with `off`, one after the other; the first of the two alternates, and so do
the models, so that slow changes of the machine affect both alike.  Ranks have one thread each.  The time of a step is that of rank
0's clock from row to row of metrics.csv, divided by the steps between, and the median of these epochs: all that recording does between
steps and at its flushes (every 5 s: an epoch takes longer) is in it, start-up and a moment in which the machine did something else are
not.  Nothing is evaluated or saved meanwhile.

Prints per model the geometric mean of the ratio on / off, its 95 % interval (paired t-interval of the logarithms), and what `shoal`
itself says that tracing took.  The exit code is 1 if the upper end of an interval is not below --at-most.  With the default settings
it takes about 45 minutes.
"""
import argparse
import csv
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, f"{os.path.dirname(os.path.realpath(__file__))}/..")
import launch
from step_pairs import interval

EPOCHS = 5  # the first is warm-up
MODELS = {  # options, and samples of the first guess
    "mlp": ({"model.name": "mlp", "model.widths": "[512,512]", "data.global_batch": 128}, 28, 12_800),
    "resnet20": ({"model.name": "resnet20", "data.global_batch": 128}, 32, 512),
}


def run(a, model, level, samples):
    """Milliseconds per step, and the share of the time that tracing took by its own account (NaN with level off)."""
    options, size, _ = MODELS[model]
    data = f"{model}-{samples}.h5"
    if not os.path.exists(data):
        subprocess.run([a.shoal, "data", "synth", "glyphs", "-o", data, "--train", str(samples), "--test", "10", "--size", str(size)],
                       check=True, capture_output=True)
    settings = {"run.name": "r", "run.epochs": EPOCHS, "data.file": data, "optim.lr": 0.01, "method.name": "sync", "threads": 1,
                "eval.every": "1000 epochs", "ckpt.every": "1000 epochs", "trace.level": level, **options}
    command = [*launch.mpirun(a.ranks), a.shoal, "train", "--quiet", *(x for k, v in settings.items() for x in ("--set", f"{k}={v}"))]
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    with open("runs/r/metrics.csv") as f:
        rows = list(csv.DictReader(f))
    with open("runs/r/log.txt") as f:
        said = re.search(r"tracing +took ([\d.]+) %", f.read())
    shutil.rmtree("runs/r")
    ms = [1e3 * (float(b["time_s"]) - float(a["time_s"])) / (int(b["step"]) - int(a["step"])) for a, b in zip(rows, rows[1:])]
    return statistics.median(ms), float(said[1]) if said else float("nan")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shoal")
    p.add_argument("--pairs", type=int, default=20)
    p.add_argument("--runs", default="mlp,resnet20", help=f"of {', '.join(MODELS)}")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--level", default="op", choices=("op", "step"))
    p.add_argument("--seconds", type=float, default=24, help="measured of each run, about")
    p.add_argument("--at-most", type=float, default=1.01)
    a = p.parse_args()
    if a.pairs < 2:
        p.error("--pairs must be 2 or more")
    a.shoal = os.path.realpath(a.shoal)
    os.environ.update(launch.ENVIRONMENT)
    models = a.runs.split(",")
    ratios, off_ms, own = ({m: [] for m in models} for _ in range(3))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        samples = {}
        for m in models:
            ms = run(a, m, "off", MODELS[m][2])[0]
            batch = MODELS[m][0]["data.global_batch"]
            samples[m] = batch * max(round(1e3 * a.seconds / (EPOCHS - 1) / ms), 2)
            print(f"# {m}: {ms:.2f} ms per step, {EPOCHS - 1} x {samples[m] // batch} steps are measured", file=sys.stderr, flush=True)
        for pair in range(a.pairs):
            for m in models:
                ms = {}
                for level in (a.level, "off") if pair % 2 == 0 else ("off", a.level):
                    ms[level], said = run(a, m, level, samples[m])
                    if level != "off":
                        own[m].append(said)
                ratios[m].append(ms[a.level] / ms["off"])
                off_ms[m].append(ms["off"])
            print(f"# pair {pair + 1} of {a.pairs}: " + ", ".join(f"{m} {r[-1]:.4f}" for m, r in ratios.items()), file=sys.stderr, flush=True)
        os.chdir("/")
    print(f"{a.ranks} ranks, trace.level: {a.level} against off, {a.pairs} pairs")
    print(f"{'model':10} {'ms/step off':>11}  {'on/off':>7}  {'95 % interval':>16}  {'own account':>11}  verdict")
    bad = 0
    for m in models:
        mean, low, high = interval(ratios[m])
        bad += high >= a.at_most
        print(f"{m:10} {statistics.median(off_ms[m]):11.2f}  {mean:7.4f}  {low:7.4f}–{high:<8.4f}  {statistics.median(own[m]):9.3f} %  "
              f"{'below' if high < a.at_most else 'NOT SHOWN to be below'} {a.at_most:g}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
