"""Whole runs of method `local`.  Oracles: the one-process reference (local_oracle.c), `shoal ckpt diff`, and formulas
worked out here.  Rows are those of docs/methods/local.md, "What is tested".
"""
import os
import re

import h5py
import numpy as np

import pytest
from harness import (assert_differ, assert_equal, assert_formula, assert_one_error, built, column, diff, metrics, newest,
                     random_source, run, said, sets, shoal, status, trace_table, train)

LOCAL = sets(method__name="local", data__file="glyphs.h5", optim__lr=0.05, optim__momentum=0.9, threads=1)
DEEP = [*LOCAL, *sets(model__name="mlp", model__widths="[48,40,32,24]", model__dropout=0.2, data__global_batch=50)]
RESNET8 = [*LOCAL, *sets(model__name="resnet20", model__dropout=0.2, data__augment="[crop4,hflip]", data__global_batch=16)]


def oracle_command(name, model, options, head, form, cut, batch, steps, augment):
    """local_oracle.c trains the same in one process and compares with the newest checkpoint of a run."""
    return [built("train.local.oracle_program"), newest(name), "glyphs.h5", model, options, head, form, cut, batch, steps,
            "0.05", "0.9", "1", int(augment)]


def oracle(*args):
    run(oracle_command(*args))


def test_local_oracle(glyphs):
    """2 and 4 ranks, queues of 1, 2 and 8, ranks that sleep at random: the oracle's bits."""
    glyphs(230)
    delays = ["--allow-faults", *sets(fault__jitter=4)]
    for ranks, cut in ((2, "2"), (4, "1,2,3")):
        for queue in (1, 2, 8):
            name = f"mlp{ranks}q{queue}"
            pieces = sets(comm__max_message=1000) if queue == 8 else []  # of several messages in flight at a time
            r = train(ranks, name, *DEEP, *delays, *pieces, *sets(method__cut=f"[{cut}]", method__queue=queue, run__epochs=3))
            assert_formula(r)
            oracle(name, "mlp", "model.widths=[48,40,32,24] model.dropout=0.2", "linear", "chunked", cut, 50, 15, False)


def test_local_residual(glyphs):
    """The same for resnet20 with MLP-SR heads, batch norm, augmentation and dropout; an oracle of fewer steps differs."""
    glyphs(40, 20, 32)
    for ranks, cut, queue in ((2, "4", 1), (4, "2,5,8", 8)):
        name = f"res{ranks}"
        train(ranks, name, *RESNET8, "--allow-faults",
              *sets(method__cut=f"[{cut}]", method__queue=queue, run__epochs=2, fault__jitter=30))
        oracle(name, "resnet20", "model.dropout=0.2", "mlp-sr", "chunked", cut, 16, 6, True)
    r = run(oracle_command("res2", "resnet20", "model.dropout=0.2", "mlp-sr", "chunked", "4", 16, 5, True), code=1)
    assert "differ" in r.stderr, f"the oracle cannot fail {r.stdout} {r.stderr}"


def test_local_forms(glyphs):
    """Greedy and overlapping against the oracle; copies of shared layers stay equal (row 12), at any number of ranks."""
    glyphs(230)
    options, layers = "model.widths=[48,40,32,24] model.dropout=0.2", 4
    for form, ranks in (("greedy", layers), ("overlapping", layers - 1)):
        train(ranks, form, *DEEP, "--allow-faults",
              *sets(method__form=form, method__queue=8, method__head="nokland", run__epochs=3, fault__jitter=4))
        oracle(form, "mlp", options, "nokland", form, "", 50, 15, False)
        for fewer in (1, 2):
            train(fewer, f"{form}-{fewer}", *DEEP, *sets(method__form=form, method__head="nokland", run__epochs=3))
            same(form, f"{form}-{fewer}", f"{form} on {ranks} and {fewer} ranks")
    # Averaged parameters are another method, and also leave copies equal.
    train(3, "q", *DEEP, *sets(method__form="overlapping", method__average="parameters", run__epochs=1))
    train(1, "r", *DEEP, *sets(method__form="overlapping", method__average="parameters", run__epochs=1))
    same("q", "r", "averaged parameters on 3 ranks and 1")
    check_copies("q", 3)
    check_copies("overlapping", 3)
    # Clipped: each block has a norm of its own, copies still get one gradient.
    for average in ("gradients", "parameters"):
        for ranks in (3, 1):
            train(ranks, f"{average}{ranks}", *DEEP,
                  *sets(method__form="overlapping", method__average=average, optim__clip=0.3, run__epochs=1))
        same(f"{average}3", f"{average}1", f"clipped, {average} averaged, on 3 ranks and 1")
        check_copies(f"{average}3", 3)
    glyphs(40, 20, 32)
    train(4, "o", *RESNET8, *sets(method__form="overlapping", run__epochs=1))
    train(2, "p", *RESNET8, *sets(method__form="overlapping", run__epochs=1))
    same("o", "p", "overlapping resnet20 on 4 and 2 ranks")


