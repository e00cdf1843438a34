#!/usr/bin/env python3
"""Whole runs with method ab under mpirun, one case per ctest entry: ab_cases.py SHOAL CASE

The harness is that of train_cases.py.  Oracles: sync itself where ab must be it, checkpoints read with h5py, the spec's
formulas worked out here, and bit equality of runs that were stopped.
"""
import json
import sys

sys.dont_write_bytecode = True  # nothing is written beside the sources
import train_cases as t
from train_cases import check, check_equal, diff, glyphs, newest, sets, shoal, status, train

# Three layers that become products between two that stay: 784-40 | 40-36, 36-24, 24-20 | 20-10.
WIDTHS = [784, 40, 36, 24, 20, 10]
LAYERS = list(zip(WIDTHS, WIDTHS[1:]))
CUT = LAYERS[1:-1]
OTHERS = sum(i * o + o for i, o in (LAYERS[0], LAYERS[-1])) + sum(o for _, o in CUT)
MLP = sets(model__name="mlp", model__widths="[40,36,24,20]", optim__name="adamw", optim__lr=0.005, optim__weight_decay=0.01,
           data__file="glyphs.h5", data__global_batch=32, ckpt__keep=100)
AB = sets(method__name="ab", method__warmup=5, method__cycle=6, method__rebound=2, method__ramp=3)
STEPS = 20  # split 5 | reconcile 6, split 8 | 12, 14 | 18, 20: the last split does not happen


def arrays(path):
    import h5py
    with h5py.File(path) as f:
        out = {}
        f.visititems(lambda name, d: out.__setitem__(name, d[()]) if isinstance(d, h5py.Dataset) else None)
    return out


def step(name, k):
    return f"runs/{name}/ckpt/step-{k:09d}.h5"


def mode(k, warmup=5, cycle=6, rebound=2):
    """Section 5, step 7: is step k (from 0) on factors?"""
    on = False
    for done in range(k + 1):
        if done == warmup:
            on = True
        elif done > warmup and done % cycle == 0:
            on = False
        elif done > warmup and done > cycle and done % cycle == rebound:
            on = True
    return on


def case_ab_neutral():
    """With the warm-up as long as the run, ab is sync to the bit: weights, optimizer state, metrics; also at odd rank counts."""
    glyphs(203)
    for ranks, topo in ((4, "2x2"), (3, "1,2")):
        for optim in ("adamw", "sgd"):
            options = [*MLP, "--topo", topo, *sets(run__epochs=2, optim__name=optim, optim__clip=0.5)]
            train(ranks, f"sync{ranks}{optim}", *options)
            r = train(ranks, f"ab{ranks}{optim}", *options, *sets(method__name="ab", method__warmup=1000))
            check("the run is sync" in r.stdout, r.stdout)
            a, b = arrays(newest(f"sync{ranks}{optim}")), arrays(newest(f"ab{ranks}{optim}"))
            for name in a:
                if not name.startswith("train/seconds"):
                    check(name in b and a[name].tobytes() == b[name].tobytes(), f"{ranks} ranks, {optim}: {name} differs")
            rows = [[(m["step"], m["train_loss"], m["test_loss"]) for m in t.metrics(f"{n}{ranks}{optim}")] for n in ("sync", "ab")]
            check(rows[0] == rows[1], rows)


