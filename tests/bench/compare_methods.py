#!/usr/bin/env python3
"""Training methods side by side on the same model, data, seeds and links: one table.

Usage: compare_methods.py SHOAL RUN.yaml --data FILE.h5 [--methods sync,daso,local-sgd,swarm] [--links 200mbit] [--seeds 1,2,3]
                          [--target 0.5] [--results FILE.json] [--markdown] [-- --set a.b=c ...]

On the test cluster of four nodes, two ranks on each (tests/slurm/cluster.sh: root, Slurm).  RUN.yaml is a run file without
`method`, `run.name` and `data.file`; METHOD may carry options of its own, as in `local-sgd:period=8:node_level=true`.

Two kinds of runs, each a whole schedule:

    time       links shaped, first seed: wall time per epoch, bytes between nodes, exposed share
    accuracy   links unshaped, every seed: test accuracy at the end, mean and standard error; time does not matter

Every run's numbers go to --results at once, and runs found there are not repeated, so a table can be made in several
sittings; methods take turns within a seed, so that what changes on the machine hits all of them.
"""
import argparse
import csv
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

CLUSTER = os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../slurm/cluster.sh")


def cluster(*args):
    return subprocess.run([CLUSTER, *args], check=True, capture_output=True, text=True).stdout


def options_of(method):
    """`local-sgd:period=8` → its name and the arguments that set it up."""
    name, *settings = method.split(":")
    return ["--set", f"method.name={name}"] + [a for s in settings for a in ("--set", f"method.{s}")]


def train(a, method, seed, folder):
    """One run; returns its numbers."""
    shutil.rmtree(f"{folder}/run", ignore_errors=True)
    command = [CLUSTER, "exec", "srun", "-N4", "--ntasks-per-node=2", "--mpi=pmix", a.shoal, "train", a.run, "--quiet", "--set", "run.name=run",
               "--set", f"run.dir={folder}", "--set", f"run.seed={seed}", "--set", f"data.file={a.data}", "--set", "trace.level=op",
               "--set", "threads=1", *options_of(method), *a.more]
    r = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout[-2000:]}{r.stderr[-4000:]}")
    with open(f"{folder}/run/metrics.csv") as f:
        rows = list(csv.DictReader(f))
    trace = json.loads(subprocess.run([a.shoal, "trace", "show", f"{folder}/run", "--json"], check=True, capture_output=True, text=True).stdout)
    ranks = trace["ranks"]
    reached = [float(row["time_s"]) for row in rows if float(row["test_acc"]) >= a.target]
    return {
        "epochs": int(rows[-1]["epoch"]), "seconds": float(rows[-1]["time_s"]), "accuracy": float(rows[-1]["test_acc"]),
        "to_target": reached[0] if reached else None,
        "between": sum(r["links"]["between"]["payload"] for r in ranks), "steps": max(r["steps"] for r in ranks),
        "exposed": statistics.mean(r["exchange"]["exposed_percent"] for r in ranks),
        "date": time.strftime("%Y-%m-%d"),
    }


def measure(a, folder):
    """All runs that are not in the results yet."""
    results = {}
    if os.path.exists(a.results):
        with open(a.results) as f:
            results = json.load(f)
    plan = [(a.links, a.seeds[0])] + [("off", s) for s in a.seeds]
    for links, seed in plan:
        cluster("shape", links)
        for method in a.methods:
            key = f"{os.path.basename(a.run)} {' '.join(a.more)} {method} links={links} seed={seed}"
            if key not in results:
                results[key] = {"run": os.path.basename(a.run), "method": method, "links": links, "seed": seed, **train(a, method, seed, folder)}
                with open(a.results + ".new", "w") as f:
                    json.dump(results, f, indent=1)
                os.replace(a.results + ".new", a.results)
                print(f"# {key}: {results[key]['seconds']:.1f} s, accuracy {results[key]['accuracy']:.4f}", file=sys.stderr, flush=True)
            yield results[key]


def table(a, runs):
    sep = " | " if a.markdown else "  "
    row = lambda *cells: print(("| " if a.markdown else "") + sep.join(f"{c:>14}" for c in cells) + (" |" if a.markdown else ""), flush=True)
    row("method", "s per epoch", "of sync", f"s to {100 * a.target:.0f} %", "accuracy %", "std. error", "MB/epoch betw.", "exposed %")
    if a.markdown:
        row(*["---"] * 8)
    timed = {r["method"]: r for r in runs if r["links"] == a.links and r["seed"] == a.seeds[0]}
    base = next((r["seconds"] / r["epochs"] for m, r in timed.items() if m.split(":")[0] == "sync"), None)
    for method in a.methods:
        r = timed[method]
        ends = [100 * x["accuracy"] for x in runs if x["method"] == method and x["links"] == "off"]
        error = statistics.stdev(ends) / math.sqrt(len(ends)) if len(ends) > 1 else float("nan")
        per_epoch = r["seconds"] / r["epochs"]
        row(method, f"{per_epoch:.2f}", f"{per_epoch / base:.2f}" if base else "", f"{r['to_target']:.0f}" if r["to_target"] else "never",
            f"{statistics.mean(ends):.2f}", f"{error:.2f}", f"{r['between'] / r['epochs'] / 1e6:.1f}", f"{r['exposed']:.1f}")


def main():
    argv, more = sys.argv[1:], []
    if "--" in argv:
        argv, more = argv[:argv.index("--")], argv[argv.index("--") + 1:]
    p = argparse.ArgumentParser()
    p.add_argument("shoal")
    p.add_argument("run")
    p.add_argument("--data", required=True)
    p.add_argument("--methods", default="sync,daso,local-sgd,swarm")
    p.add_argument("--links", default="200mbit")
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--target", type=float, default=0.5)
    p.add_argument("--results", default="compare.json")
    p.add_argument("--markdown", action="store_true")
    a = p.parse_args(argv)
    a.more = more
    a.shoal, a.run, a.data, a.results = (os.path.abspath(f) for f in (a.shoal, a.run, a.data, a.results))
    a.methods, a.seeds = a.methods.split(","), [int(s) for s in a.seeds.split(",")]
    os.environ["SHOAL_CLUSTER_MINUTES"] = os.environ.get("SHOAL_CLUSTER_MINUTES", "600")
    cluster("up", "4", "--fresh", "--follow", "--share", os.path.dirname(a.shoal), "--share", os.path.dirname(a.run),
            "--share", os.path.dirname(a.data))
    state = os.environ.get("SHOAL_CLUSTER_DIR", "/tmp/shoal-cluster")
    try:
        table(a, list(measure(a, f"{state}/work")))
    finally:
        cluster("down")


if __name__ == "__main__":
    main()
