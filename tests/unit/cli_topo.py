#!/usr/bin/env python3
"""`shoal topo` against golden outputs: cli_topo.py SHOAL GOLDEN

two-numa.xml  a machine of 2 memory nodes, 8 cores each, 2 hardware threads each, as `lstopo` saves one
cyclic.env    `env` in task 3 of a step on Slurm 22.05: 8 tasks, cyclic over nodes with room for 2, 1, 2 and 3
"""
import difflib
import json
import os
import subprocess
import sys
import tempfile

SHOAL, GOLDEN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
FOREIGN = ("SLURM", "SRUN", "PMI", "OMPI", "MPI_", "HWLOC")
ENV = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
failures = 0


def check(ok, *what):
    global failures
    if not ok:
        failures += 1
        print("CHECK failed:", *what)


def topo(*args, code=0, env=None, words=()):
    r = subprocess.run([SHOAL, "topo", *args], env={**ENV, **(env or {})}, capture_output=True, text=True)
    check(r.returncode == code, args, f"exit {r.returncode}, expected {code}\n{r.stdout}{r.stderr}")
    check(all(w in r.stdout + r.stderr for w in words), args, f"does not say {words}\n{r.stdout}{r.stderr}")
    check(not code or r.stderr.count("shoal: error") == 1, args, "not one line\n" + r.stderr)
    return r.stdout


def golden(name, *args):
    with open(name) as f:
        want = f.read()
    got = topo(*args)
    check(got == want, name, "".join(difflib.unified_diff(want.splitlines(True), got.splitlines(True), "golden", "now")))
    return got


def env_file(text):
    with open(f"{temp}/step.env", "w") as f:
        f.write(text)
    return f"{temp}/step.env"


def plans():
    golden("cyclic.txt", "--xml", "two-numa.xml", "--env", "cyclic.env")
    table = json.loads(golden("cyclic.json", "--xml", "two-numa.xml", "--env", "cyclic.env", "--json"))["placement"]
    check(table["applied"] is False, "a plan is not applied")
    check([p["host"] for p in table["places"]] == ["n1", "n2", "n3", "n4", "n1", "n3", "n4", "n4"], table)  # as Slurm placed them
    check([p["threads"] for p in table["places"]] == [8, 16, 8, 5, 8, 8, 5, 5], table)
    with open("cyclic.env") as f:
        env = f.read()
    # Six hardware threads each: in hwloc's order, and the third rank of a node crosses into the second memory node.
    out = topo("--xml", "two-numa.xml", "--env", env_file(env + "SLURM_CPUS_PER_TASK=6\n"), "--json")
    places = json.loads(out)["placement"]["places"]
    check([(p["cpus"], p["numa"], p["cores"]) for p in places if p["host"] == "n4"] ==
          [("0-5", "0", 3), ("6-11", "0", 3), ("12-17", "0-1", 3)], places)
    topo("--xml", "two-numa.xml", "--env", env_file(env + "SLURM_CPUS_PER_TASK=12\n"), words=["n4: 3 ranks of 12 cores each do not fit into 32"])
    topo("--env", "cyclic.env", words=["8 ranks on 4 nodes, planned, not applied"])


def here():
    topo(words=["1 rank on 1 node\n", "NUMA", "what is"])
    machine = json.loads(topo("--json"))
    check(machine["placement"]["applied"] and machine["machine"]["file"] is None, machine)
    check(machine["placement"]["places"][0]["cores"] == machine["machine"]["cores"], machine)
    # In a batch script: what srun would start from there, by its variables alone (H05: no command is there to ask).
    batch = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "5", "SLURM_JOB_NODELIST": "n[1-2,4]", "SLURM_TASKS_PER_NODE": "3,1(x2)",
             "SLURM_JOB_NUM_NODES": "3", "SLURM_PROCID": "0", "SLURM_NODEID": "0", "PATH": "/nonexistent"}
    out = topo("--json", env=batch)
    check([p["host"] for p in json.loads(out)["placement"]["places"]] == ["n1", "n1", "n1", "n2", "n4"], out)
    topo(env={**batch, "SLURM_JOB_NODELIST": ""}, code=2, words=["SLURM_JOB_NODELIST) is missing"])
    topo(env={"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}, code=3, words=["4 tasks", "srun --mpi=pmix"])


def refusals():
    topo("-h", words=["usage", "--xml", "--env", "--json"])
    topo("--evn", "x", code=2, words=["--evn", "did you mean --env"])
    topo("n1", code=2)
    topo("--env", "absent.env", code=7, words=["absent.env"])
    topo("--xml", "cyclic.env", code=7, words=["cyclic.env", "lstopo"])
    topo("--env", "two-numa.xml", code=2, words=["NAME=VALUE"])
    topo("--env", env_file("HOME=/root\n"), code=2, words=["SLURM_STEP_NUM_TASKS nor SLURM_NTASKS"])
    topo("--env", env_file("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NUM_NODES=2\n"), code=2, words=["SLURM_STEP_NODELIST", "missing"])
    topo("--env", env_file("SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NODELIST=n[1-\n"), code=2, words=['SLURM_STEP_NODELIST "n[1-", position 5'])
    topo("--topo", "2x2", "--env", "cyclic.env", code=2, words=["--topo"])
    topo("--topo", "2x2", code=2, words=["is for 4 ranks, this run has 1"])


os.chdir(GOLDEN)
with tempfile.TemporaryDirectory(prefix="shoal-topo-") as temp:
    plans()
    here()
    refusals()
print(f"{failures} failures")
sys.exit(failures != 0)