def case_ab_phases():
    """What checkpoints show of every step: modes by the schedule, the lossless split, what is frozen, groups that differ and
    a model that is always whole; the rate's ramp by its effect (the first step after a transition hardly moves)."""
    import numpy as np
    glyphs(STEPS * 32)
    options = [*MLP, "--topo", "2x2", *sets(run__epochs=1, ckpt__every="1 steps", trace__level="off")]
    train(4, "sync", *options, *sets(run__steps=5))
    r = train(4, "ab", *options, *AB, *sets(eval__every="1 steps"))
    rates = [float(m["lr"]) for m in t.metrics("ab")]
    check(rates[4:8] == [0.005, 1e-5, 1e-5, 0.00332667], f"steps 4 to 7, of which 5 and 6 begin ramps: rates {rates}")
    check("equal to the method's formula" in r.stdout and "DIFFERENT" not in r.stdout, r.stdout)
    check("compression" in r.stdout, r.stdout)
    files = {k: arrays(step("ab", k)) for k in range(1, STEPS + 1)}
    whole = arrays(step("sync", 5))
    names = [n for n in whole if n.startswith("model/")]
    for n in names:  # the split changes nothing but rounding
        close = np.abs(files[5][n] - whole[n]).max() / np.abs(whole[n]).max()
        check(close < 1e-5, f"{n}: the split moved it by {close}")
    previous = None
    for k, f in files.items():
        on = mode(k) and k < STEPS  # after step k, step k is next
        check(bool(f["method/ab_place"][0]) == on, f"after step {k}: {f['method/ab_place']}")
        check([f[n].shape for n in names] == [whole[n].shape for n in names], f"step {k}: model")
        if not on:
            previous = None
            continue
        ranks = f["method/ab_ranks"]
        a = sum(max(i, o) * r for (i, o), r in zip(CUT, ranks))
        b = sum(min(i, o) * r for (i, o), r in zip(CUT, ranks))
        check(all(1 <= r <= min(i, o) for (i, o), r in zip(CUT, ranks)), ranks)
        check(k >= 6 or list(ranks) == [min(i, o) for i, o in CUT], f"the first split cut: {ranks}")
        w = {r: f[f"replica/{r}/ab_weights"] for r in range(4)}
        check([len(w[r]) for r in range(4)] == [a + b + OTHERS, 0, a + b + OTHERS, 0], {r: len(w[r]) for r in w})
        frozen = {0: w[0][a + OTHERS:], 2: w[2][b + OTHERS:]}  # A on rank 0's group: B lies at the end
        moments = {r: f[f"replica/{r}/ab_exp_avg"][len(w[r]) - len(frozen[r]):] for r in (0, 2)}
        check(len(frozen[0]) == b and len(frozen[2]) == a, "sizes")
        check(not moments[0].any() and not moments[2].any(), f"step {k}: a frozen factor's moments moved")
        if previous:
            check(np.array_equal(previous[0], frozen[0]) and np.array_equal(previous[2], frozen[2]), f"step {k}: frozen moved")
            trained = {0: w[0][:a + OTHERS], 2: w[2][:b + OTHERS]}
            check(not np.array_equal(before[0], trained[0]) and not np.array_equal(before[2], trained[2]), f"step {k}: stood still")
        previous, before = frozen, {0: w[0][:a + OTHERS], 2: w[2][:b + OTHERS]}
    # the model of a step on factors, for other programs: whole weights
    shoal("ckpt", "export", step("ab", 10), "-o", "model.h5")
    out = arrays("model.h5")
    check(sorted(out) == sorted(n[6:] for n in names), sorted(out))
    check(all(np.array_equal(out[n[6:]], files[10][n]) for n in names), "exported weights")
    r = shoal("ckpt", "export", step("ab", 10), "-o", "model.h5", code=7)
    check("exists already" in r.stderr, r.stderr)
    shoal("ckpt", "export", "absent.h5", "-o", "other.h5", code=7)
    check(not t.os.path.exists("other.h5"), "a refused export left a file")
    # with-stale by the checkpoints before and after step 12: the step itself moves little, its rate is on the schedule
    move = lambda k: max(np.abs(files[k][n] - files[k - 1][n]).max() for n in names)
    check(move(7) < 2e-4, f"first step of the ramp moved {move(7)}")  # rate 1e-5
    check(move(11) > 1e-3, f"a step after the ramp moved {move(11)}")


def volumes(ranks):
    a = sum(max(i, o) * r for (i, o), r in zip(CUT, ranks))
    b = sum(min(i, o) * r for (i, o), r in zip(CUT, ranks))
    return a, b, sum(i * o for i, o in CUT)


