"""The command line: what it says, where it says it, and how it ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import yaml

import farout
from farout import cli
from farout.api import demo
from farout.cli.details import parameters
from farout.cli.listing import Family
from farout.detectors import names_of
from farout.protocols import plan
from farout.registry import KINDS, UnknownName, registry_of
from farout.study.cells.cell import closure
from farout.study.results import Results
from farout.study.study import from_spec
from farout.study.subjects.posthoc import PostHocSubject
from helpers.written_runs import lenet_weights

VERBS = ("list", "check", "plan", "run", "report", "render", "corrupt", "attack", "demo")


class Answer(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """`command("run", "study.yaml")`: the command in a folder of its own, with the plugins forgotten afterwards."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.delenv("FAROUT_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["farout", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        code = ended.value.code or 0
        assert isinstance(code, int)
        return Answer(code, said.out, said.err)

    return call


@pytest.fixture
def study(tmp_path: Path) -> Path:
    lenet_weights(tmp_path)
    content = {
        "inliers": {"test": {"name": "toy", "limit": 70}},
        "outliers": [{"name": "noise", "limit": 40}],
        "networks": [{"name": "lenet", "weights": "lenet.safetensors"}],
        "detectors": ["msp", "mls"],
    }
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "small.yaml"


def change(study: Path, **changes: Any) -> None:
    study.write_text(yaml.safe_dump({**yaml.safe_load(study.read_text()), **changes}))


def words(text: str) -> str:
    """The text without the frames and line breaks of a help page."""
    return " ".join(re.sub(r"[╭╮╰╯│─]", " ", text).split())


@pytest.mark.parametrize("verb", VERBS)
def test_help_teaches_every_verb(command: Any, verb: str) -> None:
    answer = command(verb, "--help")
    assert (answer.code, answer.err) == (0, "")
    page = words(answer.out)
    assert f"Usage: farout {verb} " in page
    assert re.search(rf"Example: farout {verb}\b", page)
    command_of = {info.name or info.callback.__name__: info for info in cli.app.registered_commands if info.callback}
    assert command_of[verb].callback is not None
    assert words(str(command_of[verb].callback.__doc__)) in page


def test_help_explains_every_option(command: Any) -> None:
    page = words(command("run", "--help").out)
    for option, meaning in {
        "--out": "Folder for results, or an address such as s3://BUCKET/RUN.",
        "--budget": "quick: minutes; standard: an hour or two; full: as in the papers.",
        "--workers": "Worker processes of one core each; 0 = none.",
        "--device": "Device of the networks: cpu, cuda (all GPUs), cuda:1, mps, …",
        "--plugin": "Python file to import first",
    }.items():
        assert option in page
        assert meaning in page


def test_help_of_the_whole_names_the_verbs_and_the_exit_codes(command: Any) -> None:
    answer = command("--help")
    assert answer.code == 0
    page = words(answer.out)
    assert "Exit codes: 0 done, 1 some results failed, 2 bad usage, 130 stopped with Ctrl-C" in page
    assert all(re.search(rf" {verb} [A-Z]", page) for verb in VERBS)


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys; sys.argv = ['farout', '--help']\n"
        "from farout.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'torch', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"
    assert "Usage: farout" in answer.stdout


def test_python_m_farout_is_farout(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "farout", "report", "nowhere"]
    answer = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: nowhere holds no run")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), ""),
        (("rnu",), "No such command 'rnu'"),
        (("run",), "Missing argument"),
        (("list", "detectrs"), "'detectrs' is not one of 'detectors', 'networks'"),
        (("run", "study.yaml", "--workers", "-1"), "Invalid value for '--workers'"),
        (("run", "study.yaml", "--budget", "huge"), "'huge' is not one of 'quick', 'standard', 'full'"),
        (("run", "study.yaml", "--nonsense"), "No such option: --nonsense"),
    ],
)
def test_bad_usage(command: Any, arguments: tuple[str, ...], said: str) -> None:
    answer = command(*arguments)
    assert answer.code == 2
    assert said in words(answer.err)


