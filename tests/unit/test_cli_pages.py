"""Manual pages and completions know every verb, flag and option: compared with what -h and --json say, and tried in real shells."""
import functools
import json
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from harness import PLAIN_ENV, program, run

PAGES = {}


@functools.cache
def shoal(*args):
    return run([program(), *args], base=PLAIN_ENV, timeout=60).stdout


def verbs_of(*above):
    """The verbs that -h lists, with those of their own in place of a verb that has any: ("data", "synth"), ("train",), ..."""
    for name in re.findall(r"^  ([a-z]+) ", shoal(*above, "-h").split("\n\n")[1], re.M):
        if "VERB" in shoal(*above, name, "-h").splitlines()[0]:
            yield from verbs_of(*above, name)
        else:
            yield *above, name


def flags_of(verb):
    """The forms of each flag in a help page, and what stands for its value: (["-n", "--ranks"], "RANKS")."""
    page = shoal(*verb, "-h").split("\noptions:\n")[1].split("\nexamples:")[0]
    for line in re.findall(r"^  (-.*?)(?:  .*)?$", page, re.M):
        forms, value = re.fullmatch(r"((?:-[\w-]+(?:, )?)+)(?: (\S+))?", line).groups()
        yield forms.split(", "), value


def options():
    """Every option of a run file: name to its choices, in all models and methods."""
    tables = [json.loads(shoal("config", "--json"))["options"]]
    for kind in ("models", "methods"):
        tables += [m["options"] for m in json.loads(shoal(kind, "--json"))[kind]]
    found = {}
    for o in (o for table in tables for o in table):
        words = ["true", "false"] if o["type"] == "bool" else o["choices"]
        found.setdefault(o["name"], set()).update(words)
    return found


VERBS = []


@pytest.fixture(autouse=True)
def pages(work):
    if not PAGES:
        run([program(), "manual", "man"], base=PLAIN_ENV)
        for folder, _, names in os.walk("man"):
            for name in names:
                with open(os.path.join(folder, name)) as f:
                    PAGES[name] = f.read()
        VERBS.extend(verbs_of())
        assert len(VERBS) >= 20 and ("data", "import") in VERBS


def plain(page):
    """A page without the marks of troff."""
    page = re.sub(r"\\f[BIR]|\\&", "", page)
    for mark, sign in ((r"\-", "-"), (r"\(ga", "`"), (r"\(aq", "'"), (r"\(ha", "^"), (r"\(ti", "~"), (r"\e", "\\")):
        page = page.replace(mark, sign)
    return page


def test_manual():
    """A page per verb with its usage and flags, and one with every option and its words; nothing that a formatter complains of."""
    assert set(PAGES) == {"shoal.1", "shoal-run.5"} | {f"shoal-{v[0]}.1" for v in VERBS}
    for verb in VERBS:
        page = plain(PAGES[f"shoal-{verb[0]}.1"])
        assert f"\n.BR shoal-{verb[0]} (1)\n" in plain(PAGES["shoal.1"])
        helped = shoal(*verb, "-h")
        assert helped == shoal("help", *verb)
        assert helped.split("\n")[0].removeprefix("usage: ") in page
        part = page.split(f".SS shoal {' '.join(verb)}\n")[1].split("\n.SS")[0] if len(verb) > 1 else page
        for forms, value in flags_of(verb):
            assert f"\n.TP\n{', '.join(forms)}{' ' + value if value else ''}\n" in part, (verb, forms)
    page = plain(PAGES["shoal-run.5"])
    for name, words in options().items():
        entries = [e.split("\n.")[0] for e in page.split(f"\n.TP\n{name}\n")[1:]]
        assert entries and all(any(re.search(rf"\b{re.escape(w)}\b", e) for e in entries) for w in words), name


@pytest.mark.parametrize("command", (["mandoc", "-Tlint"], ["groff", "-ww", "-man", "-Tutf8", "-z"]), ids=("mandoc", "groff"))
def test_formatters(command):
    """They have nothing to complain of."""
    if not shutil.which(command[0]):
        pytest.skip(f"no {command[0]}")
    for name in PAGES:
        os.makedirs(f"man{name[-1]}", exist_ok=True)
        with open(f"man{name[-1]}/{name}", "w") as f:
            f.write(PAGES[name])
        r = run([*command, f"man{name[-1]}/{name}"], stderr=subprocess.STDOUT)
        assert r.stdout == ""


def complete(*lines):
    """What bash offers for each command line, whose last word is being typed.  Words are split as bash does it, at = too."""
    script = "source <(" + program() + " completion bash); compopt() { :; }\n"
    for line in lines:
        words = re.findall(r"=|[^\s=]+", line) + ([""] if line[-1] in " " else [])
        quoted = " ".join("'" + w + "'" for w in words)
        script += f"COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}; _shoal; echo \"${{COMPREPLY[*]}}\"\n"
    r = run(["bash", "--norc", "-c", script], base={**PLAIN_ENV, "LC_ALL": "C"})
    assert r.stderr == ""
    return [line.split() for line in r.stdout.splitlines()]


