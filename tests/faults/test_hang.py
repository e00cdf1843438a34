"""H18: a rank that does not answer: stopped, for good, or with all the others.  One line tells it for the whole job."""
import os
import re
import signal
import socket
import time

import pytest
from harness import MLP, children, log, ranks_of, read, said, send, sets, status, train, wait_for, wait_until

RANKS, TOPO = 8, ["--topo", "2x4"]
WARN, HANG = 3, 9


def slow(jobs, name, ranks, *options):
    """A run that lasts for a while, under way, with the process of every rank."""
    job = jobs.start(ranks, name, *MLP, *sets(run__epochs=400, data__batch=2, run__log_every="5 steps"), "--allow-faults",
                     *sets(fault__compute="sleep:20"), *options)
    wait_for(f"runs/{name}/log.txt", r"step 10:")
    pids = ranks_of(job)
    assert sorted(pids) == list(range(ranks)), f"{pids}"
    return job, pids


@pytest.mark.parametrize("victim, reporter", ((5, 0), (0, 1)))
def test_hang_stopped(glyphs, jobs, victim, reporter):
    """One rank of eight is stopped for longer than comm.warn: one warning, from the lowest rank that lives, says who is missing,
    where, in which operation and step, and since when.  It wakes, and the run goes on."""
    glyphs(400)
    job, pids = slow(jobs, "s", RANKS, *TOPO, *sets(comm__warn=f"{WARN}s"))
    send(pids[victim], signal.SIGSTOP)
    try:
        wait_for("s.out", "ranks wait for", 30)
        time.sleep(2)  # others would have warned by now
    finally:
        send(pids[victim], signal.SIGCONT)
    steps = re.findall(r"step (\d+): loss", log("s"))
    wait_for("runs/s/log.txt", rf"step {int(steps[-1]) + 20}:")
    warnings = [line for line in read("s.out").splitlines() if "warning" in line]
    assert len(warnings) == 1, read("s.out")
    assert re.search(rf"\[rank {reporter}\] .* 7 of 8 ranks wait for rank {victim} \(\S+\) since \d\d:\d\d:\d\dZ; "
                     rf"on rank {reporter} exchange .* in training step \d+ ", warnings[0]), warnings[0]
    send(job.pid, signal.SIGTERM)


def test_hang_given_up(glyphs, jobs):
    """A rank stopped for good: one warning and one error for the job, exit 5, and status.json has the reason."""
    glyphs(400)
    job, pids = slow(jobs, "g", RANKS, *TOPO, *sets(comm__warn=f"{WARN}s", comm__hang=f"{HANG}s"))
    send(pids[5], signal.SIGSTOP)
    try:
        wait_for("g.out", "gave up after", 40)
    finally:
        send(pids[5], signal.SIGCONT)
    assert job.wait(30) == 5, read("g.out")
    lines = read("g.out").splitlines()
    assert len([line for line in lines if "warning" in line]) == 1, read("g.out")
    errors = [line for line in lines if "shoal: error" in line and "  stack" not in line]
    assert len(errors) == 1 and "[rank 0] shoal: error: 7 of 8 ranks wait for rank 5" in errors[0], read("g.out")
    assert errors[0].count(socket.gethostname().split(".")[0]) == 1, errors[0]
    assert {line.split("]")[0] for line in lines if "  stack" in line} == {"[rank 0"}, read("g.out")
    assert status("g")["exit_code"] == 5 and "7 of 8 ranks wait for rank 5" in status("g")["reason"], f'{status("g")}'


@pytest.mark.parametrize("what", (signal.SIGSTOP, signal.SIGKILL))
def test_hang_start(glyphs, jobs, what):
    """A rank is stopped, or killed under a launcher that does not clean up, while the others wait for it in the start: they do
    not wait for it once more when they leave (MPI_Finalize would)."""
    glyphs(64)
    late = [*MLP, *sets(comm__warn="1s", comm__hang="3s"), "--allow-faults", *sets(fault__start="sleep:60000", fault__rank=1)]
    keep = ["sh", "-c", '"$@"; code=$?; [ $code = 137 ] && exec sleep 60; exit $code', "sh"] if what == signal.SIGKILL else []
    job = jobs.start(2, "b", *late, through=keep)
    wait_until("the folder", lambda: os.path.exists("runs/b/lease"))
    time.sleep(0.5)
    ranks = ranks_of(job)
    send(children(ranks[1])[0] if keep else ranks[1], what)
    assert job.wait(20) == (4 if keep else 5), read("b.out")
    assert read("b.out").count("is gone" if keep else "; gave up after") == 1, read("b.out")


@pytest.mark.parametrize("topo, who", (([], "rank 0 is"), (["--topo", "2x1"], "all are")))
def test_hang_saving(glyphs, jobs, topo, who):
    """Rank 0 hangs in a save: the other one, alone, says so, what it does and where, seen in shared memory of the node, or known
    because all do it; and status.json has it."""
    glyphs(64)
    job = jobs.start(2, "c", *topo, *MLP, *sets(comm__warn="1s", comm__hang="3s", ckpt__every="2 steps", data__batch=4),
                     "--allow-faults", *sets(fault__ckpt="sleep:60000"))
    assert job.wait(30) == 5, read("c.out")
    assert read("c.out").count("; gave up after") == 1 and "[rank 1] shoal: error" in read("c.out"), read("c.out")
    assert (status("c")["state"], status("c")["exit_code"], status("c")["rank"]) == ("failed", 5, 1), f'{status("c")}'
    assert re.search(rf"waiting for rank 0 .*; {who} saving the checkpoint of step 2 in runs/c/ckpt, for ", status("c")["reason"])


def test_hang_alone(glyphs):
    """A single rank whose save does not end says so by itself, once, and that it has ended; another one as long is no news."""
    glyphs(64)
    r = train(1, "a", *MLP, *sets(comm__warn="1s", ckpt__every="2 steps", data__batch=4, run__steps=4),
              "--allow-faults", *sets(fault__ckpt="sleep:1600"))
    lines = [line for line in r.stderr.splitlines() if "saving" in line]
    assert len(lines) == 2, said(r)
    assert re.match(r"shoal: warning: still saving the checkpoint of step 2 in runs/a/ckpt, for \d.* s \(host \S+\); ", lines[0]), said(r)
    assert "saving the checkpoint of step 2 in runs/a/ckpt has ended after" in lines[1] and lines[1] in log("a"), said(r)


def test_hang_suspended(glyphs, jobs):
    """The whole job is suspended for longer than comm.hang, most ranks while they wait for the first one, which is woken last:
    nobody calls that a hang."""
    glyphs(400)
    job, pids = slow(jobs, "w", 4, *sets(comm__warn="4s", comm__hang="5s"))
    try:
        for rank in range(4):
            send(pids[rank], signal.SIGSTOP)
            time.sleep(0.5)
        time.sleep(7)
    finally:
        for rank in reversed(range(4)):
            send(pids[rank], signal.SIGCONT)
            time.sleep(0.5)
    steps = re.findall(r"step (\d+): loss", log("w"))
    wait_for("runs/w/log.txt", rf"step {int(steps[-1]) + 20}:")
    assert "has not moved" not in read("w.out"), read("w.out")
    assert log("w").count("the run was paused for ") == 1, log("w")
    send(job.pid, signal.SIGTERM)
