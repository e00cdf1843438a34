#!/usr/bin/env python3
"""Whole runs of `shoal train` under mpirun, one case per ctest entry: train_cases.py SHOAL CASE

Every case works in a temporary folder of its own with small generated data sets.  The oracle is mostly `shoal ckpt diff`
(bit equality or a stated tolerance), exit codes, and formulas worked out here independently of the program.
SHOAL_FULL=1 runs the long versions.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/..")
import launch

SHOAL, CASE = sys.argv[1], sys.argv[2]
PYTHON = sys.executable  # has h5py
FULL = os.environ.get("SHOAL_FULL") == "1"
ENV = launch.environment()
failures = 0


def check(ok, *what):
    global failures
    if not ok:
        failures += 1
        print("CHECK failed:", *what, flush=True)
    return ok


def shoal(*args, code=0, env=None):
    r = subprocess.run([SHOAL, *map(str, args)], env={**ENV, **(env or {})}, capture_output=True, text=True)
    check(r.returncode == code, f"shoal {' '.join(map(str, args))}: exit {r.returncode}, expected {code}\n{r.stdout}{r.stderr}")
    return r


def command(ranks, *args):
    return [*(launch.mpirun(ranks) if ranks > 1 else []), SHOAL, "train", *map(str, args)]


def train(ranks, name, *args, code=0, env=None, timeout=240):
    """One run; returns the completed process.  args are further arguments of `shoal train`."""
    c = command(ranks, *args, "--set", f"run.name={name}")
    r = subprocess.run(c, env={**ENV, **(env or {})}, capture_output=True, text=True, timeout=timeout)
    check(r.returncode == code, f"{' '.join(c)}: exit {r.returncode}, expected {code}\n{r.stdout}{r.stderr}")
    return r


def sets(**options):
    out = []
    for key, value in options.items():
        out += ["--set", f"{key.replace('__', '.')}={value}"]
    return out


def newest(name):
    files = sorted(f for f in os.listdir(f"runs/{name}/ckpt") if f.endswith(".h5") and f.startswith("step-"))
    check(files, f"no checkpoint in runs/{name}/ckpt")
    return f"runs/{name}/ckpt/{files[-1]}"


def diff(a, b, *args):
    return subprocess.run([SHOAL, "ckpt", "diff", a, b, *args], env=ENV, capture_output=True, text=True)


def check_equal(a, b, what):
    """Bit for bit, all that training is made of: only the clock may differ."""
    r = diff(a, b)
    check(r.returncode == 0, f"{what}: differs\n{r.stdout}{r.stderr}")


def status(name):
    with open(f"runs/{name}/status.json") as f:
        return json.load(f)


def metrics(name):
    with open(f"runs/{name}/metrics.csv") as f:
        header, *rows = [line.strip().split(",") for line in f]
    return [dict(zip(header, row)) for row in rows]


MLP = sets(model__name="mlp", model__widths="[64,32]", optim__lr=0.05, optim__momentum=0.9, data__file="glyphs.h5")


def glyphs(train_count=600, test=100, size=28, seed=3):
    shoal("data", "synth", "glyphs", "-o", "glyphs.h5", "--train", train_count, "--test", test, "--size", size, "--seed", seed)


# ---- cases -----------------------------------------------------------------------------------------------------------

def case_ranks():
    """The same global batch gives the same weights at 1, 2, 3 and 4 ranks, to rounding (relative 1e-4)."""
    glyphs(1003)
    for ranks in (1, 2, 3, 4):
        train(ranks, f"r{ranks}", *MLP, *sets(run__epochs=1, data__global_batch=50))
    for ranks in (2, 3, 4):
        r = diff(newest("r1"), newest(f"r{ranks}"), "--only", "model/", "--tolerance", "1e-4")
        check(r.returncode == 0, f"1 and {ranks} ranks differ by more than 1e-4\n{r.stdout}")
    losses = {m["train_loss"] for ranks in (1, 2, 3, 4) for m in metrics(f"r{ranks}")}
    check(max(map(float, losses)) - min(map(float, losses)) < 1e-4, "train losses differ", losses)
    # The tolerance can fail: another seed is another network.
    train(1, "other", *MLP, *sets(run__epochs=1, data__global_batch=50, run__seed=2))
    check(diff(newest("r1"), newest("other"), "--only", "model/", "--tolerance", "1e-4").returncode == 7, "diff cannot fail")


RESNET = sets(model__name="resnet20", model__dropout=0.2, data__augment="[crop4,hflip]", data__file="glyphs.h5",
              data__batch=16, run__epochs=2, optim__momentum=0.9, optim__lr=0.05, optim__schedule="cosine",
              optim__weight_decay=5e-4)


def case_resume():
    """Stop at random steps of resnet20 with augmentation and dropout, resume: same bits, at prefetch depths 0 and 4."""
    glyphs(200, 50, 32)
    ranks, total = 2, 14  # 200 samples, 32 per step: 7 steps per epoch, the last one short
    rng = random.Random(int(os.environ.get("SHOAL_TEST_SEED", time.time())))
    # A stop asked for in step k happens after step k+1, so the three are two steps apart at least.
    stops = rng.choice([(a, b, c) for a in range(total) for b in range(a + 2, total) for c in range(b + 2, total - 2)])
    print("stop steps", stops)
    train(ranks, "whole", *RESNET)
    for depth in (0, 4):
        name = f"cut{depth}"
        options = [*RESNET, *sets(data__prefetch=depth)]
        for step in stops:
            train(ranks, name, *options, "--allow-faults", *sets(fault__stop_step=step, fault__rank=step % ranks), code=75)
            check(status(name)["state"] == "stopped" and status(name)["exit_code"] == 75, status(name))
        train(ranks, name, *options)
        check_equal(newest("whole"), newest(name), f"stopped at {stops}, prefetch {depth}")
        check([m["step"] for m in metrics(name)] == [m["step"] for m in metrics("whole")], "rows of metrics.csv")
        check([(m["train_loss"], m["test_acc"]) for m in metrics(name)] ==
              [(m["train_loss"], m["test_acc"]) for m in metrics("whole")], "metrics differ", metrics(name), metrics("whole"))
    # At another rank count: the sample order goes on, the run finishes.
    train(ranks, "moved", *RESNET, "--allow-faults", *sets(fault__stop_step=5), code=75)
    r = train(3, "moved", *RESNET, *sets(data__batch=16))
    check("layout changed" in r.stdout, r.stdout)


def case_moved():
    """Resume an mlp in mid-epoch at 1, 3 and 4 ranks: the same global order, so the same weights to rounding."""
    glyphs(1003)
    options = [*MLP, *sets(run__epochs=2, data__global_batch=50)]
    train(2, "whole", *options)
    for ranks in (1, 3, 4):
        name = f"moved{ranks}"
        train(2, name, *options, "--allow-faults", *sets(fault__stop_step=25), code=75)
        train(ranks, name, *options)
        r = diff(newest("whole"), newest(name), "--only", "model/", "--tolerance", "1e-4")
        check(r.returncode == 0, f"2 then {ranks} ranks\n{r.stdout}")


def ring_bytes(count, ranks, rank, width):
    sizes = [count // ranks + (k < count % ranks) for k in range(ranks)]
    return width * (2 * count - sizes[rank] - sizes[(rank + 1) % ranks]) if ranks > 1 else 0


def case_bytes():
    """Counted payload equals the formula for every rank and link class, f32 and bf16, on several topologies."""
    glyphs(320)
    layers = [(784, 64), (64, 32), (32, 10)]
    announced = []  # backward order, weight then bias of a layer are adjacent in the arena
    for i, o in reversed(layers):
        announced.append(o * i + o)
    # Buckets close after the tensor that fills them: weights and bias of a layer stay together here (limits are small).
    for ranks, topo, wire in ((2, "2x1", "f32"), (3, "1x3", "bf16"), (4, "2x2", "f32"), (4, "1,2,1", "f16")):
        name = f"b{ranks}{topo.replace(',', '-')}{wire}"
        r = train(ranks, name, *MLP, "--topo", topo,
                  *sets(run__epochs=2, data__batch=16, method__wire=wire, method__algorithm="ring",
                         method__first_bucket=1e-5, method__bucket=1e-5))
        check("DIFFERENT" not in r.stdout and "equal to the method's formula" in r.stdout, r.stdout)
        counts = [int(x) for x in topo.split("x")] if "x" in topo else None
        per_node = [counts[1]] * counts[0] if counts else [int(x) for x in topo.split(",")]
        node = [n for n, c in enumerate(per_node) for _ in range(c)]
        table = json.loads(shoal("trace", "show", f"runs/{name}", "--json").stdout)
        steps = int(status(name)["step"])
        width = 4 if wire == "f32" else 2
        # Without knowing how ranges split into buckets the sum over a layer's weight and bias differs by rounding of chunk
        # sizes only; with first_bucket and bucket tiny every announced range is a bucket of its own.
        for row in table["ranks"]:
            rank = row["rank"]
            to = (rank + 1) % ranks
            link = "node" if node[rank] == node[to] else "between"
            expected = {"node": 0, "between": 0}
            options = [[o * i + o for i, o in layers], [x for i, o in layers for x in (o * i, o)]]
            sums = [steps * sum(ring_bytes(c, ranks, rank, width) for c in cut) for cut in options]
            got = {k: row["links"][k]["payload"] for k in expected}
            check(got[link] in sums and got["node" if link == "between" else "between"] == 0,
                  f"{name} rank {rank}: counted {got}, formula {sums} on {link}")


def case_algorithms():
    """Every way to sum gives the same weights to rounding and its bytes by the formula; what auto chose is printed, kept
    in the checkpoint and kept to after it."""
    glyphs(320)
    options = [*MLP, "--topo", "2x2", *sets(run__epochs=2, data__batch=8, method__first_bucket=1e-5, method__bucket=1e-5)]
    for algorithm in ("ring", "two-level", "leaders", "small", "auto"):
        r = train(4, f"a-{algorithm}", *options, *sets(method__algorithm=algorithm))
        check("DIFFERENT" not in r.stdout and "equal to the method's formula" in r.stdout, r.stdout)
        expected = rf"exchange: 3 buckets, .* as f32: 3 {algorithm}\n" if algorithm != "auto" else \
            r"exchange: 3 buckets, .* as f32: 1 small, 1 leaders, 1 two-level\n"
        check(re.search(expected, r.stdout), r.stdout)
        d = diff(newest("a-ring"), newest(f"a-{algorithm}"), "--only", "model/", "--tolerance", "1e-4")
        check(d.returncode == 0, d.stdout)
    stop = ["--allow-faults", *sets(fault__stop_step=7)]
    train(4, "kept", *options, *sets(method__algorithm="leaders"), *stop, code=75)
    r = train(4, "kept", *options)  # auto now, which goes on with what it finds
    check(re.search(r"as f32: 3 leaders\n", r.stdout), r.stdout)
    check("equal to the method's formula" in r.stdout, r.stdout)
    check_equal(newest("a-leaders"), newest("kept"), "leaders, kept after a stop")


def union_of(spans):
    """Intervals merged: disjoint, in order."""
    out = []
    for a, b in sorted(spans):
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        elif b > a:
            out.append([a, b])
    return out


def common(x, y):
    """Length of what two lists of disjoint intervals have in common."""
    i = j = total = 0
    while i < len(x) and j < len(y):
        total += max(0, min(x[i][1], y[j][1]) - max(x[i][0], y[j][0]))
        if x[i][1] <= y[j][1]:
            i += 1
        else:
            j += 1
    return total


def length(x):
    return sum(b - a for a, b in x)


KINDS = ["forward", "backward", "optimizer", "exchange", "wait", "input", "checkpoint", "evaluation", "other", "step"]


def check_rank(row, path, attempt):
    """The numbers of one rank against its records, worked out here with unions of intervals."""
    import h5py
    with h5py.File(path) as f:
        starts = [int(a["first_record"]) for a in f["attempts"][:]] + [len(f["records"])]
        at = [i for i, a in enumerate(f["attempts"][:]) if a["attempt"] == attempt][-1]
        records, counters = f["records"][starts[at]:starts[at + 1]], f["attempts"][at]
    spans = {kind: [] for kind in [*KINDS, "agreement"]}
    for r in records:
        kind = KINDS[r["kind"]]
        kind = "agreement" if kind == "wait" and r["link"] == 3 else kind
        spans[kind].append((int(r["t0_ns"]), int(r["t1_ns"])))
    flights = union_of(spans["exchange"])
    waits, compute = union_of(spans["wait"]), union_of(spans["forward"] + spans["backward"] + spans["optimizer"] + spans["evaluation"])
    x, who = row["exchange"], f"attempt {attempt} rank {row['rank']}"
    transfer, exposed = length(flights), length(waits)
    hidden = common(flights, compute) - common(waits, compute)  # waits lie inside flights, and may lie inside backward
    check(row["steps"] == len(spans["step"]), who, row["steps"], len(spans["step"]))
    check(x["transfer_ns"] == transfer and x["exposed_ns"] == exposed and x["hidden_ns"] == hidden, who, x, transfer, exposed, hidden)
    check(common(flights, waits) == exposed, f"{who}: waits outside of what is waited for")
    check(x["transfer_ns"] == x["hidden_ns"] + x["exposed_ns"] + x["beside_ns"], f"{who}: transfer is not the sum of its parts", x)
    check(0 <= x["exposed_ns"] <= x["transfer_ns"] and x["hidden_ns"] > 0, who, x)
    check(sum(row["ns"].values()) == row["wall_ns"] == int(records["t1_ns"].max() - records["t0_ns"].min()), f"{who}: kinds and wall", row)
    check(row["ns"]["agreement"] == length(union_of(spans["agreement"])) > 0, f"{who}: agreement")
    for i, link in enumerate(("self", "node", "between", "control")):
        for what in ("payload", "wire", "messages"):
            check(row["links"][link][what] == counters[what][i], f"{who}: {what} on {link}")
    # All payload goes through exchanges here, so their records must hold every byte of it.
    sent = int(records["bytes"][records["kind"] == KINDS.index("exchange")].sum())
    check(sent == x["payload"] == row["links"]["node"]["payload"] + row["links"]["between"]["payload"] > 0, f"{who}: {sent} bytes")
    lengths = sorted(b - a for a, b in spans["step"])
    n = len(lengths)
    check(abs(row["step_median_ms"] - lengths[(n + 1) // 2 - 1] * 1e-6) < 1e-5, f"{who}: median")
    check(abs(row["step_p95_ms"] - lengths[-(-95 * n // 100) - 1] * 1e-6) < 1e-5, f"{who}: p95")
    # One machine, one clock: what was measured must be within its bound of the truth.
    clock = row["clock"]
    check(clock["readings"] == 2 and abs(clock["offset_ns"]) <= 4 * clock["bound_ns"] + 1, f"{who}: clock", clock)
    check(abs(clock["drift_ppm"]) <= clock["drift_bound_ppm"], f"{who}: drift", clock)


def check_export(name, attempt, steps):
    """Valid JSON; every track in order of time without partial overlap; on one machine ranks' steps overlap in time."""
    shoal("trace", "export", f"runs/{name}", "-o", "t.json", "--attempt", attempt)
    with open("t.json") as f:
        text = f.read()
    check(shoal("trace", "export", f"runs/{name}", "--attempt", attempt).stdout == text, "-o writes what the terminal gets")
    trace = json.loads(text)
    check(trace["otherData"]["attempt"] == attempt and trace["otherData"]["clock_bound_ns"] > 0, trace["otherData"])
    named = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    tracks = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            tracks.setdefault((e["pid"], e["tid"]), []).append(e)
    check(sorted(named) == list(range(len(steps))) and all(f"rank {r}" in text for r, text in named.items()), named)
    for (pid, tid), events in tracks.items():
        begins = [round(e["ts"] * 1000) for e in events]
        check(begins == sorted(begins), f"rank {pid} track {tid}: not in order")
        open_until = []
        for e, begin in zip(events, begins):
            end = begin + round(e["dur"] * 1000)
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            check(not open_until or tid == 0 and end <= open_until[-1], f"rank {pid} track {tid}: spans cross", e)
            open_until.append(end)
        check(all((e["cat"] == "exchange") == (tid > 0) for e in events), f"rank {pid} track {tid}: mixed")
    for pid, count in enumerate(steps):
        check(sum(e["cat"] == "step" for e in tracks[pid, 0]) == count, f"rank {pid}: steps")


