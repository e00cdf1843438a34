"""`cmake --install`: a tree that works where it is put and where it is moved to, its documents, its modulefile, and its removal."""
import glob
import os
import re
import shlex
import shutil

import pytest

import harness
from harness import PLAIN_ENV, ROOT, run

EMPTY = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installed tree; a name with a space in it."""
    place = tmp_path_factory.mktemp("an installation") / "shoal"
    run(["cmake", "--install", harness.build(), "--prefix", place])
    return str(place)


def test_moved(prefix, work):
    """The tree works in another place, where its libraries, its Python package, its manual and its completions are found."""
    shutil.copytree(prefix, "moved", symlinks=True)
    program = os.path.abspath("moved/bin/shoal")
    assert run([program, "--version"], base=EMPTY).stdout.startswith("shoal ")
    r = run([program, "report", "none"], base={**EMPTY, "SHOAL_PYTHON": "echo"})
    assert f"{os.path.abspath('moved')}/" in os.path.realpath(r.stdout.split()[1]) + "/"
    assert os.path.exists(r.stdout.split()[1])
    origin = run(["readelf", "-d", program]).stdout
    assert "$ORIGIN/../lib" in origin and prefix not in origin and ROOT not in origin
    for name in ("man/man1/shoal-train.1", "man/man5/shoal-run.5", "bash-completion/completions/shoal", "zsh/site-functions/_shoal"):
        assert os.path.getsize(f"moved/share/{name}") > 1000


def test_documents(prefix):
    """Every relative link of an installed document leads to an installed file."""
    documents = glob.glob(f"{prefix}/share/doc/**/*.md", recursive=True)
    assert len(documents) > 20
    for document in documents:
        with open(document) as f:
            links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", f.read())
        for link in links:
            assert link.startswith("http") or os.path.exists(os.path.join(os.path.dirname(document), link)), (document, link)


# The second one is there where tests/run.sh --full has put it: the packages of Debian exclude each other.
MODULE_COMMANDS = {"lmod": ["/usr/share/lmod/lmod/libexec/lmod"],
                   "modules": [f"{ROOT}/build/modules/usr/lib/x86_64-linux-gnu/modulecmd.tcl", "/usr/lib/x86_64-linux-gnu/modulecmd.tcl"]}


@pytest.mark.parametrize("kind", MODULE_COMMANDS)
def test_module(prefix, work, kind):
    """`module load` and `unload` of both programs that read modulefiles."""
    command = next((c for c in MODULE_COMMANDS[kind] if os.path.exists(c)), None)
    if not command:
        pytest.skip(f"{kind} is not installed")
    shutil.copytree(f"{prefix}/share/modulefiles", "modulefiles")  # Lmod takes no space in the name of a modulefile
    module = f"{shlex.quote(command)} bash"
    script = f"""module() {{ eval "$({module} "$@")"; }}
        export MODULEPATH=$PWD/modulefiles
        show() {{ echo "$1: $(command -v shoal) ${{MANPATH-unset}}"; }}
        show before
        module load shoal; show loaded; shoal --version; module unload shoal; show unloaded
        export MANPATH=/pages; module load shoal; show loaded; module unload shoal; show unloaded"""
    lines = [line.rstrip(":") for line in run(["bash", "--norc", "-c", script], base=EMPTY).stdout.splitlines()]  # Lmod adds some
    found = f"{prefix}/bin/shoal"
    assert lines[0] == "before:  unset" and lines[1] == f"loaded: {found} unset" and lines[2].startswith("shoal ")
    assert lines[3] == "unloaded:  unset"
    assert lines[4] == f"loaded: {found} {prefix}/share/man:/pages" and lines[5] == "unloaded:  /pages"


def test_uninstall(prefix):
    """Removes what was installed and folders that are empty then, and nothing else.  The last test of this file."""
    os.makedirs(f"{prefix}/share/man/man1", exist_ok=True)
    with open(f"{prefix}/share/man/man1/other.1", "w"):
        pass
    run(["cmake", "-D", f"BUILD={harness.build()}", "-P", f"{ROOT}/cmake/uninstall.cmake"])
    assert [os.path.join(*p) for p in ((d, f) for d, _, files in os.walk(prefix) for f in files)] == [f"{prefix}/share/man/man1/other.1"]
    assert not os.path.exists(f"{prefix}/bin") and not os.path.exists(f"{prefix}/share/doc")
    r = run(["cmake", "-D", f"BUILD={harness.build()}", "-P", f"{ROOT}/cmake/uninstall.cmake"], code=1)
    assert "removed already" in r.stderr
