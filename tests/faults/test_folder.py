"""What a run folder tells after disturbances: metrics.csv as exact as the weights, and attempts that count."""
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from harness import (METHODS, MLP, assert_equal, assert_one_error, checkpoints, log, metrics, newest, program, ranks_of, read, rows, run,
                     said, sampled, sets, shoal, status, train, train_command, train_through, wait_for, wait_until)

# 8 steps per epoch on 2 ranks
BASE = [*MLP, *sets(data__batch=16, run__epochs=3, eval__every="4 steps", ckpt__every="3 steps", ckpt__keep=100)]


def stop(name, step, *args, code=75):
    train(2, name, *args, "--allow-faults", *sets(fault__stop_step=step), code=code)


@pytest.mark.parametrize("method", sampled(METHODS, 4))
def test_folder_rows(glyphs, method):
    """Stops where an evaluation is due, on an epoch's last step, and between; killed after a checkpoint: the same rows."""
    glyphs(256, 64)
    args = [*BASE, *METHODS[method], *sets(method__name=method)]
    train(2, "whole", *args)
    keys = [(m["step"], m["epoch"]) for m in metrics("whole")]
    assert len(keys) == len(set(keys)), f"a row twice: {keys}"
    if method != "swarm":  # whose ranks have steps of their own
        assert [int(s) for s, _ in keys] == [4, 8, 12, 16, 20, 24], keys
        assert [float(e) for _, e in keys] == [0.5, 1, 1.5, 2, 2.5, 3], keys
    for step in (3, 6, 10, 14):
        stop("torn", step, *args)
    train(2, "torn", *args)
    assert rows("torn") == rows("whole")
    assert_equal(newest("torn"), newest("whole"), method)
    train(2, "torn", *args)
    assert rows("torn") == rows("whole"), "an ended run that is started again adds a row"
    train(2, "killed", *args, "--allow-faults", *sets(fault__kill_step=17, fault__rank=1), code=None)
    assert len(metrics("killed")) >= 4, "the killed run was to write rows after its last checkpoint"
    train(2, "killed", *args)
    assert rows("killed") == rows("whole")


def test_folder_rows_in_mid_epoch(glyphs):
    """A run of so many steps, ended in mid-epoch and started again; with more steps, it goes on without its last row.  At step 12 a
    checkpoint is due, too: the last one knows of the last row."""
    glyphs(256, 64)
    for steps, expected in ((10, [4, 8, 10]), (12, [4, 8, 10, 12])):
        train(2, "r", *BASE, *sets(run__steps=steps))
        assert [int(m["step"]) for m in metrics("r")] == expected, f"{steps} steps"
        saved = re.findall(r"checkpoint \S+step-0*(\d+).h5, \S+ s(.*)", log("r").split("=== attempt ")[-1])
        last = [tail for step, tail in saved if int(step) == steps]
        assert last == ([""] if steps == 10 else ["", "; it replaces the one before this step's evaluation"]), saved
        before, traces = read("runs/r/metrics.csv"), os.listdir("runs/r/trace")
        train(2, "r", *BASE, *sets(run__steps=steps + 2, data__file="away.h5"), code=7)
        assert os.listdir("runs/r/trace") == traces, "a start that is refused leaves a trace"
        train(2, "r", *BASE, *sets(run__steps=steps))
        assert read("runs/r/metrics.csv") == before, f"an ended run of {steps} steps writes its last row again"
    rate = [m["lr"] for m in metrics("r")]
    assert len(set(rate)) == 1, rate


def test_folder_rows_edited(glyphs):
    """metrics.csv that an editor gave other ends of lines goes on; as a spreadsheet writes it, it is kept beside, with a warning."""
    glyphs(64)
    args = [*MLP, *sets(data__batch=16)]
    for epochs in (1, 2, 3):
        r = train(1, "r", *args, *sets(run__epochs=epochs))
        with open("runs/r/metrics.csv", newline="") as f:
            text = f.read()
        assert text.count("\r") == 0 and text.splitlines()[0].count("step") == 1, text
        assert [m["epoch"] for m in metrics("r")] == (["1", "2", "3"][:epochs] if epochs < 3 else ["3"]), text
        edited = text.replace("\n", "\r\n") if epochs == 1 else text.replace(",", ";")
        assert r.stderr.count("has no column named step") == (epochs == 3), said(r)
        if epochs < 3:
            with open("runs/r/metrics.csv", "w", newline="") as f:
                f.write(edited)
    assert read("runs/r/metrics.csv.changed").count(";") > 20, os.listdir("runs/r")