@pytest.mark.parametrize(
    ("family", "name", "about"),
    [
        ("detectors", "msp", "Maximum softmax probability"),
        ("networks", "lenet", ""),
        ("datasets", "toy", "Rendered images of one shape of random color"),
        ("protocols", "clean", "Standard evaluation: every detector"),
        ("variations", "affine", "Rotation, translation, scale and shear"),
        ("searches", "mh", "Metropolis–Hastings sampler of p(z)"),
    ],
)
def test_list_names_a_family_with_a_line_about_each(command: Any, family: str, name: str, about: str) -> None:
    answer = command("list", family)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.partition("\n\n")[0].splitlines()  # a note on other values may follow
    (line,) = [line for line in lines if line.split()[0] == name]
    assert words(line).startswith(f"{name} {about}".strip())
    registry = {"datasets": "data", "searches": "search"}.get(family, family)
    listed = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert listed == getattr(farout, registry).names()


@pytest.mark.parametrize(
    "family",
    [family.value for family in Family],
)
def test_everything_has_a_line_about_it_and_aliases_are_no_names(family: str) -> None:
    registry = registry_of(next(kind for kind in KINDS if family.startswith(kind)))
    assert [name for name in registry.names() if not (registry[name].__doc__ or "").strip()] == []
    assert set(registry.aliases.values()) <= set(registry.names())
    assert not set(registry.aliases) & set(registry.names())
    for alias, name in registry.aliases.items():
        with pytest.raises(UnknownName, match=rf"unknown {registry.title} '{alias}'\. Did you mean '{name}'\?"):
            registry[alias]


def test_one_thing_is_shown_with_its_parameters_paper_and_what_it_reads(command: Any) -> None:
    shown = words(command("list", "detectors", "knn").out)
    assert shown.startswith("knn Distance to the k-th nearest training feature")
    assert "paper Sun et al. 2022, eq. 3" in shown
    assert "reads features fitted on the inliers' train split also called deep_knn" in shown
    assert "k = 50 Rank of the neighbor whose distance is the score." in shown
    assert "reads logits, from perturbed passes of its own fitted on nothing" in words(
        command("list", "detectors", "odin").out
    )
    assert "epsilon = None Bound on the change of a pixel" in words(command("list", "attacks", "pgd").out)
    assert "path (required) the file, weights included" in words(command("list", "adapters", "onnx").out)
    assert "Did you mean 'ebo'?" in command("list", "detectors", "energy").err


def test_every_parameter_of_a_detector_has_a_meaning() -> None:
    registry = registry_of("detector")
    silent = [(name, one.name) for name in registry.names() for one in parameters(registry[name]) if not one.meaning]
    assert silent == []


@pytest.mark.parametrize("detector", ["energy", "Mahalanobis", "max-logit", "baseline", "deep_knn", "kl_matching"])
def test_a_study_with_a_name_of_the_field_is_told_ours(command: Any, study: Path, detector: str) -> None:
    change(study, detectors=[detector])
    ours = {"energy": "ebo", "Mahalanobis": "mds", "max-logit": "mls", "baseline": "msp", "deep_knn": "knn"}
    answer = command("plan", "small.yaml")
    assert answer.code == 2
    assert f"unknown detector '{detector}'. Did you mean '{ours.get(detector, 'klm')}'?" in answer.err


PLUGIN = '''
import farout

@farout.register
class Dark(farout.Detector):
    """How dark: [B] scores, [/not markup]."""

    name = "dark"

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def score(self, images):
        return -self.gain * images.mean((1, 2, 3))
'''


def test_list_names_the_generators(command: Any) -> None:
    answer = command("list", "generators")
    assert answer.code == 0
    assert "dcgan Deep convolutional GAN, trained with the non-saturating loss." in words(answer.out)


