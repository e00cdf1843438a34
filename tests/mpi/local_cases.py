#!/usr/bin/env python3
"""Whole runs of method `local`, one case per ctest entry: local_cases.py SHOAL CASE ORACLE

Oracles: the one-process reference (local_oracle.c), `shoal ckpt diff`, and formulas worked out here.  Rows are those of
docs/methods/local.md, "What is tested".
"""
import sys
import train_cases
from train_cases import *

ORACLE = sys.argv[3]
LOCAL = sets(method__name="local", data__file="glyphs.h5", optim__lr=0.05, optim__momentum=0.9)
DEEP = [*LOCAL, *sets(model__name="mlp", model__widths="[48,40,32,24]", model__dropout=0.2, data__global_batch=50)]
RESNET8 = [*LOCAL, *sets(model__name="resnet20", model__dropout=0.2, data__augment="[crop4,hflip]", data__global_batch=16)]


def oracle(name, model, options, head, form, cut, batch, steps, augment):
    r = subprocess.run([ORACLE, newest(name), "glyphs.h5", model, options, head, form, cut, str(batch), str(steps), "0.05", "0.9",
                        "1", str(int(augment))], env=ENV, capture_output=True, text=True)
    return check(r.returncode == 0, f"{name} against the oracle\n{r.stdout}{r.stderr}")


def case_oracle():
    """Rows 11, 13 of section 8: 2 and 4 ranks, queues of 1, 2 and 8, ranks that sleep at random: the oracle's bits."""
    glyphs(230)
    delays = ["--allow-faults", *sets(fault__jitter=4)]
    for ranks, cut in ((2, "2"), (4, "1,2,3")):
        for queue in (1, 2, 8):
            name = f"mlp{ranks}q{queue}"
            r = train(ranks, name, *DEEP, *delays, *sets(method__cut=f"[{cut}]", method__queue=queue, run__epochs=3))
            check("equal to the method's formula" in r.stdout and "DIFFERENT" not in r.stdout, r.stdout)
            oracle(name, "mlp", "model.widths=[48,40,32,24] model.dropout=0.2", "linear", "chunked", cut, 50, 15, False)


def case_residual():
    """The same for resnet20 with MLP-SR heads, batch norm, augmentation and dropout; and a wrong oracle is told apart."""
    glyphs(40, 20, 32)
    for ranks, cut, queue in ((2, "4", 1), (4, "2,5,8", 8)):
        name = f"res{ranks}"
        train(ranks, name, *RESNET8, "--allow-faults",
              *sets(method__cut=f"[{cut}]", method__queue=queue, run__epochs=2, fault__jitter=30))
        oracle(name, "resnet20", "model.dropout=0.2", "mlp-sr", "chunked", cut, 16, 6, True)
    r = subprocess.run([ORACLE, newest("res2"), "glyphs.h5", "resnet20", "model.dropout=0.2", "mlp-sr", "chunked", "4", "16", "5",
                        "0.05", "0.9", "1", "1"], env=ENV, capture_output=True, text=True)
    check(r.returncode == 1 and "differ" in r.stderr, "the oracle cannot fail", r.stdout, r.stderr)


if __name__ == "__main__":
    sys.exit(train_cases.main(globals()))
