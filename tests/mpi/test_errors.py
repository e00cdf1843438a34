"""How errors are reported: each fault of a run is printed once, and status.json has its text."""

import h5py
import numpy as np
import pytest

from harness import log, program, said, sets, status, through, train, train_through

MLP = sets(model__name="mlp", model__widths="[32]", optim__lr=0.05, data__file="glyphs.h5", data__batch=8, run__epochs=1)
RUN_FILE = """
run: { epochs: 1 }
model: { name: mlp, widths: [32] }
optim: { lr: 0.05 }
data: { file: glyphs.h5, batch: 8 }
comm: { shared_memory: false }
"""


def errors(r):
    """Lines of a finished run that tell of errors."""
    return [line for line in r.stderr.splitlines() if "shoal: error:" in line]


def with_bad_sample(i, split="train"):
    """glyphs.h5 with splits too large to be held in memory, of which only one chunk exists, damaged: reading sample i fails."""
    n, mark = 70000, bytes(range(1, 65)) * 64
    with h5py.File("glyphs.h5", "w") as f:
        for s in ("train", "test"):
            f.create_dataset(f"{s}/x", (n, len(mark)), "u1", chunks=(1, len(mark)), fletcher32=True)
            f[f"{s}/y"] = (np.arange(n) % 2).astype("i4")
        f[f"{split}/x"][i] = np.frombuffer(mark, "u1")
        f.attrs.update({"kind": "features", "classes": 2, "mean": [0.0], "std": [1.0], "checksum": 1})
    with open("glyphs.h5", "r+b") as f:
        at = f.read().index(mark)
        f.seek(at + 9)
        f.write(b"\0")


@pytest.mark.parametrize("ranks", [2, 3])
def test_file_missing_on_one_host(glyphs, ranks):
    """A run file that only the last rank does not find: that rank says so first, and all leave with its code.
    It cannot know that the others pretend nodes and do not share memory."""
    glyphs(60, 20)
    with open("run.yaml", "w") as f:
        f.write(RUN_FILE)
    r = through(f'[ $R = {ranks - 1} ] && exec "$1" train absent.yaml; exec "$1" train run.yaml --topo {ranks}x1', ranks, program(),
                code=7, timeout=60)
    assert len(errors(r)) == 1, said(r)
    assert errors(r)[0].startswith(f"[rank {ranks - 1}] shoal: error:"), said(r)
    assert "absent.yaml" in errors(r)[0], said(r)


def test_faults_before_the_world(glyphs):
    """A wrong command line on one rank and a wrong run file on another are two lines; the same fault on all is one."""
    glyphs(60, 20)
    script = ('[ $R = 1 ] && exec "$@" --resum auto; '
              '[ $R = 2 ] && exec "$@" --set optim.leraning_rate=1 --set optim.lr=-1; exec "$@"')
    r = train_through(script, 4, "before", *MLP, code=2, timeout=60)
    lines = errors(r)
    assert len(lines) == 3, said(r)
    assert sum(line.startswith("[rank 1]") and "--resum" in line for line in lines) == 1, said(r)
    for words in ("optim.leraning_rate", "optim.lr is"):  # both faults of one run file
        assert sum(line.startswith("[rank 2]") and words in line for line in lines) == 1, said(r)
    for bad, words in ((["--set", "optim.lr=-1"], "optim.lr"), (["--resum", "auto"], "--resum")):
        r = train(4, "all", *MLP, *bad, code=2, timeout=60)
        assert len(errors(r)) == 1, said(r)
        assert errors(r)[0].startswith("[rank 0]"), said(r)
        assert words in errors(r)[0], said(r)


def test_bench_on_one_host():
    """`shoal bench comm` likewise: one rank with another command line."""
    r = through('[ $R = 1 ] && exec "$1" bench comm --sizes x; exec "$1" bench comm --topo 2x1', 2, program(), code=2, timeout=60)
    assert len(errors(r)) == 1, said(r)
    assert errors(r)[0].startswith("[rank 1] shoal: error: --sizes"), said(r)


def test_reason_of_another_rank(work):
    """Rank 1 alone meets a bad test sample while all evaluate: it says so, once, and status.json has its words and code."""
    with_bad_sample(200, split="test")
    r = train(2, "other", *MLP, *sets(eval__every="1 steps"), code=7, timeout=60)
    s = status("other")
    assert (s["state"], s["exit_code"]) == ("failed", 7), s
    assert "cannot read rows 200 to 200 of /test/x in glyphs.h5" in s["reason"], s
    assert len(errors(r)) == 1, said(r)
    assert errors(r)[0].startswith("[rank 1]"), said(r)
    assert s["reason"].startswith("rank 1 (") and s["reason"].endswith(errors(r)[0].split("shoal: error: ")[1]), said(r)
    assert s["reason"] in log("other"), log("other")  # which rank 0 writes


@pytest.mark.parametrize("ranks", [1, 2])
def test_reason_from_the_loader(work, ranks):
    """The loader's thread meets a damaged sample while checkpoints are being saved.  The batch that has it ends the run, and the
    reason in status.json is the loader's, whatever was done in between."""
    with_bad_sample(101)
    r = train(ranks, "label", *MLP, "--allow-faults",
              *sets(data__shuffle="false", data__prefetch=4, ckpt__every="1 steps", fault__ckpt="sleep:100"), code=7, timeout=120)
    s = status("label")
    assert s["state"] == "failed", s
    assert s["exit_code"] == 7, s
    assert "cannot read rows 101 to 101 of /train/x in glyphs.h5" in s["reason"], s
    told = [line for line in errors(r) if "rows 101" in line]  # the other rank may notice that this one is gone
    assert len(told) == 1, said(r)
    assert s["reason"] in told[0], said(r)


def test_schedule_longer_than_the_run(glyphs):
    """A warm-up and a milestone that the run does not reach the end of are told once, with what happens instead."""
    glyphs(64, 16)
    r = train(2, "short", *MLP, *sets(optim__warmup_epochs=4, optim__schedule="step", optim__milestones="[0.5,3]", optim__warmup_from=0))
    assert r.stderr.count("the warm-up takes 4 epochs (optim.warmup_epochs) and the run 1: it ends at a learning rate of 0.0125") == 1, r.stderr
    assert r.stderr.count("optim.milestones: the learning rate does not drop at epoch 3, for the run has 1") == 1, r.stderr
    assert r.stderr.count("optim.milestones: 0.5 lies in the warm-up of 4 epochs") == 1, r.stderr
    r = train(2, "long", *MLP, *sets(optim__warmup_epochs=0.5, optim__schedule="step", optim__milestones="[0.5,0.75]"))
    assert "warm-up" not in r.stderr and "milestones" not in r.stderr, r.stderr