def same(a, b, what):
    """The model and every head's accuracy, to the bit."""
    assert_equal(newest(a), newest(b), f"{what}: models differ", "model/")
    shown = re.compile("head_acc.*|test_acc|train_loss|step")
    heads = [[{k: v for k, v in m.items() if shown.fullmatch(k)} for m in metrics(n)] for n in (a, b)]
    assert heads[0], f"{what}: no metrics"
    assert heads[0] == heads[1], f"{what}: metrics differ"


def check_copies(name, blocks):
    """MLP [48,40,32,24] on 784 inputs: block j's upper layer and block j+1's lower layer hold the same bits."""
    widths = [784, 48, 40, 32, 24]
    size = [o * i + o for i, o in zip(widths, widths[1:])]
    with h5py.File(newest(name)) as f:
        weights = [f[f"replica/{k}/weights"][:] for k in range(blocks)]
    for k in range(blocks - 1):
        upper, lower = weights[k][size[k]:size[k] + size[k + 1]], weights[k + 1][:size[k + 1]]
        assert upper.tobytes() == lower.tobytes(), f"{name}: copies of layer {k + 2} differ"


def test_local_neutral(glyphs):
    """Row 1: one chunk is plain back-propagation, the bits of sync, alone and as replicas.  Row 10: a later cut does not
    reach back across a boundary.  Row 17: the network does without its heads."""
    glyphs(230)
    plain = sets(model__name="mlp", model__widths="[48,40,32,24]", model__dropout=0.2, data__file="glyphs.h5", optim__lr=0.05,
                 optim__momentum=0.9, data__global_batch=50, run__epochs=2, optim__clip=0.5, threads=1)
    for ranks in (1, 3):
        train(ranks, f"sync{ranks}", *plain)
        train(ranks, f"one{ranks}", *plain, *sets(method__name="local", method__chunks=1))
        assert_equal(newest(f"sync{ranks}"), newest(f"one{ranks}"), f"one chunk on {ranks} ranks is not sync", "model/")
        assert column(f"sync{ranks}", "test_acc") == column(f"one{ranks}", "test_acc")
    train(2, "a", *plain, *sets(method__name="local", method__cut="[2]"))
    train(3, "b", *plain, *sets(method__name="local", method__cut="[2,3]"))
    for layer in ("fc1", "fc2"):
        assert_equal(newest("a"), newest("b"), f"{layer} changed with what comes behind it", f"model/{layer}.")
    assert_differ(newest("a"), newest("b"), "another cut is another training", "--only", "model/fc3.")
    assert column("a", "head_acc_2") == column("a", "test_acc")
    assert ("",) not in column("a", "head_acc_1")


