"""What the verbs that only look and measure say to bad arguments and foreign files: nothing may crash, hang or end with 0."""
import json
import os
import signal
import subprocess

import pytest

from harness import ENV, PLAIN_ENV, assert_one_error, program, run, said, wait_for

CASES = (  # command, exit code, words of its one error line
    ("version", 2, 'has no verb "version"; shoal --version prints it'),
    ("import csv a.csv", 2, 'has no verb "import", did you mean shoal data import;'),
    ("lauch run.yaml", 2, 'has no verb "lauch", did you mean shoal launch;'),
    ("trace runs/one", 2, 'has no verb "runs/one", did you mean shoal trace show runs/one;'),
    ("data import table.csv -o set.h5", 2, "table.csv lies there, and before it its kind is wanted: shoal data import csv table.csv -o NAME.h5"),
    ("data import csv data/glyphs.csv.gz", 2, "no output file, and glyphs.h5 is there already: give one with -o (-o glyphs.h5 replaces it)"),
    ("data import csv ..", 2, "no output file: give one with -o"),
    ("predict glyphs.h5 runs/one", 2, "the run comes first, shoal predict runs/one glyphs.h5"),
    ("predict one glyphs.h5", 7, "there is no one here; did you mean runs/one?"),
    ("launch table.csv", 2, "is this a run file?"),
    ("train run.yaml --set lr=1", 2, "unknown key lr; did you mean optim.lr?"),
    ("train run.yaml --set run.max_time=1h", 2, "unknown key run.max_time: no option limits the time of a run: `timeout -s USR1 4h"),
    ("launch run.yaml --max-time 1h", 2, "unknown option --max-time: no option limits the time of a run"),
    ("launch run.yaml -np 2", 2, "unknown option -np: the number of ranks is given to launch: shoal launch RUN.yaml -n RANKS"),
    ("launch run.yaml --exclude n1", 2, "unknown option --exclude: options of a job are given to submit"),
    ("launch run.yaml --mail-type END", 2, "unknown option --mail-type: options of a job are given to submit"),
    ("submit run.yaml --mail-type END", 2, "unknown option --mail-type, which is of sbatch: hand it on as --sbatch=--mail-type=END"),
    ("submit run.yaml --exclude=n3", 2, "unknown option --exclude, which is of sbatch: hand it on as --sbatch=--exclude=n3"),
    ("submit run.yaml -xn[1-3]", 2, "unknown option -x, which is of sbatch: hand it on as '--sbatch=--exclude=n[1-3]'"),
    ("submit run.yaml -G 1 -N 2", 2, "unknown option -G, which is of sbatch: hand it on as --sbatch=--gpus=1"),
    ("submit run.yaml --gres -N 2", 2, "unknown option --gres, which is of sbatch: hand it on as --sbatch=--gres=VALUE"),
    ("submit run.yaml --exclusive -N 2", 2, "unknown option --exclusive, which is of sbatch: hand it on as --sbatch=--exclusive"),
    ("submit run.yaml -J a", 2, "unknown option -J, which is of sbatch: here it is --name"),
    ("scale run.yaml -J a", 2, "unknown option -J, which is of sbatch: hand it on as --sbatch=--job-name=a"),
    ("submit run.yaml --ntasks-per-node 2", 2, "unknown option --ntasks-per-node, which is of sbatch: here it is --per-node"),
    ("train run.yaml --set run.resume=true", 2, "unknown key run.resume: the same command goes on from the newest checkpoint by itself"),
    ("train run.yaml --set batch=8", 2, "unknown key batch; did you mean data.batch"),
    ("train run.yaml --set method=daso --set method.period=3", 2, "method.period belongs to local-sgd; this run's method is daso"),
    ("train run.yaml --set model=vgg16", 2, "run.yaml:2:21: model.widths belongs to mlp; this run's model is vgg16"),
    ("train run.yaml --set ckpt.every=0", 2, "to switch it off write never"),
    ("bench comm --beside inf", 2, '--beside is "inf": must be a number above 0, at most 100'),
    ("bench comm --beside 0", 2, '--beside is "0"'),
    ("bench comm --seconds nan", 2, '--seconds is "nan"'),
    ("bench comm --together 17", 2, "must be 1 to 16"),
    ("bench comm --wire f64", 2, "must be f32, bf16 or f16"),
    ("bench comm --sizes 1,,2", 2, '--sizes has ""'),
    ("bench comm --sizes 1,", 2, '--sizes has ""'),
    ("bench comm --sizes=", 2, '--sizes has ""'),
    ("bench comm --sizes 0", 2, '--sizes has "0"'),
    ("bench comm --sizes 4194305", 2, "1 to 4194304"),
    ("bench comm --topo 5x5", 2, "is for 25 ranks, this run has 1"),
    ("topo --xml none.xml", 7, "cannot read none.xml: No such file"),
    ("topo --xml junk", 7, "cannot load junk: hwloc takes XML files"),
    ("topo --env none.env", 7, "cannot read none.env: No such file"),
    ("topo --env tasks.env", 2, 'tasks.env: SLURM_STEP_NUM_TASKS is "-3"'),
    ("trace show one", 7, "there is no such file (did you mean runs/one?)"),
    ("trace show junk", 7, "not an HDF5 file"),
    ("trace export junk -o out.json", 7, "not an HDF5 file"),
    ("trace show glyphs.h5", 7, "glyphs.h5 is not a Shoal trace"),
    ("trace show cut.h5", 7, "it is cut off, 1000 of"),
    ("trace export runs/one runs/two", 2, "several folders: give one run folder"),
    ("trace show runs/one runs/one/trace/attempt-0001-node-00000.h5", 2, "folders and files: give run folders, or trace files"),
    ("trace show runs/one runs/two --steps", 2, "--steps is of one run"),
    ("trace show runs/one/trace/attempt-0001-node-00000.h5 runs/two/trace/attempt-0001-node-00000.h5", 2, "is of run two, the files before it of one"),
    ("trace show runs", 7, "runs is no run but a folder of runs: give one of runs/one, runs/two"),
    ("trace show runs/one/ckpt", 7, "runs/one/ckpt/trace holds no trace files"),
    ("predict runs/onne glyphs.h5", 7, "cannot open runs/onne: No such file or directory (did you mean runs/one?)"),
    ("train run.yaml --set data.file=glyph.h5", 7, "cannot open glyph.h5: there is no such file (did you mean glyphs.h5?)"),
    ("launch glyphs.h5", 2, "glyphs.h5 is an HDF5 file, as data sets and checkpoints are: a run file is wanted, which names"),
    ("predict run.yaml glyphs.h5", 7, "run.yaml is a run file, and what the run has trained is in its folder: give that"),
    ("data import csv table.csv --like run.yaml -o new.h5", 7, "run.yaml is a run file, and what"),
    ("train --set optim.lr 0.01", 2, "--set optim.lr 0.01: write it with a '=', as --set optim.lr=0.01"),
    ("train optim.lr=0.01", 2, "optim.lr=0.01 is no run file: an option is set by --set optim.lr=0.01"),
    ("train run.yaml --set optim.lr 0.01", 2, "--set optim.lr 0.01: write it with a '=', as --set optim.lr=0.01"),
    ("launch run.yaml optim.lr=0.01", 2, "optim.lr=0.01 is no run file: an option is set by --set optim.lr=0.01"),
    ("data import images table.csv -o new.h5", 7, "table.csv is no folder: shoal data import images takes one that has a folder for each "
                                                  "class; a table is imported by shoal data import csv table.csv"),
    ("trace show runs/one --attempt 9", 2, "there is no attempt 9 of one"),
)


