"""Runs that are disturbed at random, again and again, and must end as if nothing had been: equal weights, equal metrics.csv, a true
status.json at every end, nothing left over, ckpt.keep kept, one owner of the folder.

A case draws ranks, layout and, for every start, a moment and what happens then.  Kinds are dealt like cards: none comes again
before all have come.  Each entry has 10 cases, and 100 with SHOAL_FULL=1; SHOAL_TEST_SEED draws others; SHOAL_CASES=7,12 runs
some.  At the end each entry shows how often every kind has struck and every check was made, and fails if one never was.
"""
import collections
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

import launch
from harness import (ENV, FULL, METHODS, MLP, assert_equal, checkpoints, kill_all, newest, program, ranks_of, read, rows, send,
                     sets, shoal, status, wait_until)

CASES = [int(c) for c in os.environ.get("SHOAL_CASES", "").split(",") if c] or range(100 if FULL else 10)
LAYOUTS = {1: ["1"], 2: ["2", "1,1"], 3: ["2,1", "3"], 4: ["2x2", "1,3"], 5: ["2,3"]}
RANKS = {"local": [2, 4], "swarm": [2, 4], "ab": [2, 3, 4, 5]}  # pairs of parts, pairs of ranks, two groups; else any
KEEP = 3
STARTS = 3  # disturbed ones
# 8 steps per epoch, 32 in all
BASE = [*MLP, *sets(data__global_batch=60, run__epochs=4, run__log_every="1 steps", eval__every="4 steps", ckpt__every="3 steps",
                    ckpt__keep=KEEP, comm__warn=20, comm__hang=60)]
SLOW = ["--allow-faults", *sets(fault__compute="sleep:15")]  # slow enough to be hit
SUSPENDED = sets(comm__warn="1s", comm__hang="2s")


class Run:
    """A run that is started many times.  Its folder is runs/`name`, which may change; `job` is the present start."""

    def __init__(self, jobs, rng, ranks, args):
        self.jobs, self.rng, self.ranks, self.args = jobs, rng, ranks, args
        self.name, self.job, self.story = "run", None, []

    def command(self, *more):
        parent, name = os.path.split(f"runs/{self.name}")
        return [*(launch.mpirun(self.ranks) if self.ranks > 1 else []), program(), "train", *self.args,
                *sets(run__name=name, run__dir=parent), *more]

    def start(self, *more, out="run.out"):
        """Another start in the background, which does not outlive the test."""
        with open(out, "w") as f:
            job = subprocess.Popen([str(c) for c in self.command(*more)], env=ENV, stdout=f, stderr=f)
        self.jobs.append(job)
        return job

    def processes(self):
        """Process ids of the ranks of the present start, as far as they live."""
        if self.job.poll() is not None:
            return []
        return list(ranks_of(self.job).values()) if self.ranks > 1 else [self.job.pid]

    def log(self):
        return read(f"runs/{self.name}/log.txt")

    def attempts(self):
        return [int(n) for n in re.findall("^=== attempt (\\d+)", self.log(), re.M)]

    def steps(self):
        """Steps that the present start has logged."""
        return len(re.findall(r"^epoch \d+ step \d+: ", read("run.out"), re.M))  # not what it says of the start before

    def checkpoints(self):
        return checkpoints(self.name)

    def newest_files(self):
        """The newest checkpoint's files, shards too; none if there is no checkpoint."""
        return sorted(glob.glob(f"{self.checkpoints()[-1][:-len('.h5')]}.*")) if self.checkpoints() else []


# ---- what happens to a run ---------------------------------------------------------------------------------------------
# Each returns the exit codes that are right then, or None where a kill decides.

STOPPED = (0, 75)  # 0: it ended before the signal came


def signal_one(run):
    """One signal, or two, at one rank."""
    pids = run.processes()
    for number in [run.rng.choice([signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM]) for _ in range(run.rng.choice([1, 1, 2]))]:
        if pids:
            send(run.rng.choice(pids), number)
    return STOPPED


def signal_all(run):
    """As the batch system does."""
    for pid in run.processes():
        send(pid, signal.SIGUSR1)
    return STOPPED


def kill_one(run):
    pids = run.processes()
    if pids:
        send(run.rng.choice(pids), signal.SIGKILL)


def kill_every(run):
    kill_all(run.job)


def kill_launcher(run):
    send(run.job.pid, signal.SIGKILL)  # Open MPI's ranks end by themselves, or the run does before


def suspend_one(run):
    """One rank stands still for a while, then a signal comes."""
    pids = run.processes()
    if pids:
        pid = run.rng.choice(pids)
        send(pid, signal.SIGSTOP)
        time.sleep(run.rng.uniform(0.1, 1))
        send(pid, signal.SIGCONT)
    return signal_one(run)


