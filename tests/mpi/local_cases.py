#!/usr/bin/env python3
"""Whole runs of local-sgd and daso: local_cases.py SHOAL CASE.  Tools and oracles are those of train_cases.py."""
import random
import sys

sys.dont_write_bytecode = True  # nothing is written beside the sources
import train_cases
from train_cases import (MLP, check, check_equal, diff, glyphs, main, metrics, newest, sets, status, train)


def same(a, b, what, *prefixes, tolerance=None):
    """Checkpoints of two methods: the model and what else is named, in every bit or within a tolerance."""
    for prefix in prefixes or ("model/", "replica/0/momentum"):
        r = diff(newest(a), newest(b), "--only", prefix, *(["--tolerance", str(tolerance)] if tolerance else []))
        check(r.returncode == 0, f"{what}, {prefix}: {a} and {b} differ\n{r.stdout}{r.stderr}")


def formula_holds(r):
    check("DIFFERENT" not in r.stdout and "equal to the method's formula" in r.stdout, r.stdout)


def cut_at(rng, total, stops=3):
    """Steps to stop at, two apart: a stop asked for in step k happens after step k+1."""
    while True:
        steps = sorted(rng.sample(range(total - 2), stops))
        if all(b - a >= 2 for a, b in zip(steps, steps[1:])):
            return steps


def resume_everywhere(name, ranks, total, *options):
    """An uninterrupted run against one that is stopped at random steps: same bits, same rows of metrics.csv."""
    steps = cut_at(random.Random(), total)
    print(name, "stops at", steps, flush=True)
    formula_holds(train(ranks, f"{name}-whole", *options))
    for step in steps:
        r = train(ranks, f"{name}-cut", *options, "--allow-faults", *sets(fault__stop_step=step, fault__rank=step % ranks),
                  code=75)
        formula_holds(r)
    r = train(ranks, f"{name}-cut", *options)
    check("resumed from" in r.stdout, r.stdout)
    check_equal(newest(f"{name}-whole"), newest(f"{name}-cut"), f"{name} stopped at {steps}")
    rows = [[(m["step"], m["train_loss"], m["test_acc"]) for m in metrics(f"{name}-{k}")] for k in ("whole", "cut")]
    check(rows[0] == rows[1], f"{name}: metrics differ", *rows)


# ---- local-sgd -------------------------------------------------------------------------------------------------------

LOCAL = sets(method__name="local-sgd")


def case_local_neutral():
    """One rank is plain SGD, and a switch that never comes is sync, in every bit; H = 1 is sync to rounding."""
    glyphs(307, 50)
    options = [*MLP, *sets(run__epochs=2, optim__nesterov="true", optim__weight_decay=1e-3)]
    for ranks, topo in ((1, "1x1"), (4, "2x2"), (3, "2,1")):
        o = [*options, "--topo", topo, *sets(data__global_batch=26)]
        train(ranks, f"sync{ranks}", *o)
        train(ranks, f"late{ranks}", *o, *LOCAL, *sets(method__switch_epoch=2, method__period=5))
        same(f"sync{ranks}", f"late{ranks}", "the switch never comes")
        train(ranks, f"often{ranks}", *o, *LOCAL, *sets(method__period=1))
        same(f"sync{ranks}", f"often{ranks}", "H = 1", "model/", tolerance=1e-4)
        train(ranks, f"level{ranks}", *o, *LOCAL, *sets(method__period=1, method__node_level="true"))
        same(f"sync{ranks}", f"level{ranks}", "H = 1 with the node level", "model/", tolerance=1e-4)
    train(1, "alone", *options, *LOCAL, *sets(data__global_batch=26, method__period=7))
    same("sync1", "alone", "one rank")
    # Fewer samples than ranks: those without any join in the average.
    few = [*MLP, *sets(run__epochs=1, run__steps=6, data__global_batch=3)]
    train(1, "few1", *few)
    train(4, "few4", *few, *LOCAL, *sets(method__period=1))
    same("few1", "few4", "a batch of 3 for 4 ranks", "model/", tolerance=1e-4)
    # The tolerance can fail: with H = 4 it is another model.
    train(4, "seldom", *options, *LOCAL, "--topo", "2x2", *sets(data__global_batch=26, method__period=4))
    r = diff(newest("sync4"), newest("seldom"), "--only", "model/", "--tolerance", "1e-4")
    check(r.returncode == 7, "H = 4 equals sync")


def case_local_resume():
    """Stop anywhere, before and after the switch and between averages: same bits.  Elsewhere the mean model goes on."""
    glyphs(200, 50)
    options = [*MLP, *LOCAL, *sets(run__epochs=3, data__batch=8, model__dropout=0.2)]
    resume_everywhere("flat", 4, 21, *options, "--topo", "2x2", *sets(method__period=4, method__switch_epoch=1))
    resume_everywhere("level", 3, 27, *options, "--topo", "2,1", *sets(method__period=5, method__node_level="true"))
    stop = ["--allow-faults", *sets(fault__stop_step=9)]
    train(4, "moved", *options, *sets(method__period=8), *stop, code=75)
    before = newest("moved")
    r = train(3, "moved", *options, *sets(method__period=8, data__batch=8))
    check("layout changed" in r.stdout and "the mean optimizer state" in r.stdout, r.stdout)
    check(newest("moved") != before and status("moved")["state"] == "done", status("moved"))
    # Ranks that trained alone are not taken for a synchronous run.
    train(2, "back", *options, *sets(method__period=8), *stop, code=75)
    r = train(2, "back", *options, *sets(method__period=8, method__switch_epoch=3), code=2)
    check("method.switch_epoch" in r.stderr and "at most" in r.stderr, r.stderr)


if __name__ == "__main__":
    vars(train_cases).update({k: v for k, v in globals().items() if k.startswith("case_")})
    sys.exit(main())
