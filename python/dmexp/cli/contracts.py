"""``dmexp contracts``: what exporters did to tensors, as declared, proved and recorded claims."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _arguments as arguments
from ._provenance import record_of, record_of_header, require_free, write
from ._text import print_json, printable, table

if TYPE_CHECKING:
    from ..contracts import Contract

_DESCRIPTION = """\
A GGUF file does not hold what was trained: its exporter permutes, adds, exponentiates. Each such
step is a contract, declared by architecture and tensor name, with its inverse, its domains, and
worked examples that a wrong step fails."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``contracts`` and its four actions to the command line."""
    parser = commands.add_parser(
        "contracts",
        help="list, show, lint and record the transform contracts of GGUF files",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True)
    _add_list(actions)
    _add_show(actions)
    _add_lint(actions)
    _add_provenance(actions)


def _add_list(actions: Any) -> None:
    text = "every declared contract, one a line, and how well it is proved"
    parser = actions.add_parser("list", help=text, description=f"List {text}.", allow_abbrev=False)
    parser.add_argument(
        "architecture", metavar="ARCHITECTURE", nargs="?", help="only this one (default: all)"
    )
    _add_convention(parser)
    arguments.add_json(parser)
    parser.set_defaults(action=_list)


def _add_show(actions: Any) -> None:
    parser = actions.add_parser(
        "show",
        help="the steps of a GGUF file, or the records of an architecture",
        description="Show the transform id of every tensor of a GGUF file, from its header alone "
        "(the file may end where the data would begin); or all that is declared for an "
        "architecture.",
        allow_abbrev=False,
    )
    parser.add_argument("target", metavar="TARGET", help="a GGUF file, or an architecture")
    parser.add_argument("tensor", metavar="TENSOR", nargs="?", help="only this tensor")
    _add_convention(parser)
    arguments.add_json(parser)
    parser.set_defaults(action=_show)


def _add_lint(actions: Any) -> None:
    parser = actions.add_parser(
        "lint",
        help="check that every step has a contract and every contract a proof",
        description="Look for steps without a contract, contracts without a step, and witnesses "
        "that could not fail. Exit status 1 if there are findings.",
        allow_abbrev=False,
    )
    parser.add_argument("architectures", metavar="ARCHITECTURE", nargs="*", help="only these")
    parser.add_argument(
        "--mutations",
        action="store_true",
        help="also break every contract on purpose and print which witness notices",
    )
    arguments.add_json(parser)
    parser.set_defaults(action=_lint)


def _add_provenance(actions: Any) -> None:
    parser = actions.add_parser(
        "provenance",
        help="record what is undone to a GGUF file, as JSON that is the same everywhere",
        description="Write which steps are undone to FILE, with the checks of their domains and a "
        "summary of each tensor, as JSON without times and paths. Always JSON.",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="a GGUF file")
    parser.add_argument("-o", "--out", metavar="OUT", type=Path, help="default: stdout")
    parser.add_argument(
        "--header-only", action="store_true", help="do not read the data: no checks, no summaries"
    )
    parser.add_argument("--force", "-f", action="store_true", help="replace OUT if it is there")
    arguments.add_json(parser)
    parser.set_defaults(action=_provenance)


def _add_convention(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--convention",
        choices=["llama.cpp", "fak"],
        default="llama.cpp",
        help="whose table: llama.cpp (default), by which files are read, or fak's own",
    )


def run(args: argparse.Namespace) -> int:
    """Run the action that was named."""
    return int(args.action(args))


def _list(args: argparse.Namespace) -> int:
    from .. import contracts

    found = contracts.list(convention=args.convention, architecture=args.architecture)
    renamed = []
    if args.convention == "llama.cpp":
        with_steps = {contract.architecture for contract in found}
        asked = args.architecture
        names = contracts.architectures() if asked is None else [contracts.spelling(asked)]
        renamed = [name for name in names if name not in with_steps]
    if args.json:
        print_json(
            {
                "convention": args.convention,
                "contracts": [contract.as_dict() for contract in found],
                "renames_only": renamed,
            }
        )
        return 0
    if found:
        head = ("architecture", "in the file", "in the checkpoint", "transform", "proof", "")
        print(table(head, [_row(contract) for contract in found]) + "\n")
    print(_summary(found, renamed))
    return 0


def _row(contract: Contract) -> tuple[str, ...]:
    remarks = [
        word
        for word, applies in (
            ("not invertible", not contract.invertible),
            ("not lossless", not contract.lossless),
            ("disputed", bool(contract.disputed)),
        )
        if applies
    ]
    return (
        contract.architecture,
        " + ".join(contract.external),
        _first_of(contract.canonical) if contract.canonical else "dropped",
        contract.transform,
        contract.status,
        ", ".join(remarks),
    )