def suspend_for_good(run):
    """One of several ranks never moves again: the others give up after comm.hang, and end it."""
    pids = run.processes()
    if len(pids) < 2 or run.steps() == 0:  # in MPI_Init nobody watches
        return kill_every(run)
    pid = run.rng.choice(pids)
    send(pid, signal.SIGSTOP)
    try:
        run.job.wait(40)
    finally:
        send(pid, signal.SIGKILL)
    return (5, 0)


def second_start(run):
    """While the whole run stands still, another start wants its folder; it is refused, and the first goes on until a signal."""
    pids = run.processes()
    begun = os.path.exists(f"runs/{run.name}/lease") and run.steps() > 0
    for pid in pids:
        send(pid, signal.SIGSTOP)
    try:
        if begun and pids:
            before = read(f"runs/{run.name}/status.json"), run.attempts()
            second = run.start(out="second.out")
            assert second.wait(60) == 3, read("second.out")
            assert read("second.out").count("is in use by another run") == 1, read("second.out")
            assert (read(f"runs/{run.name}/status.json"), run.attempts()) == before, "a refused start wrote"
            run.checked["one owner: a second start is refused"] += 1
    finally:
        for pid in pids:
            send(pid, signal.SIGCONT)
    return signal_one(run)


def two_starts(run):
    """After a kill two come at once: one has the folder, and the other is refused, or comes after it."""
    kill_all(run.job)
    before = run.attempts()
    both = [run.start(out=f"{k}.out") for k in range(2)]
    codes = sorted(job.wait(90) for job in both)
    told = read("0.out") + read("1.out")
    assert codes in ([0, 0], [0, 3]), f"{codes}\n{told}"
    assert len(run.attempts()) == len(before) + codes.count(0), f"{codes} {before} {run.attempts()}\n{told}"
    run.checked["one owner: of two starts one has the folder"] += 1
    run.job = both[0]
    return (0, 3)


def damage_newest(run):
    kill_all(run.job)
    files = run.newest_files()
    if files:
        file = run.rng.choice(files)
        size = os.path.getsize(file)
        with open(file, "r+b") as f:
            if run.rng.random() < 0.5:
                f.truncate(run.rng.randrange(size))
            else:
                f.seek(run.rng.randrange(size))
                byte = f.read(1)
                f.seek(-1, 1)
                f.write(bytes([byte[0] ^ 1 << run.rng.randrange(8)]))


def delete_newest(run):
    kill_all(run.job)
    if run.checkpoints():
        os.remove(run.rng.choice(run.newest_files()))


def fill_disk(run):
    """No byte is left, until the run has ended with 7 at its next checkpoint.  Those that were there stay."""
    before = [f for f in run.checkpoints()[-1:] if shoal("ckpt", "verify", f, code=None).returncode == 0]
    run.disk.fill()
    try:
        code = run.job.wait(60)
    finally:
        run.disk.free()
    if code == 7:
        text = read("run.out")
        assert re.search("No space left on device|but there is .* free", text), text
        for path in before:
            assert any(f >= path for f in run.checkpoints()), f"{path} is gone: {run.checkpoints()}"
        run.checked["full disk: exit 7, the reason, older checkpoints"] += 1
    return (0, 7)


def move(run, living):
    name = f"moved-{len(run.story)}/{os.path.basename(run.name)}"
    if os.path.exists(f"runs/{run.name}"):
        os.makedirs(os.path.dirname(f"runs/{name}"))
        os.rename(f"runs/{run.name}", f"runs/{name}")
        if living:
            run.job.wait(60)
        assert not os.path.exists(f"runs/{run.name}"), "it made its folder again"
        run.name = name


def move_dead(run):
    """The folder of a run that was killed goes on at another place."""
    kill_all(run.job)
    move(run, False)


def move_living(run):
    """The folder is moved under a run, which must not go on in either place: 3, its lease is gone."""
    pids = run.processes()
    if run.steps() == 0 or not pids:  # it may come to make its folder only after the move
        return move_dead(run)
    move(run, True)
    return (0, 3, 7)


KINDS = [signal_one, signal_all, kill_one, kill_every, kill_launcher, suspend_one, suspend_for_good, second_start, two_starts,
         damage_newest, delete_newest, fill_disk, move_dead, move_living]
CHECKS = ["equal weights", "equal metrics.csv", "status.json of a run that lives", "status.json after a stop",
          "status.json after a failure", "status.json after a kill", "status.json at the end", "nothing left over", "ckpt.keep",
          "no process left", "one owner: attempts count up", "one owner: a second start is refused",
          "one owner: of two starts one has the folder", "full disk: exit 7, the reason, older checkpoints"]


