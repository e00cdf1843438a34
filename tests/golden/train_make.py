#!/usr/bin/env python3
"""Makes the golden checkpoints of whole runs:  train_make.py SHOAL DIR

DIR holds the run files v1-METHOD.yaml.  Each is trained on 2 x 2 pretended ranks, with data v1-glyphs.h5 made here, and saves
in mid-cycle.  That checkpoint becomes v1-METHOD.h5; v1-train.json holds, per method, its step, the last step, and the check
sums of the model's tensors at the end of the run.

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

# The step of the checkpoint; a run has 3 epochs of 6 steps.
SAVED = {"sync": 9, "local-sgd": 10, "daso": 8, "swarm": 10, "ist": 10, "ab": 10, "local": 9}

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
    expected = {}
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        subprocess.run([program, "data", "synth", "glyphs", "-o", "v1-glyphs.h5", "--train", "120", "--test", "30", "--size", "8",
                        "--seed", "7"], check=True)
        for method, step in SAVED.items():
            train(program, f"{folder}/v1-{method}.yaml", "--set", f"run.name={method}", "--set", f"ckpt.every={step} steps")
            files = sorted(os.listdir(f"runs/{method}/ckpt"))
            file, end = f"runs/{method}/ckpt/step-{step:09d}.h5", f"runs/{method}/ckpt/{files[-1]}"
            with h5py.File(file) as f, h5py.File(end) as g:
                if not UNDER_WAY[method](f, step):
                    sys.exit(f"{method}: step {step} is not in mid-cycle")
                expected[method] = {"step": step, "last_step": int(g.attrs["step"]), "model": tensors(end)}
            shutil.copy(file, f"{folder}/v1-{method}.h5")
        shutil.copy("v1-glyphs.h5", folder)
    with open(f"{folder}/v1-train.json", "w") as f:
        json.dump(expected, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
