"""Kinds of faults that every method must stand: other rank counts, uneven data, replicas that differ, messages that are split.
What one method alone must do is in tests/mpi."""
import os

import pytest

from harness import (METHODS, MLP, assert_equal, assert_one_error, metrics, newest, sampled, sets, shoal, status, train,
                     train_through)

METHOD = pytest.mark.parametrize("method", METHODS)


def arguments(method, **more):
    return [*MLP, *METHODS[method], *sets(method__name=method, comm__warn=20, comm__hang=40, **more)]


@METHOD
def test_methods_moved(glyphs, method):
    """H11: saved on 4 ranks in mid-epoch, resumed on 1, 2, 3, 6 and 8: the order of samples goes on to the same step, a summary
    tells what is kept; what cannot be is refused with the option to use."""
    glyphs(200, 50)
    args = arguments(method, run__epochs=3, data__global_batch=24)  # 9 steps per epoch, the last one short
    train(4, "r", *args, "--allow-faults", *sets(fault__stop_step=12), code=75)
    assert 9 < status("r")["step"] < 27, status("r")
    for ranks in sampled((1, 2, 3, 6, 8), 2):
        name = f"r{ranks}"
        os.system(f"cp -r runs/r runs/{name}")
        if method == "ab" and ranks == 1:
            assert_one_error(train(ranks, name, *args, code=2), "method ab needs two groups", "method.mode to only-b")
            continue
        r = train(ranks, name, *args)
        assert f"the layout changed: 4 ranks (4, method {method}) then, {ranks} rank{'s' * (ranks > 1)} (" in r.stdout, r.stdout
        assert "the sample order" in r.stdout and "optimizer state" in r.stdout, r.stdout
        assert (metrics(name)[-1]["step"], metrics(name)[-1]["epoch"]) == ("27", "3"), f"{ranks}: {metrics(name)}"
        if method == "sync":
            if not os.path.exists("runs/whole"):
                train(4, "whole", *args)
            assert_equal(newest("whole"), newest(name), f"4 then {ranks} ranks", "model/", tolerance=1e-4)


@METHOD
def test_methods_uneven(glyphs, method):
    """H14: 1003 samples, batch 32, odd rank counts, three epochs: nobody waits for a rank that has run out of data."""
    glyphs(1003, 37)
    for ranks in sampled((3, 4, 7), 1):
        name = f"u{ranks}"
        more = {"method__deterministic": "false"} if method == "swarm" and ranks % 2 else {}
        train(ranks, name, *arguments(method, run__epochs=3, data__batch=32, **more))
        assert (status(name)["state"], metrics(name)[-1]["epoch"]) == ("done", "3"), f"{status(name)} {metrics(name)}"


@METHOD
def test_methods_replicas(glyphs, method):
    """H16: another seed, learning rate or data file on one rank is found before step 1, whatever ranks share in this method."""
    glyphs(200)
    glyphs(200, 100, seed=9, name="other.h5")
    args = arguments(method, run__epochs=1, data__batch=8)
    for what, ranks, fault in sampled((("initial weights", 1, {"fault__seed": 5}), ("learning rate", 2, {"fault__lr": 2}),
                                       ("", 3, None)), 2 if method not in ("ist", "local") else 3):
        if fault:
            r = train(4, "r", *args, "--allow-faults", *sets(fault__rank=ranks, **fault), code=3)
        else:
            r = train_through(f'[ "$R" = {ranks} ] && exec "$@" --set data.file=other.h5; exec "$@"', 4, "r", *args, code=3)
        assert_one_error(r, what, f"rank {ranks} ")
        assert not os.path.exists("runs"), "a refused run made a folder"


@METHOD
def test_methods_split(glyphs, method):
    """H17: the largest message is 1000 bytes, so every exchange, checkpoint and broadcast is split: the same bits."""
    glyphs(200, 50)
    args = arguments(method, run__epochs=2, data__global_batch=48)
    ranks = 4 if method in ("swarm", "local") else 3
    train(ranks, "plain", *args, "--topo", "2,2" if ranks == 4 else "2,1")
    train(ranks, "split", *args, "--topo", "2,2" if ranks == 4 else "2,1", *sets(comm__max_message=1000))
    assert_equal(newest("plain"), newest("split"), method)
    shoal("ckpt", "verify", newest("split"))