def test_an_unknown_engine_is_bad_usage(command: Any, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(
        "inliers: {test: {name: toy, limit: 20}}\ndetectors: [dark]\noutliers: [noise]"
    )
    (tmp_path / "mine.py").write_text(PLUGIN)
    answer = command("run", "study.yaml", "--plugin", "mine.py", "--engine", "lokal")
    assert answer.code == 2
    assert "unknown engine 'lokal'. Did you mean 'local'? Known: local," in words(answer.err)


def test_list_shows_what_a_plugin_registers(command: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    answer = command("list", "detectors", "--plugin", "mine.py")
    assert answer.code == 0
    assert re.search(r"^dark +How dark: \[B\] scores, \[/not markup\]\.", answer.out, re.MULTILINE)


GOOD = """
import farout

class Mine(farout.Detector):
    def score(self, images):
        return images.mean((1, 2, 3))

made = Mine()
"""
BAD = """
import farout, torch

class Mine(farout.Detector):
    def score(self, images):
        images.clamp_(0.2, 0.8)
        return images.mean((1, 2, 3)) - images.mean()
"""


@pytest.mark.parametrize("name", ["Mine", "made"])
def test_check_of_a_good_detector(command: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    answer = command("check", f"good.py:{name}")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert len(lines) == 10
    assert all(line.startswith("ok") for line in lines)


def test_check_of_a_detector_that_a_plugin_registers(command: Any, tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD + "farout.register(name='checked_by_name')(Mine)\n")
    answer = command("check", "checked_by_name", "--plugin", "good.py")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("ok") == 10


def test_check_of_a_bad_detector(command: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    answer = command("check", "bad.py:Mine")
    assert answer.code == 1
    failed = [line.removeprefix("failed ") for line in answer.out.splitlines() if line.startswith("failed")]
    checks = {line.partition(":")[0] for line in failed}
    assert "does not change its input" in checks
    assert "gives an image the same score in any batch" in checks
    assert "gives one real score per image" not in checks
    assert any("score() changed its input images; work on a copy" in line for line in failed)


def test_check_of_a_known_detector_on_given_images(command: Any, tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 16, 16, 3), dtype=np.uint8)
    np.savez(tmp_path / "some.npz", images=images, labels=np.arange(60) % 3)
    answer = command("check", "msp", "--data", "some.npz")
    assert answer.code == 0
    assert answer.out.count("ok") == 10


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("mps", "unknown detector 'mps'. Did you mean 'msp'?"),
        ("good.py", "expected file.py:Name, got 'good.py'"),
        ("good.py:Mien", "unknown name in good.py: 'Mien'. Did you mean 'Mine'?"),
        ("gone.py:Mine", "gone.py; expected a Python file"),
        ("torn.py:Mine", "the file cannot be imported: SyntaxError: "),
        ("lost.py:Mine", "the file cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("rash.py:Mine", "the file cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
def test_check_of_what_is_not_there(command: Any, tmp_path: Path, reference: str, said: str) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "torn.py").write_text("class Mine(:\n")
    (tmp_path / "lost.py").write_text("import no_such_module\n")
    (tmp_path / "rash.py").write_text("\n\nMine = 1 / 0\n")
    answer = command("check", reference)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert reference != "rash.py:Mine" or "rash.py, line 3" in answer.err


@pytest.mark.parametrize("verb", ["plan", "run"])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"detectrs": []}, "unknown key in study: 'detectrs'. Did you mean 'detectors'?"),
        ({"detectors": ["mps"]}, "unknown detector 'mps'. Did you mean 'msp'?"),
        ({"outliers": ["gone.npz"]}, "no file or folder"),
        ({"protocols": ["claen"]}, "unknown protocol 'claen'. Did you mean 'clean'?"),
        ({"networks": [{"name": "lenet", "weights": "gone.pt"}]}, "no weights at"),
        ({"detectors": ["knn"]}, "knn must be fitted, and the inliers have no train split"),
    ],
)
def test_a_study_that_is_not_right(command: Any, study: Path, verb: str, changes: dict[str, Any], said: str) -> None:
    change(study, **changes)
    answer = command(verb, "small.yaml")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert answer.err.endswith("(FAROUT_DEBUG=1 shows where it came from)\n")
    assert not Path("runs").exists()


def test_debugging_shows_where_an_error_came_from(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["farout", "report", "nowhere"])
    monkeypatch.setenv("FAROUT_DEBUG", "1")
    with pytest.raises(FileNotFoundError, match="nowhere holds no run") as caught:
        cli.main()
    assert [entry.name for entry in caught.traceback][-1] == "__init__"


