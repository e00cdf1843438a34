"""cluster.sh itself."""
import os
import subprocess
import time

import cluster
from harness import ENV, FULL, cluster_sh, run, wait_until


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


def test_cluster(cluster_possible):
    """Up, down, twice, half-way, refused, and forgotten: nothing of ours stays, nothing of others is touched."""
    state = os.path.abspath("state")
    env = {"SHOAL_CLUSTER_DIR": state}
    run(["ip", "netns", "add", "foreign-n1"], code=None)
    try:
        cluster_sh("down", env=env)
        assert cluster_sh("status", env=env, code=1), "status of nothing"
        start = time.monotonic()
        cluster_sh("up", "2", env=env)
        up = time.monotonic() - start
        assert "is up already" in cluster_sh("up", "2", env=env).stdout, "a second up"
        cluster_sh("up", "3", env=env, code=2)
        other = {"SHOAL_CLUSTER_DIR": os.path.abspath("other")}
        r = cluster_sh("up", "2", env=other, code=3)
        assert state in r.stderr, r.stderr
        assert "left alone" in cluster_sh("down", env=other).stdout, "a stranger's down"
        r = cluster_sh("exec", "srun", "-N2", "hostname", env=env)
        assert sorted(r.stdout.split()) == ["n1", "n2"], f"{r.stdout} {r.stderr}"
        # By its environment the commands are there for whatever a shell starts, as `shoal submit` does, and in what they start.
        shell = f'eval "$({cluster.SCRIPT} env)"; sh -c "salloc -Q -N2 srun hostname"; sh -c "squeue -h"'
        r = run(["bash", "-c", shell], env=env)
        assert sorted(r.stdout.split()) == ["n1", "n2"] and r.stderr == "", f"{r.stdout} {r.stderr}"
        cluster_sh("shape", "fast", env=env, code=2)
        for bad in ({"SHOAL_CLUSTER_DIR": f"{state} 2"}, {"SHOAL_CLUSTER_DIR": f"/tmp/{'x' * 80}"},
                    {"SHOAL_CLUSTER_MINUTES": "1h"}):
            r = cluster_sh("up", "2", env={**env, **bad}, code=2)
            assert r.stderr.count("\n") == 1, r.stderr
            assert next(iter(bad)) in r.stderr, r.stderr
        cluster_sh("up", "2", "3", env=env, code=2)
        cluster_sh("shape", "10mbit", env=env)
        assert "links 10mbit" in cluster_sh("status", env=env).stdout, "status after shape"
        start = time.monotonic()
        cluster_sh("exec", "srun", "-N2", "-n2", "sh", "-c", "[ $SLURM_PROCID = 1 ] || head -c 2500000 /dev/zero", env=env)
        seconds = time.monotonic() - start
        assert seconds > 1.6, f"20 Mbit over a link of 10 Mbit/s took {seconds:.1f} s"
        start = time.monotonic()
        cluster_sh("down", env=env)
        down = time.monotonic() - start
        assert nothing_left(state), f"{processes(state)} {run(['ip', 'netns', 'list']).stdout}"
        cluster_sh("down", env=env)
        print(f"two nodes: up {up:.1f} s, down {down:.1f} s")
        # An up that is killed at any moment leaves nothing that down would not find.
        for after in (0.02, 0.1, 0.2, 0.3, 0.5, 0.8) if not FULL else [0.02 * i for i in range(50)]:
            p = subprocess.Popen([cluster.SCRIPT, "up", "2"], env={**ENV, **env}, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
            time.sleep(after)
            p.kill()
            p.wait()
            cluster_sh("down", env=env)
            wait_until(f"nothing left of an up killed after {after} s", lambda: nothing_left(state), 20)
        # Forgotten: the watchdog ends it with its time, or with the process that asked for it.
        cluster_sh("up", "1", env={**env, "SHOAL_CLUSTER_MINUTES": "0"})
        wait_until("the time limit", lambda: nothing_left(state), 15)
        subprocess.run(["bash", "-c", f"{cluster.SCRIPT} up 1 --follow >&2; true"], env={**ENV, **env}, capture_output=True)
        wait_until("the end with the caller", lambda: nothing_left(state), 15)
        assert "foreign-n1" in run(["ip", "netns", "list"]).stdout, "a foreign namespace was removed"
    finally:
        cluster_sh("down", env=env)
        run(["ip", "netns", "del", "foreign-n1"], code=None)


def start_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[19]


def test_foreign_state(cluster_possible):
    """A state folder that anybody could have made ends no process and runs nothing; nor does ours end a process of others."""
    state = os.path.abspath("state")
    env = {"SHOAL_CLUSTER_DIR": state}
    sleeps = [subprocess.Popen(["sleep", "100"], start_new_session=True, user=user) for user in (0, 65534)]
    try:
        os.mkdir(state, 0o755)
        for name, text in ((".shoal-cluster", ""), ("nodes", "a[$(touch ran)0]\n"), ("deadline", "a[$(touch ran)0]\n"),
                           ("pids", "".join(f"{p.pid} {start_of(p.pid)} n{i}\n" for i, p in enumerate(sleeps)))):
            with open(f"{state}/{name}", "w") as f:
                f.write(text)
        for owner, mode in ((65534, 0o755), (0, 0o777)):
            os.chown(state, owner, -1)
            os.chmod(state, mode)
            for verb in ("down", "status", "bytes"):
                assert "belongs to us" in cluster_sh(verb, env=env, code=2).stderr
        os.chown(state, 0, -1)
        os.chmod(state, 0o755)
        cluster_sh("status", env=env, code=1)
        assert [p.poll() for p in sleeps] == [None, None]
        cluster_sh("down", env=env)
        sleeps[0].wait(5)
        assert sleeps[1].poll() is None, "a process of somebody else was ended"
        assert not os.path.exists("ran"), "text of the state folder was run"
    finally:
        for p in sleeps:
            p.kill()
            p.wait()
