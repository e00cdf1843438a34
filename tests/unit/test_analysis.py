"""The Python package analysis/: tables of traces against `shoal trace show`, known answers of clocks and fits, damaged traces."""
import io
import json
import math
import os
import shutil
import signal
import sys
import time

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="python3-pandas is not installed")
pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")

import traces
from harness import PLAIN_ENV, ROOT, TESTS, program, random_source, read, run, shoal

sys.path.insert(0, f"{ROOT}/analysis")
import shoal_analysis
from shoal_analysis import fits, trace

FORWARD, BACKWARD, OPTIMIZER, EXCHANGE, WAIT, INPUT, CHECKPOINT, EVALUATION, OTHER, STEP = range(10)
US = 1000


def load(*patterns, **options):
    return shoal_analysis.load(*patterns, program=program(), **options)


# ---- time ----------------------------------------------------------------------------------------------------------------

def nested(rng, t0, t1, step, depth, rows):
    """Random spans that nest in [t0, t1], with shared edges and some of no length."""
    t = t0
    while depth and t < t1 and rng.random() < 0.8:
        begin = t if rng.random() < 0.3 else rng.randint(t, t1)
        end = rng.choice([begin, t1, rng.randint(begin, t1), rng.randint(begin, t1)])
        kind = rng.choice([FORWARD, BACKWARD, OPTIMIZER, WAIT, WAIT, INPUT, CHECKPOINT, EVALUATION, OTHER])
        nested(rng, begin, end, step, depth - 1, rows)
        rows.append((begin, end, step, kind, traces.KINDS[kind], rng.choice([1, 2, 3]) if kind == WAIT else 255))
        t = end


def random_rank(rng, steps):
    rows, t = [], 5_000_000
    for step in range(steps):
        length = rng.randint(50, 3000)
        inside = []
        nested(rng, t, t + length, step, 3, inside)
        rows += [*inside, (t, t + length, step, STEP, "step", 255, 0, rng.randint(1, 9))]
        for _ in range(rng.randint(0, 3)):
            begin = rng.randint(t - 200, t + length)
            rows.append((begin, begin + rng.randint(0, 1500), step, EXCHANGE, "bucket", 2, 100, step))
        rows.append((t - 300, t + rng.randint(0, length), step, EXCHANGE, "agreement", 3))  # no transfer, and before the first span
        t += length
        if rng.random() < 0.5:
            between = []
            nested(rng, t, t + 400, step, 2, between)
            rows += between
            t += 400
    return rows


