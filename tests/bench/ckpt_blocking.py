#!/usr/bin/env python3
"""How long training waits for a large checkpoint, and whether what comes back is what was saved.

ckpt_blocking.py SHOAL [--ranks 8] [--method local-sgd] [--widths 4000,3000] [--saves 4] [--every 8]

An MLP with momentum on made-up digits; ranks of local-sgd and swarm have weights of their own, so each writes a shard (about 1 GB
altogether with 8 ranks and these widths), those of sync do not, and rank 0 writes all.  Per save, in Markdown: its size, the time until
it was there, and how long training waited for it, from the trace, longest over the ranks: before it went on, and for the save to
be finished when the next one was due, which is 0 if there are enough steps between them.  The load of the machine stands beside.

Then the checkpoint before the last one is resumed at the same ranks, to the bits of the run that was not stopped (not swarm,
whose runs differ), and at 1, 2 and 4 of them with nothing left to do: what these save at once must be equal in every bit, weights to
/model, momentum to the mean of the replicas.  Takes about 6 GB of disk in the current folder, which are removed.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, f"{os.path.dirname(os.path.realpath(__file__))}/..")
import launch
from harness import KINDS, Trace, arrays, read


def train(shoal, ranks, options, *args):
    command = launch.mpirun(ranks, shoal, "train", *args)
    for key, value in options.items():
        command += ["--set", f"{key}={value}"]
    with open("out", "w") as log:
        if subprocess.run(command, env=launch.environment(), stdout=log, stderr=log).returncode:
            raise SystemExit(read("out"))
    return read("out")


def files_of(main):
    return [main, *sorted(glob.glob(f"{main[:-3]}.*.shard-*.h5"))]


def whole(main):
    """All arrays of a checkpoint, by name."""
    return {name: x for file in files_of(main) for name, x in arrays(file).items()}


def waits(name, ranks):
    """Seconds of each save in which training waited, the longest over the ranks: [(before it went on, for its end)]."""
    spans = []
    for rank in range(ranks):
        records = Trace(name, rank).records
        own = records[records["kind"] == KINDS.index("checkpoint")]
        spans.append((own["t1_ns"] - own["t0_ns"]) * 1e-9)
    most = np.max(spans, axis=0)
    return list(zip(most[0::2], most[1::2]))


def check_elsewhere(shoal, ranks, options, path, step):
    """Resumes at other rank counts with no step left, and compares what is saved at once."""
    saved = whole(path)
    replicas = [saved[f"replica/{k}/momentum"] for k in range(ranks) if f"replica/{k}/momentum" in saved]
    mean = replicas[0].copy()
    for x in replicas[1:]:
        mean += x
    mean /= np.float32(len(replicas))
    fewer = [n for n in (1, 2, 4) if n < ranks]
    for few in fewer:
        name = f"at{few}"
        train(shoal, few, {**options, "run.name": name, "run.steps": step}, "--resume", path)
        got = whole(glob.glob(f"runs/{name}/ckpt/step-{step:09d}.h5")[0])
        shutil.rmtree(f"runs/{name}")
        for array, want in saved.items():
            if array.startswith("model/"):
                assert (got[array].view("u4") == want.view("u4")).all(), f"{array} at {few} ranks"
        for k in range(few):
            own = got.get(f"replica/{k}/momentum", got["replica/0/momentum"])
            assert (own.view("u4") == mean.view("u4")).all(), f"momentum of rank {k} of {few}"
    print(f"at {', '.join(map(str, fewer))} ranks: weights those of /model and momentum the mean of {len(replicas)}, in every bit")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shoal")
    p.add_argument("--ranks", type=int, default=8)
    p.add_argument("--method", default="local-sgd", choices=["sync", "local-sgd", "daso", "swarm"])
    p.add_argument("--widths", default="4000,3000")
    p.add_argument("--saves", type=int, default=4)
    p.add_argument("--every", type=int, default=8, help="steps between saves")
    a = p.parse_args()
    shoal = os.path.realpath(a.shoal)
    work = tempfile.mkdtemp(prefix="ckpt-blocking-", dir=".")
    os.chdir(work)
    last = a.every * a.saves
    options = {"run.name": "r", "run.epochs": 1, "run.steps": last + a.every, "eval.every": "never", "ckpt.every": f"{a.every} steps",
               "ckpt.keep": 2, "ckpt.beside": "always", "model.name": "mlp", "model.widths": f"[{a.widths}]", "data.file": "glyphs.h5", "data.batch": 8,
               "optim.lr": 0.01, "optim.momentum": 0.9, "method.name": a.method}
    try:
        subprocess.run([shoal, "data", "synth", "glyphs", "-o", "glyphs.h5", "--train", "12000", "--test", "20", "--size", "28"],
                       check=True, capture_output=True)
        out = train(shoal, a.ranks, options)
        took = re.findall(r"checkpoint \S*step-(\d+)\.h5, ([\d.]+) s", out)
        final = f"runs/r/ckpt/step-{last + a.every:09d}.h5"
        before = f"runs/r/ckpt/step-{last:09d}.h5"
        size = sum(map(os.path.getsize, files_of(before)))
        print(f"{a.method}, {a.ranks} ranks, {size / 1e9:.2f} GB in {len(files_of(before))} files, load {os.getloadavg()[0]:.1f}\n")
        print("| step | until it was there, s | training waits before it goes on, s | and for the end of the save, s |")
        print("|---|---|---|---|")
        for (step, seconds), (begin, end) in zip(took, waits("r", a.ranks)):
            print(f"| {int(step)} | {seconds} | {begin:.2f} | {end:.2f} |")
        print()
        if a.method != "swarm":
            os.rename(final, "whole.h5")
            for shard in files_of(final)[1:]:
                os.rename(shard, shard.replace(final[:-3], "whole"))
            train(shoal, a.ranks, options)
            r = subprocess.run([shoal, "ckpt", "diff", "whole.h5", final], capture_output=True, text=True)
            assert r.returncode == 0 and "agree in every bit" in r.stdout, r.stdout + r.stderr
            print(f"resumed at {a.ranks} ranks from step {last}: equal in every bit at step {last + a.every}")
        check_elsewhere(shoal, a.ranks, options, before, last)
    finally:
        os.chdir("..")
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
