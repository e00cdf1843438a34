"""Disks that are full, or too small, and files above the limit of their size: told in one line with path, needed and free; older
files are intact, partial ones gone."""
import fcntl
import filecmp
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time

import h5py
import numpy as np
import pytest

import harness
import launch
from harness import MLP, built, checkpoints, log, newest, program, read, run, said, sets, shoal, status, train, wait_for, wait_until

# 8 steps per epoch on 2 ranks; a checkpoint is 0.9 MB
BASE = [*MLP, *sets(model__widths="[128,64]", data__batch=16, run__epochs=3, eval__every="never", trace__level="off")]
SLOW = ["--allow-faults", *sets(fault__compute="sleep:100")]


def limited(kib):
    """For subprocess: no file larger than this."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kib << 10, kib << 10))}


def temporary(folder):
    return [f for _, _, files in os.walk(folder) for f in files if ".tmp-" in f]


def test_disk_limit_at_start(glyphs):
    """A limit of file sizes below one checkpoint refuses the run, before anything is written."""
    glyphs(256, 64)
    r = train(1, "r", *BASE, code=7, **limited(256))
    assert "a checkpoint needs" in r.stderr and "a file may have 256 KiB at most (ulimit -f)" in r.stderr, said(r)
    assert not os.path.exists("runs/r"), os.listdir("runs/r")


@pytest.mark.parametrize("verb", ("synth", "train", "shards", "rows"))
def test_disk_limit(glyphs, verb):
    """SIGXFSZ ends nothing: a file above the limit is an error like a full disk's."""
    if verb == "synth":
        r = shoal("data", "synth", "glyphs", "-o", "big.h5", "--train", 4000, code=7, **limited(500))
        assert "cannot write big.h5: 6000 samples take 4.5 MiB, a file may have 500 KiB at most (ulimit -f)" in r.stderr, said(r)
        assert os.listdir(".") == [], os.listdir(".")
        return
    glyphs(256, 64)
    if verb == "shards":  # what counts is each file, not all together
        args = [*BASE, *sets(run__name="r", run__epochs=1, model__widths="[800]", method__name="swarm", ckpt__gather=0, ckpt__every="4 steps", ckpt__keep=2)]

        def shards(kib, code):
            shell = 'ulimit -f "$0"; exec "$@"'  # mpirun does not start under such a limit
            return run([*launch.mpirun(2), "bash", "-c", shell, kib, program(), "train", *args], code=code)
        r = shards(500, 7)
        assert r.stderr.count("File too large (it counts as a file: raise ulimit -f)") == 1, said(r)
        r = shards(6000, 7)
        assert "MiB in up to 2 files, but a file may have 5.9 MiB at most (ulimit -f)" in r.stderr and not os.path.exists("runs/r"), said(r)
        shards(15000, 0)
        kept = sorted(os.listdir("runs/r/ckpt"))
        assert [f for f in kept if ".shard-" in f] and sum(os.stat(f"runs/r/ckpt/{f}").st_size for f in kept) > 2 * 15000 << 10, kept
        args += sets(run__epochs=2)
        r = shards(11776, 7)
        assert "with its shards: a file may have 11.5 MiB at most (ulimit -f)" in r.stderr, said(r)
        assert re.search(r"cannot write .* runs/r/ckpt/step-\S+: File too large \(at most 11.5 MiB: ulimit -f\)", r.stderr), said(r)
        assert sorted(os.listdir("runs/r/ckpt")) == kept and not temporary("runs"), os.listdir("runs/r/ckpt")
        shoal("ckpt", "verify", newest("r"))
        return
    if verb == "rows":
        args = [*BASE, *sets(model__widths="[4]", run__log_every="1000 steps", eval__every="1 steps", run__epochs=60, ckpt__every="100 steps")]
        train(1, "whole", *args)
        r = train(1, "r", *args, code=7, **limited(48))
        assert re.search(r"error: cannot write runs/r/metrics.csv: File too large \(at most 48.0 KiB: ulimit -f\); \d+ rows are missing", r.stderr), said(r)
        assert r.stderr.count("metrics.csv") == 2, said(r)  # the warning before it
        shoal("ckpt", "verify", newest("r"))
        train(1, "r", *args)
        assert harness.rows("r") == harness.rows("whole")
        return
    # the trace of every span exceeds it, the checkpoint does not
    args = [*BASE, *sets(trace__level="op", run__epochs=60, data__batch=2)]
    r = train(1, "r", *args, **limited(1800))  # mpirun does not start under such a limit
    assert r.stderr.count("the trace ends here, training goes on") == 1 and "ulimit -f" in r.stderr, said(r)
    assert status("r")["state"] == "done"
    shoal("ckpt", "verify", newest("r"))
    train(1, "r", *args, *sets(run__epochs=61, trace__level="step"))
    shown = shoal("trace", "show", "runs/r").stdout
    assert "not written to its end" in shown, shown
    os.makedirs("runs/l")
    with open("runs/l/log.txt", "w") as f:
        f.write("old\n" * (1800 << 8))  # as much as a file may have
    r = train(1, "l", *BASE, **limited(1800))
    assert r.stderr.count("cannot write runs/l/log.txt: File too large (at most 1.8 MiB: ulimit -f); lines may be missing there, this run goes on") == 1, said(r)
    assert r.stderr.count("warning") == 1 and status("l")["state"] == "done", said(r)