def test_plan_run_again_and_report(command: Any, study: Path) -> None:
    before = command("plan", "small.yaml")
    assert before.code == 0
    assert before.out.splitlines()[-1] == "7 of 7 results are missing at budget standard"
    assert not Path("runs").exists()

    first = command("run", "small.yaml", "--workers", "0")
    assert (first.code, first.err) == (0, "")
    assert first.out.splitlines()[-2] == "7 results computed, 0 there already, 0 failed; in runs/small"
    table = {line.split()[0]: line for line in first.out.splitlines() if line.lstrip().startswith(("msp", "mls"))}
    results = Results("runs/small")
    scores = {(row.tags["detector"], row.tags["outliers"]): results.scores(row) for row in results.done("clean")}
    for detector in ("msp", "mls"):
        value, low, high = farout.metrics.auroc_interval(scores[detector, ""], scores[detector, "noise"])
        assert f"{value:.3f} [{low:.3f}, {high:.3f}]" in table[detector]

    again = command("run", "small.yaml", "--workers", "0")
    assert again.code == 0
    assert again.out.splitlines()[-2] == "0 results computed, 7 there already, 0 failed; in runs/small"
    assert again.out.splitlines()[:-2] == first.out.splitlines()[:-2]
    assert command("plan", "small.yaml").out.endswith("\n0 of 7 results are missing at budget standard\n")

    report = command("report", "runs/small")
    assert (report.code, report.out) == (0, "wrote runs/small/report.html\n")
    assert "noise" in Path("runs/small/report.html").read_text(encoding="utf-8")
    assert command("report", "runs/small", "--out", "else/page.html").out == "wrote else/page.html\n"
    page = Path("else/page.html").read_text(encoding="utf-8").replace('href="page_tables/', 'href="tables/')
    assert page == Path("runs/small/report.html").read_text(encoding="utf-8")
    assert Path("else/page_tables/clean.csv").is_file()


def test_a_budget_and_a_folder_may_be_given(command: Any, study: Path) -> None:
    assert command("plan", "small.yaml", "--budget", "quick").out.endswith("missing at budget quick\n")
    answer = command("run", "small.yaml", "--workers", "0", "--budget", "quick", "--out", "there")
    assert answer.code == 0
    assert json.loads(Path("there/plan.json").read_text())["budget"] == "quick"
    assert answer.out.splitlines()[0] == "small (budget quick)"
    assert not Path("runs").exists()


