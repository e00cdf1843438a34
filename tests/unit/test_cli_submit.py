"""`shoal submit` and `shoal status`: scripts, arrays and chains with stand-ins for Slurm's commands, and the states of made-up runs."""
import glob
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import pytest

from harness import PLAIN_ENV, ROOT, program, read, run, said, wait_until

RUN = """run: { name: blobs, epochs: 2 }
model: { name: mlp, widths: [4] }
data: { file: data.h5, global_batch: 8 }
method: { name: local-sgd, period: 7 }
"""
STUBS = {"sbatch": 'echo "$@" >>sbatch.args\necho $((100 + $(wc -l <sbatch.args)))\n[ -z "$REFUSE" ] || exit 1\n',
         # one rank, which nothing may tell of the job but what the script itself says
         "srun": f'while [ "$1" != {shlex.quote(os.path.realpath(program()))} ]; do shift; done\n'
                 'exec env -u SLURM_JOB_ID -u SLURM_CPUS_PER_TASK "$@"\n',
         "timeout": 'echo "$@" >>timeout.args\nshift 3\nexec /usr/bin/timeout -k 1 0.2 "$@"\n',  # the same, sooner
         "squeue": 'echo "$@" >>squeue.args; cat queue\n'}


@pytest.fixture(autouse=True)
def files(work):
    run([program(), *"data synth blobs -o data.h5 --train 80 --test 16 --features 4 --classes 4".split()], base=PLAIN_ENV)
    os.makedirs("bin")
    with open("run.yaml", "w") as f:
        f.write(RUN)


def stub(name):
    with open(f"bin/{name}", "w") as f:
        f.write("#!/bin/sh\n" + STUBS[name])
    os.chmod(f"bin/{name}", 0o755)


def shoal(*args, code=0, **env):
    path = f"{os.getcwd()}/bin:{os.path.dirname(program())}:/usr/bin:/bin"
    base = {**PLAIN_ENV, "PATH": path, "XDG_CONFIG_DIRS": f"{os.getcwd()}/site", "XDG_CONFIG_HOME": f"{os.getcwd()}/user", **env}
    return run([env.get("PROGRAM", "shoal"), *map(str, args)], code=code, base=base)


def submit(*args, **options):
    return shoal("submit", *args, **options)


def options(text):
    """Options of sbatch in a script, in their order."""
    return re.findall(r"^#SBATCH (.*)$", text, re.M)


def test_jobs():
    """The scripts in jobs/ are what the command in them prints."""
    shutil.copytree(f"{ROOT}/jobs", "jobs")
    os.chdir("jobs")
    scripts = glob.glob("*.sbatch")
    assert "train.sbatch" in scripts
    for name in scripts:
        command = read(name).splitlines()[2].removeprefix("#   ")
        assert command.startswith("shoal submit ")
        assert submit(*shlex.split(command)[2:], "--print").stdout == read(name), f"{name}: {command} --print > {name}"