def case_trace():
    """What `trace show` and `trace export` say of a run on 2x2, resumed on 3 ranks, follows from its records."""
    glyphs(800)
    options = [*MLP, *sets(model__widths="[1024,512]", run__epochs=2, data__batch=8, trace__level="op",
                           method__first_bucket=0.001, method__bucket=0.1, run__steps=50)]
    train(4, "t", *options, "--topo", "2x2", "--allow-faults", *sets(fault__stop_step=28), code=75)
    first = json.loads(shoal("trace", "show", "runs/t", "--json").stdout)
    r = train(3, "t", *options)
    check(re.search(r"tracing +took \d", r.stdout), r.stdout)
    last = json.loads(shoal("trace", "show", "runs/t", "--json").stdout)
    again = json.loads(shoal("trace", "show", "runs/t", "--json", "--attempt", 1).stdout)
    check(first["attempt"] == 1 and len(first["attempts"]) == 1 and first["ranks"] == again["ranks"], "attempt 1 stays what it was")
    check(last["attempt"] == 2 and [(a["ranks"], a["traces"]) for a in last["attempts"]] == [(4, 4), (3, 3)], last["attempts"])
    check(all(a["closed"] for a in last["attempts"]), last["attempts"])
    for table, ranks, steps in ((first, 4, 30), (last, 3, 20)):
        check([row["rank"] for row in table["ranks"]] == list(range(ranks)), "ranks of this attempt and no others")
        check(all(row["steps"] == steps for row in table["ranks"]), [row["steps"] for row in table["ranks"]])
        check(0 <= table["run"]["slowest_rank"] < ranks and 0 < table["run"]["load_balance"] <= 1, table["run"])
        for row in table["ranks"]:
            check_rank(row, f"runs/t/trace/rank-{row['rank']:05d}.h5", table["attempt"])
        for key in ("transfer_ns", "hidden_ns", "exposed_ns", "payload"):
            check(table["run"]["exchange"][key] == sum(row["exchange"][key] for row in table["ranks"]), key)
        between = sum(row["links"]["between"]["payload"] for row in table["ranks"])
        check(table["run"]["links"]["between"]["payload_per_step"] == between / steps, "payload per step")
        check((between > 0) == (ranks == 4), "bytes between nodes", between)
        check_export("t", table["attempt"], [steps] * ranks)
    both = json.loads(shoal("trace", "show", "runs/t", "--json", "--attempt", "all").stdout)
    check([row["steps"] for row in both["ranks"]] == [50, 50, 50, 30] and both["run"]["slowest_rank"] is None, both["run"])
    json.loads(shoal("trace", "export", "runs/t", "--attempt", "all").stdout)
    text = shoal("trace", "show", "runs/t").stdout
    check("attempt 2: 3 ranks on 1 node, 20 steps each" in text and not re.search(r"^ +3 ", text, re.M), text)
    lines = shoal("trace", "show", "runs/t", "--steps").stdout.splitlines()
    check(len(lines) == 1 + 3 * 20 and lines[0].startswith("attempt,rank,step,begin_ns,forward_ns"), lines[:2])
    for words, code in ((["--attempt", 3], 2), (["--attempt", "x"], 2), (["--json", "--steps"], 2)):
        shoal("trace", "show", "runs/t", *words, code=code)
    shoal("trace", "export", "runs/t", "-o", "absent/t.json", code=7)
    # At level step the same table, but what overlapped is not known.
    train(2, "s", *options, *sets(trace__level="step", run__steps=5))
    row = json.loads(shoal("trace", "show", "runs/s", "--json").stdout)["ranks"][1]
    check(row["level"] == "step" and row["exchange"]["transfer_ns"] is None and row["exchange"]["exposed_ns"] is not None, row)
    check(row["exchange"]["payload"] == row["links"]["node"]["payload"] > 0, row)