def test_disk_small(glyphs, disk):
    """Too small for ckpt.keep and one more: a warning with the numbers; too small for one: refused."""
    glyphs(256, 64)
    args = [*BASE, *sets(run__dir=disk, ckpt__keep=9)]
    r = train(2, "r", *args)
    assert "10 more checkpoints of about" in r.stderr and "free on tmpfs" in r.stderr, said(r)
    disk.fill(leave=500 << 10)
    r = train(2, "r", *args, *sets(run__epochs=4), code=7)
    assert "a checkpoint needs" in r.stderr and "free (tmpfs)" in r.stderr, said(r)
    assert "more checkpoints" not in r.stderr
    r = train(2, "s", *args, code=7)
    assert not os.path.exists(f"{disk}/s"), os.listdir(f"{disk}/s")


def test_disk_quota(glyphs):
    """A quota of the user counts like the disk: too little for a checkpoint is told before the training, reached while writing it
    has its own words.  Nobody asks where there is none, and root has none.  A folder for data.stage that is another user's."""
    glyphs(256, 64)
    os.mkdir("runs", 0o777)
    os.chmod("runs", 0o777)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    for file in (program(), built("libquota.so")):  # the build may be in a folder of root's own
        shutil.copy(file, ".")

    def quota(code, *more, env, **who):
        return run(["./shoal", "train", *BASE, *sets(run__name="r"), *more], code=code,
                   env={"LD_PRELOAD": os.path.abspath("libquota.so"), **env}, **who)
    r = quota(7, env={"QUOTA_LEFT_KIB": "300"}, **nobody)
    assert "a checkpoint needs" in r.stderr and "is 300 KiB free (" in r.stderr and ", this user's quota)" in r.stderr, said(r)
    assert os.listdir("runs") == [], os.listdir("runs")
    r = quota(7, env={"QUOTA_FULL": "1"}, **nobody)
    assert "Disk quota exceeded (" in r.stderr and "but not for this user, group or project: see `quota -s`" in r.stderr, said(r)
    r = quota(7, env={"QUOTA_FULL": "1", "QUOTA_LEFT_KIB": "90000"}, **nobody)
    assert re.search(r"Disk quota exceeded \(87.9 MiB free on \S+ by this user's quota\)", r.stderr), said(r)
    r = quota(7, env={"QUOTA_FULL": "1", "QUOTA_LEFT_KIB": "90000", "QUOTA_FILES": "1234"}, **nobody)
    assert re.search(r"no room for more files on \S+: the 1234 inodes of this user's quota are used; 87.9 MiB free\)", r.stderr), said(r)
    assert not temporary("runs")
    quota(0, env={"QUOTA_LEFT_KIB": "20000"}, **nobody)
    os.mkdir("stage", 0o555)
    r = quota(7, *sets(data__stage="stage/deep", run__name="s"), env={}, **nobody)
    words = f"`chmod {'1777 stage` by its owner' if nobody else 'u.rwx stage`'} lets you in"
    assert re.search(rf"data.stage: cannot make the folder stage/deep: Permission denied \(stage belongs to .*user {os.geteuid()}, with mode 555\) "
                     rf"\(host \S+\): {words}, or give another folder", r.stderr), said(r)
    if os.geteuid() == 0:
        quota(0, *sets(run__name="root"), env={"QUOTA_LEFT_KIB": "1"})