def test_local_heads(glyphs):
    """Accuracies of all heads, computed here in double from the checkpoint: a block per rank, and replicas that share the test
    split unevenly.  Every kind of head behind every kind of network is trained and scored."""
    glyphs(230, 97)
    with h5py.File("glyphs.h5") as f:
        x, y = f["test/x"][()].reshape(97, -1).astype(float), f["test/y"][()]
        x = (x - f.attrs["mean"][0]) / f.attrs["std"][0]
    for ranks, cut in ((4, [1, 2, 3]), (4, [2]), (3, [1, 3])):
        name = f"heads{ranks}{len(cut)}"
        train(ranks, name, *DEEP, *sets(method__cut=f"[{','.join(map(str, cut))}]", method__head="linear", run__epochs=3))
        row = metrics(name)[-1]
        with h5py.File(newest(name)) as f:
            layer = [(f[f"model/fc{k}.weight"][()].astype(float), f[f"model/fc{k}.bias"][()].astype(float)) for k in range(1, 6)]
            arenas = [f[f"replica/{k}/weights"][()].astype(float) for k in range(ranks)]
        h, first = x, 0
        for k in range(4):
            h = np.maximum(h @ layer[k][0].T + layer[k][1], 0)
            if k + 1 not in cut:
                continue
            w, n = layer[first][0].ravel(), 10 * (h.shape[1] + 1)
            heads = {a[-n:].tobytes(): a[-n:] for a in arenas if np.array_equal(a[:w.size], w)}
            assert len(heads) == 1, f"{name}: {len(heads)} different heads behind layer {k + 1}"
            head, block, first = list(heads.values())[0], cut.index(k + 1) + 1, k + 1
            score = ((h @ head[:n - 10].reshape(10, -1).T + head[n - 10:]).argmax(1) == y).mean()
            got = float(row[f"head_acc_{block}"])
            assert abs(got - score) < 1e-6, f"{name}: head {block} scores {got}, by the checkpoint {score}"
        own = ((h @ layer[4][0].T + layer[4][1]).argmax(1) == y).mean()
        assert abs(float(row[f"head_acc_{len(cut) + 1}"]) - own) < 1e-6, f"{row} {own}"
        assert row[f"head_acc_{len(cut) + 1}"] == row["test_acc"], f"{row} {own}"
    # The last head is the network's own also where test batches normalise themselves.
    train(2, "own", *DEEP, *sets(model__norm="batch", method__chunks=2, eval__batch_norm="batch", eval__batch=20, run__epochs=2))
    assert all(m["head_acc_2"] == m["test_acc"] for m in metrics("own")), f'{metrics("own")}'
    glyphs(24, 10, 32)
    for model in ("mlp", "vgg16", "resnet20"):
        for head in ("linear", "mlp-sr", "nokland"):
            options = [*LOCAL, *sets(model__name=model, data__global_batch=12, method__chunks=3, method__head=head)]
            options += {"mlp": sets(model__widths="[20,16,12]"), "vgg16": sets(model__width=0.08)}.get(model, [])
            train(3, f"{model}-{head}", *options, *sets(run__epochs=2))
            last = metrics(f"{model}-{head}")[-1]
            assert all(0 <= float(last[f"head_acc_{k}"]) <= 1 for k in (1, 2, 3)), f"{last}"
            assert float(last["train_loss"]) < 10, f"{last}"


def test_local_replicas(glyphs):
    """Row 13: two replicas of half a batch equal one of the whole batch to rounding; any order of ranks; short batches."""
    glyphs(230)
    for ranks, topo, count in ((2, "1x2", 1), (4, "2x2", 2), (4, "1x4", 2), (3, "3x1", 3), (4, "1,2,1", 0)):
        name = f"r{ranks}{count}{topo.replace(',', '-')}"
        cut = sets(method__chunks=2) if count != 3 else sets(method__chunks=1)
        r = train(ranks, name, *DEEP, *cut, "--topo", topo, *sets(method__replicas=count, run__epochs=3, model__dropout=0))
        assert_formula(r)
    for other in ("r422x2", "r421x4", "r401-2-1"):
        assert_equal(newest("r211x2"), newest(other), f"{other} is not the run on two ranks to 1e-5", "model/", tolerance=1e-5)
    # 230 samples, 5 replicas of 47: the last batch of 42 still gives each some; of 9 per step some have none.
    assert_formula(train(4, "none", *DEEP, *sets(method__chunks=1, data__global_batch=57, run__epochs=2)))
    train(4, "empty", *DEEP, *sets(method__chunks=2, data__global_batch=229, run__epochs=2))  # the last batch has one sample
    train(2, "full", *DEEP, *sets(method__chunks=2, data__global_batch=229, run__epochs=2))
    assert_equal(newest("empty"), newest("full"), "a replica without samples", "model/", tolerance=1e-5)


def test_local_bytes(glyphs):
    """Row 14: header, activations and labels, forward only, on the right links; overlapping adds its shared layers."""
    glyphs(230)
    batches = [50, 50, 50, 50, 30]

    def message(n, width):
        return 64 + n * (4 * width + 4)

    for topo, between in (("2x2", [1]), ("4x1", [0, 1, 2]), ("1x4", [])):
        name = "b" + topo
        train(4, name, *DEEP, "--topo", topo, *sets(method__cut="[1,2,3]", run__epochs=2))
        rows = trace_table(name)["ranks"]
        for row in rows:
            rank = row["rank"]
            sent = 2 * sum(message(n, [48, 40, 32][rank]) for n in batches) if rank < 3 else 0
            link = "between" if rank in between else "node"
            got = {k: row["links"][k]["payload"] for k in ("node", "between")}
            assert got[link] == sent, f"{name} rank {rank}: {got}, formula {sent} on {link}"
            assert sum(got.values()) == sent, f"{name} rank {rank}: {got}, formula {sent} on {link}"
    train(3, "o", *DEEP, "--topo", "3x1", *sets(method__form="overlapping", run__epochs=2))
    widths = [784, 48, 40, 32, 24]
    size = [4 * (o * i + o) for i, o in zip(widths, widths[1:])]
    for row in trace_table("o")["ranks"]:
        rank = row["rank"]
        shared = (size[rank] if rank > 0 else 0) + (size[rank + 1] if rank < 2 else 0)
        sent = 2 * sum(shared + (message(n, widths[rank + 1]) if rank < 2 else 0) for n in batches)
        assert row["links"]["between"]["payload"] == sent, f"overlapping rank {rank} {row['links']['between']} {sent}"


