"""Whole runs under a real Slurm: the cluster of cluster.sh, four nodes on this machine, which the ctest fixture or a person
started.  A test works in a folder below the cluster's work folder, which all nodes see.
"""
import glob
import json
import os
import re
import shlex
import shutil
import signal
import time

import pytest

import cluster as slurm
import launch
from harness import (FULL, MLP, ROOT, Trace, assert_equal, built, cluster_sh, log, newest, places, program, random_source, read,
                     run, said, sampled, sets, shoal, shows, status, trace_table, wait_until)

pytestmark = pytest.mark.usefixtures("cluster")
EIGHT = ["-N4", "--ntasks-per-node=2"]


def on_cluster(*args, env=None, **options):
    """A command on the cluster's head; scripts find `shoal` there."""
    return cluster_sh("exec", *args, env={"PATH": f"{os.path.dirname(program())}:{os.environ['PATH']}", **(env or {})}, **options)


def srun(*args, mpi="pmix", timeout=120, **options):
    """args: options of srun, then the command.  Not run when the step never gets its nodes."""
    return on_cluster("srun", "--immediate=60", f"--mpi={mpi}", *args, timeout=timeout, **options)


def train(name, *args):
    return [program(), "train", *args, "--set", f"run.name={name}"]


def hosts_of(name):
    return [p["host"] for p in places(name)]


def assert_same_run(a, b, what):
    """Bit for bit, all that training is made of: only the clock and the placement may differ."""
    assert_equal(newest(a), newest(b), what, "model/", "replica/", "train/optimizer_steps", "train/plateau")


# ---- jobs ------------------------------------------------------------------------------------------------------------

def run_file(name, **options):
    """digits.yaml-like: what MLP says, as a user would write it."""
    with open(f"{name}.yaml", "w") as f:
        f.write(f"run: {{ name: {name}, epochs: 3 }}\nmodel: {{ name: mlp, widths: [64, 32] }}\n"
                "data: { file: glyphs.h5, batch: 8 }\noptim: { name: sgd, lr: 0.05, momentum: 0.9 }\n")
        for section, text in options.items():
            f.write(f"{section}: {text}\n")


def submit(name, *args, options=(), file=None, env=None):
    """jobs/train.sbatch for a run file; returns the job's number."""
    r = on_cluster("sbatch", "--parsable", "--cpus-per-task=1", f"--output={name}.log", *options, f"{ROOT}/jobs/train.sbatch",
                   f"{file or name}.yaml", *args, env=env)
    return r.stdout.strip()


def shoal_submit(*args, env=None):
    """`shoal submit` on the cluster; the numbers of its jobs."""
    r = on_cluster(program(), "submit", *args, env=env)
    return re.findall(r"^job (\d+): ", r.stdout, re.M)


def states():
    """What `shoal status` says: run to state."""
    return {r["run"]: r["state"] for r in json.loads(on_cluster(program(), "status", "--json").stdout)["runs"]}


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
            if os.path.realpath(f"/proc/{pid}/exe") != program():
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
    text = log(name)
    if attempt > 1:
        text = text.split(f"=== attempt {attempt},")[1] if f"=== attempt {attempt}," in text else ""
    return any(int(s) >= step for s in re.findall(r"epoch \d+ step (\d+): loss", text))


def test_world(glyphs):
    """srun and mpirun make the same world of 8 ranks on 4 nodes, and so the same bits."""
    glyphs()
    options = [*MLP, *sets(run__epochs=1, data__batch=8)]
    r = srun(*EIGHT, *train("srun", *options))
    assert "8 ranks on 4 nodes" in r.stdout, r.stdout
    assert "DIFFERENT" not in r.stdout, r.stdout
    assert hosts_of("srun") == ["n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"], f'{hosts_of("srun")}'
    world = places("srun")
    assert [p["node"] for p in world] == [0, 0, 1, 1, 2, 2, 3, 3], f"{world}"
    assert [p["local_rank"] for p in world] == [0, 1] * 4, f"{world}"
    assert all(p["local_size"] == 2 for p in world), f"{world}"
    assert status("srun")["state"] == "done", f'{status("srun")}'
    assert status("srun")["exit_code"] == 0, f'{status("srun")}'
    on_cluster("salloc", "--immediate=60", *EIGHT, *launch.mpirun(8, *train("mpirun", *options)))
    assert hosts_of("mpirun") == hosts_of("srun"), f'{hosts_of("mpirun")}'
    assert_same_run("srun", "mpirun", "srun and mpirun")