def case_statistics():
    """The model's running statistics are the mean over ranks of E[x] and E[x^2]; resuming elsewhere starts from them."""
    import h5py
    import numpy as np
    glyphs(200, 50, 32)
    options = [*RESNET, *sets(run__epochs=1)]
    train(3, "s", *options)
    with h5py.File(newest("s")) as f:
        model = {k: v[()] for k, v in f["model"].items() if "running" in k}
        ranks = [f[f"replica/{k}/stats"][()] for k in range(3)]
    check(not np.array_equal(ranks[0], ranks[1]), "ranks saw different batches but have equal statistics")
    layers = sorted({k.rsplit(".", 1)[0] for k in model}, key=lambda n: [str(x) for x in n.split(".")])
    for layer in layers:  # the flat statistics hold mean, then variance of each layer: find the layer by its mean
        mean, var = model[f"{layer}.running_mean"], model[f"{layer}.running_var"]
        c = len(mean)
        hits = 0
        for at in range(0, len(ranks[0]) - 2 * c + 1):
            m = np.mean([r[at:at + c].astype(float) for r in ranks], axis=0)
            if not np.allclose(m, mean, rtol=1e-5, atol=1e-6):
                continue
            second = np.mean([r[at + c:at + 2 * c].astype(float) + r[at:at + c].astype(float) ** 2 for r in ranks], axis=0)
            hits += np.allclose(second - m ** 2, var, rtol=1e-4, atol=1e-6)
        check(hits == 1, f"{layer}: {hits} places of the flat statistics average to the model's")
    train(2, "s", *options, *sets(run__epochs=2, run__steps=7))  # nothing to train: loads, evaluates, saves
    train(2, "s", *options, *sets(run__epochs=2))


