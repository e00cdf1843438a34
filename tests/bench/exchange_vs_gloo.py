#!/usr/bin/env python3
"""Cost of the exchange in a training step between nodes, compared with PyTorch's DDP over gloo.

Usage: exchange_vs_gloo.py SHOAL [--rates 1gbit,100mbit] [--algorithms auto,leaders] [--rounds 3] [--steps 20] [--markdown]

On the test cluster of four nodes (tests/slurm/cluster.sh: root, Slurm), two ranks on each, links shaped: one step of an
MLP 784-2048-2048-10, batch 32 per rank, f32 on the wire, SGD with momentum, one thread per rank.  In each run every other
step skips its exchange (Shoal: fault.no_exchange, DDP: no_sync), so that both kinds of step see the same load of the
machine; each round runs Shoal, with each method.algorithm, and PyTorch.  The duration of a step is that of its slowest
rank; exposed is the difference of the medians.  PyTorch is that of the python3 which runs this script.
"""
import argparse
import importlib.util
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, f"{os.path.dirname(os.path.realpath(__file__))}/..")
import cluster
from harness import STEP, trace_files

WIDTHS = [784, 2048, 2048, 10]
ALGORITHMS = ["auto", "ring", "two-level", "leaders", "small"]
BATCH = 32


# ---- a rank of PyTorch -------------------------------------------------------------------------------------------------

def ddp_rank(steps):
    """One rank: prints, per step, whether it exchanged and the seconds it took; rank 0 prints the maximum over ranks."""
    import contextlib
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    dist.init_process_group("gloo", init_method=f"tcp://{os.environ['MASTER']}", rank=rank, world_size=size)
    torch.manual_seed(1)
    layers = []
    for i, o in zip(WIDTHS, WIDTHS[1:]):
        layers += [torch.nn.Linear(i, o), torch.nn.ReLU()]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers[:-1]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(BATCH, WIDTHS[0]), torch.randint(0, WIDTHS[-1], (BATCH,))
    took = []
    for step in range(2 * steps):
        start = time.time()
        with contextlib.nullcontext() if step % 2 == 0 else model.no_sync():
            torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        took.append(time.time() - start)
    took = torch.tensor(took, dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps(took.tolist()), flush=True)
    dist.barrier()
    dist.destroy_process_group()


# ---- both on the cluster -----------------------------------------------------------------------------------------------

def srun(*args, **env):
    return cluster.output(cluster.srun(2, *args), **env)


def split(took):
    """Durations of steps with and without exchange, in seconds; the first two of each, which open connections, are skipped."""
    return took[4::2], took[5::2]


def run_torch(steps):
    out = srun(sys.executable, os.path.abspath(__file__), "--ddp-rank", str(steps), MASTER="10.83.0.1:29500", GLOO_SOCKET_IFNAME="eth0")
    return split(json.loads(out.splitlines()[-1]))


def run_shoal(shoal, steps, algorithm):
    import h5py
    import numpy as np
    name = "measured"
    srun(shoal, "train", "mlp.yaml", "--quiet", "--allow-faults", "--set", f"run.name={name}", "--set", f"run.steps={2 * steps}",
         "--set", f"method.algorithm={algorithm}")
    longest = {}
    for path in trace_files(name):
        with h5py.File(path) as f:
            for r in np.concatenate([group["records"][()] for group in f.values()]):
                if r["kind"] == STEP:
                    longest[int(r["step"])] = max(longest.get(int(r["step"]), 0), int(r["t1_ns"]) - int(r["t0_ns"]))
    shutil.rmtree(f"runs/{name}")
    return split([longest[k] * 1e-9 for k in sorted(longest)])


def measure(shoal, algorithms, rate, rounds, steps):
    """Program → medians in ms of steps with and without exchange."""
    cluster.verb("shape", rate)
    runs = {f"shoal, {a}": lambda a=a: run_shoal(shoal, steps, a) for a in algorithms}
    runs["gloo"] = lambda: run_torch(steps)
    times = {who: ([], []) for who in runs}
    for _ in range(rounds):
        for who, run in runs.items():
            for all_, these in zip(times[who], run()):
                all_ += these
    return {who: [1e3 * statistics.median(t) for t in pair] for who, pair in times.items()}


def check(p, a):
    """Checks arguments that would otherwise fail only on the cluster, or after minutes."""
    if not a.shoal or not os.access(a.shoal, os.X_OK) or os.path.isdir(a.shoal):
        p.error(f"SHOAL is {a.shoal or 'missing'}: name the program, as in build/release/src/cli/shoal")
    for rate in a.rates.split(","):
        if not re.fullmatch("off|[1-9][0-9]*[kmg]bit", rate):
            p.error(f"--rates has {rate!r}: must be rates as in 1gbit,100mbit (kbit, mbit, gbit), or off")
    for algorithm in a.algorithms.split(","):
        if algorithm not in ALGORITHMS:
            p.error(f"--algorithms has {algorithm!r}: must be of {', '.join(ALGORITHMS)}")
    if a.rounds < 1 or a.steps < 3:
        p.error(f"--rounds {a.rounds} --steps {a.steps}: at least 1 round of 3 steps; the first two of each kind are skipped")
    for module in ("torch", "h5py"):
        if not importlib.util.find_spec(module):
            p.error(f"{sys.executable} has no {module}; run this with a python3 that has it, on Debian /usr/bin/python3 with package python3-{module}")


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0])
    p.add_argument("shoal", nargs="?")
    p.add_argument("--rates", default="1gbit,100mbit")
    p.add_argument("--algorithms", default="auto,leaders")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=20, help="steps of each kind per round")
    p.add_argument("--markdown", action="store_true")
    p.add_argument("--ddp-rank", type=int, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.ddp_rank:
        return ddp_rank(a.ddp_rank)
    check(p, a)
    shoal = os.path.abspath(a.shoal)
    import torch
    cluster.verb("up", "4", "--fresh", "--follow", "--share", os.path.dirname(shoal), "--share", sys.prefix)
    os.chdir(cluster.WORK)
    try:
        subprocess.run([shoal, "data", "synth", "glyphs", "-o", "glyphs.h5", "--train", "20000", "--test", "0"], check=True, capture_output=True)
        with open("mlp.yaml", "w") as f:
            f.write(f"run: {{ epochs: 1000, dir: runs }}\nmodel: {{ name: mlp, widths: {WIDTHS[1:-1]} }}\n"
                    f"data: {{ file: glyphs.h5, batch: {BATCH} }}\noptim: {{ lr: 0.01, momentum: 0.9 }}\nmethod: {{ name: sync }}\n"
                    "ckpt: { every: 1000 epochs }\nfault: { no_exchange: 2 }\nthreads: 1\n")
        sep = " | " if a.markdown else "  "
        row = lambda *cells: print(("| " if a.markdown else "") + sep.join(f"{c:>14}" for c in cells) + (" |" if a.markdown else ""), flush=True)
        row("links", "who", "step ms", "without ms", "exposed ms", "gloo/shoal")
        if a.markdown:
            row(*["---"] * 6)
        for rate in a.rates.split(","):
            result = measure(shoal, a.algorithms.split(","), rate, a.rounds, a.steps)
            for who, (step, without) in result.items():
                ratio = f"{result['gloo'][0] / step:.2f}"
                row(rate, who, f"{step:.0f}", f"{without:.0f}", f"{step - without:.0f}", ratio)
        print(f"PyTorch {torch.__version__}")
    finally:
        os.chdir("/")
        cluster.verb("down")


if __name__ == "__main__":
    main()