def test_launch(glyphs):
    """`shoal launch` in a job has the places and bits of srun by hand; it takes fewer nodes or ranks, starts from a step of one task, and
    refuses more than there is and to start once per task.  A signal to it stops the run, and its exit code is the run's."""
    glyphs(200, 20)
    options = [*MLP, *sets(run__epochs=1, data__batch=8)]

    def command(name, *args):
        return [program(), "launch", *options, *sets(run__name=name), *args]

    def launched(name, *args, nodes=EIGHT, before=(), **options):
        return on_cluster("salloc", "--immediate=60", *nodes, *before, *command(name, *args), **options)

    srun(*EIGHT, *train("hand", *options))
    r = launched("job")
    assert re.search(r"^8 ranks on 4 nodes of Slurm job \d+ by srun, \d CPUs? each", r.stdout, re.M), said(r)
    assert hosts_of("job") == hosts_of("hand"), hosts_of("job")
    assert_same_run("hand", "job", "by hand and by launch")
    launched("half", "-N2")
    assert hosts_of("half") == ["n1", "n1", "n2", "n2"], hosts_of("half")
    launched("seven", "-n7")
    assert hosts_of("seven") == ["n1", "n1", "n2", "n2", "n3", "n3", "n4"], hosts_of("seven")
    launched("step", "-n2", nodes=["-N1", "-n2"], before=["srun", "-n1", "--immediate=60"], timeout=60)
    assert hosts_of("step") == ["n1", "n1"], hosts_of("step")
    r = launched("more", "-N8", code=2)
    assert re.search(r"-N 8: job \d+ has 4 nodes; give -N 4 or fewer", r.stderr), said(r)
    r = srun(*EIGHT, *command("each"), code=3)
    assert "one of the 8 tasks of a step of job" in r.stderr, said(r)
    assert not os.path.exists("runs/more") and not os.path.exists("runs/each"), os.listdir("runs")
    with open("stop.sh", "w") as f:
        f.write(f"#!/bin/bash\n{shlex.join(map(str, command('stop', *SLOW, *sets(run__epochs=50))))} & job=$!\ntrap 'kill -TERM $job' USR1\n"
                "wait $job; code=$?\nwhile kill -0 $job 2>/dev/null; do wait $job; code=$?; done\necho code $code\n")
    number = on_cluster("sbatch", "--parsable", *EIGHT, "--output=stop.log", "stop.sh").stdout.strip()
    wait_until("the first steps", lambda: runs_at("stop", 2))
    on_cluster("scancel", "--batch", "--signal=USR1", number)
    wait_until("the end", lambda: "code" in read("stop.log"), 60)
    assert status("stop")["state"] == "stopped", read("stop.log")
    assert "code 75" in read("stop.log"), read("stop.log")


def test_nodelist(glyphs):
    """Node lists with gaps, uneven and cyclic placements; and no command of Slurm is needed on the nodes."""
    glyphs(200, 20)
    options = [*MLP, *sets(run__epochs=1, data__batch=8, run__steps=2)]
    srun("-N3", "-w", "n[1-2,4]", "--ntasks-per-node=2", *train("gap", *options))
    assert hosts_of("gap") == ["n1", "n1", "n2", "n2", "n4", "n4"], f'{hosts_of("gap")}'
    srun(*EIGHT, "-m", "cyclic", *train("cyclic", *options))
    assert hosts_of("cyclic") == ["n1", "n2", "n3", "n4"] * 2, f'{hosts_of("cyclic")}'
    uneven = ["n1", "n1", "n2", "n3", "n3", "n4", "n4", "n4"]
    with open("hosts", "w") as f:
        f.write("\n".join(uneven) + "\n")
    srun("-n8", "-m", "arbitrary", *train("uneven", *options), env={"SLURM_HOSTFILE": os.path.abspath("hosts")})
    assert hosts_of("uneven") == uneven, f'{hosts_of("uneven")}'
    srun("-N4", "-w", "n[1-4]", "-n5", "/usr/bin/env", "PATH=/nonexistent", *train("path", *options))
    assert sorted(hosts_of("path")) == ["n1", "n1", "n2", "n3", "n4"], f'{hosts_of("path")}'
    os.mkdir("bin")
    for tool in ("scontrol", "srun", "sinfo", "squeue"):  # what fails is not asked either
        with open(f"bin/{tool}", "w") as f:
            f.write(f"#!/bin/sh\necho $0 >>{os.getcwd()}/asked\nexit 1\n")
        os.chmod(f"bin/{tool}", 0o755)
    srun("-N2", "-n2", "/usr/bin/env", f"PATH={os.getcwd()}/bin", *train("stubs", *options))
    assert hosts_of("stubs") == ["n1", "n2"], f'{hosts_of("stubs")}'
    assert not os.path.exists("asked"), "somebody asked Slurm's commands"
    for name in ("gap", "cyclic", "uneven", "path", "stubs"):
        assert status(name)["state"] == "done", f"{name} {status(name)}"


ALL_NODES = ["-N4", "-w", "n[1-4]"]


def placed(name, *args, hosts, env=None):
    """`shoal topo` in a step: the hosts of its ranks, which the step's variables alone must give too.  And the groups of
    ranks per node, and of one rank per node, really exchange what they should."""
    script = f'[ $SLURM_PROCID != 1 ] || env >{name}.env; exec "$@"'
    there = json.loads(srun(*args, "sh", "-c", script, "sh", program(), "topo", "--json", env=env).stdout)["placement"]
    assert there["applied"], f"{name} {there}"
    assert [p["host"] for p in there["places"]] == hosts, f"{name} {there}"
    plan = json.loads(shoal("topo", "--env", f"{name}.env", "--json").stdout)["placement"]
    same = ("rank", "node", "local_rank", "local_size", "host")
    assert not plan["applied"], f"{name}: planned {plan}\nis {there}"
    assert [[p[k] for k in same] for p in plan["places"]] == [[p[k] for k in same] for p in there["places"]], \
        f"{name}: planned {plan}\nis {there}"
    srun(*args, built("mpi.comm.group"), env=env)