def case_uneven():
    """1003 samples, batch 32, odd rank counts, three epochs: no hang, every sample once per epoch (H14)."""
    glyphs(1003, 37)
    for ranks in (3, 4, 7):
        for last in ("short", "drop", "pad") if FULL or ranks == 3 else ("short",):
            name = f"u{ranks}{last}"
            r = train(ranks, name, *MLP, *sets(run__epochs=3, data__batch=32, data__last=last))
            batch = 32 * ranks
            steps = {"short": -(-1003 // batch), "drop": 1003 // batch, "pad": -(-1003 // batch)}[last]
            check(status(name)["step"] == 3 * steps, status(name), steps)
            check(len(metrics(name)) == 3 and status(name)["state"] == "done", metrics(name))
            check(last == "short" or last[:4] in r.stdout, r.stdout)
    # Fewer samples in the global batch than ranks: some ranks have none and still join.
    train(4, "few", *MLP, *sets(run__epochs=1, data__global_batch=3, run__steps=5))
    train(1, "one", *MLP, *sets(run__epochs=1, data__global_batch=3, run__steps=5))
    check(diff(newest("few"), newest("one"), "--only", "model/", "--tolerance", "1e-4").returncode == 0, "4 ranks, batch 3")


def case_long_messages():
    """A small largest message splits everything and changes nothing (H17)."""
    glyphs(200)
    options = [*MLP, *sets(run__epochs=1, data__batch=16)]
    train(3, "plain", *options)
    train(3, "split", *options, *sets(comm__max_message=1000))
    check_equal(newest("plain"), newest("split"), "split messages")


def wait_for(path, pattern, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        try:
            with open(path) as f:
                if re.search(pattern, f.read()):
                    return True
        except OSError:
            pass
        time.sleep(0.05)
    return check(False, f"{path} never showed {pattern}")


def children(pid):
    out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(p) for p in out.split()]


def start(ranks, name, *args):
    log = open(f"{name}.out", "w")
    return subprocess.Popen(command(ranks, *args, "--set", f"run.name={name}"), env=ENV, stdout=log, stderr=log)


SLOW = [*MLP, *sets(run__epochs=40, data__batch=8, fault__compute="sleep:20", run__log_every="1 steps"), "--allow-faults"]


def ranks_of(job):
    """Ranks of a running mpirun job with their process ids."""
    out = {}
    for pid in children(job.pid):
        with open(f"/proc/{pid}/environ", "rb") as f:
            env = dict(e.split(b"=", 1) for e in f.read().split(b"\0") if b"=" in e)
        if b"OMPI_COMM_WORLD_RANK" in env:
            out[int(env[b"OMPI_COMM_WORLD_RANK"])] = pid
    return out


def case_signals():
    """One signal at one rank stops all at the same step with one verified checkpoint (H07)."""
    glyphs(400)
    plans = [("one", [3], [signal.SIGUSR1]), ("twice", [1], [signal.SIGUSR1, signal.SIGUSR1]),
             ("both", [0], [signal.SIGUSR1, signal.SIGTERM])]
    for name, who, what in plans if FULL else random.sample(plans, 2):
        job = start(4, name, *SLOW)
        wait_for(f"runs/{name}/log.txt", r"step \d")
        pids = ranks_of(job)
        for number in what:
            for rank in who:
                try:
                    os.kill(pids[rank], number)
                except ProcessLookupError:
                    pass  # the run was quicker than the second signal
            time.sleep(0.005)
        code = job.wait(60)
        text = open(f"{name}.out").read()
        check(code == 75, f"{name}: exit {code}\n{text}")
        check(status(name)["state"] == "stopped", status(name))
        saved = os.listdir(f"runs/{name}/ckpt")
        check(len(saved) == 1, saved)
        shoal("ckpt", "verify", newest(name))
        check(not os.path.exists(f"runs/{name}/lease"), "the lease is still there")


def case_killed():
    """kill -9 of one rank: the job ends, the last checkpoint resumes to the bits of an uninterrupted run (H06, H09)."""
    glyphs(400)
    options = [*MLP, *sets(run__epochs=3, data__batch=16, ckpt__every="5 steps")]
    train(2, "whole", *options)
    job = start(2, "killed", *options, "--allow-faults", *sets(fault__kill_step=17, fault__rank=1))
    t = time.time()
    code = job.wait(60)
    check(code not in (0, 75), f"exit {code}")
    check(time.time() - t < 30, "the survivors stayed")
    check(status("killed")["state"] in ("running", "failed"), status("killed"))
    r = train(2, "killed", *options)
    check("attempt 2" in r.stdout and "resumed from" in r.stdout, r.stdout)
    check_equal(newest("whole"), newest("killed"), "killed at step 17")
    check([m["step"] for m in metrics("whole")] == [m["step"] for m in metrics("killed")], "metrics rows")
    # Its trace is that of the last flush, at step 15's checkpoint, and the clocks of its start are known.
    table = json.loads(shoal("trace", "show", "runs/killed", "--json", "--attempt", 1).stdout)
    check([a["closed"] for a in table["attempts"]] == [False, True], table["attempts"])
    # The survivor may have noticed before the launcher ended it, and then has written what it had.
    check(all(row["steps"] in ((15,) if row["rank"] == 1 else (15, 17)) and row["clock"]["readings"] == 1 and row["clock"]["drift_ppm"] is None
              for row in table["ranks"]), table["ranks"])


def case_lost():
    """A launcher that does not clean up: rank 2 is killed, or leaves early with code 0.  The others notice within seconds,
    name it, leave with 4, and the next start resumes (H06)."""
    glyphs(400)
    options = [*MLP, *sets(run__epochs=3, data__batch=16, ckpt__every="5 steps")]
    train(4, "whole", *options)
    wrapper = ["sh", "-c", '"$@"; sleep 60', "sh"]  # mpirun sees the shell, which goes on
    for name, fault in (("killed", {"fault__kill_step": 12}), ("left", {"fault__exit_step": 12})):
        command = [*launch.mpirun(4, *wrapper), SHOAL, "train", *options, "--allow-faults", *sets(run__name=name, fault__rank=2, **fault)]
        t = time.time()
        r = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=60)
        took = time.time() - t
        check(r.returncode == 4, f"{name}: exit {r.returncode}\n{r.stdout}{r.stderr}")
        check(took < 20, f"{name}: took {took:.1f} s")
        check(re.search(r"rank 2 \(.*, process \d+\) is gone, noticed in training step 12", r.stderr), r.stderr)
        check(status(name)["state"] == "failed" and status(name)["exit_code"] == 4 and "rank 2" in status(name)["reason"], status(name))
        r = train(4, name, *options)
        check("resumed from" in r.stdout, r.stdout)
        check_equal(newest("whole"), newest(name), name)


def case_apart():
    """Ranks that cannot open each other's memory, each in a process table of its own: one warning, and the flat ring's bits."""
    new_table = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*new_table, "true"], capture_output=True).returncode:
        print("skipped: no process table of its own can be made here")
        sys.exit(77)
    glyphs(200)
    options = [*MLP, *sets(run__epochs=1, data__global_batch=24)]
    train(3, "flat", *options, *sets(comm__shared_memory="false"))
    # Open MPI's own shared memory is not made for this: it crashes.
    r = subprocess.run([*launch.mpirun(3, "--mca", "btl", "self,tcp", *new_table), SHOAL, "train", *options, *sets(run__name="apart")], env=ENV, capture_output=True, text=True, timeout=60)
    check(r.returncode == 0, f"exit {r.returncode}\n{r.stdout}{r.stderr}")
    check(r.stderr.count("cannot share memory") == 1, "not one warning\n" + r.stderr)
    check_equal(newest("flat"), newest("apart"), "ranks that cannot share memory")


