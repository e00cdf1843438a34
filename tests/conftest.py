"""Fixtures of all Python tests.  ctest starts one pytest per entry: cmake/ShoalPython.cmake.  By hand, with build/dev:

    python3 -m pytest tests/mpi/test_train.py -k ranks [--build=FOLDER]

SHOAL_FULL=1 runs the long versions, SHOAL_KEEP=1 leaves the folder of a failed test, SHOAL_TEST_SEED draws other random numbers.
"""
import glob
import itertools
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

sys.dont_write_bytecode = True  # nothing is written beside the sources
pytest.register_assert_rewrite("harness")

import cluster as slurm
import harness

SKIPPED = 77  # exit code that ctest shows as "skipped"


def pytest_addoption(parser):
    parser.addoption("--build", default=f"{harness.ROOT}/build/dev", help="build folder that programs are taken from")


def pytest_configure(config):
    harness.use_build(config.getoption("--build"))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """Tests that all were skipped must not look as if they had passed."""
    reports = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if exitstatus == 0 and reports.get("skipped") and not reports.get("passed"):
        session.exitstatus = SKIPPED


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        item.user_properties.append(("failed", call.when))


def failed(request):
    return any(name == "failed" for name, _ in request.node.user_properties)


def enter(request, folder):
    """Works in a folder, which is removed afterwards."""
    os.chmod(folder, 0o755)  # ranks may run as somebody else
    before = os.getcwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)
    if failed(request) and os.environ.get("SHOAL_KEEP"):
        print("kept", folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def work(request):
    """Every test starts in an empty folder of its own."""
    yield from enter(request, tempfile.mkdtemp(prefix=f"shoal-{request.node.originalname}-"))


@pytest.fixture(scope="session")
def data_sets():
    """Folder of data sets made in this session."""
    with tempfile.TemporaryDirectory(prefix="shoal-data-") as folder:
        yield folder


@pytest.fixture
def glyphs(data_sets):
    """glyphs(train, test, size, name=…): a small synthetic data set in the folder one works in, made once per session."""
    def make(train=600, test=100, size=28, seed=3, name="glyphs.h5"):
        made = f"{data_sets}/glyphs-{train}-{test}-{size}-{seed}.h5"
        if not os.path.exists(made):
            harness.shoal("data", "synth", "glyphs", "-o", made, "--train", train, "--test", test, "--size", size, "--seed", seed)
        shutil.copyfile(made, name)
    return make


@pytest.fixture
def disk(work):
    """A file system of 4 MB; fill() leaves no room in it, and free() gives it back; resize("32m") makes it larger."""
    class Disk(str):
        def resize(self, size):
            subprocess.run(["mount", "-o", f"remount,size={size}", self], check=True)

        def fill(self, leave=0):
            with open(f"{self}/fill", "wb", buffering=0) as f:
                for size in (1 << 16, 1 << 12, 1):
                    try:
                        while True:
                            f.write(b"x" * size)
                    except OSError:
                        pass
                f.truncate(f.tell() - leave)

        def free(self):
            os.remove(f"{self}/fill")

        def use_inodes(self):
            for i in itertools.count():
                try:
                    open(f"{self}/inode-{i}", "x").close()
                except OSError:
                    break

        def free_inodes(self):
            for path in glob.glob(f"{self}/inode-*"):
                os.remove(path)
    folder = f"{work}/disk"
    os.mkdir(folder)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True).returncode != 0:
        pytest.skip("no right to mount a file system")
    yield Disk(folder)
    subprocess.run(["umount", "-l", folder])


@pytest.fixture
def jobs():
    """jobs.start(ranks, name, …): runs in the background that do not outlive their test, whatever happens."""
    class Jobs(list):
        def start(self, *args, **options):
            self.append(harness.start(*args, **options))
            return self[-1]
    started = Jobs()
    yield started
    for job in started:
        harness.kill_all(job)


@pytest.fixture(scope="session")
def cluster_possible():
    """Skips where no cluster can be made."""
    r = harness.run(slurm.command("check"), code=None)
    if r.returncode == slurm.MISSING:
        pytest.skip(r.stderr.strip())


@pytest.fixture
def cluster(request, cluster_possible):
    """The Slurm cluster, which ctest or a person started; the test works in a folder that all nodes see.  Jobs that it leaves
    are cancelled, and what the cluster and its jobs logged is shown when it failed."""
    r = harness.run(slurm.command("status"), code=None)
    assert r.returncode == 0, f"the cluster is not up: {slurm.SCRIPT} up"
    harness.run(slurm.command("exec", "scancel", "--user=root"), code=None)  # what a test left that was killed
    folder = enter(request, tempfile.mkdtemp(prefix=f"{request.node.originalname}-", dir=slurm.WORK))
    yield next(folder)
    harness.run(slurm.command("exec", "scancel", "--user=root"), code=None)
    if failed(request):
        for name in filter(lambda f: f.endswith(".log"), os.listdir(".")):
            print(f"---- {name}\n{harness.read(name)[-4000:]}")
        for verb in ("status", "logs"):
            print(harness.run(slurm.command(verb), code=None).stdout)
    next(folder, None)
