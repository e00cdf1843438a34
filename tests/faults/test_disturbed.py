"""Runs that are disturbed at random until they end, and must end as if nothing had been: equal weights, equal metrics.csv, a true
status.json, nothing left over, ckpt.keep kept.

A case draws method, ranks and layout, and then for every attempt a moment and a disturbance.  SHOAL_TEST_SEED draws others;
SHOAL_FULL=1 runs 300 cases.
"""
import os
import random
import re
import signal
import time

import pytest

from harness import (FULL, METHODS, MLP, assert_equal, checkpoints, kill_all, log, newest, ranks_of, read, rows, sets, shoal, start,
                     status, train)

LAYOUTS = {1: ["1"], 2: ["2", "1,1"], 3: ["2,1", "3"], 4: ["2x2", "1,3"], 5: ["2,3"]}
KEEP = 3
# Slow enough to be hit: about 40 ms a step, 24 to 60 steps.
BASE = [*MLP, *sets(data__global_batch=60, run__epochs=6, eval__every="4 steps", ckpt__every="3 steps", ckpt__keep=KEEP,
                    comm__warn=20, comm__hang=60), "--allow-faults", *sets(fault__compute="sleep:25")]


def draw(rng):
    """Arguments of a run, and its number of ranks."""
    method = rng.choice(list(METHODS))
    ranks = rng.choice([1, 2, 3, 4, 5])
    if method == "local":
        ranks = rng.choice([2, 4])
    if method == "swarm":
        ranks = rng.choice([2, 4])
    topo = rng.choice(LAYOUTS[ranks])
    return ranks, [*BASE, *METHODS[method], *sets(method__name=method), *(["--topo", topo] if ranks > 1 else [])]


def processes(job):
    """Process ids of a job's ranks, as far as they live."""
    if job.poll() is not None:
        return []
    return list(ranks_of(job).values()) if job.args[0].endswith("mpirun") else [job.pid]


def attempts(name):
    return len(re.findall("^=== attempt", log(name), re.M))


def signal_one(rng, job, name):
    pids = processes(job)
    began = attempts(name) > job.before  # else a process may not have come to catch signals yet
    if not pids:
        return kill_every(rng, job, name)
    os.kill(rng.choice(pids), rng.choice([signal.SIGUSR1, signal.SIGTERM]))
    code = job.wait(timeout=60)
    assert code in (0, 75) or not began, f"{name}: exit {code} after a signal\n{read(name + '.out')[-3000:]}"
    if code == 75 and attempts(name) > job.before:  # else it was still waiting for the lease of one that was killed
        assert status(name)["state"] == "stopped", status(name)
        saved = re.findall(r"^checkpoint (\S+), ", read(f"{name}.out"), re.M)  # none if it stopped while it started
        if saved:
            shoal("ckpt", "verify", saved[-1])


def kill_one(rng, job, name):
    pids = processes(job)
    if pids:
        os.kill(rng.choice(pids), signal.SIGKILL)
    job.wait(timeout=90)


def kill_every(rng, job, name):
    kill_all(job)


def kill_launcher(rng, job, name):
    pids = processes(job)
    if job.poll() is None:
        os.kill(job.pid, signal.SIGKILL)
    job.wait(timeout=60)
    for pid in pids:  # Open MPI ends them soon
        end = time.monotonic() + 30
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
            time.sleep(0.05)


def suspend_one(rng, job, name):
    pids = processes(job)
    if not pids:
        return kill_every(rng, job, name)
    pid = rng.choice(pids)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(rng.uniform(0.1, 1.5))
    os.kill(pid, signal.SIGCONT)
    time.sleep(rng.uniform(0, 0.5))
    signal_one(rng, job, name)


def spoil_newest(rng, job, name):
    kill_all(job)
    files = checkpoints(name)
    if files:
        size = os.path.getsize(files[-1])
        with open(files[-1], "r+b") as f:
            if rng.random() < 0.5:
                f.truncate(rng.randrange(size))
            else:
                f.seek(rng.randrange(size))
                byte = f.read(1)
                f.seek(-1, 1)
                f.write(bytes([byte[0] ^ 1 << rng.randrange(8)]))


def delete_newest(rng, job, name):
    kill_all(job)
    files = checkpoints(name)
    if files:
        os.remove(files[-1])


def move_away_and_back(rng, job, name):
    """The folder of a run that does not run is moved, and its files are copied by somebody."""
    kill_all(job)
    if not os.path.exists(f"runs/{name}"):
        return
    os.rename(f"runs/{name}", "elsewhere")
    time.sleep(0.1)
    os.rename("elsewhere", f"runs/{name}")


DISTURBANCES = [signal_one, signal_one, kill_one, kill_every, kill_launcher, suspend_one, spoil_newest, delete_newest,
                move_away_and_back]


def wait_for_moment(rng, job, name):
    """Until a step, drawn, is in the log or a time is over: also during start-up and while saving."""
    end = time.monotonic() + rng.choice([0.05, 0.3, 0.6, 1, 1.5, 2])
    while job.poll() is None and time.monotonic() < end:
        time.sleep(0.01)


def left_over(name):
    """Files that no run leaves behind."""
    found = []
    for folder, _, files in os.walk(f"runs/{name}"):
        found += [os.path.join(folder, f) for f in files if f.startswith((".", "lease")) or "tmp" in f]
    return found


@pytest.mark.parametrize("case", range(300 if FULL else 30))
def test_disturbed(glyphs, data_sets, case):
    rng = random.Random(f"{os.environ.get('SHOAL_TEST_SEED', 1)} disturbed {case}")
    glyphs(480, 96)
    ranks, args = draw(rng)
    key = f"{data_sets}/disturbed-{abs(hash((ranks, tuple(args))))}"
    if os.path.exists(key):
        os.makedirs("runs", exist_ok=True)
        os.system(f"cp -r {key} runs/whole")
    else:
        train(ranks, "whole", *args, "--set", "fault.compute=")
        os.system(f"cp -r runs/whole {key}")
    story = []
    for attempt in range(4):
        before = attempts("run")
        job = start(ranks, "run", *args)
        job.before = before
        wait_for_moment(rng, job, "run")
        what = rng.choice(DISTURBANCES)
        story.append(f"{what.__name__} at step {status('run')['step'] if os.path.exists('runs/run/status.json') else '-'}")
        what(rng, job, "run")
        if job.returncode == 0:
            break
    r = train(ranks, "run", *args)
    told = f"{ranks} ranks, {' '.join(args)}\n{story}\n{r.stdout[-2000:]}{r.stderr[-1000:]}"
    assert_equal(newest("run"), newest("whole"), told)
    assert rows("run") == rows("whole"), told
    s = status("run")
    assert (s["state"], s["exit_code"]) == ("done", 0), told
    assert s["attempt"] == attempts("run"), told
    assert not left_over("run"), told
    assert len(checkpoints("run")) <= KEEP, f"{checkpoints('run')}\n{told}"
