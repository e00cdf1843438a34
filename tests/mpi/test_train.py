"""Whole runs of `shoal train`: starts, stops, faults, and what a run writes, mostly with method sync."""
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import time

import h5py
import numpy as np

import pytest
import launch
from harness import (ENV, FULL, KINDS, MLP, RESNET, STEP, TESTS, Trace, assert_differ, assert_equal, assert_formula, assert_one_error,
                     built, checkpoints, column, diff, kill_all, log, metrics, newest, nodes_of, placement, places, random_source,
                     ranks_of, read, run, said, sampled, send, sets, shoal, status, stops, trace_table, train, train_command,
                     train_through, wait_for, wait_until)


def test_ranks(glyphs):
    """The same global batch gives the same weights at 1, 2, 3 and 4 ranks, to rounding (relative 1e-4)."""
    glyphs(1003)
    for ranks in (1, 2, 3, 4):
        train(ranks, f"r{ranks}", *MLP, *sets(run__epochs=1, data__global_batch=50))
    for ranks in (2, 3, 4):
        assert_equal(newest("r1"), newest(f"r{ranks}"), f"1 and {ranks} ranks differ by more than 1e-4", "model/", tolerance=1e-4)
    losses = {m["train_loss"] for ranks in (1, 2, 3, 4) for m in metrics(f"r{ranks}")}
    assert max(map(float, losses)) - min(map(float, losses)) < 1e-4, f"train losses differ {losses}"
    # The tolerance can fail: another seed is another network.
    train(1, "other", *MLP, *sets(run__epochs=1, data__global_batch=50, run__seed=2))
    assert_differ(newest("r1"), newest("other"), "another seed is the same network", "--only", "model/", "--tolerance", "1e-4")


def test_resume(glyphs):
    """H12, H13: stop at random steps of resnet20 with augmentation and dropout, resume: same bits, at prefetch depths 0 and 4."""
    glyphs(200, 50, 32)
    ranks, total = 2, 14  # 200 samples, 32 per step: 7 steps per epoch, the last one short
    steps = stops(3, total - 2, what="resume")
    train(ranks, "whole", *RESNET)
    for depth in (0, 4):
        name = f"cut{depth}"
        options = [*RESNET, *sets(data__prefetch=depth)]
        for step in steps:
            train(ranks, name, *options, "--allow-faults", *sets(fault__stop_step=step, fault__rank=step % ranks), code=75)
            assert status(name)["state"] == "stopped", f"{status(name)}"
            assert status(name)["exit_code"] == 75, f"{status(name)}"
        train(ranks, name, *options)
        assert_equal(newest("whole"), newest(name), f"stopped at {steps}, prefetch {depth}")
        assert column(name, "step") == column("whole", "step")
        assert column(name, "train_loss", "test_acc") == column("whole", "train_loss", "test_acc")
    # At another rank count: the sample order goes on, the run finishes.
    train(ranks, "moved", *RESNET, "--allow-faults", *sets(fault__stop_step=5), code=75)
    r = train(3, "moved", *RESNET, *sets(data__batch=16))
    assert "layout changed" in r.stdout, r.stdout


def test_moved(glyphs):
    """Resume an mlp in mid-epoch at 1, 3 and 4 ranks: the same global order, so the same weights to rounding."""
    glyphs(1003)
    options = [*MLP, *sets(run__epochs=2, data__global_batch=50)]
    train(2, "whole", *options)
    for ranks in (1, 3, 4):
        name = f"moved{ranks}"
        train(2, name, *options, "--allow-faults", *sets(fault__stop_step=25), code=75)
        train(ranks, name, *options)
        assert_equal(newest("whole"), newest(name), f"2 then {ranks} ranks", "model/", tolerance=1e-4)