def test_script(work):
    """What is asked for is in the script; it goes to sbatch; `status` knows of it before the run does."""
    stub("sbatch")
    r = submit("run.yaml", "-N", 4, "--per-node", 2, "-c", 3, "--time", "90min", "-p", "gpu", "-A", "me", "--sbatch=--exclusive",
               "--set", "run.name=it", "--set", "optim.lr=0.5", "--after", "12,13")
    text = read("runs/it/job.sbatch")
    assert options(text) == ["--job-name=it", "--output=runs/it/job-%j.log", "--open-mode=append", "--nodes=4", "--ntasks-per-node=2",
                             "--cpus-per-task=3", "--time=01:30:00", "--partition=gpu", "--account=me", "--exclusive", "--requeue",
                             "--signal=USR1@120"]
    assert text.splitlines()[-1] == 'exec shoal launch --requeue run.yaml --set run.name=it --set optim.lr=0.5 "$@"'
    assert read("sbatch.args") == "--parsable --dependency=afterok:12:13 runs/it/job.sbatch\n"
    assert "job 101: run.yaml on 4 nodes, 8 ranks\nscript runs/it/job.sbatch, log runs/it/job-101.log; shoal status runs/it\n" in r.stdout
    assert "\nit  " in shoal("status").stdout and json.loads(shoal("status", "--json").stdout)["runs"][0]["job"] == "101"
    run(["bash", "-n", "runs/it/job.sbatch"])
    assert "\n# Its paths begin in the folder where that was given: by hand, sbatch it from there.\n" in text
    # What it was made by makes it again; --print writes nothing.
    command = shlex.split(text.splitlines()[2].removeprefix("#   "))
    shutil.rmtree("runs")
    assert submit(*command[2:], "--print").stdout == text and not os.path.exists("runs")
    # Another number of ranks than so many on each node; a chain requeues nothing; a log with a space and a per cent.
    assert "--ntasks=7" in options(submit("run.yaml", "-N", 2, "-n", 7, "--print").stdout)
    os.remove("sbatch.args")
    r = submit("run.yaml", "--chain", 3, "--after", "9", "--set", "run.dir=a 100%")
    assert "logs a 100%/blobs/job-101.log to a 100%/blobs/job-103.log;" in r.stdout, said(r)
    text = read("a 100%/blobs/job.sbatch")
    assert "--no-requeue" in options(text) and "--requeue" not in text.replace("--no-requeue", "")
    assert '--output="a 100%%/blobs/job-%j.log"' in options(text)
    assert read("sbatch.args").splitlines() == [f"--parsable --dependency={d} a 100%/blobs/job.sbatch" for d in
                                                ("afterok:9", "afterany:101", "afterany:102")]
    # The lead is what stopping takes, twice, and half a minute.
    with open("a 100%/blobs/status.json", "w") as f:
        json.dump({"state": "stopped", "lead": {"step_s": 2, "save_s": 100.5}}, f)
    text = submit("run.yaml", "--set", "run.dir=a 100%", "--print").stdout
    assert "--signal=USR1@235" in options(text) and "235 s before the time limit (from what an earlier start" in text
    with open("a 100%/blobs/placement.json", "w") as f:
        json.dump({"size": 2, "nodes": 1}, f)
    for more in ((), ("-n", 2, "-N", 2)):
        text = submit("run.yaml", *more, "--set", "run.dir=a 100%", "--print").stdout
        assert "an earlier start needed to save, with 2 ranks on 1 node; --lead sets another)" in text
    assert "needed to save)" in submit("run.yaml", "-n", 2, "--set", "run.dir=a 100%", "--print").stdout
    assert "--signal=USR1@50" in options(submit("run.yaml", "--lead", 50, "--print").stdout)
    # A run that has a job already is told, unless the new one waits for it.
    stub("squeue")
    os.makedirs("runs/it")
    for queue, more, told in (("105_2|RUNNING|N/A|None\n", (), 0), ("104|RUNNING|N/A|None\n", (), 1),
                              ("104|PENDING|N/A|Priority\n", ("--after", "9,104"), 0)):
        with open("queue", "w") as f:
            f.write(queue)
        with open("runs/it/job.json", "w") as f:
            json.dump({"jobs": ["104"], "time": ""}, f)
        said = submit("run.yaml", "--set", "run.name=it", *more).stderr
        assert said.count("job 104 (RUNNING) has runs/it already: a second job that begins meanwhile trains nothing") == told, said
        assert told or not said, said
    # One that is done, unless it is to train on, or from another checkpoint.
    for epochs, more, code in ((2, (), 2), (3, (), 2), (2, ("--set", "run.epochs=3"), 0), (2, ("--resume", "x.h5"), 0), (1, ("--set", "run.steps=5"), 2)):
        make_run("over", "done", epoch=epochs)
        r = submit("run.yaml", "--set", "run.name=over", *more, code=code)
        told = f"runs/over is done, at epoch {epochs} and step 1234, so there is nothing to submit: --set run.epochs=N trains on" in r.stderr
        assert told == (code != 0) and os.path.exists("runs/over/job.sbatch") != told, (epochs, more, r.stderr)
        if not told:  # for `status`: what the job trains to
            record = json.loads(read("runs/over/job.json"))
            assert (record["epochs"], record.get("resume")) == ((3, None) if "--set" in more else (2, "x.h5")), record
        shutil.rmtree("runs/over")
    # From within a job: the new one gets nothing of it, but what people set.
    theirs = {"SLURM_MEM_PER_NODE": "300", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_CONF_X": "a b", "SLURMD_NODENAME": "n1",
              "PMI_RANK": "0", "PMI2_X": "", "PMIX_RANK": "0", "OMPI_COMM_WORLD_RANK": "0"}
    ours = {"SLURM_CONF": "/etc/it's", "SLURM_CLUSTERS": "c", "SBATCH_PARTITION": "p", "OMPI_MCA_btl": "self", "PMIX_MCA_gds": "hash"}
    with open("bin/sbatch", "a") as f:
        f.write("env >sbatch.env\n")
    for job in ({}, {"SLURM_JOB_ID": "7", "SLURM_JOBID": "7"}):
        r = submit("run.yaml", "--set", "run.name=within", SBATCH_OPEN_MODE="truncate", SBATCH_NO_REQUEUE="1", **theirs, **ours, **job)
        assert "SBATCH_OPEN_MODE=truncate of the environment does not count: the script says --open-mode" in r.stdout, r.stdout
        there = dict(line.split("=", 1) for line in read("sbatch.env").splitlines())
        assert {n: v for n, v in there.items() if n.startswith(("SLURM", "PMI", "OMPI_", "SBATCH_"))} == {
            **{n: v for n, v in PLAIN_ENV.items() if n.startswith(("OMPI_MCA_", "PMIX_MCA_"))}, **ours, **({} if job else theirs)}
    with open("bin/srun", "w") as f:
        f.write("#!/bin/sh\necho 'srun: error: Invalid job id specified' >&2\nexit 1\n")
    os.chmod("bin/srun", 0o755)
    r = shoal("launch", "run.yaml", "-n", "2", code=1, SLURM_JOB_ID="7", SLURM_JOB_NUM_NODES="1")
    assert "srun has not started the ranks, as it says above; if job 7 is over" in r.stderr and "unset ${!SLURM_@}" in r.stderr, r.stderr
    for words in ("5 hours are left\\n777;c", "Submitted batch job 777 on c"):  # by a script of the site
        with open("bin/sbatch", "w") as f:
            f.write(f"#!/bin/sh\nprintf '{words}\\n'\n[ -z \"$REFUSE\" ] || exit 1\n")
        assert submit("run.yaml", "--set", "run.name=site").stdout.startswith("job 777: ")
    assert "Submitted batch job 777 on c\n" in submit("run.yaml", code=3, REFUSE="1").stderr
    r = submit("run.yaml", code=3, REFUSE="1")
    assert "sbatch has not taken the job (exit 1)" in r.stderr and "see squeue before you submit it again" in r.stderr and not os.path.exists("runs/blobs")
    os.remove("bin/sbatch")
    assert "sbatch is not on the PATH" in submit("run.yaml", code=3, PATH=os.path.dirname(program())).stderr
    r = submit("run.yaml", "--set", "data.file=gone.h5", code=3)
    assert "data.file gone.h5 is not there" in r.stderr


