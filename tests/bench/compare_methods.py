#!/usr/bin/env python3
"""Compares training methods on the same model, data, seeds and links in one table.

Usage: compare_methods.py SHOAL RUN.yaml --data FILE.h5 [--methods sync,daso,local-sgd,swarm] [--links 200mbit] [--seeds 1,2,3]
                          [--what time|accuracy] [--here] [--ranks 2] [--target 0.5] [--results FILE.json] [--markdown]
                          [-- --set a.b=c ...]

On the test cluster of four nodes, two ranks on each (tests/slurm/cluster.sh: root, Slurm).  RUN.yaml is a run file without
`method`, `run.name` and `data.file`; a method may be followed by its own options and others, as in
`local-sgd:period=8:optim.lr=0.1`.

There are two kinds of runs, each a whole schedule:

    time       links shaped, first seed: wall time per epoch and to an accuracy, bytes between nodes, exposed share, memory
    accuracy   links unshaped, every seed: test accuracy at the end, mean and standard error; time does not matter

The results of every run are written to --results at once, and runs found there are not repeated, so a table can be made in
several sessions; methods alternate within a seed, so that changes of the machine's load affect all of them.
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
import tempfile
import time

sys.path.insert(0, f"{os.path.dirname(os.path.realpath(__file__))}/..")
import cluster
import launch


def options_of(method):
    """`local-sgd:period=8:optim.lr=0.1` → its name and the arguments that configure it."""
    name, *settings = method.split(":")
    return ["--set", f"method.name={name}"] + [a for s in settings for a in ("--set", s if "." in s.split("=")[0] else f"method.{s}")]


def launcher(a, links):
    """The command before `shoal train`: on the cluster, or on pretended nodes, where links cannot be shaped."""
    if a.here and links == "off":
        return launch.mpirun(4 * a.ranks, a.shoal, "train", "--topo", f"4x{a.ranks}")
    return cluster.srun(a.ranks, a.shoal, "train")


def train(a, method, links, seed, folder):
    """Runs one configuration; returns its results."""
    shutil.rmtree(f"{folder}/run", ignore_errors=True)
    command = [*launcher(a, links), a.run, "--quiet", "--set", "run.name=run", "--set", f"run.dir={folder}", "--set", f"run.seed={seed}",
               "--set", f"data.file={a.data}", "--set", "trace.level=op", "--set", "threads=1", *a.more, *options_of(method)]
    r = subprocess.run(command, env=launch.environment(), capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout[-2000:]}{r.stderr[-4000:]}")
    with open(f"{folder}/run/metrics.csv") as f:
        rows = [row for row in csv.DictReader(f) if row["test_acc"]]
    trace = json.loads(subprocess.run([a.shoal, "trace", "show", f"{folder}/run", "--json"], check=True, capture_output=True, text=True).stdout)
    ranks = trace["ranks"]
    return {
        "epochs": float(rows[-1]["epoch"]), "seconds": float(rows[-1]["time_s"]), "accuracy": float(rows[-1]["test_acc"]),
        "curve": [[float(row["epoch"]), float(row["time_s"]), float(row["test_acc"])] for row in rows],
        "between": sum(r["links"]["between"]["payload"] for r in ranks), "steps": max(r["steps"] for r in ranks),
        "exposed": statistics.mean(r["exchange"]["exposed_percent"] for r in ranks),
        "peak_bytes": max(r["peak_bytes"] for r in ranks),
        "date": time.strftime("%Y-%m-%d"),
    }


def measure(a, folder):
    """Runs all configurations that have no results yet."""
    results = {}
    if os.path.exists(a.results):
        with open(a.results) as f:
            results = json.load(f)
    plan = [(a.links, a.seeds[0])] if a.what != "accuracy" else []
    plan += [("off", s) for s in a.seeds] if a.what != "time" else []
    for links, seed in plan:
        shaped = False
        for method in a.methods:
            key = f"{os.path.basename(a.run)} {' '.join(a.more)} 4x{a.ranks} {method} links={links} seed={seed}"
            if key not in results:
                if not shaped and a.uses_cluster:
                    cluster.verb("shape", links)
                shaped = True
                results[key] = {"run": os.path.basename(a.run), "method": method, "links": links, "seed": seed,
                                **train(a, method, links, seed, folder)}
                with open(a.results + ".new", "w") as f:
                    json.dump(results, f, indent=1)
                os.replace(a.results + ".new", a.results)
                print(f"# {key}: {results[key]['seconds']:.1f} s, accuracy {results[key]['accuracy']:.4f}", file=sys.stderr, flush=True)
            yield results[key]


def time_to(run, accuracy):
    return next((t for _, t, acc in run["curve"] if acc >= accuracy), None)


def table(a, runs):
    sep = " | " if a.markdown else "  "
    row = lambda *cells: print(("| " if a.markdown else "") + sep.join(f"{c:>14}" for c in cells) + (" |" if a.markdown else ""), flush=True)
    timed = {r["method"]: r for r in runs if r["links"] == a.links and r["seed"] == a.seeds[0]}
    columns = ["method"]
    columns += ["epochs", "s per epoch", "of sync", f"s to {100 * a.target:.0f} %", "MB/epoch betw.", "exposed %", "MiB per rank"] if timed else []
    columns += ["accuracy %", "std. error"] if a.what != "time" else []
    row(*columns)
    if a.markdown:
        row(*["---:"] * len(columns))
    base = next((r["seconds"] / r["epochs"] for m, r in timed.items() if m.split(":")[0] == "sync"), None)
    for method in a.methods:
        cells = [method]
        if timed:
            r = timed[method]
            per_epoch, target = r["seconds"] / r["epochs"], time_to(r, a.target)
            cells += [f"{r['epochs']:g}", f"{per_epoch:.2f}", f"{per_epoch / base:.2f}" if base else "", f"{target:.0f}" if target else "never",
                      f"{r['between'] / r['epochs'] / 1e6:.1f}", f"{r['exposed']:.1f}", f"{r['peak_bytes'] / 2**20:.0f}"]
        if a.what != "time":
            ends = [100 * x["accuracy"] for x in runs if x["method"] == method and x["links"] == "off"]
            error = statistics.stdev(ends) / math.sqrt(len(ends)) if len(ends) > 1 else float("nan")
            cells += [f"{statistics.mean(ends):.2f}", f"{error:.2f}"]
        row(*cells)


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
    p.add_argument("--what", choices=["all", "time", "accuracy"], default="all")
    p.add_argument("--ranks", type=int, default=2, help="ranks on each node")
    p.add_argument("--here", action="store_true", help="run with unshaped links on pretended nodes of this host, not on the cluster")
    p.add_argument("--markdown", action="store_true")
    a = p.parse_args(argv)
    a.more = more
    a.shoal, a.run, a.data, a.results = (os.path.abspath(f) for f in (a.shoal, a.run, a.data, a.results))
    a.methods, a.seeds = a.methods.split(","), [int(s) for s in a.seeds.split(",")]
    a.uses_cluster = a.what != "accuracy" or not a.here
    if not a.uses_cluster:
        with tempfile.TemporaryDirectory() as folder:
            return table(a, list(measure(a, folder)))
    os.environ["SHOAL_CLUSTER_MINUTES"] = os.environ.get("SHOAL_CLUSTER_MINUTES", "600")
    cluster.verb("up", "4", "--fresh", "--follow", "--share", os.path.dirname(a.shoal), "--share", os.path.dirname(a.run),
            "--share", os.path.dirname(a.data))
    try:
        table(a, list(measure(a, cluster.WORK)))
    finally:
        cluster.verb("down")


if __name__ == "__main__":
    main()