def test_layouts():
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
    r = on_cluster("salloc", "--immediate=60", *EIGHT, *launch.mpirun(3, "--map-by", "node", program(), "topo", "--json"))
    assert [p["host"] for p in json.loads(r.stdout)["placement"]["places"]] == nodes[:3], r.stdout
    # Open MPI's mappers that name a place for every rank, whose first rank need not be where mpirun is.
    with open("rankfile", "w") as f:
        f.write("rank 0=n2 slot=0\nrank 1=n1 slot=0\nrank 2=n3 slot=0\nrank 3=n1 slot=1\n")
    with open("sequence", "w") as f:
        f.write("n1\nn3\nn2\nn1\n")
    for mapper, hosts in ((("--rankfile", "rankfile"), ["n2", "n1", "n3", "n1"]),
                          (("--map-by", "seq", "--hostfile", "sequence"), ["n1", "n3", "n2", "n1"])):
        r = on_cluster("salloc", "--immediate=60", *EIGHT, "mpirun", "-n", "4", *mapper, program(), "topo", "--json")
        assert [p["host"] for p in json.loads(r.stdout)["placement"]["places"]] == hosts, r.stdout
    # The script of a batch job sees what srun would start from there.
    with open("batch.sh", "w") as f:
        f.write(f"#!/bin/sh\nexec {program()} topo --json\n")
    on_cluster("sbatch", "--wait", *ALL_NODES, "-n7", "--output=batch.log", "batch.sh")
    with open("batch.log") as f:
        batch = json.load(f)["placement"]
    assert not batch["applied"], f"{batch}"
    assert [p["host"] for p in batch["places"]] == ["n1"] * 4 + nodes[1:], f"{batch}"
    # Pretended nodes lie within hosts.
    srun("-N2", "-w", "n[1-2]", "-n4", program(), "topo", "--topo", "4x1")
    r = srun("-N2", "-w", "n[1-2]", "--ntasks-per-node=2", program(), "topo", "--topo", "1x4", code=2)
    assert "(host n1)" in r.stderr, r.stderr
    assert "(host n2)" in r.stderr, r.stderr


LIES = (  # run by every task before it becomes the trainer, and what must be said
    ("export SLURM_STEP_NUM_TASKS=6", "SLURM_STEP_NUM_TASKS says 6, but MPI sees 8"),
    ("export SLURM_STEP_NUM_NODES=3", "SLURM_STEP_NUM_NODES says 3"),
    ("export SLURM_STEP_NODELIST=n[1-3],m9", "SLURM_STEP_NODELIST is n[1-3],m9, but this host is not in it"),
    ("export SLURM_STEP_NODELIST=n[1-8]", "SLURM_STEP_NODELIST=n[1-8] names 8 nodes"),
    ("export SLURM_STEP_NODELIST=n[1-", "SLURM_STEP_NODELIST \"n[1-\", position 5"),
    ("export 'SLURM_STEP_TASKS_PER_NODE=2(x2),3,1'", "rank 4 on n3: SLURM_STEP_TASKS_PER_NODE says 3"),
    ("export SLURM_NTASKS_PER_NODE=2 SLURM_LOCALID=first", "SLURM_LOCALID is \"first\": must be a whole number"),
    ("export 'SLURM_CPUS_PER_TASK=1(x2'", "SLURM_CPUS_PER_TASK is \"1(x2\": must be a number of cores"),
    ("export SLURM_NODEID=0", "SLURM_NODEID says 0 here and 0 on rank 2"),
    ("[ $SLURM_PROCID != 3 ] || export SLURM_LOCALID=0", "rank 3 on n2: SLURM_LOCALID says 0, as on rank 2"),
    ("export SLURM_PROCID=$((7 - SLURM_PROCID))", "SLURM_PROCID says 7, but MPI calls it rank 0"),
    # A task in a container with a host name of its own is on a node of its own, for all we know.
    ("[ $SLURM_PROCID != 5 ] || exec unshare --uts sh -c 'hostname box; exec \"$@\"' sh \"$@\"",
     "(containers of one machine need one name)"),
)


def test_lies(glyphs):
    """Variables that contradict MPI or the hosts: exit 3 on all ranks, one line with both sides, no folder."""
    glyphs(200, 20)
    options = [*MLP, *sets(run__epochs=1, data__batch=8, run__steps=2)]
    for script, words in LIES:
        r = srun(*EIGHT, "--kill-on-bad-exit=0", "sh", "-c", f'{script}; exec "$@"', "sh", *train("lies", *options), code=3)
        assert words in r.stderr, f"{script}:\n{r.stderr}"
        assert r.stderr.count("shoal: error:") + r.stderr.count("] error:") == 1, f"{script}:\n{r.stderr}"
        assert not os.path.exists("runs"), f"{script}: a refused run made a folder"
    # No lie: full names where Slurm has short ones, and a node that has another name in Slurm.
    for name in ("$(hostname).site.org", "ip-10-83-0-$(hostname)"):
        rename = f"exec unshare --uts sh -c 'hostname {name}; exec \"$@\"' sh \"$@\""
        r = srun(*EIGHT, "sh", "-c", rename, "sh", program(), "topo", "--json")
        there = json.loads(r.stdout)["placement"]
        assert there["nodes"] == 4, f"{there}"
        assert there["places"][7]["host"] in ("n4.site.org", "ip-10-83-0-n4"), f"{there}"


