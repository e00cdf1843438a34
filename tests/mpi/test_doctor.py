"""`shoal doctor` on this machine; several nodes are in slurm/test_jobs.py."""
import json
import os

import pytest

import launch
from harness import PLAIN_ENV, program, run, said, through



def doctor(*args, code=0, ranks=0, **options):
    command = [program(), "doctor", *map(str, args)]
    return run([*launch.mpirun(ranks), *command] if ranks else command, code=code, **options)


def findings(r, verdict):
    return [f["text"] for f in json.loads(r.stdout)["findings"] if f["verdict"] == verdict]


@pytest.mark.parametrize("ranks", (1, 2, 3, 4))
def test_doctor_well(ranks):
    """All is well on one machine, whatever else it does: no fault, the fence was tried, and nothing is left in the folder."""
    r = doctor("--needs", 0.001, "--json", ranks=ranks)
    assert findings(r, "fault") == [] and json.loads(r.stdout)["exclude"] == "", said(r)
    well = " ".join(findings(r, "ok"))
    # Ranks that share the cores of a node are no fault, and not called well.
    assert [v for v in ("ok", "note") if "read back from the kernel" in " ".join(findings(r, v))] == ["ok" if ranks == 1 else "note"], said(r)
    for words in ("GFLOP/s on a core", "a checkpoint is written to .") + (
            (f"{ranks} ranks on 1 node by PMIx", 'threads "', "right on all of them", "between two ranks") if ranks > 1 else ()):
        assert words in well, (words, said(r))
    assert "PMIx fence" not in " ".join(findings(r, "note")), said(r)
    assert os.listdir(".") == []


def test_doctor_pairs():
    """Every pair of pretended nodes is measured in both directions.  How fast they are on a machine that does other things as well
    proves nothing."""
    r = doctor("--needs", 0.001, "--json", "--topo", "2,1,1", "--expect", 0.001, ranks=4, code=None)
    assert {f["check"] for f in json.loads(r.stdout)["findings"] if f["verdict"] == "fault"} <= {"links"}, said(r)
    rows = [n["sends_mb_s"] for n in json.loads(r.stdout)["nodes"]]
    assert [[x > 0 for x in row] for row in rows] == [[i != k for k in range(3)] for i in range(3)], said(r)
    for n, row in enumerate(rows):  # the slower direction of the fastest pair
        best = max(min(row[k], rows[k][n]) for k in range(3))
        assert json.loads(r.stdout)["nodes"][n]["mb_s"] == best, said(r)


def test_doctor_here(tmp_path):
    """Alone, without MPI, it also says what is installed, and what installs the rest; with -n it starts ranks."""
    r = doctor("--needs", 0.001, base=PLAIN_ENV, code=None)
    assert r.returncode == 0 and "ok     mpirun    mpirun (Open MPI)" in r.stdout and "python" in r.stdout, said(r)
    r = doctor("--json", base={**PLAIN_ENV, "PATH": str(tmp_path), "SHOAL_PYTHON": "/bin/false"}, code=7)
    faults, notes = findings(r, "fault"), findings(r, "note")
    assert len(faults) == 1 and faults[0].startswith("missing: several ranks on one machine are started by it: install the package openmpi-bin"), said(r)
    assert any("shoal report" in n and "python3-h5py" in n for n in notes), said(r)
    r = doctor("-n", 2, "--needs", 0.001, base=PLAIN_ENV)
    assert "shoal doctor: 2 ranks on 1 node" in r.stdout and r.stdout.rstrip().splitlines()[-1].startswith("0 faults"), said(r)


def test_doctor_faults():
    """Exit code 7 and a line that names what is wrong."""
    r = doctor("--needs", 1e6, "--folder", "absent", "--json", ranks=2, code=7)
    faults = findings(r, "fault")
    assert any("absent" in f and "No such file" in f for f in faults), said(r)
    r = doctor("--needs", 1e6, "--json", ranks=2, code=7)
    assert [f for f in findings(r, "fault") if ". has" in f and "are needed (--needs)" in f], said(r)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        mask = f"if [ $R = 0 ]; then exec taskset -c {cores[0]} \"$@\"; else exec \"$@\"; fi"
        r = through(mask, 2, program(), "doctor", "--needs", "0.001", "--json", code=7)
        assert [f for f in findings(r, "fault") if f.startswith(f"rank 0 may use cpus {cores[0]} and rank 1 cpus ")], said(r)
    for args, words in ((("--needs", "x"), "--needs x: must be a number above 0"), (("-n", "0"), "--ranks 0: must be"), (("--fodler", "x"), "did you mean --folder")):
        r = doctor(*args, code=2)
        assert words in r.stderr and r.stderr.count("\n") == 1, said(r)


def test_doctor_full():
    """A folder without room is named, with what is free."""
    if os.geteuid() != 0 or run(["unshare", "--mount", "true"], code=None).returncode:
        pytest.skip("needs root, to mount a small file system")
    os.mkdir("full")
    script = 'mount -t tmpfs -o size=64k shoal full; head -c 65536 /dev/zero >full/old; exec "$@"'
    r = run(["unshare", "--mount", "sh", "-c", script, "sh", program(), "doctor", "--folder", "full", "--json"], base=PLAIN_ENV, code=7)
    faults = findings(r, "fault")
    assert any("full" in f and "No space left" in f for f in faults), said(r)
    assert any(f.startswith("full has 0 B free on tmpfs, 1.0 GiB are needed") for f in faults), said(r)
