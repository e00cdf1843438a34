"""Exchanges in the trace, with every method: each has its parts on all ranks, so that what a rank waited for can be told."""
import numpy as np
import pytest

from harness import KINDS, METHODS, MLP, Trace, sets, train

RANKS = 4


ALL, SOURCE, SINK, SWAP, SEND, RECEIVE = range(1, 7)


def check_matches(name, ranks, attempt=None):
    """Every exchange has its parts on all members; each waits within its own, and none is complete before all that it depends on
    have begun.  (One machine, one clock.)  Returns the names of the exchanges that were seen."""
    begun, waits, names, sizes = {}, {}, set(), {}
    for rank in range(ranks):
        t, seen = Trace(name, rank, attempt), {}
        sizes.update({int(g["id"]): int(g["size"]) for g in t.groups})
        for r in t.records[np.isin(t.records["kind"], [KINDS.index("exchange"), KINDS.index("wait")])]:
            role, kind = int(r["role"]), KINDS[r["kind"]]
            if role == 0:
                continue
            pair = (min(rank, int(r["peer"])), max(rank, int(r["peer"]))) if role >= SWAP else None
            key = (int(r["group"]), t.ops[r["op"]], int(r["seq"]), pair)
            number = seen[key, kind] = seen.get((key, kind), 0) + 1
            (begun if kind == "exchange" else waits).setdefault((key, number), {})[rank] = (
                role, int(r["t0_ns"]), int(r["t1_ns"]))
            names.add(key[1])
            assert key[0] in sizes, f"{name} rank {rank}: {key} is of no group {sizes}"
    for (key, number), parts in begun.items():
        who = f"{name}: {key} for the {number}. time: {parts}"
        roles = [role for role, _, _ in parts.values()]
        assert len(parts) == (sizes[key[0]] if key[3] is None else 1 if SEND in roles else 2), who
        assert set(roles) in ({ALL}, {SWAP}, {SEND}, {SOURCE, SINK}), who
        givers = [t0 for role, t0, _ in parts.values() if role in (ALL, SOURCE, SWAP)]
        takers = [t1 for role, _, t1 in parts.values() if role in (ALL, SINK, SWAP)]
        assert not takers or max(givers) <= min(takers), f"{who}: complete before all have begun"
    for (key, number), parts in waits.items():
        for rank, (role, t0, t1) in parts.items():
            own = begun[key, number].get(rank) if role != RECEIVE else None
            assert own is None or own[1] <= t0 <= t1, f"{name}: {key} {rank}: {own}, waits {t0} to {t1}"
            assert own is None or t1 == own[2] or t0 == t1 >= own[2], f"{name}: {key} {rank}: {own}, waits {t0} to {t1}"
            if role == RECEIVE:
                (sent,) = begun[key, number].values()
                assert sent[1] <= t1, f"{name}: {key} {rank}: {sent}, received at {t1}"
    return names


WANTED = {"sync": {'exchange "bucket 0"'}, "local-sgd": {'exchange "average"'}, "daso": {"broadcast"}, "ab": {"broadcast"},
          "ist": {"alltoall"}, "local": {"activations"}, "swarm": {"interaction"}}


@pytest.mark.parametrize("method", METHODS)
def test_matches(glyphs, method):
    glyphs(200)
    train(RANKS, "m", *MLP, "--topo", "2x2", *METHODS[method],
          *sets(method__name=method, trace__level="op", run__epochs=1, data__batch=5))
    names = check_matches("m", RANKS)
    print(method, names)
    assert WANTED.get(method, set()) | {"end of epoch"} <= names, f"{names}"
    for rank in range(RANKS):
        t = Trace("m", rank)
        steps = t.records[t.records["kind"] == KINDS.index("step")]
        assert t.info["steps"] == len(steps) > 0, f"{t.info}"
        assert t.info["samples"] == steps["seq"].sum(), f"{t.info}"
        assert (t.info["formula"] == t.info["payload"])[:3].all(), f"{t.info}"
