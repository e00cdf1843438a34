"""What tests of whole runs share: starting `shoal` and its ranks, waiting for what a run shows, and reading what it left.

A test works in a folder of its own (fixture `work`), so names of files are relative: run `r1` is in runs/r1.  Oracles are
mostly `shoal ckpt diff` (bit equality or a stated tolerance), exit codes, and formulas worked out in the test itself.
Everything random comes from random_source(), which is the same every time.
"""
import glob
import json
import os
import random
import re
import signal
import subprocess
import time

import cluster
import launch

TESTS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(TESTS)
FULL = os.environ.get("SHOAL_FULL") == "1"  # long studies whole
ENV = launch.environment()
# What a launcher or a batch system says to its processes; tests of a plain start do without.
PLAIN_ENV = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SRUN", "PMI", "OMPI", "MPI_", "HWLOC", "SHOAL"))}
KINDS = ["forward", "backward", "optimizer", "exchange", "wait", "input", "checkpoint", "evaluation", "other", "step"]
STEP = KINDS.index("step")  # of a record in a trace, docs/trace-format.md
_build = f"{ROOT}/build/dev"


def use_build(folder):
    """Names the build folder that programs come from; conftest.py does, before any test."""
    global _build
    _build = os.path.realpath(folder)


def build():
    """The build folder."""
    return _build


def program():
    """Path of `shoal`."""
    return f"{_build}/src/cli/shoal"


def built(name):
    """Path of a program or library that tests/ builds."""
    path = f"{_build}/tests/{name}"
    assert os.path.exists(path), f"{path} is missing: build it first"
    return path


def random_source(what=""):
    """A random.Random that draws the same numbers every time.  SHOAL_TEST_SEED chooses others."""
    return random.Random(f"{os.environ.get('SHOAL_TEST_SEED', 1)} {what}")


def stops(count, below, apart=2, what=""):
    """Steps to stop a run at, drawn by the seed.  A stop asked for in step k happens after step k+1, so they are at least two
    apart."""
    rng = random_source(what)
    while True:
        steps = sorted(rng.sample(range(below), count))
        if all(b - a >= apart for a, b in zip(steps, steps[1:])):
            print(what, "stops at", steps)
            return steps


def sampled(items, count):
    """All items with SHOAL_FULL=1, else `count` of them, drawn by the seed, in their order."""
    items = list(items)
    return items if FULL else [items[i] for i in sorted(random_source().sample(range(len(items)), count))]


# ---- starting ----------------------------------------------------------------------------------------------------------

def said(r):
    """What a finished process printed, for the message of an assertion."""
    return f"{' '.join(map(str, r.args))}: exit {r.returncode}\n{r.stdout or ''}{r.stderr or ''}"


def run(command, code=0, env=None, base=ENV, timeout=240, **options):
    """One process to its end; `code` is the exit code it must have, None for any; `env` adds to the environment `base`.  A process
    that is ended for lasting longer than `timeout` seconds has 124."""
    command = [str(c) for c in command]
    try:
        r = subprocess.run(command, env={**base, **(env or {})}, timeout=timeout, text=True,
                           **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
    except subprocess.TimeoutExpired as e:
        out, err = ((s or b"").decode(errors="replace") for s in (e.stdout, e.stderr))
        r = subprocess.CompletedProcess(command, 124, out, f"{err}\nended after {timeout} s")
    if code is not None:
        assert r.returncode == code, said(r)
    return r


def shoal(*args, **options):
    return run([program(), *args], **options)


def cluster_sh(verb, *args, **options):
    """A verb of slurm/cluster.sh."""
    return run(cluster.command(verb, *args), **options)


def sets(**options):
    """model__name="mlp" → --set model.name=mlp"""
    return [a for key, value in options.items() for a in ("--set", f"{key.replace('__', '.')}={value}")]


def train_command(ranks, name, *args, through=()):
    """`shoal train` of the run `name`, under mpirun if there are several ranks, each of them started by the words `through`."""
    return [*(launch.mpirun(ranks) if ranks > 1 else []), *through, program(), "train", *map(str, args), "--set", f"run.name={name}"]


def train(ranks, name, *args, **options):
    """One run to its end; args are further arguments of `shoal train`."""
    return run(train_command(ranks, name, *args), **options)


def through(script, ranks, *command, **options):
    """Ranks of a command started through a shell that first runs `script`, which ends in `exec "$@"` or goes on by itself; $R is
    the rank."""
    return run(launch.mpirun(ranks, "sh", "-c", f"R=$OMPI_COMM_WORLD_RANK; {script}", "sh", *command), **options)


def train_through(script, ranks, name, *args, **options):
    return through(script, ranks, *train_command(1, name, *args), **options)


def start(ranks, name, *args, through=()):
    """The same in the background; what it prints goes to NAME.out."""
    with open(f"{name}.out", "w") as log:
        return subprocess.Popen(train_command(ranks, name, *args, through=through), env=ENV, stdout=log, stderr=log)


def children(pid):
    out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(p) for p in out.split()]