def test_local_resume(glyphs):
    """H12: stop at random steps with minibatches on their way, resume: the bits of an uninterrupted run, all of them."""
    glyphs(40, 20, 32)
    options = [*RESNET8, *sets(method__cut="[3,6]", method__queue=2, run__epochs=8, optim__schedule="cosine")]  # 24 steps
    train(3, "whole", *options)
    rng = random_source("local resume")
    first = rng.randrange(0, 6)
    print("stop asked for in step", first)
    stop = sets(fault__stop_step=first, fault__rank=rng.randrange(3), fault__jitter=5)
    train(3, "cut", *options, "--allow-faults", *stop, code=75)
    assert first < status("cut")["step"] <= first + 2 * 9, f'{status("cut")}'
    train(3, "cut", *options, "--allow-faults", *sets(fault__jitter=5))
    assert_equal(newest("whole"), newest("cut"), f"stopped at {first}")
    shown = ("step", "train_loss", "test_acc", "head_acc_1", "head_acc_2")
    assert column("cut", *shown) == column("whole", *shown)
    # Elsewhere, the blocks as they were: nothing is lost, so the same bits again; without method.cut in the run file, too.
    for ranks in (1, 2):
        name = f"moved{ranks}"
        train(3, name, *options, "--allow-faults", *sets(fault__stop_step=first), code=75)
        r = train(ranks, name, *RESNET8, *sets(run__epochs=8, optim__schedule="cosine"))
        assert "of the 2 heads 2 are kept" in r.stdout, r.stdout
        same("whole", name, f"3 ranks, then {ranks}")


def test_local_recut(glyphs):
    """Another cut, another method: the network goes on, heads that have the same place too, and the run reports what is lost."""
    glyphs(230)
    stop = ["--allow-faults", *sets(fault__stop_step=2)]
    long = sets(run__epochs=10)
    train(3, "recut", *DEEP, *long, *sets(method__cut="[1,3]"), *stop, code=75)
    r = train(2, "recut", *DEEP, *long, *sets(method__cut="[3]"))
    assert "of the 1 heads 1 are kept" in r.stdout, r.stdout
    assert "optimizer state" in r.stdout, r.stdout
    train(2, "kind", *DEEP, *long, *sets(method__cut="[2]"), *stop, code=75)  # auto is linear here
    r = train(2, "kind", *DEEP, *long, *sets(method__cut="[2]", method__head="linear"))
    assert "of the 1 heads 1 are kept" in r.stdout, r.stdout
    late = ["--allow-faults", *sets(fault__stop_step=9)]  # after the first row
    train(3, "again", *DEEP, *long, *sets(method__cut="[1,3]"), *late, code=75)
    r = train(2, "again", *DEEP, *long, *sets(method__cut="[2]"))
    assert "of the 1 heads 0 are kept, 1 are initialised" in r.stdout, r.stdout
    # Three heads, then two: numbers stay under their names.
    rows = metrics("again")
    assert [len(m) for m in rows] == [9 + 3] * 10, f"{rows}"
    assert all(m["head_acc_3"] == m["test_acc"] for m in rows if m["head_acc_3"]), f"{rows}"
    assert rows[0]["head_acc_3"], f"{rows}"
    assert all(m["head_acc_2"] == m["test_acc"] for m in rows if not m["head_acc_3"]), f"{rows}"
    assert not rows[-1]["head_acc_3"], f"{rows}"
    plain = sets(model__name="mlp", model__widths="[48,40,32,24]", model__dropout=0.2, data__file="glyphs.h5", optim__lr=0.05,
                 optim__momentum=0.9, data__global_batch=50, run__epochs=10, threads=1)
    train(2, "from", *plain, *stop, code=75)  # sync
    r = train(2, "from", *DEEP, *sets(method__cut="[2]", run__epochs=10))
    assert "method sync" in r.stdout, r.stdout
    assert "of the 1 heads 0 are kept" in r.stdout, r.stdout
    assert "weights, optimizer state" in r.stdout, r.stdout
    train(2, "to", *DEEP, *long, *sets(method__cut="[2]"), *stop, code=75)
    r = train(2, "to", *plain)  # and back to sync
    assert "the layout changed" in r.stdout, r.stdout
    assert "method local" in r.stdout, r.stdout
    # One chunk is sync: a run that changes over and back keeps the bits of sync.
    train(1, "s", *plain)
    train(1, "t", *plain, "--allow-faults", *sets(fault__stop_step=20), code=75)
    train(1, "t", *plain, *sets(method__name="local", method__chunks=1))
    assert_equal(newest("s"), newest("t"), "sync, then one chunk", "model/")


