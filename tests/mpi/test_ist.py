"""Whole runs of independent subnets.  The deals are drawn here a second time, from the published definition of Philox and the
page docs/methods/ist.md, to work out bytes on their own.
"""
import os

import h5py
import numpy as np

import pytest
from harness import (FULL, assert_equal, assert_formula, assert_one_error, column, metrics, newest, nodes_of, replicas, sets,
                     shoal, status, stops, trace_table, train)

IST = sets(method__name="ist", data__file="glyphs.h5", model__name="mlp", optim__lr=0.05)


def layers(*widths, **more):
    return sets(model__widths=list(widths), **more)


def same_model(a, b, what, *parts, tolerance=None):
    assert_equal(a, b, what, *(parts or ("model/",)), tolerance=tolerance)


# ---- the deals, drawn again -------------------------------------------------------------------------------------------

M32 = 0xffffffff


def philox(seed, c0, c1, c2, c3):
    k0, k1 = seed & M32, seed >> 32
    for _ in range(10):
        p0, p1 = 0xd2511f53 * c0, 0xcd9e8d57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & M32, p0 >> 32 ^ c3 ^ k1, p0 & M32
        k0, k1 = k0 + 0x9e3779b9 & M32, k1 + 0xbb67ae85 & M32
    return c0, c1, c2, c3


def sub_seed(seed, stream):
    v = philox(seed, stream & M32, stream >> 32, 0, 0)
    return v[1] << 32 | v[0]


def shuffled(seed, t, space, number, n):
    key, out = sub_seed(sub_seed(seed, 0x157), space), list(range(n))
    for i in range(n - 1, 0, -1):
        v = philox(key, i, number, t, 6)
        j = (v[0] << 32 | v[1]) * (i + 1) >> 64
        out[i], out[j] = out[j], out[i]
    return out