def expected(name, p, cross, roles, how, last):
    """Bytes by all ranks of a whole run: of ring sums inside nodes and between them, and of broadcasts (section 8); ranks of
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


def case_ab_bytes():
    """Counted payload is the claim on every link, steps on factors send nothing between nodes, and a run's totals over all
    ranks are those of section 8 worked out here (rings; sizes that the rank count divides are not assumed: sums are exact)."""
    glyphs(STEPS * 32)
    for how in ("with-stale", "full"):
        options = [*MLP, "--topo", "2x2", *AB, *sets(run__epochs=1, run__steps=STEPS, ckpt__every="1 steps", method__algorithm="ring",
                                                     method__mode=how, method__bucket=100, method__first_bucket=100)]
        r = train(4, how, *options)
        check("DIFFERENT" not in r.stdout and "equal to the method's formula" in r.stdout, r.stdout)
        table = json.loads(shoal("trace", "show", f"runs/{how}", "--json").stdout)
        got = {k: sum(row["links"][k]["payload"] for row in table["ranks"]) for k in ("node", "between")}
        node, between, sent = expected(how, 4, 2, [("A", 2), ("B", 2)], how, STEPS)
        check(got["node"] + got["between"] == node + between + sent, f"{how}: {got}, formula {node} + {between} + {sent}")
        # Edges of a ring carry unequal chunks where p does not divide n; a broadcast crosses once or twice, by its root.
        rounding = 4 * 2 * 2 * 2 * STEPS
        check(between + sent / 3 - rounding <= got["between"] <= between + sent * 2 / 3 + rounding,
              f"{how}: between {got['between']}, formula {between} and some of {sent}")
    # every rank's own counter, all modes and odd placements: the program compares and must not complain
    for ranks, topo, more in ((3, "1,2", {}), (4, "4x1", {"method__mode": "only-learned"}), (4, "1x4", {}),
                              (4, "2x2", {"method__mode": "only-b"}), (4, "2x2", {"method__mode": "only-b", "method__group": 2}),
                              (4, "4x1", {"method__group": 1, "method__swap": "true"})):
        name = f"r{ranks}{topo.replace(',', '-')}{len(more)}{more.get('method__group', 0)}"
        r = train(ranks, name, *MLP, "--topo", topo, *AB, *sets(run__epochs=1, run__steps=STEPS, **more))
        check("DIFFERENT" not in r.stdout and "equal to the method's formula" in r.stdout, f"{topo} {more}", r.stdout)
    # between nodes: a run on factors from the first step to the last reconciles once and splits once
    r = train(4, "silent", *MLP, "--topo", "2x2", *sets(run__epochs=1, run__steps=STEPS, method__name="ab", method__warmup=0,
                                                        method__cycle=100, method__rebound=1, method__algorithm="ring",
                                                        ckpt__every="100 steps"))
    check("ranks' own models before they become one: mean accuracy" in r.stdout, r.stdout)
    a, b, _ = volumes([min(i, o) for i, o in CUT])
    table = json.loads(shoal("trace", "show", "runs/silent", "--json").stdout)
    got = sum(row["links"]["between"]["payload"] for row in table["ranks"])
    n = a + b + OTHERS
    sizes = [n // 4 + (k < n % 4) for k in range(4)]
    want = 4 * sum(2 * n - sizes[r] - sizes[(r + 1) % 4] for r in (1, 3))
    check(want + 4 * (a + b) <= got <= want + 8 * (a + b), f"between nodes {got}: the last sum is {want}, the factors {4 * (a + b)}")


def case_ab_resume():
    """Stop in every phase and resume: same bits.  Then at other rank counts and placements by the rule, and to and from
    sync."""
    import numpy as np
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
        check_equal(newest(f"{kind}whole"), newest(f"{kind}cut"), f"{kind}, stopped at {stops}")
    # another number of ranks: the model goes on as it was, split anew where the schedule is on factors
    options = [*MLP, *AB, *sets(run__epochs=2)]
    train(4, "moved", *options, "--topo", "2x2", "--allow-faults", *sets(fault__stop_step=9), code=75)
    at = newest("moved")
    for ranks, topo in ((2, "2x1"), (3, "3x1")):
        r = train(ranks, f"to{ranks}", *options, "--topo", topo, "--resume", at, *sets(run__steps=13, ckpt__every="1 steps"))
        check("split anew" in r.stdout and "factors from step 11 on" in r.stdout, r.stdout)
        check("equal to the method's formula" in r.stdout, r.stdout)
    # to sync and from it: weights and optimizer state carry over
    train(4, "there", *MLP, "--topo", "2x2", "--resume", at, *sets(run__epochs=2, run__steps=11))
    a, b = arrays(at), arrays(newest("there"))
    check(all(np.array_equal(a[n], b[n]) for n in a if n.startswith("model/")), "the model of sync is that of ab")
    check(np.array_equal(a["replica/0/exp_avg"], b["replica/0/exp_avg"]), "optimizer state")
    train(4, "sync", *MLP, "--topo", "2x2", *sets(run__epochs=2), "--allow-faults", *sets(fault__stop_step=9), code=75)
    r = train(4, "back", *options, "--topo", "2x2", "--resume", newest("sync"))
    check("another method" in r.stdout and "split at once" in r.stdout, r.stdout)


def case_ab_changed():
    """Resumed in the same place with other settings: roles that change while the groups are the same, another optimizer, a ramp
    that is under way, a longer run.  The model goes on: at a rate of nothing, and with nothing cut, it stays as it is."""
    import numpy as np
    glyphs(STEPS * 32)
    options = [*MLP, *AB, "--topo", "2x2", *sets(run__epochs=1, method__group=2)]
    stop = lambda k: ["--allow-faults", *sets(fault__stop_step=k)]

    def moved(before, after):
        a, b = arrays(before), arrays(after)
        return max(np.abs(a[n] - b[n]).max() / np.abs(a[n]).max() for n in a if n.startswith("model/"))

    train(4, "b", *options, *stop(9), *sets(method__mode="only-b"), code=75)
    train(4, "ab", *options, *stop(9), code=75)
    still = sets(optim__lr=1e-30, optim__weight_decay=0, method__cutoff=0, run__steps=12)
    for start, change, roles in (("b", {}, True), ("ab", dict(method__mode="only-b"), True), ("ab", dict(method__swap="true"), True),
                                 ("ab", dict(method__mode="full"), False)):
        name = f"{start}{''.join(change.values())}-now"
        r = train(4, name, *options, *still, *sets(**change), "--resume", newest(start))
        check(("split anew" in r.stdout) == roles and "DIFFERENT" not in r.stdout, f"{start}, then {change}: {r.stdout}")
        far = moved(newest(start), newest(name))
        check(far < (1e-5 if roles else 1e-2), f"{start}, then {change}: the model moved by {far}")  # modes differ by dA dB
    # another optimizer starts afresh, for factors too
    r = train(4, "sgd", *options, *sets(optim__name="sgd", optim__momentum=0.9), "--resume", newest("ab"))
    check("the optimizer starts afresh" in r.stdout and "split anew" not in r.stdout, r.stdout)
    train(4, "sync", *MLP, "--topo", "2x2", *sets(run__epochs=1, run__steps=2, optim__name="sgd", optim__momentum=0.9))
    for optim, words in ((dict(optim__name="sgd", optim__momentum=0.9), "weights and optimizer state go on"), ({}, "weights go on")):
        r = train(4, f"from-sync{len(optim)}", *options, *sets(run__steps=4, **optim), "--resume", newest("sync"))
        check(words in r.stdout and ("starts afresh" in r.stdout) != bool(optim), f"{optim}: {r.stdout}")
    # full rank after a reconciliation, at a rate that is still small: another number of ranks goes on along the ramp
    ramp = sets(method__ramp=1000, method__rebound=4)
    train(4, "ramp", *options, *ramp, *stop(6), code=75)
    train(2, "two", *options[:-4], *ramp, "--topo", "2x1", *sets(run__epochs=1, run__steps=9), "--resume", newest("ramp"))
    far = moved(newest("ramp"), newest("two"))
    check(0 < far < 1e-3, f"a step at the foot of the ramp moved {far}")
    # stopped after the very last step, where no split comes: nothing is left to do
    train(4, "whole", *options)
    train(4, "last", *options, *stop(STEPS - 2), code=75)
    check(status("last")["step"] == STEPS, status("last"))
    train(4, "last", *options)
    check_equal(newest("whole"), newest("last"), "stopped after the last step")
    # batches of another size: fewer steps than were done already would fill the run, yet it goes on as the schedule says
    train(4, "batch", *options, *sets(run__epochs=2), *stop(22), code=75)  # 24 steps, 4 of 128 to come
    r = train(4, "batch", *options, *sets(run__epochs=2, data__global_batch=128))
    check("factors from step 26 on" in r.stdout and status("batch")["step"] == 28, r.stdout)
    # a longer run keeps the schedule of the first, and says so
    own = [*MLP, "--topo", "2x2", *sets(method__name="ab")]
    train(4, "long", *own, *sets(run__epochs=1, run__steps=3))
    r = train(4, "long", *own, *sets(run__epochs=20), *stop(4), code=75)
    check("reconciled (with-stale) every 10," in r.stdout, r.stdout)


def case_ab_only_b():
    """only-b with one group is training of B alone with the global batch: the same at 1 and 4 ranks, to rounding; a cap and a
    first cut keep factors small; a run on factors has a compression."""
    glyphs(STEPS * 32)
    options = [*MLP, *AB, *sets(run__epochs=1, method__mode="only-b", optim__name="sgd",
                                optim__momentum=0.9, optim__lr=0.02)]
    train(1, "one", *options)
    train(4, "four", *options)
    r = diff(newest("one"), newest("four"), "--only", "model/", "--tolerance", "1e-3")
    check(r.returncode == 0, r.stdout)
    r = train(4, "small", *options, *sets(method__mode="with-stale", method__cut_first="true", method__cutoff=0.5, method__cap="true"))
    check("compression 1." in r.stdout, r.stdout)
    # The start that the authors give every run, baselines too: all singular values of every matrix are 1.
    import numpy as np
    for method in ("sync", "ab"):
        train(2, f"start-{method}", *MLP, *sets(method__name=method, run__epochs=1, run__steps=1, optim__lr=1e-30,
                                                optim__weight_decay=0, model__orthogonal="true"))
        x = arrays(newest(f"start-{method}"))
        for n in (n for n in x if n.startswith("model/") and x[n].ndim > 1):
            sigma = np.linalg.svd(x[n].astype(float), compute_uv=False)
            check(abs(sigma - 1).max() < 1e-5, f"{method}: {n} starts with singular values {sigma.min()} to {sigma.max()}")
    a, b = arrays(newest("start-sync")), arrays(newest("start-ab"))
    check(all(a[n].tobytes() == b[n].tobytes() for n in a if n.startswith("model/")), "sync and ab start from different weights")


def case_ab_refusals():
    """What cannot work is refused before step 1, in one line with the cure; `ab` alone is a sensible run."""
    glyphs(320)
    base = [*MLP, *sets(method__name="ab", run__epochs=1)]
    for ranks, topo, extra, words in (
            (1, None, {}, ["two groups", "only-b"]),
            (2, None, {"method__group": 2}, ["two groups", "method.group"]),
            (2, None, {"method__group": 3}, ["method.group", "3", "-1 for two halves"]),
            (3, "1,1,1", {"method__group": 0, "method__cycle": 1}, ["method.cycle"]),
            (2, None, {"method__cycle": 5, "method__rebound": 5}, ["method.rebound"]),
            (4, "2,1,1", {}, None),
            (5, "2,2,1", {}, ["2 and 1 ranks"]),
            (2, None, {"method__exempt": "[fc9]"}, ["fc9", "did you mean"]),
            (2, None, {"model__widths": "[20]"}, ["no layer", "method.exempt"]),
            (2, None, {"model__widths": "[1,1]"}, ["no layer", "choose a wider model"]),
            (2, None, {"method__mode": "only-b", "method__swap": "true"}, ["method.swap"]),
            (2, None, {"method__mode": "with-stael"}, ["with-stale"]),
    ):
        r = train(ranks, f"bad{ranks}", *base, *(["--topo", topo] if topo else []), *sets(**extra), code=2 if words else 0)
        if words:
            check(all(w in r.stderr for w in words), f"{extra}: {r.stderr}")
            check(len([l for l in r.stderr.splitlines() if "shoal: error" in l]) == 1, f"{extra}: {r.stderr}")
    glyphs(1280)
    for ranks in (2, 4):
        r = train(ranks, f"alone{ranks}", *base, *sets(run__epochs=2))
        check(status(f"alone{ranks}")["state"] == "done" and "compression" in r.stdout, r.stdout)


if __name__ == "__main__":
    vars(t).update({k: v for k, v in globals().items() if k.startswith("case_")})
    sys.exit(t.main())