def test_folder_attempts(glyphs):
    """Attempts are numbered by what is left of them: status.json gone or of an earlier one, a log without an end, whose last line
    the next attempt does not go on with."""
    glyphs(256, 64)
    stop("r", 2, *BASE)
    stop("r", 5, *BASE)
    os.remove("runs/r/status.json")
    with open("runs/r/log.txt", "a") as f:
        f.write("epoch 1 ste")
    stop("r", 8, *BASE)
    assert status("r")["attempt"] == 3 and "\n=== attempt 3" in log("r"), log("r")
    # A start that is refused is no attempt: its lines stay, under another heading, and the next one has its number.
    width = len(re.search("^=== attempt 3.*$", log("r"), re.M)[0]) - 1
    for number in (4, 10):
        with open("runs/r/status.json") as f:
            old = {**json.load(f), "attempt": number - 1}
        with open("runs/r/status.json", "w") as f:
            json.dump(old, f)
        before = log("r")
        r = run([program(), "train", *BASE, *sets(run__name="r", run__seed=99)], code=2)
        told = log("r").removeprefix(before)
        assert told.startswith("=== not begun,") and len(told.splitlines()[0]) == width + len(str(number)), (told, r.stdout)
        assert "run.seed is 99 but the checkpoint was trained with" in told and f"=== attempt {number}" not in log("r"), told
        assert not glob.glob(f"runs/r/trace/attempt-{number:04}-*")
    with open("runs/r/status.json", "w") as f:
        json.dump({**old, "attempt": 3}, f)
    os.remove("runs/r/log.txt")
    stop("r", 11, *BASE)
    assert status("r")["attempt"] == 4, log("r")


@pytest.mark.parametrize("for_good", (False, True))
def test_folder_full_disk(glyphs, disk, jobs, for_good):
    """Rows that the disk has no room for are told of, and written when it has; if it never has, that is an error."""
    glyphs(256, 64)
    args = [*BASE, *sets(run__dir=disk, ckpt__every="1000 steps", eval__every="1 step", trace__level="off",
                           run__epochs=10), "--allow-faults", *sets(fault__compute="sleep:30")]  # 160 rows, more than a page
    job = jobs.start(1, "r", *args)
    wait_until("the first row", lambda: read(f"{disk}/r/metrics.csv").count("\n") > 1)
    disk.fill()
    wait_for("r.out", "cannot write a row of .*metrics.csv: No space left on device .0 B free on tmpfs.; it is tried again later")
    if not for_good:
        disk.free()
    code = job.wait()
    assert read("r.out").count("cannot write a row") == 1, read("r.out")
    if for_good:
        assert code == 7, read("r.out")
        assert "No space left on device" in read("r.out").splitlines()[-1], read("r.out")
    else:
        assert code == 0, read("r.out")
        lines = read(f"{disk}/r/metrics.csv").splitlines()
        assert [int(line.split(",")[1]) for line in lines[1:]] == list(range(1, 161)), lines


@pytest.mark.parametrize("method", ("sync", "local-sgd", "ist"))
def test_folder_best(glyphs, method):
    """The checkpoint of the best evaluation stays beside the newest, through stops and branches; after so many worse ones the run
    ends, and more patience goes on."""
    glyphs(256, 64)
    args = [*BASE, *METHODS[method], *sets(method__name=method, ckpt__best="test_acc", ckpt__keep=1, ckpt__every="1000 steps",
                                           run__epochs=6, optim__lr=0.3)]
    train(2, "r", *args)
    accuracy = {int(m["step"]): float(m["test_acc"]) for m in metrics("r")}
    best = max(accuracy, key=lambda step: (accuracy[step], -step))
    assert os.listdir("runs/r/ckpt/best") == [f"step-{best:09}.h5"], accuracy
    shoal("ckpt", "verify", f"runs/r/ckpt/best/step-{best:09}.h5")
    for step in (5, 9, 21):
        stop("s", step, *args)
    train(2, "s", *args)
    assert os.listdir("runs/s/ckpt/best") == [f"step-{best:09}.h5"], accuracy
    assert_equal(f"runs/s/ckpt/best/step-{best:09}.h5", f"runs/r/ckpt/best/step-{best:09}.h5", "stopped runs")
    early = [*args, *sets(eval__patience=2, ckpt__every="4 steps")]  # which is saved before the evaluation that ends the run
    r = train(2, "p", *early)
    end, top, worse = max(accuracy), -1, 0
    for step in sorted(accuracy):
        top, worse = (accuracy[step], 0) if accuracy[step] > top else (top, worse + 1)
        if worse == 2:
            end = step
            break
    assert int(metrics("p")[-1]["step"]) == end, accuracy
    assert ("has not improved in 2 evaluations" in r.stdout) == (worse == 2), r.stdout
    assert status("p")["progress"]["left_s"] == 0, status("p")
    before = read("runs/p/metrics.csv")
    train(2, "p", *early)
    assert read("runs/p/metrics.csv") == before, "a run that ended early trains on, or writes its last row again"
    train(2, "p", *args, *sets(eval__patience=100))
    assert int(metrics("p")[-1]["step"]) == max(accuracy), "more patience does not go on"
    assert status("p")["state"] == "done"


