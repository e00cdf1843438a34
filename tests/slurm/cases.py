#!/usr/bin/python3
"""Whole runs under a real Slurm, one case per ctest entry: cases.py SHOAL CASE

The cluster is the one of cluster.sh, four nodes on this machine, started by the ctest fixture or by hand.  A case works in
a folder of its own below the cluster's work folder, which all nodes see, and removes it.  Exit 77: no cluster can be made
here.  SHOAL_FULL=1 runs the long versions, SHOAL_KEEP=1 leaves the folder of a failed case.
"""
import glob
import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/..")
import launch

CLUSTER = f"{HERE}/cluster.sh"
ROOT = os.path.realpath(f"{HERE}/../..")
SBATCH = f"{ROOT}/jobs/train.sbatch"
SHOAL, CASE = os.path.realpath(sys.argv[1]), sys.argv[2]
STATE = os.path.realpath(os.environ.get("SHOAL_CLUSTER_DIR", "/tmp/shoal-cluster"))
FULL = os.environ.get("SHOAL_FULL") == "1"
ENV = launch.environment(PATH=f"{os.path.dirname(SHOAL)}:{os.environ['PATH']}")
failures = 0


class Failed(Exception):
    """The case cannot go on; what is wrong has been printed."""


def check(ok, *what):
    global failures
    if not ok:
        failures += 1
        print("CHECK failed:", *what, flush=True)
    return ok


