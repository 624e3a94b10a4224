"""Startup time: the command's help, and the import of the package."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import show, timed


def main() -> None:
    """Start-up of the command line beside a bare interpreter and beside importing torch."""

    def python(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)

    functions = {
        "python -c pass": lambda: python("pass"),
        "farout --help": lambda: python(
            "import sys; sys.argv = ['farout', '--help']; from farout.cli import main; main()"
        ),
        "import farout": lambda: python("import farout"),
        "import torch": lambda: python("import torch"),
    }
    show("Start-up", timed(functions), "python -c pass")


if __name__ == "__main__":
    main()