def test_wrong(glyphs):
    """Four tasks that would each train alone are refused; one alone may."""
    glyphs(200, 20)
    options = [*MLP, *sets(run__epochs=1, data__batch=8, run__steps=2)]
    for mpi in ("none", "pmi2"):
        # A task that fails must not end the others: each shall refuse by itself.
        r = srun("-N4", "-n4", "--kill-on-bad-exit=0", *train("wrong", *options), mpi=mpi, code=None)
        codes = re.findall(r"tasks? (\S+): Exited with exit code (\d+)", r.stderr)
        assert r.returncode == 3, f"--mpi={mpi}: exit codes {codes}\n{r.stderr}"
        assert {c for _, c in codes} == {"3"}, f"--mpi={mpi}: exit codes {codes}\n{r.stderr}"
        assert r.stderr.count("shoal: error:") == 1, f"--mpi={mpi}: not one line with the cure"
        assert "--mpi=pmix" in r.stderr, f"--mpi={mpi}: not one line with the cure"
        assert not os.path.exists("runs"), f"--mpi={mpi}: a refused run made a folder"
    srun("-N1", "-n1", *train("alone", *options), mpi="none")
    assert hosts_of("alone") == ["n1"], f'{hosts_of("alone")}'
    srun("-N4", "-n4", "sh", "-c", 'exec "$@" --set run.dir=runs-$SLURM_PROCID', "sh",
         *train("meant", *options, *sets(run__allow_singletons="true")), mpi="none")
    assert all(os.path.exists(f"runs-{rank}/meant/status.json") for rank in range(4)), f"singletons on purpose {os.listdir('.')}"
    # /tmp is another folder on every node.
    r = srun("-N2", "-n2", *train("own", *options, *sets(run__dir="/tmp/own")), code=3)
    assert r.stderr.count("shoal: error:") == 1, said(r)
    assert "/tmp/own/own is not the same folder on all nodes: rank 0 (n1) has taken it, but rank 1 (n2) finds no such" in r.stderr, said(r)
    # The program started in a batch script without srun is a plain start, whatever the job asked for.
    with open("plain.sh", "w") as f:
        f.write("#!/bin/sh\nexec " + " ".join(train("plain", *options)) + "\n")
    on_cluster("sbatch", "--wait", "-N4", "-n4", "--output=plain.log", "plain.sh")
    assert hosts_of("plain") == ["n1"], f'{status("plain")}'
    assert status("plain")["state"] == "done", f'{status("plain")}'


def test_doctor():
    """Nodes that hold up the others are named, and left out of the next job: n2, whose scratch folder is full, n3, whose link is
    shaped to a tenth, n4, which has another version.  Afterwards all is well."""
    with open(program(), "rb") as f:
        other = f.read().replace(b"0.1.0", b"0.9.9")
    with open("other", "wb") as f:
        f.write(other)
    os.chmod("other", 0o755)
    script = """case $(hostname) in
        n2) mkdir -p /tmp/full && mount -t tmpfs -o size=64k shoal /tmp/full && head -c 65536 /dev/zero >/tmp/full/old; export TMPDIR=/tmp/full OMPI_MCA_orte_tmpdir_base=/tmp ;;
        n4) shift; set -- ./other "$@" ;;
    esac; exec "$@" """
    try:
        cluster_sh("shape", "200mbit")
        for end, device in (("shoal-n3", "eth0"), ("shoal-head", "n3")):
            run(["tc", "-n", end, "qdisc", "replace", "dev", device, "root", "tbf", "rate", "20mbit", "burst", "128kb", "latency", "50ms"])
        r = srun("-N4", "--ntasks-per-node=1", "unshare", "--mount", "sh", "-c", script, "sh", program(), "doctor", "--needs", "0.01", "--json", code=7)
        report = json.loads(r.stdout)
        assert report["exclude"] == "n2,n3,n4", said(r)
        faults = {(f["node"], f["check"]): f["text"] for f in report["findings"] if f["verdict"] == "fault"}
        assert set(faults) == {("n2", "files"), ("n3", "links"), ("n4", "versions")}, said(r)
        assert "/tmp/full" in faults["n2", "files"] and "No space left" in faults["n2", "files"], said(r)
        assert "where others have" in faults["n3", "links"], said(r)
        assert faults["n4", "versions"].startswith("shoal is 0.9.9 (file ") and "on n4; n1 and 2 more have 0.1.0" in faults["n4", "versions"]
        speeds = [n["mb_s"] for n in report["nodes"]]
        assert min(speeds[:2] + speeds[3:]) > 2 * speeds[2], speeds
    finally:
        cluster_sh("shape", "off")
    cluster_sh("shape", "200mbit")
    r = on_cluster("salloc", "--immediate=60", *EIGHT, program(), "doctor", "--needs", "0.01")
    cluster_sh("shape", "off")
    text = " ".join(r.stdout.split())  # lines are wrapped
    assert "8 ranks on 4 nodes of Slurm job" in text and "shoal doctor: 8 ranks on 4 nodes, n1 .. n4" in text, said(r)
    assert "0 faults" in text and "--exclude" not in text, said(r)
    assert "equal on all nodes" in text and "ms of each other" in text and "by PMIx" in text, said(r)
    r = on_cluster("salloc", "--immediate=60", *EIGHT, program(), "doctor", "--needs", "0.01", "--expect", "100000", code=7)
    assert "Terminat" not in r.stderr, said(r)  # a verdict ends nobody