def test_defaults(work):
    """Of the site, which the user's count more than, and flags more than these; the site's may lie beside the installation."""
    stub("sbatch")
    for place in ("site/shoal", "user/shoal", "there/bin", "there/etc/shoal"):
        os.makedirs(place)
    with open("site/shoal/submit.yaml", "w") as f:
        f.write("partition: slow\naccount: everybody\nper_node: 4\ncores: 2\ntime: 2-00:00:00\nlead: 300\n"
                "sbatch: [--exclusive]\nsetup: [module load shoal, ulimit -c 0]\n")
    with open("user/shoal/submit.yaml", "w") as f:
        f.write("partition: fast\ntime: 1h\n")
    text = submit("run.yaml", "-N", 2, "--account", "mine", "--print").stdout
    assert options(text)[3:] == ["--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=2", "--time=01:00:00", "--partition=fast",
                                 "--account=mine", "--exclusive", "--requeue", "--signal=USR1@300"]
    assert "\nmodule load shoal\nulimit -c 0\n" in text
    r = submit("run.yaml")
    assert f"defaults of {os.getcwd()}/site/shoal/submit.yaml\n" in r.stdout and "user/shoal/submit.yaml\n" in r.stdout
    # Where logs are, which a script says once; Slurm makes no folders.
    for option, log in (("--output=logs/%j.out", "logs/%j.out"), ("-o logs/b/%j", "logs/b/%j"), ("-ologs/c/%j", "logs/c/%j")):
        with open("user/shoal/submit.yaml", "w") as f:
            f.write(f'sbatch: ["{option}", "--error=wrong/%j.err"]\n')
        assert not os.path.exists(os.path.dirname(log)) and f"--output={log}" in options(submit("run.yaml", "--print").stdout)
        assert not os.path.exists(os.path.dirname(log))
        r = submit("run.yaml")
        job = re.search(r"^job (\d+):", r.stdout, re.M)[1]
        assert os.path.isdir(os.path.dirname(log)) and os.path.isdir("wrong") and f", log {log.replace('%j', job)};" in r.stdout, r.stdout
        assert read("runs/blobs/job.sbatch").count("--output=") == 1
    assert "--output=mine" in options(submit("run.yaml", "--output", "mine", "--print").stdout)
    assert "warning: log a/%u/log: Slurm makes no folders" in submit("run.yaml", "--output", "a/%u/log").stderr
    with open("file", "w"):
        pass
    assert "the folder of the log: " in submit("run.yaml", "--output", "file/x/log", code=7).stderr
    with open("user/shoal/submit.yaml", "w") as f:
        f.write("partitoin: fast\n")
    r = submit("run.yaml", "--print", code=2)
    assert "user/shoal/submit.yaml:1" in r.stderr and "did you mean partition" in r.stderr, r.stderr
    shutil.copy(program(), "there/bin/shoal")
    with open("there/etc/shoal/submit.yaml", "w") as f:
        f.write("partition: beside\n")
    r = submit("run.yaml", "--print", PROGRAM="there/bin/shoal", XDG_CONFIG_DIRS="none", XDG_CONFIG_HOME="none")
    assert "--partition=beside" in options(r.stdout)
    assert f"exec {os.path.realpath('there/bin/shoal')} launch" in r.stdout  # not the one on the PATH