def test_bash_tables():
    """What bash offers is what -h and --json say, no more and no less."""
    flags = {v: [f for forms, _ in flags_of(v) for f in forms] for v in VERBS}
    offered = complete(*(f"shoal {' '.join(v)} -" for v in VERBS))
    for verb, words in zip(VERBS, offered):
        assert sorted(words) == sorted(flags[verb]), verb
    groups = {v[:1] for v in VERBS if len(v) > 1}
    for at, words in zip([(), *groups], complete("shoal ", *(f"shoal {g[0]} " for g in groups))):
        assert set(words) == {v[len(at)] for v in VERBS if v[:len(at)] == at}
    known = options()
    assert {w[:-1] for w in complete("shoal train r.yaml --set ")[0]} == set(known)
    names = {"model.name": "models", "method.name": "methods"}
    for option, words in zip(known, complete(*(f"shoal launch -n 2 r.yaml --set {o}=" for o in known))):
        expected = known[option]
        if option in names:
            expected = {m["name"] for m in json.loads(shoal(names[option], "--json"))[names[option]]}
        if option not in ("data.file", "run.dir") and expected:
            assert set(words) == expected, option


def test_bash_values():
    """Words and files where they belong; a flag's value is no argument."""
    for name in ("a.yaml", "b.yml", "c.h5"):
        open(name, "w").close()
    os.mkdir("d")
    os.makedirs("man", exist_ok=True)
    cases = {"shoal launch ": {"a.yaml", "b.yml", "d", "man"}, "shoal launch -n 2 ": {"a.yaml", "b.yml", "d", "man"},
             "shoal train a.yaml --resume ": {"auto", "never", "a.yaml", "b.yml", "c.h5", "d", "man"},
             "shoal train --resume=au": {"auto"}, "shoal trace export r --format ": {"json", "perfetto"},
             "shoal data synth ": {"glyphs", "blobs", "text"}, "shoal data synth -o c.h5 gl": {"glyphs"},
             "shoal data import csv ": {"a.yaml", "b.yml", "c.h5", "d", "man"}, "shoal completion ": {"bash", "zsh"},
             "shoal train a.yaml --set data.file=c": {"c.h5"}, "shoal topo ": set(), "shoal methods da": {"daso"},
             "shoal report r --figures ": {"d", "man"}, "shoal launch -n ": set(), "shoal --v": {"--version"}}
    for (line, expected), words in zip(cases.items(), complete(*cases)):
        assert set(words) == expected, line


def test_zsh_tables():
    """The script for zsh has every flag in the function of its verb, and every option with its words."""
    script = shoal("completion", "zsh")
    for verb in VERBS:
        function = script.split(f"\n_shoal-{'-'.join(verb)}()\n")[1].split("\n}\n")[0]
        for form in (f for forms, _ in flags_of(verb) for f in forms):
            assert form in ("-h", "--help") or re.search(rf"'(\([^)]*\))?\*?{form}[=+]?\[", function), (verb, form)
    function = script.split("\n_shoal_setting()\n")[1].split("\n}\n")[0]
    for name, words in options().items():
        assert f"\n    '{name}:" in function
        assert not words or words <= set(re.search(rf"\({re.escape(name)}\) (.*) ;;", function).group(1).split())


def type_in(shell, env, keys):
    """Keys typed in an interactive shell, each after what the one before it has shown; what the terminal has shown in the end."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(shell[0], shell, env)
    shown = b""
    try:
        for key, until in keys:
            os.write(terminal, key.encode())
            seen, end = len(shown), time.monotonic() + 60
            while until.encode() not in shown[seen:]:
                ready = select.select([terminal], [], [], max(0, end - time.monotonic()))[0]
                assert ready, f"{until} did not come: {shown.decode()}"
                shown += os.read(terminal, 4096)
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def test_typed_in_bash():
    """The Tab key in a real bash: a verb, a flag, an option up to its =, and a word after it."""
    env = {**PLAIN_ENV, "TERM": "dumb", "PS1": "> ", "HISTFILE": "", "PATH": f"{os.path.dirname(program())}:{os.environ['PATH']}"}
    type_in(["bash", "--norc", "-i"], env,
            [("source <(shoal completion bash); echo read''y\r", "ready"), ("shoal trai\t", "train "),
             ("--s\t", "--set "), ("optim.sched\t", "optim.schedule="), ("cos\t", "cosine"), ("\x15echo 'do'ne\r", "done")])


def test_typed_in_zsh():
    """The same in zsh."""
    if not shutil.which("zsh"):
        pytest.skip("no zsh")
    env = {**PLAIN_ENV, "TERM": "dumb", "PS1": "> ", "HOME": os.getcwd(), "PATH": f"{os.path.dirname(program())}:{os.environ['PATH']}"}
    type_in(["zsh", "-f", "-i"], env,
            [("autoload -U compinit; compinit -u -D; source <(shoal completion zsh); echo read''y\r", "ready"), ("shoal trai\t", "train "),
             ("--all\t", "--allow-faults "), ("--set optim.sched\t", "optim.schedule="), ("cos\t", "cosine"), ("\x15echo 'do'ne\r", "done")])
