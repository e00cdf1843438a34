"""Checkpoints that an earlier version wrote in mid-cycle are read and resumed.

checkpoints/golden holds, for each method and version of the format, a checkpoint of a run on 2 x 2 ranks, the run file, and
the checksums of the model's tensors at the end of the run that wrote it.  Whoever goes on from the checkpoint must end with the same bits.  The
runs use backend ref, whose plain loops give the same bits on every x86-64 processor, and none of them makes an SVD behind the
checkpoint.  How the files were made: checkpoints/README.md.
"""
import glob
import json
import shutil

import h5py
import pytest

import launch
from crafted import data_sets
from harness import ROOT, log, program, run, shoal

GOLDEN = f"{ROOT}/checkpoints/golden"
with open(f"{GOLDEN}/v1-train.json") as file:
    EXPECTED = json.load(file)
VERSIONS = [1, 2]
METHODS = ["sync", "local-sgd", "daso", "swarm", "ist", "ab", "local"]


def test_all_methods_are_there():
    assert sorted(EXPECTED) == sorted(METHODS)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", METHODS)
def test_verify_and_show(method, version):
    path = f"{GOLDEN}/v{version}-{method}.h5"
    shoal("ckpt", "verify", path)
    shown = shoal("ckpt", "show", path).stdout
    step = EXPECTED[method]["step"]
    lines = [line.split() for line in shown.splitlines()]
    assert ["method", method] in lines
    assert ["run", method] in lines
    assert ["model", "mlp"] in lines
    assert any(line[:3] == ["position", "step", f"{step},"] for line in lines), shown
    sums = {}
    for file in glob.glob(f"{GOLDEN}/v{version}-{method}.*h5"):  # every data set with its checksum, by another reader
        with h5py.File(file) as f:
            assert f.attrs["version"] == version
            sums.update({name: f"{int(d.attrs['crc32c']):08x}" for name, d in data_sets(f)})
    assert {line[0]: line[-1] for line in lines if line and line[0] in sums} == sums


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", METHODS)
def test_resume(method, version):
    shutil.copy(f"{GOLDEN}/v1-glyphs.h5", ".")
    run(launch.mpirun(4, program(), "train", f"{GOLDEN}/v1-{method}.yaml", "--quiet", "--topo", "2x2",
                      "--resume", f"{GOLDEN}/v{version}-{method}.h5"), timeout=120)
    text = log("golden")
    assert "resumed from" in text
    assert "; lost: " not in text
    assert "layout changed" not in text
    with h5py.File(f"runs/golden/ckpt/step-{EXPECTED[method]['last_step']:09d}.h5") as f:
        end = {name: f"{int(d.attrs['crc32c']):08x}" for name, d in f["model"].items() if not name.endswith("running_var")}
    assert end == EXPECTED[method]["model"]
