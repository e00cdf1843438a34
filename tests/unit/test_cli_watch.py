"""The page of `shoal watch`, from folders that are made up and from a run, and how it treats a terminal."""
import codecs
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

import pytest

from harness import PLAIN_ENV, metrics, program, run, sets, status, train, wait_until

PAGE = """\
runs/r: running, attempt 2
mlp, method daso, 8 ranks on 4 nodes

#########...............  40.0 %  epoch 12 of 30, step 450, 12 min 03 s left
loss 0.5  lr 0.09  test accuracy 71.30 %, best 72.00 % at step 200
5300 samples/s  waiting 12 % (rank 0)

training loss; o: test loss
       2 |**                   
         | **                  
         |   **                
         |    **               
         |      **             
         |       **            
         |         **          
         |o         **         
         |            **       
         |             **      
         |               **    
         |                **   
         |                  ** 
     0.1 |                   *o
         +---------------------
          100          step 400
"""
PROGRESS = {"model": "mlp", "method": "daso", "ranks": 8, "nodes": 4, "epochs": 30, "done": 0.4, "loss": 0.5, "lr": 0.09,
            "test_loss": 0.1, "test_acc": 0.713, "samples_per_s": 5300.4, "waiting": 0.12, "left_s": 723}
STATUS = {"state": "running", "exit_code": 0, "reason": "", "rank": 0, "step": 450, "epoch": 11, "attempt": 2,
          "time": "2026-01-31T12:00:00Z", "progress": PROGRESS}
ROWS = """epoch,step,time_s,train_loss,test_loss,test_acc,lr
1,100,1.5,2,1.05,0.5,0.1
1.5,200,2.5,,,0.72,0.1
2,400,5,0.1,0.1,0.713,0.1
"""
ENV = {**PLAIN_ENV, "LC_ALL": "C"}


def make(rows=ROWS, age_s=-600, **changes):
    """A run folder; its status is from now, and stays so: it was written by a host whose clock is ten minutes ahead."""
    os.makedirs("runs/r", exist_ok=True)
    with open("runs/r/status.json", "w") as f:
        json.dump({**STATUS, **changes}, f)
    with open("runs/r/metrics.csv", "w") as f:
        f.write(rows)
    then = time.time() - age_s
    os.utime("runs/r/status.json", (then, then))


def watch(*args, code=0, **env):
    return run([program(), "watch", *args], code=code, base={**ENV, **env}, timeout=60)


def page(**env):
    return watch("runs/r", **env).stdout


def test_page(work):
    make()
    assert page(COLUMNS="31") == "".join(line[:31] + "\n" for line in PAGE.splitlines())
    assert page(COLUMNS="80").splitlines()[:6] == PAGE.splitlines()[:6]


def test_size(work):
    make()
    for columns in (24, 40, 80, 200):
        for lines in (1, 8, 20, 40):
            for locale in ("C", "C.UTF-8"):
                out = page(COLUMNS=str(columns), LINES=str(lines), LC_ALL=locale).splitlines()
                assert all(len(line) <= columns for line in out), out
                assert len(out) <= max(lines, 6), out
    assert set("█░│⠉") < set(page(LC_ALL="C.UTF-8"))


def test_states(glyphs):
    glyphs(64)
    make(age_s=200)
    assert re.search(r": silent, attempt 2\n.*\nno sign of life for 3 min 2\d s: it was killed", page()), page()
    assert " left" not in page() and "samples/s" not in page(), page()
    train(1, "k", *sets(model__name="mlp", data__file="glyphs.h5", run__steps=1))
    me = status("k")["process"]
    with subprocess.Popen(["sleep", "60"]) as other:
        with open(f"/proc/{other.pid}/stat") as f:
            living = {**me, "pid": other.pid, "started": int(f.read().rsplit(")", 1)[1].split()[19])}
        make(process=living)
        assert "is gone" not in page()
        make(process={**living, "started": living["started"] + 1})
        assert "its process on this host is gone: it was killed" in page() and ": dead, attempt" in page(), page()
        assert "the same command begins anew," in page(COLUMNS="80"), page()
        os.makedirs("runs/r/ckpt", exist_ok=True)
        open("runs/r/ckpt/step-000000010.h5", "w").close()
        assert "the same command goes on from\nits newest checkpoint" in page(COLUMNS="80"), page()
        make(process={**living, "started": living["started"] + 1, "memory_kills": -1})
        assert re.search(r"\nmemory ran out, and the kernel has killed \d+ process[^#]*\nits process on this host is gone", page()), page()
        other.kill()
    for process, gone in ((living, True), ({**living, "boot": "another"}, False), ({**living, "pids": "pid:[1]"}, False)):
        make(process=process)
        assert ("its process on this host is gone" in page()) == gone, process
    make(state="failed", exit_code=6, rank=3, reason="loss is not finite\n\x1b[2J")
    assert "exit 6, rank 3: loss is not finite\\n\\x1b[2J\n" in page()
    make(state="failed", exit_code=7, rank=3, reason="no room " * 30 + "in the end")
    assert "in the end\n" in page(COLUMNS="80"), page()
    make(state="stopped", exit_code=75, reason="stopped")
    assert "the same command goes on" in page() and "left" not in page()
    make(state="done", reason="success")
    assert "success" not in page() and "no sign" not in page()


