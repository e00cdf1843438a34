"""A signal at one rank, wherever the run is: in its start, in an evaluation, in a round, while ranks wait for a late one."""
import fcntl
import os
import re
import shutil
import signal
import subprocess
import termios
import time

import pytest

from harness import (ENV, MLP, assert_equal, built, checkpoints, kill_all, metrics, newest, places, program, ranks_of, read, said, sampled, send, sets,
                     shoal, shows, status, train, wait_for, wait_until)

TIMED = ("time_s", "samples_per_s", "wait_share")  # differ from run to run
# 8 steps per epoch on 2 ranks, 8 test batches of each
BASE = [*MLP, *sets(data__batch=16, run__epochs=3, eval__batch=4, ckpt__every="never", ckpt__keep=100)]
METHODS = {
    "sync": [],
    "daso": sets(method__warmup_epochs=0, method__cooldown_epochs=0, method__every=2, method__wait=1),
    "swarm": sets(method__deterministic="true", method__local_steps=2),
    "ab": sets(method__warmup=4, method__cycle=6, method__rebound=2),
    "ist": sets(method__round=4),
    "local": sets(method__chunks=2),
}
SOON = 8  # seconds for what takes one, on a machine that does other things as well


def rows(name):
    return [{k: v for k, v in m.items() if k not in TIMED} for m in metrics(name)]


def stopped(job, name, since, seconds=SOON):
    """The job ends with 75, within so many seconds."""
    assert job.wait(60) == 75, read(f"{name}.out")
    assert time.monotonic() - since < seconds, f"{time.monotonic() - since:.1f} s\n" + read(f"{name}.out")
    assert "error" not in read(f"{name}.out"), read(f"{name}.out")


@pytest.mark.parametrize("late", (0, 2))
@pytest.mark.parametrize("resumed", (False, True))
def test_stop_start(glyphs, jobs, late, resumed):
    """While one rank is late with the data set: the signal at another reaches it, nothing is left of a new run, and status.json
    of one that goes on is true."""
    glyphs(256, 64)
    if resumed:
        train(3, "r", *BASE, "--allow-faults", *sets(fault__stop_step=3), code=75)
        before = status("r")
    job = jobs.start(3, "r", *BASE, "--allow-faults", *sets(fault__start="sleep:40000", fault__rank=late))
    wait_until("ranks", lambda: len(ranks_of(job)) == 3)
    wait_until("the folder", lambda: os.path.exists("runs/r/lease"))
    time.sleep(1)
    now = time.monotonic()
    send(ranks_of(job)[1], signal.SIGUSR1)
    stopped(job, "r", now)
    assert "stopped before the training began" in read("r.out"), read("r.out")
    if resumed:
        assert (status("r")["state"], status("r")["step"], status("r")["attempt"]) == ("stopped", before["step"], 2), status("r")
        train(3, "r", *BASE)
        assert re.findall("^=== attempt (\\d+)", read("runs/r/log.txt"), re.M) == ["1", "2", "3"], read("runs/r/log.txt")
    else:
        assert not os.path.exists("runs/r"), os.listdir("runs/r")


@pytest.mark.parametrize("ranks", (1, 2))
def test_stop_method(glyphs, jobs, ranks):
    """In what a method does before its first step, here a decomposition: all end alike, and nobody claims a checkpoint."""
    glyphs(256, 64)
    args = [*BASE, *METHODS["ab"], *sets(method__name="ab", method__warmup=0, method__mode="with-stale" if ranks > 1 else "only-b")]
    job = jobs.start(ranks, "r", *args, through=["env", f"LD_PRELOAD={built('libslowsvd.so')}", "SLOWSVD_MS=4000"])
    wait_for("r.out", "ab: factors after step 0")
    send(ranks_of(job)[1] if ranks > 1 else job.pid, signal.SIGUSR1)
    assert job.wait(60) == 75, read("r.out")
    assert read("r.out").count("stopped before the first step; nothing was saved yet, so the next start begins as this one did") == 1
    assert "MPI_ABORT" not in read("r.out") and "verified" not in read("r.out") + str(status("r")), read("r.out")
    assert (status("r")["state"], status("r")["exit_code"], checkpoints("r")) == ("stopped", 75, []), status("r")
    assert status("r")["progress"]["left_s"] is None, status("r")


