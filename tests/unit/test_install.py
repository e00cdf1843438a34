"""`cmake --install`: a tree that works where it is put and where it is moved to, its documents, its modulefile, and its removal."""
import glob
import os
import re
import shlex
import shutil

import h5py
import pytest

import harness
import traces
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


def test_bundle(prefix, work):
    """In a bundle the program says where Open MPI and PMIx find their parts, and starts ranks by the mpirun beside it; whatever an Open
    MPI of the site says.  tests/packages.sh tries whole bundles."""
    shutil.copytree(prefix, "a bundle", symlinks=True)
    bundle = os.path.abspath("a bundle")
    for path, text in (("lib/shoal-bundle", ""), ("bin/mpirun", "#!/bin/sh\nif [ $1 = --version ]; then echo 'mpirun (Open MPI) 4.1.4'\n"
                                                  "else echo \"$OPAL_PREFIX $PMIX_MCA_mca_base_component_path\"; fi\n")):
        with open(f"{bundle}/{path}", "w") as f:
            f.write(text)
    os.chmod(f"{bundle}/bin/mpirun", 0o755)
    command = ["bin/shoal", "launch", "-n", "2", *harness.sets(data__file="x.h5", model__name="mlp", run__name="r", method__name="sync")]
    r = run(command, base={**EMPTY, "OPAL_PREFIX": "/site"}, cwd=bundle)
    assert r.stdout.splitlines()[-1] == f"{bundle} {bundle}/lib/pmix"
    assert f"those of the bundle in {bundle}" in r.stdout + r.stderr
    os.remove(f"{bundle}/lib/shoal-bundle")
    assert "bundle in" not in run(command, base={**EMPTY, "PATH": f"{bundle}/bin:/usr/bin:/bin"}, cwd=bundle).stdout


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


def test_recipes():
    """Recipes of packaging/ can be parsed, have this version and set options of the build."""
    with open(f"{ROOT}/CMakeLists.txt") as f:
        version = re.search(r"project\(shoal VERSION (\S+)", f.read()).group(1)
    options = set()
    for path in (f"{ROOT}/CMakeLists.txt", *glob.glob(f"{ROOT}/cmake/*.cmake")):
        with open(path) as f:
            options |= set(re.findall(r"(?:option|set|find_path|find_library)\((SHOAL_\w+|DNNL_\w+)", f.read()))
    recipes = {path: open(path).read() for path in glob.glob(f"{ROOT}/packaging/**/*.*", recursive=True) if path.endswith((".py", ".eb", ".def"))}
    assert len(recipes) == 4
    for path, text in recipes.items():
        if not path.endswith(".def"):
            compile(text, path, "exec")
        if path.endswith(".eb"):
            values = {"SHLIB_EXT": "so", "SOURCE_TAR_GZ": ""}
            exec(text, values)
            assert f"/{values['name']}-{values['version']}-" in path and values["toolchain"]["version"] in path
            assert values["name"] != "Shoal" or values["version"] == version
        if path.endswith("package.py"):
            assert f'version("{version}")' in text
        assert not set(re.findall(r"(?:-D|define\(\")((?:SHOAL|DNNL)_[A-Z_]+)", text)) - options - {"DNNL_CPU_RUNTIME", "DNNL_BUILD_TESTS", "DNNL_BUILD_EXAMPLES"}


def read_by_hand(data, ckpt, trace):
    """What docs/read.c prints, read by h5py."""
    with h5py.File(data) as f:
        x, y = f["train/x"][:], f["train/y"][:]
        yield f"data: {len(x)} training and {len(f['test/x'])} test samples of {x[0].size} numbers, {f.attrs['classes']} classes"
        yield ("  sum", x.sum(dtype="f8"), ", of labels", y.sum(), ", mean", f.attrs["mean"][0], ", std", f.attrs["std"][0])
    with h5py.File(ckpt) as f:
        text = {k: v.decode() if isinstance(v, bytes) else v for k, v in f.attrs.items()}
        yield f"checkpoint: run {text['run']}, model {text['model']}, step {text['step']}"
        arrays = []
        f.visititems(lambda name, a: arrays.append((name, a[()])) if isinstance(a, h5py.Dataset) and a.dtype == "f4" else None)
        for name, a in sorted(arrays, key=lambda pair: pair[0].encode()):
            yield (f"  {name}: {a.size} numbers, sum", a.sum(dtype="f8"))
    with h5py.File(trace) as f:
        for rank in sorted(name for name in f if name.startswith("rank-")):
            records = f[f"{rank}/records"][:]
            steps = records[records["kind"] == harness.STEP]
            yield f"trace: rank {int(rank[5:])} of 8, {len(records)} spans, {len(steps)} steps in {(steps['t1_ns'] - steps['t0_ns']).sum()} ns"