def dealt(entry, case):
    """The kinds of a case, of the deck that its entry's cases share.  Two starts run to the end, so that is a case's last."""
    cards = []
    for hand in range((case + 1) * STARTS // len(KINDS) + 1):
        deck = list(KINDS)
        random.Random(f"{os.environ.get('SHOAL_TEST_SEED', 1)} {entry} {hand}").shuffle(deck)
        cards += deck
    return sorted(cards[case * STARTS:(case + 1) * STARTS], key=lambda kind: kind is two_starts)


def wait_for_moment(run):
    """In the start, or after some steps: while it computes, evaluates or saves."""
    early = run.rng.random() < 0.15
    end = time.monotonic() + (run.rng.uniform(0, 0.5) if early else 60)
    steps = run.rng.randrange(1, 9)
    while run.job.poll() is None and time.monotonic() < end and (early or run.steps() < steps):
        time.sleep(0.005)
    time.sleep(run.rng.uniform(0, 0.04))


# ---- checks --------------------------------------------------------------------------------------------------------------

def check_living(run):
    """While a run lives its status.json says so, and is ten seconds old at most."""
    if run.steps() == 0 or run.job.poll() is not None:
        return
    s = status(run.name)
    if s["state"] == "done" or run.job.poll() is not None:
        return
    age = time.time() - time.mktime(time.strptime(s["time"][:19], "%Y-%m-%dT%H:%M:%S")) + time.timezone
    assert (s["state"], s["attempt"]) == ("running", run.attempts()[-1]), s
    assert age < 12, f"{age:.1f} s old: {s}"
    run.checked["status.json of a run that lives"] += 1


def check_ended(run, right, began):
    """Exit code and status.json after what happened; `began`: the start had the folder then."""
    code, text = run.job.returncode, read("run.out")
    assert right is None or code in right or not began, f"exit {code}, not one of {right}\n{text}"
    path = f"runs/{run.name}/status.json"
    s = json.loads(read(path)) if os.path.exists(path) else None
    if s is None or not began or s["attempt"] != run.attempts()[-1]:
        return
    moved = right is not None and 3 in right  # after the end, it may be, and before status.json could say so
    states = {0: ["done", "running"] if moved else ["done"], 75: ["stopped"], 3: ["running", "stopping", "done"], 4: ["failed", "stopped"], 5: ["failed", "stopped"],
              7: ["failed", "running"], -9: ["running", "stopping", "stopped", "failed", "done"]}.get(code, ["running", "stopping", "stopped", "failed"])
    assert s["state"] in states, f"exit {code}: {s}\n{text}"
    if s["state"] in ("stopped", "failed") and code in (4, 5, 7, 75):
        told = 75 if s["state"] == "stopped" else code  # a rank was lost once the checkpoint of a stop was there
        assert s["exit_code"] == told and s["reason"], f"exit {code}: {s}"
    if code == 75 and s["step"] > 0:
        assert run.checkpoints()[-1].endswith(f"step-{s['step']:09}.h5"), f"{s} {run.checkpoints()}"
        shoal("ckpt", "verify", run.checkpoints()[-1])
        assert len(run.checkpoints()) <= KEEP, run.checkpoints()
    run.checked["status.json after a " + ("stop" if code == 75 else "failure" if code in (3, 4, 5, 7) else "kill")] += 1


def living_here():
    """Processes that work in this folder."""
    found, here = [], os.getcwd()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(pid) != os.getpid() and os.readlink(f"/proc/{pid}/cwd") == here and read(f"/proc/{pid}/stat").split()[2] != "Z":
                found.append(read(f"/proc/{pid}/cmdline").replace("\0", " "))
        except OSError:
            pass
    return found


def left_over(name):
    """Files that no run leaves behind: temporary ones, and shards of no checkpoint."""
    stems = tuple(f"{path[:-len('.h5')]}." for path in checkpoints(name))
    orphans = [f for f in glob.glob(f"runs/{name}/ckpt/*.shard-*") if not f.startswith(stems)]
    return orphans + [os.path.join(folder, f) for folder, _, files in os.walk(f"runs/{name}") for f in files
            if f.startswith((".", "lease")) or "tmp" in f]


# ---- cases ---------------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def checked():
    """How often each check was made and each kind struck, by entry."""
    return collections.defaultdict(collections.Counter)


def disturb(entry, methods, case, glyphs, data_sets, jobs, disk, checked):
    """One case: a run with one of these methods is started, disturbed, and started again, three times; then it ends."""
    rng = random.Random(f"{os.environ.get('SHOAL_TEST_SEED', 1)} {entry} case {case}")
    method = methods[case % len(methods)]
    ranks = rng.choice(RANKS.get(method, [1, 2, 3, 4, 5]))
    topo = rng.choice(LAYOUTS[ranks])
    args = [*BASE, *METHODS[method], *sets(method__name=method), *(["--topo", topo] if ranks > 1 else [])]
    if rng.random() < 0.5:
        args += sets(ckpt__gather=0, ckpt__beside="always")  # in shards, beside the training
    glyphs(480, 96)
    disk.resize("24m")  # for five ranks' own weights, ckpt.keep + 1 times
    os.symlink(disk, "runs")
    whole = f"{data_sets}/{method}-{topo}"
    run = Run(jobs, rng, ranks, args)
    if not os.path.exists(whole):
        run.name = "whole"
        run.job = run.start()
        assert run.job.wait(120) == 0, read("run.out")
        shutil.move("runs/whole", whole)
        run.name = "run"
    os.symlink(whole, "runs/whole")
    run.disk, run.checked, hits = disk, checked[entry], checked[f"{entry} kinds"]
    for kind in dealt(entry, case):
        before = run.attempts()
        run.job = run.start(*SLOW, *(SUSPENDED if kind is suspend_for_good else []))
        wait_for_moment(run)
        check_living(run)
        struck, steps = run.job.poll() is None, run.steps()
        began = len(run.attempts()) > len(before)
        run.story.append(f"{kind.__name__} after {steps} steps" + ("" if struck else ", too late"))
        print(run.story[-1])
        right = kind(run)
        run.job.wait(90)
        wait_until("no process is left", lambda: not living_here(), 30)
        run.checked["no process left"] += 1
        hits[kind.__name__, "in the start" if steps == 0 else "later"] += struck
        check_ended(run, right, began)
    run.job = run.start()
    assert run.job.wait(120) == 0, read("run.out")
    told = f"{method}, {ranks} ranks, {topo}, {args[-1]}: {run.story}\n{read('run.out')[-3000:]}"
    assert_equal(run.checkpoints()[-1], newest("whole"), told)
    assert rows(run.name) == rows("whole"), told
    s = status(run.name)
    assert (s["state"], s["exit_code"]) == ("done", 0), told
    assert run.attempts() == list(range(1, len(run.attempts()) + 1)) and s["attempt"] == len(run.attempts()), told
    assert not left_over(run.name), f"{left_over(run.name)}\n{told}"
    assert len(run.checkpoints()) <= KEEP, f"{run.checkpoints()}\n{told}"
    for check in ("equal weights", "equal metrics.csv", "status.json at the end", "nothing left over", "ckpt.keep",
                  "one owner: attempts count up"):
        run.checked[check] += 1


@pytest.mark.parametrize("case", CASES)
def test_disturbed_steps(glyphs, data_sets, jobs, disk, checked, case):
    """Methods whose ranks step together."""
    disturb("steps", ["sync", "ab", "local"], case, glyphs, data_sets, jobs, disk, checked)


@pytest.mark.parametrize("case", CASES)
def test_disturbed_averages(glyphs, data_sets, jobs, disk, checked, case):
    """Methods that average weights now and then."""
    disturb("averages", ["local-sgd", "daso"], case, glyphs, data_sets, jobs, disk, checked)


@pytest.mark.parametrize("case", CASES)
def test_disturbed_apart(glyphs, data_sets, jobs, disk, checked, case):
    """Methods whose ranks train models of their own."""
    disturb("apart", ["swarm", "ist"], case, glyphs, data_sets, jobs, disk, checked)


def test_disturbed_counts(checked, capsys):
    """Every kind has struck and every check was made in each entry that has run; shows how often."""
    missing = []
    with capsys.disabled():
        for entry in [e for e in checked if not e.endswith(" kinds")]:
            hits = checked[f"{entry} kinds"]
            print(f"\n{entry}: struck in the start, later")
            for kind in KINDS:
                counts = [hits[kind.__name__, when] for when in ("in the start", "later")]
                print(f"  {kind.__name__:20} {counts[0]:4} {counts[1]:4}")
                missing += [f"{entry}: {kind.__name__} never struck"] if sum(counts) == 0 else []
            print(f"{entry}: checks")
            for check in CHECKS:
                print(f"  {check:52} {checked[entry][check]:4}")
                missing += [f"{entry}: never checked: {check}"] if checked[entry][check] == 0 else []
    assert not missing or "SHOAL_CASES" in os.environ, missing