def test_stage(glyphs):
    """data.stage: every node copies the data set to its own /tmp once; a node whose scratch folder is full is named.  What a run makes of
    the copies, and when they are made anew, is in faults.disk_stage."""
    glyphs(200, 20)
    options = [*MLP, *sets(run__epochs=1, data__batch=8)]
    r = srun(*EIGHT, *train("copies", *options, *sets(data__stage="/tmp/stage")))
    assert re.search(r"disk, /tmp/stage/shoal-0: [1-9]\S* KiB copied, 0 B found there, all read back with the right sum", r.stdout), said(r)
    r = srun("-N4", "sh", "-c", "hostname; md5sum /tmp/stage/shoal-0/*.h5 | cut -c -32; rm -r /tmp/stage")
    assert len(set(r.stdout.split())) == 5 and len(r.stdout.split()) == 8, f"four nodes, one sum: {said(r)}"
    script = "mkdir -p /tmp/full; [ $(hostname) != n2 ] || mount -t tmpfs -o size=256k shoal /tmp/full; exec \"$@\""
    r = srun("-N4", "--ntasks-per-node=1", "unshare", "--mount", "sh", "-c", script, "sh", *train("full", *options, *sets(data__stage="/tmp/full")), code=7)
    assert re.search(r"rank 1.*data.stage: glyphs.h5 has \S+ KiB and /tmp/full/shoal-0 has only \S+ KiB left \(tmpfs\)", r.stderr), said(r)
    assert r.stderr.count("data.stage:") == 1, said(r)


def test_starts(glyphs):
    """Short starts over four nodes: none may die in its first exchange (the fence in src/comm/pmix.c)."""
    glyphs(64, 8)
    options = [*MLP, *sets(run__epochs=1, data__batch=8, run__steps=1, trace__level="off")]
    count = int(os.environ.get("SHOAL_STARTS", 300 if FULL else 20))
    began, failed = time.monotonic(), 0
    for i in range(count):
        r = srun(*EIGHT, *train(f"s{i}", *options), code=None, timeout=30)
        if r.returncode != 0:  # 124: it hung
            failed += 1
            print(f"start {i}: exit {r.returncode}\n{r.stdout}{r.stderr}", flush=True)
            on_cluster("scancel", "--user=root")
        else:
            shutil.rmtree(f"runs/s{i}")
    print(f"{failed} of {count} starts failed, {(time.monotonic() - began) / count:.2f} s each")
    assert failed == 0, f"{failed} of {count} starts failed"


SLOW = ["--allow-faults", *sets(fault__compute="sleep:100", run__log_every="1 steps")]


def test_stop(glyphs):
    """A signal stops all ranks; the job is requeued, resumes, and the end is bit for bit that of an undisturbed run: after three
    requeues in a row, ten in full."""
    glyphs()
    requeues = 10 if FULL else 3
    for name in ("whole", "cut"):
        run_file(name)
    longer = sets(run__epochs=9 if FULL else 3)
    srun(*EIGHT, program(), "train", "whole.yaml", *longer)
    (number,) = shoal_submit("cut.yaml", "-N4", "--per-node", 2, "-c", 1, "--output", "cut.log", *SLOW, *longer)
    wait_until("the first steps", lambda: runs_at("cut", 5))
    os.kill(ranks_of(number)[3], signal.SIGUSR1)  # one rank only
    stopped = wait_until("the stop", lambda: status("cut")["state"] == "stopped", 20)
    step = status("cut")["step"]
    assert status("cut")["exit_code"] == 75, f'{status("cut")}'
    shoal("ckpt", "verify", newest("cut"))
    again = wait_until("attempt 2", lambda: runs_at("cut", step + 1, 2), 90)
    assert status("cut")["attempt"] == 2, f"{status('cut')} {job(number)}"
    assert job(number)["Restarts"] == "1", f"{status('cut')} {job(number)}"
    print(f"stopped {stopped:.1f} s after the signal at step {step}; training again {again:.1f} s later")
    for n in range(3, requeues + 2):
        on_cluster("scancel", "--signal=USR1", number)  # the steps, as --signal does before the limit
        wait_until(f"attempt {n}", lambda: runs_at("cut", 1, n), 90)
    assert states() == {"runs/cut": "running", "runs/whole": "done"}, states()
    wait_until("the end", lambda: job_ended(number), 90)
    assert job(number)["JobState"] == "COMPLETED", f"{job(number)}"
    assert job(number)["Restarts"] == str(requeues), f"{job(number)}"
    assert status("cut")["state"] == "done", f'{status("cut")}'
    assert status("cut")["attempt"] == requeues + 1, f'{status("cut")}'
    assert_same_run("whole", "cut", f"stopped {requeues} times")
    for n in range(1, requeues + 2):
        assert f"attempt {n}" in read("cut.log"), "the log lost an attempt"


def test_submit(glyphs):
    """`shoal submit`: a job, an array over seeds and methods, and a chain make the bits of the commands by hand; each element has its
    own folder, and the second job of a chain goes on where the first one stopped."""
    glyphs(200, 20)
    for name in ("whole", "it", "many", "chained"):
        run_file(name)
    short = sets(run__epochs=2)
    jobs = shoal_submit("it.yaml", "-N4", "--per-node", 2, "-c", 1, *short)
    jobs += shoal_submit("many.yaml", "-N1", "--per-node", 2, "-c", 1, "--seeds", "1-2", "--set", "method.name=sync,local-sgd", *short)
    jobs += shoal_submit("chained.yaml", "-N4", "--per-node", 2, "-c", 1, "--chain", 2, "--allow-faults", *sets(fault__stop_step=2), *short)
    assert len(jobs) == 4, jobs
    srun(*EIGHT, program(), "train", "whole.yaml", *short)
    srun("-N1", "-n2", program(), "train", "many.yaml", *short, *sets(run__name="hand", run__seed=2, method__name="local-sgd"))
    wait_until("the end of the chain", lambda: job_ended(jobs[-1]), 90)
    wait_until("the end of all", lambda: set(states().values()) == {"done"}, 60)
    elements = [f"runs/many-array/{m}-seed{s}" for m in ("local-sgd", "sync") for s in (1, 2)]
    assert sorted(states()) == sorted(["runs/whole", "runs/hand", "runs/it", "runs/chained", *elements]), states()
    assert_same_run("whole", "it", "by hand and by submit")
    assert_same_run("whole", "chained", "by hand and by a chain")
    assert_same_run("hand", "many-array/local-sgd-seed2", "by hand and by an array")
    assert status("chained")["attempt"] == 2 and status("chained")["job"] == jobs[-1], status("chained")
    assert status("many-array/sync-seed1")["job"] == f"{jobs[1]}_1", status("many-array/sync-seed1")
    told = read("runs/many-array/sync-seed1/log.txt")  # the array's number alone would be its last element's, too
    assert f"to stop with a checkpoint: scancel --signal=USR1 {jobs[1]}_1.0;" in told, told


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
        return len(stopped) == len(numbers)

    wait_until("all to train and stop", done, 120)  # nothing slow in between, or a run ends before it is asked
    return stopped


