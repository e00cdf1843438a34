"""Whole runs of AB-training.  Oracles: sync itself where ab must be it, checkpoints, the formulas of docs/methods/ab.md worked
out here, and bit equality of runs that were stopped.
"""
import os

import numpy as np

import pytest
from harness import (arrays, assert_equal, assert_formula, assert_one_error, column, diff, metrics, newest, sets, shoal,
                     status, trace_table, train)

# Three layers that become products between two that stay: 784-40 | 40-36, 36-24, 24-20 | 20-10.
WIDTHS = [784, 40, 36, 24, 20, 10]
LAYERS = list(zip(WIDTHS, WIDTHS[1:]))
CUT = LAYERS[1:-1]
OTHERS = sum(i * o + o for i, o in (LAYERS[0], LAYERS[-1])) + sum(o for _, o in CUT)
MLP = sets(model__name="mlp", model__widths="[40,36,24,20]", optim__name="adamw", optim__lr=0.005, optim__weight_decay=0.01,
           data__file="glyphs.h5", data__global_batch=32, ckpt__keep=100)
AB = sets(method__name="ab", method__warmup=5, method__cycle=6, method__rebound=2, method__ramp=3)
STEPS = 20  # split 5 | reconcile 6, split 8 | 12, 14 | 18, 20: the last split does not happen


def step(name, k):
    return f"runs/{name}/ckpt/step-{k:09d}.h5"


def mode(k, warmup=5, cycle=6, rebound=2):
    """Is step k (from 0) on factors?"""
    on = False
    for done in range(k + 1):
        if done == warmup:
            on = True
        elif done > warmup and done % cycle == 0:
            on = False
        elif done > warmup and done > cycle and done % cycle == rebound:
            on = True
    return on


@pytest.mark.parametrize("optim", ("adamw", "sgd"))
@pytest.mark.parametrize("ranks, topo", ((4, "2x2"), (3, "1,2")))
def test_ab_neutral(glyphs, ranks, topo, optim):
    """With the warm-up as long as the run, ab is sync to the bit: weights, optimizer state, metrics; also at odd rank counts."""
    glyphs(203)
    options = [*MLP, "--topo", topo, *sets(run__epochs=2, optim__name=optim, optim__clip=0.5)]
    train(ranks, "sync", *options)
    r = train(ranks, "ab", *options, *sets(method__name="ab", method__warmup=1000))
    assert "the run is sync" in r.stdout, r.stdout
    a, b = arrays(newest("sync")), arrays(newest("ab"))
    for name in a:
        if not name.startswith("train/seconds"):
            assert name in b
            assert a[name].tobytes() == b[name].tobytes(), f"{name} differs"
    assert column("sync", "step", "train_loss", "test_loss") == column("ab", "step", "train_loss", "test_loss")


