"""What `import dmexp` offers, and what it does not load."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys

import pytest

import dmexp

PUBLIC = [
    "Crc32",
    "__version__",
    "contracts",
    "crc32",
    "crc32_combine",
    "errors",
    "info",
    "load",
    "load_file",
    "narrow",
    "narrow_with_stats",
    "safe_open",
    "save",
    "save_file",
    "verify",
    "widen",
]

OPTIONAL = [
    "cbor2",
    "gguf",
    "httpx",
    "huggingface_hub",
    "jinja2",
    "matplotlib",
    "safetensors",
    "starlette",
    "tokenizers",
    "torch",
    "uvicorn",
]


def _fresh(code: str) -> str:
    """What a new interpreter prints; a warning there is an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout


def _loaded_by(code: str) -> set[str]:
    return set(
        json.loads(_fresh(f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"))
    )


def test_all_is_complete() -> None:
    assert sorted(dmexp.__all__) == PUBLIC


def test_all_is_sorted_and_every_name_is_there() -> None:
    assert list(dmexp.__all__) == sorted(dmexp.__all__)
    assert [name for name in dmexp.__all__ if not hasattr(dmexp, name)] == []


def test_dir_shows_all_public_names() -> None:
    assert set(dmexp.__all__) <= set(dir(dmexp))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="lode_file"):
        dmexp.lode_file  # noqa: B018


def test_star_import_gives_exactly_the_public_names() -> None:
    code = "before = set(globals())\nfrom dmexp import *\nprint(*sorted(set(globals()) - before))"
    assert set(_fresh(code).split()) - {"before"} == set(PUBLIC)


def test_version_is_that_of_the_binary_and_of_cargo() -> None:
    from dmexp import _native

    assert dmexp.__version__ == _native.__version__


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "__version__"])
def test_every_public_name_is_documented(name: str) -> None:
    assert len(inspect.getdoc(getattr(dmexp, name)) or "") > 40


def test_import_loads_neither_the_command_line_nor_optional_packages() -> None:
    loaded = _loaded_by("import dmexp")
    assert not [name for name in loaded if name.split(".")[0] in {"rich", "argparse", *OPTIONAL}]
    assert not [name for name in loaded if name.startswith(("dmexp.cli", "dmexp.runtime"))]


def test_using_the_library_does_not_load_them_either() -> None:
    code = (
        "import dmexp, numpy as np\n"
        "data = dmexp.save({'a': np.ones(3, 'f4')})\n"
        "dmexp.load(data)\n"
        "for name in dmexp.__all__: getattr(dmexp, name)\n"
    )
    loaded = {name.split(".")[0] for name in _loaded_by(code)}
    assert not loaded & {"rich", "argparse", *OPTIONAL}


def test_every_module_imports_and_has_all_that_it_lists() -> None:
    wrong = []
    for module in pkgutil.walk_packages(dmexp.__path__, "dmexp."):
        if module.name.endswith(("__main__", "_native")) or module.name == "dmexp.torch":
            continue
        loaded = importlib.import_module(module.name)
        names = list(getattr(loaded, "__all__", ()))
        if len(set(names)) != len(names) or not all(hasattr(loaded, name) for name in names):
            wrong.append(module.name)
    assert wrong == []


def test_every_error_has_a_stable_code_of_its_own_branch() -> None:
    from dmexp import errors

    codes = {name: getattr(errors, name).code for name in errors.__all__}
    assert codes == {
        "ChecksumError": "CHECKSUM",
        "ContractError": "CONTRACT",
        "DmexpError": "ERROR",
        "DomainError": "DOMAIN",
        "FileFormatError": "ERROR",
        "FormatError": "FORMAT",
        "InvalidArgumentError": "INVALID_ARGUMENT",
        "LimitExceededError": "LIMIT_EXCEEDED",
        "MissingDependencyError": "MISSING_DEPENDENCY",
        "NonFiniteError": "NON_FINITE",
        "NotInvertibleError": "NOT_INVERTIBLE",
        "ShapeMismatchError": "SHAPE_MISMATCH",
        "SizeOverflowError": "OVERFLOW",
        "TargetExistsError": "EXISTS",
        "TensorNotFoundError": "NOT_FOUND",
        "TruncatedError": "TRUNCATED",
        "UnknownArchitectureError": "UNKNOWN_ARCHITECTURE",
        "UnsupportedDtypeError": "UNSUPPORTED_DTYPE",
        "UnsupportedError": "UNSUPPORTED",
        "UnsupportedFormatError": "UNSUPPORTED_FORMAT",
        "UnsupportedShapeError": "UNSUPPORTED_SHAPE",
        "ValueOverflowError": "NON_FINITE",
    }
    assert all(issubclass(getattr(errors, name), errors.DmexpError) for name in errors.__all__)


def test_errors_cross_a_process_with_their_facts() -> None:
    import copy

    from dmexp import errors

    original = errors.ChecksumError("m", path="p", stored="0", computed="1")
    again = copy.copy(original)
    assert (str(again), again.facts, type(again)) == (str(original), original.facts, type(original))