@pytest.mark.parametrize("method", sampled(METHODS, 3))
def test_stop_evaluation(glyphs, jobs, method):
    """In an evaluation at an epoch's end and at the run's end: what was measured is dropped, and measured again."""
    glyphs(256, 64)
    args = [*BASE, *METHODS[method], *sets(method__name=method, eval__every="1 epoch")]
    train(2, "whole", *args)
    for place in range(3):
        job = jobs.start(2, "torn", *args, "--allow-faults", *sets(fault__eval="sleep:1000", fault__rank=place % 2,
                                                                   run__log_every="1 steps"))
        last = 8 * (place + 1)  # local may have stopped there, and then begins with the evaluation
        wait_for("torn.out", rf"step {last}:|done, step {last}\n[\s\S]*to stop with")
        time.sleep(0.5)  # in the evaluation that follows, of 8 s
        now = time.monotonic()
        send(ranks_of(job)[1 - place % 2], signal.SIGUSR1)
        stopped(job, "torn", now)
        assert f"the evaluation after step {last} is done again after the resume" in read("torn.out"), read("torn.out")
        # past that evaluation, to a step in the middle before the next
        if place < 2:
            train(2, "torn", *args, "--allow-faults", *sets(fault__stop_step=status("torn")["step"] + 1), code=None)
    train(2, "torn", *args)
    assert rows("torn") == rows("whole")
    assert_equal(newest("torn"), newest("whole"), method)


def test_stop_waiting(glyphs, jobs):
    """Ranks wait for one whose batch is slow: the signal at a waiting one is heard in that batch."""
    glyphs(256, 64)
    job = jobs.start(3, "r", *BASE, "--allow-faults", *sets(fault__compute="sleep:1000", fault__rank=2, run__log_every="1 steps"))
    wait_for("r.out", r"step 2")
    now = time.monotonic()
    send(ranks_of(job)[0], signal.SIGTERM)
    stopped(job, "r", now)
    step = status("r")["step"]
    assert step <= 6, step
    assert f"\n  to go on       the same command again, from the checkpoint of step {step}\n" in read("r.out"), read("r.out")


@pytest.mark.parametrize("method", sampled(METHODS, 1))
def test_stop_saving(glyphs, jobs, method):
    """H07: USR1 at one rank while a slow checkpoint is written, and TERM at all a second later: that one is the stop's, a second
    one is not begun."""
    glyphs(256, 64)
    job = jobs.start(4, "r", *BASE, *METHODS[method], *sets(method__name=method, ckpt__every="3 steps", run__log_every="1 steps"),
                     "--allow-faults", *sets(fault__ckpt="sleep:4000"))
    wait_until("a save", lambda: os.path.isdir("runs/r/ckpt") and any(".tmp-" in f for f in os.listdir("runs/r/ckpt")))
    send(ranks_of(job)[3], signal.SIGUSR1)
    time.sleep(1)
    for pid in ranks_of(job).values():
        send(pid, signal.SIGTERM)
    stopped(job, "r", time.monotonic(), 20)
    assert read("r.out").count("checkpoint runs/r/ckpt/step-") == 1, read("r.out")
    assert [f"step-{status('r')['step']:09}.h5"] == os.listdir("runs/r/ckpt"), status("r")
    shoal("ckpt", "verify", newest("r"))


@pytest.mark.parametrize("late", (False, True))
def test_stop_round(glyphs, jobs, late):
    """In the middle of a long round, by any rank: all save the same step, close to where they were; if one is an epoch behind, the
    others have promised the epoch's end.  The run goes on to the same weights."""
    glyphs(256, 64)
    args = [*BASE, *sets(method__name="ist", method__round=100, data__batch=4, run__epochs=2)]  # 22 steps per epoch
    slow = sets(fault__compute="sleep:200", fault__rank=1) if late else sets(fault__jitter=300)
    train(3, "whole", *args)
    for rank in (0, 1):
        name = f"r{rank}"
        job = jobs.start(3, name, *args, "--allow-faults", *slow, *sets(run__log_every="1 steps"))
        wait_for(f"{name}.out", "step 5:")
        now = time.monotonic()
        send(ranks_of(job)[rank], signal.SIGUSR1)
        stopped(job, name, now, 30)
        step = status(name)["step"]
        assert step == 22 if late else 5 <= step < 22, status(name)
        train(3, name, *args)
        assert rows(name) == rows("whole")
        assert_equal(newest(name), newest("whole"), "weights")


# Two nodes of two, apart for a whole epoch of 22 steps but for what is inside a node, or a group
APART = {
    "local-sgd": sets(method__period=100, method__node_level="true"),
    "daso": sets(method__warmup_epochs=0, method__cooldown_epochs=0, method__every=100),
    "ab": sets(method__warmup=0, method__cycle=100, method__rebound=1),
}


