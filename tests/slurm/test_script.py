"""jobs/train.sbatch, which is what `shoal submit` writes, with stubs in place of srun and scontrol: needs no cluster."""
import json
import os

from harness import PLAIN_ENV, ROOT, program, read, run, said

STUBS = {
    "srun": """trap : USR1 TERM
echo "$@" >launched
[ -z "$SIGNAL" ] || kill -$SIGNAL $PPID
n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n
[ -z "$FAILS" ] || [ -e failed ] || { touch failed; exit 1; }
mkdir -p runs/$NAME
[ -z "$STATE" ] || echo "{\\"state\\": \\"$STATE\\", \\"exit_code\\": $CODE, \\"reason\\": \\"rank 3 (n1, gone) said \\\\\\"no\\\\\\"\\", \\"rank\\": 0, \\"step\\": $STEP, \\"job\\": ${WHOSE:-null}, \\"ended\\": ${ENDED:-true}, \\"n\\": $n}" >"runs/$NAME/status.json"
exit ${SRUN_CODE:-$CODE}
""",
    "scontrol": 'echo "$@" >>scontrol.args\nsleep ${SLOW:-0}\n[ -z "$DISABLED" ] || { echo "Requested operation is presently disabled" >&2; exit 1; }\n',
}
STARTS = "runs/stub/starts.json"


def stub(name):
    os.makedirs("bin", exist_ok=True)
    with open(f"bin/{name}", "w") as f:
        f.write("#!/bin/sh\n" + STUBS[name])
    os.chmod(f"bin/{name}", 0o755)


def script(code, requests, *args, job="77", **env):
    """Runs the batch script with stubs; checks its exit code, and how often scontrol was asked for which job."""
    if os.path.exists("scontrol.args"):
        os.remove("scontrol.args")
    env = {"SLURM_JOB_ID": "77", "SLURM_CPUS_PER_TASK": "3", "PATH": f"{os.path.abspath('bin')}:{os.path.dirname(program())}:/usr/bin:/bin",
           "CODE": "0", "STEP": "0", "STATE": "", "NAME": "stub", **{k: str(v) for k, v in env.items()}}
    r = run([f"{ROOT}/jobs/train.sbatch", "stub.yaml", "--quiet", *args], code=code, env=env, base=PLAIN_ENV)
    assert read("scontrol.args").splitlines() == [f"requeue {job}"] * requests, f"{env}: {said(r)}"
    return r


def begin():
    for name in STUBS:
        stub(name)
    with open("stub.yaml", "w") as f:
        f.write("run: { name: stub }\nmodel: { name: mlp, widths: [4] }\ndata: { file: none.h5 }\n")


def test_script():
    """H06, H08: what the batch script does with every way a run can end."""
    begin()
    script(0, 0, STATE="done")
    assert read("launched").split()[-3:] == ["train", "stub.yaml", "--quiet"]
    script(75, 1, STATE="stopped", CODE=75, STEP=10)
    script(75, 1, STATE="stopped", CODE=75, STEP=20, SRUN_CODE=143)  # a slower rank was killed: status.json counts
    script(75, 1, job="70_3", NAME="stub-3", STATE="stopped", CODE=75, STEP=25, SLURM_ARRAY_JOB_ID=70, SLURM_ARRAY_TASK_ID=3)
    script(75, 1, "--set", "run.name=other", NAME="other", STATE="stopped", CODE=75, STEP=5)  # named on the command line
    script(75, 1, STATE="stopped", CODE=75, STEP=30, SLOW=2)
    for _ in range(2):  # stops without a step forward: twice more, then no more
        script(75, 1, STATE="stopped", CODE=75, STEP=30)
    r = script(75, 0, STATE="stopped", CODE=75, STEP=30)
    assert "stopped 4 times at step 30" in r.stdout and "not requeued" in r.stdout, r.stdout
    script(75, 1, STATE="stopped", CODE=75, STEP=31)
    script(75, 1, STATE="stopped", CODE=75, STEP=31)
    for code, state in ((137, "running"), (143, "stopping")):
        r = script(code, 0, STATE=state, CODE=code, STEP=32)
        assert f"runs/stub: killed at step 32 or later, without a word: srun ended with {code}; whether memory" in r.stdout, r.stdout
        assert "; no checkpoint was saved yet (ckpt.every): submit it again to begin anew" in r.stdout, r.stdout
    for code, state in ((4, "failed"), (6, "failed")):
        r = script(code, 0, STATE=state, CODE=code, STEP=32)
        assert f'{state} at step 32: rank 3 (n1, gone) said "no";' in r.stdout, r.stdout
    r = script(3, 0, CODE=3)  # refused before it wrote anything: the old status.json does not count
    assert "no rank has begun" in r.stdout, r.stdout
    # Another job has the run and goes on: what its status says is not this one's end.
    for state, code in (("running", 3), ("stopped", 75)):
        r = script(code, 0, STATE=state, CODE=code, STEP=33, WHOSE='"78"')
        assert f"runs/stub: job 78 has the run now ({state}), not this one; srun ended with {code}" in r.stdout, r.stdout
    r = script(75, 1, STATE="stopped", CODE=75, STEP=40, DISABLED=1)
    assert "could not be requeued" in r.stdout, r.stdout
    # scancel and a preemption send TERM to this process, too; a signal that means only a pause does not end the job.
    r = script(75, 0, STATE="stopped", CODE=75, STEP=50, SIGNAL="TERM")
    assert "by TERM, as of scancel, a preemption or a failed node: no requeue is asked for" in r.stdout, r.stdout
    script(75, 1, STATE="stopped", CODE=75, STEP=51, SIGNAL="USR1")
    # KILL comes once the checkpoint of the stop is written, before the run has ended: said, and decided as after any stop.
    for signal, requests in (("TERM", 0), ("USR1", 1)):
        r = script(75, requests, STATE="stopped", CODE=75, STEP=51, SIGNAL=signal, SRUN_CODE=137, ENDED="false")
        assert 'runs/stub: rank 3 (n1, gone) said "no"; then it was killed before it ended: srun ended with 137\n' in r.stdout, r.stdout
    # What the files say is used as numbers and words only, whatever it looks like.
    for text in ('{"stopped": "a[$(touch ran)0]"}', "[]", "x" * 100, "", '{"idle": 1e300, "job": "77"}', "\x1b[2J", "{" * 5000):
        with open(STARTS, "w") as f:
            f.write(text)
        script(75, 1, STATE="stopped", CODE=75, STEP=52)
        assert not os.path.exists("ran"), f"starts.json ran a command: {text!r}"
    assert "\x1b" not in script(4, 0, STATE="\\u001b[2Jfailed", CODE=4, STEP=52).stdout
    script(1, 0, STATE="stopped, and no JSON\"", CODE=1)
    os.remove(STARTS)
    os.symlink(os.path.abspath("elsewhere"), STARTS)
    script(75, 1, STATE="stopped", CODE=75, STEP=53)
    assert not os.path.exists("elsewhere") and not os.path.islink(STARTS), "it wrote through a link"
    os.remove(STARTS)
    os.mkdir(STARTS)  # cannot be written: then nobody counts, and nothing is requeued
    r = script(75, 0, STATE="stopped", CODE=75, STEP=54)
    assert "starts.json there cannot be written; not requeued" in r.stdout, r.stdout
    os.rmdir(STARTS)
    r = script(127, 0, PATH=f"{os.path.abspath('bin')}:/usr/bin:/bin")
    assert "shoal" in r.stderr and "not found" in r.stderr, said(r)