def test_folder_best_branch(glyphs):
    """Back to a step before the best one: that is of another branch."""
    glyphs(256, 64)
    args = [*BASE, *sets(ckpt__best="test_loss", run__epochs=2)]
    train(2, "r", *args)
    assert os.listdir("runs/r/ckpt/best") == ["step-000000016.h5"], os.listdir("runs/r/ckpt/best")
    r = train(2, "r", *args, *sets(model__widths="[8]"), code=2)  # another model in the same folder
    assert_one_error(r, "holds the weights of another mlp: fc1.weight", "(model.widths is [8] and was [64, 32])", "--set run.name=r-2")
    train(2, "r", *args, *sets(run__steps=8), "--resume", "runs/r/ckpt/step-000000006.h5")
    assert os.listdir("runs/r/ckpt/best") == ["step-000000008.h5"], os.listdir("runs/r/ckpt/best")
    assert "step-000000016.h5" in os.listdir("runs/r/ckpt/before-attempt-2")
    train(1, "r", *args, "--allow-faults", *sets(fault__stop_step=9), code=75)
    shutil.rmtree("runs/r/ckpt/best")  # by hand
    r = train(1, "r", *args)
    said = "the best checkpoint, of step 8 in runs/r/ckpt/best, is not there any more: the next evaluation counts as the best\n"
    assert r.stderr.count(said) == 1, r.stderr
    best, = os.listdir("runs/r/ckpt/best")
    with open(f"runs/r/ckpt/best/{best}", "w"):
        pass
    r = train(1, "r", *args, *sets(run__epochs=3, optim__lr=1e-6))
    assert r.stderr.count("in runs/r/ckpt/best, ") == r.stderr.count("the next evaluation counts as the best\n") == 1, r.stderr
    for name in os.listdir("runs/r/ckpt/best"):
        shoal("ckpt", "verify", f"runs/r/ckpt/best/{name}")


def test_folder_repeated(glyphs):
    """The same command with --resume FILE, killed before and after the run's own first checkpoint, goes on from that; only a file
    of the folder itself, or one that the run did not begin from, is a branch."""
    glyphs(256, 64)
    train(2, "a", *BASE, *sets(run__epochs=1))
    os.rename(newest("a"), "a.h5")
    args = [*BASE, *sets(run__epochs=2, ckpt__every="4 steps"), "--resume", "a.h5"]
    train(2, "whole", *args)
    for step, source in ((10, "a.h5"), (14, "a.h5")):
        r = train(2, "r", *args, "--allow-faults", *sets(fault__kill_step=step, fault__rank=1), code=None)
        assert f"resumed from {source}: " in r.stdout and "began from" not in r.stdout, r.stdout
    assert [c[-5:-3] for c in checkpoints("r")] == ["12"]
    os.mkdir("elsewhere")
    shutil.copy("a.h5", "elsewhere/b.h5")
    r = train(2, "r", *args[:-1], "elsewhere/b.h5")  # the same file, wherever it lies
    assert "resumed from runs/r/ckpt/step-000000012.h5: " in r.stdout, r.stdout
    [line] = [line for line in r.stdout.splitlines() if "runs/r began from elsewhere/b.h5 and goes on from its own step 12;" in line]
    assert "--set run.name=NAME" in line and "mv runs/r runs/r-1" in line, line
    assert [c[-5:-3] for c in checkpoints("r")] == ["12", "16"] and len(os.listdir("runs/r/ckpt")) == 2, os.listdir("runs/r/ckpt")
    assert rows("r") == rows("whole")
    assert_equal(newest("r"), newest("whole"), "repeated")

    def branches(attempt, file, whose, first):
        r = train(2, "r", *args[:-1], file)
        words = f"of {whose} (is|are) set aside in runs/r/ckpt/before-attempt-{attempt}: from here on this run is another branch"
        assert re.search(words, r.stdout), r.stdout
        assert f"resumed from {file}: " in r.stdout, r.stdout
        assert [c[-5:-3] for c in checkpoints("r")] == first, os.listdir("runs/r/ckpt")
        assert_equal(newest("r"), newest("whole"), file)

    branches(4, "runs/r/ckpt/step-000000012.h5", "later steps", ["12", "16"])
    for attempt in (5, 6):
        branches(attempt, "runs/r/ckpt/before-attempt-4/step-000000016.h5", "this folder's own steps", ["16"])
    branches(7, "a.h5", "this folder's own steps", ["12", "16"])  # what is there began from another