def saved(name):
    """Step of the newest checkpoint, -1 without any."""
    folder = f"runs/{name}/ckpt"
    steps = [int(f[5:-3]) for f in (os.listdir(folder) if os.path.isdir(folder) else []) if f.startswith("step-")]
    return max(steps, default=-1)


# Methods whose runs end in the same bits every time, with short schedules, so that most steps lie inside one.
EXACT = {
    "sync": {}, "local-sgd": dict(method__period=3), "daso": dict(method__warmup_epochs=1, method__cooldown_epochs=1),
    "swarm": dict(method__deterministic="true"), "ist": dict(method__round=4, method__moments="carry"), "local": dict(method__chunks=2),
    "ab": dict(method__warmup=3, method__cycle=6, method__rebound=2, method__ramp=2, method__exempt="[last]"),
}


def case_killed_saving():
    """All processes killed at random moments of a run that saves after every step: each restart goes on from a checkpoint
    that verifies, and the end is that of an uninterrupted run (H09).  3 kills of each of two methods; with SHOAL_FULL=1
    of every method, and 50 of a long run of sync."""
    glyphs(400)
    rng = random.Random(int(os.environ.get("SHOAL_TEST_SEED", time.time())))
    for method in EXACT if FULL else rng.sample(list(EXACT), 2):
        kill_while_saving(method, 50 if FULL and method == "sync" else 3)