@pytest.mark.parametrize("rows", ["", "\n", "epoch,step\n", "step,train_loss\n1,x\n2,1e999\n,\n3\n", "a" * 100000, "step,train_loss\n1,2\n",
                                  "step,train_loss\n1,2\n2,2\n", "step,train_loss\n5,nan\n"])
def test_odd_rows(work, rows):
    make(rows)
    assert page().startswith(PAGE[:60])


def test_older_status(work):
    make("", progress=None)
    assert "epoch 12, step 450\n" in page() and "loss not known yet" in page()


@pytest.mark.parametrize("name, words", [("none", "there is no folder none"), ("file", "file is no folder"), ("runs", "it holds r"),
                                         ("runs/r/ckpt", "has no status.json")])
def test_no_run(work, name, words):
    make()
    os.mkdir("runs/r/ckpt")
    open("file", "w").close()
    err = watch(name, code=2).stderr
    assert words in err and err.count("\n") == 1


def test_damaged_status(work):
    make()
    with open("runs/r/status.json", "w") as f:
        f.write('{"state": "running", ')
    err = watch("runs/r", code=7).stderr
    assert "runs/r/status.json:" in err and err.count("\n") == 1


def test_run(work):
    run([program(), *"data synth blobs -o data.h5 --train 160 --test 40 --features 4 --classes 4".split()])
    with open("run.yaml", "w") as f:
        f.write("run: { epochs: 3 }\nmodel: { name: mlp, widths: [4] }\ndata: { file: data.h5, global_batch: 8 }\n")
    train(2, "r", "run.yaml", "-q", "--allow-faults", *sets(fault__rank=1, fault__compute="sleep:60"))
    told, out = status("r")["progress"], page()
    assert told["done"] == 1 and told["left_s"] == 0 and (told["ranks"], told["nodes"]) == (2, 1)
    assert told["model"] == "mlp" and told["method"] == "sync" and told["epochs"] == 3
    assert f"loss {told['loss']:.4g}  lr {told['lr']:.4g}  test accuracy {100 * told['test_acc']:.2f} %" in out
    assert "runs/r: done, attempt 1\nmlp, method sync, 2 ranks on 1 node\n" in out
    assert re.search(r"^2 ranks, last 59 steps: [0-9.]+ to [0-9.]+ ms per step$", out, re.M), out
    assert re.search(r"^slowest: rank 1 on \S+, [0-9.]+ ms", out, re.M), out
    assert re.search(r"^waits: rank 1 least, \d+ %; rank 0 most, \d+ %$", out, re.M), out


def screen(master, seconds=20, until=""):
    """What a terminal is given until a pattern appears, or its program ends."""
    text, end, decoder = "", time.monotonic() + seconds, codecs.getincrementaldecoder("utf-8")()
    while time.monotonic() < end and not (until and re.search(until, text)):
        if not select.select([master], [], [], 0.1)[0]:
            continue
        try:
            text += decoder.decode(os.read(master, 65536))
        except OSError:
            break
    return text


@pytest.mark.parametrize("how", ["q", "interrupt", "done"])
def test_terminal(work, how):
    make()
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    job = subprocess.Popen([program(), "watch", "runs/r"], stdin=slave, stdout=slave, env={**ENV, "LC_ALL": "C.UTF-8"})
    try:
        first = screen(master, until="q leaves")
        assert first.startswith("\033[?1049h\033[?25l") and "running, attempt 2" in first
        assert not termios.tcgetattr(slave)[3] & termios.ICANON
        make(step=1234567)
        screen(master, until="step 1234567")
        if how == "q":
            os.write(master, b"xq")
        elif how == "interrupt":
            job.send_signal(signal.SIGINT)
        else:
            make(state="done")
        wait_until("the end", lambda: job.poll() is not None, 20)
        last = screen(master, seconds=1)
        assert job.returncode == 0
        assert "\033[?25h\033[?1049l" in last and "attempt 2" in last.split("\033[?1049l")[1]
        assert termios.tcgetattr(slave) == before
    finally:
        job.kill()
        job.wait()
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("step", [8, 9, 10, 11])
def test_share_done(work, step):
    """Of a run that stops near the end of an epoch, and then of the same one, finished and started once more."""
    run([program(), *"data synth blobs -o data.h5 --train 80 --test 16 --features 4 --classes 4".split()])
    options = sets(data__file="data.h5", data__global_batch=8, model__name="mlp", model__widths="[4]", run__epochs=3)
    train(1, "r", "-q", "--allow-faults", *options, *sets(fault__stop_step=step), code=75)
    told = status("r")
    assert told["progress"]["done"] == pytest.approx(told["step"] / 30, abs=1e-5)
    losses = []
    for _ in range(2):
        train(1, "r", "-q", *options)
        losses.append(status("r")["progress"]["loss"])
        told = status("r")["progress"]
        assert told["done"] == 1 and told["left_s"] == 0 and told["model"] == "mlp"
    assert losses[0] == losses[1] and f"100.0 %  epoch 3 of 3, step 30\nloss {losses[0]:.4g}" in page(), "the last start trained nothing: the loss stays"