def test_folder_anew(glyphs):
    """--resume never beside checkpoints: the refusal says what to type, and that works.  Where only the checkpoints were moved, the
    rows of the run that saved them are kept; those of a run that was killed before its first one come again."""
    glyphs(256, 64)
    train(1, "r", *BASE)
    before = read("runs/r/metrics.csv")
    os.mkdir("runs/r-1")
    r = train(1, "r", *BASE, "--resume", "never", code=2)
    assert_one_error(r, "runs/r holds checkpoints", "goes on from step 48", "--set run.name=NAME", "mv runs/r runs/r-2")
    assert read("runs/r/metrics.csv") == before and os.path.basename(newest("r")) == "step-000000048.h5"
    os.rename("runs/r/ckpt", "moved")
    r = train(1, "r", *BASE, "--resume", "never", *sets(run__epochs=1))
    kept = "runs/r/ckpt/before-attempt-2/metrics.csv"
    assert r.stdout.count(f"runs/r/metrics.csv has 12 rows of a run whose checkpoints are gone: set aside in {kept}\n") == 1, r.stdout
    assert read(kept) == before
    assert [int(m["step"]) for m in metrics("r")] == [4, 8, 12, 16]
    refused = train(1, "r", *BASE, "--resume", "never", code=2).stderr
    run(["sh", "-c", refused[refused.index("mv "):]])
    r = train(1, "r", *BASE, "--resume", "never", "--allow-faults", *sets(fault__kill_step=6, ckpt__every="1000 steps"), code=None)
    assert len(metrics("r")) == 1
    r = train(1, "r", *BASE, *sets(run__epochs=1))
    assert "set aside" not in r.stdout and not any("before" in f for f in os.listdir("runs/r/ckpt")), r.stdout
    assert [int(m["step"]) for m in metrics("r")] == [4, 8, 12, 16]


@pytest.mark.parametrize("left, whole", (("status.json", False), ("metrics.csv", False), ("", True)))
def test_folder_emptied(glyphs, left, whole):
    """All checkpoints are gone, or all files but metrics.csv, or all: the start says that there is none and where it begins, and
    keeps the rows that are left.  A new folder, and a run that goes on, need no such word."""
    glyphs(64)
    args = [*MLP, *sets(run__epochs=1, data__batch=16)]
    assert "no checkpoint" not in train(1, "r", *args).stdout
    before = read("runs/r/metrics.csv")
    for folder, _, names in os.walk("runs/r"):
        for name in names:
            if folder.endswith("ckpt") or left not in ("status.json", name):
                os.remove(os.path.join(folder, name))
    r = train(1, "r", *args)
    begins = "no checkpoint is left in runs/r/ckpt, where an earlier attempt had saved: the run begins anew, at step 0" \
        if left == "status.json" else "no checkpoint was found in runs/r/ckpt: the run begins at step 0"
    assert (r.stdout + r.stderr).count(begins) == 1 and log("r").count(begins) == 1, said(r)
    kept = [os.path.join(f, n) for f, _, names in os.walk("runs/r/ckpt") for n in names if n == "metrics.csv"]
    assert [read(k) for k in kept] == ([] if whole else [before]), kept
    assert "no checkpoint" not in train(1, "r", *args).stdout


def test_folder_killed(glyphs):
    """Rank 0 is killed: another rank says so in status.json if mpirun leaves it the time, and where there is none it still says running.
    The next start then says that it did not end by itself, and where the kernel counts such kills since, that memory ran out."""
    glyphs(256, 64)
    killed = [*BASE, "--allow-faults", *sets(fault__kill_step=4)]
    train(2, "two", *killed, *sets(fault__rank=0), code=None)
    told = status("two")
    assert told["state"] in ("running", "stopping") or (told["state"] == "failed" and "rank 0 (" in told["reason"]), told
    told.update(state="failed", exit_code=4, reason="rank 0 (n1, process 5) is gone: it was killed or left early")
    told["process"]["memory_kills"] -= 1
    with open("runs/two/status.json", "w") as f:
        json.dump(told, f)
    assert "rank 0 (n1, process 5) is gone: it was killed or left early; memory ran out" in shoal("status", "runs/two").stdout
    r = train(2, "two", *BASE)
    assert re.search(r"attempt 1 failed at step \d+, \S+Z: rank 0 .* left early; memory ran out, and the kernel has killed \d+ process.*"
                     r"lower the batch", r.stderr) and r.stderr.count("attempt 1 ") == 1, said(r)
    assert "attempt 2" not in train(2, "two", *BASE).stderr
    train(1, "r", *killed, code=None)
    assert status("r")["state"] == "running", status("r")
    r = train(1, "r", *killed, code=None)
    assert r.stderr.count("attempt 1 did not end by itself, its last sign of life is of ") == 1, said(r)
    assert re.search(r"is of step [34], \S+Z: (it was killed, or its host went down|memory ran out)", r.stderr), said(r)
    told = status("r")
    told["process"]["memory_kills"] -= 1
    with open("runs/r/status.json", "w") as f:
        json.dump(told, f)
    r = train(1, "r", *BASE)
    assert re.search(r"attempt 2 did not end by itself, .*: memory ran out, and the kernel has killed \d+ process", r.stderr), said(r)
    assert "did not end" not in train(1, "r", *BASE).stderr