def test_disk_odd(glyphs):
    """File systems of a network and of FUSE: no fsync, no numbers of what is free, a checkpoint that cannot be removed, a quota that
    only one of the files meets.  What ends a run is told with the file's final name, and status.json has the truth."""
    glyphs(256, 64)
    args = [*BASE, *sets(ckpt__every="8 steps", ckpt__keep=1, data__batch=32, trace__level="op")]

    def odd(name, rules, code=0):
        r = run([program(), "train", *args, *sets(run__name=name)], code=code, env={"LD_PRELOAD": built("liboddfs.so"), "ODDFS": rules})
        assert status(name)["exit_code"] == code and status(name)["state"] == ("failed" if code else "done"), status(name)
        return r.stderr

    assert odd("fuse", "fsync:22:runs/:0 blocks:1:runs:0") == ""
    text = odd("kept", "unlink:16:ckpt/step-:0")
    assert text.count("\n") == 1 and "step-000000008.h5: Device or resource busy; more checkpoints than ckpt.keep stay, training goes on" in text, text
    assert len(checkpoints("kept")) == 3, checkpoints("kept")
    quota = r"Disk quota exceeded \(.* but not for this user, group or project: see `quota -s`\)"
    text = odd("trace", "write:122:/trace/attempt:0")
    assert re.fullmatch(rf"shoal: warning: cannot create runs/trace/trace/attempt-0001-node-00000.h5: {quota}; the trace ends here, training goes on\n", text), text
    text = odd("word", "create:122:.status.json:2")  # the last word has room in the old file
    assert re.fullmatch(rf"shoal: warning: status.json is not up to date, training goes on: cannot create runs/word/status.json: {quota}\n", text), text
    assert status("word")["step"] == 24, status("word")
    text = odd("save", "blocks:1:runs:0 write:122:/ckpt/:0", 7)
    assert "cannot create runs/save/ckpt/step-000000008.h5: Disk quota exceeded (on " in text and "which does not say how much is free)" in text, text
    assert re.search(rf"cannot create runs/rows/metrics.csv: {quota}", odd("rows", "create:122:.metrics.csv:0", 7))
    assert not temporary("runs")