def _first_of(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def _summary(found: list[Contract], renamed: list[str]) -> str:
    verified = sum(contract.status == "verified" for contract in found)
    architectures = len({contract.architecture for contract in found})
    lines = []
    if found:
        lines.append(
            f"{_counted(len(found), 'contract')} of {_counted(architectures, 'architecture')}: "
            f"{verified:,} verified against files that the exporter wrote, "
            f"{len(found) - verified:,} read from its source"
        )
    if renamed:
        verb = "renames" if len(renamed) == 1 else "rename"
        lines.append(f"{_counted(len(renamed), 'architecture')} only {verb}: {', '.join(renamed)}")
    return "\n".join(lines)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _show(args: argparse.Namespace) -> int:
    from .. import contracts

    # What looks like a path is one, so that a mistyped file is not taken for an architecture.
    if Path(args.target).exists() or args.target.endswith(".gguf") or "/" in args.target:
        return _show_file(args)
    if args.tensor is not None:
        one = contracts.get(args.target, args.tensor, convention=args.convention)
        found = [] if one is None else [one]
    else:
        found = contracts.list(convention=args.convention, architecture=args.target)
    if args.json:
        print_json({"contracts": [contract.as_dict() for contract in found]})
    elif not found:
        print("a plain rename: there is no step, and so no contract")
    else:
        print("\n\n".join(_record_text(contract) for contract in found))
    return 0


def _show_file(args: argparse.Namespace) -> int:
    from ..contracts import transform_ids
    from ..errors import InvalidArgumentError, TensorNotFoundError

    if args.convention != "llama.cpp":
        raise InvalidArgumentError(
            f"no file is read by the table of {args.convention}, which is kept to compare with. "
            f"Leave --convention out, or name an architecture: dmexp contracts show --convention "
            f"{args.convention} qwen35",
            path=args.target,
            argument="--convention",
            known=["llama.cpp"],
        )
    found = transform_ids(args.target)
    if args.tensor is not None:
        if args.tensor not in found:
            raise TensorNotFoundError(
                f"no tensor {args.tensor!r} is in this file.", path=args.target, name=args.tensor
            )
        found = {args.tensor: found[args.tensor]}
    if args.json:
        print_json({"path": args.target, "transforms": found})
        return 0
    rows = [(printable(name), transform or "rename") for name, transform in found.items()]
    print(table(("tensor", "transform"), rows))
    changed = sum(bool(transform) for transform in found.values())
    print(f"\n{changed:,} of {len(found):,} tensors are more than renamed")
    return 0


def _record_text(contract: Contract) -> str:
    provenance = contract.provenance
    lines = [
        f"{contract.architecture}: {' + '.join(contract.external)}",
        f"becomes: {' + '.join(contract.canonical) or 'nothing: it is dropped'}",
        f"transform: {contract.transform}",
        f"metadata read: {', '.join(contract.parameters) or 'none'}",
        f"domain in the file: {contract.source_domain.prose}",
        f"domain in the checkpoint: {contract.canonical_domain.prose}",
        f"lossless: {_word(contract.lossless)}, invertible: {_word(contract.invertible)}, "
        f"refuses what looks canonical: {_word(contract.rejects_canonical_domain)}, "
        f"tolerance: {contract.tolerance:g}",
        f"exporter: {provenance.exporter}, {provenance.versions}",
        f"decided by: {provenance.decided}",
        f"a reader of the file: {provenance.consumer}",
        f"witnesses: {', '.join(witness.kind for witness in contract.witnesses)}",
        f"proof: {contract.status}",
    ]
    if contract.disputed:
        lines.append(f"disputed: {contract.disputed}")
    return "\n".join([lines[0], *(f"  {line}" for line in lines[1:])])


def _word(flag: bool) -> str:
    return "yes" if flag else "no"


def _lint(args: argparse.Namespace) -> int:
    from .. import contracts

    findings = contracts.lint(args.architectures or None)
    mutants = []
    if args.mutations:
        names = args.architectures or [None]
        mutants = [
            mutant for name in names for mutant in contracts.mutation_table(architecture=name)
        ]
    alive = [mutant for mutant in mutants if not mutant.killed_by]
    if args.json:
        document: dict[str, Any] = {
            "ok": not findings and not alive,
            "findings": [finding._asdict() for finding in findings],
        }
        if args.mutations:
            document["mutants"] = [_mutant_dict(mutant) for mutant in mutants]
        print_json(document)
    else:
        if mutants:
            head = ("architecture", "in the file", "transform", "replaced by", "noticed by")
            rows = [tuple(_mutant_dict(mutant).values()) for mutant in mutants]
            print(table(head, [(*row[:4], row[4] or "NOTHING") for row in rows]) + "\n")
        for finding in findings:
            print(finding)
        print(_lint_summary(len(findings), mutants, len(alive)))
    return 1 if findings or alive else 0


def _mutant_dict(mutant: Any) -> dict[str, str]:
    keys = ("architecture", "external", "transform", "mutant", "killed_by")
    return {key: getattr(mutant, key) for key in keys}


def _lint_summary(findings: int, mutants: list[Any], alive: int) -> str:
    text = "lint: ok" if not findings else f"lint: {findings:,} findings"
    if mutants:
        text += f"; {len(mutants) - alive:,} of {len(mutants):,} mutants noticed"
    return text


def _provenance(args: argparse.Namespace) -> int:
    if args.out is not None:
        require_free(args.out, force=args.force)
    if args.header_only:
        record = record_of_header(args.file)
    else:
        from ..loaders import SourceOptions, open_source

        with open_source(args.file, SourceOptions(tokenizer=False)) as source:
            record = record_of(source)
    if args.out is not None:
        write(record, args.out)
    else:
        from ..contracts import provenance_json

        sys.stdout.write(provenance_json(record))
    return 0