@pytest.mark.parametrize("method", sampled(APART, 1))
def test_stop_lockstep(glyphs, jobs, method):
    """The same where ranks of a node wait for each other in every step: all of a node promise the same step, so that none waits for
    one that has promised."""
    glyphs(352, 64)
    args = [*BASE, *APART[method], *sets(method__name=method, data__batch=4, run__epochs=2), "--topo", "2x2"]
    train(4, "whole", *args)
    for step in (5, 26):  # short steps: the others of its node hear of it in a later one than the rank itself
        train(4, "r", *args, "--allow-faults", *sets(fault__stop_step=step, fault__rank=2), code=75, timeout=60)
        assert step + 2 <= status("r")["step"] <= 22 * (step // 22 + 1), status("r")
    train(4, "r", *args)
    assert rows("r") == rows("whole")
    assert_equal(newest("r"), newest("whole"), "weights")


# How many steps rank 0 makes when rank 1 never ends its third: all before the one that needs it.
ALONE = {
    "local-sgd": (sets(method__period=12), 12),
    "daso": ([*METHODS["daso"], *sets(method__every=8, method__wait=2)], 10),
    "ab": (sets(method__warmup=1, method__cycle=13, method__rebound=1), 12),
}


@pytest.mark.parametrize("method", ALONE)
def test_stop_votes_late(glyphs, jobs, method):
    """A rank that is held up in one step holds up no other before the step that needs it: votes wait for nobody by themselves."""
    glyphs(256, 64)
    options, steps = ALONE[method]
    args = [*BASE, *options, *sets(method__name=method, data__batch=4, run__steps=20), "--topo", "2x1"]
    train(2, "r", *args, "--allow-faults", *sets(fault__stop_step=0), code=75)
    assert status("r")["step"] == 2, status("r")
    job = jobs.start(2, "r", *args, *sets(fault__rank=1, fault__compute="sleep:3600000", run__log_every="1 steps"), "--allow-faults")
    wait_for("r.out", f"step {steps}:")
    kill_all(job)


def test_stop_interrupted(glyphs, jobs):
    """Ctrl-C under mpirun, which kills the ranks a second after their TERM: a quick checkpoint is there in time, where the cores
    are not too busy; without one, status.json does not say that the run goes on, and the start has named the command to use."""
    glyphs(256, 64)
    for save_ms, states in ((0, ("stopped", "stopping")), (8000, ("stopping",))):
        name = f"r{save_ms}"
        job = jobs.start(2, name, *BASE, *sets(run__epochs=200, eval__every="200 epochs", run__log_every="1 steps"), "--allow-faults",
                         *sets(fault__compute="sleep:50", fault__ckpt=f"sleep:{save_ms}"))
        wait_for(f"{name}.out", "step 2:")
        send(job.pid, signal.SIGINT)
        job.wait(30)
        text = read(f"{name}.out")
        assert f"kill -USR1 {places(name)[0]['pid']}; allow two steps, and" in text, text
        assert "after Ctrl-C mpirun allows" in text, text
        log = read(f"runs/{name}/log.txt")  # mpirun 5 shows nothing more
        assert "a signal asks to stop: up to two steps of" in log, log
        assert status(name)["state"] in states, status(name)
        if status(name)["state"] == "stopped":
            shoal("ckpt", "verify", newest(name))
    for ranks in (1, 2):
        told = hang_up(ranks)
        assert len(told) == 1 and "the terminal is gone, which asks to stop: up to" in told[0], told
        shutil.rmtree("runs/r")


def test_stop_killed(glyphs, jobs):
    """As after a plain scancel: TERM to all, and KILL to all later.  Once the checkpoint of the stop is there, status.json, `shoal status`
    and the next start say so, though the run is not at its end; before, none of them does."""
    glyphs(256, 64)
    for saved in (False, True):
        name = f"r{saved:d}"
        job = jobs.start(2, name, *BASE, *sets(run__epochs=200, eval__every="200 epochs", run__log_every="1 steps"), "--allow-faults",
                         *sets(fault__compute="sleep:20", fault__ckpt="sleep:0" if saved else "sleep:60000", fault__end="sleep:60000"))
        wait_for(f"{name}.out", "step 2:")
        for pid in ranks_of(job).values():
            send(pid, signal.SIGTERM)
        wait_until("a save", lambda: checkpoints(name) if saved else any(".tmp-" in f for f in os.listdir(f"runs/{name}/ckpt")))
        time.sleep(0.5)
        kill_all(job)
        s, told = status(name), shoal("status", "runs").stdout
        after = train(2, name, *BASE, "--allow-faults", *sets(fault__stop_step=s["step"] if saved else 0), code=75)
        words = rf"TERM at \d\d:\d\d:\d\d asked to stop, and the checkpoint of step {s['step']} was written"
        assert s["ended"] is False, s
        if saved:
            assert (s["state"], s["exit_code"]) == ("stopped", 75) and re.fullmatch(words, s["reason"]), s
            assert re.search(rf"^{name}: {words}; then it was killed before it ended$", told, re.M), told
            assert re.search(rf"attempt 1: {words}; then it was killed before it ended", after.stdout), said(after)
        else:
            assert s["state"] == "stopping" and re.search(rf"^{name}: killed: asked to stop by a signal; not saved yet, last word", told, re.M), f"{s}\n{told}"
            assert "attempt 1 did not end by itself" in after.stderr, said(after)
        assert (status(name)["state"], status(name)["ended"]) == ("stopped", True), status(name)


def hang_up(ranks):
    """A run of `shoal launch` whose terminal goes away: exit code, and what log.txt tells of it.  The terminal stops writers in its
    background (stty tostop), where mpirun is."""
    master, slave = os.openpty()
    modes = termios.tcgetattr(slave)
    modes[3] |= termios.TOSTOP
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    with open("r.yaml", "w") as f:
        f.write("run: { name: r }\n")
    job = subprocess.Popen([program(), "launch", "r.yaml", "-n", str(ranks), *map(str, BASE), *sets(run__name="r", run__epochs=200), "--allow-faults",
                            *sets(fault__compute="sleep:50", run__log_every="1 steps")], env=ENV, stdin=slave, stdout=slave, stderr=slave,
                           start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    os.set_blocking(master, False)
    def trains():
        try:
            while os.read(master, 4096):
                pass
        except OSError:
            pass
        return shows("runs/r/log.txt", "epoch 1 done")
    wait_until("steps", trains)
    os.close(master)
    assert job.wait(60) == 75, read("runs/r/log.txt")
    return re.findall("\\S+ asks to stop: up to|.*which asks to stop: up to", read("runs/r/log.txt"))


@pytest.mark.parametrize("ranks, where", ((1, 0), (3, 2)))
def test_stop_said_at_once(glyphs, jobs, ranks, where):
    """In a step of half a minute, whichever rank gets the signal: status.json says so long before the step is over."""
    glyphs(256, 64)
    job = jobs.start(ranks, "r", *BASE, "--allow-faults", *sets(fault__compute="sleep:30000", fault__rank=0))
    wait_for("r.out", "to stop with a checkpoint")
    time.sleep(1)
    send(ranks_of(job)[where] if ranks > 1 else job.pid, signal.SIGUSR1)
    wait_until("stopping", lambda: status("r")["state"] == "stopping", 20)
    assert (status("r")["step"], status("r")["exit_code"]) == (0, 0), status("r")
    assert "asked to stop by a signal" in status("r")["reason"], status("r")


def test_stop_lead_known(glyphs):
    """What a stop was measured to take is known at the next start, before its first step and checkpoint."""
    glyphs(256, 64)
    slow = ["--allow-faults", *sets(fault__compute="sleep:300", fault__ckpt="sleep:2500", fault__stop_step=2)]
    r = train(2, "r", *BASE, *slow, code=75)
    assert "; allow two steps, and 1.0 s to save" in r.stdout, r.stdout
    lead = status("r")["lead"]
    assert lead["step_s"] >= 0.3 and lead["save_s"] >= 2.5, lead
    r = train(2, "r", *BASE, "--allow-faults", *sets(fault__stop_step=5), code=75)
    assert ", as the start before this one took, on its ranks" in r.stdout, r.stdout
    told = re.search(r"; allow two steps of (\S+) (\S+), as .* ranks, and (\S+) (\w+) to save", r.stdout)
    assert told, r.stdout
    unit = {"ms": 1e-3, "s": 1, "min": 60}
    assert abs(float(told[1]) * unit[told[2]] / lead["step_s"] - 1) < 0.1, r.stdout
    assert abs(float(told[3]) * unit[told[4]] / lead["save_s"] / 2 - 1) < 0.1, r.stdout
