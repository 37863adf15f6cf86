"""Install a built wheel (or the sdist) into a fresh environment and use it, away from the tree.

    python .ci/use_wheel.py dist           # the one wheel for this platform; no Rust on PATH
    python .ci/use_wheel.py --sdist dist   # builds it in an isolated environment

Standard library only. Everything happens in a temporary directory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

USE = """
import pathlib, dmexp, numpy as np
assert "site-packages" in dmexp.__file__, dmexp.__file__
tensors = dmexp.load_file("tiny.f16.dmexp")
assert len(tensors) == 21, len(tensors)
dmexp.save_file(tensors, "again.dmexp", dtype="f16")
for name, values in dmexp.load_file("again.dmexp").items():
    np.testing.assert_array_equal(values, tensors[name])
print("dmexp", dmexp.__version__, "works from", pathlib.Path(dmexp.__file__).parent)
"""


def main() -> int:
    sdist = "--sdist" in sys.argv
    pattern = "*.tar.gz" if sdist else "*.whl"
    found = list(Path(sys.argv[-1]).resolve().glob(pattern))
    if len(found) != 1:
        print(f"expected one {pattern} in {sys.argv[-1]}, found {[path.name for path in found]}")
        return 1
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        shutil.copytree(root / "examples" / "tiny-llama", place / "tiny-llama")
        venv.create(place / "venv", with_pip=True)
        scripts = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        if not sdist:
            # A wheel that needs a compiler is no wheel.
            folders = environment["PATH"].split(os.pathsep)
            folders = [folder for folder in folders if shutil.which("cargo", path=folder) is None]
            environment["PATH"] = os.pathsep.join(folders)

        def run(program: str, *arguments: str) -> None:
            command = [str(scripts / program), *arguments]
            shown = ["..." if "\n" in text else text for text in arguments]
            print("$", program, *shown, flush=True)
            subprocess.run(command, cwd=place, env=environment, check=True)

        only_wheels = [] if sdist else ["--only-binary", ":all:"]
        run("python", "-m", "pip", "install", "-q", *only_wheels, str(found[0]))
        run(
            "dmexp",
            "export",
            "tiny-llama/model.safetensors",
            "-o",
            "tiny.f16.dmexp",
            "--dtype",
            "f16",
        )
        run("dmexp", "info", "tiny.f16.dmexp")
        run("dmexp", "verify", "tiny.f16.dmexp")
        run("python", "-c", USE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