def test_array(work):
    """A run for each seed and method, each as if by hand: its own folder, the same bits."""
    stub("sbatch")
    stub("srun")
    r = submit("run.yaml", "-N", 1, "--seeds", "1,3-4", "--set", "method.name=sync,local-sgd", "--set", "run.epochs=1", "--at-once", 2,
               "--allow-faults")
    names = [f"{m}-seed{s}" for m in ("sync", "local-sgd") for s in (1, 3, 4)]
    text = read("runs/blobs-array/job.sbatch")
    assert "--array=1-6%2" in options(text) and "--output=runs/blobs-array/job-%A_%a.log" in options(text)
    assert re.findall(r"^(\d)\) set -- (\S+) \"\$@\" ;;$", text, re.M) == [
        (str(i + 1), f"runs/blobs-array/{n}.yaml") for i, n in enumerate(names)]
    assert text.splitlines()[-1] == 'exec shoal launch --requeue --allow-faults "$@"' and "6 elements" in r.stdout
    assert "logs runs/blobs-array/job-101_1.log to runs/blobs-array/job-101_6.log;" in r.stdout, said(r)
    assert "period: 7" in read("runs/blobs-array/local-sgd-seed3.yaml") and "period" not in read("runs/blobs-array/sync-seed3.yaml")
    job = {"SLURM_JOB_ID": "107", "SLURM_ARRAY_JOB_ID": "101", "SLURM_CPUS_PER_TASK": "1",
           "PATH": f"{os.getcwd()}/bin:{os.path.dirname(program())}:/usr/bin:/bin"}
    run(["bash", "runs/blobs-array/job.sbatch"], base={**PLAIN_ENV, **job, "SLURM_ARRAY_TASK_ID": "5"})
    shoal("train", "run.yaml", "-q", "--set", "run.seed=3", "--set", "run.epochs=1")
    (by_job,), (by_hand,) = glob.glob("runs/blobs-array/local-sgd-seed3/ckpt/*.h5"), glob.glob("runs/blobs/ckpt/*.h5")
    shoal("ckpt", "diff", by_job, by_hand)
    r = shoal("launch", "runs/blobs", code=2)
    assert "runs/blobs is the folder of a run: its run file is runs/blobs/run.yaml" in r.stderr, said(r)
    r = run(["bash", "runs/blobs-array/job.sbatch"], base={**PLAIN_ENV, **job, "SLURM_ARRAY_TASK_ID": "7"}, code=2)
    assert "there is no element 7: this array has 1-6\n" in r.stderr
    rows = {w[0]: w[1:] for w in (line.split() for line in shoal("status").stdout.split("\n\n")[0].splitlines()[1:])}
    assert rows["blobs"][0] == "done" and rows[".." + "blobs-array/local-sgd-seed3"[-16:]][0] == "done", rows
    assert sorted(v[-1] for v in rows.values() if v[0] == "submitted") == [f"101_{i}" for i in (1, 2, 3, 4, 6)]
    # The same command again is the same array; another one does not change its files.
    submit("run.yaml", "-N", 1, "--seeds", "1", "--set", "method.name=sync,local-sgd", "--set", "run.epochs=1")
    r = submit("run.yaml", "-N", 1, "--seeds", "1", "--set", "method.name=sync,local-sgd", code=2)
    assert "runs/blobs-array/sync-seed1.yaml is there, and says something else" in r.stderr
    assert "go on with another setting by sbatch runs/blobs-array/job.sbatch --set run.epochs=20" in r.stderr, r.stderr
    # Elements that are done are told of, and refused if there are no others.
    with open("sbatch.args") as f:
        before = len(f.readlines())
    one = ("run.yaml", "-N", 1, "--seeds", "3", "--set", "method.name=local-sgd,sync", "--set", "run.epochs=1")
    assert "1 of 2 runs in runs/blobs-array done already" in submit(*one).stdout
    os.mkdir("runs/blobs-array/sync-seed3")
    shutil.copy("runs/blobs-array/local-sgd-seed3/status.json", "runs/blobs-array/sync-seed3")
    r = submit(*one, code=2)
    assert "every run in runs/blobs-array is done, so there is nothing to submit: sbatch runs/blobs-array/job.sbatch --set run.epochs=N" in r.stderr, said(r)
    with open("sbatch.args") as f:
        assert len(f.readlines()) == before + 1
    # Nothing stays of what sbatch refuses.
    r = submit("run.yaml", "--seeds", "1-2", "--set", "run.name=no", "--output", "logs/no/%j", code=3, REFUSE="1")
    assert "sbatch has not taken the job" in r.stderr and not os.path.exists("runs/no-array") and not os.path.exists("logs"), said(r)
    # What takes a list is no array; numbers are, each with the option's name.
    assert "--array" not in submit("run.yaml", "--set", "model.widths=8,4", "--print").stdout
    text = submit("run.yaml", "--set", "optim.lr=0.1,0.2", "--print").stdout
    assert "lr0.1.yaml" in text and "lr0.2.yaml" in text


@pytest.mark.parametrize("args, words", [
    (["run.yaml", "-N", "2", ":", "-N", "1"], "a heterogeneous job"),
    (["run.yaml", "-N", "2:1"], "a heterogeneous job"),
    (["run.yaml", "other.yaml"], "other.yaml: a job is of one run file"),
    (["-N", "2"], "no run file given"),
    (["run.yaml", "-N", "0"], "must be a whole number, 1 or more"),
    (["run.yaml", "-N", "4", "-n", "3"], "each node needs a rank"),
    (["run.yaml", "-N", "4", "-n", "8", "--per-node", "3"], "4 nodes have 12 ranks then"),
    (["run.yaml", "--time", "soon"], "--time soon"),
    (["run.yaml", "--time", "30s"], "a minute or more"),
    (["run.yaml", "--time", "2min"], "is not longer than the 120 s"),
    (["run.yaml", "--seeds", "5-1"], "--seeds 5-1"),
    (["run.yaml", "--seeds", "1,,2"], "--seeds 1,,2"),
    (["run.yaml", "--seeds", "1,1"], "seed1: give each value once"),
    (["run.yaml", "--seeds", "1-99999999"], "--seeds"),
    (["run.yaml", "--seeds", "1-200", "--set", "optim.lr=" + ",".join(f"0.{i:03}" for i in range(1, 52))], "more than 10000"),
    (["run.yaml", "--seeds", "1", "--set", "run.seed=1,2"], "run.seed has several values twice"),
    (["run.yaml", "--set", "method.name=sync,dase"], "did you mean daso"),
    (["run.yaml", "--set", "optim.lr=0.1,"], "is empty"),
    (["run.yaml", "--set", "run.name=a,b"], 'run.name is "a,b"'),
    (["run.yaml", "--set", "optm.lr=1"], "optim.lr"),
    (["run.yaml", "--at-once", "2"], "--at-once is for an array"),
    (["run.yaml", "--after", "x"], "--after x"),
    (["run.yaml", "--sbatch", "exclusive"], "with its dashes"),
    (["run.yaml", "--sbatch=--x\ntouch y"], "more than one line"),
    (["run.yaml", "--partition", 'a"b'], "no quotes"),
])
def test_refused(work, args, words):
    stub("sbatch")
    err = submit(*args, code=2).stderr
    assert words in err and err.count("\n") == 1, err
    assert not os.path.exists("sbatch.args") and not os.path.exists("runs")