def test_read(prefix, work):
    """A program in C, built against a moved tree by pkg-config and by CMake, reads what h5py reads."""
    shutil.copytree(prefix, "moved", symlinks=True)
    harness.shoal(*"data synth glyphs -o data.h5 --train 60 --test 10 --size 12".split())
    harness.train(1, "r", *harness.sets(data__file="data.h5", model__name="mlp", data__batch=10, run__epochs=2), "-q")
    rows = [(1000 * k, 1000 * k + 10 * k, k, kind) for k in range(1, 40) for kind in (0, harness.STEP)]
    files = ["data.h5", harness.newest("r"), traces.write(".", 0, {3: (rows, None, {}), 5: (rows[:11], None, {})}, size=8)]
    moved, source = os.path.abspath("moved"), f"{ROOT}/docs/read.c"
    flags = run(["pkg-config", "--cflags", "--libs", "shoalread"], env={"PKG_CONFIG_PATH": f"{moved}/lib/pkgconfig"}).stdout.split()
    run(["cc", "-std=c99", "-Wall", "-Werror", "-pedantic", source, *flags, f"-Wl,-rpath,{moved}/lib", "-o", "by-pkg-config"])
    os.mkdir("project")
    with open("project/CMakeLists.txt", "w") as f:
        f.write(f"cmake_minimum_required(VERSION 3.16)\nproject(x C)\nfind_package(shoalread 0.1 REQUIRED)\n"
                f"add_executable(by-cmake {source})\ntarget_link_libraries(by-cmake PRIVATE shoalread::shoalread)\n")
    run(["cmake", "-S", "project", "-B", "project", f"-DCMAKE_PREFIX_PATH={moved}"])
    run(["cmake", "--build", "project"])
    expected = list(read_by_hand(*files))
    for program in ("./by-pkg-config", "project/by-cmake"):
        r = run([program, files[0], "runs/r", files[2]], base=EMPTY)
        assert r.stderr == "" and len(r.stdout.splitlines()) == len(expected)
        for line, wanted in zip(r.stdout.splitlines(), expected):
            if isinstance(wanted, str):
                assert line == wanted
                continue
            numbers = [float(n) for n in re.findall(r"(?:sum|labels|mean|std) (\S+?)(?:,|$)", line)]
            assert numbers == pytest.approx([float(n) for n in wanted[1::2]], rel=1e-6, abs=1e-6)
            assert line.startswith(wanted[0])
    for wrong, words in ((["none.h5", files[1], files[2]], "none.h5"), ([files[0], files[2], files[2]], "seal of a finished checkpoint"),
                         ([files[0], files[1], files[0]], files[0])):
        r = run(["./by-pkg-config", *wrong], code=1, base=EMPTY)
        assert words in r.stderr and r.stderr.count("\n") == 1
    library = f"{moved}/lib/libshoalread.so.0"
    exported = re.findall(r" [A-Z] (\S+)", run(["nm", "-D", "--defined-only", library]).stdout)
    with open(f"{ROOT}/src/read/shoalread.h") as f:
        declared = set(re.findall(r"\b(shoalread_\w+)\(", f.read()))
    assert {e for e in exported if e != "SHOALREAD_0"} == {f"{d}@@SHOALREAD_0" for d in declared} | {"SHOALREAD_0@@SHOALREAD_0"} & set(exported)
    assert not re.search("mpi|pmix", run(["ldd", library]).stdout)


def test_uninstall(prefix):
    """Removes what was installed and folders that are empty then, and nothing else.  The last test of this file."""
    os.makedirs(f"{prefix}/share/man/man1", exist_ok=True)
    with open(f"{prefix}/share/man/man1/other.1", "w"):
        pass
    run(["cmake", "-D", f"BUILD={harness.build()}", "-P", f"{ROOT}/cmake/uninstall.cmake"])
    assert [os.path.join(*p) for p in ((d, f) for d, _, files in os.walk(prefix) for f in files)] == [f"{prefix}/share/man/man1/other.1"]
    assert not os.path.exists(f"{prefix}/bin") and not os.path.exists(f"{prefix}/share/doc")
    r = run(["cmake", "-D", f"BUILD={harness.build()}", "-P", f"{ROOT}/cmake/uninstall.cmake"], code=1)
    assert "removed already" in " ".join(r.stderr.split())  # CMake folds its messages, by the length of the path