def chosen():
    """All methods, or three of them.  SHOAL_METHODS=ab,ist names some."""
    names = os.environ.get("SHOAL_METHODS")
    return names.split(",") if names else sampled(METHODS, 3)


def test_methods(glyphs):
    """Methods by the run files people copy: stopped as before a time limit, requeued, resumed, the same bits;
    of free-running swarm, which never makes the same bits twice, only that it ends."""
    names = chosen()
    print("methods:", ", ".join(names))
    glyphs(600, 100, 32)
    for f in glob.glob(f"{ROOT}/jobs/*.yaml"):
        shutil.copy(f, ".")
    numbers = {}
    for name in names:
        script, options = METHODS[name]
        numbers[name] = submit(name, *SMALL, *options, *PACED, file=script, env={"SHOAL_RUN_NAME": name})
    stops = stop_all(numbers)
    print("stopped at steps", stops)
    for name in names:
        shoal("ckpt", "verify", newest(name))
    for name in names:  # while the others wait to be started again
        script, options = METHODS[name]
        r = srun(*EIGHT, program(), "train", f"{script}.yaml", *SMALL, *options, env={"SHOAL_RUN_NAME": f"{name}-whole"})
        assert "equal to the method's formula" in r.stdout, f"{name}: {r.stdout}"
        assert "DIFFERENT" not in r.stdout, f"{name}: {r.stdout}"
    for name, number in numbers.items():
        wait_until("the end", lambda: job_ended(number), 90)
        assert job(number)["JobState"] == "COMPLETED", f"{job(number)}"
        assert int(job(number)["Restarts"]) == 1, f"{job(number)}"
        assert status(name)["state"] == "done", f"{status(name)}"
        assert status(name)["attempt"] == 2, f"{status(name)}"
        assert shows(f"runs/{name}/log.txt", "resumed from"), "it did not resume"
        if name != "swarm":
            assert_same_run(f"{name}-whole", name, f"{name}, stopped and requeued")


def cifar10():
    """The real images where they lie beside the checkout; else noise in the same format, for a run that learns nothing."""
    real = sorted(glob.glob(f"{ROOT}/../shared/data/cifar10/*.bin.gz"))
    if not real:
        print("no CIFAR-10 beside the checkout: noise in its format instead")
        draw = random_source("noise")
        for name, n in (("data_batch_1.bin", 2000), ("test_batch.bin", 200)):
            with open(name, "wb") as f:
                for _ in range(n):
                    f.write(bytes([draw.randrange(10)]) + draw.randbytes(3072))
        real = ["data_batch_1.bin", "test_batch.bin"]
    shoal("data", "import", "cifar10", *real, "-o", "cifar10.h5")


def test_cifar():
    """ResNet-20 on CIFAR-10 by sbatch: the signal of the time limit leads to checkpoint, 75, requeue, resume, and to the
    weights of the undisturbed run, bit for bit.  In full, the signal is Slurm's own; else scancel sends it as Slurm would."""
    cifar10()
    for name in ("whole", "limit"):
        with open(f"{name}.yaml", "w") as f:
            f.write(f"run: {{ name: {name}, epochs: 3, steps: 40 }}\nmodel: {{ name: resnet20 }}\n"
                    "data: { file: cifar10.h5, batch: 8, augment: [crop4, hflip] }\n"
                    "optim: { name: sgd, lr: 0.05, momentum: 0.9, weight_decay: 5e-4 }\n")
    srun(*EIGHT, program(), "train", "whole.yaml")
    slow = "sleep:2500" if FULL else "sleep:150"
    limit = ["--time=2", "--signal=USR1@50"] if FULL else []  # it comes up to a minute earlier than asked
    number = submit("limit", "--allow-faults", *sets(fault__compute=slow, run__log_every="1 steps"), options=limit)
    if not FULL:
        wait_until("the first steps", lambda: runs_at("limit", 5))
        on_cluster("scancel", "--signal=USR1", number)
    wait_until("attempt 2", lambda: shows("runs/limit/log.txt", "=== attempt 2,"), 200)
    assert status("limit")["state"] in ("stopped", "running", "done"), f'{status("limit")}'
    wait_until("the end", lambda: job_ended(number), 400)
    assert job(number)["JobState"] == "COMPLETED", f"{job(number)}"
    assert int(job(number)["Restarts"]) >= 1, f"{job(number)}"
    assert shows("runs/limit/log.txt", "resumed from"), "it did not resume"
    assert_same_run("whole", "limit", "stopped before the time limit")