def test_scale(work):
    """`shoal scale --submit`: an array for each rank count, of the runs that are neither done nor in the queue."""
    for name in STUBS:
        stub(name)
    open("queue", "w").close()
    command = ["scale", "run.yaml", "--ranks", "1,4", "--methods", "sync,local-sgd", "--per-node", 2, "--submit", "--time", "1h", "-c", 3]
    assert "is not longer than" in shoal(*command[:-3], "2min", code=2).stderr and not os.path.exists("runs")
    assert "sbatch has not taken" in shoal(*command, code=3, REFUSE="1").stderr and not os.path.exists("runs")
    os.remove("sbatch.args")
    r = shoal(*command)
    assert read("sbatch.args").splitlines() == [f"--parsable runs/blobs-scale/job-{n}.sbatch" for n in (1, 4)]
    one, four = (read(f"runs/blobs-scale/job-{n}.sbatch") for n in (1, 4))
    assert options(one)[:1] + options(one)[3:] == ["--job-name=blobs-scale-1", "--array=1-2", "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=3",
                                                   "--time=01:00:00", "--requeue", "--signal=USR1@120"]
    assert "--nodes=2" in options(four) and "--ntasks-per-node=2" in options(four) and four.endswith('exec shoal launch --requeue -q -n 4 "$@"\n')
    assert r.stdout.count("not done") == 4
    job = {"SLURM_JOB_ID": "107", "SLURM_ARRAY_JOB_ID": "101", "SLURM_CPUS_PER_TASK": "1", "SLURM_ARRAY_TASK_ID": "2",
           "PATH": f"{os.getcwd()}/bin:{os.path.dirname(program())}:/usr/bin:/bin"}
    run(["bash", "runs/blobs-scale/job-1.sbatch"], base={**PLAIN_ENV, **job})
    with open("queue", "w") as f:
        f.write("102_1|PENDING|N/A|Priority\n102_2|RUNNING|N/A|None\n")
    r = shoal(*command)
    assert read("sbatch.args").splitlines()[2:] == ["--parsable runs/blobs-scale/job-1.sbatch"]
    assert "--array=1\n" in read("runs/blobs-scale/job-1.sbatch") and "1) set -- runs/blobs-scale/sync-1.yaml" in read("runs/blobs-scale/job-1.sbatch")
    assert r.stdout.count("is in the queue") == 2 and re.search(r"^local-sgd +1 +\d+ +1.00", r.stdout, re.M), r.stdout
    with open("bin/squeue", "w") as f:  # nobody knows what still waits
        f.write("#!/bin/sh\necho 'slurm_load_jobs error: no' >&2; exit 1\n")
    r = shoal(*command, code=3)
    assert re.search(r"whether job 10\d_\d of runs/blobs-scale/\S+ still runs or waits, so nothing is submitted: slurm_load_jobs error: no;", r.stderr), r.stderr
    assert len(read("sbatch.args").splitlines()) == 3
    # A run of other ranks than its row's is none of it: the job refuses it before it begins, and the table flags it.
    less = {**PLAIN_ENV, **job, "SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1", "SLURM_NTASKS": "2", "SLURM_JOB_CPUS_PER_NODE": "2"}
    r = run(["bash", "runs/blobs-scale/job-4.sbatch"], base={**less, "SLURM_ARRAY_TASK_ID": "1"}, code=2)
    assert "4 ranks: the 1 node of job 107 has 2 CPUs" in r.stderr and not os.path.exists("runs/blobs-scale/sync-4/status.json"), said(r)
    stub("squeue")
    os.makedirs("runs/blobs-scale/local-sgd-4")
    shutil.copytree("runs/blobs-scale/local-sgd-1", "runs/blobs-scale/local-sgd-4", dirs_exist_ok=True)
    r = shoal(*command)
    flagged = r"^local-sgd +4 +done with 1 rank, which is no row of this: rm -r runs/blobs-scale/local-sgd-4, then the same command$"
    assert re.search(flagged, r.stdout, re.M) and re.search(r"^local-sgd +1 +\d+ +1.00", r.stdout, re.M), r.stdout
    shutil.rmtree("runs/blobs-scale/local-sgd-4")
    # What is told of those that cannot start keeps their ranks.
    with open("bin/sinfo", "w") as f:
        f.write("#!/bin/sh\necho '2|1-infinite|2:00:00|4'\n")
    os.chmod("bin/sinfo", 0o755)
    no_such = "its partition does not have such nodes, or so many (sinfo -N -l shows what it has)"
    for nodes, cpus, why, cure in ((4, 8, "4 nodes, and partition debug gives a job at most 2", "a larger --per-node, such as 2"),
                                   (2, 8, None, "a smaller --per-node or -c"), (1, 8, "8 CPUs of each node, and a node of partition debug has at most 4", "a smaller --per-node or -c")):
        with open("queue", "w") as f:
            f.write(f"102_1|PENDING|N/A|PartitionConfig|debug|{nodes}|1:00:00|{cpus}\n")
        assert (f"sync-4: job 102_1 never starts, as {f'it asks for {why}' if why else no_such}: scancel 102_1, then the same shoal scale with {cure}, or without 4 in --ranks\n"
                in shoal("status", "runs/blobs-scale").stdout), shoal("status", "runs/blobs-scale").stdout
    os.remove("bin/sinfo")
    assert "--time is of a job: add --submit" in shoal("scale", "run.yaml", "--ranks", 1, "--time", "1h", code=2).stderr
    assert "contradict each other" in shoal(*command, "--only-files", code=2).stderr


# ---- status ----------------------------------------------------------------------------------------------------------

def here(pid, started=1):
    """`process` of a status.json, as if written by this process number of this kernel."""
    return {"pid": pid, "started": started, "boot": read("/proc/sys/kernel/random/boot_id").strip(),
            "pids": os.readlink("/proc/self/ns/pid")}


def make_run(name, state, age=0, job=None, process=None, **more):
    os.makedirs(f"runs/{name}")
    path = f"runs/{name}/status.json"
    with open(path, "w") as f:
        json.dump({"state": state, "exit_code": 4 if state == "failed" else 0, "reason": "rank 3 is gone" * 9 if state == "failed" else "", "step": 1234, "attempt": 2,
                   "job": job, "progress": {"done": 0.376, "loss": 0.12345678}, "process": process or {}, **more}, f)
    now = os.stat(path).st_mtime
    os.utime(path, (now - age, now - age))