def test_local_replay(glyphs):
    """Replay buffers: the first stage trains as if alone, bytes equal the formula, use and age are told; stops at any moment
    resume, also before anything has come; with a limit on uses nobody waits for ever."""
    glyphs(230)
    options = [*DEEP, *sets(method__cut="[1,3]", data__global_batch=10)]
    train(3, "step", *options, *sets(run__epochs=3))
    for name, slow, more in (("behind", 2, {}), ("ahead", 0, {}), ("once", 0, {"method.max_uses": 2})):
        extra = [x for k, v in more.items() for x in ("--set", f"{k}={v}")]
        r = train(3, name, *options, *extra, "--allow-faults",
                  *sets(method__replay=3, run__epochs=3, fault__compute="sleep:4", fault__rank=slow), timeout=100)
        assert_formula(r)
        assert_equal(newest("step"), newest(name), f"{name}: the first stage depends on others", "model/fc1.")
        assert name != "behind" or diff(newest("step"), newest(name), "--only", "model/fc5.").returncode == 7, "the last does not"
        last = metrics(name)[-1]
        uses, age, unused = (float(last[k]) for k in ("replay_uses", "replay_age", "replay_unused"))
        assert uses > 0, f"{last}"
        assert age >= 0, f"{last}"
        assert 0 <= unused <= 1, f"{last}"
        assert name != "behind" or unused + float(last["replay_left_out"]) > 0.2, f"a slow stage leaves nothing out {last}"
        assert name != "ahead" or unused > 0.2, f"stages that ran ahead used all that came {last}"
        assert name != "once" or uses <= 1, f"more uses than allowed {last}"
        train(3, name + "-cut", *options, *extra, "--allow-faults",
              *sets(method__replay=3, run__epochs=3, fault__stop_step=0 if name == "ahead" else 9, fault__rank=1),
              code=75, timeout=100)
        train(3, name + "-cut", *options, *extra, *sets(method__replay=3, run__epochs=3), timeout=100)
        assert status(name + "-cut")["step"] == 69, f'{status(name + "-cut")}'
    # Replicas behind buffers take turns together, with or without something to train on.
    train(4, "two", *options, *sets(method__cut="[2]", method__replay=2, method__max_uses=2, run__epochs=2), timeout=100)
    # They also go to meetings together, which the ranks of another stage call at any time.
    for name, code, more in (("meet", 0, {}), ("stop", 75, dict(fault__stop_step=11, fault__rank=3))):
        train(4, name, *options, "--allow-faults", code=code, timeout=100,
              *sets(method__cut="[2]", method__replay=3, run__epochs=3, eval__every="2 steps", ckpt__every="3 steps",
                    comm__warn="3s", comm__hang="10s", fault__jitter=3, **more))
    assert status("meet")["step"] == 69, f"{status('meet')} {len(metrics('meet'))}"
    assert len(metrics("meet")) >= 30, f"{status('meet')} {len(metrics('meet'))}"


def test_local_measured(glyphs):
    """A measured cut is made once: printed so that it can be repeated, and kept over a stop."""
    glyphs(40, 20, 32)
    for chunks in (0, 3):
        name = f"m{chunks}"
        options = [*RESNET8, *sets(method__balance="measured", method__head="linear", method__chunks=chunks, run__epochs=8)]
        r = train(3, name, *options, "--allow-faults", *sets(fault__stop_step=1), code=75)
        cut = re.search(r"method.cut \[(\d+, \d+)\]", r.stdout)
        assert cut, r.stdout
        r = train(3, name, *options)
        assert "chunks by measured" not in r.stdout, r.stdout
        assert "the layout changed" not in r.stdout, r.stdout
        train(3, f"n{chunks}", *RESNET8, *sets(method__cut=f"[{cut.group(1)}]", method__head="linear", run__epochs=8))
        assert_equal(newest(name), newest(f"n{chunks}"), "the same cut by hand", "model/")


