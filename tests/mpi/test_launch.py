"""`shoal launch` on this machine: the same run as the command written by hand, with its exit codes, and its signals."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

import launch
from harness import (PLAIN_ENV, assert_equal, assert_one_error, kill_all, log, newest, places, program, read, run, said, sets, status,
                     wait_until)

FILE = """it's "a" run.yaml"""  # one word for everybody on its way


def start(name, *args, code=0, **options):
    return run([program(), "launch", *args, *sets(run__name=name)], code=code, base=PLAIN_ENV, **options)


@pytest.fixture
def run_file(glyphs):
    glyphs(200, 20)
    with open(FILE, "w") as f:
        f.write("run: { epochs: 2 }\nmodel: { name: mlp, widths: [16] }\ndata: { file: glyphs.h5, global_batch: 16 }\n")


def test_launch_bits(run_file):
    """mpirun with two ranks, the command that --print shows, and a plain process: the bits of the same by hand."""
    r = start("two", FILE, "-n", 2)
    assert re.match(r"2 ranks on this machine \(.*\) by mpirun \(Open MPI\) \d.*, not bound to cores\n", r.stdout), said(r)
    assert "mpirun" not in r.stderr, f"Open MPI says something: {said(r)}"
    run(launch.mpirun(2, program(), "train", FILE, *sets(run__name="hand")))
    assert_equal(newest("two"), newest("hand"), "by launch and by hand")
    mine = sorted(os.sched_getaffinity(0))
    for p in places("two"):  # unbound, and no more threads than cores: the kernel finds each an idle one
        assert p["cpus"] == places("hand")[0]["cpus"] and p["local_size"] == 2, places("two")
    assert sum(p["threads"] for p in places("two")) <= max(len(mine), 2), places("two")

    shown = start("pasted", FILE, "-n", 2, "--print", "--quiet").stdout
    assert not os.path.exists("runs/pasted"), "--print started it"
    assert run(["sh", "-c", shown], base=PLAIN_ENV).stdout == "", "--quiet got lost"
    assert_equal(newest("two"), newest("pasted"), "by launch and pasted")

    r = start("one", FILE, env={"OMP_NUM_THREADS": "777"})
    assert "OMP_NUM_THREADS=777 does not count here: " in r.stdout, said(r)
    r = run([program(), "train", FILE, *sets(run__name="alone")], base=PLAIN_ENV, env={"OMP_NUM_THREADS": "1,2"})
    told = "OMP_NUM_THREADS=1,2 does not count here: " in r.stdout and "--set threads=1 sets them" in r.stdout
    assert told == (places("alone")[0]["threads"] > 1), said(r)
    assert_equal(newest("one"), newest("alone"), "a plain process")
    if len(mine) > 1:
        start("bound", FILE, "-n", 2, "-c", 1)
        masks = [p["cpus"] for p in places("bound")]
        assert all(m.isdigit() for m in masks) and len(set(masks)) == 2, masks


