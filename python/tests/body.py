"""One rank's side of a test: body.py NAME runs the function of that name in one of the modules of bodies/."""

import importlib
import pathlib
import sys

MODULES = sorted(path.stem for path in (pathlib.Path(__file__).parent / "bodies").glob("*.py"))


def main(name):
    for module in MODULES:
        found = vars(importlib.import_module(f"bodies.{module}")).get(name)
        if found is not None and found.__module__ == f"bodies.{module}":
            return found()
    raise SystemExit(f"no module of bodies/ has a function {name}")


if __name__ == "__main__":
    main(sys.argv[1])
