"""The commands of pandas that refusals of `shoal data import csv` print: run as they stand, they make the table that was meant."""
import os
import re
import shlex
import shutil
import subprocess
from datetime import date, timedelta

import h5py
import numpy as np
import pytest

from harness import PLAIN_ENV, assert_one_error, program, run
from importing import load, names


def refused(text, words, *args):
    """The command of the refusal of that table, after it was run: its output is the file or folder NEW."""
    if os.path.isdir("NEW"):
        shutil.rmtree("NEW")
    elif os.path.exists("NEW"):
        os.remove("NEW")
    with open("t.csv", "w", newline="") as f:
        f.write(text)
    r = load("csv", "t.csv", *args, code=7)
    assert_one_error(r, words)
    command = re.search(r"as (\S*python3 -c '[^']*' t.csv NEW) does", r.stderr)[1]
    subprocess.run(command, shell=True, check=True)
    return r.stderr


def advised(stderr):
    """The options of the import that a refusal prints behind its command."""
    return shlex.split(re.search(r"and shoal data import csv NEW(.*?) -o NEW.h5", stderr)[1])


def rows(split="train"):
    with h5py.File("t.h5") as f:
        return [(*x, y) for x, y in zip(f[f"{split}/x"][:].tolist(), f[f"{split}/y"][:].tolist())]


SEX, PORT = ("male", "female"), ("S", "C", "")


@pytest.mark.parametrize("sep, header, label", ((",", True, True), (";", True, False), ("\t", False, True)))
def test_words(sep, header, label):
    """Columns with few words become columns of 1 and 0, names are left out, and the label is the last column."""
    table = [[f"Doe {i}", f"{i}.5", SEX[i % 2], PORT[i % 3], str(i % 2)] for i in range(40)]
    head = ["name", "age", "sex", "port", "out"]
    if not label:
        table, head = [[row[4], *row[:4]] for row in table], [head[4], *head[:4]]
    text = "".join(sep.join(row) + "\n" for row in [head] * header + table)
    words = f"give each value of columns {'3, 4' if label else '4, 5'} a column of 1 and 0 and leave out column {1 if label else 2}"
    stderr = refused(text, words, *(() if label else ("--label", "out")))
    assert advised(stderr) == ["--label", "out" if header else "column5"]
    load("csv", "NEW", "--test-share", "0", *advised(stderr))
    ports = sorted(PORT)
    assert rows() == [(i + 0.5, i % 2, (i + 1) % 2, *(PORT[i % 3] == p for p in ports), i % 2) for i in range(40)]


def test_text():
    """A text becomes columns of its words, the most frequent ones first; a header above texts alone is found."""
    text = "review,sentiment\n" + "".join(f'"A {("bad", "good")[i % 2]} film, number {i}",{("neg", "pos")[i % 2]}\n' for i in range(40))
    refused(text, 'is text; features are numbers: give each of the 1000 most frequent words of column 1, "review" a column of 1 and 0, as')
    load("csv", "NEW", "--test-share", "0")
    assert names() == (["neg", "pos"], 2)
    with h5py.File("t.h5") as f:
        assert f.attrs["feature_names"].decode().split("\n") == ["word_a", "word_film", "word_number", "word_bad", "word_good"]
        assert f["train/x"][:, :5].tolist() == [[1, 1, 1, (i + 1) % 2, i % 2] for i in range(40)]


def test_header_above_words():
    """The first row of a table of words: a header if its words come only there, and others come again."""
    text = "".join(f"{'ab'[i % 2]}\tsome words of message {i}\n" for i in range(40))
    for header, words in (("", "no header"), ("kind\ttext\n", "the first row is the header")):
        with open("t.csv", "w") as f:
            f.write(header + text)
        assert words in load("csv", "t.csv", "--label", "1", code=7).stdout


DATES = [date(2003, 1, 1) + timedelta(days=3 * i) for i in range(40)]
DAYS = [(d - date(1970, 1, 1)).days for d in DATES]