def test_killed(glyphs):
    """kill -9 of one rank ends the job within 10 s; it is not requeued; the next one resumes to the same bits."""
    glyphs()
    for name in ("whole", "dead"):
        run_file(name, ckpt="{ every: 5 steps }")
    srun(*EIGHT, program(), "train", "whole.yaml")
    number = submit("dead", *SLOW)
    wait_until("the first checkpoint", lambda: runs_at("dead", 7))
    ranks = ranks_of(number)
    assert sorted(ranks) == list(range(8)), f"{ranks}"
    os.kill(ranks[5], signal.SIGKILL)
    ended = wait_until("the end of the job", lambda: job_ended(number), 30)
    assert ended < 10, f"the job needed {ended:.1f} s to end"
    assert job(number)["JobState"] == "FAILED", f"{job(number)}"
    assert job(number)["Restarts"] == "0", f"{job(number)}"
    left = [p for p in ranks.values() if os.path.realpath(f"/proc/{p}/exe") == program()]
    assert not left, f"ranks are still there {left}"
    assert status("dead")["state"] in ("running", "failed"), f'{status("dead")}'
    print(f"the job ended {ended:.1f} s after the kill; status.json says {status('dead')['state']}")
    number = submit("dead")
    wait_until("the next job", lambda: job_ended(number), 60)
    assert job(number)["JobState"] == "COMPLETED", f"{job(number)} {status('dead')}"
    assert status("dead")["attempt"] == 2, f"{job(number)} {status('dead')}"
    assert shows("dead.log", r"resumed from runs/dead/ckpt/step-"), "the next job did not resume"
    assert_same_run("whole", "dead", "killed and resumed")


def test_node(glyphs):
    """A node that fails under a job, so that no rank there and no rank that waits for it says a word: Slurm ends the job by NODE_FAIL
    and starts it again on other nodes, which says so and goes on from the newest checkpoint, to the same bits."""
    if not FULL:
        pytest.skip("half a minute of waiting for Slurm: only with SHOAL_FULL=1; what is decided then is in slurm.script, too")
    glyphs()
    for name in ("whole", "lost"):
        run_file(name, ckpt="{ every: 5 steps }")
    short = sets(run__epochs=2)
    srun("-N2", "--ntasks-per-node=2", program(), "train", "whole.yaml", *short)
    (number,) = shoal_submit("lost.yaml", "-N2", "--per-node", 2, "-c", 1, "--output", "lost.log", *SLOW, *short)
    wait_until("the first checkpoint", lambda: runs_at("lost", 7))
    first = hosts_of("lost")
    cluster_sh("fail", first[-1])
    try:
        on_cluster("scontrol", "update", f"NodeName={first[-1]}", "State=DOWN", "Reason=test")  # sooner than Slurm's own 15 s
        again = wait_until("attempt 2", lambda: shows("runs/lost/log.txt", "=== attempt 2,"), 90)
        ended = wait_until("the end", lambda: job_ended(number), 90)
    finally:
        cluster_sh("heal", first[-1])
    healed = wait_until("the node", lambda: len(on_cluster("sinfo", "-h", "-N", "-t", "idle").stdout.split("\n")) > 4)
    print(f"started again after {again:.1f} s, ended {ended:.1f} s later; the node was there after {healed:.1f} s")
    assert re.search(rf"requeue job JobId={number} due to failure of node {first[-1]}", read(f"{slurm.STATE}/log/slurmctld.log"))
    assert job(number)["JobState"] == "COMPLETED" and status("lost")["state"] == "done", f"{job(number)} {status('lost')}"
    assert first[-1] not in hosts_of("lost"), hosts_of("lost")
    assert re.search(rf"^job {number}, start 2: Slurm has started it again, as after the failure of a node; runs/lost goes on from step "
                     r"\d+, once$", read("lost.log"), re.M), read("lost.log")
    assert shows("runs/lost/log.txt", r"resumed from runs/lost/ckpt/step-")
    assert_same_run("whole", "lost", "a node lost")


def test_back(glyphs):
    """A node that fails and is back at once, in a job that needs all nodes: Slurm starts the job again, cannot launch its step there,
    which has the files of one of this number; launch tries once more, says so, and goes on from the newest checkpoint to the same bits."""
    if not FULL:
        pytest.skip("half a minute of waiting for Slurm: only with SHOAL_FULL=1; what is decided then is in slurm.script, too")
    glyphs()
    for name in ("whole", "back"):
        run_file(name, ckpt="{ every: 5 steps }")
    short = sets(run__epochs=2)
    srun("-N4", "--ntasks-per-node=1", program(), "train", "whole.yaml", *short)
    (number,) = shoal_submit("back.yaml", "-N4", "--per-node", 1, "-c", 1, "--output", "back.log", *SLOW, *short)
    wait_until("the first checkpoint", lambda: runs_at("back", 7))
    cluster_sh("fail", "n4")
    on_cluster("scontrol", "update", "NodeName=n4", "State=DOWN", "Reason=test")
    cluster_sh("heal", "n4")
    wait_until("the end", lambda: job_ended(number), 150)
    text = read("back.log")
    print(text)
    assert job(number)["JobState"] == "COMPLETED" and status("back")["state"] == "done", f"{job(number)} {status('back')}"
    assert re.search(rf"^job {number}, start 2: runs/back: srun ended with \d+ before its ranks had begun, .*: once more$", text, re.M), text
    assert shows("runs/back/log.txt", r"resumed from runs/back/ckpt/step-")
    assert_same_run("whole", "back", "a node that came back")


