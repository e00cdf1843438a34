"""jobs/train.sbatch with stubs in place of Slurm and shoal: needs no cluster."""
import os
import shutil

from harness import ROOT, read, run, said

STUBS = {
    "shoal": """case $1 in
config) printf 'run:\\n  name: stub\\n  dir: %s\\nmodel:\\n  name: mlp\\n' "${YAML_DIR:-runs}" ;;
launch)
  echo "$@" >launched
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
    os.makedirs("bin", exist_ok=True)
    with open(f"bin/{name}", "w") as f:
        f.write("#!/bin/sh\n" + STUBS[name])
    os.chmod(f"bin/{name}", 0o755)


def script(code, requests, job="77", **env):
    """Runs the batch script with stubs; checks its exit code, and how often scontrol was asked for which job."""
    if os.path.exists("scontrol.args"):
        os.remove("scontrol.args")
    env = {"SLURM_JOB_ID": "77", "SLURM_CPUS_PER_TASK": "3", "PATH": f"{os.path.abspath('bin')}:/usr/bin:/bin",
           "CODE": "0", "STEP": "0", "STATE": "", **{k: str(v) for k, v in env.items()}}
    r = run([f"{ROOT}/jobs/train.sbatch", "stub.yaml", "--quiet"], code=code, env=env)
    assert read("scontrol.args").splitlines() == [f"requeue {job}"] * requests, f"{env}: {said(r)}"
    return r


def test_script():
    """H06, H08: what the batch script does with every way a run can end; needs no cluster."""
    for name in STUBS:
        stub(name)
    script(0, 0, STATE="done")
    assert read("launched").split() == ["launch", "stub.yaml", "--quiet"]
    script(75, 1, STATE="stopped", CODE=75, STEP=10)
    script(75, 1, STATE="stopped", CODE=75, STEP=20, SRUN_CODE=143)  # a slower rank was killed: status.json counts
    script(75, 1, job="70_3", STATE="stopped", CODE=75, STEP=25, SLURM_ARRAY_JOB_ID=70, SLURM_ARRAY_TASK_ID=3)
    script(75, 1, STATE="stopped", CODE=75, STEP=30, SLOW=2)
    for _ in range(2):  # stops without a step forward: twice more, then no more
        script(75, 1, STATE="stopped", CODE=75, STEP=30)
    r = script(75, 0, STATE="stopped", CODE=75, STEP=30)
    assert "not requeued" in r.stdout, r.stdout
    assert "step 30" in r.stdout, r.stdout
    script(75, 1, STATE="stopped", CODE=75, STEP=31)
    script(75, 1, STATE="stopped", CODE=75, STEP=31)
    for code, state in ((137, "running"), (143, "stopping")):
        r = script(code, 0, STATE=state, CODE=code, STEP=32)
        assert f"runs/stub: killed at step 32 or later, without a word: srun ended with {code}; whether memory" in r.stdout, r.stdout
    for code, state in ((4, "failed"), (6, "failed")):
        r = script(code, 0, STATE=state, CODE=code, STEP=32)
        assert f"{state} at step 32: rank 3 (n1, gone) said \\\"no\\\";" in r.stdout, r.stdout
    # A folder whose name YAML must quote.
    script(75, 1, STATE="stopped", CODE=75, STEP=33, DIR="it's \"my\\ own\" #1", YAML_DIR='"it\'s \\"my\\\\ own\\" #1"')
    r = script(3, 0, CODE=3)  # refused before it wrote anything: the old status.json does not count
    assert "was not written" in r.stdout, r.stdout
    r = script(75, 1, STATE="stopped", CODE=75, STEP=40, DISABLED=1)
    assert "could not be requeued" in r.stdout, r.stdout
    # What the files say is no program, whatever it looks like: bash runs commands in numbers that it computes with.
    for text in ("a[$(touch ran)0] 0", "1 a[$(touch ran)0]", "x" * 100, "", "\x1b[2J 7"):
        with open("runs/stub/requeues", "w") as f:
            f.write(text)
        script(75, 1, STATE="stopped", CODE=75, STEP=42)
        assert not os.path.exists("ran"), f"requeues ran a command: {text!r}"
    assert "\x1b" not in script(4, 0, STATE="\x1b[2Jfailed", CODE=4, STEP=42).stdout
    script(75, 1, STATE="stopped", CODE=75, STEP="a[$(touch${IFS}ran)0]")
    assert not os.path.exists("ran"), "status.json ran a command"
    os.remove("runs/stub/requeues")
    os.symlink(os.path.abspath("elsewhere"), "runs/stub/requeues")
    assert "not requeued" in script(75, 0, STATE="stopped", CODE=75, STEP=43).stdout
    assert not os.path.exists("elsewhere"), "requeues wrote through a link"
    os.remove("runs/stub/requeues")
    os.mkfifo("runs/stub/requeues")
    script(75, 0, STATE="stopped", CODE=75, STEP=43)
    os.remove("runs/stub/requeues")
    os.mkdir("runs/stub/requeues")  # cannot be written: then nobody counts, and nothing is requeued
    r = script(75, 0, STATE="stopped", CODE=75, STEP=41)
    assert "requeues cannot be written; not requeued" in r.stdout, r.stdout
    os.rmdir("runs/stub/requeues")
    os.remove("bin/scontrol")
    r = script(75, 0, STATE="stopped", CODE=75, STEP=50, PATH=f"{os.path.abspath('bin')}:{bare_path()}")
    assert "could not be requeued" in r.stdout, r.stdout
    os.remove("bin/shoal")
    assert "shoal is not in PATH" in script(127, 0).stdout, "no shoal"


def bare_path():
    """A folder with what the script needs, and no scontrol."""
    os.mkdir("bare")
    for tool in ("bash", "sh", "env", "awk", "sed", "cat", "head", "tr", "mkdir", "sleep", "rm"):
        os.symlink(shutil.which(tool), f"bare/{tool}")
    return os.path.abspath("bare")
