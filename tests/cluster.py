"""The Slurm cluster of slurm/cluster.sh for Python: its verbs, and commands on it.  Tests and benchmarks use it.

There is one cluster per machine.  Jobs may write below WORK, which all its nodes see.
"""
import os
import subprocess
import sys

import launch

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slurm", "cluster.sh")
STATE = os.path.realpath(os.environ.get("SHOAL_CLUSTER_DIR", "/tmp/shoal-cluster"))
WORK = f"{STATE}/work"
MISSING = 77  # exit code of cluster.sh where no cluster can be made
NODES = 4


def command(verb, *args):
    """The command line of a verb of cluster.sh."""
    return [SCRIPT, verb, *map(str, args)]


def srun(ranks_per_node, *args):
    """The command line of a step on all nodes, called from anywhere."""
    return command("exec", "srun", f"-N{NODES}", f"--ntasks-per-node={ranks_per_node}", "--mpi=pmix", *args)


def output(command_line, **env):
    """What a command prints, for benchmarks: one that fails ends this program with its words and its exit code."""
    r = subprocess.run(command_line, env=launch.environment(**env), capture_output=True, text=True)
    if r.returncode:
        print(f"{' '.join(command_line)}: exit {r.returncode}\n{r.stdout[-2000:]}{r.stderr[-4000:]}", file=sys.stderr)
        sys.exit(r.returncode)
    return r.stdout


def verb(*args):
    return output(command(*args))