# ---- bytes -----------------------------------------------------------------------------------------------------------

HEADERS = 66  # Ethernet 14, IP 20, TCP 32 with time stamps: the wire model's, per packet
SEGMENT = 1448


def sent_twice(node):
    """Bytes that TCP sent again, as its counter of segments says: the links lose packets when their queues are full."""
    text = run(["nsenter", f"--net=/run/netns/shoal-{node}", "cat", "/proc/net/snmp"]).stdout
    names, values = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    return SEGMENT * int(values[names.index("RetransSegs")])


def sent_by_node():
    """Counters of the nodes' interfaces: sent bytes, sent packets, bytes sent again."""
    rows = [line.split() for line in cluster_sh("bytes").stdout.splitlines()]
    return {node: (int(tx), int(packets), sent_twice(node)) for node, _, tx, _, packets in rows}


def count_bytes(name, steps, options):
    """One run: what each node's interface sent, and what its ranks counted.  Returns node → dict."""
    before = sent_by_node()
    srun(*EIGHT, *train(name, *options, *sets(run__steps=steps)))
    after = sent_by_node()
    table = trace_table(name)["ranks"]
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


def test_bytes(glyphs):
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
        print(f"{node}: carried {carried}, counted {d['payload']}: {100 * over:+.3f} % "
              f"(twice {100 * d['twice'] / d['payload']:.3f} %)")
        assert abs(over) < 0.0025, f"{node}: {d}"
    cluster_sh("shape", "400mbit")
    segment_size(1)
    try:
        limited = between("limited")
    finally:
        segment_size(65535)
        cluster_sh("shape", "off")
    for node, d in limited.items():
        over = (d["bytes"] - d["twice"]) / d["wire"] - 1
        print(f"{node}: sent {d['bytes'] - d['twice']} in {d['packets']} packets, wire model {d['wire']}: {100 * over:+.3f} % "
              f"(twice {100 * d['twice'] / d['wire']:.3f} %)")
        assert -0.01 < over < 0.01 + HEADERS / (2 * (SEGMENT + HEADERS)), f"{node}: {d}"


def test_overlap():
    """A sum in flight moves while its ranks do something else (pretended: they sleep) as long as they look at it now and
    then: beside 1.5 times its own time less than 15 % of it is waited for.  Without looking, nearly all of it is."""
    def exposed(poll):
        out = srun(*EIGHT, program(), "bench", "comm", "--sizes", "2048", "--seconds", "1", "--beside", "1.5", "--poll", poll,
                   "--json").stdout
        return {r["algorithm"]: (r["exposed_ms"], r["ms"]) for r in map(json.loads, out.splitlines())}
    cluster_sh("shape", "200mbit")
    try:
        polled, left_alone = exposed("2"), exposed("0")
    finally:
        cluster_sh("shape", "off")
    for algorithm, (wait, transfer) in polled.items():
        idle, whole = left_alone[algorithm]
        print(f"{algorithm}: {wait:.2f} of {transfer:.1f} ms exposed; {idle:.1f} of {whole:.1f} ms when nobody polls")
        assert wait < 0.15 * transfer, f"{algorithm}: {wait} of {transfer} ms exposed"
        assert idle > 0.5 * whole, f"{algorithm}: {idle} of {whole} ms exposed without polls: this test cannot fail"


def sums(name, rank, what, first):
    """Number and seconds of a rank's exchanges whose name begins so, and seconds of the waits for them, from a step on."""
    t = Trace(name, rank)
    rows = [(int(r["kind"]), (int(r["t1_ns"]) - int(r["t0_ns"])) / 1e9) for r in t.records
            if t.ops[r["op"]].startswith(what) and r["step"] >= first]
    return [sum(kind == 3 for kind, _ in rows), *(sum(t for kind, t in rows if kind == k) for k in (3, 4))]


def test_late(glyphs):
    """DASO's sums at 200 Mbit/s: when W batches of (pretended) compute last longer than a transfer, less than 10 % of it is
    waited for; when they are far shorter, much of it is.  The first sums bring nodes together that began at different times,
    so they do not count."""
    glyphs(4000)
    options = [*MLP, *sets(method__name="daso", method__warmup_epochs=0, method__every=3, method__wait=2, run__steps=23,
                           model__widths="[512,512]", data__batch=8, trace__level="op"), "--allow-faults"]
    exposed = {}
    cluster_sh("shape", "200mbit")
    try:
        for ms in (150, 1):
            srun(*EIGHT, "bash", "-c", 'SHOAL_FAULT_RANK=$SLURM_PROCID exec "$0" "$@"',  # all ranks, not one
                 *train(f"late{ms}", *options, *sets(fault__compute=f"sleep:{ms}")))
            number, transfer, wait = map(sum, zip(*(sums(f"late{ms}", rank, 'exchange "across', 9) for rank in range(8))))
            exposed[ms] = wait / transfer
            print(f"{ms} ms of compute per batch: {number} sums of {1e3 * transfer / number:.0f} ms, "
                  f"{100 * exposed[ms]:.1f} % waited for")
    finally:
        cluster_sh("shape", "off")
    assert exposed[150] < 0.1, f"{100 * exposed[150]:.1f} % of the transfer is exposed"
    assert exposed[1] > 0.3, f"only {100 * exposed[1]:.1f} % exposed: this test cannot fail"
