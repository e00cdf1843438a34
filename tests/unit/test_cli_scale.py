"""`shoal scale`: its run files, which runs it starts and starts again, and the numbers of its table."""
import json
import os
import re
import signal
import subprocess

import pytest

from harness import PLAIN_ENV, program, read, run, sets, wait_until

RUN = """run: { name: blobs, epochs: 3 }
model: { name: mlp, widths: [4] }
data: { file: data.h5, global_batch: 8 }
method: { name: local-sgd, period: 7 }
"""
FOLDER = "runs/blobs-scale"


@pytest.fixture(autouse=True)
def files(work):
    run([program(), *"data synth blobs -o data.h5 --train 80 --test 16 --features 4 --classes 4".split()], base=PLAIN_ENV)
    with open("run.yaml", "w") as f:
        f.write(RUN)


def scale(*args, code=0, **options):
    return run([program(), "scale", "run.yaml", *map(str, args)], code=code, base={**PLAIN_ENV, **options})


def table(text):
    """Method and rank count → the other columns."""
    rows = [line.split() for line in text[text.index("method "):].splitlines()[1:]]
    return {(r[0], int(r[1])): r[2:] for r in rows if len(r) > 4}


def speed(folder, epochs):
    """Samples/s and share of waits in all epochs, from the columns of metrics.csv."""
    with open(f"{folder}/metrics.csv") as f:
        header, *lines = [line.strip().split(",") for line in f]
    rows = [dict(zip(header, line)) for line in lines]
    assert [float(r["epoch"]) for r in rows] == list(range(1, epochs + 1))
    seconds = [1 / float(r["samples_per_s"]) for r in rows]
    waits = sum(s * float(r["wait_share"] or 0) for s, r in zip(seconds, rows))
    return len(rows) / sum(seconds), waits / sum(seconds)


def test_study(work):
    r = scale("--ranks", "2,1", "--methods", "sync,local-sgd", "--per-node", 2)
    rows = table(r.stdout)
    assert list(rows) == [("sync", 1), ("sync", 2), ("local-sgd", 1), ("local-sgd", 2)]
    for (method, ranks), (rate, gain, efficiency, _, waiting, *_) in rows.items():
        (base, _), (own, share) = speed(f"{FOLDER}/{method}-1", 3), speed(f"{FOLDER}/{method}-{ranks}", 3)
        assert rate == f"{own:.0f}" and gain == f"{own / base:.2f}"
        assert efficiency == f"{100 * own / base / ranks:.1f}" and waiting == f"{100 * share:.1f}"
    assert f"2 of 4: sync on 2 ranks, shoal watch {FOLDER}/sync-2\n" in r.stdout
    with open(f"{FOLDER}/sync-2/placement.json") as f:
        assert json.load(f)["pretended"]

    before = {name: os.stat(f"{FOLDER}/{name}").st_mtime_ns for name in os.listdir(FOLDER)}
    again = scale("--ranks", "1,2", "--methods", "sync,local-sgd", "--per-node", 2)
    assert again.stdout.count("done already") == 4 and table(again.stdout) == rows
    assert before == {name: os.stat(f"{FOLDER}/{name}").st_mtime_ns for name in os.listdir(FOLDER)}
    # Runs on other nodes than those of a row are none of it.
    other = scale("--ranks", "1,2", "--methods", "sync,local-sgd", "--per-node", 1).stdout
    for method in ("sync", "local-sgd"):
        assert f"done on 1 node, which is no row of this: rm -r {FOLDER}/{method}-2, then the same command\n" in other, other
    assert set(table(other)) >= {("sync", 1), ("local-sgd", 1)} and " 1.00 " in other, other

    # The same weights as of the run by hand.
    run([program(), "train", "-q", *sets(data__file="data.h5", data__global_batch=8, model__name="mlp", model__widths="[4]",
                                         run__epochs=3, run__name="hand")], base=PLAIN_ENV)
    last = "ckpt/step-000000030.h5"
    run([program(), "ckpt", "diff", f"runs/hand/{last}", f"{FOLDER}/sync-1/{last}"], base=PLAIN_ENV)


def test_files(work):
    out = scale("--ranks", "1,4", "--methods", "sync,local-sgd", "--only-files", "--set", "optim.lr=0.25").stdout.splitlines()
    assert len(out) == 4 and sorted(os.listdir(FOLDER)) == ["local-sgd-1.yaml", "local-sgd-4.yaml", "sync-1.yaml", "sync-4.yaml"]
    assert out[0] == f"  {program()} train {FOLDER}/sync-1.yaml -q"
    assert re.match(r"  mpirun .*-n 4 ", out[1]) and out[1].endswith(f"{program()} train {FOLDER}/sync-4.yaml -q")
    own, other = read(f"{FOLDER}/local-sgd-4.yaml"), read(f"{FOLDER}/sync-4.yaml")
    assert "period: 7" in own and "period" not in other  # options of a method stay with it
    assert all("lr: 0.25" in text and "global_batch: 8" in text for text in (own, other))
    assert re.search(r"^threads: \d+$", own, re.M).group() == re.search(r"^threads: \d+$", read(f"{FOLDER}/sync-1.yaml"), re.M).group()