def test_launch_codes(run_file):
    """Faults of the command line are told once, before anything starts; those of a run have its own exit code."""
    for args, code, words in (
            (("-n", 2, *sets(optm__lr=1)), 2, "did you mean optim.lr?"),
            (("-n", 2, "--rsume", "auto"), 2, "did you mean --resume?"),
            (("-n", "two"), 2, "--ranks two: must be a whole number"),
            (("-n", ""), 2, '--ranks "": must be a whole number'),
            (("-N", 4, "-n", 8), 2, "-N 4: this is no Slurm job, so there is 1 node"),
            (("-n", 2, "--topo", "2x2"), 2, "is for 4 ranks, this run has 2")):
        r = start("none", FILE, *args, code=code)
        assert_one_error(r, words)
        assert r.stdout == "", said(r)
    r = start("none", FILE, "-n", 2, code=3, env={"PATH": "/nonexistent"})
    assert_one_error(r, "2 ranks need mpirun, which is not on the PATH", "install Open MPI")
    r = run(launch.mpirun(1, program(), "launch", FILE, "-n", 2), code=3)
    assert "already a rank of a launcher" in r.stderr, said(r)
    for verb, words in ((["launch", "-n", "2"], "already a rank"), (["train"], "the launcher started 4 ranks")):
        left_over = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
        r = run([program(), *verb, FILE, *sets(run__name="none")], code=3, base={**PLAIN_ENV, **left_over})
        assert_one_error(r, words, "unset ${!OMPI_COMM_WORLD_@}")
    r = start("none", FILE, "-n", 2, code=3, env={"TMPDIR": "/proc/none"})
    assert_one_error(r, "mpirun cannot make its folder for the job in /proc/none (TMPDIR): ", "set TMPDIR to")
    if os.geteuid() == 0:  # mpirun would hang there
        os.mkdir("small")
        full = "mount -t tmpfs -o size=2m tmpfs small && exec \"$@\""
        r = run(["unshare", "-m", "sh", "-c", full, "sh", program(), "launch", FILE, "-n", "2"], code=3, base={**PLAIN_ENV, "TMPDIR": os.path.abspath("small")})
        assert_one_error(r, "small (TMPDIR): it needs 8 MiB there, 2.0 MiB are free (tmpfs)", "export TMPDIR=~/tmp")
        none = "mount -t tmpfs -o nr_inodes=1 tmpfs small && exec \"$@\""
        r = run(["unshare", "-m", "sh", "-c", none, "sh", program(), "launch", FILE, "-n", "2"], code=3, base={**PLAIN_ENV, "TMPDIR": os.path.abspath("small")})
        assert_one_error(r, "No space left on device (no room for more files", "export TMPDIR=~/tmp")
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0:
        r = run(["unshare", "--net", program(), "launch", FILE, "-n", "2"], code=3, base=PLAIN_ENV)
        assert_one_error(r, "no network interface is up on this machine", "ip link set lo up")
    if os.geteuid() == 0:  # whom that limit does not bind
        os.makedirs("free", mode=0o777)
        os.chmod("free", 0o777)
        shutil.copy(program(), "free/shoal")
        r = run(["setpriv", "--reuid=64321", "--regid=64321", "--clear-groups", "bash", "-c", 'ulimit -u 8 && exec "$@"', "bash",
                 "free/shoal", "launch", FILE, "-n", "2", *sets(run__dir="free/runs")], code=None, base=PLAIN_ENV)
        assert r.returncode not in (0, 75) and r.stderr.count("this user may have 8 processes and threads in all (ulimit -u)") == 1, said(r)
    os.mkdir("gone")
    r = run(["sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "sh", program(), "launch", os.path.abspath(FILE), "-n", "2"], code=7)
    assert_one_error(r, "the working folder was removed: cd to another one")
    os.mkdir("bin")
    with open("bin/mpirun", "w") as f:
        f.write("#!/bin/sh\necho HYDRA build details:\n")
    os.chmod("bin/mpirun", 0o755)
    r = start("none", FILE, "-n", 2, code=3, env={"PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}"})
    assert_one_error(r, "not Open MPI's", "HYDRA")
    assert not os.path.exists("runs"), "something was started"
    r = start("nan", FILE, "-n", 2, "--allow-faults", *sets(fault__nan_step=3), code=6)
    assert "mpirun" not in r.stderr, f"Open MPI says something: {said(r)}"
    assert status("nan")["exit_code"] == 6


SLOW = ["--allow-faults", *sets(fault__compute="sleep:30", run__log_every="1 steps")]


def begin(name, *args):
    """In the background, until it trains."""
    with open(f"{name}.out", "w") as out:
        job = subprocess.Popen([program(), "launch", FILE, *map(str, args), *SLOW, *sets(run__name=name)], env=PLAIN_ENV, stdout=out,
                               stderr=out)
    wait_until("the first steps", lambda: "step 2: loss" in log(name))
    return job


def test_launch_stops(run_file):
    """TERM and Ctrl-C to the process end with a checkpoint and 75, with mpirun, too, and the same command goes on; when the process is
    killed, the run stops by itself."""
    start("whole", FILE, "-n", 2)
    for name, ranks, how in (("term", 2, signal.SIGTERM), ("interrupt", 2, signal.SIGINT), ("plain", 1, signal.SIGTERM)):
        job = begin(name, "-n", ranks)
        try:
            if ranks == 1:
                assert read(f"/proc/{job.pid}/cmdline").split("\0")[1] == "train", "a wrapper stays"
            job.send_signal(how)
            assert job.wait(60) == 75, read(f"{name}.out")
        finally:
            kill_all(job)
        assert status(name)["state"] == "stopped" and status(name)["step"] < 26, status(name)
        assert "Open MPI" not in read(f"{name}.out").split("\n", 1)[1], read(f"{name}.out")
    start("term", FILE, "-n", 2)
    assert_equal(newest("whole"), newest("term"), "stopped by TERM and started again")
    job = begin("lost", "-n", 2)
    os.kill(places("lost")[0]["pid"], signal.SIGKILL)  # mpirun then sends TERM to rank 1, which nobody has asked to stop
    try:
        assert job.wait(60) == 137
    finally:
        kill_all(job)
    assert re.search(r"rank 0 \(\S+, process \d+\) was ended by signal 9, Killed: nothing was saved yet, the same command", read("lost.out"))
    assert status("lost")["state"] == "failed" and status("lost")["reason"].startswith("rank 0 ("), status("lost")
    assert status("lost")["progress"]["loss"], "rank 1 has the last word, and a loss of its own"
    job = begin("killed", "-n", 2)
    job.kill()
    job.wait()
    wait_until("the stop", lambda: json.loads(read("runs/killed/status.json") or "{}").get("state") == "stopped")


def stand_in(text):
    """A folder for PATH whose mpirun is this shell script; $real is the other one."""
    real = shutil.which("mpirun")
    os.makedirs("stand-in", exist_ok=True)
    with open("stand-in/mpirun", "w") as f:
        f.write(f'#!/bin/bash\nreal={real}\n[ "$1" = --version ] && exec $real --version\n{text}')
    os.chmod("stand-in/mpirun", 0o755)
    return {**PLAIN_ENV, "PATH": f"{os.getcwd()}/stand-in:{os.environ['PATH']}"}


def begin_by(name, text):
    return subprocess.Popen([program(), "launch", FILE, "-n", "2", *SLOW, *sets(run__name=name, run__epochs=200)], env=stand_in(text),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_launch_first_moments(run_file):
    """A signal that the launcher loses, because there is no rank yet, comes again; of a run that has stopped the code is 75, whatever
    the launcher's is; a launcher that was killed is named, and no rank.  One that is held back while a program becomes another is heard."""
    def hold():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)

    r = subprocess.run([program(), "launch", FILE, *SLOW, *sets(run__name="held")], env=PLAIN_ENV, preexec_fn=hold, capture_output=True,
                       text=True)
    assert r.returncode == 75, said(r)
    r = subprocess.run([program(), "launch", FILE, *sets(run__name="limited", run__epochs=1000000)], env=PLAIN_ENV, capture_output=True,
                       text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (2, 60)))
    assert r.returncode == 75 and "processor time is limited here (ulimit -t)" in r.stdout, said(r)

    job = begin_by("lost", "trap 'touch lost' USR1\ntouch ready\nwhile [ ! -e lost ]; do sleep 0.05; done\ntrap - USR1\nexec $real \"$@\"\n")
    try:
        wait_until("the launcher", lambda: os.path.exists("ready"))
        job.send_signal(signal.SIGTERM)
        assert job.wait(60) == 75, job.stdout.read()
        assert os.path.exists("lost")
    finally:
        kill_all(job)
    traps = "trap 'echo ONE >>got' USR1\ntrap 'echo TERM >>got; exit 1' TERM\ntouch begun\nwhile :; do sleep 0.05; done\n"
    job = begin_by("escalates", traps)  # as LSF ends a job: INT, TERM, and KILL after that
    try:
        wait_until("the launcher", lambda: os.path.exists("begun"))
        job.send_signal(signal.SIGINT)
        wait_until("the stop", lambda: os.path.exists("got"))
        time.sleep(3.1)
        job.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert "TERM" not in read("got")
        job.send_signal(signal.SIGINT)  # that is insisting
        assert job.wait(60) == 130 and read("got").endswith("TERM\n"), read("got")
    finally:
        kill_all(job)
    job = begin_by("odd", "trap 'kill -USR1 $pid' USR1\n$real \"$@\" & pid=$!\nwhile kill -0 $pid; do wait $pid; done 2>/dev/null\nexit 1\n")
    try:
        wait_until("the first steps", lambda: "checkpoint: kill" in log("odd"))
        job.send_signal(signal.SIGINT)
        assert job.wait(60) == 75, job.stdout.read()
        assert status("odd")["state"] == "stopped"
    finally:
        kill_all(job)
    job = begin_by("all", "mkdir runs/all; echo '{\"state\": \"stopping\"}' >runs/all/status.json; trap 'exit 1' USR1; >all.begun\n"
                          "while :; do sleep 0.1; done 2>/dev/null\n")  # mpirun had TERM, too, as by PBS's qdel
    try:
        wait_until("the stand-in", lambda: os.path.exists("all.begun"))
        job.send_signal(signal.SIGTERM)
        assert job.wait(60) == 1
        assert "ended the ranks before the checkpoint of the stop was there" in (told := job.stdout.read()) and "nothing was saved yet" in told, told
    finally:
        kill_all(job)
    job = begin_by("orphans", "exec $real \"$@\"\n")
    try:
        wait_until("the first steps", lambda: "checkpoint: kill" in log("orphans"))
        children = read(f"/proc/{job.pid}/task/{job.pid}/children").split()  # one passes on the output
        os.kill(next(int(child) for child in children if read(f"/proc/{child}/comm") in ("mpirun\n", "prterun\n")), signal.SIGKILL)
        assert job.wait(60) == 137
        assert "warning: mpirun was ended by signal 9, Killed, and its ranks with it" in job.stdout.read()
    finally:
        kill_all(job)


@pytest.mark.parametrize("ranks", (1, 2))
def test_launch_unread(run_file, ranks):
    """The reader of the output goes away, before the launcher prints and after: the run goes on to its end."""
    for name, reader in (("true", "true"), ("head", "head -n 1")):
        r = run(["bash", "-c", f'"$@" 2>&1 | {reader}; exit ${{PIPESTATUS[0]}}', "bash", program(), "launch", FILE, "-n", str(ranks),
                 *sets(run__name=name)], base=PLAIN_ENV)
        assert status(name)["state"] == "done" and "epoch 2 done" in log(name), said(r)
        assert "stop" not in log(name).replace("to stop with a checkpoint", ""), log(name)