def test_a_plugins_detector_in_a_study(command: Any, study: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    change(study, detectors=["dark", {"name": "dark", "gain": -1.0, "label": "light"}], networks=[])
    refused = command("run", "small.yaml", "--workers", "0")
    assert (refused.code, "unknown detector 'dark'" in refused.err) == (2, True)
    answer = command("run", "small.yaml", "--workers", "0", "--plugin", "mine.py")
    assert answer.code == 0
    results = Results("runs/small")
    scores = {(row.tags["detector"], row.tags["outliers"]): results.scores(row) for row in results.done("clean")}
    images = farout.load("toy", limit=70).batch(range(70))
    np.testing.assert_allclose(scores["dark", ""], -images.mean((1, 2, 3)).numpy(), rtol=1e-5)
    np.testing.assert_array_equal(scores["light", "noise"], -scores["dark", "noise"])


FAILING = """
import farout

@farout.register
class Failing(farout.Detector):
    name = "failing"

    def score(self, images):
        raise RuntimeError("no light in here")
"""


def test_the_failure_of_a_fit_is_printed_once(command: Any, study: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FAILING.replace("def score(self, images)", "def fit(self, images)"))
    inliers = {split: {"name": "toy", "split": split, "limit": 30} for split in ("train", "test")}
    change(study, detectors=["msp", "failing"], inliers=inliers)
    answer = command("run", "small.yaml", "--workers", "0", "--plugin", "mine.py")
    assert answer.code == 1
    assert ", 3 failed; in runs/small" in answer.out
    assert answer.err.splitlines()[-3:] == [
        "failed: failing: RuntimeError: no light in here (mine.py, line 9)",
        "not computed, since they require what failed: 2 results",
        "the tracebacks are in the report (farout report runs/small); the same command tries again",
    ]


def test_a_run_with_failures_ends_with_1(command: Any, study: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FAILING)
    change(study, detectors=["msp", "failing"])
    answer = command("run", "small.yaml", "--workers", "0", "--plugin", "mine.py")
    assert answer.code == 1
    assert "4 results computed, 0 there already, 2 failed; in runs/small" in answer.out
    assert answer.err.splitlines() == [
        "failed: failing: RuntimeError: no light in here (mine.py, line 9)",
        "the tracebacks are in the report (farout report runs/small); the same command tries again",
    ]
    report = command("report", "runs/small", "--plugin", "mine.py")
    assert report.code == 0
    page = Path("runs/small/report.html").read_text(encoding="utf-8")
    assert "mine.py&#34;, line 9, in score" in page
    assert "RuntimeError: no light in here" in page


def test_a_folder_that_cannot_be_written(command: Any, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").write_text("")
    monkeypatch.setattr("farout.study.engines.run.run", lambda *args, **kwargs: pytest.fail("work began"))
    answer = command("run", "small.yaml", "--workers", "0", "--out", "file/out")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: cannot write results to file/out: Not a directory; choose another folder")


@pytest.mark.parametrize("device", ["tpu9", "gpu"])
def test_a_device_that_is_not_there(command: Any, study: Path, device: str) -> None:
    answer = command("run", "small.yaml", "--workers", "0", "--device", device)
    assert (answer.code, answer.out) == (2, "")
    assert device in answer.err


def test_ctrl_c_says_how_to_go_on(command: Any, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("farout.api.run.compute", stop)
    answer = command("run", "small.yaml", "--workers", "0")
    assert (answer.code, answer.out) == (130, "")
    assert answer.err == "stopped; finished results are kept, the same command resumes from there\n"


def test_a_report_of_no_run(command: Any) -> None:
    answer = command("report", "nowhere")
    assert (answer.code, answer.out) == (2, "")
    assert "error: nowhere holds no run (no plan.json); give the folder that `farout run` wrote" in answer.err


def test_the_demo_runs_and_writes_a_report(command: Any, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its study is taken for a smaller one here."""
    from farout.study.spec import StudySpec

    monkeypatch.setattr(demo, "study", lambda: StudySpec.read(study))
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    answer = command("demo", "--workers", "0", "--out", "shown", "--open")
    assert answer.code == 0
    assert answer.out.splitlines()[-1] == "report: shown/report.html"
    assert "noise" in Path("shown/report.html").read_text(encoding="utf-8")
    assert opened == ["shown/report.html"]


def test_the_demos_study() -> None:
    spec = demo.study()
    assert [item.name for item in spec.detectors] == [name for name in names_of(farout.PostHoc) if name != "ensemble"]
    assert (spec.name, spec.budget, spec.inliers.test.name) == ("demo", "quick", "shapes")
    (network,) = spec.networks
    assert network.train is not None
    assert [item.name for item in spec.protocols] == ["attributes", "evg", "rood", "evasion", "raised_bar", "cost"]


def test_the_demo_trains_small_generators_and_no_other_network_for_the_sanity_check() -> None:
    study = from_spec(demo.study())
    entries = [entry for entry in plan(study) if entry.protocol == "raised_bar"]
    trained = [cell for cell in closure([entry.cell for entry in entries]) if cell.title.startswith("train ")]
    assert sorted(cell.title.removeprefix("train ") for cell in trained) == [
        "alexnet", "near_ood, plain", "near_ood, λs = 1", "near_ood, λs = 2", "resnet20", "shifted", "shifted, plain",
        "vgg11",
    ]  # fmt: skip
    tested = {subject.classifier.cell.id for subject in study.trials[0].subjects if isinstance(subject, PostHocSubject)}
    checking = {entry.cell.network.cell.id for entry in entries if entry.tags.get("role") == "sanity"}
    assert checking == tested


def test_a_broken_plugin_is_not_half_loaded(command: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import farout\nraise OSError('later')\n")
    assert command("list", "detectors", "--plugin", "mine.py").code == 2
    (tmp_path / "mine.py").write_text(PLUGIN)
    answer = command("list", "detectors", "--plugin", "mine.py")
    assert answer.code == 0
    assert "dark" in answer.out


def test_shapes_are_written_to_disk(command: Any) -> None:
    again = ("render", "shapes", "--out", "drawn", "--side", "16", "--limit", "30", "--split", "test/id")
    answer = command(*again, "--split", "test/ood_size+hue", "--format", "npz")
    assert answer.code == 0, answer.err
    assert answer.out.split() == ["30", "images", "drawn/test.npz", "30", "images", "drawn/ood_size+hue.npz"]
    images = farout.load("drawn/test.npz")
    assert torch.equal(images.batch(range(30)), farout.load("shapes", side=16).batch(range(30)))
    assert farout.load("drawn/test.parquet", side=16).batch([3]).equal(images.batch([3]))
    assert command(*again).code == 0  # the same set as PNG files beside it
    assert len(list(Path("drawn/test").rglob("*.png"))) == 30
    other = command(*again, "--seed", "2")
    assert other.code == 2
    assert "holds another set" in other.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--split", "test/ood_hoe"), "unknown attribute 'hoe'. Did you mean 'hue'?"),
        (("--font", "x.ttf"), "only chars takes a font"),
    ],
)
def test_what_cannot_be_rendered(command: Any, options: tuple[str, str], said: str) -> None:
    answer = command("render", "shapes", "--out", "drawn", *options)
    assert answer.code == 2
    assert said in answer.err
    assert not Path("drawn").exists()