@pytest.mark.parametrize("policy", ("stop", "retry", "signal", "room", "never"))
def test_disk_full(glyphs, disk, jobs, policy):
    """The disk fills up after the first checkpoint: ckpt.failure decides.  With "retry" the last save waits for room: at a stop
    (signal) as at the end (room); without any, another signal, to any rank, ends the wait with 7."""
    glyphs(256, 64)
    args = [*BASE, *sets(run__dir=disk, ckpt__every="4 steps", run__epochs=6, ckpt__keep=100 if policy != "retry" else 1,
                           ckpt__failure="stop" if policy == "stop" else "retry")]
    job = jobs.start(2, "r", *args, *SLOW, *(sets(fault__stop_step=20) if policy == "signal" else []))
    wait_for("r.out", "checkpoint .*step-000000004.h5")
    disk.fill()
    wait_for("r.out", "a checkpoint needs .*, but there is .* free .tmpfs. for .*/r/ckpt/step-")
    if policy == "retry":
        wait_for("r.out", "there is no checkpoint of step 8: training goes on, and the last one is of step 4")
        disk.free()
    elif policy != "stop":
        limit = 60 if policy == "signal" else 600
        wait_for("r.out", rf"is tried again every 5 s until \d\d:\d\d:\d\d, for {limit} s: make room; .* the newest is of step 4")
        before = len(read("r.out"))
        if policy == "never":
            while job.poll() is None:
                time.sleep(0.5)
                for rank, pid in harness.ranks_of(job).items():
                    if rank == 1:
                        harness.send(pid, signal.SIGTERM)
        else:
            disk.free()
    assert job.wait(60) == {"stop": 7, "retry": 0, "signal": 75, "room": 0, "never": 7}[policy], read("r.out")
    kept = sorted(os.listdir(f"{disk}/r/ckpt"))
    assert not temporary(disk)
    assert "step-000000008.h5" not in kept, kept
    for f in kept:
        shoal("ckpt", "verify", f"{disk}/r/ckpt/{f}")
    if policy == "retry":
        assert kept == ["step-000000048.h5"], kept
    elif policy in ("signal", "room"):
        last = 48 if policy == "room" else int(kept[-1][5:14])
        assert kept == ["step-000000004.h5", f"step-{last:09}.h5"] and last > 20, kept
        assert "training goes on" not in read("r.out")[before:], read("r.out")
    else:
        assert kept == ["step-000000004.h5"], kept
        disk.free()
        text = read(f"{disk}/r/status.json")
        assert '"exit_code": 7' in text or "running" in text, text
    if policy == "never":
        assert re.search(r"tried \d+ times in \d+ s", read("r.out")), read("r.out")


def test_disk_inodes(glyphs, disk, jobs):
    """A disk with room for bytes, but not for files, says so, in the run as before it; bytes are not said to be missing."""
    glyphs(256, 64)
    words = r"No space left on device \(no room for more files on tmpfs: all 100 inodes are used, see `df -i`; \S+ MiB free\)"
    args = [*BASE, *sets(run__dir=disk, ckpt__every="4 steps", ckpt__keep=2)]
    subprocess.run(["mount", "-o", "remount,size=8m,nr_inodes=100", disk], check=True)
    disk.use_inodes()
    r = train(2, "r", *args, code=7)
    assert re.search(f"cannot make the folder {disk}/r: {words}", r.stderr), said(r)
    disk.free_inodes()
    assert os.listdir(disk) == [], os.listdir(disk)
    job = jobs.start(2, "r", *args, *SLOW)
    wait_for("r.out", "checkpoint .*step-000000004.h5")
    disk.use_inodes()
    assert job.wait(60) == 7, read("r.out")
    assert re.search(f"cannot create {disk}/r/ckpt/step-000000008.h5: {words}", read("r.out")), read("r.out")
    assert os.listdir(f"{disk}/r/ckpt") == ["step-000000004.h5"] and not temporary(disk), os.listdir(f"{disk}/r/ckpt")
    shoal("ckpt", "verify", f"{disk}/r/ckpt/step-000000004.h5")
    r = train(2, "r", *args, code=7)
    assert re.search(words, r.stderr), said(r)
    disk.free_inodes()
    r = train(2, "r", *args)
    assert f"resumed from {disk}/r/ckpt/step-000000004.h5" in said(r), said(r)


def test_disk_trace(glyphs, disk, jobs):
    """A disk that fills up ends the trace, with one warning for all ranks together, and not the training."""
    glyphs(256, 64)
    args = [*BASE, *sets(run__dir=disk, ckpt__every="never", trace__level="op", run__epochs=20)]
    job = jobs.start(2, "r", *args, *SLOW)
    wait_until("the run", lambda: os.path.exists(f"{disk}/r/metrics.csv"))
    disk.fill()
    wait_for("r.out", "the trace ends here, training goes on")
    disk.free()
    assert job.wait(60) == 0, read("r.out")
    assert read("r.out").count("the trace ends here") == 1, read("r.out")


