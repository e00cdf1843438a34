"""JSON of every verb: one document that a strict parser takes, whatever numbers and texts the files hold.  JSON has no NaN and no
infinity; Python's parser takes them unless it is told not to."""
import json
import os
import re
import shutil

import h5py
import numpy as np
import pytest

import crafted
from harness import PLAIN_ENV, TESTS, newest, program, run, said, trace_files

BAD = (float("nan"), float("inf"), float("-inf"))
NAMES = 'a"b\\\x1b[2J\n\tö\n\x7f'  # a name on each line


def refuse(word):
    raise ValueError(f"{word} is not JSON")


def pairs(members):
    names = [name for name, _ in members]
    assert len(set(names)) == len(names), f"a member twice: {names}"
    return dict(members)


def parse(text):
    tree = json.loads(text, parse_constant=refuse, object_pairs_hook=pairs)
    assert not re.search(r"(?<![\w\"])-?(nan|inf)", re.sub(r'"(\\.|[^"\\])*"', '""', text), re.I)
    return tree


def shoal(*args, **options):
    return run([program(), *map(str, args)], base=PLAIN_ENV, timeout=100, **options)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A data set, a checkpoint and a trace of a short run."""
    folder, before = tmp_path_factory.mktemp("good"), os.getcwd()
    os.chdir(folder)
    shoal(*"data synth blobs -o data.h5 --train 40 --test 10 --features 4 --classes 4".split())
    with open("run.yaml", "w") as f:
        f.write("run: { name: r, epochs: 1 }\nmodel: { name: mlp, widths: [4] }\ndata: { file: data.h5, batch: 8 }\n")
    shoal("train", "run.yaml", "-q")
    os.rename(newest("r"), "ckpt.h5")
    os.rename(trace_files("r")[0], "trace.h5")
    os.chdir(before)
    return folder


@pytest.fixture(autouse=True)
def files(good, work):
    """Copies of them that hold what JSON lacks: data.h5, foreign.h5, run/ckpt/step-000000005.h5, weights.h5, trace.h5."""
    shutil.copy(good / "data.h5", ".")
    shutil.copy(good / "trace.h5", ".")
    with h5py.File("data.h5", "r+") as f:
        f["train/x"][:3, 0], f["test/x"][0] = BAD, BAD[0]
        for name in ("mean", "std"):
            f.attrs[name] = np.full(np.shape(f.attrs[name]), BAD[0])
    with h5py.File("foreign.h5", "w") as f:
        f["X_train"] = np.full((20, 4), BAD[1], "f4")
        f["y_train"] = np.arange(20) % 3
        f.attrs["class_names"] = np.bytes_(NAMES.encode())
        f.attrs["mean"], f.attrs["std"] = BAD[1], BAD[2]
    with h5py.File("finite.h5", "w") as f:
        f["X_train"], f["y_train"] = np.ones((20, 4), "f4"), np.arange(20) % 4
    for name in ("run/ckpt/step-000000005.h5", "other.h5", "weights.h5"):
        os.makedirs("run/ckpt", exist_ok=True)
        shutil.copy(good / "ckpt.h5", name)

        def spoil(f):
            for x in [f[n] for n in arrays(f) if f[n].dtype.kind == "f" and f[n].size]:
                i = (0,) * x.ndim
                x[i] = BAD[len(x.name) % 3] if name != "other.h5" else BAD[0]
            if name == "weights.h5":
                return
            f.attrs["mean"] = np.full(np.shape(f.attrs["mean"]), BAD[0])
            f.attrs["std"] = np.full(np.shape(f.attrs["std"]), BAD[1])
            f.attrs["run"] = np.bytes_(b'a"\\\xff\x1b')
        crafted.change(name, spoil)
    with open("run/status.json", "w") as f:
        f.write('{"state": "failed", "reason": "a\\u001b\\"\\n", "step": 1e400, "job": "\\t", "progress": {"loss": null}}')
    with h5py.File("trace.h5", "r+") as f:
        rows, records = f["rank-00000/info"][:], f["rank-00000/records"][:]
        for name in rows.dtype.names:
            if rows.dtype[name].kind == "f":
                rows[name] = BAD[0]
            elif name == "clock_readings":
                rows[name] = 0  # with readings, a clock that is not finite is refused
        records["t1_ns"] = records["t0_ns"]  # shares of nothing
        f["rank-00000/info"][:], f["rank-00000/records"][:] = rows, records


def arrays(f):
    return [name for name, _ in crafted.data_sets(f)]


COMMANDS = {  # verb: what it is asked
    "data inspect": (("data.h5",), ("foreign.h5",)),
    "ckpt list": (("run",),),
    "ckpt show": (("other.h5",), ("run/ckpt/step-000000005.h5",)),
    "ckpt diff": (("other.h5", "run/ckpt/step-000000005.h5"), ("other.h5", "other.h5"),
                  ("other.h5", "run/ckpt/step-000000005.h5", "--tolerance", "inf")),
    "trace show": (("trace.h5",),),
    "predict": (("weights.h5", "finite.h5"),),
    "bench step": (("mlp", "--seconds", "0.1"),),
    "bench gemm": (("--seconds", "0.1"),),
    "bench comm": (("--seconds", "0.1"),),
    "status": ((".",), ("run",)),
    "topo": ((),),
    "doctor": ((),),
    "methods": ((), ("sync",)),
    "models": ((), ("resnet20",)),
    "config": ((),),
}


LINES = ("bench gemm", "bench comm")  # a document on each line, as it is measured


def verbs_with_json():
    """Every verb whose help names --json."""
    def listed(*verb):
        return re.findall(r"^  (\w+) ", shoal(*verb, "-h").stdout, re.M)
    found = set()
    for verb in listed():
        helped = shoal(verb, "-h").stdout
        inner = [f"{verb} {v}" for v in listed(verb)] if f"shoal {verb} VERB" in helped else [verb]
        found |= {v for v in inner if "--json" in shoal(*v.split(), "-h").stdout}
    return found


def test_all_verbs_are_here():
    assert verbs_with_json() == set(COMMANDS)


@pytest.mark.parametrize("verb", COMMANDS)
def test_strict(verb):
    for args in COMMANDS[verb]:
        r = shoal(*verb.split(), *args, "--json", code=None)
        assert r.returncode in ((0, 7) if verb in ("ckpt diff", "data inspect", "doctor") else (0,)), said(r)  # 7: what it found
        try:
            for document in r.stdout.splitlines() if verb in LINES else [r.stdout]:
                parse(document)
        except ValueError as e:
            pytest.fail(f"{e}: {said(r)}")


def test_export():
    parse(shoal("trace", "export", "trace.h5").stdout)


GOLDEN = f"{TESTS}/golden/trace-v1"


@pytest.mark.parametrize("attempt", ("1", "all"))
def test_first_trace_format(attempt):
    """Files of trace format 1, made before there was format 2, are shown with every number that was shown then."""
    paths = [f"{GOLDEN}-rank-{rank:05d}.h5" for rank in range(2)]
    shown = parse(shoal("trace", "show", *paths, "--json", "--attempt", attempt).stdout)
    with open(f"{GOLDEN}-attempt-{attempt}.json") as f:
        assert holds(shown, parse(f.read())), f"attempt {attempt}"


def holds(now, then):
    """Whether `now` has all that `then` has; it may have more keys."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(key in now and holds(now[key], then[key]) for key in then)
    if isinstance(then, list):
        return isinstance(now, list) and len(now) == len(then) and all(map(holds, now, then))
    return now == then


def test_files_of_a_run(files):
    """What a run writes for other programs, too: after data that is not finite ended it."""
    with open("run.yaml", "w") as f:
        f.write("run: { name: bad, epochs: 1 }\nmodel: { name: mlp, widths: [4] }\ndata: { file: foreign.h5, batch: 8 }\n")
    shoal("train", "run.yaml", "-q", code=None)
    for name in ("status.json", "placement.json"):
        with open(f"runs/bad/{name}") as f:
            parse(f.read())