def states(*args, **env):
    return {os.path.relpath(r["run"], "runs"): r for r in json.loads(shoal("status", "--json", *args, **env).stdout)["runs"]}


def test_states(work):
    """Each state of a run, by its folder alone and with what the queue says; on 80 columns."""
    child = subprocess.Popen(["sleep", "100"])
    with open(f"/proc/{child.pid}/stat") as f:
        started = int(f.read().rsplit(")", 1)[1].split()[19])
    make_run("alive", "running", process=here(child.pid, started), job="11")
    make_run("quiet", "running", age=500, job="12")
    make_run("killed", "running", process=here(child.pid, started + 1), job="13")
    make_run("there", "stopping", job="14")
    make_run("again", "stopped", job="15")
    make_run("wrong", "failed", job="16")
    make_run("deep/in/the/done", "done", job="20")
    make_run("deep/in/the/done/ckpt/no", "done")  # not looked at
    make_run("a-rather-long-name-of-a-run-as-people-have/and-another-one", "stopped")
    for name, record in (("new", {"jobs": ["17", "18"]}), ("set", {"jobs": ["19"], "elements": [{"index": 1, "run": "a"}, {"index": 2, "run": "b"}]})):
        os.makedirs(f"runs/{name}")
        with open(f"runs/{name}/job.json", "w") as f:
            json.dump(record, f)
    make_run("set/b", "running", job="19_2")
    alone = {"alive": "running", "quiet": "dead", "killed": "dead", "there": "stopping", "again": "stopped", "wrong": "failed",
             "deep/in/the/done": "done", "a-rather-long-name-of-a-run-as-people-have/and-another-one": "stopped", "new": "submitted",
             "set/a": "submitted", "set/b": "running"}
    found = states()
    assert {name: r["state"] for name, r in found.items()} == alone
    assert found["alive"]["step"] == 1234 and found["alive"]["loss"] == 0.12345678 and found["alive"]["attempt"] == 2
    assert found["set/a"]["job"] == "19_1" and found["wrong"]["exit_code"] == 4 and 490 < found["quiet"]["age_s"] < 600
    stub("squeue")
    with open("queue", "w") as f:
        f.write("12|RUNNING|2026-01-31T10:00:00|None\n15|PENDING|2026-01-31T12:34:56|BeginTime\n18|PENDING|N/A|Dependency\n20|PENDING|N/A|Resources\n"
                "17|PENDING|N/A|Priority\n19_1|RUNNING|2026-01-31T10:00:00|None\nbroken\n||||||\n")
    asked = states()
    assert {n: r["state"] for n, r in asked.items()} == {**alone, "quiet": "silent", "new": "queued", "set/a": "starting"}
    assert asked["again"]["next_start"] == "2026-01-31T12:34:56" and asked["new"]["waits_for"] == "Priority"
    assert asked["alive"]["job_state"] is None and read("squeue.args").count("\n") == 1
    table = shoal("status").stdout
    assert all(len(line) <= 80 for line in table.splitlines() if "rank 3" not in line), table
    assert f"\nwrong: exit 4: {'rank 3 is gone' * 9}\n" in table, table
    assert "deep/in/the/done: job 20 waits though the run is done: scancel 20\n" in table, table
    assert re.search(r"^wrong +failed ", shoal("status", "runs/wrong/").stdout, re.M)
    assert re.search(r"^again +stopped +1234  37%  0.1235       2 15         01-31 12:34$", table, re.M), table
    assert re.search(r"^new +queued .* 17         Priority$", table, re.M) and "wrong: exit 4: rank 3 is gone" in table
    assert re.search(r"^\.\.\S*/and-another-one stopped ", table, re.M)
    wide = shoal("status", COLUMNS="120").stdout
    assert "\na-rather-long-name-of-a-run-as-people-have/and-another-one stopped " in wide
    with open("queue", "w") as f:  # what its column has no room for
        f.write("17|PENDING|N/A|AssocMaxJobsLimit\n15|PENDING|N/A|None\n13|PENDING|N/A|BeginTime\n")
    assert states()["killed"]["state"] == "queued"  # after NODE_FAIL
    table = shoal("status").stdout
    assert re.search(r"^again +stopped .* 15         not known$", table, re.M) and re.search(r"^killed +queued .* 13         in < 3 min$", table, re.M), table
    assert "\nkilled: job 13 waits to begin anew; its last start ended without a word\n" in table, table
    assert re.search(r"^new .* 17         see below$", table, re.M) and "\nnew: job 17 waits: AssocMaxJobsLimit\n" in table, table
    # "see below" has its reason below, whatever else is told of the run.
    down = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
    with open("queue", "w") as f:
        f.write("".join(f"{job}|PENDING|N/A|{down}\n" for job in (13, 15, 16, 17, 20)))
    checkpoint = "runs/killed/ckpt/step-000001000.h5"
    os.makedirs(os.path.dirname(checkpoint))
    open(checkpoint, "w").close()
    table = shoal("status").stdout
    for name, job in (("killed", 13), ("again", 15), ("wrong", 16), ("new", 17), ("deep/in/the/done", 20)):
        assert re.search(rf"^{name} .* {job}         see below$", table, re.M) and re.search(rf"^{name}: .*job {job} waits: {down}$", table, re.M), table
    assert "\nkilled: job 13 waits to go on from the newest checkpoint; its last start ended without a word; job 13 waits: " in table, table
    # A job that has begun since the last word of its run is starting; of one that began before, the last start was killed.
    for age, state in ((-100, "dead"), (100, "starting")):
        os.utime("runs/killed/status.json", (time.time() - 200,) * 2)
        began = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 200 + age))
        with open("queue", "w") as f:
            f.write(f"13|RUNNING|{began}|None\n")
        assert states()["killed"]["state"] == state and ("\nkilled: " in shoal("status").stdout) == (state == "dead"), (age, states()["killed"])
    with open("queue", "w") as f:  # their predecessor failed: they would wait for ever
        f.write("17|PENDING|N/A|DependencyNeverSatisfied\n12|PENDING|N/A|DependencyNeverSatisfied\n")
    asked, table = states(), shoal("status").stdout
    assert asked["new"]["state"] == "stuck" and asked["new"]["waits_for"] == "DependencyNeverSatisfied" and asked["new"]["exit_code"] is None
    never = "job {0} never starts, as the one that it was to follow failed: scancel {0}, then submit it again\n"
    assert re.search(r"^new +stuck .* 17         never$", table, re.M) and "\nnew: " + never.format(17) in table, table
    assert asked["killed"]["state"] == "dead" and asked["killed"]["reason"] == "killed without a word" and asked["killed"]["exit_code"] is None
    # A node that failed is told, unless the job was started again since.
    with open("runs/killed/job.json", "w") as f:
        json.dump({"jobs": ["13"], "log": "runs/killed/job-%j.log"}, f)
    failed = "\nkilled: Node failure on n3, as its job's log says: killed without a word, last word "
    for text, told in (("x\n" * 40000 + "srun: error: Node failure on n3\nmore\n", 1),
                       ("Node failure on n3\njob 13, start 2: Slurm has started it again, as\n", 0), ("", 0)):
        with open("runs/killed/job-13.log", "w") as f:
            f.write(text)
        table = shoal("status").stdout
        assert table.count(failed) == told and table.count("\nkilled: killed without a word, last word ") == 1 - told, table
    with open("queue", "w") as f:
        f.write("17|PENDING|N/A|PartitionTimeLimit\n12|SUSPENDED|2026-01-31T10:00:00|None\n")
    child.send_signal(signal.SIGSTOP)
    wait_until("the stop", lambda: " T " in read(f"/proc/{child.pid}/stat"))
    asked, table = states(), shoal("status").stdout
    assert [asked[name]["state"] for name in ("new", "quiet", "alive")] == ["stuck", "suspended", "suspended"] and not asked["quiet"]["next_start"]
    assert "\nnew: job 17 never starts, unless the partition's time limit is raised (sinfo shows it): scancel 17, then submit it again\n" in table, table
    assert "\nquiet: job 12 is suspended: scontrol resume 12 lets it go on\n" in table, table
    assert f"alive: its process {child.pid} here is stopped, as by Ctrl-Z: fg in that terminal, or kill -CONT, lets it go on\n" in table, table
    # What the partition has, and for an element what submits it alone.
    with open("bin/sinfo", "w") as f:
        f.write("#!/bin/sh\n[ \"$*\" = '--noheader --exact --format=%D|%s|%l|%c --partition debug' ] && printf '3|1-infinite|2:00:00|4\\n1|1-infinite|2:00:00|2\\n'\n")
    os.chmod("bin/sinfo", 0o755)
    open("runs/set/job.sbatch", "w").close()
    with open("queue", "w") as f:
        f.write("17|PENDING|N/A|PartitionNodeLimit|debug|8|1:00:00\n19_1|PENDING|N/A|PartitionTimeLimit|debug|2|3:00:00\n")
    table = shoal("status").stdout
    assert "\nnew: job 17 never starts, as it asks for 8 nodes, and partition debug gives a job at most 4: scancel 17, then submit it again with a smaller -N\n" in table, table
    assert ("\nset/a: job 19_1 never starts, as its time limit is 3:00:00, and partition debug allows 2:00:00: scancel 19_1, then sbatch --array=1 "
            "runs/set/job.sbatch with a shorter --time\n") in table, table
    # PartitionConfig is Slurm's word for too many nodes at first, for more CPUs than a node has, and for what it has not otherwise.
    for asks, why, cure in (("8|1:00:00|8", "as it asks for 8 nodes, and partition debug gives a job at most 4", "submit it again with a smaller -N"),
                            ("4|1:00:00|32", "as it asks for 8 CPUs of each node, and a node of partition debug has at most 4",
                             "submit it again with --per-node times -c at most 4"),
                            ("2|1:00:00|8", "as its partition does not have such nodes, or so many (sinfo -N -l shows what it has)",
                             "submit it again for less")):
        with open("queue", "w") as f:
            f.write(f"17|PENDING|N/A|PartitionConfig|debug|{asks}\n19_1|PENDING|N/A|PartitionConfig|debug|{asks}\n")
        table = shoal("status").stdout
        assert states()["new"]["state"] == "stuck" and f"\nnew: job 17 never starts, {why}: scancel 17, then {cure}\n" in table, table
        cure = cure.replace("submit it again", "sbatch --array=1 runs/set/job.sbatch").replace("--per-node", "--ntasks-per-node")
        assert f"\nset/a: job 19_1 never starts, {why}: scancel 19_1, then {cure}\n" in table, table
    # A job of a run that is done trains on if it is to train to more than that, or from another checkpoint.
    for record, words in (({"epochs": 4}, "waits to go on to epoch 4\n"), ({"epochs": 2}, "waits though the run is done: scancel 20\n"),
                          ({"epochs": 4, "steps": 1234}, "waits though the run is done: scancel 20\n"),
                          ({"epochs": 4, "steps": 1235}, "waits to go on to epoch 4 or step 1235\n"),
                          ({"epochs": 2, "resume": "x.h5"}, "waits to go on with --resume x.h5\n")):
        shutil.rmtree("runs/deep")
        make_run("deep/in/the/done", "done", epoch=2)
        with open("runs/deep/in/the/done/job.json", "w") as f:
            json.dump({"jobs": ["20"], **record}, f)
        with open("queue", "w") as f:
            f.write("20|PENDING|2026-01-31T12:34:56|BeginTime\n")
        table = shoal("status").stdout
        assert f"\ndeep/in/the/done: job 20 {words}" in table and states()["deep/in/the/done"]["state"] == "done", table
    os.remove("bin/sinfo")
    child.send_signal(signal.SIGCONT)
    # squeue fails, then hangs with a child: as if it were not there, and that is told.
    stub("timeout")
    for does, why in (("cat queue; echo first >&2; echo 'slurm_load_jobs error: \\c' >&2; exit 1", "slurm_load_jobs error: \\c"),
                      ("cat queue; exit 3", "squeue ends with 3"), ("cat queue; sleep 1000", "no answer within 10 s")):
        with open("bin/squeue", "w") as f:
            f.write(f"#!/bin/bash\n{does}\n")
        r = json.loads(shoal("status", "--json").stdout)
        assert r["slurm"] is False and r["slurm_error"] == why, r["slurm_error"]
        assert {os.path.relpath(x["run"], "runs"): x["state"] for x in r["runs"]} == alone
        lines = shoal("status").stdout.splitlines()
        assert [x for x in lines if "Slurm" in x] == [f"Slurm could not be asked, so what its queue says is not known: {why}"]
    assert read("timeout.args").count("-k 1 10 squeue ") == 6
    stub("squeue")
    with open("queue", "w"):
        pass
    with open("bin/squeue", "a") as f:  # a warning is no answer, and no job
        f.write("echo 'squeue: warning' >&2\n")
    assert json.loads(shoal("status", "--json").stdout)["slurm_error"] is None
    with open("queue", "w"):
        pass
    assert states()["new"]["state"] == "gone" and states("runs/again").keys() == {"again"}
    # A job without a log, as where its node does not see the folder; elements have logs of their own.
    with open("runs/set/job.json", "w") as f:
        json.dump({"jobs": ["19"], "log": f"{os.getcwd()}/runs/set/job-%A_%a.log", "elements": [{"index": 1, "run": "a"}, {"index": 2, "run": "b"}]}, f)
    gone = f"set/a: job 19_1 has ended, and the run has not begun: {{}} {os.getcwd()}/runs/set/job-19_1.log"
    assert f"{gone.format('there is no log')}\n" in shoal("status").stdout
    with open("runs/set/job.json", "w") as f:  # once for all of them
        json.dump({"jobs": ["19"], "log": "none/job-%A_%a.log", "elements": [{"index": i, "run": f"g{i}"} for i in (1, 2)]}, f)
    table = shoal("status", "runs/set").stdout
    assert all(f"\ng{i}: job 19_{i} has ended, and the run has not begun: there is no log none/job-19_{i}.log\n" in table for i in (1, 2)), table
    assert table.count("A job leaves no log if it was taken back before it began") == 1 and table.endswith("(srun -N1 ls -d runs/set/g1)\n"), table
    with open("runs/set/job.json", "w") as f:
        json.dump({"jobs": ["19"], "log": f"{os.getcwd()}/runs/set/job-%A_%a.log", "elements": [{"index": 1, "run": "a"}]}, f)
    open("runs/set/job-19_1.log", "w").close()
    assert f"{gone.format('see')}\n" in shoal("status").stdout
    assert "new: job 18 has ended" not in shoal("status").stdout and "new: job 17 has ended, and the run has not begun: see the job's log, if it" in shoal("status").stdout
    assert "; rm runs/new/job.json takes the run off this list\n" in shoal("status").stdout and "job.json takes" not in shoal("status", "runs/set").stdout
    os.remove("runs/new/job.json")
    assert "new" not in states()
    child.kill()
    child.wait()
    assert states()["alive"]["state"] == "dead"
    os.mkdir("empty")
    assert shoal("status", "empty").stdout == "no run in empty\n"
    assert shoal("status", "empty", "empty/").stdout == "no run in empty\nno run in empty/\n"
    both = json.loads(shoal("status", "runs/deep/", "runs/wrong", "--json").stdout)["runs"]
    assert [r["run"] for r in both] == ["runs/deep/in/the/done", "runs/wrong"]
    table = shoal("status", "runs/deep/", "runs/wrong", COLUMNS="120").stdout
    assert re.search(r"^runs/deep/in/the/done +done ", table, re.M) and re.search(r"^runs/wrong +failed ", table, re.M), table
    assert "there is no folder nothing" in shoal("status", "runs", "nothing", code=2).stderr
    assert "there is no folder nothing" in shoal("status", "nothing", code=2).stderr
    # What is no status is no run, and ends nothing.
    for i, text in enumerate(("", "{", "[]", '{"state": 7, "step": "x", "progress": [], "process": 3, "job": 5}')):
        os.makedirs(f"odd/{i}")
        for name in ("status.json", "job.json"):
            with open(f"odd/{i}/{name}", "w") as f:
                f.write(text)
    os.symlink("..", "odd/loop")
    assert shoal("status", "odd").returncode == 0


def test_many(work):
    """Of each run of a thousand one file is read, whatever else it holds."""
    for i in range(1000):
        make_run(f"r{i}", "done")
    os.makedirs("runs/r7/ckpt")
    r = run(["strace", "-f", "-e", "trace=openat,open", "-o", "calls", program(), "status", "--json"], base=PLAIN_ENV) if shutil.which(
        "strace") else shoal("status", "--json")
    assert len(json.loads(r.stdout)["runs"]) == 1000
    if os.path.exists("calls"):
        assert sum('"runs' in line for line in read("calls").splitlines()) <= 3005