@pytest.mark.parametrize("args, words", [
    ([], ["--ranks 1,2,4"]),
    (["--ranks", ""], ['"" is no number']),
    (["--ranks", "1,,2"], ['"" is no number']),
    (["--ranks", "0,1"], ['"0" is no number']),
    (["--ranks", "2,2"], ["2 is there twice"]),
    (["--ranks", "2,3", "--per-node", "2"], ["3 ranks do not fill nodes of 2"]),
    (["--ranks", "2", "--per-node", "x"], ["--per-node x"]),
    (["--ranks", "2", "--weak"], ["weak scaling needs data.batch", "--set data.batch=N"]),
    (["--ranks", "2", "--methods", "sync,dase"], ["did you mean daso"]),
    (["--ranks", "2", "--set", "optim.lr=-1"], ["optim.lr"]),
    (["--ranks", "2", "--set", "optm.lr=1"], ["optim.lr"]),
])
def test_refused(work, args, words):
    err = scale(*args, code=2).stderr
    assert all(w in err for w in words) and err.count("\n") == 1
    assert not os.path.exists("runs")


def test_other_request(work):
    scale("--ranks", "1", "--only-files")
    before = read(f"{FOLDER}/local-sgd-1.yaml")
    err = scale("--ranks", "1,2", "--only-files", "--set", "optim.lr=0.5", code=2).stderr
    assert f"{FOLDER}/local-sgd-1.yaml is there" in err and read(f"{FOLDER}/local-sgd-1.yaml") == before


def test_weak(work):
    with open("run.yaml", "w") as f:
        f.write(RUN.replace("global_batch: 8", "batch: 32"))  # the default, which is as good as any
    assert len(scale("--ranks", "1,2", "--weak", "--only-files", "--set", "run.name=same").stdout.splitlines()) == 2
    with open("run.yaml", "w") as f:
        f.write(RUN.replace("global_batch: 8", "batch: 8"))
    rows = table(scale("--ranks", "1,2", "--weak", "--methods", "sync").stdout)
    assert list(rows) == [("sync", 1), ("sync", 2)]
    assert "strong scaling needs data.global_batch" in scale("--ranks", "1", "--methods", "sync", code=2).stderr
    assert os.path.exists(f"{FOLDER}/sync-1/ckpt/step-000000030.h5") and os.path.exists(f"{FOLDER}/sync-2/ckpt/step-000000015.h5")


def test_a_run_fails(work):
    r = scale("--ranks", "1,2", "--methods", "sync", "--set", "run.name=other", "--set", "data.file=none.h5", code=7)
    assert "runs/other-scale/sync-1 ended with exit 7" in r.stderr and r.stdout.count("not done") == 2
    assert r.stderr.count("ended with exit") == 1


def test_stop(work):
    """A stop ends the study with 75 and a checkpoint of the run that was going on; the same command does the rest."""
    with open("run.yaml", "w") as f:
        f.write(RUN.replace("epochs: 3", "epochs: 400"))
    command = [program(), "scale", "run.yaml", "--ranks", "1,2", "--methods", "sync"]
    with open("out", "w") as out:
        job = subprocess.Popen(command, env=PLAIN_ENV, stdout=out, stderr=out)

    def state():
        return json.loads(read(f"{FOLDER}/sync-1/status.json") or "{}").get("state")

    wait_until("the first run", lambda: state() == "running")
    job.send_signal(signal.SIGTERM)
    code = job.wait(60)
    assert code == 75 and state() == "stopped" and os.listdir(f"{FOLDER}/sync-1/ckpt"), read("out")
    assert not os.path.exists(f"{FOLDER}/sync-2")
    assert len(table(run(command, base=PLAIN_ENV).stdout)) == 2


def test_in_an_allocation(work):
    """srun starts the ranks of a job; a stand-in shows what it is given."""
    os.mkdir("bin")
    with open("bin/srun", "w") as f:
        f.write('#!/bin/sh\necho "srun $*" >> said\n')
    os.chmod("bin/srun", 0o755)
    slurm = {"SLURM_JOB_ID": "77", "SLURM_CPUS_PER_TASK": "3(x2)", "PATH": f"{os.getcwd()}/bin:{PLAIN_ENV['PATH']}"}
    files = scale("--ranks", "1,2,3,8", "--methods", "sync", "--only-files", "--allow-faults", "--set", "run.name=full",
                  SLURM_NTASKS_PER_NODE="2", **slurm).stdout.splitlines()
    assert [line.split()[2:4] for line in files] == [[f"--nodes={k}", f"--ntasks={n}"] for n, k in ((1, 1), (2, 1), (3, 2), (8, 4))]
    assert all(line.endswith(" -q --allow-faults") for line in files)
    r = scale("--ranks", "1,4", "--methods", "sync", code=4, **slurm)
    assert "ended with exit 0 and is not done" in r.stderr
    assert read("said").splitlines() == [
        f"srun --mpi=pmix --ntasks={n} --cpus-per-task=3 --cpu-bind=cores --kill-on-bad-exit=1 {program()} train {FOLDER}/sync-{n}.yaml -q" for n in (1, 4)]
    assert "threads: 0" in read(f"{FOLDER}/sync-1.yaml") and r.stdout.count("not done") == 2