def test_failed_nodes():
    """A job that Slurm starts again by itself: once without a new checkpoint where the run was killed, which is said; a stop in
    between, or a checkpoint, allows it once more.  What was stopped well before, as by a preemption, is not counted."""
    begin()
    killed = {"STATE": "running", "CODE": 137, "STEP": 7}
    script(137, 0, **killed)
    r = script(137, 0, SLURM_RESTART_COUNT=1, **killed)
    assert "job 77, start 2: Slurm has started it again, as after the failure of a node; runs/stub begins anew, once" in r.stdout, r.stdout
    os.remove("launched")
    r = script(4, 0, SLURM_RESTART_COUNT=2, **killed)
    assert "twice, as after failures of nodes, without a new checkpoint" in r.stderr and not os.path.exists("launched"), said(r)
    os.makedirs("runs/stub/ckpt")
    open("runs/stub/ckpt/step-000000005.h5", "w").close()
    r = script(75, 1, SLURM_RESTART_COUNT=2, STATE="stopped", CODE=75, STEP=9)
    assert "runs/stub goes on from step 5, once" in r.stdout, r.stdout
    assert json.loads(read(STARTS))["requeued"] is True
    r = script(137, 0, SLURM_RESTART_COUNT=3, **killed)  # our own requeue is no surprise
    assert "Slurm has started it again" not in r.stdout, r.stdout
    r = script(75, 1, SLURM_RESTART_COUNT=4, STATE="stopped", CODE=75, STEP=11)
    assert "goes on from step 5, once" in r.stdout, r.stdout
    r = script(0, 0, SLURM_RESTART_COUNT=7, STATE="done", STEP=12)
    assert "started it again by itself, or somebody" in r.stdout, r.stdout
    script(0, 0, SLURM_JOB_ID=78, job="78", STATE="done", STEP=13)


def test_launch_fails():
    """srun ends without a word of a rank, as where a node has failed and come back at once: once more in the same job, then requeued,
    three starts in a row at most; progress allows it again.  A stop that was asked for meanwhile, or a rank that refused, is no such end."""
    begin()
    script(137, 0, STATE="running", CODE=137, STEP=7)
    for n, code in enumerate((1, 143), 1):
        r = script(code, 1, CODE=code, SLURM_RESTART_COUNT=n)
        again, last = (line.split(": ", 1)[1] for line in r.stdout.splitlines()[-2:])
        assert again.startswith(f"runs/stub: srun ended with {code} before its ranks had begun") and again.endswith(": once more"), r.stdout
        assert last == f"runs/stub: srun ended with {code} before its ranks had begun, as it says above; requeued", r.stdout
    assert read("n") == "5\n"  # twice in each of these two
    r = script(1, 0, CODE=1, SLURM_RESTART_COUNT=3)
    assert "so it was 3 starts in a row" in r.stdout and r.stdout.endswith("; not requeued\n"), r.stdout
    script(75, 1, STATE="stopped", CODE=75, STEP=9)
    script(1, 1, CODE=1)
    r = script(0, 0, STATE="done", STEP=10, CODE=0, FAILS=1)  # the second try goes well
    assert r.stdout.endswith(": once more\n"), r.stdout
    for code, more in ((1, {"SIGNAL": "TERM"}), (2, {})):
        r = script(code, 0, CODE=code, **more)
        assert f"no rank has begun, so nothing was changed there; srun ended with {code}" in r.stdout and "once more" not in r.stdout, r.stdout
    os.remove(STARTS)
    os.mkdir(STARTS)
    r = script(1, 0, CODE=1)
    assert "starts.json there cannot be written; not requeued" in r.stdout, r.stdout
