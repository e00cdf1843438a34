#!/usr/bin/env python3
"""Makes the golden checkpoints of whole runs:  train_make.py SHOAL DIR

DIR holds the run files v1-METHOD.yaml and their data v1-glyphs.h5.  Each is trained on 2 x 2 pretended ranks and saves in
mid-cycle.  That checkpoint becomes v2-METHOD.h5; those of SPLIT are written again in four files, as v2-METHOD.h5 and its
shards.  v1-train.json holds, per method, its step, the last step, and the checksums of the model's tensors at the end of the
run: they must come out again.

Run once per format version, by hand; the files then stand in checkpoints/golden for ever, because what counts is that later
versions go on from what an earlier one wrote.  No test runs this.  The test train.golden (tests/mpi/test_golden.py) reads
the files.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import h5py

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
from launch import environment, mpirun

SPLIT = ("daso", "ist")  # written by tests/ckpt_split of the same build

# What must be under way in the checkpoint: a condition on the file and its step.
UNDER_WAY = {
    "sync": lambda f, step: step % 6,  # an epoch of 6 steps
    "local-sgd": lambda f, step: step % 4 and (f["replica/0/weights"][()] != f["replica/2/weights"][()]).any(),
    "daso": lambda f, step: len(f["method/sums"]) == 1,
    "swarm": lambda f, step: len({f[f"replica/{k}/weights"].attrs["crc32c"] for k in range(4)}) == 4,
    "ist": lambda f, step: f["method/round"][()] > 0 and f["method/began"][()] < step,
    "ab": lambda f, step: f["method/ab_place"][0] == 1,
    "local": lambda f, step: step % 6 and list(f["method/grid"])[:2] == [2, 2],
}


def train(program, run_file, *more):
    command = [*mpirun(4), program, "train", run_file, "--quiet", "--topo", "2x2", *more]
    r = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}")


def tensors(path):
    """Checksums of the trained tensors, and of running means; running variances are measured, not trained."""
    with h5py.File(path) as f:
        return {name: f"{int(d.attrs['crc32c']):08x}" for name, d in f["model"].items() if not name.endswith("running_var")}


def main():
    program, folder = map(os.path.realpath, sys.argv[1:])
    split = os.path.join(os.path.dirname(program), "../../tests/ckpt_split")
    with open(f"{folder}/v1-train.json") as f:
        expected = json.load(f)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        shutil.copy(f"{folder}/v1-glyphs.h5", ".")
        for method, want in expected.items():
            step = want["step"]  # a run has 3 epochs of 6 steps
            train(program, f"{folder}/v1-{method}.yaml", "--set", f"run.name={method}", "--set", f"ckpt.every={step} steps")
            file, end = (f"runs/{method}/ckpt/step-{n:09d}.h5" for n in (step, want["last_step"]))
            with h5py.File(file) as f:
                if not UNDER_WAY[method](f, step):
                    sys.exit(f"{method}: step {step} is not in mid-cycle")
            if tensors(end) != want["model"]:
                sys.exit(f"{method}: another end than that of version 1")
            to = f"{folder}/v2-{method}.h5"
            if method in SPLIT:
                subprocess.run([split, file, to, "3"], check=True)
            else:
                shutil.copy(file, to)


if __name__ == "__main__":
    main()
