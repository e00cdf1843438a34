"""`shoal report`: the page of runs with known answers, read as HTML and rendered by Chromium; refusals of the verb."""
import base64
import collections
import csv
import html.parser
import io
import json
import os
import re
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

pytest.importorskip("pandas", reason="python3-pandas is not installed")
pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")

import browser
import traces
from harness import PLAIN_ENV, ROOT, program, read, said
from harness import run as run_process

sys.path.insert(0, f"{ROOT}/analysis")

STEP, WAIT, FORWARD, EXCHANGE, EVALUATION = 9, 4, 0, 3, 7
STEPS, BATCH = 40, 64
HOSTILE = '<img src=x onerror="document.title=1">&\'</script>\x1b[2J'


def make_run(name, method="sync", ranks=2, step_ns=1_000_000, batch=BATCH, title=None, per_node=2, options=""):
    """A run of STEPS steps of exactly `step_ns`, in which each rank computes for the first half and waits for the rest."""
    rows = []
    for i in range(STEPS):
        t = 10_000_000 + i * step_ns
        half = t + step_ns // 2
        rows += [(t, half, i, FORWARD), (half, t + step_ns, i, WAIT, title or "bucket", 2),
                 (half - 1000, t + step_ns, i, EXCHANGE, title or "bucket", 2, 1000, i),
                 (t, t + step_ns, i, STEP, "step", 255, 0, batch // ranks)]
    end = 10_000_000 + STEPS * step_ns
    members = {"payload": [0, 0, 1000 * STEPS, 8], "wire": [0, 0, 1100 * STEPS, 16], "messages": [0, 0, STEPS, 1], "flushed_ns": end}
    folder = f"runs/{name}"
    quoted = json.dumps(title or name)
    config = (f"run:\n  name: {quoted}\n  seed: 1\ndata:\n  file: d.h5\n  batch: 0\n  global_batch: {batch}\nmodel:\n  name: mlp\n"
              f"  widths: [8]\nmethod:\n  name: {method}\n{options}")
    for node in range((ranks + per_node - 1) // per_node):
        mine = range(node * per_node, min(ranks, (node + 1) * per_node))
        traces.write(folder, node, {r: (rows, None, members) for r in mine}, name=title or name, size=ranks, config=config)
    with open(f"{folder}/run.yaml", "w") as f:
        f.write(config)
    with open(f"{folder}/status.json", "w") as f:
        json.dump({"state": "done"}, f)
    with open(f"{folder}/metrics.csv", "w") as f:
        f.write("epoch,step,time_s,train_loss,test_loss,test_acc,lr,samples_per_s,wait_share\n")
        for k in range(1, 5):
            f.write(f"{k},{10 * k},{10 * k * step_ns * 1e-9},{2 / k},{2.2 / k},{0.2 * k + (0.1 if method == 'daso' else 0)},0.1,1,0.5\n")
    return folder


def report(*args, code=0, env=None):
    return run_process([program(), "report", *args], code=code, base={**PLAIN_ENV, "PYTHONWARNINGS": "error::FutureWarning"}, env=env, timeout=200)


class Read(html.parser.HTMLParser):
    """What a page has; an element that is not closed in order is a fault."""
    VOID = {"meta", "input", "br", "img", "link"}

    def __init__(self, page):
        super().__init__()
        self.open, self.faults, self.ids, self.outside, self.texts = [], [], [], [], collections.defaultdict(list)
        self.tags, self.csv = collections.Counter(), {}
        self.feed(page)
        assert not self.open and not self.faults, (self.open, self.faults)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            if key.endswith(("src", "href")) and not value.startswith(("#", "data:")):
                self.outside.append(value)
            if key.startswith("on"):
                self.faults.append((tag, key))
        d = dict(attrs)
        if tag == "a" and "download" in d:
            self.csv[d["download"].removesuffix(".csv")] = base64.b64decode(d["href"].split("base64,")[1]).decode()
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_data(self, data):
        self.texts[self.open[-1] if self.open else ""].append(data)

    def rows(self, name):
        return list(csv.DictReader(io.StringIO(self.csv[name])))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Strong scaling by Amdahl's law with a serial share of 0.1, a second method, and a run whose names are hostile; and the report
    of all, study.html."""
    folder, before = tmp_path_factory.mktemp("study"), os.getcwd()
    os.chdir(folder)
    make_run("hostile", "sync", ranks=2, step_ns=3_000_000, batch=32, title=HOSTILE)
    for n in (1, 2, 4, 8):
        make_run(f"sync-{n}", ranks=n, step_ns=round(8_000_000 * (0.1 + 0.9 / n)))
    make_run("daso-4", "daso", ranks=4, step_ns=2_000_000)
    report("runs/hostile", *(f"runs/sync-{n}" for n in (1, 2, 4, 8)), "runs/daso-4", "-o", "study.html", "--target", "0.6")
    os.chdir(before)
    return folder


@pytest.fixture(autouse=True)
def study(made, work):
    """Copies of them."""
    shutil.copytree(made, ".", dirs_exist_ok=True)


def test_numbers():
    """Throughput, serial share, bytes, waits and node-hours are those that the runs were made of."""
    from shoal_analysis import figures, report
    for seconds, text in ((119, "119 s"), (120, "2 min"), (186.2, "3.1 min"), (7199, "120 min"), (7200, "2 h"), (9000, "2.5 h"), (0.5, "500 ms")):
        assert report.quantity(seconds, figures.TRAINED).replace("\u202f", " ") == text, text
    page = Read(read("study.html"))
    runs = {r["run"]: r for r in page.rows("runs")}
    for n in (1, 2, 4, 8):
        step = round(8_000_000 * (0.1 + 0.9 / n))
        r = runs[f"sync-{n}"]
        assert float(r["samples/s"]) == pytest.approx(BATCH / (step * 1e-9), rel=1e-4)
        assert float(r["waiting, %"]) == pytest.approx(50) and int(r["nodes"]) == (n + 1) // 2
        assert float(r["node-hours"]) == pytest.approx(int(r["nodes"]) * STEPS * step * 1e-9 / 3600)
    serial = next(r for r in page.rows("laws") if r["law"] == "Amdahl")
    assert float(serial["estimate"]) == pytest.approx(0.1, abs=1e-4) and float(serial["95 %, high"]) < 0.101
    assert [r["method"] for r in page.rows("laws")] == ["sync"] * 3  # one run of daso is no study
    sent = page.rows("sync-2-bytes")
    assert [float(r["payload per step, bytes"]) for r in sent] == [0, 0, 2000, 0.4]
    target = {r["run"]: r for r in page.rows("comparison-time-to-target")}
    assert float(target["sync-1"]["time to target, s"]) == pytest.approx(0.24) and float(target["daso-4"]["epochs"]) == 3
    assert float(target["sync-2"]["bytes sent by then"]) == 2 * 1000 * 30
    shown = json.loads(run_process([program(), "trace", "show", "runs/sync-2", "--json"], base=PLAIN_ENV).stdout)["run"]["efficiency"]
    tree = {r["factor"]: float(r["%"]) for r in page.rows("sync-2-efficiency")}
    assert tree["parallel efficiency"] == pytest.approx(100 * shown["parallel"], abs=1e-3) == pytest.approx(50, abs=0.1)
    assert len(tree) == sum(shown[k] is not None for k in ("parallel", "load_balance", "communication", "useful_share",
                                                           "serialisation", "transfer"))
    heat = page.rows("sync-2-waits")
    assert sum(float(r["rank 1, %"]) for r in heat) / len(heat) == pytest.approx(50, abs=0.1)


def test_page():
    """The page is well formed and needs nothing else; a figure has its numbers; text of files stays text."""
    text = read("study.html")
    page = Read(text)
    assert not page.outside and len(set(page.ids)) == len(page.ids)
    assert page.tags["figure"] == page.tags["figcaption"] == text.count('class="behind"') > 10
    assert page.tags["img"] == 0 and "\x1b" not in text
    assert any(HOSTILE.replace("\x1b", "\\x1b") in t for t in page.texts["strong"])
    assert set(re.findall(r"var\(--([a-z]+)\)", text)) <= set(re.findall(r"--([a-z]+):#", text))
    assert re.findall(r"#[0-9a-f]{6}", re.sub(r"<style>.*?</style>|<script.*?</script>|data:[^\"']*", "", text, flags=re.S)) == []
    assert "No fit for sync: Gustafson needs runs with at least 4 different numbers of ranks; there are 2" in text
    timeline = [json.loads(t) for t in page.texts["script"] if t.startswith("{")]
    assert [sum(t["counts"]) for t in timeline] == [r * 4 * STEPS for r in (2, 1, 2, 4, 8, 4)]


def test_damaged():
    """A trace without a step, metrics that are none, a rank that is missing: the page says so and shows the rest."""
    os.remove("runs/sync-4/trace/attempt-0001-node-00001.h5")
    with open("runs/daso-4/metrics.csv", "w") as f:
        f.write("\x00not,a\ntable")
    shutil.rmtree("runs/daso-4/trace")
    r = report("runs/sync-4", "runs/daso-4", "-o", "study.html", "--figures", "figures")
    page = read("study.html")
    assert "rank 2: no trace of attempt 1" in page and "rank 3: no trace of attempt 1" in page and "rank 2" in r.stderr
    assert "there is no trace" in page and "attempt None" not in page
    files = os.listdir("figures")
    assert len(files) == 3 * Read(page).tags["figure"] and {f[-4:] for f in files} == {".svg", ".pdf", ".csv"}
    for f in files:
        with open(f"figures/{f}", "rb") as opened:
            assert opened.read(5).startswith({"svg": b"<?xml", "pdf": b"%PDF-", "csv": b""}[f[-3:]]), f


def test_energy():
    """Joules of the processors, with what part of the node they cover; and a learning rate that falls."""
    rows = read("runs/sync-2/metrics.csv")
    with open("runs/sync-2/metrics.csv", "w") as f:
        f.write(re.sub(r"^(\d)(.*),0.1,1,0.5$", lambda m: f"{m[1]}{m[2]},2.5e-0{3 + int(m[1])},1,0.5", rows, flags=re.M))
    with h5py.File("runs/sync-2/trace/attempt-0001-node-00000.h5", "r+") as f:
        rows = np.zeros(2, [("domain", h5py.string_dtype("utf-8", 32)), ("uj", "<u8"), ("t0_ns", "<u8"), ("t1_ns", "<u8")])
        rows["domain"], rows["uj"], rows["t1_ns"] = [b"package-0", b"package-1"], [3_600_000_000, 7_200_000_000], 10_000_000_000
        f["energy"] = rows
        f.attrs["node_cpus"], f.attrs["job_cpus"] = 64, 16
    report("runs/sync-2", "-o", "energy.html")
    page = Read(read("energy.html"))
    assert [float(r["lr"]) for r in page.rows("training-rate-steps")] == [2.5e-4, 2.5e-5, 2.5e-6, 2.5e-7]
    assert "0.00025 to 2.5e-7" in read("energy.html")
    row = page.rows("energy")[0]
    assert float(row["energy, kWh"]) == pytest.approx(0.003) and float(row["mean power, W"]) == pytest.approx(1080)
    assert row["nodes with counters"] == "1 of 1" and row["the job had"] == "shared with other jobs"


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


COLUMNS = "epoch,step,time_s,train_loss,test_loss,test_acc,lr,samples_per_s,wait_share"
PRICE = f"{COLUMNS},test_rmse,test_mae,test_r2\n1,10,1,0.9,0.43,,0.1,9,0,39617.2,32338.5,0.415\n2,20,2,0.03,0.028,,0.1,9,0,10183.9,7968.33,0.9613\n"
BOOK = f"{COLUMNS},perplexity,bits_per_byte\n1,10,1,4.9,4.87,0.16,0.1,9,0,130.3,7.026\n2,20,2,4.4,4.32,0.17,0.1,9,0,75.3,6.235\n"
LOSSES = "losses are of (price - 198101) / 60363.8; times 3.64379e+09 they are mean squared errors of price\n"


def test_predicted():
    """Numbers to be predicted are told in the units of the table, with their names, and text by perplexity and bits per byte; runs of
    different data sets have figures of their own, and none of them is called the first."""
    for name, rows in (("price", PRICE), ("dear", PRICE), ("book", BOOK)):
        write(f"{make_run(name)}/metrics.csv", rows)
    for name in ("price", "dear"):
        write(f"runs/{name}/log.txt", f"2026-11-30T21:46:29Z {LOSSES}")
    config = read("runs/book/run.yaml")
    write("runs/book/run.yaml", config.replace("d.h5", "book.h5"))
    report("runs/price", "runs/book", "-o", "kinds.html")
    text = read("kinds.html").replace("\u202f", " ")
    page = Read(read("kinds.html"))
    assert "has a test rmse of 10 184 (price) and R2 of 0.9613 after" in text and "test error, price" in text
    assert "has a test perplexity of 75.3 and bits per byte of 6.235 after" in text
    assert [float(r["test_rmse"]) for r in page.rows("training-error-steps")] == [39617.2, 10183.9]
    assert [float(r["test_r2"]) for r in page.rows("training-r2-steps")] == [0.415, 0.9613]
    assert [float(r["perplexity"]) for r in page.rows("training-2-perplexity-time")] == [130.3, 75.3]
    assert [float(r["bits_per_byte"]) for r in page.rows("training-2-bits-steps")] == [7.026, 6.235]
    assert " first, after" not in text and "Compared with no other run" in text and "comparison-time-to-target" not in page.csv
    report("runs/price", "runs/dear", "runs/book", "-o", "kinds.html")
    text = read("kinds.html").replace("\u202f", " ")
    assert "Of the 2 runs of mlp [8] on d.h5 price reached a test rmse of 10 184 (price) first, after 2 s" in text
    write("runs/dear/log.txt", "losses are mean squared errors over 2 targets, each as (y - mean) / deviation; deviations: 60363.8 of price, in $, "
                               "2 of rooms, ...\n")
    import shoal_analysis
    assert shoal_analysis.load("runs/dear")[0].targets == ["price, in $", "rooms"]
    report("runs/dear", "-o", "several.html")
    assert "a test rmse of 10 184 (deviations, mean of price, in $ and rooms)" in read("several.html").replace("\u202f", " ")


def test_missing():
    """Files that are missing are told first, in the page and on the terminal."""
    os.remove("runs/sync-2/metrics.csv")
    shutil.rmtree("runs/sync-2/trace")
    r = report("runs/sync-2")
    assert re.fullmatch("shoal: warning: sync-2: there is no trace, .* the folder trace/ is missing or empty; the report has 1 more line\n", r.stderr)
    page = read("runs/sync-2/report.html")
    assert page.index("there is no trace") < page.index("there is no metrics.csv") < page.index('id="run-0"') and "attempt None" not in page
    write("runs/sync-2/run.yaml", read("runs/sync-2/run.yaml") + "trace:\n  level: off\n")
    assert "trace.level is off" in report("runs/sync-2").stderr


def test_apart():
    """Curves of many runs differ, and runs are put into one study or one comparison only if they belong together."""
    from types import SimpleNamespace
    import shoal_analysis
    from shoal_analysis import figures, report as pages
    styles = figures._styles([SimpleNamespace(name=f"a-rather-long-name-of-a-study-of-{i}-with-seed-{i}") for i in range(28)])
    assert len({s["label"] for s in styles}) == len({(s["color"], str(s["linestyle"])) for s in styles}) == 28
    make_run("slow-1", ranks=1, options="optim:\n  lr: 0.01\n")
    for bucket in (4, 8):
        make_run(f"bucket-{bucket}-1", ranks=1, options=f"  bucket: {bucket}\n")
        make_run(f"bucket-{bucket}-2", ranks=2, options=f"  bucket: {bucket}\n")
    runs = shoal_analysis.load("runs/sync-[124]", "runs/slow-1", "runs/bucket-*", program=program())
    strong = next(s for s in figures.studies(runs) if not s.weak)
    curves = {name: [run.name for run in curve] for name, curve in strong.methods.items()}
    assert curves == {"sync, method.bucket unset": ["sync-1", "sync-2", "sync-4"], "sync, method.bucket 4": ["bucket-4-1", "bucket-4-2"],
                      "sync, method.bucket 8": ["bucket-8-1", "bucket-8-2"]}
    make_run("deep-1", ranks=1)
    write("runs/deep-1/run.yaml", read("runs/deep-1/run.yaml").replace("[8]", "[8, 8]"))
    found = pages.groups(shoal_analysis.load("runs/sync-1", "runs/slow-1", "runs/deep-1"), None)
    assert [[run.name for run in group.runs] for group in found] == [["sync-1", "slow-1"], ["deep-1"]]


def test_words():
    """Numbers have one notation, things their plural; what came after the last row of metrics.csv is told, and one row is a point."""
    import shoal_analysis
    from shoal_analysis import figures, page, report as pages, words
    assert figures.Numbers().format_ticks([1e-3, 1e-5, 0, 2e-7]) == ["10⁻³", "10⁻⁵", "0", "2×10⁻⁷"]
    assert figures.Numbers().format_ticks([1e-3, 0.25, 25000]) == ["0.001", "0.25", "25\u202f000"]
    assert [page.number(x).replace("\u202f", " ") for x in (583474e12, 1.5e-7, 12345.6, 1234.56, 10**12)] == [
        "5.835e17", "1.5e-7", "12 346", "1235", "1 000 000 000 000"]
    assert [words.counted(n, "epoch") for n in (0, 1, 1.5)] == ["0 epochs", "1 epoch", "1.5 epochs"]
    assert words.listed(["a", "b", "c"]) == "a, b and c" and words.listed(["a", "b", "c"], 1) == "a and 2 more"
    write("runs/sync-1/metrics.csv", f"{COLUMNS}\n1,10,1,0.9,0.43,0.5,0.1,9,0\n")
    write("runs/sync-1/status.json", json.dumps({"state": "stopped", "step": 35, "progress": {"loss": 0.3125}}))
    run = shoal_analysis.load("runs/sync-1")[0]
    assert pages.sentence(run).endswith("The last row of metrics.csv is of step 10; the run came to step 35, with a training loss of 0.3125 there.")
    assert pages.trained(run) == "3.5 epochs, 35 steps"
    loss = next(f for f in figures.training([run]) if f.name == "loss-steps")
    assert [line.get_marker() for line in loss.draw.axes[0].lines] == [".", "o"]
    steps = run._collected["ranks"]
    steps["forward_ns"], steps["wait_ns"] = steps["wall_ns"] - 1, 1
    del run.ranks
    assert "100\u202f% went into computing." in pages.sentence(run)


def test_refusals():
    """One line, the exit code of docs/exit-codes.md, and no file."""
    os.mkfifo("pipe")
    for code, args, words in ((7, ("runs/none",), "there is no run folder"), (2, ("runs/sync-2", "--attempt", "5"), "it has 1"),
                              (2, ("runs/sync-2", "--attempt", "x"), "--attempt"), (2, ("runs/sync-2", "--steps", "900:901"), "900:901"),
                              (2, ("runs/sync-2", "--steps", "5"), "100:120"), (7, ("runs/sync-2", "-o", "no/x.html"), "no/x.html"), (7, ("runs/sync-2", "-o", "pipe"), "pipe: it exists and is not a regular file"),
                              (2, ("runs/sync-2", "--targt", "1"), "--target"), (2, (), "arguments")):
        r = report(*args, code=code)
        assert words in r.stderr and r.stderr.count("\n") == 1 and "Traceback" not in r.stderr, said(r)
    os.mkdir("runs/sync-2/report.html")
    r = report("runs/sync-2", code=7)
    assert "sync-2/report.html: it exists" in r.stderr and r.stderr.endswith("; -o FILE writes it elsewhere\n"), said(r)
    os.rmdir("runs/sync-2/report.html")
    r = report("runs/sync-2", code=2, env={"SHOAL_PYTHON": "/no/python"})
    assert "/no/python cannot be started" in r.stderr and "apt install" in r.stderr
    bare = shutil.which("python3", path="/usr/bin:/bin")
    with open("bare", "w") as f:  # an interpreter without site-packages
        f.write(f'#!/bin/sh\nexec {bare} -S "$@"\n')
    os.chmod("bare", 0o755)
    r = report("runs/sync-2", code=2, env={"SHOAL_PYTHON": os.path.abspath("bare")})
    assert "needs h5py, numpy, pandas, matplotlib" in r.stderr and "install" in r.stderr and r.stderr.count("\n") == 1, said(r)
    assert not os.path.exists("runs/sync-2/report.html") and not [f for f in os.listdir("runs/sync-2") if ".tmp" in f]


def test_installed():
    """Where the program was moved with its share folder, it finds the package there."""
    os.makedirs("prefix/bin")
    shutil.copy(program(), "prefix/bin/shoal")
    r = run_process(["prefix/bin/shoal", "report", "runs/sync-2"], code=2, base=PLAIN_ENV)
    assert "cmake --install" in r.stderr
    source = os.path.realpath(f"{os.path.dirname(program())}/../../analysis")
    shutil.copytree(source, "prefix/share/shoal/analysis")
    run_process(["prefix/bin/shoal", "report", "runs/sync-2"], base=PLAIN_ENV)
    assert os.path.getsize("runs/sync-2/report.html") > 50_000


# ---- in a browser --------------------------------------------------------------------------------------------------------

PROBE = """(async () => {
  for (const d of document.querySelectorAll("details")) d.open = true;
  for (const t of document.querySelectorAll(".timeline")) { /* drawn when they come into sight */
    t.scrollIntoView();
    for (let i = 0; i < 500 && !t.dataset.ready; i++) await new Promise(r => setTimeout(r, 20));
  }
  const first = document.querySelector(".timeline"), line = first.timeline, canvas = first.querySelector("canvas.spans");
  const seen = { ready: document.querySelectorAll(".timeline[data-ready]").length, width: document.documentElement.scrollWidth,
                 small: [], outside: [] };
  const inked = () => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    return new Set(copy.getImageData(0, 0, canvas.width, canvas.height).data.filter((_, i) => i % 4 !== 3)).size;
  };
  line.showSteps(10, 11);
  seen.steps = [first.querySelector(".from").value, first.querySelector(".to").value];
  seen.colours = inked();
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + line.left + line.plot * 0.1, clientY: box.top + 5 }));
  seen.readout = first.querySelector(".readout").textContent;
  first.querySelector(".all").click();
  seen.all = inked();
  seen.span = [line.a, line.b];
  for (const svg of document.querySelectorAll("figure svg")) {
    const b = svg.getBoundingClientRect();
    if (b.width < 250 || b.height < 60) seen.small.push(svg.closest("figure").id);
    for (const t of svg.querySelectorAll("text")) { /* no text hangs out of its figure */
      const r = t.getBoundingClientRect();
      if (r.width && (r.left < b.left - 2 || r.right > b.right + 2 || r.top < b.top - 2 || r.bottom > b.bottom + 2)) seen.outside.push([svg.closest("figure").id, t.textContent]);
    }
  }
  return seen;
})()"""


@pytest.fixture(scope="module")
def chromium():
    if not browser.find():
        pytest.skip("no chromium")
    with browser.Browser() as b:
        yield b


@pytest.mark.parametrize("width, dark", ((1280, False), (1280, True), (390, False), (390, True)))
def test_browser(chromium, width, dark):
    """No error in the console, nothing wider than the window, timelines that draw, zoom and answer."""
    chromium.show("study.html", width, mobile=width < 500, dark=dark)
    assert width < 500 or chromium.evaluate("[...document.querySelectorAll('#summary .scroll')].every(t => t.scrollWidth <= t.clientWidth)")
    seen = chromium.evaluate(PROBE)
    assert chromium.faults == [] and seen["ready"] == 6, (chromium.faults, seen)
    assert seen["width"] <= width and not seen["small"] and not seen["outside"], seen
    assert seen["steps"] == ["10", "11"] and seen["colours"] > 5 and seen["all"] > 5, seen
    assert seen["readout"].startswith("rank 0, step 10: forward; 1.5 ms, from 30 ms"), seen
    assert seen["span"][0] == 0 and seen["span"][1] == pytest.approx(STEPS * 0.003), seen
    channels = [int(c) for c in re.findall(r"\d+", chromium.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]]
    assert (max(channels) < 60) if dark else (min(channels) > 240), channels


def test_print(chromium):
    """Printed pages have the figures, on white also where the screen is dark."""
    chromium.show("study.html", 688, dark=True, print_=True)
    shown = chromium.evaluate("[document.querySelectorAll('figure svg').length, document.documentElement.scrollWidth, "
                              "getComputedStyle(document.body).backgroundColor]")
    assert shown == [Read(read("study.html")).tags["figure"], 688, "rgb(254, 254, 254)"], shown
    chromium.pdf("study.pdf")
    with open("study.pdf", "rb") as f:
        pdf = f.read()
    assert pdf.startswith(b"%PDF") and 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 30 and chromium.faults == []

