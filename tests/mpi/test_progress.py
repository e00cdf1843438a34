"""What a run says while it trains: the live line of a terminal, progress lines of a log, the line of an epoch."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time

import pytest
from harness import MLP, PLAIN_ENV, assert_equal, checkpoints, log, metrics, newest, program, sets, status, train, train_command, wait_for

NUMBER = r"[\d.e+-]+"
LIVE = re.compile(rf"epoch (?P<epoch>\d+)  step (?P<step>\d+)  loss {NUMBER}(?P<lr>  lr {NUMBER})?(?P<left>  ({NUMBER} \w+ )+left)?"
                  rf"(?P<accuracy>  test accuracy {NUMBER} %)?(?P<means>  since step \d+: \d+ samples/s)?"
                  rf"(?P<steps>, {NUMBER} step/s)?")
WIPE = "\r\033[K"


def on_terminal(columns, *command):
    """All that a command writes to a terminal of so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    job = subprocess.Popen(command, env={**PLAIN_ENV, "TERM": "xterm", "OMP_NUM_THREADS": "1"}, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:  # the last writer has gone
            break
        if not more:
            break
        seen += more
    os.close(master)
    assert job.wait() == 0, seen.decode()
    return seen.decode()


@pytest.mark.parametrize("columns, always, never", (
    (200, ("lr", "left", "means", "steps"), ()),
    (80, ("lr", "left"), ()),
    (36, (), ("left", "accuracy", "means", "steps")),
))
def test_progress_live(glyphs, columns, always, never):
    """The live line fits the terminal, and what it leaves out is left out whole, the least important first."""
    glyphs(240)
    # Whole lines of 80 columns and more: many digits, and steps that last long enough to be seen.
    command = train_command(1, "live", *MLP, *sets(run__epochs=2, data__batch=4, optim__lr=0.01234), "--allow-faults",
                            *sets(fault__compute="sleep:10", optim__schedule="cosine", run__log_every="5 steps"))
    said = on_terminal(columns, *command)
    lines = [part.split("\n")[0].rstrip("\r") for part in said.split(WIPE)]
    live = [line for line in lines if re.match(r"epoch \d+  step", line)]
    assert len(live) > 5, said
    for line in live:
        assert len(line) < columns, f"{len(line)}: {line}"
        shown = LIVE.fullmatch(line)
        assert shown, f"cut: {line}"
        for part in always:
            known = part not in ("means", "steps") or shown["step"] != "1"  # speeds count from the end of the first step
            assert bool(shown[part]) == known, f"{part}: {line}"
        for part in never:
            assert not shown[part], f"{part} is in {line}"
        assert columns > 80 or not (shown["accuracy"] and shown["means"]), line
    assert log("live").count(" left\n") == 24 and not re.search(r"step \d+: loss", said), "progress lines are for the log, beside the live line"
    second = [line for line in live if line.startswith("epoch 2")]
    assert second, said
    if columns == 200:
        assert all("test accuracy" in line for line in second), f"{second}"


def test_progress_left(glyphs):
    """The time left has the evaluations that are due until the end, and the last one: eight steps of a few ms, four evaluations of
    a second and more each."""
    glyphs(64, 8)
    train(1, "r", *MLP, "--allow-faults", *sets(data__batch=8, run__steps=8, eval__every="2 steps", run__log_every="1 step", fault__eval="sleep:1000"))
    left = dict(re.findall(r"step (\d+): loss .* ([\d.]+ \w+) left", log("r")))
    assert len(left) == 8, log("r")
    seconds = {int(step): float(t.split()[0]) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}[t.split()[1]] for step, t in left.items()}
    for step, evaluations in ((2, 0), (3, 3), (4, 3), (5, 2), (6, 2), (7, 1), (8, 1)):
        assert seconds[step] >= evaluations, f"after step {step}: {left}"
    assert status("r")["progress"]["left_s"] == 0, status("r")


