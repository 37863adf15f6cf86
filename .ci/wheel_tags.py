"""Exit 1 unless a directory holds exactly the files that a release promises.

    python .ci/wheel_tags.py dist

A build that silently gives another kind of wheel (a version-specific one in place of abi3, or one
for a newer glibc) is found here and not by users.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

TAGS = [
    "cp311-abi3-macosx_10_12_x86_64",
    "cp311-abi3-macosx_11_0_arm64",
    "cp311-abi3-manylinux_2_28_aarch64",
    "cp311-abi3-manylinux_2_28_x86_64",
    "cp311-abi3-musllinux_1_2_aarch64",
    "cp311-abi3-musllinux_1_2_x86_64",
    "cp311-abi3-win_amd64",
]


def differences(found: set[str], version: str) -> list[str]:
    """One line for each file that is missing or was not promised."""
    promised = {f"dmexp-{version}-{tag}.whl" for tag in TAGS} | {f"dmexp-{version}.tar.gz"}
    return [f"missing: {name}" for name in sorted(promised - found)] + [
        f"not promised: {name}" for name in sorted(found - promised)
    ]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    manifest = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    found = {path.name for path in Path(sys.argv[1]).iterdir()}
    lines = differences(found, manifest["workspace"]["package"]["version"])
    print("\n".join(lines) or f"all {len(TAGS) + 1} files are there")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
