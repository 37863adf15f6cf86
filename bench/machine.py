"""What was measured where: the processor, the versions, the size of what is installed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from datetime import date
from pathlib import Path
from typing import Any

PEERS = ("dmexp", "numpy", "ml_dtypes", "torch", "safetensors", "isal", "gguf", "tomli")

PINNED = [name for name in os.environ if name.startswith(("OPENBLAS_", "NPY_"))]


def unpin() -> list[str]:
    """Take away variables that hold NumPy or OpenBLAS to slow kernels. Before NumPy is loaded."""
    assert "numpy" not in sys.modules
    for name in PINNED:
        os.environ.pop(name, None)
    return PINNED


def describe() -> dict[str, Any]:
    """Processor, memory, system, versions."""
    return {
        "date": date.today().isoformat(),
        "cpu": cpu(),
        "cpus": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: found for name in PEERS if (found := version(name))},
        "instruction_set": _tier(),
        "unset_variables": PINNED,
        "load_average_at_start": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def summary(about: dict[str, Any]) -> str:
    """What `describe` found, in a few lines."""
    lines = [
        f"{about['cpu']}, {about['cpus']} CPUs, {about['instruction_set']}, {about['system']}",
        ", ".join(f"{name} {found}" for name, found in about["versions"].items()),
    ]
    if about["unset_variables"]:
        lines.append(f"unset in the benchmarks: {', '.join(about['unset_variables'])}")
    return "\n".join(lines)


def version(name: str) -> str | None:
    if name == "dmexp":
        import dmexp

        return dmexp.__version__
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu() -> str:
    """The processor's name with what tells its model, since virtual machines shorten the name."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", text.split("\n\n")[0], re.MULTILINE))
    name: str = fields.get("model name", platform.machine())
    if "cpu family" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    return name


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _memory_bytes() -> int | None:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _tier() -> str:
    from dmexp._native import cpu_tiers

    return cpu_tiers()[0]