@pytest.mark.parametrize("verb, room", (("launch", 4096), ("train", 16384)))
def test_progress_unread(glyphs, verb, room):
    """Who started the run does not read its output before the end, from a pipe with little room: the run goes on to its end.  launch
    keeps all for the reader; of train, which is one process, the log has what had no room."""
    glyphs(160)
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, room)
    options = [*MLP, *sets(data__file="glyphs.h5", data__global_batch=8, run__epochs=10, run__log_every="1 step", run__name="r")]
    open("r.yaml", "w").close()
    job = subprocess.Popen([program(), verb, "r.yaml", *(["-n", "2"] if verb == "launch" else []), *options], env={**PLAIN_ENV, "OMP_NUM_THREADS": "1"},
                           stdout=writes, stderr=writes)
    os.close(writes)
    assert job.wait(60) == 0
    with os.fdopen(reads) as f:
        said = f.read()
    assert len(metrics("r")) == 10 and log("r").count(" left\n") == 200, log("r")
    if verb == "launch":
        assert said.count(" left\n") == 200 and said.count("  files ") == 1 and "nobody reads" not in log("r"), said
    else:
        assert "step 3: loss" in said and "step 200: loss" not in said and len(said) <= room, said
        assert log("r").count("nobody reads the output of this run: lines that have no room there are only here\n") == 1, log("r")


@pytest.mark.parametrize("ranks", (1, 2))
def test_progress_logged(glyphs, ranks):
    """A progress line has the rate of its step and says since when its means are; after a resume, since then."""
    glyphs(160)
    base = [*MLP, *sets(data__global_batch=8, optim__lr=0.02, optim__schedule="step", optim__milestones="[1]",
                        run__log_every="5 steps")]
    train(ranks, "r", *base, *sets(run__epochs=1))
    train(ranks, "r", *base, *sets(run__epochs=2))
    lines = re.findall(r"epoch \d+ step .*", log("r"))
    assert len(lines) == 8, log("r")
    whose, waiting = (" on rank 0", r", waiting \d+ %") if ranks > 1 else ("", "")
    for i, line in enumerate(lines):
        rate, since = ("0.02", 1) if i < 4 else ("0.002", 21)
        assert re.fullmatch(rf"epoch {i // 4 + 1} step {5 * i + 5}: loss{whose} {NUMBER}, lr {rate}(, test accuracy {NUMBER} %)?; "
                            rf"since step {since}: {NUMBER} step/s, \d+ samples/s{waiting}; .* left", line), line
    rates = re.findall(r"epoch (\d) done at step .*, lr (\S+),", log("r"))
    assert rates == [("1", "0.02"), ("2", "0.002")], log("r")


def test_progress_again(glyphs):
    """A run that goes back to a checkpoint counts its speed from there: samples that it trained twice are in no row twice."""
    glyphs(160)
    train(1, "back", *MLP, *sets(data__batch=8, run__epochs=3, ckpt__every="1 epoch", run__log_every="5 steps"),
          "--allow-faults", *sets(numbers__bad="rollback", fault__nan_step=32, fault__compute="sleep:2"))
    speeds = [float(m["samples_per_s"]) for m in metrics("back")]
    assert len(speeds) == 3 and all(0 < speed < 8 / 0.002 for speed in speeds), f"{speeds}"
    lines = re.findall(r"step (\d+): .*; since step (\d+):", log("back"))
    assert ("30", "1") in lines and ("30", "21") in lines, log("back")


def test_progress_never(glyphs):
    """never: no line, no evaluation and no checkpoint before the end; a stop saves all the same."""
    glyphs(160)
    base = [*MLP, *sets(data__batch=8, run__epochs=3), "--allow-faults"]
    never = sets(ckpt__every="never", eval__every="never", run__log_every="never")
    train(1, "r", *base, *never, *sets(fault__stop_step=30), code=75)
    assert len(checkpoints("r")) == 1, f'{checkpoints("r")}'
    train(1, "r", *base, *never)
    train(1, "often", *base, *sets(run__log_every="1 steps"))
    assert [m["test_acc"] != "" for m in metrics("r")] == [False, False, True], f'{metrics("r")}'
    assert not re.search(r"epoch \d+ step", log("r")), log("r")
    assert_equal(newest("r"), newest("often"), "a run that says little trains another model")


def test_progress_status(glyphs, jobs):
    """In a step of 13 seconds status.json is never older than ten, and says how far the run is."""
    glyphs(160)
    job = jobs.start(1, "long", *MLP, *sets(data__batch=8, run__steps=2), "--allow-faults", *sets(fault__compute="sleep:13000"))
    wait_for("runs/long/status.json", '"running"')
    oldest, steps = 0, set()
    while job.poll() is None:
        now = status("long")
        if now["state"] == "running":
            oldest = max(oldest, time.time() - os.stat("runs/long/status.json").st_mtime)
            steps.add(now["step"])
        time.sleep(0.2)
    assert oldest < 10, f"{oldest} s old"
    assert {0, 1} <= steps, f"{steps}"
    assert status("long")["state"] == "done", f'{status("long")}'