def test_disk_trace_cut(glyphs):
    """A trace that a full disk cut off at any byte, also within a record: of every rank exactly the records that are there are
    used, and the table names who lacks how many."""
    glyphs(256, 64)
    train(2, "r", *BASE, *sets(ckpt__every="never", trace__level="op", run__epochs=60))
    path = "runs/r/trace/attempt-0001-node-00000.h5"
    with h5py.File(path) as f:
        sets_of = [f[f"rank-{r:05}/records"] for r in range(2)]
        size, rows = sets_of[0].dtype.itemsize, [s[:] for s in sets_of]
        infos = [[s.id.get_chunk_info(i) for i in range(s.id.get_num_chunks())] for s in sets_of]
        ends = []  # of every record, in the file
        for info, records in zip(infos, rows):
            at = {c.chunk_offset[0]: c.byte_offset for c in info}
            each = sets_of[0].chunks[0]
            ends.append(np.array([at[i - i % each] + (i % each + 1) * size for i in range(len(records))]))
    assert min(len(info) for info in infos) > 1, "one chunk only"
    with open(path, "rb") as f:
        whole = f.read()
    some = int(ends[1][len(ends[1]) // 2])  # the end of a record
    first = min(int(e.min()) for e in ends)
    for cut in (some, some + 1, some - 1, some + 30, first + 5 * size + 9, len(whole) - 1):
        with open(path, "wb") as f:
            f.write(whole[:cut])
        r = shoal("trace", "show", "runs/r", "--json")
        shown = {row["rank"]: row for row in json.loads(r.stdout)["ranks"]}
        there = [e <= cut for e in ends]
        for rank in range(2):
            steps = int((rows[rank][there[rank]]["kind"] == harness.STEP).sum())
            assert (shown[rank]["cut"], shown[rank]["steps"]) == (int((~there[rank]).sum()), steps), f"{cut}: {said(r)}"
        assert r.stderr.count(f"{path} is cut off, ") == 1, said(r)
        table = shoal("trace", "show", "runs/r").stdout
        for rank in range(2):
            lost = int((~there[rank]).sum())
            assert (f"rank {rank} lacks {lost} records at its end: its file is cut off" in table) == (lost > 0), table
    with open(path, "wb") as f:
        f.write(whole[:4000])  # within the descriptions of the tables
    r = shoal("trace", "show", "runs/r", code=7)
    assert "is cut off" in r.stderr and "Traceback" not in r.stderr, said(r)


def test_disk_stage(glyphs, disk):
    """data.stage copies a data set to a disk once, with the bits of a run without it; a copy that is damaged or older than its file is
    made anew; a disk without room, and a folder that others may write to, end the start."""
    args = [*MLP, *sets(run__epochs=1, run__steps=2, data__batch=8, trace__level="off")]
    glyphs(256, 64)
    train(2, "plain", *args, "--topo", "2x1")

    def staged(name, *more, copied, code=0):
        r = train(2, name, *args, "--topo", "2x1", *sets(data__stage="$STAGE"), *more, code=code, env={"STAGE": "local"})
        if code == 0:
            found = re.search(rf"disk, local/shoal-{os.geteuid()}: (\S+ \S+) copied, (\S+ \S+) found there, all read back", r.stdout)
            if copied:  # by this pretended node or, just before it, by the other one
                assert sorted(found.groups())[0] == "0 B" and found[1] != found[2], said(r)
            else:
                assert found[1] == "0 B" and found[2] != "0 B", said(r)
            (copy,) = [f for f in os.listdir(folder) if f.endswith(".h5")]
            assert filecmp.cmp(f"{folder}/{copy}", "glyphs.h5", shallow=False) and not temporary("local")
            return f"{folder}/{copy}", os.stat(f"{folder}/{copy}").st_ino
        return r

    folder = f"local/shoal-{os.geteuid()}"
    told = ["no folder new on host" in train(1, name, *args, *sets(data__stage="new")).stdout for name in ("new", "known")]
    assert told == [True, False], told
    copy, first = staged("a", copied=True)
    shoal("ckpt", "diff", newest("plain"), newest("a"))
    with open(f"{folder}/.{os.path.basename(copy)}.tmp-elsewhere-1", "w") as f:
        f.write("of a start that was killed")
    assert staged("b", copied=False) == (copy, first)
    with open(copy, "r+b") as f:  # a bit of the disk
        f.seek(-1000, os.SEEK_END)
        byte = f.read(1)
        f.seek(-1000, os.SEEK_END)
        f.write(bytes([byte[0] ^ 1]))
    staged("c", copied=True)
    os.utime("glyphs.h5", (1, 1))  # another file, as far as can be seen
    os.chmod(copy, 0o600)
    staged("d", copied=True)
    shoal("ckpt", "diff", newest("plain"), newest("d"))
    assert "$STAGE" in read("runs/d/run.yaml")  # a node may have another
    with open(f"{copy}.sum") as note:  # another run is at it, for some seconds
        fcntl.flock(note, fcntl.LOCK_EX)
        threading.Timer(2, lambda: fcntl.flock(note, fcntl.LOCK_UN)).start()
        staged("waits", copied=False)
    assert log("waits").count(f"data.stage: another run on this node copies glyphs.h5 to {folder}, this one waits for it") == 1, log("waits")
    os.chmod(folder, 0o777)
    r = staged("e", copied=False, code=7)
    words = rf"data.stage: {folder} must be a folder of yours .* is a folder of .*user {os.geteuid()}\) with mode 777: `rm -r {folder}`"
    assert len(re.findall(words, r.stderr)) == 1, said(r)
    disk.fill(leave=100 << 10)
    r = train(2, "f", *args, *sets(data__stage=disk), code=7)
    assert re.search(r"data.stage: glyphs.h5 has \S+ KiB and \S+ has only \S+ KiB left \(tmpfs\)", r.stderr), said(r)
    assert not [f for f in os.listdir(f"{disk}/shoal-{os.geteuid()}") if f.endswith(".h5")]


def test_disk_full_writers(glyphs, disk):
    """What is written after a long read or a forward pass says before it what it needs and what is free; nothing is left, an older
    file stays."""
    glyphs(4096, 64)
    train(1, "r", *MLP, *sets(model__widths="[512,512]", run__steps=1, data__batch=16, trace__level="off"))
    out = f"{disk}/out"
    os.mkdir(out)
    disk.fill(leave=100 << 10)
    for name, what, args in (("set.h5", "4160 samples", ("data", "repack", "glyphs.h5")), ("p.h5", "the predictions", ("predict", "runs/r", "glyphs.h5", "--split", "train")),
                             ("p.csv", "the predictions", ("predict", "runs/r", "glyphs.h5", "--split", "train")),
                             ("w.h5", "the weights", ("ckpt", "export", newest("r")))):
        if name != "w.h5":
            with open(f"{out}/{name}", "w") as f:
                f.write("older")
        r = shoal(*args, "-o", f"{out}/{name}", code=7)
        assert re.search(rf"cannot write \S+/{name}: {what} take [\d.]+ [KM]iB, [\d.]+ KiB are free on tmpfs; make room", r.stderr), said(r)
        if name != "w.h5":
            assert read(f"{out}/{name}") == "older"
    assert sorted(os.listdir(out)) == ["p.csv", "p.h5", "set.h5"], os.listdir(out)
    r = shoal("predict", "runs/r", "glyphs.h5", "-o", "none/p.csv", code=7)
    assert "cannot write none/p.csv: its folder does not exist" in r.stderr and "accuracy" not in r.stdout, said(r)