def test_ab_phases(glyphs):
    """What checkpoints show of every step: modes by the schedule, the lossless split, what is frozen, groups that differ and
    a model that is always whole; the rate's ramp by its effect (the first step after a transition hardly moves)."""
    glyphs(STEPS * 32)
    options = [*MLP, "--topo", "2x2", *sets(run__epochs=1, ckpt__every="1 steps", trace__level="off")]
    train(4, "sync", *options, *sets(run__steps=5))
    r = train(4, "ab", *options, *AB, *sets(eval__every="1 steps"))
    rates = [float(m["lr"]) for m in metrics("ab")]
    assert rates[4:8] == [0.005, 1e-5, 1e-5, 0.00332667], f"steps 4 to 7, of which 5 and 6 begin ramps: rates {rates}"
    assert_formula(r)
    assert "compression" in r.stdout, r.stdout
    files = {k: arrays(step("ab", k)) for k in range(1, STEPS + 1)}
    whole = arrays(step("sync", 5))
    names = [n for n in whole if n.startswith("model/")]
    for n in names:  # the split changes nothing but rounding
        close = np.abs(files[5][n] - whole[n]).max() / np.abs(whole[n]).max()
        assert close < 1e-5, f"{n}: the split moved it by {close}"
    previous = before = None
    for k, f in files.items():
        on = mode(k) and k < STEPS  # after step k, step k is next
        assert bool(f["method/ab_place"][0]) == on, f"after step {k}: {f['method/ab_place']}"
        assert [f[n].shape for n in names] == [whole[n].shape for n in names], f"step {k}: model"
        if not on:
            previous = None
            continue
        ranks = f["method/ab_ranks"]
        a = sum(max(i, o) * r for (i, o), r in zip(CUT, ranks))
        b = sum(min(i, o) * r for (i, o), r in zip(CUT, ranks))
        assert all(1 <= r <= min(i, o) for (i, o), r in zip(CUT, ranks)), f"{ranks}"
        assert k >= 6 or list(ranks) == [min(i, o) for i, o in CUT], f"the first split cut: {ranks}"
        w = {r: f[f"replica/{r}/ab_weights"] for r in range(4)}
        assert [len(w[r]) for r in range(4)] == [a + b + OTHERS, 0, a + b + OTHERS, 0]
        frozen = {0: w[0][a + OTHERS:], 2: w[2][b + OTHERS:]}  # A on rank 0's group: B lies at the end
        moments = {r: f[f"replica/{r}/ab_exp_avg"][len(w[r]) - len(frozen[r]):] for r in (0, 2)}
        assert len(frozen[0]) == b, "sizes"
        assert len(frozen[2]) == a, "sizes"
        assert not moments[0].any(), f"step {k}: a frozen factor's moments moved"
        assert not moments[2].any(), f"step {k}: a frozen factor's moments moved"
        if previous:
            assert np.array_equal(previous[0], frozen[0]), f"step {k}: frozen moved"
            assert np.array_equal(previous[2], frozen[2]), f"step {k}: frozen moved"
            trained = {0: w[0][:a + OTHERS], 2: w[2][:b + OTHERS]}
            assert not np.array_equal(before[0], trained[0]), f"step {k}: stood still"
            assert not np.array_equal(before[2], trained[2]), f"step {k}: stood still"
        previous, before = frozen, {0: w[0][:a + OTHERS], 2: w[2][:b + OTHERS]}
    # the model of a step on factors, for other programs: whole weights
    shoal("ckpt", "export", step("ab", 10), "-o", "model.h5")
    out = arrays("model.h5")
    assert sorted(out) == sorted(n[6:] for n in names), f"{sorted(out)}"
    assert all(np.array_equal(out[n[6:]], files[10][n]) for n in names), "exported weights"
    r = shoal("ckpt", "export", step("ab", 10), "-o", "model.h5", code=7)
    assert "exists already" in r.stderr, r.stderr
    shoal("ckpt", "export", "absent.h5", "-o", "other.h5", code=7)
    assert not os.path.exists("other.h5"), "a refused export left a file"
    # with-stale by the checkpoints before and after step 12: the step itself moves little, its rate is on the schedule
    move = lambda k: max(np.abs(files[k][n] - files[k - 1][n]).max() for n in names)
    # rate 1e-5
    assert move(7) < 2e-4, f"first step of the ramp moved {move(7)}"
    assert move(11) > 1e-3, f"a step after the ramp moved {move(11)}"


def volumes(ranks):
    a = sum(max(i, o) * r for (i, o), r in zip(CUT, ranks))
    b = sum(min(i, o) * r for (i, o), r in zip(CUT, ranks))
    return a, b, sum(i * o for i, o in CUT)


def expected(name, p, cross, roles, how, last):
    """Bytes by all ranks of a whole run: of ring sums inside nodes and between them, and of broadcasts; ranks of
    every split from checkpoints.  `cross` edges of the ring of p ranks lie between nodes."""
    v_f = sum(i * o for i, o in CUT) + OTHERS
    node = between = sent = 0

    def ring(n, edges_between, q):
        total = 2 * (q - 1) * n * 4
        return total - total * edges_between // q, total * edges_between / q

    for k in range(last):
        f = arrays(step(name, k)) if k else None
        if not mode(k):
            x, y = ring(v_f, cross, p)
            node, between = node + x, between + y
        else:
            a, b, _ = volumes(f["method/ab_ranks"])
            for role, members in roles:
                x, y = ring((a if role == "A" else b) + OTHERS, 0, members)
                node += x
        done = k + 1
        if mode(done) and not mode(done - 1) and done < last:  # split: every factor along the chain of ranks
            a, b, _ = volumes(arrays(step(name, done))["method/ab_ranks"])
            sent += (p - 1) * (a + b) * 4
        if mode(k) and (not mode(done) or done == last):
            a, b, full = volumes(f["method/ab_ranks"])
            n = {"with-stale": a + b + OTHERS, "full": full + OTHERS}[how]
            x, y = ring(n, cross, p)
            node, between = node + x, between + y
    return node, between, sent