def test_folder_speed(glyphs):
    """Killed after the checkpoint of an epoch's last step: the epoch's row, written by the next start, ran no step, so it has no
    speed."""
    glyphs(256, 64)
    args = [*BASE, *sets(ckpt__every="8 steps", eval__every="1 epoch")]
    train(2, "r", *args, "--allow-faults", *sets(fault__kill_step=9, fault__rank=1), code=None)
    r = train(2, "r", *args)
    ends = [line for line in r.stdout.splitlines() if " done at step " in line]
    assert ["samples/s" in line for line in ends] == [False, True, True], ends
    assert "nan" not in r.stdout and "nan" not in log("r"), r.stdout
    assert [m["samples_per_s"] != "" for m in metrics("r")] == [False, True, True], metrics("r")


def test_folder_keep(glyphs):
    """ckpt.keep holds from the start on: after a kill between a save and pruning, or when it is smaller than before."""
    glyphs(256, 64)
    train(2, "r", *BASE)
    assert len(checkpoints("r")) == 8
    train(2, "r", *BASE, *sets(ckpt__keep=2))
    assert [c[-12:] for c in checkpoints("r")] == ["000000021.h5", "000000024.h5"]
    os.remove("runs/r/ckpt/step-000000024.h5")  # and another is renamed to take its place
    os.rename("runs/r/ckpt/step-000000021.h5", "runs/r/ckpt/step-000000024.h5")
    r = train(1, "r", *BASE, code=7)
    [cure] = re.findall("step-000000024.h5 holds step 21, not the step of its name, and no other checkpoint is left: `(mv [^`]*)` to go on", r.stderr)
    subprocess.run(cure, shell=True, check=True)
    assert "resumed from runs/r/ckpt/step-000000021.h5" in train(1, "r", *BASE).stdout


def test_folder_array(glyphs):
    """Elements of a job array have folders of their own, whose resolved run file names them once; garbage is refused."""
    glyphs(64, 16)
    args = [*MLP, *sets(run__epochs=1)]
    for index in ("1", "12"):
        train(1, "a", *args, env={"SLURM_ARRAY_TASK_ID": index})
    assert sorted(os.listdir("runs")) == ["a-1", "a-12"]
    r = shoal("train", "runs/a-12/run.yaml", env={"SLURM_ARRAY_TASK_ID": "12"})
    assert "resumed from runs/a-12/" in r.stdout, r.stdout
    assert "name: a-12" in shoal("config", "runs/a-12/run.yaml", env={"SLURM_ARRAY_TASK_ID": "12"}).stdout
    shoal("train", *args, env={"SLURM_ARRAY_TASK_ID": "2", "SHOAL_RUN_NAME": "b"})
    assert sorted(os.listdir("runs")) == ["a-1", "a-12", "b-2"]
    with open("e.yaml", "w") as f:
        f.write(read("runs/a-12/run.yaml").replace("name: a-12", "name: e"))
    for variable, number in (("PBS_ARRAY_INDEX", "3"), ("PBS_ARRAYID", "4"), ("SGE_TASK_ID", "5"), ("LSB_JOBINDEX", "6")):
        assert f"name: e-{number}\n" in shoal("config", "e.yaml", env={variable: number}).stdout
    for none in ({"SGE_TASK_ID": "undefined"}, {"LSB_JOBINDEX": "0"}, {"PBS_ARRAY_INDEX": ""}):
        assert "name: e\n" in shoal("config", "e.yaml", env=none).stdout
    r = train(1, "a", *args, env={"SLURM_ARRAY_TASK_ID": "1 2"}, code=3)
    assert 'SLURM_ARRAY_TASK_ID is "1 2"' in r.stderr, r.stderr