def kill_while_saving(method, kills):
    print(method, flush=True)
    epochs = 30 if kills > 3 else 4
    options = [*MLP, "--topo", "2x1", *sets(method__name=method, run__epochs=epochs, data__batch=8, ckpt__every="1 steps",
                                            model__widths="[256,128]", **EXACT[method])]
    whole, shot = f"{method}-whole", f"{method}-shot"
    train(2, whole, *options)
    done = seen = 0
    while done < kills:
        job = start(2, shot, *options)
        while job.poll() is None and saved(shot) <= seen:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.1))  # somewhere in a step or a save
        if job.poll() is not None:
            break  # it finished before the shot: enough was done
        for pid in [job.pid, *children(job.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        job.wait()
        seen = saved(shot)
        done += 1
    check(done >= 2, f"{method}: only {done} kills")
    r = train(2, shot, *options)
    check("resumed from" in r.stdout, r.stdout)
    check_equal(newest(whole), newest(shot), f"{method}, {done} kills")
    leftovers = [f for f in os.listdir(f"runs/{shot}/ckpt") if not f.startswith("step-")]
    check(not leftovers, leftovers)


def case_locks():
    """A data file that another process holds locked, and file systems that refuse locks, stop nobody (H10)."""
    import fcntl
    glyphs(200)
    base = [*MLP, *sets(run__epochs=1, data__batch=8)]
    with open("glyphs.h5", "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        train(8, "held", *base)
    shim = os.path.join(os.path.dirname(SHOAL), "..", "..", "tests", "libnolock.so")
    if not check(os.path.exists(shim), f"{shim} is missing"):
        return
    for number in (11, 37, 524):
        name = f"e{number}"
        train(2, name, *base, env={"LD_PRELOAD": os.path.abspath(shim), "NOLOCK_ERRNO": str(number)})
        shoal("ckpt", "verify", newest(name))


def case_damaged():
    """Resume goes on from the newest checkpoint that verifies, and says what it skipped (H09)."""
    glyphs(400)
    options = [*MLP, *sets(run__epochs=2, data__batch=16, ckpt__every="5 steps", ckpt__keep=4)]
    train(1, "d", *options)
    files = sorted(os.listdir("runs/d/ckpt"))
    check(len(files) == 4, files)
    shutil.copytree("runs/d", "runs/good")
    with open(f"runs/d/ckpt/{files[-1]}", "r+b") as f:
        f.truncate(os.path.getsize(f.name) - 1024)
    with open(f"runs/d/ckpt/{files[-2]}", "r+b") as f:
        f.seek(os.path.getsize(f.name) // 2)
        byte = f.read(1)
        f.seek(-1, 1)
        f.write(bytes([byte[0] ^ 1]))
    open("runs/d/ckpt/step-999999999.h5", "w").close()
    for bad in (files[-1], files[-2], "step-999999999.h5"):
        shoal("ckpt", "verify", f"runs/d/ckpt/{bad}", code=7)
    r = train(1, "d", *options)
    for bad in (files[-1], files[-2], "step-999999999.h5"):
        check(bad in r.stdout + r.stderr, f"{bad} was not reported\n{r.stdout}{r.stderr}")
    check(f"resumed from runs/d/ckpt/{files[-3]}" in r.stdout, r.stdout)
    check_equal(f"runs/good/ckpt/{files[-1]}", f"runs/d/ckpt/{files[-1]}", "after the damage")


def case_refusals():
    """Bad input: one line with the thing, the value and the cure, the right code, nothing overwritten."""
    glyphs(200)
    base = [*MLP, *sets(run__epochs=1)]
    for extra, code, words in (
            (sets(optim__leraning_rate=0.1), 2, ["optim.leraning_rate", "optim.lr"]),
            (sets(model__name="resnet21"), 2, ["resnet21", "resnet2"]),
            (sets(method__name="snyc"), 2, ["snyc", "sync"]),
            (sets(data__file="absent.h5"), 7, ["absent.h5"]),
            (sets(optim__lr=-1), 2, ["optim.lr", "-1"]),
            (sets(fault__stop_step=3), 2, ["fault.stop_step", "--allow-faults"]),
            (sets(data__batch=8, data__global_batch=8), 2, ["data.batch", "data.global_batch"]),
            (sets(run__log_every="0 steps"), 2, ["run.log_every", "200 steps"]),
            (sets(eval__every="10s"), 2, ["eval.every", "epoch"]),
            (sets(comm__hang="1s"), 2, ["comm.hang", "comm.warn"]),
            (sets(data__batch="4611686018427387905"), 2, ["data.batch"]),
            (sets(optim__schedule="cosine", optim__warmup_epochs=1), 2, ["optim.warmup_epochs", "lower it"]),
            (["--topo", "3x3"], 2, ["3x3"]),
            (["--resum", "auto"], 2, ["--resum", "--resume"]),
    ):
        for ranks in (1, 2):
            r = train(ranks, "bad", *base, *extra, code=code)
            lines = [l for l in r.stderr.splitlines() if "shoal: error" in l or "error" in l.lower() and "shoal" in l]
            check(all(w in r.stderr for w in words), f"{extra}: {r.stderr}")
            check(len(lines) == 1, f"{extra} at {ranks} ranks: more than one complaint\n{r.stderr}")
            check(not os.path.exists("runs/bad/ckpt") or not os.listdir("runs/bad/ckpt"), "left a checkpoint")
    train(1, "good", *base)
    before = newest("good")
    train(1, "good", *base, "--resume", "never", code=2)
    check(newest("good") == before and status("good")["state"] == "done", "a refusal changed the folder")
    r = train(1, "good", *base, *sets(model__widths="[32,32]"), code=2)
    check("shape" in r.stderr, r.stderr)
    train(2, "norm", *base, *sets(model__norm="batch"))
    for norm, tensor in (("none", "norm1.bias"), ("layer", "norm1.running_mean")):  # what is switched off would be lost
        r = train(2, "norm", *base, *sets(model__norm=norm, run__epochs=2), code=2)
        check(r.stderr.count("error:") == 1 and tensor in r.stderr and "same model options" in r.stderr, r.stderr)
    r = train(1, "good", *base, *sets(run__seed=9, run__epochs=2), code=2)
    check("run.seed" in r.stderr, r.stderr)
    shoal("data", "synth", "glyphs", "-o", "other.h5", "--train", 200, "--test", 100, "--seed", 9)
    r = train(1, "good", *base, *sets(data__file="other.h5", run__epochs=2), code=2)
    check("data.file" in r.stderr, r.stderr)
    # by name: threads has no section, and 1 epoch is also what eval.every was
    r = train(1, "good", *base, *sets(run__epochs=2, optim__lr=0.01, threads=2, ckpt__every="1 epoch"))
    changes = re.findall("changed since the checkpoint: (.*)", r.stdout)
    expected = ["run.epochs: 2 (was 1)", "ckpt.every: 1 epoch (was 10min)", "threads: 2 (was 0)", "optim.lr: 0.01 (was 0.05)"]
    check(changes == expected, f"{changes}, expected {expected}")


def case_heard():
    """A fault that only one rank sees is told in that rank's words, and a refused restart leaves the records alone."""
    glyphs(200)
    base = [*MLP, *sets(run__epochs=1, data__batch=8)]
    with open("rank.sh", "w") as f:
        f.write('#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec "$@" --set data.file=absent.h5\nexec "$@"\n')
    os.chmod("rank.sh", 0o755)
    c = launch.mpirun(3, "./rank.sh", *command(1, *base))
    r = subprocess.run(c, env=ENV, capture_output=True, text=True, timeout=120)
    check(r.returncode == 7, r.returncode)
    check("[rank 1] shoal: error" in r.stderr and "absent.h5" in r.stderr, r.stderr)
    train(1, "done", *base, *sets(run__steps=25))  # 200 samples, 8 each: the last step is the epoch's last
    check(len(metrics("done")) == 1 and metrics("done")[0]["epoch"] == "1" and metrics("done")[0]["train_loss"],
          metrics("done"))
    before = status("done")
    train(1, "done", *base, *sets(model__widths="[32,32]"), code=2)
    train(1, "done", *base, "--resume", "absent.h5", code=7)
    check(status("done") == before, status("done"))
    r = train(1, "done", *base)
    check("nothing to do" in r.stdout, r.stdout)
    # A checkpoint due at the run's last step comes before the epoch's end: the end is saved all the same.
    train(1, "edge", *base, *sets(ckpt__every="5 steps"))
    for _ in range(2):
        train(1, "edge", *base, *sets(ckpt__every="5 steps"))
    check(len(metrics("edge")) == 1, metrics("edge"))
    check(diff(newest("edge"), newest("done"), "--except", "train/").returncode == 0, "the end of the run was not saved")
    train(1, "quiet", *base, "-q")
    with open("runs/quiet/log.txt") as f:
        text = f.read()
    check("epoch 1 done" in text and "=== attempt 1" in text, text)
    shoal("data", "synth", "glyphs", "-o", ".", "--train", 10, "--test", 5, code=7)


def case_replicas():
    """Replicas that differ are found before step 1, and the odd rank is named (H16)."""
    glyphs(200)
    base = [*MLP, *sets(run__epochs=1, data__batch=8), "--allow-faults"]
    r = train(4, "seed", *base, *sets(fault__rank=1, fault__seed=5), code=3)
    check("rank 1" in r.stderr and "weights" in r.stderr, r.stderr)
    r = train(4, "lr", *base, *sets(fault__rank=2, fault__lr=2), code=3)
    check("rank 2" in r.stderr and "learning rate" in r.stderr, r.stderr)
    shoal("data", "synth", "glyphs", "-o", "other.h5", "--train", 200, "--test", 100, "--seed", 9)
    with open("rank.sh", "w") as f:
        f.write('#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 3 ] && exec "$@" --set data.file=other.h5\nexec "$@"\n')
    os.chmod("rank.sh", 0o755)
    c = launch.mpirun(4, "./rank.sh", *command(1, *base))
    r = subprocess.run(c, env=ENV, capture_output=True, text=True, timeout=120)
    check(r.returncode == 3 and "rank 3" in r.stderr, r.returncode, r.stderr)
    check(not os.path.exists("runs/run/metrics.csv"), "a refused run began")


def case_numeric():
    """A NaN stops with exit 6; the last checkpoint is good and older than the NaN."""
    glyphs(400)
    options = [*MLP, *sets(run__epochs=2, data__batch=16, ckpt__every="4 steps")]
    train(2, "nan", *options, "--allow-faults", *sets(fault__nan_step=9, fault__rank=1), code=6)
    check(status("nan")["state"] == "failed" and status("nan")["exit_code"] == 6, status("nan"))
    shoal("ckpt", "verify", newest("nan"))
    check("step-000000008" in newest("nan"), newest("nan"))  # not the later ones: they would hold the NaN
    train(2, "nan", *options)
    check(status("nan")["state"] == "done", status("nan"))


def case_folder():
    """One run at a time in a folder; a lease whose owner is gone is taken over."""
    glyphs(400)
    job = start(1, "busy", *SLOW)
    wait_for("runs/busy/log.txt", r"step \d")
    before = status("busy")
    r = train(1, "busy", *SLOW, code=3)
    check("in use" in r.stderr and str(job.pid) in r.stderr, r.stderr)
    check(status("busy") == before, "a refused run wrote status.json")
    job.send_signal(signal.SIGKILL)
    job.wait()
    check(os.path.exists("runs/busy/lease"), "a killed run cannot have given its lease back")
    r = train(1, "busy", *MLP, *sets(run__epochs=1, data__batch=8))
    check("attempt 2" in r.stdout, r.stdout)
    check(not os.path.exists("runs/busy/lease"), "the lease is still there")
    # whose checkpoint is it? A sibling's with a longer name is not this run's; the run's own by another name is
    base = [*MLP, *sets(run__epochs=1, data__batch=50)]
    train(2, "own", *base)
    last = os.path.basename(newest("own"))
    os.rename("runs/own/ckpt", "runs/own/ckpt-old")
    train(2, "own", *base, "--resume", f"runs/own/ckpt-old/{last}")
    check(os.listdir("runs/own/ckpt") == [last], "a run that went on from ckpt-old has no checkpoint of its own")
    written = os.stat(newest("own")).st_mtime_ns
    os.symlink("ckpt", "runs/own/link")
    train(2, "own", *base, "--resume", f"runs/own/link/{last}")
    check(os.stat(newest("own")).st_mtime_ns == written, "a checkpoint was written over itself")


def case_singletons():
    """Four copies that each believe to be alone are refused (H01); on purpose they may."""
    glyphs(100)
    base = [*MLP, *sets(run__epochs=1)]
    step = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4", "SLURM_PROCID": "0",
            "SLURM_STEP_NUM_NODES": "1", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    for rank in range(4):
        r = subprocess.run(command(1, *base), env={**ENV, **step, "SLURM_PROCID": str(rank)}, capture_output=True, text=True)
        check(r.returncode == 3, r.returncode, r.stderr)
        if rank == 0:
            check("4" in r.stderr and "--mpi=pmix" in r.stderr, r.stderr)
    check(not os.path.exists("runs"), "a refused run made a folder")
    r = subprocess.run(command(1, *base, *sets(run__allow_singletons="true")), env={**ENV, **step}, capture_output=True,
                       text=True)
    check(r.returncode == 0, r.stderr)


def places(name):
    with open(f"runs/{name}/placement.json") as f:
        return json.load(f)["places"]


def wrapped(script, ranks, name, *args, code=0, env=None):
    """Ranks started through a shell that first runs `script`; `$R` is the rank."""
    c = launch.mpirun(ranks, "sh", "-c", f'R=$OMPI_COMM_WORLD_RANK; {script}', "sh",
                      SHOAL, "train", *map(str, args), "--set", f"run.name={name}")
    r = subprocess.run(c, env={**ENV, **(env or {})}, capture_output=True, text=True, timeout=120)
    check(r.returncode == code, f"{script}: exit {r.returncode}, expected {code}\n{r.stdout}{r.stderr}")
    return r


def case_cores():
    """Threads and the placement follow the real mask, whatever the environment or a description claims (H02, H04)."""
    glyphs(100, 20)
    base = [*MLP, *sets(run__epochs=1, run__steps=2)]
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        print("skipped: two cpus are needed")
        sys.exit(77)
    mine = [cpus[-3], cpus[-1]] if len(cpus) > 3 else cpus[-2:]  # high and not adjacent, where there are enough
    pin = 'exec taskset -c "$(echo {} {} | cut -d" " -f$((R + 1)))" "$@"'.format(*mine)
    machine = f"{os.path.dirname(os.path.abspath(__file__))}/../golden/topo/two-numa.xml"
    for name, env in (("plain", {}), ("described", {"HWLOC_XMLFILE": machine, "HWLOC_THISSYSTEM": "0"})):
        wrapped(pin, 2, name, *base, env=env)
        for p, cpu in zip(places(name), mine):
            check((p["cores"], p["threads"], p["cpus"]) == (1, 1, str(cpu)), f"{name}: {p}")
            check(p["pid"] > 0 and p["local_size"] == 2, p)
    r = wrapped(pin, 2, "four", *base, env={"SLURM_CPUS_PER_TASK": "4"})
    check(r.stderr.count("asked 4, have 1") == 1 and "2 of 2 ranks" in r.stderr, r.stderr)
    check([p["threads"] for p in places("four")] == [1, 1], places("four"))
    r = wrapped(pin, 2, "strict", *base, *sets(run__strict="true"), env={"SLURM_CPUS_PER_TASK": "4"}, code=3)
    check(r.stderr.count("asked 4, have 1") == 1 and "--cpus-per-task=4" in r.stderr, r.stderr)
    check(not os.path.exists("runs/strict"), "a refused run made a folder")
    r = wrapped(pin, 2, "both", *base, env={"SLURM_CPUS_PER_TASK": "4", "SRUN_CPUS_PER_TASK": "8"})
    check(r.stderr.count("SLURM_CPUS_PER_TASK is 4 but SRUN_CPUS_PER_TASK is 8") == 1, r.stderr)
    wrapped('exec "$@"', 2, "told", *base, *sets(threads=3))
    check([p["threads"] for p in places("told")] == [3, 3], places("told"))


def case_placement():
    """One table in placement.json, log, trace and checkpoint; in a log of many ranks a short one."""
    glyphs(100, 20)
    train(3, "three", *MLP, *sets(run__epochs=1), "--topo", "2,1")
    with open("runs/three/placement.json") as f:
        table = json.load(f)
    check([(p["rank"], p["node"], p["local_rank"]) for p in table["places"]] == [(0, 0, 0), (1, 0, 1), (2, 1, 0)], table)
    check(table["pretended"] and table["applied"], table)
    shown = json.loads(shoal("ckpt", "show", newest("three"), "--json").stdout)["placement"]
    check(json.loads(shown) == table, shown)
    with open("runs/three/log.txt") as f:
        log = f.read()
    for p in table["places"]:
        check(re.search(rf"^ +{p['rank']} +{p['node']} +{p['local_rank']} +\S+ +{p['pid']} ", log, re.M), f"{p} not in the log")
    trace = subprocess.run([PYTHON, "-c", "import h5py, sys\nfor f in sys.argv[1:]: print(h5py.File(f).attrs['placement'].replace(chr(10), ''))",
                            *sorted(f"runs/three/trace/{f}" for f in os.listdir("runs/three/trace"))], capture_output=True, text=True)
    rows = [json.loads(line) for line in trace.stdout.splitlines()]
    check(len(rows) == 3 and rows[0] == table, trace.stdout, trace.stderr)
    check(all(rows[r] == {**table, "places": [table["places"][r]]} for r in (1, 2)), rows)


def case_claims():
    """Whoever describes another world than the one there is ends it, with exit 3, one line and no folder (H01, H05)."""
    glyphs(100, 20)
    base = [*MLP, *sets(run__epochs=1, run__steps=2)]
    for script, words in (
            ("export OMPI_COMM_WORLD_LOCAL_SIZE=3", ["OMPI_COMM_WORLD_LOCAL_SIZE says 3", "2 of the ranks"]),
            ("[ $R = 0 ] || export OMPI_COMM_WORLD_LOCAL_SIZE=1", ["rank 1 on", "OMPI_COMM_WORLD_LOCAL_SIZE says 1"]),
            ("[ $R = 0 ] || export OMPI_COMM_WORLD_LOCAL_RANK=0", ["OMPI_COMM_WORLD_LOCAL_RANK says 0, as on rank 0"]),
            ("export OMPI_COMM_WORLD_RANK=$((1 - R))", ["OMPI_COMM_WORLD_RANK says 1", "MPI calls it rank 0"]),
            ("export OMPI_COMM_WORLD_SIZE=4", ["launcher started 4 ranks", "MPI sees 2"]),
    ):
        r = wrapped(f'{script}; exec "$@"', 2, "wrong", *base, code=3)
        check(all(w in r.stderr for w in words) and r.stderr.count("shoal: error") + r.stderr.count("] error") == 1, f"{script}\n{r.stderr}")
        check(not os.path.exists("runs"), f"{script}: a refused run made a folder")
    # Slurm's commands are not there, or fail: nobody asks them, and what Slurm says of mpirun's daemons is no claim.
    os.mkdir("bin")
    for tool in ("scontrol", "srun", "sinfo", "squeue", "sacct"):
        with open(f"bin/{tool}", "w") as f:
            f.write("#!/bin/sh\necho $0 >>asked\nexit 1\n")
        os.chmod(f"bin/{tool}", 0o755)
    daemons = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_PROCID": "1", "SLURM_NODEID": "1",
               "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_NODELIST": "n[1-2]", "SLURMD_NODENAME": "n2"}
    wrapped('exec "$@"', 3, "daemons", *base, env={**daemons, "PATH": f"{os.path.abspath('bin')}:{ENV['PATH']}"})
    check(len(places("daemons")) == 3 and {p["node"] for p in places("daemons")} == {0}, places("daemons"))
    # A step of two tasks on two nodes that no MPI holds together: stopped at once, not one node waiting for itself.
    for path in ("/nonexistent", os.path.abspath("bin")):
        r = train(1, "step", *base, env={**daemons, "SLURM_PROCID": "0", "PATH": path}, code=3)
        check("2 tasks" in r.stderr and "--mpi=pmix" in r.stderr, r.stderr)
        r = shoal("topo", env={**daemons, "SLURM_PROCID": "0", "SLURM_STEP_NODELIST": "n[1-", "PATH": path}, code=3)
        check('SLURM_STEP_NODELIST "n[1-", position 5' in r.stderr, r.stderr)
    check(not os.path.exists("asked"), "somebody asked Slurm's commands")


def main(cases=globals()):
    case = cases.get(f"case_{CASE}")
    if not case:
        sys.exit(f"no case {CASE}")
    folder = tempfile.mkdtemp(prefix=f"shoal-{CASE}-")
    os.chdir(folder)
    try:
        case()
    finally:
        os.chdir("/")
        if failures and os.environ.get("SHOAL_KEEP"):
            print("kept", folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{CASE}: {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