def test_local_ends(glyphs):
    """A NaN in any stage, a killed rank, a signal to any rank: exit codes and checkpoints as everywhere."""
    glyphs(230)
    options = [*DEEP, *sets(method__cut="[1,2,3]", data__global_batch=10, ckpt__every="3 steps")]
    for rank in (0, 3):
        name = f"nan{rank}"
        train(4, name, *options, "--allow-faults", *sets(fault__nan_step=30, fault__rank=rank), code=6)
        shoal("ckpt", "verify", newest(name))
        assert int(newest(name)[-12:-3]) <= 32, f"{newest(name)} {status(name)}"
        assert status(name)["exit_code"] == 6, f"{newest(name)} {status(name)}"
    # A head may be the first to have no number: a checkpoint with it would push out the good one.
    for ranks in (4, 2):
        name = f"head{ranks}"
        train(ranks, name, *options, "--allow-faults", *sets(fault__nan_step=29), code=6)
        assert newest(name).endswith("27.h5"), f"{newest(name)} {status(name)}"
        assert "rank 0, the gradient of head.fc.bias is not finite at step 29" in status(name)["reason"], f"{newest(name)} {status(name)}"
    train(4, "whole", *options, *sets(run__epochs=3))
    r = train(4, "killed", *options, "--allow-faults", *sets(run__epochs=3, fault__kill_step=20, fault__rank=2), code=None,
              timeout=60)
    assert r.returncode != 0, "a killed rank"
    train(4, "killed", *options, *sets(run__epochs=3))
    assert_equal(newest("whole"), newest("killed"), "after a kill")


NORM = sets(model__norm="batch", method__chunks=2)
BAD = (  # ranks, what must be said, options
    (1, r"method.chunks is 9.*4 layers", sets(method__chunks=9)),
    (1, r"unit 4; units must rise", sets(method__cut="[4]")),
    (1, r"unit 2; units must rise", sets(method__cut="[2,2]")),
    (1, r"names 4 units, but mlp has 4 layers: name 3 at most", sets(method__cut="[1,2,3,4]")),
    (1, r"both set", sets(method__cut="[2]", method__chunks=2)),
    (1, r"method.chunks does nothing with method.form greedy", sets(method__form="greedy", method__chunks=2)),
    (1, r"method.replay needs", sets(method__form="overlapping", method__replay=3)),
    (1, r"max_uses is 1", sets(method__replay=3, method__max_uses=1)),
    (4, r"method.replicas is 3", sets(method__replicas=3)),
    (4, r"4 stages, but there are 2 blocks", sets(method__chunks=2, method__replicas=1)),
    (4, r"layer norm1: .* one value per channel", [*NORM, *sets(data__global_batch=2)]),
    (4, r"last batch leaves 1 sample for a rank.*data.last", [*NORM, *sets(data__global_batch=76)]),
)


@pytest.mark.parametrize("ranks, pattern, options", BAD)
def test_local_refused(glyphs, ranks, pattern, options):
    """Impossible settings are refused in one line with the cure, and nothing is written."""
    glyphs(230)
    r = train(ranks, "no", *DEEP, *options, code=2)
    texts = re.findall(r"shoal: error: (.*)", r.stderr)
    assert len(texts) == (2 if pattern.startswith("layer norm") else 1), said(r)  # each of the two stages has its own layer
    assert len(set(texts)) == len(texts), said(r)
    assert re.search(pattern, r.stderr), r.stderr
    assert not os.path.exists("runs/no/metrics.csv"), "something was written"


def test_local_alone(glyphs):
    """An impossible run name is refused once; `local` alone is a sensible run at any number of ranks."""
    glyphs(230)
    assert_one_error(train(3, "no=1", *DEEP, code=2))
    for ranks in (1, 2, 3, 4):
        train(ranks, f"alone{ranks}",
              *sets(model__name="mlp", model__widths="[48,40,32]", method__name="local", data__file="glyphs.h5"))
        last = metrics(f"alone{ranks}")[-1]
        assert float(last.get("head_acc_1") or last["test_acc"]) > 0.5, f"{last}"