def shoal(line, **options):
    return run([program(), *line.split()], base=PLAIN_ENV, timeout=30, **options)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files to look at, made once: a data set, two runs, and what is neither."""
    folder, before = tmp_path_factory.mktemp("files"), os.getcwd()
    os.chdir(folder)
    shoal("data synth glyphs -o glyphs.h5 --train 16 --test 8")
    for name in ("one", "two"):
        with open("run.yaml", "w") as f:
            f.write(f"run: {{ name: {name}, epochs: 1 }}\nmodel: {{ name: mlp, widths: [8] }}\n"
                    "data: { file: glyphs.h5, batch: 8 }\n")
        shoal("train run.yaml --quiet")
    with open("junk", "wb") as f:
        f.write(bytes(range(256)) * 4)
    with open("runs/one/trace/attempt-0001-node-00000.h5", "rb") as f, open("cut.h5", "wb") as out:
        out.write(f.read(1000))
    with open("table.csv", "w") as f:
        f.write("a,b\n1,2\n")
    with open("tasks.env", "w") as f:
        f.write("SLURM_STEP_NUM_TASKS=-3\n")
    os.chdir(before)
    return folder


@pytest.fixture(autouse=True)
def beside_files(files, work, monkeypatch):
    monkeypatch.chdir(files)


@pytest.mark.parametrize("line, code, words", CASES)
def test_refused(line, code, words):
    assert_one_error(shoal(line, code=code), words)
    assert not os.path.exists("out.json"), "a failed export left its file"


TOGETHER = (  # options of which each is good, and not all of them
    ({"optim": {"schedule": "cosine", "warmup_epochs": 1}}, "the cosine falls in what remains"),
    ({"optim": {"schedule": "step", "milestones": [3, 2]}}, "give them in rising order"),
    ({"optim": {"momentum": 0, "nesterov": True}}, "optim.nesterov needs momentum"),
    ({"run": {"name": "a b"}}, "only letters, digits"),
    ({"data": {"global_batch": 8}}, "are both set"),
    ({"model": {"orthogonal": True, "weights": "x.h5"}}, "leave one out"),
    ({"model": {"orthogonal": True}, "method": {"name": "ist"}}, "no rank holds whole weights"),
    ({"method": {"name": "ist", "cut": "units", "min_blocks": 2}}, "method.min_blocks is for residual blocks"),
    ({"method": {"name": "ab", "cycle": 5, "rebound": 5}}, "method.rebound is 5 of 5"),
    ({"method": {"name": "ab", "swap": True, "mode": "only-b"}}, "method.swap changes groups"),
    ({"method": {"name": "daso", "every": 3, "wait": 4}}, "method.wait is 4"),
    ({"method": {"name": "local", "chunks": 2, "cut": [1]}}, "are both set"),
    ({"method": {"name": "local", "form": "overlapping", "replay": 2}}, "method.replay needs blocks"),
)


@pytest.mark.parametrize("options, words", TOGETHER)
def test_config_like_launch(options, words, tmp_path):
    """`shoal config` refuses what no data and no ranks could make right, and `shoal launch` does so before it starts a rank."""
    sections = {"run": {"name": "one", "epochs": 1}, "model": {"name": "mlp", "widths": [8, 8]}, "data": {"file": "glyphs.h5", "batch": 8}}
    for section, more in options.items():
        sections[section] = {**sections.get(section, {}), **more}
    (tmp_path / "run.yaml").write_text(json.dumps(sections))
    for verb in (["config", tmp_path / "run.yaml"], ["launch", tmp_path / "run.yaml", "-n", "2"]):
        assert_one_error(run([program(), *verb], base=PLAIN_ENV, timeout=30, code=2), words)


NAMED = "a\nshoal: error: b\x1b[2J"  # as part of a message it would be two, the second made up


@pytest.mark.parametrize("args, code", ((("data", "inspect", NAMED), 7), (("train", NAMED), 7), (("ckpt", "show", f"{NAMED}.h5"), 7),
                                        (("train", "run.yaml", f"--set=optim.{NAMED}=3"), 2), (("config", f"optim.{NAMED}"), 2),
                                        (("trace", "show", NAMED), 7), ((NAMED,), 2)))
def test_line_breaks(args, code):
    """Names with line breaks and control characters: still one message, in which they are seen."""
    r = run([program(), *args], base=PLAIN_ENV, timeout=30, code=code)
    assert_one_error(r, "a\\nshoal: error: b")
    assert "\x1b" not in r.stdout + r.stderr, said(r)


def test_line_breaks_warned():
    """And one warning."""
    r = run([program(), "config", "run.yaml"], base=PLAIN_ENV, env={"SHOAL_OPTIM_L\nR": "1"}, timeout=30)
    said_of = [line for line in r.stderr.splitlines() if "OPTIM_L" in line]
    assert len(said_of) == 1 and "OPTIM_L\\nR is unknown and ignored" in said_of[0], said(r)


@pytest.mark.parametrize("line", ("topo", "trace show runs/one", "trace export runs/one", "config optim"))
def test_full_disk(line):
    """Printing to a full disk is an error."""
    with open("/dev/full", "w") as full:
        assert_one_error(shoal(line, code=7, stdout=full), "standard output")


@pytest.mark.parametrize("line", ("ckpt list runs/one", "config optim"))
def test_closed_output(line):
    """So is printing to nowhere."""
    assert_one_error(run(["sh", "-c", 'exec "$@" >&-', "sh", program(), *line.split()], code=7, timeout=30), "standard output")


def test_train_closed_output():
    """A training run goes on, and none of its files gets the number of a closed stream, with all that is printed."""
    command = [program(), *"train run.yaml --resume never --allow-faults --set fault.compute=sleep:20 --set run.name=closed".split()]
    with subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command], env=ENV) as p:
        try:
            wait_for("runs/closed/log.txt", "to stop with a checkpoint")
            assert [os.readlink(f"/proc/{p.pid}/fd/{n}") for n in range(3)] == ["/dev/null"] * 3
        finally:
            p.send_signal(signal.SIGUSR1)
        assert p.wait(30) in (0, 75)


def test_train_full_disk():
    """A training run does not end for it."""
    with open("/dev/full", "w") as full:
        shoal("train run.yaml --resume never --set run.name=full", stdout=full)