def test_ab_bytes(glyphs):
    """Counted payload is the claim on every link, steps on factors send nothing between nodes, and a run's totals over all
    ranks are those worked out here (rings; sizes that the rank count divides are not assumed: sums are exact)."""
    glyphs(STEPS * 32)
    for how in ("with-stale", "full"):
        options = [*MLP, "--topo", "2x2", *AB, *sets(run__epochs=1, run__steps=STEPS, ckpt__every="1 steps",
                                                     method__algorithm="ring", method__mode=how, method__bucket=100,
                                                     method__first_bucket=100)]
        r = train(4, how, *options)
        assert_formula(r)
        table = trace_table(how)
        got = {k: sum(row["links"][k]["payload"] for row in table["ranks"]) for k in ("node", "between")}
        node, between, sent = expected(how, 4, 2, [("A", 2), ("B", 2)], how, STEPS)
        assert got["node"] + got["between"] == node + between + sent, f"{how}: {got}, formula {node} + {between} + {sent}"
        # Edges of a ring carry unequal chunks where p does not divide n; a broadcast crosses once or twice, by its root.
        rounding = 4 * 2 * 2 * 2 * STEPS
        assert between + sent / 3 - rounding <= got["between"] <= between + sent * 2 / 3 + rounding, \
            f"{how}: between {got['between']}, formula {between} and some of {sent}"
    # every rank's own counter, all modes and odd placements: the program compares and must not complain
    for ranks, topo, more in ((3, "1,2", {}), (4, "4x1", {"method__mode": "only-learned"}), (4, "1x4", {}),
                              (4, "2x2", {"method__mode": "only-b"}), (4, "2x2", {"method__mode": "only-b", "method__group": 2}),
                              (4, "4x1", {"method__group": 1, "method__swap": "true"})):
        name = f"r{ranks}{topo.replace(',', '-')}{len(more)}{more.get('method__group', 0)}"
        r = train(ranks, name, *MLP, "--topo", topo, *AB, *sets(run__epochs=1, run__steps=STEPS, **more))
        assert_formula(r)
    # between nodes: a run on factors from the first step to the last reconciles once and splits once
    r = train(4, "silent", *MLP, "--topo", "2x2", *sets(run__epochs=1, run__steps=STEPS, method__name="ab", method__warmup=0,
                                                        method__cycle=100, method__rebound=1, method__algorithm="ring",
                                                        ckpt__every="100 steps"))
    assert "ranks' own models before they become one: mean accuracy" in r.stdout, r.stdout
    a, b, _ = volumes([min(i, o) for i, o in CUT])
    table = trace_table("silent")
    got = sum(row["links"]["between"]["payload"] for row in table["ranks"])
    n = a + b + OTHERS
    sizes = [n // 4 + (k < n % 4) for k in range(4)]
    want = 4 * sum(2 * n - sizes[r] - sizes[(r + 1) % 4] for r in (1, 3))
    assert want + 4 * (a + b) <= got <= want + 8 * (a + b), \
        f"between nodes {got}: the last sum is {want}, the factors {4 * (a + b)}"


def test_ab_resume(glyphs):
    """H12: stop in every phase and resume: same bits.  Then at other rank counts and placements by the rule, and to and from
    sync."""
    glyphs(STEPS * 32 // 2 + 8)  # two epochs, the last batch short
    shoal("data", "synth", "glyphs", "-o", "images.h5", "--train", 176, "--test", 20, "--size", 32, "--seed", 3)
    images = sets(model__name="resnet20", optim__name="sgd", optim__momentum=0.9, optim__lr=0.05, data__file="images.h5",
                  data__global_batch=16, run__epochs=2, method__mode="only-b", method__group=2, optim__schedule="cosine")
    for kind, options, ranks, topo, stops in (
            ("adamw", [*MLP, *sets(run__epochs=2)], 4, "2x2", (3, 6, 9, 16)),
            ("swap", [*MLP, *sets(run__epochs=2, method__swap="true", method__mode="only-learned")], 4, "4x1", (4, 10)),
            ("images", images, 4, "2x2", (4, 9))):
        options = [*options, *AB, "--topo", topo]
        train(ranks, f"{kind}whole", *options)
        for k, stop in enumerate(stops):
            train(ranks, f"{kind}cut", *options, "--allow-faults", *sets(fault__stop_step=stop, fault__rank=k % ranks), code=75)
        train(ranks, f"{kind}cut", *options)
        assert_equal(newest(f"{kind}whole"), newest(f"{kind}cut"), f"{kind}, stopped at {stops}")
    # another number of ranks: the model goes on as it was, split again where the schedule is on factors
    options = [*MLP, *AB, *sets(run__epochs=2)]
    train(4, "moved", *options, "--topo", "2x2", "--allow-faults", *sets(fault__stop_step=9), code=75)
    at = newest("moved")
    for ranks, topo in ((2, "2x1"), (3, "3x1")):
        r = train(ranks, f"to{ranks}", *options, "--topo", topo, "--resume", at, *sets(run__steps=13, ckpt__every="1 steps"))
        assert "split again" in r.stdout, r.stdout
        assert "factors from step 11 on" in r.stdout, r.stdout
        assert "equal to the method's formula" in r.stdout, r.stdout
    # to sync and from it: weights and optimizer state carry over
    train(4, "there", *MLP, "--topo", "2x2", "--resume", at, *sets(run__epochs=2, run__steps=11))
    a, b = arrays(at), arrays(newest("there"))
    assert all(np.array_equal(a[n], b[n]) for n in a if n.startswith("model/")), "the model of sync is that of ab"
    assert np.array_equal(a["replica/0/exp_avg"], b["replica/0/exp_avg"]), "optimizer state"
    train(4, "sync", *MLP, "--topo", "2x2", *sets(run__epochs=2), "--allow-faults", *sets(fault__stop_step=9), code=75)
    r = train(4, "back", *options, "--topo", "2x2", "--resume", newest("sync"))
    assert "another method" in r.stdout, r.stdout
    assert "split at once" in r.stdout, r.stdout


def test_ab_changed(glyphs):
    """Resumed in the same place with other settings: roles that change while the groups are the same, another optimizer, a ramp
    that is under way, a longer run.  The model goes on: at a rate of nothing, and with nothing cut, it stays as it is."""
    glyphs(STEPS * 32)
    options = [*MLP, *AB, "--topo", "2x2", *sets(run__epochs=1, method__group=2)]
    stop = lambda k: ["--allow-faults", *sets(fault__stop_step=k)]

    def moved(before, after):
        a, b = arrays(before), arrays(after)
        return max(np.abs(a[n] - b[n]).max() / np.abs(a[n]).max() for n in a if n.startswith("model/"))

    within = sets(ckpt__every="10 steps")  # between a split and its reconciliation, where a stop does not come
    train(4, "b", *options, *stop(9), *within, *sets(method__mode="only-b"), code=75)
    train(4, "ab", *options, *stop(9), *within, code=75)
    still = sets(optim__lr=1e-30, optim__weight_decay=0, method__cutoff=0, run__steps=12)
    for first, change, roles in (("b", {}, True), ("ab", dict(method__mode="only-b"), True),
                                 ("ab", dict(method__swap="true"), True), ("ab", dict(method__mode="full"), False)):
        name = f"{first}{''.join(change.values())}-now"
        r = train(4, name, *options, *still, *sets(**change), "--resume", step(first, 10))
        assert ("split again" in r.stdout) == roles, f"{first}, then {change}: {r.stdout}"
        assert "DIFFERENT" not in r.stdout, f"{first}, then {change}: {r.stdout}"
        far = moved(step(first, 10), newest(name))
        # modes differ by dA dB
        assert far < (1e-5 if roles else 1e-2), f"{first}, then {change}: the model moved by {far}"
    # another optimizer starts afresh, for factors too
    r = train(4, "sgd", *options, *sets(optim__name="sgd", optim__momentum=0.9), "--resume", newest("ab"))
    assert "the optimizer is reset" in r.stdout, r.stdout
    assert "split again" not in r.stdout, r.stdout
    train(4, "sync", *MLP, "--topo", "2x2", *sets(run__epochs=1, run__steps=2, optim__name="sgd", optim__momentum=0.9))
    sgd = dict(optim__name="sgd", optim__momentum=0.9)
    for optim, words in ((sgd, "weights and optimizer state are used"), ({}, "weights are used")):
        r = train(4, f"from-sync{len(optim)}", *options, *sets(run__steps=4, **optim), "--resume", newest("sync"))
        assert words in r.stdout, f"{optim}: {r.stdout}"
        assert ("optimizer is reset" in r.stdout) != bool(optim), f"{optim}: {r.stdout}"
    # full rank after a reconciliation, at a rate that is still small: another number of ranks goes on along the ramp
    ramp = sets(method__ramp=1000, method__rebound=4)
    train(4, "ramp", *options, *ramp, *stop(6), code=75)
    train(2, "two", *options[:-4], *ramp, "--topo", "2x1", *sets(run__epochs=1, run__steps=9), "--resume", newest("ramp"))
    far = moved(newest("ramp"), newest("two"))
    assert 0 < far < 1e-3, f"a step at the foot of the ramp moved {far}"
    # stopped after the very last step, where no split comes: nothing is left to do
    train(4, "whole", *options)
    train(4, "last", *options, *stop(STEPS - 2), code=75)
    assert status("last")["step"] == STEPS, f'{status("last")}'
    train(4, "last", *options)
    assert_equal(newest("whole"), newest("last"), "stopped after the last step")
    # batches of another size: fewer steps than were done already would fill the run, yet it goes on as the schedule says
    train(4, "batch", *options, *sets(run__epochs=2), *stop(22), code=75)  # 24 steps, 4 of 128 to come
    r = train(4, "batch", *options, *sets(run__epochs=2, data__global_batch=128))
    assert "factors from step 26 on" in r.stdout, r.stdout
    assert status("batch")["step"] == 28, r.stdout
    # a longer run keeps the schedule of the first, and says so
    own = [*MLP, "--topo", "2x2", *sets(method__name="ab")]
    train(4, "long", *own, *sets(run__epochs=1, run__steps=3))
    r = train(4, "long", *own, *sets(run__epochs=20), *stop(4), code=75)
    assert "reconciled (with-stale) every 10," in r.stdout, r.stdout


def test_ab_only_b(glyphs):
    """only-b with one group is training of B alone with the global batch: the same at 1 and 4 ranks, to rounding; a cap and a
    first cut keep factors small; a run on factors has a compression."""
    glyphs(STEPS * 32)
    options = [*MLP, *AB, *sets(run__epochs=1, method__mode="only-b", optim__name="sgd",
                                optim__momentum=0.9, optim__lr=0.02)]
    train(1, "one", *options)
    train(4, "four", *options)
    r = diff(newest("one"), newest("four"), "--only", "model/", "--tolerance", "1e-3")
    assert r.returncode == 0, r.stdout
    cut = sets(method__mode="with-stale", method__cut_first="true", method__cutoff=0.5, method__cap="true")
    r = train(4, "small", *options, *cut)
    assert "compression 1." in r.stdout, r.stdout
    # The start that the authors give every run, baselines too: all singular values of every matrix are 1.
    for method in ("sync", "ab"):
        train(2, f"start-{method}", *MLP, *sets(method__name=method, run__epochs=1, run__steps=1, optim__lr=1e-30,
                                                optim__weight_decay=0, model__orthogonal="true"))
        x = arrays(newest(f"start-{method}"))
        for n in (n for n in x if n.startswith("model/") and x[n].ndim > 1):
            sigma = np.linalg.svd(x[n].astype(float), compute_uv=False)
            assert abs(sigma - 1).max() < 1e-5, f"{method}: {n} starts with singular values {sigma.min()} to {sigma.max()}"
    a, b = arrays(newest("start-sync")), arrays(newest("start-ab"))
    assert all(a[n].tobytes() == b[n].tobytes() for n in a if n.startswith("model/")), "sync and ab start from different weights"


BAD = (  # ranks, layout, options, and what must be said
    (1, [], [], ["two groups", "only-b"]),
    (2, [], sets(method__group=2), ["two groups", "method.group"]),
    (2, [], sets(method__group=3), ["method.group", "3", "-1 for two halves"]),
    (3, ["--topo", "1,1,1"], sets(method__group=0, method__cycle=1), ["method.cycle"]),
    (2, [], sets(method__cycle=5, method__rebound=5), ["method.rebound"]),
    (5, ["--topo", "2,2,1"], [], ["2 and 1 ranks"]),
    (2, [], sets(method__exempt="[fc9]"), ["fc9", "did you mean"]),
    (2, [], sets(model__widths="[20]"), ["no layer", "method.exempt"]),
    (2, [], sets(model__widths="[1,1]"), ["no layer", "choose a wider model"]),
    (2, [], sets(method__mode="only-b", method__swap="true"), ["method.swap"]),
    (2, [], sets(method__mode="with-stael"), ["with-stale"]),
)


@pytest.mark.parametrize("ranks, topo, extra, words", BAD)
def test_ab_refused(glyphs, ranks, topo, extra, words):
    """What cannot work is refused before step 1, in one line with the cure."""
    glyphs(320)
    r = train(ranks, "bad", *MLP, *sets(method__name="ab", run__epochs=1), *topo, *extra, code=2)
    assert_one_error(r, *words)


def test_ab_alone(glyphs):
    """`ab` alone is a sensible run, also on nodes of different size."""
    base = [*MLP, *sets(method__name="ab")]
    glyphs(320)
    train(4, "uneven", *base, "--topo", "2,1,1", *sets(run__epochs=1))
    glyphs(1280)
    for ranks in (2, 4):
        r = train(ranks, f"alone{ranks}", *base, *sets(run__epochs=2))
        assert status(f"alone{ranks}")["state"] == "done", r.stdout
        assert "compression" in r.stdout, r.stdout