def ranks_of(job):
    """Ranks of a running mpirun job with their process ids."""
    out = {}
    for pid in children(job.pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                env = dict(e.split(b"=", 1) for e in f.read().split(b"\0") if b"=" in e)
        except OSError:  # it has ended
            continue
        if b"OMPI_COMM_WORLD_RANK" in env:
            out[int(env[b"OMPI_COMM_WORLD_RANK"])] = pid
    return out


def send(pid, number):
    """Sends a signal to a process that may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill_all(job):
    """kill -9 of mpirun and all its ranks."""
    if job.poll() is None:
        for pid in [job.pid, *children(job.pid)]:
            send(pid, signal.SIGKILL)
    return job.wait()


# ---- waiting -----------------------------------------------------------------------------------------------------------

def wait_until(what, happened, seconds=60):
    """Waits until happened() is true; returns the seconds it took."""
    begin = time.monotonic()
    while not happened():
        assert time.monotonic() - begin < seconds, f"{what}: not within {seconds} s"
        time.sleep(0.02)
    return time.monotonic() - begin


def read(path):
    """Text of a file, empty if there is none yet."""
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def shows(path, pattern):
    return re.search(pattern, read(path)) is not None


def wait_for(path, pattern, seconds=60):
    """Waits until a file shows a regular expression."""
    try:
        return wait_until(f"{pattern!r} in {path}", lambda: shows(path, pattern), seconds)
    except AssertionError as e:
        raise AssertionError(f"{e}\n{read(path)[-4000:]}") from None


# ---- reading what a run left ---------------------------------------------------------------------------------------------

def status(name):
    with open(f"runs/{name}/status.json") as f:
        return json.load(f)


def metrics(name):
    """Rows of metrics.csv, each as column → text."""
    with open(f"runs/{name}/metrics.csv") as f:
        header, *rows = [line.strip().split(",") for line in f]
    return [dict(zip(header, row)) for row in rows]


def column(name, *keys):
    """Some columns of metrics.csv."""
    return [tuple(m[k] for k in keys) for m in metrics(name)]


def rows(name):
    """Rows of metrics.csv without what differs from run to run."""
    return [{k: v for k, v in m.items() if k not in ("time_s", "samples_per_s", "wait_share")} for m in metrics(name)]


def log(name):
    return read(f"runs/{name}/log.txt")


def placement(name):
    with open(f"runs/{name}/placement.json") as f:
        return json.load(f)


def places(name):
    """Rows of placement.json, one per rank."""
    return placement(name)["places"]


def checkpoints(name):
    """Paths of a run's checkpoints, oldest first."""
    folder = f"runs/{name}/ckpt"
    files = os.listdir(folder) if os.path.isdir(folder) else []
    return [f"{folder}/{f}" for f in sorted(files) if f.startswith("step-") and f.endswith(".h5") and ".shard-" not in f]


def newest(name):
    files = checkpoints(name)
    assert files, f"no checkpoint in runs/{name}/ckpt"
    return files[-1]


def arrays(path):
    """Every data set of a checkpoint: name → numpy array."""
    import h5py
    from crafted import data_sets
    with h5py.File(path) as f:
        return {name: d[()] for name, d in data_sets(f)}


def replicas(path, name):
    """One array of every rank in a checkpoint, in rank order."""
    import h5py
    with h5py.File(path) as f:
        return [f[f"replica/{k}/{name}"][()] for k in range(len(f["replica"]))]


def trace_table(name, *args):
    """`trace show --json` of a run."""
    return json.loads(shoal("trace", "show", f"runs/{name}", "--json", *args).stdout)


def trace_files(name, attempt=None, folder="runs"):
    """Trace files of a run, or of one of its attempts, in order of attempt and node."""
    number = "*" if attempt is None else f"{attempt:04d}"
    return sorted(glob.glob(f"{folder}/{name}/trace/attempt-{number}-node-*.h5"))


class Trace:
    """What the last attempt of a run, or another one, has of a rank: `records` and its row `info` as in docs/trace-format.md, the
    names `ops`, the rows `groups`, and the attributes `attrs` of its file."""

    def __init__(self, name, rank, attempt=None):
        import h5py
        for path in reversed(trace_files(name, attempt)):
            with h5py.File(path) as f:
                if f"rank-{rank:05d}" in f:
                    group = f[f"rank-{rank:05d}"]
                    self.path, self.attrs = path, dict(f.attrs)
                    self.records, self.info = group["records"][()], group["info"][0]
                    self.ops = [o.decode() for o in group["ops"][()]]
                    self.groups = group["groups"][()]
                    return
        raise AssertionError(f"no trace of rank {rank} in runs/{name}/trace")


def nodes_of(topo):
    """Node of every rank: "2x2" → [0, 0, 1, 1], "1,2" → [0, 1, 1]"""
    if "x" in topo:
        nodes, ranks = map(int, topo.split("x"))
        per_node = [ranks] * nodes
    else:
        per_node = [int(n) for n in topo.split(",")]
    return [node for node, ranks in enumerate(per_node) for _ in range(ranks)]


# ---- comparing ---------------------------------------------------------------------------------------------------------

def diff(a, b, *args):
    """`shoal ckpt diff`: exit code 0 if equal, 7 if not."""
    return shoal("ckpt", "diff", a, b, *args, code=None)


def assert_equal(a, b, what, *parts, tolerance=None):
    """Two checkpoints agree in every bit, or within a tolerance, in all that training is made of (only the clock may differ) or
    in the named parts of it."""
    for part in parts or (None,):
        r = diff(a, b, *(["--only", part] if part else []), *(["--tolerance", tolerance] if tolerance else []))
        assert r.returncode == 0, f"{what}: {part or 'checkpoints'} differ\n{said(r)}"


def assert_differ(a, b, what, *args):
    """The comparison can fail: these two must differ."""
    r = diff(a, b, *args)
    assert r.returncode == 7, f"{what}\n{said(r)}"


def assert_one_error(r, *words):
    """Standard error has one line about an error, whoever wrote it, and that line has all these words.  Not counted is what Open MPI 5
    says where its daemon can no longer reach a rank that has ended."""
    lines = [line for line in r.stderr.splitlines() if "error" in line.lower() and "PMIX_ERR_UNREACH" not in line]
    assert len(lines) == 1, said(r)
    for word in words:
        assert word in lines[0], said(r)


def assert_formula(r):
    """The program compared the bytes it counted with its method's formula, and they were equal."""
    assert "DIFFERENT" not in r.stdout, r.stdout
    assert "equal to the method's formula" in r.stdout, r.stdout


# ---- small runs ----------------------------------------------------------------------------------------------------------

MLP = sets(model__name="mlp", model__widths="[64,32]", optim__lr=0.05, optim__momentum=0.9, data__file="glyphs.h5")
RESNET = sets(model__name="resnet20", model__dropout=0.2, data__augment="[crop4,hflip]", data__file="glyphs.h5",
              data__batch=16, run__epochs=2, optim__momentum=0.9, optim__lr=0.05, optim__schedule="cosine",
              optim__weight_decay=5e-4)
# All methods, with what makes some dozens of steps enough to see their exchanges.
METHODS = {
    "sync": [],
    "local-sgd": sets(method__period=3),
    "daso": sets(method__warmup_epochs=0, method__cooldown_epochs=0, method__every=2, method__wait=1),
    "swarm": sets(method__deterministic="true", method__local_steps=2),
    "ab": sets(method__warmup=4, method__cycle=6, method__rebound=2),
    "ist": sets(method__round=4),
    "local": sets(method__chunks=2),
}