def cut(n, parts):
    """Consecutive runs whose sizes differ by at most one, larger ones first, as ranges."""
    sizes = [n // parts + (s < n % parts) for s in range(parts)]
    return [range(sum(sizes[:s]), sum(sizes[:s + 1])) for s in range(parts)]


def deal(seed, t, space, n, parts, stratified):
    """The set of units of every part in round t."""
    if not stratified:
        order = shuffled(seed, t, space, 0, n)
        return [{order[i] for i in run} for run in cut(n, parts)]
    out, around = [set() for _ in range(parts)], 0
    for home, slice_ in enumerate(cut(n, parts)):
        order = [slice_[i] for i in shuffled(seed, t, space, 1 + home, len(slice_))]
        for k in range(parts):
            size = len(slice_) // parts + (k < len(slice_) % parts)
            out[(around + k) % parts] |= set(order[:size])
            order = order[size:]
        around = (around + len(slice_) % parts) % parts
    return out


def common(homes, parts_of, dims, biases, norms, home, part):
    """Numbers that are at home at `home` and trained by `part`: dims are inputs, hidden widths, outputs."""
    held = [parts_of[l][part] for l in range(len(parts_of))]
    here = [len(held[l] & set(homes[l][home])) for l in range(len(held))]
    n = here[0] * dims[0]  # W1, by rows
    for l in range(1, len(held)):
        n += len(held[l]) * here[l - 1]  # by columns
    n += dims[-1] * here[-1]
    n += sum(here) * (biases + 2 * norms)
    return n + biases * len(cut(dims[-1], len(homes[0]))[home])  # the output's bias: everybody's, home to a slice each


def test_ist_neutral(glyphs):
    """One rank is plain SGD bit for bit, for any length of a round: with momentum if it is carried along, without if
    it is reset, with dropout, batch norm, AdamW, and blocks."""
    glyphs(300, 60, 16)
    base = [*IST, *layers(33, 20, model__norm="batch", model__dropout=0.1), *sets(run__epochs=2, data__batch=16)]
    for name, options in (("momentum", sets(optim__momentum=0.9, optim__weight_decay=1e-3, method__moments="carry")),
                          ("adamw", sets(optim__name="adamw", optim__lr=0.002, method__moments="carry")),
                          ("plain", sets(optim__momentum=0, optim__weight_decay=1e-3)),
                          ("stratified", sets(optim__momentum=0, method__partition="stratified"))):
        sync = [o for pair in zip(options[::2], options[1::2]) if "method." not in pair[1] for o in pair]
        train(1, f"sync-{name}", *base, *sync, *sets(method__name="sync"))
        for length in (1, 7, 1000):
            train(1, f"ist-{name}{length}", *base, *options, *sets(method__round=length))
            slots = {"momentum": ["replica/0/momentum"], "adamw": ["replica/0/exp_avg"]}.get(name, [])
            same_model(newest(f"sync-{name}"), newest(f"ist-{name}{length}"), f"{name}, rounds of {length}", "model/",
                       "replica/0/stats", *slots)
    glyphs(60, 30, 32)
    net = sets(model__name="resnet20", run__epochs=1, data__batch=12, data__file="glyphs.h5", optim__lr=0.05, optim__momentum=0)
    train(1, "sync-net", *net)
    for kind in ("units", "blocks"):
        train(1, f"ist-{kind}", *net, *sets(method__name="ist", method__cut=kind, method__round=2))
        same_model(newest("sync-net"), newest(f"ist-{kind}"), kind)


@pytest.mark.parametrize("ranks, topo, kind, moments, widths", (
    (2, "2x1", "uniform", "reset", (44, 32)), (3, "1x3", "uniform", "carry", (44, 31)), (4, "2x2", "stratified", "reset", (48, 32)),
    (4, "1,2,1", "uniform", "reset", (44, 32)), (3, "1,2", "stratified", "carry", (17, 10))))
def test_ist_bytes(glyphs, ranks, topo, kind, moments, widths):
    """Bytes of every rank and link class are what the deals, drawn here again, imply; stratified and even they
    are 2 (n-1) P_s b in all; what a rank holds is what the formulas say."""
    glyphs(160, 40, 8)
    dims = [64, *widths, 10]
    r = train(ranks, "b", *IST, *layers(*widths, model__norm="batch"), "--topo", topo,
              *sets(run__epochs=2, data__batch=8, run__seed=5, optim__momentum=0.9, method__round=3, method__partition=kind,
                     method__moments=moments))
    assert_formula(r)
    per_weight = 1 + (moments == "carry")
    steps = int(status("b")["step"])
    deals = [[deal(5, t, space, h, ranks, kind == "stratified") for space, h in enumerate(widths)]
             for t in range(steps // 3 + 1)]
    homes = [cut(h, ranks) for h in widths]
    count = lambda t, home, part: 4 * per_weight * common(homes, deals[t], dims, 1, 1, home, part)
    node = nodes_of(topo)
    total = 0
    for row in trace_table("b")["ranks"]:
        me, expected = row["rank"], {"node": 0, "between": 0}
        for t in range(steps // 3):
            for other in range(ranks):
                link = "node" if node[me] == node[other] else "between"
                if other != me:  # a collect to the homes, and as a home the dispatch of the next deal
                    expected[link] += count(t, other, me) + count(t + 1, me, other)
        got = {k: row["links"][k]["payload"] for k in expected}
        assert got == expected, f"rank {me}: counted {got}, by the deals {expected}"
        total += sum(got.values())
    weights = replicas(newest("b"), "weights")
    stores = replicas(newest("b"), "store")
    for s in range(ranks):
        own = [len(deals[0][l][s]) for l in range(2)]
        subnet = 64 * own[0] + own[0] * own[1] + own[1] * 10 + 3 * sum(own) + 10
        assert len(weights[s]) == subnet, f"subnet {s} has {len(weights[s])} numbers, formula {subnet}"
    whole = 64 * widths[0] + widths[0] * widths[1] + widths[1] * 10 + 3 * sum(widths) + 10
    assert sum(map(len, stores)) == whole * per_weight, f"stores hold {sum(map(len, stores))}, not {whole * per_weight}"
    if kind == "stratified" and not any(h % ranks ** 2 for h in widths):
        # docs/methods/ist.md, Bytes; and the output's bias, which everybody trains
        expected = (steps // 3) * 2 * (ranks - 1) * 4 * per_weight * (len(weights[0]) - 10 + 10)
        assert total == expected, f"{total} bytes over all links, formula {expected}"


def test_ist_model(glyphs):
    """The model that is saved in mid-round, against numpy: from the subnets by the deals drawn here, the last layer times
    1/n, the shared bias the mean, dormant numbers as the round found them; statistics of batch norm and test loss by
    a forward pass of the whole model."""
    glyphs(203, 41, 8)
    ranks, widths, batch, batches = 3, (13, 8), 8, 3
    net = [*IST, *layers(*widths, model__norm="batch"),
           *sets(run__epochs=2, data__batch=batch, data__shuffle="false", method__round=5, eval__statistics=batches)]
    models = []
    for steps in (5, 8):  # round 1 begins, and three steps of it
        train(ranks, f"at{steps}", *net, *sets(run__steps=steps))
        with h5py.File(newest(f"at{steps}")) as f:
            models.append({n: f[f"model/{n}"][()] for n in f["model"]})
    before, now = models
    deals = [deal(1, 1, space, h, ranks, False) for space, h in enumerate(widths)]
    third = np.float32(1) / np.float32(ranks)
    last_bias = []
    dormant = {n: np.ones(x.shape, bool) for n, x in now.items() if "running" not in n and n != "fc3.bias"}
    for s, arena in enumerate(replicas(newest("at8"), "weights")):
        held = [range(64), *(sorted(d[s]) for d in deals), range(10)]
        for l in (1, 2, 3):
            rows, cols = held[l], held[l - 1]
            by_row = (f"fc{l}.bias", f"norm{l}.weight", f"norm{l}.bias")
            names = [(f"fc{l}.weight", np.ix_(rows, cols)), *((n, rows) for n in by_row)]
            for n, place in names if l < 3 else names[:1]:
                want, arena = arena[:now[n][place].size].reshape(now[n][place].shape), arena[now[n][place].size:]
                want = want * third if l == 3 else want
                assert np.array_equal(now[n][place], want), f"{n} of subnet {s} is not in the model"
                dormant[n][place] = False
        last_bias.append(arena.astype(np.float64))
    assert np.array_equal(now["fc3.bias"], ((last_bias[0] + last_bias[1] + last_bias[2]) / 3).astype(np.float32)), \
        "the shared bias"
    for n, mask in dormant.items():
        assert mask.any() == (n == "fc2.weight"), f"{n}: dormant numbers"
        assert np.array_equal(now[n][mask], before[n][mask]), f"{n}: what is dormant moved"
        moved = not np.array_equal(now[n], before[n])  # a bias before a norm has no gradient
        assert moved or n in ("fc1.bias", "fc2.bias"), f"{n}: nothing was trained"

    with h5py.File("glyphs.h5") as f:
        x, test = ((f[f"{part}/x"][()].reshape(-1, 64) - f.attrs["mean"]) / f.attrs["std"] for part in ("train", "test"))
        labels = f["test/y"][()]

    def forward(h, stats):
        """Logits; stats(layer, z) gives mean and variance to normalise by."""
        for l in (1, 2):
            z = h @ now[f"fc{l}.weight"].T.astype(np.float64) + now[f"fc{l}.bias"]
            mean, var = stats(l, z)
            h = np.maximum((z - mean) / np.sqrt(var + 1e-5) * now[f"norm{l}.weight"] + now[f"norm{l}.bias"], 0)
        return h @ now["fc3.weight"].T.astype(np.float64) + now["fc3.bias"]

    sums = {1: [0, 0], 2: [0, 0]}

    def measure(l, z):
        mean = z.mean(0)
        sums[l][0] = sums[l][0] + mean / (ranks * batches)
        sums[l][1] = sums[l][1] + (z.var(0) + mean * mean) / (ranks * batches)
        return mean, z.var(0)

    for s in range(ranks):
        for b in range(batches):
            forward(x[[s + ranks * (b * batch + i) for i in range(batch)]], measure)
    for l, (mean, square) in sums.items():
        assert np.allclose(now[f"norm{l}.running_mean"], mean, atol=1e-6), f"norm{l}: mean {now[f'norm{l}.running_mean']} {mean}"
        assert np.allclose(now[f"norm{l}.running_var"], square - mean * mean, atol=1e-6), f"norm{l}: variance"
    z = forward(test, lambda l, _: (now[f"norm{l}.running_mean"], now[f"norm{l}.running_var"]))
    loss = np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), labels])
    row = metrics("at8")[-1]
    assert abs(float(row["test_loss"]) - loss) < 1e-4, f"{row} {loss}"


def test_ist_resume(glyphs):
    """H12: stopped in mid-round and where rounds end, at random steps, and resumed: the same bits, for both ways to deal units,
    carried moments, blocks, shards; evaluating in every step changes nothing."""
    glyphs(400, 60, 16)
    mlp = [*IST, *layers(40, 27, model__norm="batch", model__dropout=0.1), *sets(optim__momentum=0.9)]
    runs = [("uniform", 3, mlp, sets(method__round=7, method__moments="carry", data__shards="fixed")),
            ("stratified", 4, mlp, sets(method__round=5, method__partition="stratified", data__shards="sorted"))]
    for name, ranks, base, options in runs:
        options = [*base, *options, *sets(run__epochs=3, data__batch=12, data__last="drop")]  # 8 or 11 steps per epoch
        r = train(ranks, name, *options)
        assert_formula(r)
        # A stop is where the rank furthest ahead was, at most where all ranks synchronise next.
        for every in ("1000 steps", "3 steps") if FULL else ["3 steps" if name == "uniform" else "1000 steps"]:
            steps = stops(2, int(status(name)["step"]) - 12, apart=10, what=f"{name}, checkpoints every {every},")
            again = f"{name}{every[0]}"
            for step in steps:
                r = train(ranks, again, *options, "--allow-faults",
                          *sets(fault__stop_step=step, fault__rank=step % ranks, ckpt__every=every), code=75)
                length = 7 if name == "uniform" else 5
                at = int(status(again)["step"])
                assert at > step, f"asked in step {step}, stopped at {at}"
                assert at - step <= length, f"asked in step {step}, stopped at {at}"
            train(ranks, again, *options)
            assert_equal(newest(name), newest(again), f"{name} stopped at {steps}")
            assert column(name, "step", "train_loss", "test_acc") == column(again, "step", "train_loss", "test_acc")
    # Looking at the model ends no round and averages nothing.
    train(3, "watched", *mlp, *runs[0][3], *sets(run__epochs=3, data__batch=12, data__last="drop", eval__every="1 steps"))
    assert_equal(newest("uniform"), newest("watched"), "evaluated in every step")
    glyphs(96, 30, 32)
    net = [*sets(model__name="resnet20", data__file="glyphs.h5", method__name="ist", optim__lr=0.05, optim__momentum=0.9,
                 run__epochs=3, data__batch=8, method__round=3, data__augment="[crop4,hflip]")]
    for kind in ("blocks", "units"):
        train(2, kind, *net, *sets(method__cut=kind))
        for step in (4, 11) if FULL else (4,):
            train(2, f"{kind}2", *net, "--allow-faults", *sets(method__cut=kind, ckpt__every="2 steps", fault__stop_step=step),
                  code=75)
        train(2, f"{kind}2", *net, *sets(method__cut=kind))
        assert_equal(newest(kind), newest(f"{kind}2"), kind)


def test_ist_moved(glyphs):
    """At another rank count, from sync and to it: the model is cut anew, the sample order goes on, and what was lost is
    said.  A learning rate of nothing shows that no number is lost on the way, also where three ranks take a mean."""
    glyphs(400, 60, 16)
    base = [*IST, *layers(41, 27), *sets(run__epochs=3, data__batch=10, optim__momentum=0.9)]
    ist, still = sets(method__round=4), sets(optim__lr=1e-30)
    train(3, "still", *base, *ist, *still, *sets(run__steps=1))
    train(3, "still-long", *base, *ist, *still, *sets(run__steps=23))
    same_model(newest("still"), newest("still-long"), "rounds without learning at 3 ranks")
    train(2, "start", *base, *ist, *sets(run__steps=9))
    here = newest("start")
    for ranks, tolerance in ((1, None), (4, None), (3, 1e-6)):  # 1/3 is not exact
        r = train(ranks, f"moved{ranks}", *base, *ist, *still, "--resume", here, *sets(run__steps=10))
        assert "the layout changed: 2 ranks" in r.stdout, r.stdout
        assert "the parts are cut again and their optimizer state is reset" in r.stdout, r.stdout
        same_model(here, newest(f"moved{ranks}"), f"2 ranks, then {ranks}", tolerance=tolerance)
    other = [*base, *sets(method__partition="stratified", method__moments="carry")]
    r = train(2, "other", *other, *ist, *still, "--resume", here, *sets(run__steps=10))
    assert "the layout changed" in r.stdout, r.stdout
    same_model(here, newest("other"), "2 ranks, dealt another way")
    r = train(2, "to-sync", *base, *still, "--resume", here, *sets(method__name="sync", run__steps=10))
    assert "method ist) then" in r.stdout, r.stdout
    assert "no momentum of the whole model: the optimizer is reset" in r.stdout, r.stdout
    same_model(here, newest("to-sync"), "ist, then sync")
    r = train(2, "from-sync", *base, *ist, *still, "--resume", newest("to-sync"), *sets(run__steps=11))
    assert "method sync) then" in r.stdout, r.stdout
    assert "is reset" in r.stdout, r.stdout
    same_model(newest("to-sync"), newest("from-sync"), "sync, then ist")
    train(2, "sync", *base, *sets(method__name="sync", run__steps=9))
    r = train(2, "carried", *base, *ist, *sets(optim__lr=1e-30, method__moments="carry", run__steps=10), "--resume", newest("sync"))
    assert "weights, optimizer state and the sample order are kept, the parts are cut again" in r.stdout, r.stdout
    # What is left of the epoch may end in another batch than an epoch does: refused before the first step, as there.
    norm = [*base, *ist, *sets(model__norm="batch")]
    train(2, "norm", *norm, *sets(run__steps=8))
    r = train(3, "rest", *norm, "--resume", newest("norm"), code=2)  # 53 samples per rank done: 81 of 134 are left
    assert_one_error(r, "last batch leaves 1 sample for")
    train(3, "rest", *norm, "--resume", newest("norm"), *sets(data__last="pad"))
    # It goes on, and gets somewhere.
    train(4, "moved4", *base, *ist, *sets(run__epochs=6))
    losses = [float(m["train_loss"]) for m in metrics("moved4") if m["train_loss"]]
    assert status("moved4")["state"] == "done", f"{losses}"
    assert losses[-1] < losses[0], f"{losses}"


BAD = (  # ranks, options, and what must be said
    (3, layers(8, 2), ["fc2", "2 units", "3 subnets", "at most 2 ranks"]),
    (2, [*layers(8), *sets(method__cut="blocks")], ["no residual block", "method.cut to units"]),
    (2, sets(model__name="resnet20", method__min_blocks=9), ["method.min_blocks is 9", "7 blocks"]),
    (2, sets(model__name="resnet20", method__stages="[4]"), ["stage 4", "3 of them"]),
    (2, [*layers(8), *sets(method__min_blocks=2)], ["method.min_blocks is for residual blocks", "method.cut to blocks"]),
    (2, sets(model__name="resnet20", method__cut="units", method__stages="[1]"), ["method.stages", "leave it out"]),
    (2, sets(model__name="resnet20", method__partition="stratified"), ["method.partition stratified", "method.cut to units"]),
    (2, [*layers(8), *sets(data__shards="sorted", method__name="sync")], ["data.shards", "sync"]),
    (2, [*layers(8, model__norm="batch"), *sets(eval__batch_norm="batch", eval__batch=29)], ["eval.batch"]),
    (2, [*layers(8), *sets(data__global_batch=31)], ["data.global_batch", "multiple"]),
    (2, [*layers(8, model__norm="batch"), *sets(data__batch=1)], ["layer norm1", "one value per channel"]),
    (2, [*layers(8, model__norm="batch"), *sets(data__batch=49)], ["last batch leaves 1 sample for", "data.last"]),
)


@pytest.mark.parametrize("ranks, extra, words", BAD)
def test_ist_refused(glyphs, ranks, extra, words):
    """Models that cannot be cut that wide, and settings that make no sense: one line, the cure, exit 2."""
    glyphs(101, 60, 32)
    batch = [] if "data.global_batch=31" in extra else sets(data__batch=8)
    r = train(ranks, "bad", *IST, *sets(run__epochs=1), *batch, *extra, code=2)
    assert_one_error(r, *words)


def test_ist_few(glyphs):
    """A share smaller than a batch is refused before the first step, or padded where the model is measured, too."""
    glyphs(5, 30, 8)
    few = [*IST, *layers(8, model__norm="batch"), *sets(run__epochs=2, data__batch=8)]
    assert_one_error(train(4, "few", *few, code=2), "last batch leaves 1 sample for")
    train(4, "padded", *few, *sets(data__last="pad"))


def test_ist_described():
    """`shoal methods ist` names the paper and the settings."""
    text = shoal("methods", "ist").stdout
    assert "PVLDB" in text, text
    assert "method.round" in text, text
    assert "stratified" in text, text


def test_ist_learns(glyphs):
    """`method: { name: ist }` alone learns; statistics of the model and of the test batch agree about it; every kind of
    shard trains; a NaN and a signal end the run where ranks meet."""
    glyphs(1200, 300, 16)
    base = [*IST, *layers(96, 64, model__norm="batch"), *sets(run__epochs=10, data__batch=12, optim__momentum=0.9)]
    r = train(4, "alone", *base)
    assert "rounds of 20 steps" in r.stdout, r.stdout
    assert "4 subnets of hidden units, uniform" in r.stdout, r.stdout
    train(4, "batch", *base, *sets(eval__batch_norm="batch", eval__batch=75))
    train(4, "sync", *base, *sets(method__name="sync"))
    acc = {n: max(float(m["test_acc"]) for m in metrics(n)) for n in ("alone", "batch", "sync")}
    print(acc, flush=True)
    assert acc["alone"] > 0.6, f"{acc}"
    assert acc["batch"] > 0.6, f"{acc}"
    assert acc["sync"] > 0.6, f"{acc}"
    assert abs(acc["alone"] - acc["batch"]) < 0.1, f"{acc}"
    same_model(newest("alone"), newest("batch"), "how evaluation normalises is no part of training")
    for shards in ("fixed", "sorted"):
        train(4, shards, *base, *sets(data__shards=shards, run__epochs=3))
        assert float(metrics(shards)[-1]["train_loss"]) < 2.31, f"{metrics(shards)}"
    assert float(metrics("sorted")[-1]["train_loss"]) < float(metrics("fixed")[-1]["train_loss"]), \
        f"fewer classes per rank are easier to tell apart {metrics('sorted')} {metrics('fixed')}"
    r = train(2, "nan", *base, "--allow-faults", *sets(fault__nan_step=9, fault__rank=1, method__round=6, ckpt__every="4 steps"),
              code=6)
    assert status("nan")["state"] == "failed", r.stderr
    assert "not finite" in r.stderr, r.stderr
    shoal("ckpt", "verify", newest("nan"))
    assert "step-000000008" in newest("nan"), f'{newest("nan")}'
    train(2, "stop", *base, "--allow-faults", *sets(fault__stop_step=9, fault__rank=1, method__round=6), code=75)
    assert 9 < status("stop")["step"] <= 12, f"at the end of a round, or before it if both heard in time: {status('stop')}"
    # No round ends before the run does: what is saved last is looked at, and one line says that it is none.
    r = train(2, "inf", *IST, *layers(8), *sets(run__epochs=1, data__batch=12, optim__lr=1e30, method__round=1000), code=6)
    assert r.stderr.count("error: ") == 1, r.stderr
    assert "not finite at step 1" in r.stderr, r.stderr
    assert "MPI_ABORT" not in r.stderr, r.stderr
    assert status("inf")["state"] == "failed", f'{status("inf")}'
    assert not os.listdir("runs/inf/ckpt"), f'{status("inf")}'
    # A round longer than the epoch: the ranks stop within it, where the one furthest ahead has come to.
    long = sets(run__epochs=2, method__round=1000, ckpt__every="1 epoch")
    train(2, "long", *base, *long)
    train(2, "long-cut", *base, *long, "--allow-faults", *sets(fault__stop_step=9, fault__rank=1), code=75)
    assert 9 < status("long-cut")["step"] <= 50, f'{status("long-cut")}'
    train(2, "long-cut", *base, *long)
    assert_equal(newest("long"), newest("long-cut"), "stopped in a round that is longer than the epoch")
