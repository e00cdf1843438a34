#!/usr/bin/env python3
"""Is a new build as fast as an old one?  step_pairs.py OLD NEW [--pairs 20] [--models mlp,resnet20,vgg16,resnet18] [--seconds 2]

OLD and NEW are two `shoal` programs.  Each pair runs `shoal bench step MODEL` once with each, one after the other on
the same core with one thread; the first program alternates, and so do models, so that slow changes of the machine affect
all alike.  Prints per model the geometric mean of the ratio new / old of samples per second, its 95 % interval (paired
t-interval of the logarithms), and whether that interval reaches --at-least.  The exit code is 1 if it does not for a model.

An interval wider than 4 % is inconclusive and marked: use more pairs, or a machine with less load.  With the default
settings a run takes 15 minutes on an idle core.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

LEVEL = 0.95
WIDE = 1.04  # upper over lower end


def t_quantile(level, freedom):
    """t with P(|T| <= t) = level, by integrating the density of Student's distribution (Simpson's rule) and bisection."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def inside(t, n=2000):
        f = [scale * (1 + (t * i / n) ** 2 / freedom) ** (-(freedom + 1) / 2) for i in range(n + 1)]
        return 2 * t / n / 3 * (f[0] + f[-1] + 4 * sum(f[1:-1:2]) + 2 * sum(f[2:-1:2]))

    low, high = 0.0, 1.0
    while inside(high) < level:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < level else (low, middle)
    return high


def interval(ratios):
    """Geometric mean, and the limits of its interval."""
    logs = [math.log(r) for r in ratios]
    mean = statistics.mean(logs)
    half = t_quantile(LEVEL, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return [math.exp(x) for x in (mean, mean - half, mean + half)]


def samples_per_s(program, model, a):
    command = [program, "bench", "step", model, "--json", "--threads", "1", "--seconds", str(a.seconds)]
    command += ["--batch", str(a.batch)] if a.batch else []
    r = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    return json.loads(r.stdout)["samples_per_s"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--pairs", type=int, default=20)
    p.add_argument("--models", default="mlp,resnet20,vgg16,resnet18")
    p.add_argument("--seconds", type=float, default=2, help="time per run, at least 3 steps")
    p.add_argument("--batch", type=int, help="batch size (default: set per model)")
    p.add_argument("--at-least", type=float, default=0.99)
    p.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    a = p.parse_args()
    if a.pairs < 2:
        p.error("--pairs must be 2 or more")
    programs = {"old": os.path.realpath(a.old), "new": os.path.realpath(a.new)}
    os.sched_setaffinity(0, {a.core})  # inherited by the programs started here
    ratios = {model: [] for model in a.models.split(",")}
    for pair in range(a.pairs):
        for model in ratios:
            order = ("old", "new") if pair % 2 == 0 else ("new", "old")
            speed = {which: samples_per_s(programs[which], model, a) for which in order}
            ratios[model].append(speed["new"] / speed["old"])
        print(f"# pair {pair + 1} of {a.pairs}: " + ", ".join(f"{m} {r[-1]:.3f}" for m, r in ratios.items()), file=sys.stderr, flush=True)
    slower = 0
    print(f"{'model':10} {'pairs':>5}  {'new/old':>7}  {'95 % interval':>16}  verdict")
    for model, values in ratios.items():
        mean, low, high = interval(values)
        slower += high < a.at_least
        verdict = f"reaches {a.at_least:g}" if high >= a.at_least else f"SLOWER: below {a.at_least:g}"
        print(f"{model:10} {len(values):5}  {mean:7.4f}  {low:7.4f}–{high:<8.4f}  {verdict}"
              f"{' (wide: more pairs)' if high / low > WIDE else ''}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