@pytest.mark.parametrize("form, values", [
    *((form, [d.strftime(form) for d in DATES]) for form in ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y-%m-%d", "%m/%d/%y", "%B %d, %Y", "%d %b %Y")),
    ("%d-%m-%Y %H:%M", [d.strftime("%d-%m-%Y 12:00") for d in DATES]), ("%I:%M %p", [d.strftime("%m/%d/%Y 06:00 PM") for d in DATES]), ("%I-%p", [d.strftime("%Y-%m-%d 06-PM") for d in DATES])])
def test_dates(form, values):
    """Day and month are never taken for each other: the order is the one that all rows fit."""
    stderr = refused("day,a,y\n" + "".join(f'"{v}",{i},{i % 2}\n' for i, v in enumerate(values)), "looks like a date; features are numbers: write days since 1970")
    assert ("in the order that all rows fit" in stderr) == (form not in ("%Y-%m-%d", "%d.%m.%Y", "%B %d, %Y", "%d %b %Y", "%I-%p"))  # with points the day is in front
    load("csv", "NEW", "--test-share", "0")
    hours = {"%d-%m-%Y %H:%M": 12, "%I:%M %p": 18, "%I-%p": 18}.get(form, 0)
    assert rows() == [(d + hours / 24, i, i % 2) for i, d in enumerate(DAYS)]


def test_dates_that_may_be_either():
    """Where both orders fit all rows the day is in front, which is told with what to change."""
    stderr = refused("day,a,y\n" + "".join(f"0{i % 9 + 1}/05/2003,{i},{i % 2}\n" for i in range(40)), "where both do, the day is in front: for the month, exchange")
    load("csv", "NEW", "--test-share", "0", *advised(stderr))
    assert rows() == [((date(2003, 5, i % 9 + 1) - date(1970, 1, 1)).days, i, i % 2) for i in range(40)]


GAPS = ("NA", "?", "", "null")


@pytest.mark.parametrize("values", ([d.strftime("%Y-%m-%d") for d in DATES], [d.strftime("%d-%b-%Y") for d in DATES],
                                    [d.strftime("%Y-%m-%d" if i % 2 else "%m/%d/%Y") for i, d in enumerate(DATES)]))
def test_dates_with_gaps(values):
    """Marks of gaps stay gaps, a month may have a name, and a column may have been joined of two forms."""
    stderr = refused("day,a,y\n" + "".join(f"{GAPS[i % 4] if i % 5 == 2 else v},{i},{i % 2}\n" for i, v in enumerate(values)), "looks like a date")
    assert advised(stderr) == ["--label", "y", "--missing", "mean"]
    load("csv", "NEW", "--test-share", "0", "--missing", "drop")
    assert rows() == [(d, i, i % 2) for i, d in enumerate(DAYS) if i % 5 != 2]


def test_times():
    refused("at,y\n" + "".join(f"{i // 2}:{i % 2 * 30:02}:00,{i % 2}\n" for i in range(40)), "looks like a time; features are numbers: write hours of the day in column 1")
    load("csv", "NEW", "--test-share", "0")
    assert rows() == [(i / 2, i % 2) for i in range(40)]


@pytest.mark.parametrize("column, values, words", (("split", ("train", "train", "valid", "test"), "test"), ("Usage", ("Training", "Training", "PublicTest"), "PublicTest"),
                                                   ("is_train", ("True", "True", "False"), "False"), ("isTest", ("0", "0", "1"), "1")))
def test_splits(column, values, words):
    """A column that says which rows are for tests is neither feature nor label."""
    n = len(values)
    text = f"a,b,kind,{column}\n" + "".join(f"{i},{i % 7},{i // n % 2},{values[i % n]}\n" for i in range(40))
    stderr = refused(text, f'column 4, "{column}" says which rows are for tests: make a table of each part that column 4, "{column}" tells, as', "--label", "kind")
    command = re.search(r"shoal (data import csv NEW --label kind -o NEW.h5)", stderr)[1]
    run([program(), *command.split()], base=PLAIN_ENV, timeout=30)
    os.rename("NEW.h5", "t.h5")
    train = "Training" if column == "Usage" else {"is_train": "True", "isTest": "0"}.get(column, "train")
    assert rows() == [(i, i % 7, i // n % 2) for i in range(40) if values[i % n] == train]
    assert rows("test") == [(i, i % 7, i // n % 2) for i in range(40) if values[i % n] == words]
    load("csv", "t.csv", "--label", "kind", "--drop", column)


@pytest.mark.parametrize("args", ((), ("--label", "emotion")))
def test_pixels(args):
    """Numbers with blanks between them in one field, beside a column that tells the split: images of both splits by one command."""
    text = "emotion,pixels,Usage\n" + "".join(f"{i // 3 % 2},{' '.join(str(i * k % 256) for k in range(16))},{('Training', 'Training', 'PrivateTest')[i % 3]}\n"
                                               for i in range(42))
    stderr = refused(text, 'column 3, "Usage" says which rows are for tests: give each number of the lists in column 2, "pixels" a column and make a table', *args)
    assert advised(stderr) == ["--label", "emotion", "--shape", "1,4,4"]
    load("csv", "NEW", *advised(stderr))
    with h5py.File("t.h5") as f:
        for split, third in (("train", (0, 1)), ("test", (2,))):
            numbers = [i for i in range(42) if i % 3 in third]
            assert f[f"{split}/x"].shape == (len(numbers), 1, 4, 4) and f[f"{split}/x"].dtype == np.uint8
            assert f[f"{split}/x"][:].reshape(-1, 16).tolist() == [[i * k % 256 for k in range(16)] for i in numbers]
            assert f[f"{split}/y"][:].tolist() == [i // 3 % 2 for i in numbers]


def test_empty_labels():
    text = 'a,"b, c",y\n' + "".join(f"{i},{i % 7},{'' if i % 8 == 5 else i % 2}\n" for i in range(40))
    refused(text, "t.csv:7:5: the label is empty (column 3): name the right column with --label, or remove all such rows, as ")
    load("csv", "NEW", "--test-share", "0")
    assert rows() == [(i, i % 7, i % 2) for i in range(40) if i % 8 != 5]


def test_long_ids():
    """Labels that doubles do not tell apart are classes of their own, in the order of their numbers; zeros in front make no other number."""
    ids = ("9912140633506421", "9912140633506420", "-9912140633506421", "468768768833943384", "0468768768833943384")
    with open("t.csv", "w") as f:
        f.write("a,y\n" + "".join(f"{i},{ids[i % 5]}\n" for i in range(40)))
    r = load("csv", "t.csv", "--test-share", "0")
    assert names() == (["-9912140633506421", "9912140633506420", "9912140633506421", "468768768833943384"], 4)
    assert [y for _, y in rows()] == [(2, 1, 0, 3, 3)[i % 5] for i in range(40)]
    assert r.stderr.count("are equal as numbers") == 1 and 'labels "468768768833943384" and "0468768768833943384" are equal' in r.stderr


def test_arff_behind_remarks():
    with open("iris.csv", "w") as f:
        f.write("% 1. Title: Iris\n%\n\n@RELATION iris\n@attribute a numeric\n@attribute class {x,y}\n@DATA\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(40)))
    r = load("csv", "iris.csv", code=7)
    assert_one_error(r, "iris.csv is an ARFF table, of Weka")
    subprocess.run(re.search(r"sed .* >NEW.csv", r.stderr)[0], shell=True, check=True)
    load("csv", "NEW.csv", "--test-share", "0")
    assert rows() == [(i, i % 2) for i in range(40)]


def test_text_in_utf_16():
    with open("t.txt", "wb") as f:
        f.write(("word " * 100).encode("utf-16"))
    assert "t.txt is UTF-16 text, and each of its bytes becomes a token" in load("text", "t.txt").stderr
    with open("t.txt", "wb") as f:
        f.write(("wörd " * 100).encode("latin-1"))
    assert load("text", "t.txt").stderr == ""


def test_cure_of_a_cure():
    """A command that reads NEW writes NEW2, as the shell would empty the file that it is to read; and no command overwrites what is
    there, be it a table or the data set NEW2.h5 that somebody trains on."""
    with open("NEW", "w") as f:
        f.write("a,b,y\n" + "".join(f'"${i}",{i % 7},{i % 2}\n' for i in range(40)))
    subprocess.run(re.search(r"as (\S*python3 -c '[^']*' NEW NEW2) does, and shoal data import csv NEW2 ", load("csv", "NEW", code=7).stderr)[1], shell=True, check=True)
    load("csv", "NEW2", "--test-share", "0")
    assert rows() == [(i, i % 7, i % 2) for i in range(40)]
    os.rename("NEW", "u.csv")
    os.remove("NEW2")
    for taken, free in (("NEW.h5", "NEW2"), ("NEW2", "NEW3")):
        with open(taken, "w") as f:
            f.write("some work")
        words = load("csv", "u.csv", code=7).stderr
        assert re.search(f"u.csv {free} does, and shoal data import csv {free} .*-o {free}.h5", words), words


@pytest.mark.parametrize("names", (("X_train.npy", "y_train.npy", "X_test.npy", "y_test.npy"), ("s.npz",)))
@pytest.mark.parametrize("labels", (np.where(np.arange(40) % 3, "pos", "neg"), np.where(np.arange(40) % 3, 1, -1)))
def test_labels_of_numpy(names, labels):
    """Labels that are texts, or -1 and 1, become the same class numbers in both splits."""
    x = np.arange(80).reshape(40, 2)
    arrays = {"X_train": x, "y_train": labels, "X_test": x[:9], "y_test": labels[:9]}
    if len(names) == 1:
        np.savez(names[0], **arrays)
    else:
        for name in names:
            np.save(name, arrays[name[:-4]])
    r = load("npy", *names, code=7)
    subprocess.run(re.search(r'as (\S*python3 -c ".*") does', r.stderr)[1], shell=True, check=True)
    load("npy", *(f"2-{name}" if name[0] in "sy" else name for name in names))
    assert rows() == [(*x[i], int(i % 3 > 0)) for i in range(40)] and rows("test") == [(*x[i], int(i % 3 > 0)) for i in range(9)]


def test_records_and_objects_of_numpy():
    x, y = np.arange(80.).reshape(40, 2), np.arange(40) % 2
    np.savez("r.npz", X_train=np.array([tuple(row) for row in x], dtype=[("a", "f4"), ("b", "f4")]), y_train=y)
    np.savez("o.npz", X_train=x.astype(object), y_train=y)
    np.save("d.npy", {"x": x.tolist(), "y": y}, allow_pickle=True)
    for name, words, made in (("r.npz", "structured data", "2-r.npz"), ("o.npz", "if you trust who made it", "2-o.npz"), ("d.npy", "if you trust", "2-d.npz")):
        r = load("npy", name, code=7)
        assert words in r.stderr
        subprocess.run(re.search(r'as (\S*python3 -c ".*") does', r.stderr)[1], shell=True, check=True)
        load("npy", made, "--test-share", "0")
        assert rows() == [(*x[i], i % 2) for i in range(40)]


def test_signs_in_hdf5():
    y = np.where(np.arange(40) % 3, 1, -1)
    with h5py.File("t.h5", "w") as f:
        f["train/x"], f["train/y"], f["test/x"], f["test/y"] = np.arange(80.).reshape(40, 2), y, np.arange(10.).reshape(5, 2), y[1:3].repeat(3)[:5]
    r = run([program(), "data", "inspect", "t.h5"], base=PLAIN_ENV, code=7)
    assert_one_error(r, "if -1 and 1 are the two classes, renumber them from 0: ")
    subprocess.run(re.search(r'0: (\S*python3 -c ".*")', r.stderr)[1], shell=True, check=True)
    run([program(), "data", "inspect", "t.h5"], base=PLAIN_ENV)
    assert [y for *_, y in rows()] == [int(i % 3 > 0) for i in range(40)] and [y for *_, y in rows("test")] == [1] * 5


def known(r):
    """What the command that makes a model's columns of a new table says, after it was run."""
    command, made = re.search(r"as (\S*python3 -c '[^']*' new.csv model.h5 (NEW2?)) does, and shoal data import csv \2 ", r.stderr).groups()
    assert not os.path.exists(made)  # such as the table that the model was trained on
    told = subprocess.run(command, shell=True, check=True, stderr=subprocess.PIPE, text=True).stderr
    os.replace(made, "NEW")
    return told


def test_table_for_a_model():
    """What was made of columns with words is made of a new table's likewise, also where some words do not come, or others do."""
    text = "sex,about,a,y\n" + "".join(f"{SEX[i % 2]},A {('bad', 'good')[i % 2]} film of many {i},{i},{i % 2}\n" for i in range(40))
    stderr = refused(text, 'give each value of column 1, "sex" a column of 1 and 0 and give each of the 1000 most frequent words of column 2, "about" a column')
    load("csv", "NEW", "--test-share", "0", *advised(stderr))
    os.rename("t.h5", "model.h5")
    with open("new.csv", "w") as f:
        f.write("about,a,sex\nNo good film,7,female\nOf bad many and others,8,none\n")
    r = load("csv", "new.csv", "--like", "model.h5", "--label", "none", code=2)
    assert_one_error(r, ": make columns of 1 and 0 of its words, as those of the model were made "
                     '("none" in column 3, "sex" is not known to the model, and is 0 in all of them), as ')
    assert "empty, with --missing" not in r.stderr
    said = known(r)
    assert "sex 'none' is not known to the model" in said and said.count("\n") == 1
    load("csv", "NEW", "--like", "model.h5", "--label", "none")
    with h5py.File("t.h5") as f:
        made = [dict(zip(f.attrs["feature_names"].decode().split("\n"), row)) for row in f["train/x"][:].tolist()]
    assert [sorted(k for k, v in row.items() if v) for row in made] == [["a", "sex_female", "word_film", "word_good"], ["a", "word_bad", "word_many", "word_of"]]


def test_label_in_front():
    """Images behind their labels, without a header: the last pixel is the same in all rows."""
    with open("t.csv", "w") as f:
        f.write("".join(f"{i % 10},{i * 37 % 256},{i * 7 % 11},0\n" for i in range(60)))
    assert "if the label is column 1, give --label 1" in load("csv", "t.csv").stderr
    assert "column 1" not in load("csv", "t.csv", "--label", "1").stderr


def test_short_names_and_lists():
    """`x_tr` and `y_te` are for training and for tests, `outputs` are labels, and a list of files is no text."""
    x, y = np.arange(80.).reshape(40, 2), np.arange(40) % 2
    with h5py.File("a.h5", "w") as f:
        f["x_tr"], f["y_tr"], f["x_te"], f["y_te"] = x, y, x[:6] + 100, y[:6]
    assert "train/x is /x_tr" in (out := run([program(), "data", "inspect", "a.h5"], base=PLAIN_ENV).stdout) and "test/y is /y_te" in out
    with h5py.File("b.h5", "w") as f:
        f["inputs"], f["outputs"] = x, y
    assert "train/y is /outputs" in run([program(), "data", "inspect", "b.h5"], base=PLAIN_ENV).stdout
    np.savez("c.npz", x_tr=x, y_tr=y, x_te=x[:6], y_te=y[:6])
    load("npy", "c.npz")
    assert len(rows()) == 40 and len(rows("test")) == 6
    np.savez("d.npz", Xtr=x, Ytr=y, Xte=x[:7], Yte=y[:7])
    load("npy", "d.npz")
    assert len(rows()) == 40 and len(rows("test")) == 7
    with open("list.txt", "w") as f:
        f.write("a.h5\nb.h5\n")
    assert_one_error(run([program(), "data", "inspect", "list.txt"], base=PLAIN_ENV, code=7), "list.txt is a list of files: data.file takes them as they are")


def test_label_twice():
    """The number of a class beside its name, or the other one of two columns one-hot; not a feature that only goes with the class."""
    def table(other):
        return "a,b,kind\n" + "".join(f"{i},{other(i)},{('cat', 'dog', 'ant')[i % 3]}\n" for i in range(40))

    for other, warned in ((lambda i: i % 3 * 7, True), (lambda i: i % 3 + (i == 30), False), (lambda i: min(i % 3, 1), False)):
        with open("t.csv", "w") as f:
            f.write(table(other))
        words = 'column 2, "b" has one value for each class: if it is the label in another form, give --drop 2'
        assert (words in load("csv", "t.csv").stderr) == warned
    with open("t.csv", "w") as f:
        f.write("a,up,down\n" + "".join(f"{i},{i % 2},{1 - i % 2}\n" for i in range(40)))
    assert 'column 2, "up" has one value for each class' in load("csv", "t.csv", "--label", "down").stderr


MIXED = "id,name,when,at,ok,price,share,mass,kind,note,score,y\n" + "".join(
    f'n{i},Doe {i},{i % 28 + 1}/2/2020,{i % 12}:30,{("yes", "no")[i % 2]},"${1000 + i:,}.5",{i}%,{i} kg,{("k", "l", "m")[i % 3]},'
    f'note {i} says {("bad", "good")[i % 2]},{"" if i % 8 == 0 else i / 2},{"" if i == 33 else i % 2}\n' for i in range(40))


def test_all_kinds_at_once():
    """One command makes numbers of words, texts, dates, times, truth values and numbers with signs, and one import takes what it made."""
    stderr = refused(MIXED, 't.csv:2:1: "n0" in column 1, "id" is not a number; features are numbers: give each value of column 9, "kind"')
    for words in ('write hours of the day in column 4, "at"', "leave the numbers alone in columns 6, 7, 8", 'write 1 and 0 in column 5, "ok"',
                  "leave out columns 1, 2, whose words hardly come again", "rows without a label are left out"):
        assert words in stderr
    assert advised(stderr) == ["--label", "y", "--missing", "mean"]
    r = load("csv", "NEW", *advised(stderr), "--test-share", "0")
    assert "features: word_note, word_says, word_bad, word_good, when, ..., score" in r.stdout
    days = (date(2020, 2, 1) - date(1970, 1, 1)).days
    halves = [i / 2 for i in range(40) if i % 8 and i != 33]
    expected = [(1, 1, (i + 1) % 2, i % 2, days + i % 28, i % 12 + 0.5, (i + 1) % 2, 1000.5 + i, i, i, *(i % 3 == k for k in range(3)),
                 sum(halves) / len(halves) if i % 8 == 0 else i / 2, i % 2) for i in range(40) if i != 33]
    assert np.array(rows()) == pytest.approx(np.array(expected), rel=1e-6)


@pytest.mark.parametrize("write", (lambda v: f"RM{v:,}.25", lambda v: f"{v}.25 CHF", lambda v: f"R$ {v}.25", lambda v: f"{v}.25€", lambda v: f"-${-v}.25" if v < 0 else f"${v}.25"))
def test_money(write):
    """Signs in front of sums and behind them, also with a label that has them and must not change."""
    stderr = refused("a,cost,kind\n" + "".join(f'{i % 7},"{write(900 + 10 * i)}",{("$", "RM")[i % 2]}\n' for i in range(40)), "leave the numbers alone in column 2")
    load("csv", "NEW", *advised(stderr), "--test-share", "0")
    assert rows() == [(i % 7, 900.25 + 10 * i, i % 2) for i in range(40)] and names() == (["$", "RM"], 2)


def test_gap_before_words():
    """A gap in the first row does not hide what else must be done."""
    stderr = refused("a,sex,y\n" + "".join(f"{i or ''},{SEX[i % 2]},{i % 2}\n" for i in range(40)), "is empty, which --missing mean fills, and 1 other column holds no numbers")
    load("csv", "NEW", *advised(stderr), "--test-share", "0")
    assert rows() == [(i or 20, i % 2, (i + 1) % 2, i % 2) for i in range(40)]


@pytest.mark.parametrize("folders", (False, True))
def test_words_in_several_files(folders):
    """Columns are made of the words of all files, and each file stays one, under a name that tells its split."""
    files = {"train/t.csv" if folders else "train.csv": range(40), "test/t.csv" if folders else "test.csv": range(2, 8)}
    for name, numbers in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "w") as f:
            f.write("a,c,y\n" + "".join(f"{i},{'xyzw'[i % 4] if name[1] == 'r' else 'xv'[i % 2]},{i % 2}\n" for i in numbers))
    stderr = load("csv", *files, code=7).stderr
    subprocess.run(re.search(r"as (\S*python3 -c '[^']*' \S+ \S+ NEW) does", stderr)[1], shell=True, check=True)
    load("csv", "NEW", *advised(stderr))
    words = ("v", "w", "x", "y", "z")
    assert rows() == [(i, *("xyzw"[i % 4] == w for w in words), i % 2) for i in range(40)]
    assert rows("test") == [(i, *("xv"[i % 2] == w for w in words), i % 2) for i in range(2, 8)]


def test_words_without_a_header():
    """Columns get names, by which those of a new table without a header are found, too."""
    text = "".join(f"{i}.5,{'xyz'[i % 3]},{i % 2}\n" for i in range(40))
    stderr = refused(text, "give each value of column 2 a column of 1 and 0, as")
    load("csv", "NEW", *advised(stderr), "--test-share", "0")
    os.rename("t.h5", "model.h5")
    with open("new.csv", "w") as f:
        f.write("7.5,z,1\n8.5,x,0\n")
    assert known(load("csv", "new.csv", "--like", "model.h5", code=2)) == ""
    load("csv", "NEW", "--like", "model.h5")
    assert rows() == [(7.5, 0, 0, 1, 1), (8.5, 1, 0, 0, 0)]


def test_words_to_be_predicted():
    with open("t.csv", "w") as f:
        f.write("a,c\n" + "".join(f"{i},{'xyz'[i % 3]}\n" for i in range(40)))
    stderr = load("csv", "t.csv", "--label", "none", code=7).stderr
    assert "for predictions by a model give --like RUN" in stderr and advised(stderr) == ["--label", "none"]


def test_slips():
    """All rows with something else among numbers are told, and removed, at once; gaps beside them are told."""
    def table(slips):
        return "a,b,y\n" + "".join(f"{'oops' if i in slips else i},{'' if i == 9 else 'x' if i + 1 in slips else i % 7},{i % 2}\n" for i in range(400))

    with open("t.csv", "w") as f:
        f.write(table((5, 50, 60)))
    stderr = load("csv", "t.csv", code=7).stderr
    assert "the fields above it are: so it is in 6 rows (lines 6, 7, 51, 52, 61, 62): correct them" in stderr
    assert "; --missing mean fills 1 other field without a value" in stderr
    subprocess.run(re.search(r"as (sed '6d;7d.*' t.csv >NEW) does", stderr)[1], shell=True, check=True)
    load("csv", "NEW", "--missing", "drop", "--test-share", "0")
    assert rows() == [(i, i % 7, i % 2) for i in range(400) if i not in (4, 5, 9, 49, 50, 59, 60)]
    refused(table(range(100, 130)), "so it is in 31 rows (lines 101, 102,")
    load("csv", "NEW", "--missing", "drop", "--test-share", "0")
    assert rows() == [(i, i % 7, i % 2) for i in range(400) if i != 9 and not 99 <= i < 130]


def test_several_labels():
    """Labels of which a sample has several are told with the targets that they can be."""
    with open("t.csv", "w") as f:
        f.write("a,b,rain,wind,snow\n" + "".join(f"{i}.5,{i % 7},{i % 3 == 0:d},{i % 2},{i % 5 == 2:d}\n" for i in range(40)))
    r = load("csv", "t.csv", code=7)
    assert_one_error(r, 't.csv: columns 3, "rain" to 5, "snow" hold 1 and 0, and some rows several 1: if these are labels')
    run([program(), *re.search(r"shoal (data import csv t.csv --target 3 --target 4 --target 5 -o NEW.h5)", r.stderr)[1].split()], base=PLAIN_ENV, timeout=30)
    with h5py.File("NEW.h5") as f:
        assert f["train/targets"].shape == (36, 3)
    load("csv", "t.csv", "--label", "5")
    with open("t.csv", "w") as f:  # flags and one label of that name; columns made of one with words
        f.write("a,rain,wind,k_b,k_c,outcome\n" + "".join(f"{i}.5,{i % 3 == 0:d},{i % 2},{i % 5 == 2:d},{i % 5 == 1:d},{i % 7 < 3:d}\n" for i in range(40)))
    load("csv", "t.csv")


def german(v):
    """1.234,5"""
    return f"{v:,}".replace(",", "G").replace(".", ",").replace("G", ".")


def bank(rows, label=True, kinds=("house", "house boat", "car")):
    """A table as spreadsheets of Germany write it: day, sum, kind, label, part."""
    lines = [";".join(("day", "sum", "kind", *["paid"] * label, "part"))]
    for i in rows:
        day = "" if i % 9 == 4 else (date(2023, 1, 1) + timedelta(days=i)).strftime("%d.%m.%Y")
        lines.append(";".join((day, german(900 + 99.5 * i), kinds[i % len(kinds)], *[("no", "yes")[i % 2]] * label, german(i % 7 / 4))))
    return "\ufeff" + "".join(line + "\r\n" for line in lines)


def bank_row(i, kinds=("car", "house", "house boat")):
    return ((date(2023, 1, 1) + timedelta(days=i) - date(1970, 1, 1)).days, 900 + 99.5 * i, *(k == ("house", "house boat", "car")[i % 3] for k in kinds), i % 7 / 4, i % 2)


def test_table_of_a_spreadsheet():
    """Words, then dates: whole numbers that fit decimal commas, gaps stay gaps; of a new table both by one command, words that do not
    come in it and all."""
    stderr = refused(bank(range(40)), 'give each value of column 3, "kind" a column of 1 and 0 and write days since 1970 in column 1, "day"', "--label", "paid")
    assert advised(stderr) == ["--label", "paid", "--missing", "mean"]
    with open("NEW") as f:
        assert [line.split(";")[0] for line in f][1:7] == ["19358", "19359", "19360", "19361", "", "19363"]
    load("csv", "NEW", "--label", "paid", "--missing", "drop", "--test-share", "0")
    assert rows() == [bank_row(i) for i in range(40) if i % 9 != 4]
    os.rename("t.h5", "model.h5")
    for label in (True, False):
        with open("new.csv", "w", newline="") as f:
            f.write(bank(range(3, 42, 3), label))
        r = load("csv", "new.csv", "--like", "model.h5", code=2)
        assert_one_error(r, 'new.csv lacks the columns "kind_car", "kind_house", "kind_house boat"')
        assert known(r) == ""
        load("csv", "NEW", "--like", "model.h5", "--missing", "drop")
        expected = [bank_row(i) for i in range(3, 42, 3) if i % 9 != 4]
        assert rows() == [(*x, y if label else 0) for *x, y in expected]


def test_columns_of_some_words():
    """Of a new table whose words were made columns already, those that do not come in it are 0; a flag beside another is no word."""
    with open("model.csv", "w") as f:
        f.write("has_car,has_dog,kind_a,kind_b,a,y\n" + "".join(f"{i % 2},1,{i % 2},{1 - i % 2},{i},{i % 2}\n" for i in range(40)))
    load("csv", "model.csv", "--test-share", "0")
    os.rename("t.h5", "model.h5")
    with open("new.csv", "w") as f:
        f.write("kind_a,kind_c,has_car,has_dog,a\n0,1,1,1,5\n1,0,0,1,6\n")
    assert known(load("csv", "new.csv", "--like", "model.h5", code=2)) == ""
    load("csv", "NEW", "--like", "model.h5")
    assert [x for *x, _ in rows()] == [[1, 1, 0, 0, 5], [0, 1, 1, 0, 6]]
    with open("new.csv", "w") as f:
        f.write("kind_a,kind_b,has_dog,has_cat,a\n0,1,1,1,5\n1,0,0,1,6\n")
    r = load("csv", "new.csv", "--like", "model.h5", code=2)
    assert "add it (where its values are not known, empty, with --missing mean)" in r.stderr and "python3" not in r.stderr


def test_signs_of_both_kinds():
    """Columns of the other decimal sign are never taken for words, which a command would leave out; a list gets the table's own sign."""
    text = "kind;a;b;list;y\n" + "".join(f"{'xyz'[i % 3]};{i}.25;{i},25;[{i}.5, 2];{i % 2}\n" for i in range(40))
    for sign, other in ((",", "1.25"), (".", "1,25")):
        refused(text, 'give each value of column 1, "kind" a column of 1 and 0 and give each number of the lists in column 4', "--decimal", sign)
        with open("NEW") as f:
            assert f.readline() == "kind_x;kind_y;kind_z;a;b;list_0;list_1;y\n"
        r = load("csv", "NEW", "--decimal", sign, "--drop", "list_0", code=7)
        assert other.replace("1", "0", 1) in r.stderr and f"which --decimal {sign} excludes" in r.stderr
    stderr = refused(text.replace(".25", ",25"), "is a list in one field", "--drop", "kind")
    load("csv", "NEW", "--test-share", "0")
    assert "--drop 4" in stderr and rows() == [(i + 0.25, i + 0.25, i + 0.5, 2, i % 2) for i in range(40)]
    with open("t.csv", "w") as f:
        f.write("a;b;y\n" + "".join(f"{i}.25;{i},25;{i % 2}\n" for i in range(40)))
    assert_one_error(load("csv", "t.csv", code=7), "write all numbers alike")