def test_folder_unreadable(glyphs, jobs):
    """A disk that is gone, here a lease that leads to itself: the run ends with 7 and the system's words; nobody took it over."""
    glyphs(256, 64)
    job = jobs.start(2, "r", *BASE, "--allow-faults", *sets(fault__compute="sleep:50", run__epochs=50, trace__level="off"))
    wait_until("the first checkpoint", lambda: checkpoints("r"))
    os.symlink("lease", "runs/r/odd")
    os.rename("runs/r/odd", "runs/r/lease")
    assert job.wait(timeout=60) == 7, read("r.out")
    assert read("r.out").count("error: ") == 1 and "took" not in read("r.out"), read("r.out")
    assert "cannot read runs/r/lease: Too many levels of symbolic links; nothing more can be written" in read("r.out")


def test_folder_suspended(glyphs, jobs):
    """A run that was suspended until another took its folder over: it ends with 3 when it wakes, and writes nothing more."""
    glyphs(256, 64)
    job = jobs.start(2, "r", *BASE, "--allow-faults", *sets(fault__compute="sleep:200", run__epochs=50, trace__level="off"))
    wait_until("the first checkpoint", lambda: checkpoints("r"))
    ranks = list(ranks_of(job).values())
    def states(main=True):  # of all threads; one that has ended meanwhile has none
        stats = [read(f"/proc/{pid}/task/{t}/stat") for pid in ranks for t in os.listdir(f"/proc/{pid}/task") if main or int(t) != pid]
        return {stat.rsplit(")", 1)[1].split()[0] for stat in stats if stat}
    def half_written():
        return [f for _, _, names in os.walk("runs/r") for f in names if ".tmp-" in f]
    def stand_still():
        """Not while it writes (a file without its name would be swept), or is about to, having asked for the lease."""
        if states(main=False) != {"S"}:  # the main thread, which runs all the time, writes once in many steps
            return False
        for pid in ranks:
            os.kill(pid, signal.SIGSTOP)
        wait_until("all stand still", lambda: states() <= set("TtX"))
        if half_written():
            for pid in ranks:
                os.kill(pid, signal.SIGCONT)
            return False
        return True
    wait_until("a moment in which nothing is written", stand_still)
    os.utime("runs/r/lease", (0, 0))
    apart = ["unshare", "--pid", "--fork"]  # where its processes cannot be looked for
    if subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
        pytest.skip("no right to make a PID namespace")
    known = len(log("r").splitlines())
    r = run([*apart, program(), "train", *BASE, *sets(run__name="r", trace__level="off")], stderr=subprocess.STDOUT)
    assert "took over the lease of a run that is gone" in r.stdout, r.stdout
    lines = [re.sub(r"^\d{4}-\d\d-\d\dT\S+ ", "", line) for line in log("r").splitlines()[known:]]
    assert lines == r.stdout.splitlines(), "log.txt and the terminal differ"
    assert any(line.startswith("=== attempt 2, ") for line in lines), lines
    assert [line.split() for line in lines if line.split()[:3] == ["rank", "node", "local"]], "no table of ranks"
    def files():
        return {path: read(path) if not path.endswith(".h5") else os.stat(path).st_mtime_ns
                for folder, _, names in os.walk("runs/r") for path in (os.path.join(folder, n) for n in names)}
    before = files()
    assert status("r")["state"] == "done"
    for pid in ranks:
        os.kill(pid, signal.SIGCONT)
    assert job.wait(timeout=60) == 3, read("r.out")
    assert read("r.out").count("is gone: somebody removed it") == 1, read("r.out")
    assert files() == before


