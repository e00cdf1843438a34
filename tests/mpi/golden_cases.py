"""Checkpoints that an earlier version wrote in mid-cycle are read and resumed: golden_cases.py SHOAL

checkpoints/golden holds, for each method, a checkpoint of a run on 2 x 2 ranks, the run file, and the check sums of the
model's tensors at the end of the run that wrote it.  Whoever goes on from the checkpoint must end with the same bits.  The
runs use backend ref, whose plain loops give the same bits on every x86-64 processor, and none of them makes an SVD behind the
checkpoint.  How the files were made: checkpoints/README.md.
"""
import json
import os
import shutil
import subprocess
import sys

import h5py
import pytest

sys.dont_write_bytecode = True  # nothing is written beside the sources
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from launch import environment, mpirun

GOLDEN = os.path.join(HERE, "../../checkpoints/golden")
with open(os.path.join(GOLDEN, "v1-train.json")) as file:
    EXPECTED = json.load(file)
METHODS = ["sync", "local-sgd", "daso", "swarm", "ist", "ab", "local"]


def call(*command, folder=None):
    r = subprocess.run(command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}"
    return r.stdout


@pytest.fixture(scope="session")
def shoal():
    return os.environ["SHOAL"]


def test_all_methods_are_there():
    assert sorted(EXPECTED) == sorted(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_verify_and_show(shoal, method):
    path = f"{GOLDEN}/v1-{method}.h5"
    call(shoal, "ckpt", "verify", path)
    shown = call(shoal, "ckpt", "show", path)
    step = EXPECTED[method]["step"]
    lines = [line.split() for line in shown.splitlines()]
    assert ["method", method] in lines
    assert ["run", method] in lines and ["model", "mlp"] in lines
    assert any(line[:3] == ["position", "step", f"{step},"] for line in lines), shown
    with h5py.File(path) as f:  # every data set with its check sum, by another reader
        names = []
        f.visititems(lambda name, d: names.append(name) if isinstance(d, h5py.Dataset) else None)
        table = {line[0]: line[-1] for line in lines if line and line[0] in names}
        assert table == {name: f"{int(f[name].attrs['crc32c']):08x}" for name in names}


@pytest.mark.parametrize("method", METHODS)
def test_resume(shoal, method, tmp_path):
    shutil.copy(f"{GOLDEN}/v1-glyphs.h5", tmp_path)
    call(*mpirun(4), shoal, "train", f"{GOLDEN}/v1-{method}.yaml", "--quiet", "--topo", "2x2", "--resume", f"{GOLDEN}/v1-{method}.h5",
         folder=tmp_path)
    with open(tmp_path / "runs/golden/log.txt") as f:
        log = f.read()
    assert "resumed from" in log and "; lost: " not in log and "layout changed" not in log, log
    with h5py.File(tmp_path / f"runs/golden/ckpt/step-{EXPECTED[method]['last_step']:09d}.h5") as f:
        end = {name: f"{int(d.attrs['crc32c']):08x}" for name, d in f["model"].items() if not name.endswith("running_var")}
    assert end == EXPECTED[method]["model"]


if __name__ == "__main__":
    os.environ["SHOAL"] = os.path.abspath(sys.argv[1])
    sys.exit(pytest.main([os.path.realpath(__file__), "-q", "-p", "no:cacheprovider", *sys.argv[2:]]))
