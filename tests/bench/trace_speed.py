#!/usr/bin/env python3
"""How long reading traces takes: trace_speed.py SHOAL [--ranks 8,256] [--operations 100000,4000] [--show 3,10] [--report 20,30] [--rounds 3]

Writes runs of so many ranks (four per node) with so many operations each, as `trace.level: op` records them: forward and backward by
layers, buckets of gradients in flight with a wait at the end, optimizer, vote; lengths vary by rank and step.  Then it times `shoal
trace show`, `trace show --json` and `shoal report` on each, --rounds times, and prints the longest time of each with its limit in
seconds.  The exit code is 1 if one is over its limit.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, f"{os.path.dirname(os.path.realpath(__file__))}/..")
import traces

FORWARD, BACKWARD, OPTIMIZER, EXCHANGE, WAIT, INPUT, _, _, OTHER, STEP = range(10)
LAYERS, BUCKETS, PER_NODE = 12, 4, 4
NODE, BETWEEN, CONTROL = 1, 2, 3


def step_rows():
    """One step in microseconds, as rows for traces.records."""
    rows = [(0, 30, 0, INPUT, "input")]
    t = 40
    for i in range(LAYERS):
        rows.append((t, t + 100, 0, FORWARD, f"forward layer {i}"))
        t += 105
    began = []
    for i in reversed(range(LAYERS)):
        rows.append((t, t + 200, 0, BACKWARD, f"backward layer {i}"))
        t += 205
        if i % (LAYERS // BUCKETS) == 0:
            began.append(t)
    for bucket, begin in enumerate(began):
        t += 50
        rows.append((t - 50, t, 0, WAIT, f"bucket {bucket}", BETWEEN, 0, 0, traces.ALL))
        rows.append((begin, t, 0, EXCHANGE, f"bucket {bucket}", BETWEEN, 100_000, 0, traces.ALL))
    rows.append((t, t + 80, 0, OPTIMIZER, "optimizer"))
    rows.append((0, t + 90, 0, STEP, "step"))
    rows.append((t + 95, t + 100, 0, WAIT, "agreement", CONTROL, 0, 0, traces.ALL))
    rows.append((t + 60, t + 100, 0, EXCHANGE, "agreement", CONTROL, 8, 0, traces.ALL))
    return rows


def rank_records(rank, ranks, operations):
    """About so many records, and their names."""
    names = list(traces.KINDS)
    one = traces.records(step_rows(), names)
    steps = max(operations // len(one), 2)
    all_steps = np.tile(one, steps)
    index = np.repeat(np.arange(steps, dtype=np.uint64), len(one))
    begin = index * np.uint64(5_000_000) + np.uint64(1_000_000_000)
    scale = 1000 + np.random.default_rng(rank).integers(0, 80, steps)[index.astype(int)] + 20 * rank // ranks
    for member in ("t0_ns", "t1_ns"):
        all_steps[member] = all_steps[member] * scale.astype(np.uint64) + begin
    all_steps["step"] = index
    exchanges = all_steps["role"] > 0
    all_steps["seq"][exchanges] = index[exchanges]
    all_steps["seq"][all_steps["kind"] == STEP] = 32
    return all_steps, names, steps


def make_run(folder, ranks, operations):
    """The number of records."""
    config = (f"run:\n  name: made\n  seed: 1\ndata:\n  file: d.h5\n  batch: 0\n  global_batch: {32 * ranks}\nmodel:\n  name: mlp\n"
              "  widths: [8]\nmethod:\n  name: sync\n")
    n = 0
    for node in range(-(-ranks // PER_NODE)):
        mine = {}
        for rank in range(node * PER_NODE, min(ranks, (node + 1) * PER_NODE)):
            rows, names, steps = rank_records(rank, ranks, operations)
            payload = [0, 0, 100_000 * BUCKETS * steps, 8 * steps]
            mine[rank] = (rows, names, {"payload": payload, "wire": payload, "messages": [0, 0, BUCKETS * steps, steps], "steps": steps,
                                        "samples": 32 * steps, "batch": 32})
            n += len(rows)
        traces.write(folder, node, mine, size=ranks, config=config)
    with open(f"{folder}/run.yaml", "w") as f:
        f.write(config)
    with open(f"{folder}/status.json", "w") as f:
        f.write('{"state": "done"}')
    with open(f"{folder}/metrics.csv", "w") as f:
        f.write("epoch,step,time_s,train_loss,test_loss,test_acc,lr,samples_per_s,wait_share\n")
        for k in range(1, 11):
            f.write(f"{k},{k * steps // 10},{k * steps * 5e-4},{2 / k},{2.2 / k},{0.09 * k},0.1,{32 * ranks / 5e-3},0.1\n")
    return n


def longest(rounds, command):
    out = 0.0
    for _ in range(rounds):
        begun = time.monotonic()
        r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        out = max(out, time.monotonic() - begun)
        if r.returncode:
            sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stderr}")
    return out


def main():
    def numbers(text):
        return [float(x) for x in text.split(",")]

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shoal")
    p.add_argument("--ranks", type=numbers, default=[8, 256])
    p.add_argument("--operations", type=numbers, default=[100_000, 4_000], help="of a rank, for each of --ranks")
    p.add_argument("--show", type=numbers, default=[3, 10], help="limits in seconds, for each of --ranks")
    p.add_argument("--report", type=numbers, default=[20, 30])
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    shoal = os.path.realpath(a.shoal)
    slow = 0
    print(f"{'ranks':>5} {'records':>9}  {'command':18} {'longest, s':>10} {'limit, s':>8}")
    for ranks, operations, show, report in zip(a.ranks, a.operations, a.show, a.report):
        with tempfile.TemporaryDirectory() as folder:
            n = make_run(f"{folder}/made", int(ranks), int(operations))
            for limit, name, command in ((show, "trace show", ["trace", "show"]), (show, "trace show --json", ["trace", "show", "--json"]),
                                         (report, "report", ["report", "-o", f"{folder}/report.html"])):
                took = longest(a.rounds, [shoal, *command, f"{folder}/made"])
                slow += took >= limit
                print(f"{int(ranks):5} {n:9}  {name:18} {took:10.2f} {limit:8g}{'' if took < limit else '  OVER'}", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