def summed_rank(rng, steps):
    """trace.level: step: sums of most kinds, without a position; some are longer than their step has room for."""
    rows, t = [], 5_000_000
    for step in range(steps):
        length = rng.randint(50, 3000)
        rows.append((t, t + rng.randint(0, length // 4), step, INPUT))
        for kind, link in ((FORWARD, 255), (BACKWARD, 255), (OPTIMIZER, 255), (EXCHANGE, 2), (WAIT, 2), (WAIT, 3)):
            if rng.random() < 0.8:
                rows.append((t, t + rng.randint(0, length // 3), step, kind, traces.KINDS[kind], link, 10 if kind == EXCHANGE else 0, 3))
        rows.append((t, t + length, step, STEP, "step", 255, 0, rng.randint(1, 9)))
        t += length + rng.randint(0, 300)
        if rng.random() < 0.2:
            rows.append((t, t + 500, step, EVALUATION))
            t += 500
    return rows


def assert_as_shown(folder):
    """Every time of every rank and step is that of `trace show`, which is written in C, as another algorithm."""
    mine = load(folder)[0]
    steps = pd.read_csv(io.StringIO(shoal("trace", "show", folder, "--steps").stdout))
    shown = json.loads(shoal("trace", "show", folder, "--json").stdout)
    assert mine.attempt == shown["attempt"] and len(mine.steps) == len(steps) > 0
    for column in steps.columns.drop(["attempt", "begin_ns"]):
        if not steps[column].isna().all():  # transfers with trace.level: step
            assert (steps[column].to_numpy() == mine.steps[column].to_numpy()).all(), column
    begin = mine.steps["begin_s"].to_numpy()
    assert np.abs((begin - begin[0]) - (steps["begin_ns"] - steps["begin_ns"][0]).to_numpy() * 1e-9).max() < 2e-9
    speed = shown["run"]["samples_per_s"]
    assert speed is None or mine.samples_per_s == pytest.approx(speed, rel=1e-12)
    for rank, row in zip(shown["ranks"], mine.ranks.to_dict("records")):
        assert row["rank"] == rank["rank"] and row["wall_ns"] == rank["wall_ns"] and row["step_ns"] == rank["step_ns"]
        assert {k: row[f"{k}_ns"] for k in rank["ns"]} == rank["ns"]
        for key in ("transfer_ns", "hidden_ns", "beside_ns"):
            assert rank["exchange"][key] in (None, row[key]), key
        for link in trace.LINKS:
            sent = mine.bytes[(mine.bytes["rank"] == rank["rank"]) & (mine.bytes["link"] == link)].iloc[0]
            assert [sent[f"{k}_bytes"] for k in ("payload", "wire")] == [rank["links"][link][k] for k in ("payload", "wire")]
    assert mine.problems == ([] if os.path.exists(f"{mine.path}/metrics.csv") else ["there is no metrics.csv, so nothing is known of losses and results"])


@pytest.mark.parametrize("level", (1, 2))
def test_split(level):
    rng = random_source(f"analysis {level}")
    made = {rank: ((random_rank if level == 2 else summed_rank)(rng, 60), None,
                   {"level": level, "samples": 300, "clock_offset_ns": 1e6 * rank, "payload": [0, 1, 2 + rank, 3], "wire": [4, 5, 6, 7]})
            for rank in range(4)}
    traces.write("runs/made", 0, {r: made[r] for r in (0, 1)}, size=4)
    traces.write("runs/made", 1, {r: made[r] for r in (2, 3)}, size=4)
    assert_as_shown("runs/made")


def test_ring():
    """trace.keep: last: records went round in the file, so the oldest is in the middle."""
    rng = random_source("ring")
    rows = traces.records(sorted(random_rank(rng, 50), key=lambda r: r[1]), names := list(traces.KINDS))
    at = 333 % len(rows)
    traces.write("runs/ring", 0, {0: (np.roll(rows, at), names, {"overwritten": len(rows) + at, "steps": 900})})
    assert_as_shown("runs/ring")
    r = load("runs/ring")[0]
    assert (r.spans["t1_s"].diff().dropna() >= 0).all() and r.ranks["steps"][0] == 900


def test_run(glyphs):
    """A run of the program itself, stopped and resumed: the last attempt is shown, the others count for node-hours."""
    glyphs(train=100, test=20, size=12)
    with open("r.yaml", "w") as f:
        f.write("run: { name: r, epochs: 2 }\nmodel: { name: mlp, widths: [8] }\ndata: { file: glyphs.h5, batch: 10 }\n"
                "method: { name: sync }\ntrace: { level: op }\neval: { every: 4 steps }\n")
    run([program(), "train", "r.yaml", "-q", "--set", "run.steps=7"], base=PLAIN_ENV)
    run([program(), "train", "r.yaml", "-q"], base=PLAIN_ENV)
    assert_as_shown("runs/r")
    r = load("runs/*")["r"]
    assert (r.method, r.model, r.size, r.nodes, r.global_batch, r.attempts) == ("sync", "mlp [8]", 1, 1, 10, [1, 2])
    assert list(r.steps["step"]) == list(range(7, 20)) and list(load("runs/r", attempt=1)[0].steps["step"]) == list(range(7))
    assert r.metrics["step"].max() == 20 and r.metrics["test_acc"].notna().sum() >= 5
    row = load("runs/r").runs.iloc[0]
    assert row["state"] == "done" and 0 < row["node_hours"] < 0.1
    # One definition of samples/s: the program's own count, its rows put together, and the trace of the same steps.
    speed = row["samples_per_s"]
    shown = json.loads(shoal("trace", "show", "runs/r", "--json").stdout)["run"]
    last = r.metrics[r.metrics["step"] >= 8]
    samples = 10 * last["step"].diff()
    assert list(samples.dropna()) == [20, 20, 40, 40] and math.isnan(last["samples_per_s"].iloc[0]), "step 8 is the first of the attempt"
    assert speed == pytest.approx(shown["samples_per_s"], rel=1e-12) == pytest.approx(r.status["progress"]["samples_per_s"], rel=1e-4)
    assert speed == pytest.approx(samples.sum() / (samples / last["samples_per_s"]).sum(), rel=1e-4)
    assert f"  speed          {speed:.0f} samples/s" in read("runs/r/log.txt") and f", {speed:.0f} samples/s\n" in shoal("trace", "show", "runs/r").stdout
    with pytest.raises(shoal_analysis.RunError, match="attempt 3; it has 1, 2"):
        load("runs/r", attempt=3)


@pytest.mark.parametrize("attempt", ("1", "all"))
def test_first_format(attempt):
    """Files of format 1."""
    os.makedirs("runs/old/trace")
    for rank in range(2):
        shutil.copy(f"{TESTS}/golden/trace-v1-rank-{rank:05d}.h5", f"runs/old/trace/rank-{rank:05d}.h5")
    with open(f"{TESTS}/golden/trace-v1-attempt-{attempt}.json") as f:
        shown = json.load(f)
    old = load("runs/old")[0]
    assert old.attempts == [a["attempt"] for a in shown["attempts"]]
    if attempt == "1":
        mine = load("runs/old", attempt=1)[0]
        assert list(mine.ranks["wall_ns"]) == [r["wall_ns"] for r in shown["ranks"]]
        assert list(mine.ranks["wait_ns"]) == [r["ns"]["wait"] for r in shown["ranks"]]
    else:
        for rank in shown["ranks"]:
            parts = [load("runs/old", attempt=a)[0].ranks.query(f"rank == {rank['rank']}") for a in old.attempts]
            assert sum(p["forward_ns"].sum() for p in parts) == rank["ns"]["forward"]


def test_clock():
    """Rank 1's clock is 3 s ahead and gains 50 ppm: on rank 0's clock its spans are where they were made."""
    offset, drift = 3e9, 1 + 50e-6
    at = np.arange(1000, 1000 + 40, 4) * 1_000_000_000  # 40 s of steps
    rows0 = [(int(t), int(t) + 1_000_000, i, STEP) for i, t in enumerate(at)]
    rows1 = [(round(offset + drift * t0), round(offset + drift * t1), i, STEP) for t0, t1, i, _ in rows0]
    traces.write("runs/clock", 0, {0: (rows0, None, {}), 1: (rows1, None, {"clock_offset_ns": offset, "clock_drift": drift})})
    begin = load("runs/clock")[0].steps.pivot(index="step", columns="rank", values="begin_s")
    assert np.abs(begin[0] - np.arange(0, 40, 4)).max() < 1e-9
    assert np.abs(begin[1] - begin[0]).max() < 2e-9


def test_waits_and_exchanges():
    """A heat map has what was waited in each part; an exchange has the wait at its end; bytes between nodes add up to the counter."""
    rows = [(1_000_000, 1_100_000, 0, WAIT, "x", 2), (1_000_000, 1_100_000, 0, EXCHANGE, "x", 2, 600, 7),
            (1_050_000 + 100_000, 1_200_000, 0, EXCHANGE, "y", 1, 50, 8), (1_000_000, 1_200_000, 0, STEP),
            (1_250_000, 1_300_000, 0, WAIT, "agreement", 3), (1_300_000, 1_400_000, 1, STEP)]
    traces.write("runs/w", 0, {0: (rows, None, {"payload": [0, 250, 400, 0]})})
    r = load("runs/w")[0]
    edges, share = r.wait_share(4)
    assert edges == pytest.approx([0, 1e-4, 2e-4, 3e-4, 4e-4]) and share == pytest.approx(np.array([[1, 0, 0.5, 0]]))
    assert list(r.exchanges["wait_ns"]) == [100_000, 0] and list(r.exchanges["seq"]) == [7, 8]
    assert list(r.sent["payload_bytes"]) == [650] and list(r.sent["between_bytes"]) == [400]
    assert list(r.spans["name"].astype(str))[:2] == ["x", "x"] and r.spans["duration_ns"].sum() == 600_000


# ---- damage --------------------------------------------------------------------------------------------------------------

def steps_of(n, length=100_000):
    return [(1_000_000 + i * length, 1_000_000 + (i + 1) * length - 10, i, STEP) for i in range(n)]


def test_damage():
    """What there is is used, and what is missing is said: a file that was cut, one that is missing, a rank that was killed,
    records that were never written, and a file that is no trace."""
    members = {"payload": [0, 0, 5, 0]}
    many = steps_of(30_000)
    cut = traces.write("runs/d", 0, {0: (many, None, members)}, size=5)
    traces.write("runs/d", 1, {1: (steps_of(10), None, {"closed": 0})}, size=5)
    hole = np.concatenate([traces.records(steps_of(5), list(traces.KINDS)), np.zeros(3, traces.RECORD)])
    traces.write("runs/d", 2, {2: (hole, None, {"dropped": 4})}, size=5)
    with open("runs/d/trace/attempt-0001-node-00003.h5", "w") as f:
        f.write("nothing")
    os.truncate(cut, os.path.getsize(cut) // 2)
    r = load("runs/d")[0]
    left = r.steps.groupby("rank")["step"].count()
    assert left[1] == 10 and left[2] == 5 and (0 not in left or 0 < left[0] < 30_000 and left[0] % 4096 == 0)
    said = "\n".join(r.problems)
    for words in ("was cut at", "rank 0: ", "rank 1: its trace was not closed", "rank 2: 3 of 8 records", "rank 2: 4 records were dropped",
                  "rank 3: no trace", "rank 4: no trace", "node-00003.h5 cannot be read"):
        assert words in said, f"{words!r} is not in\n{said}"
    assert os.path.getsize(cut) < 2_000_000  # the file itself is as it was
    with open("runs/d/status.json", "w") as f:
        json.dump({"state": "running", "attempt": r.attempt}, f)
    for age, words in ((0, "the run goes on (running): what is here"), (300, "rank 1: its trace was not closed")):
        os.utime("runs/d/status.json", (time.time() - age,) * 2)
        r = load("runs/d")[0]
        r.steps
        assert sum(words in line for line in r.problems) == 1 and ("not closed" in "".join(r.problems)) == (age > 0), r.problems


def test_cut_anywhere():
    """A file cut at any place gives whole records, or says why there are none."""
    path = traces.write("runs/c", 0, {0: (steps_of(9000), None, {}), 1: (steps_of(9000), None, {})})
    whole = open(path, "rb").read()
    most = 0
    for k in range(1, 24):
        with open(path, "wb") as f:
            f.write(whole[:len(whole) * k // 24])
        try:
            r = load("runs/c")[0]
        except shoal_analysis.RunError as e:
            assert "cut" in str(e) or "cannot be read" in str(e) or "damaged" in str(e)
            continue
        rows = r.steps
        most = max(most, len(rows))
        assert r.problems
        if len(rows):
            assert (rows["step_ns"] == 99_990).all() and (rows.groupby("rank")["step"].diff().dropna() == 1).all()
    assert most > 4000


def test_crashing_files(monkeypatch):
    """A file on which HDF5 crashes, or loops, takes a child process with it and is left out."""
    for node in range(4):
        traces.write("runs/n", node, {node: (steps_of(3), None, {})}, size=4)
    really = trace.try_to_read

    def crash(path):
        if "node-00001" in path:
            os.kill(os.getpid(), signal.SIGKILL)
        if "node-00002" in path:
            time.sleep(100)
        really(path)
    monkeypatch.setattr(trace, "try_to_read", crash)
    monkeypatch.setattr(trace, "SECONDS_TO_READ", 1.0)
    r = load("runs/n")[0]
    assert list(r.steps["rank"].unique()) == [0, 3]
    assert [p for p in r.problems if "crashes on it" in p] == [
        f"runs/n/trace/attempt-0001-node-{node:05d}.h5 is damaged: HDF5 crashes on it, or does not come to an end" for node in (1, 2)]


def test_not_run_folders():
    os.makedirs("runs/empty")
    with pytest.raises(shoal_analysis.RunError, match="not the folder of a run"):
        load("runs/empty")
    with pytest.raises(shoal_analysis.RunError, match="no run folder"):
        load("nothing/*")
    traces.write("runs/x", 0, {0: (steps_of(2), None, {})})
    traces.write("runs/y", 0, {0: (steps_of(2), None, {})}, name="made")
    assert [r.name for r in load("runs/*")] == ["runs/x", "runs/y"]  # both say they are "made"


def test_refused_storage():
    """A trace from elsewhere cannot make the reader open another file."""
    import h5py
    path = traces.write("runs/z", 0, {0: (steps_of(2), None, {}), 1: (steps_of(2), None, {})})
    with h5py.File(path, "r+") as f:
        del f["rank-00001/records"]
        f["rank-00001/records"] = h5py.ExternalLink("other.h5", "/x")
        del f["rank-00000/records"]
        f["rank-00000"].create_dataset("records", (3,), traces.RECORD, external=[("/etc/passwd", 0, 168)])
    r = load("runs/z")[0]
    assert not len(r.steps) and sum("nothing is readable" in p for p in r.problems) == 2, r.problems


# ---- laws of scaling --------------------------------------------------------------------------------------------------------

N = np.array([1.0, 2, 4, 8, 16])


def test_fits_exact():
    """Data that follow a law give back its parameters."""
    for s in (0.0, 0.03, 0.4, 1.0):
        f = fits.amdahl(N, 200 / (s + (1 - s) / N))
        assert f.values["serial"] == pytest.approx(s, abs=1e-9) and f.low["serial"] <= s + 1e-9 and f.high["serial"] >= s - 1e-9
        assert f.speedup(np.array([32]))[0] == pytest.approx(1 / (s + (1 - s) / 32))
        f = fits.gustafson(N, 200 * (s + (1 - s) * N))
        assert f.values["serial"] == pytest.approx(s, abs=1e-9)
    for a, b in ((0.0, 0.0), (0.05, 0.001), (0.2, 0.0), (0.0, 0.004)):
        f = fits.usl(N, 70 * N / (1 + a * (N - 1) + b * N * (N - 1)))
        assert f.values["contention"] == pytest.approx(a, abs=1e-9) and f.values["coherency"] == pytest.approx(b, abs=1e-9)
    assert f.values["peak"] == pytest.approx(math.sqrt(1 / 0.004))


def test_fits_intervals():
    """Under noise the interval of 95 % holds the truth about as often as it says."""
    rng = np.random.default_rng(5)
    held = {"amdahl": 0, "usl": 0}
    for _ in range(400):
        noise = np.exp(rng.normal(0, 0.02, len(N)))
        f = fits.amdahl(N, 200 / (0.1 + 0.9 / N) * noise)
        held["amdahl"] += f.low["serial"] <= 0.1 <= f.high["serial"]
        f = fits.usl(N, 70 * N / (1 + 0.08 * (N - 1) + 0.004 * N * (N - 1)) * noise)
        held["usl"] += f.low["contention"] <= 0.08 <= f.high["contention"]
    assert all(0.91 < h / 400 < 0.985 for h in held.values()), held


def test_fits_refused():
    for law in (fits.amdahl, fits.gustafson, fits.usl):
        with pytest.raises(fits.FitError, match="at least 4 different numbers of ranks; there are 3"):
            law([1, 2, 4, 4, 4], [1, 2, 3, 3, 3])
    assert fits.amdahl([1, 2, 4, 8], [10, 5, 3, 2]).values["serial"] == 1.0  # slower with every rank: the bound
    assert fits.usl([1, 2, 4, 8], [10, 25, 60, 140]).values["contention"] == 0.0  # better than linear: the bound
    worse = fits.usl([1, 2, 4, 8], [100, 40, 18, 8])  # slower with every rank: one is the fastest
    assert worse.values["peak"] == 1.0
    assert fits.t95(1) == 12.7062 and fits.t95(30) == pytest.approx(2.0423, abs=5e-4) and fits.t95(11) == pytest.approx(2.2010, abs=1e-3)
