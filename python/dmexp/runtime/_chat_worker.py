"""Render one chat template and exit. Started by `chat` as a program of its own.

Reads a JSON request on stdin and prints a JSON answer. It imports nothing of dmexp: start-up is
what a conversation waits for.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any, NoReturn

MEMORY_BYTES = 1 << 30


class Refused(Exception):
    """The template called ``raise_exception``."""


def limit_resources(seconds: float) -> None:
    """Where the platform has limits, the kernel ends what grows or spins."""
    try:
        import resource
    except ImportError:  # Windows; the parent's clock still runs there
        return
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def render(template: str, variables: dict[str, Any], largest: int) -> dict[str, Any]:
    """The answer: ``prompt``, or ``why`` not."""
    try:
        from jinja2 import TemplateError, nodes
        from jinja2.ext import Extension
        from jinja2.parser import Parser
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        return {"why": "missing"}

    class Generation(Extension):
        """``{% generation %}`` marks the assistant's words for training; here it is transparent."""

        tags = {"generation"}  # noqa: RUF012  (the base class types it so)

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: object) -> NoReturn:
        raise Refused(str(message))

    def to_json(value: Any, indent: int | None = None, **options: Any) -> str:
        # Jinja's own escapes for HTML, which a model never saw.
        options.setdefault("ensure_ascii", False)
        return json.dumps(value, indent=indent, **options)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", Generation],
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
    parts, length = [], 0
    try:
        for part in environment.from_string(template).generate(**variables):
            length += len(part)
            if length > largest:
                return {"why": "long"}
            parts.append(part)
    except Refused as error:
        return {"why": "refused", "message": str(error)[:1000]}
    except TemplateError as error:
        return {"why": "template", "message": f"{type(error).__name__}: {error}"[:1000]}
    except MemoryError:
        return {"why": "memory"}
    except Exception as error:
        # Whatever Python raises inside a template is about the template.
        return {"why": "template", "message": f"{type(error).__name__}: {error}"[:1000]}
    return {"prompt": "".join(parts)}


def main() -> None:
    request = json.load(sys.stdin)
    limit_resources(request["seconds"])
    answer = render(request["template"], request["variables"], request["largest"])
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
