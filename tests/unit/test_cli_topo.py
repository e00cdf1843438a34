"""`shoal topo` against golden outputs in golden/topo.

two-numa.xml  a machine of 2 memory nodes, 8 cores each, 2 hardware threads each, as `lstopo` saves one
gpus-*.xml    machines with GPUs: shapes.py
cyclic.env    `env` in task 3 of a step on Slurm 22.05: 8 tasks, cyclic over nodes with room for 2, 1, 2 and 3
"""
import json

import pytest

from harness import PLAIN_ENV, TESTS, assert_one_error, program, read, run, said

GOLDEN = f"{TESTS}/golden/topo"


@pytest.fixture(autouse=True)
def beside_golden(work, monkeypatch):
    """Names of files are those in golden/topo; what a test writes goes to `work`."""
    monkeypatch.chdir(GOLDEN)


def topo(*args, code=0, words=(), **options):
    """What is printed; a refusal is one line."""
    r = run([program(), "topo", *args], code=code, base=PLAIN_ENV, **options)
    if code:
        assert_one_error(r)
    for word in words:
        assert word in r.stdout + r.stderr, said(r)
    return r.stdout


@pytest.fixture
def env_file(work):
    def write(text):
        with open(f"{work}/step.env", "w") as f:
            f.write(text)
        return f"{work}/step.env"
    return write


def test_plan_text():
    assert topo("--xml", "two-numa.xml", "--env", "cyclic.env") == read("cyclic.txt")


def test_plan_json():
    text = topo("--xml", "two-numa.xml", "--env", "cyclic.env", "--json")
    assert text == read("cyclic.json")
    table = json.loads(text)["placement"]
    assert table["applied"] is False, "a plan is not applied"
    assert [p["host"] for p in table["places"]] == ["n1", "n2", "n3", "n4", "n1", "n3", "n4", "n4"]  # as Slurm placed them
    assert [p["threads"] for p in table["places"]] == [8, 16, 8, 4, 8, 8, 4, 4]


def test_plan_cpus(env_file):
    """Six hardware threads each: in hwloc's order, and the third rank of a node crosses into the second memory node."""
    env = read("cyclic.env")
    out = topo("--xml", "two-numa.xml", "--env", env_file(env + "SLURM_CPUS_PER_TASK=6\n"), "--json")
    places = [p for p in json.loads(out)["placement"]["places"] if p["host"] == "n4"]
    assert [(p["cpus"], p["numa"], p["cores"]) for p in places] == [("0-5", "0", 3), ("6-11", "0", 3), ("12-17", "0-1", 3)]
    topo("--xml", "two-numa.xml", "--env", env_file(env + "SLURM_CPUS_PER_TASK=12\n"),
         words=["n4: 3 ranks of 12 cores each do not fit into 32"])
    topo("--env", "cyclic.env", words=["8 ranks on 4 nodes, planned, not applied"])


def test_plan_devices(env_file):
    """Two different nodes, of 2 and 4 ranks: a node saved under its name is that one, others the first.  What Slurm gave and what
    the user named wins."""
    files = [a for name in ("gpus-eight", "gpus-0-0-1-1") for a in ("--xml", f"{name}.xml")]
    step = "SLURM_STEP_NUM_TASKS=6\nSLURM_STEP_NODELIST=x1,gpus-0-0-1-1\nSLURM_STEP_TASKS_PER_NODE=2,4\n"
    plan = json.loads(topo(*files, "--env", env_file(step), "--json"))
    assert [p["cpus"] for p in plan["placement"]["places"]] == ["32-63", "0-31", "0-9,40-49", "10-19,50-59", "20-29,60-69", "30-39,70-79"]
    assert plan["locality"]["applied"] is False
    gpus, nics = ([d[kind] for d in plan["locality"]["devices"]] for kind in ("gpu", "interface"))
    assert [g["number"] for g in gpus] == [0, 4, 0, 1, 2, 3]
    assert gpus[1]["pci"] == "0000:31:00.0" and gpus[1]["name"].startswith("GPU-3100")
    assert [n["name"] for n in nics] == ["hsn0", "hsn2", "mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1"]
    assert [n["near"] for n in nics] == ["switch"] * 2 + ["numa"] * 4
    text = topo(*files, "--env", env_file(step + "CUDA_VISIBLE_DEVICES=1\nUCX_NET_DEVICES=mlx5_7:1\n"))
    assert "planned, not applied" in text and "devices by locality, not applied; MPI uses the interface that was named: mlx5_7:1" in text
    assert [line.split()[:2] for line in text.splitlines()[-6:]] == [[str(r), "1"] for r in range(6)]


def test_here():
    topo(words=["1 rank on 1 node\n", "NUMA", "actual"])
    there = json.loads(topo("--json"))
    assert there["placement"]["applied"]
    assert there["machine"]["file"] is None
    assert there["placement"]["places"][0]["cores"] == there["machine"]["cores"]


def test_batch_script():
    """What srun would start from there, by its variables alone (no command is there to ask)."""
    batch = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "5", "SLURM_JOB_NODELIST": "n[1-2,4]", "SLURM_TASKS_PER_NODE": "3,1(x2)",
             "SLURM_JOB_NUM_NODES": "3", "SLURM_PROCID": "0", "SLURM_NODEID": "0", "PATH": "/nonexistent"}
    out = topo("--json", env=batch)
    assert [p["host"] for p in json.loads(out)["placement"]["places"]] == ["n1", "n1", "n1", "n2", "n4"]
    topo(env={**batch, "SLURM_JOB_NODELIST": ""}, code=2, words=["SLURM_JOB_NODELIST) is missing"])
    topo(env={"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}, code=3, words=["4 tasks", "srun --mpi=pmix"])


def test_help():
    topo("-h", words=["usage", "--xml", "--env", "--json"])


@pytest.mark.parametrize("args, code, words", (
    (["--evn", "x"], 2, ["--evn", "did you mean --env"]),
    (["n1"], 2, []),
    (["--env", "absent.env"], 7, ["absent.env"]),
    (["--xml", "cyclic.env"], 7, ["cyclic.env", "lstopo"]),
    (["--xml", "damaged.xml"], 7, ["damaged.xml is damaged", "lstopo"]),  # hwloc itself crashes on it
    (["--env", "two-numa.xml"], 2, ["NAME=VALUE"]),
    (["--topo", "2x2", "--env", "cyclic.env"], 2, ["--topo"]),
    (["--topo", "2x2"], 2, ["is for 4 ranks, this run has 1"]),
))
def test_refused(args, code, words):
    topo(*args, code=code, words=words)


@pytest.mark.parametrize("text, words", (
    ("HOME=/root\n", ["SLURM_STEP_NUM_TASKS nor SLURM_NTASKS"]),
    ("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NUM_NODES=2\n", ["SLURM_STEP_NODELIST", "missing"]),
    ("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NODELIST=n[1-\n", ['SLURM_STEP_NODELIST "n[1-", position 5']),
))
def test_environment_refused(env_file, text, words):
    topo("--env", env_file(text), code=2, words=words)