def run(command, code=0, env=None, timeout=120):
    """code: the exit code wanted, without which the case ends; or None for any."""
    command = [str(c) for c in command]
    try:
        r = subprocess.run(command, env={**ENV, **(env or {})}, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as e:
        said = [(s or b"").decode(errors="replace") for s in (e.stdout, e.stderr)]
        r = subprocess.CompletedProcess(command, 124, said[0], f"{said[1]}\nkilled after {timeout} s")
    if code is not None and not check(r.returncode == code, f"{' '.join(command)}: exit {r.returncode}, expected {code}\n"
                                                            f"{r.stdout}{r.stderr}"):
        raise Failed
    return r


def cluster(*args, **kw):
    return run([CLUSTER, *args], **kw)


def on_cluster(*args, **kw):
    return run([CLUSTER, "exec", *args], **kw)


def shoal(*args, **kw):
    return run([SHOAL, *args], **kw)


def srun(*args, code=0, env=None, mpi="pmix", timeout=120):
    """args: options of srun, then the command.  Not run when the step never gets its nodes."""
    return on_cluster("srun", "--immediate=60", f"--mpi={mpi}", *args, code=code, env=env, timeout=timeout)


def sets(**options):
    return [a for key, value in options.items() for a in ("--set", f"{key.replace('__', '.')}={value}")]


MLP = sets(model__name="mlp", model__widths="[64,32]", optim__lr=0.05, optim__momentum=0.9, data__file="glyphs.h5")
EIGHT = ["-N4", "--ntasks-per-node=2"]


def train(name, *args):
    return [SHOAL, "train", *args, "--set", f"run.name={name}"]


def glyphs(count=600, test=100, size=28):
    shoal("data", "synth", "glyphs", "-o", "glyphs.h5", "--train", count, "--test", test, "--size", size, "--seed", 3)


def status(name):
    with open(f"runs/{name}/status.json") as f:
        return json.load(f)


def nodes_of(name):
    with open(f"runs/{name}/placement.json") as f:
        return [p["host"] for p in json.load(f)["places"]]


def newest(name):
    files = sorted(f for f in os.listdir(f"runs/{name}/ckpt") if f.startswith("step-") and f.endswith(".h5"))
    check(files, f"no checkpoint in runs/{name}/ckpt")
    return f"runs/{name}/ckpt/{files[-1]}"


def check_equal(a, b, what):
    """Bit for bit, all that training is made of: only the clock may differ."""
    for part in ("model/", "replica/", "train/optimizer_steps", "train/plateau"):
        r = shoal("ckpt", "diff", newest(a), newest(b), "--only", part, code=None)
        check(r.returncode == 0, f"{what}: {part} differs\n{r.stdout}{r.stderr}")


def wait_for(what, happened, seconds=60):
    """happened() until it is true; returns the seconds it took."""
    start = time.time()
    while time.time() - start < seconds:
        if happened():
            return time.time() - start
        time.sleep(0.05)
    check(False, f"{what}: not within {seconds} s")
    raise Failed


def shows(path, pattern):
    try:
        with open(path) as f:
            return re.search(pattern, f.read()) is not None
    except OSError:
        return False


# ---- jobs ------------------------------------------------------------------------------------------------------------

def run_file(name, **options):
    """digits.yaml-like: what MLP says, as a user would write it."""
    with open(f"{name}.yaml", "w") as f:
        f.write(f"run: {{ name: {name}, epochs: 3 }}\nmodel: {{ name: mlp, widths: [64, 32] }}\n"
                "data: { file: glyphs.h5, batch: 8 }\noptim: { name: sgd, lr: 0.05, momentum: 0.9 }\n")
        for section, text in options.items():
            f.write(f"{section}: {text}\n")


def submit(name, *args, options=(), script=None, env=None):
    """jobs/train.sbatch for a run file, or a script that names its own; returns the job's number."""
    what = [script] if script else [SBATCH, f"{name}.yaml"]
    r = on_cluster("sbatch", "--parsable", "--cpus-per-task=1", f"--output={name}.log", *options, *what, *args, env=env)
    return r.stdout.strip()


def job(number):
    """Fields of a job; Slurm forgets finished ones after a few minutes only."""
    r = on_cluster("scontrol", "-o", "show", "job", number)
    return dict(f.split("=", 1) for f in r.stdout.split() if "=" in f)


def job_ended(number):
    return job(number)["JobState"] in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY")


def ranks_of(number):
    """Process numbers of a job's ranks.  The nodes share this machine's process table."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.realpath(f"/proc/{pid}/exe") != SHOAL:
                continue
            with open(f"/proc/{pid}/environ", "rb") as f:
                env = dict(e.split(b"=", 1) for e in f.read().split(b"\0") if b"=" in e)
        except OSError:
            continue
        if env.get(b"SLURM_JOB_ID") == number.encode() and b"PMIX_RANK" in env:
            found[int(env[b"PMIX_RANK"])] = int(pid)
    return found


def runs_at(name, step, attempt=1):
    """Has the log of this attempt shown this step?"""
    try:
        with open(f"runs/{name}/log.txt") as f:
            text = f.read().split(f"=== attempt {attempt},")[-1] if attempt > 1 else f.read()
    except OSError:
        return False
    if attempt > 1 and not shows(f"runs/{name}/log.txt", f"=== attempt {attempt},"):
        return False
    return any(int(s) >= step for s in re.findall(r"epoch \d+ step (\d+): loss", text))


# ---- cases -----------------------------------------------------------------------------------------------------------

def case_world():
    """srun and mpirun make the same world of 8 ranks on 4 nodes, and so the same bits."""
    glyphs()
    options = [*MLP, *sets(run__epochs=1, data__batch=8)]
    r = srun(*EIGHT, *train("srun", *options))
    check("8 ranks on 4 nodes" in r.stdout and "DIFFERENT" not in r.stdout, r.stdout)
    check(nodes_of("srun") == ["n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"], nodes_of("srun"))
    with open("runs/srun/placement.json") as f:
        places = json.load(f)["places"]
    check([p["node"] for p in places] == [0, 0, 1, 1, 2, 2, 3, 3], places)
    check([p["local_rank"] for p in places] == [0, 1] * 4 and all(p["local_size"] == 2 for p in places), places)
    check(status("srun")["state"] == "done" and status("srun")["exit_code"] == 0, status("srun"))
    on_cluster("salloc", "--immediate=60", *EIGHT, *launch.mpirun(8, *train("mpirun", *options)))
    check(nodes_of("mpirun") == nodes_of("srun"), nodes_of("mpirun"))
    check_equal("srun", "mpirun", "srun and mpirun")


def case_nodelist():
    """Node lists with gaps, uneven and cyclic placements; and nobody needs Slurm's commands on the nodes (H05)."""
    glyphs(200, 20)
    options = [*MLP, *sets(run__epochs=1, data__batch=8, run__steps=2)]
    srun("-N3", "-w", "n[1-2,4]", "--ntasks-per-node=2", *train("gap", *options))
    check(nodes_of("gap") == ["n1", "n1", "n2", "n2", "n4", "n4"], nodes_of("gap"))
    srun(*EIGHT, "-m", "cyclic", *train("cyclic", *options))
    check(nodes_of("cyclic") == ["n1", "n2", "n3", "n4"] * 2, nodes_of("cyclic"))
    uneven = ["n1", "n1", "n2", "n3", "n3", "n4", "n4", "n4"]
    with open("hosts", "w") as f:
        f.write("\n".join(uneven) + "\n")
    srun("-n8", "-m", "arbitrary", *train("uneven", *options), env={"SLURM_HOSTFILE": os.path.abspath("hosts")})
    check(nodes_of("uneven") == uneven, nodes_of("uneven"))
    srun("-N4", "-w", "n[1-4]", "-n5", "/usr/bin/env", "PATH=/nonexistent", *train("path", *options))
    check(sorted(nodes_of("path")) == ["n1", "n1", "n2", "n3", "n4"], nodes_of("path"))
    os.mkdir("bin")
    for tool in ("scontrol", "srun", "sinfo", "squeue"):  # what fails is not asked either
        with open(f"bin/{tool}", "w") as f:
            f.write(f"#!/bin/sh\necho $0 >>{os.getcwd()}/asked\nexit 1\n")
        os.chmod(f"bin/{tool}", 0o755)
    srun("-N2", "-n2", "/usr/bin/env", f"PATH={os.getcwd()}/bin", *train("stubs", *options))
    check(nodes_of("stubs") == ["n1", "n2"] and not os.path.exists("asked"), nodes_of("stubs"))
    for name in ("gap", "cyclic", "uneven", "path", "stubs"):
        check(status(name)["state"] == "done", name, status(name))


ALL_NODES = ["-N4", "-w", "n[1-4]"]
GROUPS = f"{os.path.dirname(SHOAL)}/../../tests/mpi.comm.group"


def placed(name, *args, hosts, env=None):
    """`shoal topo` in a step: the hosts of its ranks, which the step's variables alone must give too.  And the groups of
    ranks per node, and of one rank per node, really exchange what they should."""
    script = f'[ $SLURM_PROCID != 1 ] || env >{name}.env; exec "$@"'
    there = json.loads(srun(*args, "sh", "-c", script, "sh", SHOAL, "topo", "--json", env=env).stdout)["placement"]
    check(there["applied"] and [p["host"] for p in there["places"]] == hosts, name, there)
    plan = json.loads(shoal("topo", "--env", f"{name}.env", "--json").stdout)["placement"]
    same = ("rank", "node", "local_rank", "local_size", "host")
    check(not plan["applied"] and [[p[k] for k in same] for p in plan["places"]] == [[p[k] for k in same] for p in there["places"]],
          f"{name}: planned {plan}\nis {there}")
    srun(*args, GROUPS, env=env)


def case_layouts():
    """Block, cyclic, planes, uneven, in any order, with a hole: nodes and groups come from the hosts; and plans agree."""
    nodes = ["n1", "n2", "n3", "n4"]
    placed("block", *EIGHT, hosts=[n for n in nodes for _ in range(2)])
    placed("cyclic", *EIGHT, "-m", "cyclic", hosts=nodes * 2)
    placed("fewer", *ALL_NODES, "-n7", "-m", "cyclic", hosts=[*nodes, "n1", "n1", "n1"])
    placed("plane", "-N3", "-w", "n[1-2,4]", "-n5", "-m", "plane=2", hosts=["n1", "n1", "n2", "n4", "n1"])
    mixed = ["n2", "n1", "n3", "n3", "n1", "n2", "n4", "n4"]  # local rank 1 of the nodes is not in the order of ranks
    uneven = ["n1", "n1", "n2", "n3", "n3", "n4", "n4", "n4"]
    for name, hosts in (("mixed", mixed), ("uneven", uneven)):
        with open("hosts", "w") as f:
            f.write("\n".join(hosts) + "\n")
        placed(name, "-n8", "-m", "arbitrary", hosts=hosts, env={"SLURM_HOSTFILE": os.path.abspath("hosts")})
    # mpirun in an allocation: fewer ranks than tasks, one per node.
    r = on_cluster("salloc", "--immediate=60", *EIGHT, *launch.mpirun(3, "--map-by", "node", SHOAL, "topo", "--json"))
    check([p["host"] for p in json.loads(r.stdout)["placement"]["places"]] == nodes[:3], r.stdout)
    # The script of a batch job sees what srun would start from there.
    with open("batch.sh", "w") as f:
        f.write(f"#!/bin/sh\nexec {SHOAL} topo --json\n")
    on_cluster("sbatch", "--wait", *ALL_NODES, "-n7", "--output=batch.log", "batch.sh")
    with open("batch.log") as f:
        batch = json.load(f)["placement"]
    check(not batch["applied"] and [p["host"] for p in batch["places"]] == ["n1"] * 4 + nodes[1:], batch)
    # Pretended nodes lie within hosts.
    srun("-N2", "-w", "n[1-2]", "-n4", SHOAL, "topo", "--topo", "4x1")
    r = srun("-N2", "-w", "n[1-2]", "--ntasks-per-node=2", SHOAL, "topo", "--topo", "1x4", code=2)
    check("(host n1)" in r.stderr and "(host n2)" in r.stderr, r.stderr)


LIES = (  # run by every task before it becomes the trainer, and what must be said
    ("export SLURM_STEP_NUM_TASKS=6", "SLURM_STEP_NUM_TASKS says 6, but MPI sees 8"),
    ("export SLURM_STEP_NUM_NODES=3", "SLURM_STEP_NUM_NODES says 3"),
    ("export SLURM_STEP_NODELIST=n[1-3],m9", "SLURM_STEP_NODELIST is n[1-3],m9, but this host is not in it"),
    ("export SLURM_STEP_NODELIST=n[1-8]", "SLURM_STEP_NODELIST=n[1-8] names 8 nodes"),
    ("export SLURM_STEP_NODELIST=n[1-", "SLURM_STEP_NODELIST \"n[1-\", position 5"),
    ("export 'SLURM_STEP_TASKS_PER_NODE=2(x2),3,1'", "rank 4 on n3: SLURM_STEP_TASKS_PER_NODE says 3"),
    ("export SLURM_NODEID=0", "SLURM_NODEID says 0 here and 0 on rank 2"),
    ("[ $SLURM_PROCID != 3 ] || export SLURM_LOCALID=0", "rank 3 on n2: SLURM_LOCALID says 0, as on rank 2"),
    ("export SLURM_PROCID=$((7 - SLURM_PROCID))", "SLURM_PROCID says 7, but MPI calls it rank 0"),
    # A task in a container with a host name of its own is on a node of its own, for all we know.
    ("[ $SLURM_PROCID != 5 ] || exec unshare --uts sh -c 'hostname box; exec \"$@\"' sh \"$@\"", "(containers of one machine need one name)"),
)


def case_lies():
    """Variables that contradict MPI or the hosts: exit 3 on all ranks, one line with both sides, no folder (H01)."""
    glyphs(200, 20)
    options = [*MLP, *sets(run__epochs=1, data__batch=8, run__steps=2)]
    for script, words in LIES:
        r = srun(*EIGHT, "--kill-on-bad-exit=0", "sh", "-c", f'{script}; exec "$@"', "sh", *train("lies", *options), code=3)
        check(words in r.stderr and r.stderr.count("shoal: error:") + r.stderr.count("] error:") == 1, f"{script}:\n{r.stderr}")
        check(not os.path.exists("runs"), f"{script}: a refused run made a folder")
    # No lie: full names where Slurm has short ones, and a node that has another name in Slurm.
    for name in ("$(hostname).site.org", "ip-10-83-0-$(hostname)"):
        rename = f"exec unshare --uts sh -c 'hostname {name}; exec \"$@\"' sh \"$@\""
        r = srun(*EIGHT, "sh", "-c", rename, "sh", SHOAL, "topo", "--json")
        there = json.loads(r.stdout)["placement"]
        check(there["nodes"] == 4 and there["places"][7]["host"] in ("n4.site.org", "ip-10-83-0-n4"), there)


def case_wrong():
    """Four tasks that would each train alone are refused; one alone may (H01)."""
    glyphs(200, 20)
    options = [*MLP, *sets(run__epochs=1, data__batch=8, run__steps=2)]
    for mpi in ("none", "pmi2"):
        # A task that fails must not end the others: each shall refuse by itself.
        r = srun("-N4", "-n4", "--kill-on-bad-exit=0", *train("wrong", *options), mpi=mpi, code=None)
        codes = re.findall(r"tasks? (\S+): Exited with exit code (\d+)", r.stderr)
        check(r.returncode == 3 and {c for _, c in codes} == {"3"}, f"--mpi={mpi}: exit codes {codes}\n{r.stderr}")
        check(r.stderr.count("shoal: error:") == 1 and "--mpi=pmix" in r.stderr, f"--mpi={mpi}: not one line with the cure")
        check(not os.path.exists("runs"), f"--mpi={mpi}: a refused run made a folder")
    srun("-N1", "-n1", *train("alone", *options), mpi="none")
    check(nodes_of("alone") == ["n1"], nodes_of("alone"))
    srun("-N4", "-n4", "sh", "-c", 'exec "$@" --set run.dir=runs-$SLURM_PROCID', "sh",
         *train("meant", *options, *sets(run__allow_singletons="true")), mpi="none")
    check(all(os.path.exists(f"runs-{rank}/meant/status.json") for rank in range(4)), "singletons on purpose", os.listdir("."))
    # The program started in a batch script without srun is a plain start, whatever the job asked for.
    with open("plain.sh", "w") as f:
        f.write("#!/bin/sh\nexec " + " ".join(train("plain", *options)) + "\n")
    on_cluster("sbatch", "--wait", "-N4", "-n4", "--output=plain.log", "plain.sh")
    check(nodes_of("plain") == ["n1"] and status("plain")["state"] == "done", status("plain"))


def case_starts():
    """Short starts over four nodes: none may die in its first exchange (the fence in src/comm/pmix.c)."""
    glyphs(64, 8)
    options = [*MLP, *sets(run__epochs=1, data__batch=8, run__steps=1, trace__level="off")]
    count = int(os.environ.get("SHOAL_STARTS", 300 if FULL else 20))
    began, failed = time.time(), 0
    for i in range(count):
        r = srun(*EIGHT, *train(f"s{i}", *options), code=None, timeout=30)
        if r.returncode != 0:  # 124: it hung
            failed += 1
            print(f"start {i}: exit {r.returncode}\n{r.stdout}{r.stderr}", flush=True)
            on_cluster("scancel", "--user=root")
        else:
            shutil.rmtree(f"runs/s{i}")
    print(f"{failed} of {count} starts failed, {(time.time() - began) / count:.2f} s each")
    check(failed == 0, f"{failed} of {count} starts failed")


SLOW = ["--allow-faults", *sets(fault__compute="sleep:100", run__log_every="1 steps")]


def case_stop():
    """A signal stops all ranks; the job script requeues, resumes, and the end is bit for bit that of an undisturbed run."""
    glyphs()
    run_file("whole")
    run_file("cut")
    srun(*EIGHT, SHOAL, "train", "whole.yaml")
    number = submit("cut", *SLOW)
    wait_for("the first steps", lambda: runs_at("cut", 5))
    os.kill(ranks_of(number)[3], signal.SIGUSR1)  # one rank only (H07)
    stopped = wait_for("the stop", lambda: status("cut")["state"] == "stopped", 20)
    step = status("cut")["step"]
    check(status("cut")["exit_code"] == 75, status("cut"))
    shoal("ckpt", "verify", newest("cut"))
    again = wait_for("attempt 2", lambda: runs_at("cut", step + 1, 2), 90)
    check(status("cut")["attempt"] == 2 and job(number)["Restarts"] == "1", status("cut"), job(number))
    print(f"stopped {stopped:.1f} s after the signal at step {step}; training again {again:.1f} s later")
    on_cluster("scancel", "--signal=USR1", number)  # the steps, as --signal does before the limit
    wait_for("attempt 3", lambda: shows("runs/cut/log.txt", "=== attempt 3,"), 90)
    wait_for("the end", lambda: job_ended(number), 90)
    check(job(number)["JobState"] == "COMPLETED" and job(number)["Restarts"] == "2", job(number))
    check(status("cut")["state"] == "done" and status("cut")["attempt"] == 3, status("cut"))
    check_equal("whole", "cut", "stopped twice")
    with open("cut.log") as f:
        text = f.read()
    check(all(f"attempt {n}" in text for n in (1, 2, 3)), "the log lost an attempt\n" + text)


# Of the files in jobs/: which, and what makes them small enough for a test; 50 steps each, ten per epoch.
SMALL = sets(data__file="glyphs.h5", run__epochs=5, eval__every="1 epochs")
PLAIN = sets(model__name="mlp", model__widths="[64,32]", data__batch=8)
NARROW = sets(model__width=0.0625)  # vgg16 with 4 to 32 channels
PACED = ["--allow-faults", *sets(fault__compute="sleep:60", run__log_every="1 steps")]
METHODS = {
    "daso": ("daso", [*PLAIN, *sets(method__warmup_epochs=0, method__cooldown_epochs=1, method__every=4, method__wait=4)]),
    "local-sgd": ("local-sgd", [*PLAIN, *sets(method__period=5, method__switch_epoch=1)]),
    "lockstep": ("swarm", [*PLAIN, *sets(method__deterministic="true")]),
    "swarm": ("swarm", [*PLAIN]),
    "ab": ("ab", [*NARROW, *sets(data__batch=8, method__warmup=3, method__cycle=40, method__rebound=2)]),
    "ist": ("ist", sets(model__widths="[64,32]", data__batch=8, method__round=8, ckpt__every="3 steps")),
    "local": ("local", [*NARROW, *sets(data__global_batch=64, method__queue=1)]),
}


def stop_all(numbers):
    """Signals the ranks of every job once they train, as before the time limit; returns the steps they stop at."""
    asked, stopped = set(), {}

    def done():
        for name, number in numbers.items():
            if name not in asked and runs_at(name, 5):
                on_cluster("scancel", "--signal=USR1", number)
                asked.add(name)
            if name in asked - set(stopped) and status(name)["state"] == "stopped":
                stopped[name] = status(name)["step"]
                shoal("ckpt", "verify", newest(name))
        return len(stopped) == len(numbers)

    wait_for("all to train and stop", done, 60)
    return stopped


def chosen():
    """All methods, or three of them, other ones every day.  SHOAL_METHODS=ab,ist names some."""
    names = os.environ.get("SHOAL_METHODS")
    if names or FULL:
        return names.split(",") if names else list(METHODS)
    day = int(time.time()) // 86400
    return [list(METHODS)[(3 * day + i) % len(METHODS)] for i in range(3)]


def case_methods():
    """Methods by the scripts and run files people copy: stopped as before a time limit, requeued, resumed, the same bits;
    of free-running swarm, which never makes the same bits twice, only that it ends."""
    names = chosen()
    print("methods:", ", ".join(names))
    glyphs(600, 100, 32)
    for f in glob.glob(f"{ROOT}/jobs/*.sbatch") + glob.glob(f"{ROOT}/jobs/*.yaml"):
        shutil.copy(f, ".")
    numbers = {}
    for name in names:
        script, options = METHODS[name]
        numbers[name] = submit(name, *SMALL, *options, *PACED, script=f"{script}.sbatch", env={"SHOAL_RUN_NAME": name})
    stops = stop_all(numbers)
    print("stopped at steps", stops)
    for name in names:  # while the others wait to be started again
        script, options = METHODS[name]
        r = srun(*EIGHT, SHOAL, "train", f"{script}.yaml", *SMALL, *options, env={"SHOAL_RUN_NAME": f"{name}-whole"})
        check("equal to the method's formula" in r.stdout and "DIFFERENT" not in r.stdout, f"{name}: {r.stdout}")
    for name, number in numbers.items():
        wait_for("the end", lambda: job_ended(number), 90)
        check(job(number)["JobState"] == "COMPLETED" and int(job(number)["Restarts"]) == 1, job(number))
        check(status(name)["state"] == "done" and status(name)["attempt"] == 2, status(name))
        check(shows(f"runs/{name}/log.txt", "resumed from"), "it did not resume")
        if name != "swarm":
            check_equal(f"{name}-whole", name, f"{name}, stopped and requeued")


def cifar10():
    """The real images where they lie beside the checkout; else noise in the same format, for a run that learns nothing."""
    real = sorted(glob.glob(f"{ROOT}/../shared/data/cifar10/*.bin.gz"))
    if not real:
        print("no CIFAR-10 beside the checkout: noise in its format instead")
        draw = random.Random(1)
        for name, n in (("data_batch_1.bin", 2000), ("test_batch.bin", 200)):
            with open(name, "wb") as f:
                for _ in range(n):
                    f.write(bytes([draw.randrange(10)]) + draw.randbytes(3072))
        real = ["data_batch_1.bin", "test_batch.bin"]
    shoal("data", "import", "cifar10", *real, "-o", "cifar10.h5")


def case_cifar():
    """ResNet-20 on CIFAR-10 by sbatch: the signal of the time limit leads to checkpoint, 75, requeue, resume, and to the
    weights of the undisturbed run, bit for bit.  In full, the signal is Slurm's own; else scancel sends it as Slurm would."""
    cifar10()
    for name in ("whole", "limit"):
        with open(f"{name}.yaml", "w") as f:
            f.write(f"run: {{ name: {name}, epochs: 3, steps: 40 }}\nmodel: {{ name: resnet20 }}\n"
                    "data: { file: cifar10.h5, batch: 8, augment: [crop4, hflip] }\n"
                    "optim: { name: sgd, lr: 0.05, momentum: 0.9, weight_decay: 5e-4 }\n")
    srun(*EIGHT, SHOAL, "train", "whole.yaml")
    slow = "sleep:2500" if FULL else "sleep:150"
    limit = ["--time=2", "--signal=USR1@50"] if FULL else []  # it comes up to a minute earlier than asked
    number = submit("limit", "--allow-faults", *sets(fault__compute=slow, run__log_every="1 steps"), options=limit)
    if not FULL:
        wait_for("the first steps", lambda: runs_at("limit", 5))
        on_cluster("scancel", "--signal=USR1", number)
    wait_for("attempt 2", lambda: shows("runs/limit/log.txt", "=== attempt 2,"), 200)
    check(status("limit")["state"] in ("stopped", "running", "done"), status("limit"))
    wait_for("the end", lambda: job_ended(number), 400)
    check(job(number)["JobState"] == "COMPLETED" and int(job(number)["Restarts"]) >= 1, job(number))
    check(shows("runs/limit/log.txt", "resumed from"), "it did not resume")
    check_equal("whole", "limit", "stopped before the time limit")


def case_killed():
    """kill -9 of one rank ends the job within 10 s; it is not requeued; the next one resumes to the same bits (H06)."""
    glyphs()
    for name in ("whole", "dead"):
        run_file(name, ckpt="{ every: 5 steps }")
    srun(*EIGHT, SHOAL, "train", "whole.yaml")
    number = submit("dead", *SLOW)
    wait_for("the first checkpoint", lambda: runs_at("dead", 7))
    ranks = ranks_of(number)
    check(sorted(ranks) == list(range(8)), ranks)
    os.kill(ranks[5], signal.SIGKILL)
    ended = wait_for("the end of the job", lambda: job_ended(number), 30)
    check(ended < 10, f"the job needed {ended:.1f} s to end")
    check(job(number)["JobState"] == "FAILED" and job(number)["Restarts"] == "0", job(number))
    left = [p for p in ranks.values() if os.path.realpath(f"/proc/{p}/exe") == SHOAL]
    check(not left, "ranks are still there", left)
    check(status("dead")["state"] in ("running", "failed"), status("dead"))
    print(f"the job ended {ended:.1f} s after the kill; status.json says {status('dead')['state']}")
    number = submit("dead")
    wait_for("the next job", lambda: job_ended(number), 60)
    check(job(number)["JobState"] == "COMPLETED" and status("dead")["attempt"] == 2, job(number), status("dead"))
    check(shows("dead.log", r"resumed from runs/dead/ckpt/step-"), "the next job did not resume")
    check_equal("whole", "dead", "killed and resumed")


# ---- bytes -----------------------------------------------------------------------------------------------------------

HEADERS = 66  # Ethernet 14, IP 20, TCP 32 with time stamps: the wire model's, per packet
SEGMENT = 1448


def sent_twice(node):
    """Bytes that TCP sent again, as its counter of segments says: the links lose packets when their queues are full."""
    names, values = [line.split() for line in run(["nsenter", f"--net=/run/netns/shoal-{node}", "cat", "/proc/net/snmp"]).stdout.splitlines()
                     if line.startswith("Tcp:")]
    return SEGMENT * int(values[names.index("RetransSegs")])


def sent_by_node():
    """Counters of the nodes' interfaces: sent bytes, sent packets, bytes sent again."""
    rows = [line.split() for line in cluster("bytes").stdout.splitlines()]
    return {node: (int(tx), int(packets), sent_twice(node)) for node, _, tx, _, packets in rows}


def count_bytes(name, steps, options):
    """One run: what each node's interface sent, and what its ranks counted.  Returns node → dict."""
    before = sent_by_node()
    srun(*EIGHT, *train(name, *options, *sets(run__steps=steps)))
    after = sent_by_node()
    table = json.loads(shoal("trace", "show", f"runs/{name}", "--json").stdout)["ranks"]
    out = {}
    for node in after:
        links = [r["links"]["between"] for r in table if r["host"] == node]
        sent = dict(zip(("bytes", "packets", "twice"), (a - b for a, b in zip(after[node], before[node]))))
        out[node] = {**sent, "payload": sum(l["payload"] for l in links),
                     "wire": sum(l["wire"] for l in links)}
    return out


def segment_size(packets):
    """Largest train of segments a veth takes as one packet: 1 makes it send what a wire would carry."""
    for i in range(1, 5):
        run(["ip", "-n", f"shoal-n{i}", "link", "set", "eth0", "gso_max_segs", packets])


def case_bytes():
    """What ranks count between nodes is what the interfaces send.

    A veth passes trains of segments as one packet with one set of headers, so bytes minus headers per packet is what TCP
    carried, whatever the cutting.  Two runs of different length are subtracted: start-up, Slurm's own traffic and the end
    cancel.  Without what TCP sent twice it must be the counted payload within 0.25 %: MPI's own headers and the agreement.

    Then segments travel singly over a limited link, as on a wire: bytes must be the wire model's within 1 %, plus the
    protocol overhead that the model leaves out: acknowledgements, at most one (66 bytes) per two segments (2 x 1514)."""
    glyphs(600, 8)
    options = [*MLP, *sets(model__widths="[1024,1024]", run__epochs=1, data__batch=8, ckpt__every="1000 epochs")]

    def between(name):
        short, long = count_bytes(f"{name}1", 1, options), count_bytes(f"{name}9", 9, options)
        return {node: {k: long[node][k] - short[node][k] for k in long[node]} for node in long}

    for node, d in between("free").items():
        carried = d["bytes"] - HEADERS * d["packets"] - d["twice"]
        over = carried / d["payload"] - 1
        print(f"{node}: carried {carried}, counted {d['payload']}: {100 * over:+.3f} % (twice {100 * d['twice'] / d['payload']:.3f} %)")
        check(abs(over) < 0.0025, f"{node}: {d}")
    cluster("shape", "400mbit")
    segment_size(1)
    try:
        limited = between("limited")
    finally:
        segment_size(65535)
        cluster("shape", "off")
    for node, d in limited.items():
        over = (d["bytes"] - d["twice"]) / d["wire"] - 1
        print(f"{node}: sent {d['bytes'] - d['twice']} in {d['packets']} packets, wire model {d['wire']}: {100 * over:+.3f} % "
              f"(twice {100 * d['twice'] / d['wire']:.3f} %)")
        check(-0.01 < over < 0.01 + HEADERS / (2 * (SEGMENT + HEADERS)), f"{node}: {d}")


def case_overlap():
    """A sum in flight moves while its ranks do something else (pretended: they sleep) as long as they look at it now and
    then: beside 1.5 times its own time less than 15 % of it is waited for.  Without looking, nearly all of it is."""
    def exposed(poll):
        out = srun(*EIGHT, SHOAL, "bench", "comm", "--sizes", "2048", "--seconds", "1", "--beside", "1.5", "--poll", poll, "--json").stdout
        return {r["algorithm"]: (r["exposed_ms"], r["ms"]) for r in map(json.loads, out.splitlines())}
    cluster("shape", "200mbit")
    try:
        polled, left_alone = exposed("2"), exposed("0")
    finally:
        cluster("shape", "off")
    for algorithm, (wait, transfer) in polled.items():
        idle, whole = left_alone[algorithm]
        print(f"{algorithm}: {wait:.2f} of {transfer:.1f} ms exposed; {idle:.1f} of {whole:.1f} ms when nobody polls")
        check(wait < 0.15 * transfer, f"{algorithm}: {wait} of {transfer} ms exposed")
        check(idle > 0.5 * whole, f"{algorithm}: {idle} of {whole} ms exposed without polls: this test cannot fail")


def sums(name, rank, what, first):
    """Number and seconds of a rank's exchanges whose name begins so, and seconds of the waits for them, from a step on."""
    import h5py
    with h5py.File(f"runs/{name}/trace/rank-{rank:05d}.h5") as f:
        ops = [o.decode() for o in f["ops"][()]]
        rows = [(int(r["kind"]), (int(r["t1_ns"]) - int(r["t0_ns"])) / 1e9) for r in f["records"][()]
                if ops[r["op"]].startswith(what) and r["step"] >= first]
    return [sum(kind == 3 for kind, _ in rows), *(sum(t for kind, t in rows if kind == k) for k in (3, 4))]


def case_late():
    """DASO's sums at 200 Mbit/s: when W batches of (pretended) compute last longer than a transfer, less than 10 % of it is
    waited for; when they are far shorter, much of it is.  The first sums bring nodes together that began at different times,
    so they do not count."""
    glyphs(4000)
    options = [*MLP, *sets(method__name="daso", method__warmup_epochs=0, method__every=3, method__wait=2, run__steps=23,
                           model__widths="[512,512]", data__batch=8, trace__level="op"), "--allow-faults"]
    exposed = {}
    cluster("shape", "200mbit")
    try:
        for ms in (150, 1):
            srun(*EIGHT, "bash", "-c", 'SHOAL_FAULT_RANK=$SLURM_PROCID exec "$0" "$@"',  # all ranks, not one
                 *train(f"late{ms}", *options, *sets(fault__compute=f"sleep:{ms}")))
            number, transfer, wait = map(sum, zip(*(sums(f"late{ms}", rank, 'exchange "across', 9) for rank in range(8))))
            exposed[ms] = wait / transfer
            print(f"{ms} ms of compute per batch: {number} sums of {1e3 * transfer / number:.0f} ms, "
                  f"{100 * exposed[ms]:.1f} % waited for")
    finally:
        cluster("shape", "off")
    check(exposed[150] < 0.1, f"{100 * exposed[150]:.1f} % of the transfer is exposed")
    check(exposed[1] > 0.3, f"only {100 * exposed[1]:.1f} % exposed: this test cannot fail")


# ---- the batch script without a cluster ----------------------------------------------------------------------------------

STUBS = {
    "srun": 'while [ "$1" != shoal ]; do echo "$1" >>srun.args; shift; done\n"$@"\n',
    "shoal": """case $1 in
config) printf 'run:\\n  name: stub\\n  dir: %s\\nmodel:\\n  name: mlp\\n' "${YAML_DIR:-runs}" ;;
train)
  shift
  folder=${DIR:-runs}/stub
  mkdir -p "$folder"
  n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n
  [ -z "$STATE" ] || echo "{\\"state\\": \\"$STATE\\", \\"exit_code\\": $CODE, \\"reason\\": \\"rank 3 (n1, gone) said \\\\\\"no\\\\\\"\\", \\"rank\\": 0, \\"step\\": $STEP, \\"n\\": $n}" >"$folder/status.json"
  exit ${SRUN_CODE:-$CODE} ;;
esac
""",
    "scontrol": 'echo "$@" >>scontrol.args\nsleep ${SLOW:-0}\n[ -z "$DISABLED" ] || { echo "Requested operation is presently disabled" >&2; exit 1; }\n',
}


def stub(name):
    with open(f"bin/{name}", "w") as f:
        f.write("#!/bin/sh\n" + STUBS[name])
    os.chmod(f"bin/{name}", 0o755)


def script(code, requests, **env):
    """Runs the batch script with stubs; checks its exit code and how often scontrol was asked."""
    if os.path.exists("scontrol.args"):
        os.remove("scontrol.args")
    env = {"SLURM_JOB_ID": "77", "SLURM_CPUS_PER_TASK": "3", "PATH": f"{os.path.abspath('bin')}:/usr/bin:/bin", "CODE": "0", "STEP": "0",
           "STATE": "", **{k: str(v) for k, v in env.items()}}
    r = run([SBATCH, "stub.yaml", "--quiet"], code=code, env=env)
    asked = open("scontrol.args").read().splitlines() if os.path.exists("scontrol.args") else []
    check(asked == ["requeue 77"] * requests, f"{env}: scontrol was asked {asked}\n{r.stdout}{r.stderr}")
    return r


def case_script():
    """What the batch script does with every way a run can end; needs no cluster (H02, H06, H08)."""
    os.mkdir("bin")
    for name in STUBS:
        stub(name)
    script(0, 0, STATE="done")
    with open("srun.args") as f:
        args = f.read().split()
    check(args == ["--mpi=pmix", "--cpus-per-task=3", "--kill-on-bad-exit=1"], args)
    script(75, 1, STATE="stopped", CODE=75, STEP=10)
    script(75, 1, STATE="stopped", CODE=75, STEP=20, SRUN_CODE=143)  # a slower rank was killed: status.json counts
    script(75, 1, STATE="stopped", CODE=75, STEP=30, SLOW=2)
    for _ in range(2):  # stops without a step forward: twice more, then no more
        script(75, 1, STATE="stopped", CODE=75, STEP=30)
    r = script(75, 0, STATE="stopped", CODE=75, STEP=30)
    check("not requeued" in r.stdout and "step 30" in r.stdout, r.stdout)
    script(75, 1, STATE="stopped", CODE=75, STEP=31)
    script(75, 1, STATE="stopped", CODE=75, STEP=31)
    for code, state in ((4, "failed"), (6, "failed"), (137, "running"), (143, "running")):
        r = script(code, 0, STATE=state, CODE=code, STEP=32)
        check(f"{state} at step 32: rank 3 (n1, gone) said \\\"no\\\";" in r.stdout, r.stdout)
    # A folder whose name YAML must quote.
    script(75, 1, STATE="stopped", CODE=75, STEP=33, DIR="it's \"my\\ own\" #1", YAML_DIR='"it\'s \\"my\\\\ own\\" #1"')
    r = script(3, 0, CODE=3)  # refused before it wrote anything: the old status.json does not count
    check("was not written" in r.stdout, r.stdout)
    r = script(75, 1, STATE="stopped", CODE=75, STEP=40, DISABLED=1)
    check("could not be requeued" in r.stdout, r.stdout)
    os.remove("runs/stub/requeues")
    os.mkdir("runs/stub/requeues")  # cannot be written: then nobody counts, and nothing is requeued
    r = script(75, 0, STATE="stopped", CODE=75, STEP=41)
    check("requeues cannot be written; not requeued" in r.stdout, r.stdout)
    os.rmdir("runs/stub/requeues")
    os.remove("bin/scontrol")
    r = script(75, 0, STATE="stopped", CODE=75, STEP=50, PATH=f"{os.path.abspath('bin')}:{bare_path()}")
    check("could not be requeued" in r.stdout, r.stdout)
    os.remove("bin/shoal")
    check("shoal is not in PATH" in script(127, 0).stdout, "no shoal")


def bare_path():
    """A folder with what the script needs, and no scontrol."""
    os.mkdir("bare")
    for tool in ("bash", "sh", "env", "awk", "sed", "cat", "tr", "mkdir", "sleep", "rm"):
        os.symlink(shutil.which(tool), f"bare/{tool}")
    return os.path.abspath("bare")


# ---- the cluster itself ----------------------------------------------------------------------------------------------------

def processes(state):
    """Everything that names this state folder or runs from it, apart from us."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                env = f.read()
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read()
        except OSError:
            continue
        if f"SLURM_CONF={state}/etc".encode() in env and int(pid) != os.getpid():
            found.append(line.replace(b"\0", b" ").decode())
    return found


def nothing_left(state):
    """Within seconds: no process, no namespace, no file but logs."""
    names = run(["ip", "netns", "list"]).stdout
    files = set(os.listdir(state)) - {"log", ".shoal-cluster"} if os.path.isdir(state) else set()
    return not processes(state) and "shoal-" not in names and not files


def case_cluster():
    """Up, down, twice, half-way, refused, and forgotten: nothing of ours stays, nothing of others is touched."""
    state = os.path.abspath("state")
    env = {"SHOAL_CLUSTER_DIR": state}
    run(["ip", "netns", "add", "foreign-n1"], code=None)
    try:
        cluster("down", env=env)
        check(cluster("status", env=env, code=1), "status of nothing")
        start = time.time()
        cluster("up", "2", env=env)
        up = time.time() - start
        check("is up already" in cluster("up", "2", env=env).stdout, "a second up")
        cluster("up", "3", env=env, code=2)
        other = {"SHOAL_CLUSTER_DIR": os.path.abspath("other")}
        r = cluster("up", "2", env=other, code=3)
        check(state in r.stderr, r.stderr)
        check("left alone" in cluster("down", env=other).stdout, "a stranger's down")
        r = cluster("exec", "srun", "-N2", "hostname", env=env)
        check(sorted(r.stdout.split()) == ["n1", "n2"], r.stdout, r.stderr)
        cluster("shape", "fast", env=env, code=2)
        for bad in ({"SHOAL_CLUSTER_DIR": f"{state} 2"}, {"SHOAL_CLUSTER_DIR": f"/tmp/{'x' * 80}"}, {"SHOAL_CLUSTER_MINUTES": "1h"}):
            r = cluster("up", "2", env={**env, **bad}, code=2)
            check(r.stderr.count("\n") == 1 and next(iter(bad)) in r.stderr, r.stderr)
        cluster("up", "2", "3", env=env, code=2)
        cluster("shape", "10mbit", env=env)
        check("links 10mbit" in cluster("status", env=env).stdout, "status after shape")
        start = time.time()
        cluster("exec", "srun", "-N2", "-n2", "sh", "-c", "[ $SLURM_PROCID = 1 ] || head -c 2500000 /dev/zero", env=env)
        seconds = time.time() - start
        check(seconds > 1.6, f"20 Mbit over a link of 10 Mbit/s took {seconds:.1f} s")
        start = time.time()
        cluster("down", env=env)
        down = time.time() - start
        check(nothing_left(state), processes(state), run(["ip", "netns", "list"]).stdout)
        cluster("down", env=env)
        print(f"two nodes: up {up:.1f} s, down {down:.1f} s")
        # An up that is killed at any moment leaves nothing that down would not find.
        for after in (0.02, 0.1, 0.2, 0.3, 0.5, 0.8) if not FULL else [0.02 * i for i in range(50)]:
            p = subprocess.Popen([CLUSTER, "up", "2"], env={**ENV, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(after)
            p.kill()
            p.wait()
            cluster("down", env=env)
            wait_for(f"nothing left of an up killed after {after} s", lambda: nothing_left(state), 5)
        # Forgotten: the watchdog ends it with its time, or with the process that asked for it.
        cluster("up", "1", env={**env, "SHOAL_CLUSTER_MINUTES": "0"})
        wait_for("the time limit", lambda: nothing_left(state), 15)
        subprocess.run(["bash", "-c", f"{CLUSTER} up 1 --follow >&2; true"], env={**ENV, **env}, capture_output=True)
        wait_for("the end with the caller", lambda: nothing_left(state), 15)
        check("foreign-n1" in run(["ip", "netns", "list"]).stdout, "a foreign namespace was removed")
    finally:
        cluster("down", env=env)
        run(["ip", "netns", "del", "foreign-n1"], code=None)


# ---- running a case --------------------------------------------------------------------------------------------------

ALONE = ("script", "cluster")  # make what they need themselves


def work_folder():
    if CASE == "script":
        return tempfile.mkdtemp(prefix="shoal-slurm-")
    r = cluster("check", code=None)
    if r.returncode == 77:
        print(r.stderr.strip())
        sys.exit(77)
    if CASE in ALONE:
        return tempfile.mkdtemp(prefix="shoal-slurm-")
    if cluster("status", code=None).returncode != 0:
        sys.exit(f"the cluster is not up: {CLUSTER} up")
    return tempfile.mkdtemp(prefix=f"{CASE}-", dir=f"{STATE}/work")


def main():
    case = globals().get(f"case_{CASE}")
    if not case:
        sys.exit(f"no case {CASE}")
    folder = work_folder()
    os.chmod(folder, 0o755)
    os.chdir(folder)
    try:
        case()
    except Failed:
        pass
    finally:
        if CASE not in ALONE:
            on_cluster("scancel", "--user=root", code=None)
        if failures:
            for log in [f for f in os.listdir(".") if f.endswith(".log")]:
                print(f"---- {log}\n" + open(log).read()[-4000:])
            if CASE not in ALONE:
                print(cluster("status", code=None).stdout + cluster("logs", code=None).stdout)
        os.chdir("/")
        if failures and os.environ.get("SHOAL_KEEP"):
            print("kept", folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{CASE}: {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
