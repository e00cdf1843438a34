"""How tests and benchmarks start several ranks on this machine: the mpirun command and its environment.

Only options that Open MPI 4 and 5 both know are used.  Open MPI 5 hands processes to PRRTE, which has its own names for
the variables that let root start a job; setting both sets of variables does no harm.
"""
import os

ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",  # ranks that wait leave the core to ranks that compute
    "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive",
}


def environment(**more):
    return {**os.environ, **ENVIRONMENT, **more}


def mpirun(ranks, *more):
    """The words in front of a program that run it on that many ranks, more than there are cores if need be; then `more`."""
    return ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *more]