def test_folder_not_writable(glyphs):
    """Found before step 1, with the options and the end of a link; checkpoints of others are readable all the same."""
    glyphs(256, 64)
    r = train(2, "r", *BASE, *sets(run__dir="/proc/self"), code=7)
    assert "cannot make the folder /proc/self/r: " in r.stderr and r.stderr.count("run.dir and run.name") == 1, said(r)
    deep = "/".join(["d" * 200] * 25)
    r = train(1, "r", *BASE, *sets(run__dir=deep), code=7)
    assert "File name too long" in r.stderr and not os.path.exists("d" * 200), said(r)
    os.symlink("nowhere", "gone")
    r = train(1, "r", *BASE, *sets(run__dir="gone"), code=7)
    assert "gone (a link to nowhere, which is not there): make the folder that it leads to, or remove the link; run.dir" in r.stderr, said(r)
    r = train(1, "r", *BASE, *sets(data__file="gone"), code=7)
    assert "cannot open gone: there is no such file (a link to nowhere, which is not there)" in r.stderr, said(r)
    os.mkdir("sub")
    r = run([program(), "train", *BASE, *sets(run__name="r", data__file="../no.h5")], code=7, cwd="sub")
    assert f"cannot open ../no.h5: there is no such file (from the working folder, {os.getcwd()}/sub)" in r.stderr, said(r)
    os.symlink("loop", "loop")
    for place in ("loop", "loop/x.h5"):
        r = train(1, "r", *BASE, *sets(data__file=place), code=7)
        assert f"{place}: Too many levels of symbolic links" in r.stderr and "not there" not in r.stderr, said(r)
    assert "(a link to loop, which leads back to itself)" in train(1, "r", *BASE, *sets(data__file="loop"), code=7).stderr
    for verb in (("watch", "--once"), ("ckpt", "list"), ("ckpt", "prune")):
        assert_one_error(shoal(*verb, "loop", code=7), "cannot look ", " loop", "Too many levels of symbolic links")
    train(1, "r", *BASE)
    steps = status("r")["step"]
    before = os.stat("runs/r/ckpt").st_mode
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    subprocess.run(["chmod", "-R", "a+rwX", "."], check=True)
    os.chmod("runs/r/ckpt", 0o555)
    shutil.copy(program(), ".")  # the build may be in a folder of root's own
    r = run(["./shoal", "train", *BASE, *sets(run__name="r", run__epochs=9)], code=7, **nobody)
    os.chmod("runs/r/ckpt", before)
    assert re.search(r"cannot create runs/r/ckpt/step.h5: Permission denied \(runs/r/ckpt belongs to .*user \d+, with mode 555\); run.dir and run.name",
                     r.stderr), said(r)
    assert "to stop with a checkpoint" not in r.stdout and status("r")["step"] == steps, said(r)
    if os.geteuid() == 0:  # as what a container wrote
        os.chmod("runs/r", 0o755)
        r = run(["./shoal", "train", *BASE, *sets(run__name="r", run__epochs=9)], code=7, **nobody)
        assert_one_error(r, "Permission denied (runs/r belongs to root", "as user 65534, root types chown -R 65534:65534 runs/r; run.dir")
        os.chmod("runs/r", 0o777)
    os.chmod(newest("r"), 0)  # of somebody with another umask
    r = run(["./shoal", "train", *BASE, *sets(run__name="r", run__epochs=9)], code=7, **nobody)
    assert_one_error(r, f"cannot open {newest('r')}: Permission denied (it belongs to ", " with mode 000; `chmod ",
                     f" {newest('r')}`", "makes it readable); it may be whole", "made readable, or moved away")
    r = run(["./shoal", "ckpt", "list", "runs/r"], **nobody)
    assert "unknown: cannot open" in r.stdout and "DAMAGED" not in r.stdout, r.stdout
    modes = {d: os.stat(d).st_mode for d in ("runs/r", "runs/r/status.json")}
    for shut in modes:  # of a colleague: named by all verbs, not taken for absent
        os.chmod(shut, 0)
        r = run(["./shoal", "status"], **nobody)
        assert "cannot look into runs/r: Permission denied" in r.stderr and "makes it readable); it is not shown" in r.stderr, said(r)
        assert_one_error(run(["./shoal", "watch", "--once", "runs/r"], code=7, **nobody), "Permission denied", "makes it readable")
        if shut == "runs/r":
            assert_one_error(run(["./shoal", "trace", "show", "runs/r"], code=7, **nobody), "Permission denied (runs/r belongs to")
        os.chmod(shut, modes[shut])
    assert status("r")["step"] == steps, status("r")