def ring_bytes(count, ranks, rank, width):
    sizes = [count // ranks + (k < count % ranks) for k in range(ranks)]
    return width * (2 * count - sizes[rank] - sizes[(rank + 1) % ranks]) if ranks > 1 else 0


@pytest.mark.parametrize("ranks, topo, wire", ((2, "2x1", "f32"), (3, "1x3", "bf16"), (4, "2x2", "f32"), (4, "1,2,1", "f16")))
def test_bytes(glyphs, ranks, topo, wire):
    """Counted payload equals the formula for every rank and link class, f32 and 16 bits, on several topologies."""
    glyphs(320)
    layers = [(784, 64), (64, 32), (32, 10)]
    # Buckets close after the tensor that fills them: weights and bias of a layer stay together here (limits are small).
    r = train(ranks, "b", *MLP, "--topo", topo,
              *sets(run__epochs=2, data__batch=16, method__wire=wire, method__algorithm="ring",
                    method__first_bucket=1e-5, method__bucket=1e-5))
    assert_formula(r)
    node, steps, width = nodes_of(topo), status("b")["step"], 4 if wire == "f32" else 2
    # Without knowing how ranges split into buckets the sum over a layer's weight and bias differs by rounding of chunk
    # sizes only; with first_bucket and bucket tiny every announced range is a bucket of its own.
    cuts = [[o * i + o for i, o in layers], [x for i, o in layers for x in (o * i, o)]]
    for row in trace_table("b")["ranks"]:
        rank = row["rank"]
        used, unused = ("node", "between") if node[rank] == node[(rank + 1) % ranks] else ("between", "node")
        sums = [steps * sum(ring_bytes(c, ranks, rank, width) for c in cut) for cut in cuts]
        assert row["links"][used]["payload"] in sums, f"rank {rank} on {used}"
        assert row["links"][unused]["payload"] == 0, f"rank {rank} on {unused}"


def test_algorithms(glyphs):
    """Every way to sum gives the same weights to rounding and its bytes by the formula; what auto chose is printed, kept
    in the checkpoint and kept to after it."""
    glyphs(320)
    options = [*MLP, "--topo", "2x2", *sets(run__epochs=2, data__batch=8, method__first_bucket=1e-5, method__bucket=1e-5)]
    for algorithm in ("ring", "two-level", "leaders", "small", "two-level-halving", "auto"):
        r = train(4, f"a-{algorithm}", *options, *sets(method__algorithm=algorithm))
        assert_formula(r)
        expected = rf"exchange: 3 buckets, .* as f32: 3 {algorithm}\n" if algorithm != "auto" else \
            r"exchange: 3 buckets, .* as f32: 1 small, 1 leaders, 1 two-level\n"
        assert re.search(expected, r.stdout), r.stdout
        assert_equal(newest("a-ring"), newest(f"a-{algorithm}"), f"ring and {algorithm}", "model/", tolerance=1e-4)
    stop = ["--allow-faults", *sets(fault__stop_step=7)]
    train(4, "kept", *options, *sets(method__algorithm="leaders"), *stop, code=75)
    costs = {"kind": "shoal costs of messages 1", "latency_us": 1, "near_mb_s": 100, "far_mb_s": 1, "local_latency_us": 1,
             "local_mb_s": 1000}
    with open("costs.json", "w", encoding="utf-8") as f:
        json.dump(costs, f)
    costs = sets(comm__costs="costs.json")
    r = train(4, "kept", *options, *costs)  # auto now, which goes on with what it finds
    assert re.search(r"as f32: 3 leaders\n", r.stdout), r.stdout
    assert_formula(r)
    assert_equal(newest("a-leaders"), newest("kept"), "leaders, kept after a stop")
    r = train(4, "costs", *options, *costs)
    assert re.search(r"sums are chosen by .*costs\.json: between nodes 1\.0 us, 100\.0 and 1\.0 MB/s", r.stdout), r.stdout
    assert re.search(r"as f32: 3 two-level\n", r.stdout), r.stdout
    assert_equal(newest("a-two-level"), newest("costs"), "two-level, chosen by costs")


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


def check_rank(row, name, attempt):
    """The numbers of one rank against its records, worked out here with unions of intervals."""
    t = Trace(name, row["rank"], attempt)
    records, counters = t.records, t.info
    spans = {kind: [] for kind in [*KINDS, "agreement", "agreement under way"]}
    for r in records:
        kind = KINDS[r["kind"]]
        if r["link"] == 3:
            kind = "agreement" if kind == "wait" else "agreement under way"
        spans[kind].append((int(r["t0_ns"]), int(r["t1_ns"])))
    flights = union_of(spans["exchange"])
    waits = union_of(spans["wait"])
    compute = union_of(spans["forward"] + spans["backward"] + spans["optimizer"] + spans["evaluation"])
    x, who = row["exchange"], f"attempt {attempt} rank {row['rank']}"
    transfer, exposed = length(flights), length(waits)
    hidden = common(flights, compute) - common(waits, compute)  # waits lie inside flights, and may lie inside backward
    assert row["steps"] == len(spans["step"]), f"{who} {row['steps']} {len(spans['step'])}"
    assert x["transfer_ns"] == transfer, f"{who} {x} {transfer} {exposed} {hidden}"
    assert x["exposed_ns"] == exposed, f"{who} {x} {transfer} {exposed} {hidden}"
    assert x["hidden_ns"] == hidden, f"{who} {x} {transfer} {exposed} {hidden}"
    assert common(flights, waits) == exposed, f"{who}: waits outside of what is waited for"
    assert x["transfer_ns"] == x["hidden_ns"] + x["exposed_ns"] + x["beside_ns"], \
        f"{who}: transfer is not the sum of its parts {x}"
    assert 0 <= x["exposed_ns"] <= x["transfer_ns"], f"{who} {x}"
    assert x["hidden_ns"] > 0, f"{who} {x}"
    assert sum(row["ns"].values()) == row["wall_ns"] == int(records["t1_ns"].max() - records["t0_ns"].min()), \
        f"{who}: kinds and wall {row}"
    assert row["ns"]["agreement"] == length(union_of(spans["agreement"])) > 0, f"{who}: agreement"
    for i, link in enumerate(("self", "node", "between", "control")):
        for what in ("payload", "wire", "messages"):
            assert row["links"][link][what] == counters[what][i], f"{who}: {what} on {link}"
    # All payload goes through exchanges here, so their records must hold every byte of it.
    sent = int(records["bytes"][records["kind"] == KINDS.index("exchange")].sum())
    assert sent == x["payload"] == row["links"]["node"]["payload"] + row["links"]["between"]["payload"] > 0, \
        f"{who}: {sent} bytes"
    lengths = sorted(b - a for a, b in spans["step"])
    n = len(lengths)
    assert abs(row["step_median_ms"] - lengths[(n + 1) // 2 - 1] * 1e-6) < 1e-5, f"{who}: median"
    assert abs(row["step_p95_ms"] - lengths[-(-95 * n // 100) - 1] * 1e-6) < 1e-5, f"{who}: p95"
    # One machine, one clock.
    clock = row["clock"]
    assert clock["readings"] == 2, f"{who}: clock {clock}"
    assert clock["offset_ns"] == clock["bound_ns"] == clock["drift_ppm"] == 0, f"{who}: clock {clock}"


def check_export(name, attempt, steps):
    """Valid JSON; every track in order of time without partial overlap; on one machine ranks' steps overlap in time."""
    shoal("trace", "export", f"runs/{name}", "-o", "t.json", "--attempt", attempt)
    with open("t.json") as f:
        text = f.read()
    assert shoal("trace", "export", f"runs/{name}", "--attempt", attempt).stdout == text, "-o writes what the terminal gets"
    trace = json.loads(text)
    assert trace["otherData"]["attempt"] == attempt, f'{trace["otherData"]}'
    assert trace["otherData"]["clock_bound_ns"] == 0, f'{trace["otherData"]}'
    named = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    tracks = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            tracks.setdefault((e["pid"], e["tid"]), []).append(e)
    assert sorted(named) == list(range(len(steps))), f"{named}"
    assert all(f"rank {r}" in text for r, text in named.items()), f"{named}"
    for (pid, tid), events in tracks.items():
        begins = [round(e["ts"] * 1000) for e in events]
        assert begins == sorted(begins), f"rank {pid} track {tid}: not in order"
        open_until = []
        for e, begin in zip(events, begins):
            end = begin + round(e["dur"] * 1000)
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or tid == 0 and end <= open_until[-1], f"rank {pid} track {tid}: spans cross {e}"
            open_until.append(end)
        assert all((e["cat"] == "exchange") == (tid > 0) for e in events), f"rank {pid} track {tid}: mixed"
    for pid, count in enumerate(steps):
        assert sum(e["cat"] == "step" for e in tracks[pid, 0]) == count, f"rank {pid}: steps"


def test_trace(glyphs):
    """What `trace show` and `trace export` say of a run on 2x2, resumed on 3 ranks, follows from its records."""
    glyphs(800)
    options = [*MLP, *sets(model__widths="[1024,512]", run__epochs=2, data__batch=8, trace__level="op",
                           method__first_bucket=0.001, method__bucket=0.1, run__steps=50)]
    train(4, "t", *options, "--topo", "2x2", "--allow-faults", *sets(fault__stop_step=28), code=75)
    first = trace_table("t")
    r = train(3, "t", *options)
    assert re.search(r"tracing +took \d", r.stdout), r.stdout
    last = trace_table("t")
    again = trace_table("t", "--attempt", 1)
    assert first["attempt"] == 1, "attempt 1 stays what it was"
    assert len(first["attempts"]) == 1, "attempt 1 stays what it was"
    assert first["ranks"] == again["ranks"], "attempt 1 stays what it was"
    assert last["attempt"] == 2, f'{last["attempts"]}'
    assert [(a["ranks"], a["traces"]) for a in last["attempts"]] == [(4, 4), (3, 3)], f'{last["attempts"]}'
    assert sorted(os.listdir("runs/t/trace")) == ["attempt-0001-node-00000.h5", "attempt-0001-node-00001.h5",
                                                  "attempt-0002-node-00000.h5"], "a file per node and attempt"
    assert all(a["closed"] for a in last["attempts"]), f'{last["attempts"]}'
    for table, ranks, steps in ((first, 4, 30), (last, 3, 20)):
        assert [row["rank"] for row in table["ranks"]] == list(range(ranks)), "ranks of this attempt and no others"
        assert all(row["steps"] == steps for row in table["ranks"]), f'{[row["steps"] for row in table["ranks"]]}'
        assert 0 <= table["run"]["slowest_rank"] < ranks, f'{table["run"]}'
        assert 0 < table["run"]["load_balance"] <= 1, f'{table["run"]}'
        for row in table["ranks"]:
            check_rank(row, "t", table["attempt"])
        for key in ("transfer_ns", "hidden_ns", "exposed_ns", "payload"):
            assert table["run"]["exchange"][key] == sum(row["exchange"][key] for row in table["ranks"]), f"{key}"
        between = sum(row["links"]["between"]["payload"] for row in table["ranks"])
        assert table["run"]["links"]["between"]["payload_per_step"] == between / steps, "payload per step"
        assert (between > 0) == (ranks == 4), f"bytes between nodes {between}"
        check_export("t", table["attempt"], [steps] * ranks)
    both = trace_table("t", "--attempt", "all")
    assert [row["steps"] for row in both["ranks"]] == [50, 50, 50, 30], f'{both["run"]}'
    assert both["run"]["slowest_rank"] is None, f'{both["run"]}'
    json.loads(shoal("trace", "export", "runs/t", "--attempt", "all").stdout)
    text = shoal("trace", "show", "runs/t").stdout
    assert "attempt 2: 3 ranks on 1 node, 20 steps each" in text, text
    assert not re.search(r"^ +3 ", text, re.M), text
    lines = shoal("trace", "show", "runs/t", "--steps").stdout.splitlines()
    assert len(lines) == 1 + 3 * 20, f"{lines[:2]}"
    assert lines[0].startswith("attempt,rank,step,begin_ns,forward_ns"), f"{lines[:2]}"
    for words, code in ((["--attempt", 3], 2), (["--attempt", "x"], 2), (["--json", "--steps"], 2)):
        shoal("trace", "show", "runs/t", *words, code=code)
    shoal("trace", "export", "runs/t", "-o", "absent/t.json", code=7)
    # At level step the same table, but what overlapped is not known.
    train(2, "s", *options, *sets(trace__level="step", run__steps=5))
    row = trace_table("s")["ranks"][1]
    assert row["level"] == "step", f"{row}"
    assert row["exchange"]["transfer_ns"] is None, f"{row}"
    assert row["exchange"]["exposed_ns"] is not None, f"{row}"
    assert row["exchange"]["payload"] == row["links"]["node"]["payload"] > 0, f"{row}"


def test_statistics(glyphs):
    """The model's running statistics are the mean over ranks of E[x] and E[x^2]; resuming elsewhere starts from them."""
    glyphs(200, 50, 32)
    options = [*RESNET, *sets(run__epochs=1)]
    train(3, "s", *options)
    with h5py.File(newest("s")) as f:
        model = {k: v[()] for k, v in f["model"].items() if "running" in k}
        ranks = [f[f"replica/{k}/stats"][()] for k in range(3)]
    assert not np.array_equal(ranks[0], ranks[1]), "ranks saw different batches but have equal statistics"
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
        assert hits == 1, f"{layer}: {hits} places of the flat statistics average to the model's"
    train(2, "s", *options, *sets(run__epochs=2, run__steps=7))  # nothing to train: loads, evaluates, saves
    train(2, "s", *options, *sets(run__epochs=2))


def test_uneven(glyphs):
    """H14: 1003 samples, batch 32, odd rank counts, three epochs: no hang, every sample once per epoch, by every policy."""
    glyphs(1003, 37)
    for ranks in (3, 4, 7):
        for last in ("short", "drop", "pad") if FULL or ranks == 3 else ("short",):
            name = f"u{ranks}{last}"
            r = train(ranks, name, *MLP, *sets(run__epochs=3, data__batch=32, data__last=last))
            batch = 32 * ranks
            steps = {"short": -(-1003 // batch), "drop": 1003 // batch, "pad": -(-1003 // batch)}[last]
            assert status(name)["step"] == 3 * steps, f"{status(name)} {steps}"
            assert len(metrics(name)) == 3, f"{metrics(name)}"
            assert status(name)["state"] == "done", f"{metrics(name)}"
            assert last == "short" or last[:4] in r.stdout, r.stdout
    # Fewer samples in the global batch than ranks: some ranks have none and still join.
    train(4, "few", *MLP, *sets(run__epochs=1, data__global_batch=3, run__steps=5))
    train(1, "one", *MLP, *sets(run__epochs=1, data__global_batch=3, run__steps=5))
    assert_equal(newest("few"), newest("one"), "4 ranks, batch 3", "model/", tolerance=1e-4)


def test_long_messages(glyphs):
    """H17: a small largest message splits everything and changes nothing."""
    glyphs(200)
    options = [*MLP, *sets(run__epochs=1, data__batch=16)]
    train(3, "plain", *options)
    train(3, "split", *options, *sets(comm__max_message=1000))
    assert_equal(newest("plain"), newest("split"), "split messages")


SLOW = [*MLP, *sets(run__epochs=40, data__batch=8, fault__compute="sleep:20", run__log_every="1 steps"), "--allow-faults"]
PLANS = {  # name → which ranks get which signals, one after the other
    "one": ([3], [signal.SIGUSR1]), "twice": ([1], [signal.SIGUSR1, signal.SIGUSR1]),
    "both": ([0], [signal.SIGUSR1, signal.SIGTERM]), "all": ([0, 1, 2, 3], [signal.SIGTERM]),
}


def assert_apart(pid):
    """Signals that stop are heard by one thread that does nothing else: a handler in a thread that computes would write below its
    stack pointer, which oneDNN lets point into the heap for a while."""
    stops = sum(1 << (n - 1) for n in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP))

    def mask(thread, name):
        return int(re.search(rf"^{name}:\t(\w+)", read(f"/proc/{pid}/task/{thread}/status"), re.M)[1], 16) & stops

    caught = mask(pid, "SigCgt")
    open_to = {t: caught & ~mask(t, "SigBlk") for t in os.listdir(f"/proc/{pid}/task")}
    listeners = [t for t in open_to if open_to[t]]
    assert caught & 1 << (signal.SIGUSR1 - 1), f"{caught:x}"
    assert len(listeners) == 1 and str(pid) not in listeners and open_to[listeners[0]] == caught, f"{open_to}"


@pytest.mark.parametrize("plan", sampled(PLANS, 2))
def test_signals(glyphs, jobs, plan):
    """H07: one signal at one rank, or at all, stops all at the same step with one verified checkpoint."""
    glyphs(400)
    who, what = PLANS[plan]
    job = jobs.start(4, "stop", *SLOW)
    wait_for("runs/stop/log.txt", r"step \d")
    pids = ranks_of(job)
    for pid in pids.values():
        assert_apart(pid)
    for number in what:
        for rank in who:
            send(pids[rank], number)  # the run may be quicker than the second signal
        time.sleep(0.005)
    assert job.wait(60) == 75, read("stop.out")
    assert status("stop")["state"] == "stopped"
    assert len(os.listdir("runs/stop/ckpt")) == 1
    shoal("ckpt", "verify", newest("stop"))
    assert not os.path.exists("runs/stop/lease"), "the lease is still there"


def test_killed(glyphs, jobs):
    """kill -9 of one rank: the job ends, the last checkpoint resumes to the bits of an uninterrupted run."""
    glyphs(400)
    options = [*MLP, *sets(run__epochs=3, data__batch=16, ckpt__every="5 steps")]
    train(2, "whole", *options)
    job = jobs.start(2, "killed", *options, "--allow-faults", *sets(fault__kill_step=17, fault__rank=1))
    begin = time.monotonic()
    code = job.wait(60)
    assert code not in (0, 75)
    assert time.monotonic() - begin < 30, "the survivors stayed"
    assert status("killed")["state"] in ("running", "stopping", "failed"), f'{status("killed")}'  # mpirun may send TERM
    r = train(2, "killed", *options)
    assert "attempt 2" in r.stdout, r.stdout
    assert "resumed from" in r.stdout, r.stdout
    assert_equal(newest("whole"), newest("killed"), "killed at step 17")
    assert column("whole", "step") == column("killed", "step")
    # Its trace is that of its writer's last flush, at step 15's checkpoint or later, and the clocks of its start are known.
    table = trace_table("killed", "--attempt", 1)
    assert [a["closed"] for a in table["attempts"]] == [False, True], f'{table["attempts"]}'
    # The survivor may have noticed before the launcher ended it, and then has written what it had.
    for row in table["ranks"]:
        assert row["steps"] in (15, 16, 17), row
        assert row["clock"]["readings"] == 1, row
        assert row["clock"]["drift_ppm"] is None, row


def test_lost(glyphs):
    """H06: a launcher that does not clean up: rank 2 is killed, or leaves early with code 0.  The others notice within seconds,
    name it, leave with 4, and the next start resumes."""
    glyphs(400)
    options = [*MLP, *sets(run__epochs=3, data__batch=16, ckpt__every="5 steps")]
    train(4, "whole", *options)
    for name, fault in (("killed", {"fault__kill_step": 12}), ("left", {"fault__exit_step": 12})):
        begin = time.monotonic()
        # mpirun sees the shell, which goes on
        r = train_through('"$@"; sleep 60', 4, name, *options, "--allow-faults", *sets(fault__rank=2, **fault), code=4, timeout=60)
        took = time.monotonic() - begin
        assert took < 20, f"{name}: took {took:.1f} s"
        assert re.search(r"rank 2 \(.*, process \d+\) is gone, noticed in training step 12", r.stderr), r.stderr
        assert r.stderr.count("is gone") == 1, f"told more than once\n{r.stderr}"
        assert "the checkpoint of step 10 is untouched, the next start goes on from it" in r.stderr, r.stderr
        assert status(name)["state"] == "failed", f"{status(name)}"
        assert status(name)["exit_code"] == 4, f"{status(name)}"
        assert "rank 2" in status(name)["reason"], f"{status(name)}"
        # Its last records were taken by the first rank of its node, which lived on.
        t, text = Trace(name, 2), shoal("trace", "show", f"runs/{name}").stdout
        steps = t.records["step"][t.records["kind"] == STEP]
        assert list(steps) == list(range(12)), f"{name}: {steps}"
        assert t.info["closed"] == 0 and t.info["dropped"] == 0, f"{name}: {t.info}"
        assert "rank 2 was killed, or still runs" in text, text
        r = train(4, name, *options)
        assert "resumed from" in r.stdout, r.stdout
        assert_equal(newest("whole"), newest(name), name)
    r = train_through('"$@"; sleep 60', 4, "early", *options, "--allow-faults", *sets(fault__rank=2, fault__kill_step=2), code=4,
                      timeout=60)
    assert "is gone" in r.stderr and "nothing was saved yet, the next start begins anew" in r.stderr, r.stderr
    assert "untouched" not in r.stderr, r.stderr


def test_apart(glyphs):
    """Ranks that cannot open each other's memory, each in a process table of its own: one warning, and the flat ring's bits."""
    new_table = ["unshare", "--pid", "--fork", "--mount-proc"]
    if run([*new_table, "true"], code=None).returncode:
        pytest.skip("no process table of its own can be made here")
    glyphs(200)
    options = [*MLP, *sets(run__epochs=1, data__global_batch=24)]
    train(3, "flat", *options, *sets(comm__shared_memory="false"))
    # Open MPI's own shared memory is not made for this: it crashes.
    loopback = ["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"]
    r = run(launch.mpirun(3, *loopback, *new_table, *train_command(1, "apart", *options)), timeout=60)
    assert r.stderr.count("cannot share memory") == 1, "not one warning\n" + r.stderr
    assert_equal(newest("flat"), newest("apart"), "ranks that cannot share memory")


def last_step(name):
    """Step of the newest checkpoint, -1 without any."""
    return max((int(f[-12:-3]) for f in checkpoints(name)), default=-1)


# Methods whose runs end in the same bits every time, with short schedules, so that most steps lie inside one.
EXACT = {
    "sync": {}, "local-sgd": dict(method__period=3), "daso": dict(method__warmup_epochs=1, method__cooldown_epochs=1),
    "swarm": dict(method__deterministic="true"), "ist": dict(method__round=4, method__moments="carry"),
    "local": dict(method__chunks=2),
    "ab": dict(method__warmup=3, method__cycle=6, method__rebound=2, method__ramp=2, method__exempt="[last]"),
}


@pytest.mark.parametrize("method", sampled(EXACT, 2))
def test_killed_saving(glyphs, jobs, method):
    """H09: all processes killed at random moments of a run that saves all the time, in shards and beside the training: each restart
    goes on from a checkpoint that verifies, and the end is that of an uninterrupted run, which saved one file.  3 kills of each of
    two methods; with SHOAL_FULL=1 of every method, and 50 of a long run of local-sgd, whose model comes from the shards."""
    glyphs(400)
    kills, epochs = (50, 30) if FULL and method == "local-sgd" else (3, 4)
    options = [*MLP, "--topo", "2x1", *sets(method__name=method, run__epochs=epochs, data__batch=8, model__widths="[256,128]",
                                            **EXACT[method])]
    train(2, "whole", *options)
    shot = [*options, *sets(ckpt__every="2 steps", ckpt__gather=0, ckpt__beside="always")]
    rng = random_source(method)
    done = seen = 0
    while done < kills:
        job = jobs.start(2, "shot", *shot)
        wait_until("a new checkpoint or the end", lambda: job.poll() is not None or last_step("shot") > seen)
        time.sleep(rng.uniform(0, 0.1))  # somewhere in a step or a save
        if job.poll() is not None:
            break  # it finished before the shot: enough was done
        kill_all(job)
        seen = last_step("shot")
        done += 1
    assert done >= 2, f"only {done} kills"
    r = train(2, "shot", *shot, timeout=900)
    assert "resumed from" in r.stdout, r.stdout
    assert_equal(newest("whole"), newest("shot"), f"{method}, {done} kills")
    kept = [os.path.basename(c)[:-len(".h5")] for c in checkpoints("shot")]
    shards = len(glob.glob("runs/shot/ckpt/*.shard-0001.h5"))
    listing = sorted(os.listdir("runs/shot/ckpt"))
    # The last one has none if a start found nothing left to do but the end: then ranks hold nothing that differs.
    assert len(kept) == 2 and 1 <= shards <= 2, f"each of them has one, and there is none of another save: {listing}"
    assert all(f.startswith(tuple(kept)) for f in listing), listing


def test_locks(glyphs):
    """H10: a data file that another process holds locked, and file systems that refuse locks, stop no run."""
    glyphs(200)
    base = [*MLP, *sets(run__epochs=1, data__batch=8)]
    with open("glyphs.h5", "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        train(8, "held", *base)
    shim = built("libnolock.so")
    for number in (11, 37, 524):
        name = f"e{number}"
        train(2, name, *base, env={"LD_PRELOAD": shim, "NOLOCK_ERRNO": str(number)})
        shoal("ckpt", "verify", newest(name))


def test_damaged(glyphs):
    """H09: resume goes on from the newest checkpoint that verifies, and says what it skipped."""
    glyphs(400)
    options = [*MLP, *sets(run__epochs=2, data__batch=16, ckpt__every="5 steps", ckpt__keep=4)]
    train(1, "d", *options)
    files = sorted(os.listdir("runs/d/ckpt"))
    assert len(files) == 4, f"{files}"
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
        assert bad in r.stdout + r.stderr, f"{bad} was not reported\n{r.stdout}{r.stderr}"
    assert f"resumed from runs/d/ckpt/{files[-3]}" in r.stdout, r.stdout
    assert_equal(f"runs/good/ckpt/{files[-1]}", f"runs/d/ckpt/{files[-1]}", "after the damage")


BAD = (  # options, exit code, and what must be said
    (sets(optim__leraning_rate=0.1), 2, ["optim.leraning_rate", "optim.lr"]),
    (sets(model__name="resnet21"), 2, ["resnet21", "resnet2"]),
    (sets(method__name="snyc"), 2, ["snyc", "sync"]),
    (sets(data__file="absent.h5"), 7, ["absent.h5"]),
    (sets(optim__lr=-1), 2, ["optim.lr", "-1"]),
    (sets(fault__stop_step=3), 2, ["fault.stop_step", "--allow-faults"]),
    (sets(data__batch=8, data__global_batch=8), 2, ["data.batch", "data.global_batch"]),
    (sets(trace__keep="last", trace__max_size=0), 2, ["trace.keep", "trace.max_size is 0"]),
    (sets(run__log_every="0 steps"), 2, ["run.log_every", "200 steps"]),
    (sets(eval__every="10s"), 2, ["eval.every", "epoch"]),
    (sets(comm__hang="1s"), 2, ["comm.hang", "comm.warn"]),
    (sets(data__batch="4611686018427387905"), 2, ["data.batch"]),
    (sets(optim__schedule="cosine", optim__warmup_epochs=1), 2, ["optim.warmup_epochs", "lower it"]),
    (["--topo", "3x3"], 2, ["3x3"]),
    (["--resum", "auto"], 2, ["--resum", "--resume"]),
)


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("extra, code, words", BAD)
def test_bad_options(glyphs, ranks, extra, code, words):
    """Bad input: one line with the thing, the value and the cure, the right code, nothing written."""
    glyphs(200)
    r = train(ranks, "bad", *MLP, *sets(run__epochs=1), *extra, code=code)
    assert_one_error(r, *words)
    assert not os.path.exists("runs/bad/ckpt") or not os.listdir("runs/bad/ckpt"), "left a checkpoint"


def test_bad_resume(glyphs):
    """What a resumed run cannot go on with is refused, and nothing is overwritten."""
    glyphs(200)
    base = [*MLP, *sets(run__epochs=1)]
    train(1, "good", *base)
    before = newest("good")
    train(1, "good", *base, "--resume", "never", code=2)
    assert newest("good") == before, "a refusal changed the folder"
    assert status("good")["state"] == "done", "a refusal changed the folder"
    r = train(1, "good", *base, *sets(model__widths="[32,32]"), code=2)
    assert "shape" in r.stderr, r.stderr
    train(2, "norm", *base, *sets(model__norm="batch"))
    for norm, tensor in (("none", "norm1.bias"), ("layer", "norm1.running_mean")):  # what is switched off would be lost
        r = train(2, "norm", *base, *sets(model__norm=norm, run__epochs=2), code=2)
        assert_one_error(r, tensor, "same model options")
    r = train(1, "good", *base, *sets(run__seed=9, run__epochs=2), code=2)
    assert "run.seed" in r.stderr, r.stderr
    glyphs(200, 100, seed=9, name="other.h5")
    r = train(1, "good", *base, *sets(data__file="other.h5", run__epochs=2), code=2)
    assert "data.file" in r.stderr, r.stderr
    # by name: threads has no section, and 1 epoch is also what eval.every was
    r = train(1, "good", *base, *sets(run__epochs=2, optim__lr=0.01, threads=2, ckpt__every="1 epoch"))
    changes = re.findall("changed since the checkpoint: (.*)", r.stdout)
    assert changes == ["run.epochs: 2 (was 1)", "ckpt.every: 1 epoch (was 10min)", "threads: 2 (was 0)",
                       "optim.lr: 0.01 (was 0.05)"]


def test_heard(glyphs):
    """A fault that only one rank sees is reported with that rank's text, and a refused restart leaves the records alone."""
    glyphs(200)
    base = [*MLP, *sets(run__epochs=1, data__batch=8)]
    r = train_through('[ "$R" = 1 ] && exec "$@" --set data.file=absent.h5; exec "$@"', 3, "heard", *base, code=7)
    assert "[rank 1] shoal: error" in r.stderr, r.stderr
    assert "absent.h5" in r.stderr, r.stderr
    train(1, "done", *base, *sets(run__steps=25))  # 200 samples, 8 each: the last step is the epoch's last
    assert len(metrics("done")) == 1, f'{metrics("done")}'
    assert metrics("done")[0]["epoch"] == "1", f'{metrics("done")}'
    assert metrics("done")[0]["train_loss"], f'{metrics("done")}'
    before = status("done")
    train(1, "done", *base, *sets(model__widths="[32,32]"), code=2)
    train(1, "done", *base, "--resume", "absent.h5", code=7)
    assert status("done") == before, f'{status("done")}'
    r = train(1, "done", *base)
    assert "nothing to do" in r.stdout, r.stdout
    # A checkpoint due at the run's last step comes before the epoch's end: the end is saved all the same.
    train(1, "edge", *base, *sets(ckpt__every="5 steps"))
    for _ in range(2):
        train(1, "edge", *base, *sets(ckpt__every="5 steps"))
    assert len(metrics("edge")) == 1, f'{metrics("edge")}'
    r = diff(newest("edge"), newest("done"), "--except", "train/")
    assert r.returncode == 0, f"the end of the run was not saved\n{said(r)}"
    train(1, "quiet", *base, "-q")
    for words in ("epoch 1 done", "=== attempt 1"):
        assert words in log("quiet")
    shoal("data", "synth", "glyphs", "-o", ".", "--train", 10, "--test", 5, code=7)


def test_replicas(glyphs):
    """H16: replicas that differ are found before step 1, and the odd rank is named."""
    glyphs(200)
    base = [*MLP, *sets(run__epochs=1, data__batch=8), "--allow-faults"]
    r = train(4, "seed", *base, *sets(fault__rank=1, fault__seed=5), code=3)
    assert "rank 1" in r.stderr, r.stderr
    assert "weights" in r.stderr, r.stderr
    r = train(4, "lr", *base, *sets(fault__rank=2, fault__lr=2), code=3)
    assert "rank 2" in r.stderr, r.stderr
    assert "learning rate" in r.stderr, r.stderr
    glyphs(200, 100, seed=9, name="other.h5")
    r = train_through('[ "$R" = 3 ] && exec "$@" --set data.file=other.h5; exec "$@"', 4, "odd", *base, code=3)
    assert "rank 3" in r.stderr, r.stderr
    assert not os.path.exists("runs/odd/metrics.csv"), "a refused run began"


def test_numeric(glyphs):
    """A NaN stops with exit 6; the last checkpoint is good and older than the NaN."""
    glyphs(400)
    options = [*MLP, *sets(run__epochs=2, data__batch=16, ckpt__every="4 steps")]
    train(2, "nan", *options, "--allow-faults", *sets(fault__nan_step=9, fault__rank=1), code=6)
    assert status("nan")["state"] == "failed", f'{status("nan")}'
    assert status("nan")["exit_code"] == 6, f'{status("nan")}'
    shoal("ckpt", "verify", newest("nan"))
    # not the later ones: they would hold the NaN
    assert "step-000000008" in newest("nan"), f'{newest("nan")}'
    train(2, "nan", *options)
    assert status("nan")["state"] == "done", f'{status("nan")}'


def test_folder(glyphs, jobs):
    """One run at a time in a folder; a lease whose owner is gone is taken over."""
    glyphs(400)
    job = jobs.start(1, "busy", *SLOW)
    wait_for("runs/busy/log.txt", r"step \d")
    before = status("busy")
    r = train(1, "busy", *SLOW, code=3)
    assert "in use" in r.stderr, r.stderr
    assert str(job.pid) in r.stderr, r.stderr
    after = status("busy")
    assert after["attempt"] == before["attempt"] == 1 and after["state"] == "running", f"a refused run wrote {after}"
    assert after["step"] > before["step"], "status.json is not kept up to date"
    job.send_signal(signal.SIGKILL)
    job.wait()
    assert os.path.exists("runs/busy/lease"), "a killed run cannot have given its lease back"
    r = train(1, "busy", *MLP, *sets(run__epochs=1, data__batch=8))
    assert "attempt 2" in r.stdout, r.stdout
    assert not os.path.exists("runs/busy/lease"), "the lease is still there"
    # whose checkpoint is it? A sibling's with a longer name is not this run's; the run's own by another name is
    base = [*MLP, *sets(run__epochs=1, data__batch=50)]
    train(2, "own", *base)
    last = os.path.basename(newest("own"))
    os.rename("runs/own/ckpt", "runs/own/ckpt-old")
    train(2, "own", *base, "--resume", f"runs/own/ckpt-old/{last}")
    found = sorted(os.listdir("runs/own/ckpt"))  # the rows of the run before are kept beside its own checkpoint
    assert found == ["before-attempt-2", last], "a run that went on from ckpt-old has no checkpoint of its own"
    assert os.listdir("runs/own/ckpt/before-attempt-2") == ["metrics.csv"]
    written = os.stat(newest("own")).st_mtime_ns
    os.symlink("ckpt", "runs/own/link")
    train(2, "own", *base, "--resume", f"runs/own/link/{last}")
    assert os.stat(newest("own")).st_mtime_ns == written, "a checkpoint was written over itself"


def test_singletons(glyphs):
    """H01: copies that each believe to be alone are refused, also under mpirun; on purpose they may."""
    glyphs(100)
    base = [*MLP, *sets(run__epochs=1)]
    step = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4", "SLURM_PROCID": "0",
            "SLURM_STEP_NUM_NODES": "1", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    for rank in range(4):
        r = train(1, "alone", *base, env={**step, "SLURM_PROCID": str(rank)}, code=3)
        if rank == 0:
            assert "4" in r.stderr, r.stderr
            assert "--mpi=pmix" in r.stderr, r.stderr
    r = run(launch.mpirun(1, *train_command(1, "alone", *base)), env={**step, "SLURM_STEP_NUM_TASKS": "2"}, code=3)
    assert "has 2 tasks, but MPI sees 1 rank" in r.stderr, r.stderr
    assert not os.path.exists("runs"), "a refused run made a folder"
    train(1, "alone", *base, *sets(run__allow_singletons="true"), env=step)
    # Started by hand where srun would start four: a batch script, the shell of an interactive step.
    job = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "4"}
    shell = {**job, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
    for name, env in (("script", job), ("shell", shell)):
        r = train(1, name, *base, env=env)
        assert r.stderr.count("this allocation has 4 tasks and this is one rank: `shoal launch` in place of") == 1, r.stderr
    r = train(1, "nodes", *base, env={"SLURM_JOB_ID": "77", "SLURM_JOB_NUM_NODES": "2"})  # salloc -N2
    assert r.stderr.count("this allocation has 2 nodes and this is one rank: `shoal launch` in place of") == 1, r.stderr
    for name, env, more in (("one", {**job, "SLURM_NTASKS": "1"}, ()), ("meant", job, sets(run__allow_singletons="true")),
                            ("task", {**shell, "SLURM_STEP_ID": "0", "SLURM_NTASKS": "1"}, ())):
        assert "this allocation" not in train(1, name, *base, *more, env=env).stderr, name


def test_cores(glyphs):
    """H02, H04: threads and the placement follow the real mask, whatever the environment or a description claims."""
    glyphs(100, 20)
    base = [*MLP, *sets(run__epochs=1, run__steps=2)]
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("two cpus are needed")
    mine = [cpus[-3], cpus[-1]] if len(cpus) > 3 else cpus[-2:]  # high and not adjacent, where there are enough
    pin = 'exec taskset -c "$(echo {} {} | cut -d" " -f$((R + 1)))" "$@"'.format(*mine)
    machine = f"{TESTS}/golden/topo/two-numa.xml"
    for name, env in (("plain", {}), ("described", {"HWLOC_XMLFILE": machine, "HWLOC_THISSYSTEM": "0"})):
        train_through(pin, 2, name, *base, env=env)
        for p, cpu in zip(places(name), mine):
            assert (p["cores"], p["threads"], p["cpus"]) == (1, 1, str(cpu)), f"{name}: {p}"
            assert p["pid"] > 0, f"{p}"
            assert p["local_size"] == 2, f"{p}"
    r = train_through(pin, 2, "four", *base, env={"SLURM_CPUS_PER_TASK": "4"})
    assert r.stderr.count("asked 4, have 1") == 1, r.stderr
    assert "2 of 2 ranks" in r.stderr, r.stderr
    assert [p["threads"] for p in places("four")] == [1, 1], f'{places("four")}'
    r = train_through(pin, 2, "strict", *base, *sets(run__strict="true"), env={"SLURM_CPUS_PER_TASK": "4"}, code=3)
    assert r.stderr.count("asked 4, have 1") == 1, r.stderr
    assert "--cpus-per-task=4" in r.stderr, r.stderr
    assert not os.path.exists("runs/strict"), "a refused run made a folder"
    r = train_through(pin, 2, "both", *base, env={"SLURM_CPUS_PER_TASK": "4", "SRUN_CPUS_PER_TASK": "8"})
    assert r.stderr.count("SLURM_CPUS_PER_TASK is 4 but SRUN_CPUS_PER_TASK is 8") == 1, r.stderr
    train_through('exec "$@"', 2, "told", *base, *sets(threads=3))
    assert [p["threads"] for p in places("told")] == [3, 3], f'{places("told")}'


def test_placement(glyphs):
    """One table in placement.json, log, trace and checkpoint; in a log of many ranks a short one."""
    glyphs(100, 20)
    train(3, "three", *MLP, *sets(run__epochs=1), "--topo", "2,1")
    table = placement("three")
    assert [(p["rank"], p["node"], p["local_rank"]) for p in table["places"]] == [(0, 0, 0), (1, 0, 1), (2, 1, 0)], f"{table}"
    assert table["pretended"], f"{table}"
    assert table["applied"], f"{table}"
    shown = json.loads(shoal("ckpt", "show", newest("three"), "--json").stdout)["placement"]
    assert json.loads(shown) == table, f"{shown}"
    for p in table["places"]:
        line = rf"^ +{p['rank']} +{p['node']} +{p['local_rank']} +\S+ +{p['pid']} "
        assert re.search(line, log("three"), re.M), f"{p} not in the log"
    assert len(os.listdir("runs/three/trace")) == 2, "a file per node"
    assert [Trace("three", rank).attrs["node"] for rank in range(3)] == [0, 0, 1]
    assert json.loads(Trace("three", 1).attrs["placement"]) == table
    assert json.loads(Trace("three", 2).attrs["placement"]) == {**table, "places": [table["places"][2]]}


CLAIMS = (  # run by every rank before it becomes the trainer, and what must be said
    ("export OMPI_COMM_WORLD_LOCAL_SIZE=3", ["OMPI_COMM_WORLD_LOCAL_SIZE says 3", "2 of the ranks"]),
    ("[ $R = 0 ] || export OMPI_COMM_WORLD_LOCAL_SIZE=1", ["rank 1 on", "OMPI_COMM_WORLD_LOCAL_SIZE says 1"]),
    ("[ $R = 0 ] || export OMPI_COMM_WORLD_LOCAL_RANK=0", ["OMPI_COMM_WORLD_LOCAL_RANK says 0, as on rank 0"]),
    ("export OMPI_COMM_WORLD_RANK=$((1 - R))", ["OMPI_COMM_WORLD_RANK says 1", "MPI calls it rank 0"]),
    ("export OMPI_COMM_WORLD_SIZE=4", ["launcher started 4 ranks", "MPI sees 2"]),
)


@pytest.mark.parametrize("script, words", CLAIMS)
def test_claims_refused(glyphs, script, words):
    """A description that does not match the real world ends the run, with exit 3, one line and no folder."""
    glyphs(100, 20)
    r = train_through(f'{script}; exec "$@"', 2, "wrong", *MLP, *sets(run__epochs=1, run__steps=2), code=3)
    assert_one_error(r, *words)
    assert not os.path.exists("runs"), "a refused run made a folder"


def test_claims_unheard(glyphs):
    """H05: Slurm's commands are absent or fail: none is called, and what Slurm says of mpirun's daemons is no claim."""
    glyphs(100, 20)
    base = [*MLP, *sets(run__epochs=1, run__steps=2)]
    os.mkdir("bin")
    for tool in ("scontrol", "srun", "sinfo", "squeue", "sacct"):
        with open(f"bin/{tool}", "w") as f:
            f.write("#!/bin/sh\necho $0 >>asked\nexit 1\n")
        os.chmod(f"bin/{tool}", 0o755)
    daemons = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_PROCID": "1",
               "SLURM_NODEID": "1", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
               "SLURM_JOB_NODELIST": "n[1-2]", "SLURMD_NODENAME": "n2"}
    train_through('exec "$@"', 3, "daemons", *base, env={**daemons, "PATH": f"{os.path.abspath('bin')}:{ENV['PATH']}"})
    assert len(places("daemons")) == 3, f'{places("daemons")}'
    assert {p["node"] for p in places("daemons")} == {0}, f'{places("daemons")}'
    # A step of two tasks on two nodes that no MPI holds together: stopped at once, not one node waiting for itself.
    for path in ("/nonexistent", os.path.abspath("bin")):
        r = train(1, "step", *base, env={**daemons, "SLURM_PROCID": "0", "PATH": path}, code=3)
        assert "2 tasks" in r.stderr, r.stderr
        assert "--mpi=pmix" in r.stderr, r.stderr
        r = shoal("topo", env={**daemons, "SLURM_PROCID": "0", "SLURM_STEP_NODELIST": "n[1-", "PATH": path}, code=3)
        assert 'SLURM_STEP_NODELIST "n[1-", position 5' in r.stderr, r.stderr
    assert not os.path.exists("asked"), "somebody asked Slurm's commands"
