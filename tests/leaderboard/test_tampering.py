"""Every kind of tampering is found, by a message that names what is wrong; also if all checksums are made anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from farout.files import read_json, write_json
from farout.leaderboard import check
from farout.study.pack_folder import PackFolder
from farout.study.packing import Packing
from farout.study.packs import Pack
from farout.study.records import read_verified_json, write_verified_json
from helpers.submissions import (
    cell_of,
    change_columns,
    change_plan,
    copied,
    reseal,
    reseal_record,
    swap,
)  # fmt: skip


@pytest.fixture
def mine(submission: Path, tmp_path: Path) -> Path:
    return copied(submission, tmp_path)


def matching(errors: list[str], *words: str) -> list[str]:
    """The errors that hold all these words."""
    return [error for error in errors if all(word in error for word in words)]


def test_an_untouched_submission_passes(submission: Path) -> None:
    before = {path: path.read_bytes() for path in submission.rglob("*") if path.is_file()}
    checked = check(submission)
    assert checked.errors == []
    assert checked.notes == []
    assert set(checked.sets.values()) == {"rendered here: the same images"}
    assert "not forgery" in str(checked)
    assert before == {path: path.read_bytes() for path in submission.rglob("*") if path.is_file()}


def test_a_packed_submission(mine: Path) -> None:
    """Results of large submissions lie in packs: they pass, and a changed score or index is found."""
    Packing(mine, PackFolder(mine)).pack(at_least=1)
    assert list((mine / "cells").iterdir()) == []
    assert check(reseal(mine)).errors == []
    (path,) = (mine / "packs").iterdir()
    whole, cell = path.read_bytes(), cell_of(mine, "clean", "msp")
    offset, size = Pack(path, mine).entries[cell].files["scores.parquet"]
    for place, words in ((offset + size // 2, (cell, "scores.parquet")), (len(whole) - 40, (path.name, "index"))):
        content = bytearray(whole)
        content[place] ^= 1
        path.write_bytes(content)
        assert matching(check(mine).errors, path.name, "has changed")
        assert matching(check(reseal(mine)).errors, "is damaged", *words)


def test_resealing_alone_changes_nothing(mine: Path) -> None:
    assert check(reseal(mine)).errors == []


# One score changed


def test_changed_bytes(mine: Path) -> None:
    path = mine / "cells" / cell_of(mine, "clean", "msp") / "scores.parquet"
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)
    assert matching(check(mine).errors, path.parent.name, "has changed")


def test_one_inlier_score_changed(mine: Path) -> None:
    cell = cell_of(mine, "clean", "mls")

    def change(columns):
        order = np.argsort(columns["score"])
        columns["score"][order[60]] += 0.02 * columns["score"].std()  # neither a picture nor an end
        return columns

    change_columns(mine, cell, change)
    reseal(mine)
    (text,) = matching(check(mine).errors, "mls on first", "differ between", "clean", "rood")
    assert cell in text
    assert "1 of 500 differ" in text


def test_one_outlier_score_changed(mine: Path) -> None:
    def change(columns):
        columns["score"][7] = columns["score"].max() + 1
        return columns

    cell = cell_of(mine, "clean", "knn", "toy:ood_cls")
    change_columns(mine, cell, change)
    reseal(mine)
    assert matching(check(mine).errors, cell, "pictures are of other images", "highest")
    assert matching(check(mine).errors, "tables/clean.csv", "auroc", "the scores give")


def test_a_score_that_is_no_number(mine: Path) -> None:
    cell = cell_of(mine, "clean", "msp")
    change_columns(mine, cell, lambda columns: {**columns, "score": np.full(len(columns["score"]), np.nan)})
    reseal(mine)
    assert matching(check(mine).errors, cell, "not all finite")


# A label swapped


def test_two_labels_of_one_result(mine: Path) -> None:
    cell = cell_of(mine, "clean", "msp")
    change_columns(mine, cell, lambda columns: {**columns, "label": swap(columns["label"], 0, 1)})
    reseal(mine)
    assert matching(check(mine).errors, cell, "of the same images", "'label'", "first for image 0")
    assert matching(check(mine).errors, cell, "not that of the images that the study selects", "'label'")


def test_two_labels_of_all_results(mine: Path) -> None:
    for path in (mine / "cells").glob("*/scores.parquet"):
        change_columns(
            mine, path.parent.name,
            lambda columns: {k: swap(v, 0, 1) if k == "label" else v for k, v in columns.items()},
        )  # fmt: skip
    manifest = read_verified_json(mine / "submission.json")
    (facts,) = (one for one in manifest["data"] if one["split"] == "test")
    from farout.leaderboard.declared import read_columns, write_columns

    columns = read_columns(mine / facts["file"], {"label"}, facts["total"])
    write_columns({"label": swap(columns["label"], 0, 1)}, mine / facts["file"])
    reseal(mine)
    assert matching(check(mine).errors, "wrong data set toy:test", "labels")


def test_the_names_of_two_detectors(mine: Path) -> None:
    names = {"msp": "knn", "knn": "msp"}

    def change(plan):
        for row in plan["rows"]:
            row["tags"]["detector"] = names.get(row["tags"]["detector"], row["tags"]["detector"])

    change_plan(mine, change)
    reseal(mine)
    assert matching(
        check(mine).errors, "clean", "detector 'knn'", "the study gives the result", "its identity.subject.fitted"
    )


# A figure typed in


def test_a_figure_in_a_table(mine: Path) -> None:
    path = mine / "tables" / "clean_auroc.csv"
    lines = path.read_text().splitlines()
    cells = lines[1].split(",")
    cells[2] = "0.99"
    path.write_text("\n".join([lines[0], ",".join(cells), *lines[2:], ""]))
    assert matching(check(mine).errors, "tables/clean_auroc.csv", "submission.json lists")
    (text,) = matching(check(reseal(mine)).errors, "tables/clean_auroc.csv, line 2", "toy:ood_cls")
    assert "the file says '0.99'" in text


def test_a_figure_in_the_report(mine: Path) -> None:
    page = (mine / "report.html").read_text()
    place = page.index("<td", page.index('id="rows-clean_auroc"'))
    start = page.index("0.", place)
    (mine / "report.html").write_text(f"{page[:start]}0.999{page[start + 5 :]}")
    assert matching(check(reseal(mine)).errors, "report.html", "it says 0.999", "the scores give")


def test_a_sentence_in_the_report(mine: Path) -> None:
    path = mine / "report.html"
    path.write_text(path.read_text().replace("Verdicts</h2>", "Verdicts</h2><p>The best of all.</p>"))
    assert matching(check(reseal(mine)).errors, "report.html", "its text is not the one that the scores give")


def test_an_interval(mine: Path) -> None:
    kept = read_verified_json(mine / "intervals.json")
    first = min(kept)
    write_verified_json(mine / "intervals.json", {**kept, first: [kept[first][0] - 0.1, kept[first][1]]})
    assert matching(check(reseal(mine)).errors, "intervals.json", first)


# A wrong data set


def test_another_outlier_set_under_the_name(mine: Path) -> None:
    def plan(content):
        content["spec"]["outliers"][0]["split"] = "test/ood_pair"
        for row in content["rows"]:
            row["tags"] = {k: v.replace("ood_cls", "ood_pair") for k, v in row["tags"].items()}

    def manifest(content):
        (facts,) = (one for one in content["data"] if one["split"] == "test/ood_cls")
        facts["split"] = "test/ood_pair"

    change_plan(mine, plan)
    reseal(mine, manifest)
    assert matching(check(mine).errors, "wrong data set toy:test/ood_pair", "its fingerprint is", "published images")


def test_images_that_the_study_does_not_name(mine: Path) -> None:
    change_plan(mine, lambda content: content["spec"]["outliers"][0].update(limit=79))
    reseal(mine)
    assert matching(
        check(mine).errors,
        "clean",
        "outliers 'toy:ood_cls'",
        "the study gives the result",
        "its identity.images should be",
    )


# A truncated file


def test_a_truncated_table(mine: Path) -> None:
    cell = cell_of(mine, "rood", "msp")
    path = mine / "cells" / cell / "scores.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    assert matching(check(mine).errors, cell, "truncated")
    reseal_record(mine, cell_of(mine, "rood", "mls"), lambda: None)
    folder = mine / "cells" / cell
    record = {k: v for k, v in read_json(folder / "record.json").items() if k not in ("sha256", "files", "format")}
    from farout.study.records import write_record

    write_record(folder, record, ["scores.parquet", "examples.safetensors"])
    assert matching(check(reseal(mine)).errors, cell, "cannot be read as Parquet")


def test_a_truncated_manifest(mine: Path) -> None:
    path = mine / "submission.json"
    path.write_text(path.read_text()[:-20])
    assert matching(check(mine).errors, "submission.json", "damaged")


# Another network's scores


def test_the_record_of_another_network(mine: Path) -> None:
    target, source = (cell_of(mine, "clean", "msp", network=name) for name in ("first", "second"))
    shutil.rmtree(mine / "cells" / target)
    shutil.copytree(mine / "cells" / source, mine / "cells" / target)
    (text,) = matching(check(reseal(mine)).errors, f"cells/{target}", "belongs to another result")
    assert source in text


@pytest.mark.parametrize("everywhere", [False, True])
def test_the_scores_of_another_network(mine: Path, everywhere: bool) -> None:
    for protocol in ("clean", "rood") if everywhere else ("clean",):
        target, source = (cell_of(mine, protocol, "mls", network=name) for name in ("first", "second"))

        def copy(target=target, source=source):
            for path in (mine / "cells" / source).iterdir():
                if path.name != "record.json":
                    shutil.copyfile(path, mine / "cells" / target / path.name)

        reseal_record(mine, target, copy)
    reseal(mine)
    if not everywhere:
        assert matching(check(mine).errors, "mls on first", "differ between clean and rood")
    assert matching(check(mine).errors, "tables/clean", "the scores give")


# Rows, budgets, scripts


def test_rows_reordered_with_their_index(mine: Path) -> None:
    cell = cell_of(mine, "clean", "msp")
    change_columns(mine, cell, lambda columns: {name: values[::-1] for name, values in columns.items()})
    reseal(mine)
    assert matching(check(mine).errors, cell, "'index'", "first for image")


def test_rows_of_all_results_reordered_with_their_index(mine: Path) -> None:
    for path in (mine / "cells").glob("*/scores.parquet"):
        change_columns(mine, path.parent.name, lambda columns: {name: one[::-1] for name, one in columns.items()})
    reseal(mine)
    assert matching(check(mine).errors, cell_of(mine, "clean", "msp"), "pictures are of other images")


def test_a_row_given_twice(mine: Path) -> None:
    cell = cell_of(mine, "clean", "msp", "toy:ood_cls")
    change_columns(mine, cell, lambda columns: {k: np.append(v, v[-1:]) for k, v in columns.items()})
    reseal(mine)
    assert matching(check(mine).errors, cell, "has 81 rows, its record says 80")


def test_a_row_that_replaces_another(mine: Path) -> None:
    cell = cell_of(mine, "clean", "msp", "toy:ood_cls")

    def change(columns):
        for values in columns.values():
            values[3] = values[4]
        return columns

    change_columns(mine, cell, change)
    reseal(mine)
    assert matching(check(mine).errors, cell, "'index', first for image 4: 4 and 3")


def test_another_budget(mine: Path) -> None:
    def change(plan):
        plan["budget"] = plan["spec"]["budget"] = "full"

    change_plan(mine, change)
    reseal(mine)
    assert matching(check(mine).errors, "budget")


@pytest.mark.parametrize("added", ["<script>alert(1)</script>", "<style>td { display: none }</style>"])
def test_a_script_in_the_report(mine: Path, added: str) -> None:
    path = mine / "report.html"
    path.write_text(path.read_text().replace("</body>", f"{added}</body>"))
    assert matching(check(reseal(mine)).errors, "report.html", "its text is not the one", added[:7])


def test_another_policy_of_the_report(mine: Path) -> None:
    path = mine / "report.html"
    path.write_text(path.read_text().replace("default-src &#39;none&#39;", "default-src *", 1))
    assert matching(check(reseal(mine)).errors, "report.html", "its text is not the one", "default-src *")


def test_a_value_of_a_chart(mine: Path) -> None:
    path = mine / "report.html"
    page = path.read_text()
    start = page.index("0.", page.index('id="charts"'))
    path.write_text(f"{page[:start]}0.7777{page[start + 2 :]}")
    assert matching(check(reseal(mine)).errors, "report.html, values of charts", "it says 0.7777")


# A stranger's folder


def test_names_cannot_hide_an_error(mine: Path) -> None:
    def change(plan):
        for row in plan["rows"]:
            if row["tags"]["detector"] == "knn":
                row["tags"]["detector"] = "\x1b[2K\x1b[1A\nno damage or inconsistency found."

    change_plan(mine, change)
    reseal(mine)
    checked = check(mine)
    lines = str(checked).splitlines()
    assert not checked.passed
    assert "no damage or inconsistency found." not in lines
    assert all(line.isprintable() for line in lines)


def test_links_are_refused(mine: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("password")
    (mine / "tables" / "clean.csv").unlink()
    (mine / "tables" / "clean.csv").symlink_to(secret)
    (text,) = matching(check(mine).errors, "symbolic link")
    assert "password" not in text


def test_a_linked_folder_is_refused(mine: Path, tmp_path: Path) -> None:
    (mine / "data").rename(tmp_path / "elsewhere")
    (mine / "data").symlink_to(tmp_path / "elsewhere")
    assert matching(check(mine).errors, "symbolic link")


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "cells/../../secret/x", "code.py", "cells/a/b/c"])
def test_paths_of_the_manifest_stay_inside(mine: Path, path: str) -> None:
    reseal(mine, lambda manifest: manifest["files"].update({path: {"bytes": 1, "sha256": "0" * 64}}))
    assert matching(check(mine).errors, "submission.json is not valid", "is not the path of a file of a submission")


def test_unknown_keys_are_refused(mine: Path) -> None:
    reseal(mine, lambda manifest: manifest.update(auroc=0.99))
    assert matching(check(mine).errors, "submission.json is not valid", "auroc")


def test_unlisted_files_are_refused(mine: Path) -> None:
    (mine / "conftest.py").write_text("raise SystemExit")
    assert matching(check(mine).errors, "conftest.py is not listed")


@pytest.mark.parametrize("name", ["/etc/hosts.npz", "../../x.npz", "~/x.npz", "C:\\x.npz"])
def test_paths_of_the_study_stay_inside(mine: Path, name: str) -> None:
    change_plan(mine, lambda plan: plan["spec"]["outliers"][0].update(name=name))
    assert matching(check(reseal(mine)).errors, "the study holds the path", "leads out of the submission")


def test_code_of_the_study_is_not_run(mine: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w')")
    detector = {"name": "function", "label": "msp", "params": {"path": "evil.py:run"}}
    change_plan(mine, lambda plan: plan["spec"]["detectors"].__setitem__(0, detector))
    checked = check(reseal(mine))
    assert any("function" in note for note in checked.notes)
    assert not ran.exists()


def test_deeply_nested_json(mine: Path) -> None:
    (mine / "plan.json").write_text("[" * 100_000 + "]" * 100_000)
    assert matching(check(reseal(mine)).errors, "cannot be read further")


def test_no_submission(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no submission \(no submission.json\)"):
        check(tmp_path)


def test_pack_names_no_path_of_the_machine(submission: Path) -> None:
    for name in ("submission.json", "plan.json"):
        assert str(submission.parent) not in (submission / name).read_text()
    assert read_json(submission / "plan.json")["spec"]["networks"][0]["weights"] == "files/first.safetensors"


def test_a_table_of_fingerprints_that_is_none(mine: Path, tmp_path: Path) -> None:
    write_json(tmp_path / "bad.json", {"toy:test": "abc"})
    with pytest.raises(ValueError, match="is no table of fingerprints"):
        check(mine, tmp_path / "bad.json")