@pytest.mark.parametrize("here", (0, 1))
def test_folder_everywhere(glyphs, here):
    """A folder that each node has for itself, pretended by a mount that only the rank `here` sees: refused before step 1 in one
    line, whichever node has checkpoints, and nothing is changed.  What a node shows a moment later is waited for."""
    mine = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "runs"]
    os.mkdir("runs")
    if subprocess.run(mine, capture_output=True).returncode != 0:
        pytest.skip("no right to mount")
    glyphs(256, 64)
    spread = ["--topo", "3x1", *BASE, *sets(run__epochs=1)]
    if here == 0:
        train(1, "r", *BASE, *sets(run__epochs=1, run__steps=2))
    def files():
        return {path: os.stat(path).st_mtime_ns for folder, _, names in os.walk("runs") for path in (os.path.join(folder, n) for n in names)}
    before = files()
    def apart(who, what):
        return f"case {who} in *$R*) exec unshare --mount sh -c '{what} && exec \"$@\"' sh \"$@\";; esac; exec \"$@\""
    r = train_through(apart(here, "mount -t tmpfs none runs"), 3, "r", *spread, code=3)
    finds = "a folder with other checkpoints, and 1 more node fails likewise;" if here == 0 else "no such folder;"
    assert_one_error(r, "/runs/r is not the same folder on all nodes: rank 0 (", "but rank 1 (", f") finds {finds}",
                     "choose a run.dir on a file system that all nodes share")
    assert files() == before and os.listdir("runs") == (["r"] if here == 0 else []), os.listdir("runs")
    if here == 0:
        os.mkdir("own")
        shutil.copy(newest("r"), "own/a.h5")
        for option in (["--resume", "own/a.h5"], sets(model__weights="own/a.h5")):
            r = train_through(apart(1, "mount -t tmpfs none own"), 2, "b", "--topo", "2x1", *BASE, *option, code=7)
            assert_one_error(r, "[rank 1]", "cannot open own/a.h5", f"(host {socket.gethostname().split('.')[0]})")
    if here == 1:
        os.mkdir("shown")
        late = "mount --bind runs shown && mount -t tmpfs none runs && { " \
               "(until [ -s shown/r/lease ]; do sleep 0.1; done; sleep 1; umount -l runs) & true; }"
        train_through(apart(1, late), 3, "r", *spread)
        assert status("r")["state"] == "done", status("r")


def test_folder_removed(glyphs, jobs):
    """Files of the folder are removed under a run: rows and log go on in new files, and what a run that has begun
    has made stays.  Without the lease it ends, and blames nobody else."""
    glyphs(256, 64)
    train(1, "whole", *BASE)
    job = jobs.start(1, "r", *BASE, "--allow-faults", *sets(fault__compute="sleep:40"))
    wait_for("runs/r/metrics.csv", "\n1,16,")
    for name in ("log.txt", "metrics.csv", "run.yaml", "placement.json"):
        os.remove(f"runs/r/{name}")
    shutil.rmtree("runs/r/trace")
    assert job.wait(timeout=60) == 0, read("r.out")
    assert rows("r") == rows("whole")
    assert log("r").startswith("=== attempt 1 goes on: ") and "epoch 3 done" in log("r"), log("r")
    assert read("r.out").count("runs/r/metrics.csv was removed, and is written again") == 1, read("r.out")
    assert len(re.findall(r"the trace runs/r/trace/\S+ was removed or moved while it was written; the trace ends here", read("r.out"))) == 1
    job = jobs.start(1, "r", *BASE, "--allow-faults", *sets(fault__compute="sleep:40", run__epochs=40))
    wait_for("r.out", "checkpoint ")
    os.remove("runs/r/lease")
    assert job.wait(timeout=60) == 3, read("r.out")
    assert "runs/r/lease is gone: somebody removed it" in read("r.out"), read("r.out")


def test_folder_torn_line(glyphs):
    """A line of log.txt without an end, because the disk was full, does not swallow the next start's first."""
    glyphs(64)
    train(1, "r", *BASE, *sets(run__epochs=1))
    with open("runs/r/log.txt", "a") as f:
        f.write("half a li")
    train(1, "r", *BASE, *sets(run__epochs=1))
    assert "\nhalf a li\n=== attempt 2, " in log("r"), log("r")


def bytes_read(*args):
    """What a run of one rank reads from files, by the count that the kernel hands on to its parent."""
    r = run(["sh", "-c", '"$@" >&2 && cat /proc/$$/io', "sh", *train_command(1, *args)])
    return int(re.search(r"rchar: (\d+)", r.stdout).group(1))


def test_folder_reads(glyphs):
    """A save reads its file to verify it, and those that stay before it removes others; not more often."""
    glyphs(256, 64)
    args = ["-q", *BASE, *sets(model__widths="[256,256]", eval__every="never", trace__level="off", ckpt__keep=1)]
    few = bytes_read("few", *args, *sets(ckpt__every="never"))
    many = bytes_read("many", *args, *sets(ckpt__every="2 steps"))
    saves, size = status("many")["step"] // 2, os.path.getsize(newest("many"))
    assert saves == 24, saves
    assert (many - few) / (saves - 1) < 3 * size, f"{(many - few) / (saves - 1) / size} times"


def test_folder_given_to_resume(glyphs):
    """--resume with a folder names the checkpoint that may be meant."""
    glyphs(64)
    train(1, "a", *BASE, *sets(run__epochs=1))
    for folder in ("runs/a", "runs/a/ckpt"):
        r = train(1, "b", *BASE, "--resume", folder, code=2)
        assert f"--resume {folder}: that is a folder; name a checkpoint, as in --resume {newest('a')}, or leave" in r.stderr, said(r)
