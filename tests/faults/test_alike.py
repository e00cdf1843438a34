"""Ranks whose models must be equal bit for bit stay so where they differ in threads and instruction set; one that drifts all
the same is found at the next checkpoint; and one that is long at a decomposition is not taken for one that hangs."""
import pytest

from harness import METHODS, MLP, built, checkpoints, log, newest, replicas, sets, shoal, status, train, train_through

WIDE = [*MLP, *sets(model__widths="[96,96,64,48]", run__epochs=2, data__global_batch=40, ckpt__every="3 steps", optim__clip=1)]
# oneDNN has other kernels for each instruction set, and rank 0 has one core.
MIXED = """
case $R in
0) export ONEDNN_MAX_CPU_ISA=SSE41 OMP_NUM_THREADS=1; exec taskset -c 0 "$@" ;;
1) export ONEDNN_MAX_CPU_ISA=AVX2 OMP_NUM_THREADS=2 ;;
*) export OMP_NUM_THREADS=4 ;;
esac
exec "$@"
"""


@pytest.mark.parametrize("method, more", [
    *((m, o) for m, o in METHODS.items() if m not in ("swarm", "ist")),  # whose ranks are never equal
    ("ab", sets(method__mode="only-b", method__warmup=4, method__cycle=6, method__rebound=2)),
    ("ab", sets(method__mode="only-learned", method__warmup=4, method__cycle=6, method__rebound=2))])
def test_alike(glyphs, method, more):
    """Checkpoints are full of states that all ranks, those of a node or those of a stage must have in common."""
    glyphs(600)
    topo = ["--topo", "2x2"]
    train_through(MIXED, 4, "mixed", *WIDE, *topo, *more, *sets(method__name=method, ckpt__every="2 steps", ckpt__keep=99))
    assert status("mixed")["state"] == "done"
    shoal("ckpt", "verify", newest("mixed"))
    pairs = {"local-sgd": ((0, 1), (2, 3), (0, 3)), "daso": ((0, 1), (2, 3))}  # which save every rank's own
    for path in checkpoints("mixed") if method in pairs else ():
        if method == "daso" or int(path[-12:-3]) % 3 == 1:  # within a node; in the steps that end in an average
            own = replicas(path, "weights")
            for a, b in pairs[method]:
                assert (own[a] == own[b]).all(), f"{path}: ranks {a} and {b}"


@pytest.mark.parametrize("method, step", (("sync", 4), ("ab", 2), ("ab", 4), ("daso", 4), ("local", 4)))
def test_alike_drift(glyphs, method, step):
    """The last bit of one weight on one rank: the next checkpoint is refused with 3, by name, and the one before stays.  At step 2
    of ab ranks train the whole model, at step 4 factors."""
    glyphs(600)
    r = train(4, "drift", *WIDE, *METHODS[method], "--topo", "2x2", "--allow-faults",
              *sets(method__name=method, ckpt__every="1 steps", fault__rank=1, fault__nan_step=step, fault__nan_place="drift"), code=3)
    errors = [line for line in r.stderr.splitlines() if "shoal: error" in line]
    assert len(errors) == 1 and "of rank 1 (host " in errors[0] and f"at step {step + 1} differ from those" in errors[0], r.stderr
    assert newest("drift").endswith(f"{step:09d}.h5"), checkpoints("drift")
    shoal("ckpt", "verify", newest("drift"))
    assert (status("drift")["state"], status("drift")["exit_code"]) == ("failed", 3)


@pytest.mark.parametrize("what", ("split", "start"))
def test_alike_long_svd(glyphs, what):
    """Rank 1 is twice comm.hang at a decomposition, at a split or for orthogonal weights at the start: the other waits,
    and says nothing."""
    glyphs(200)
    options = sets(comm__warn="1s", comm__hang="2s", run__steps=8)
    options += [*METHODS["ab"], *sets(method__name="ab")] if what == "split" else sets(model__orthogonal="true")
    slow = f'[ $R = 1 ] && export LD_PRELOAD={built("libslowsvd.so")} SLOWSVD_MS=4000; exec "$@"'
    r = train_through(slow, 2, "long", *WIDE, *options)
    assert "not moved" not in r.stdout + r.stderr + log("long"), r.stdout + r.stderr
    assert status("long")["state"] == "done"
