"""Chat templates: what they print, and what a hostile one cannot do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dmexp.errors import (
    DmexpError,
    InvalidArgumentError,
    LimitExceededError,
    MissingDependencyError,
)
from dmexp.runtime import _chat_worker, chat
from dmexp.runtime.chat import render_chat
from dmexp.runtime.tokenizer import TokenizerFacts

HI = [{"role": "user", "content": "hi"}]


def render(template: str, messages: Any = HI, **facts: Any) -> str:
    return render_chat(TokenizerFacts(chat_template=template, **facts), messages, seconds=2)


def test_a_template_sees_messages_special_tokens_and_the_prompt_flag() -> None:
    template = (
        "{{ bos_token }}{% for m in messages %}\n    {% if m.role == 'user' %}\nU:{{ m['content'] }}"
        "{% else %}X{% endif %}{% endfor %}{% if add_generation_prompt %}A:{% endif %}"
    )
    # Blocks leave no blank lines and no indentation, as the templates' authors rely on.
    assert render(template, special={"bos_token": "<s>"}) == "<s>U:hiA:"


def test_the_template_of_smollm2_gives_its_published_prompt() -> None:
    template = (
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
        "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    assert render(template) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ {'ü': '<'} | tojson }}", '{"ü": "<"}'),
        ("{% generation %}a{% endgeneration %}b", "ab"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% set ns = namespace(x=1) %}{% set ns.x = 2 %}{{ ns.x }}", "2"),
        ("{{ messages[0]['content'].strip() | upper }}", "HI"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{{ undefined_name }}|{{ tools is defined }}", "|False"),
        # What the sandbox hides is as if it were not there.
        ("{{ raise_exception.__globals__ }}", ""),
        ("{{ '{0.__class__}'.format(messages) }}", ""),
    ],
)
def test_what_published_templates_use_works(template: str, expected: str) -> None:
    assert render(template) == expected


def test_words_of_a_message_are_not_a_template() -> None:
    words = "{{ 7 * 7 }}{% raw %}\x00\u2028🙂"
    assert render("{{ messages[0].content }}", [{"role": "user", "content": words}]) == words


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ lipsum.__globals__['os'].system('id') }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='x') }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ open('/etc/passwd').read() }}",
        "{% if",
        "{{ 1 / 0 }}",
        "{{ messages[5].content.x }}",
        "{{ range(999999999) | list }}",
    ],
)
def test_a_template_that_breaks_or_reaches_out_is_refused(template: str) -> None:
    with pytest.raises(InvalidArgumentError, match="the chat template refuses") as caught:
        render(template)
    assert "root:" not in caught.value.message


def test_a_template_may_refuse_and_says_why() -> None:
    with pytest.raises(InvalidArgumentError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


@pytest.mark.skipif(sys.platform == "win32", reason="the kernel there has no such limits")
@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10**10 }}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{{ 9 ** (9 ** 9) }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ '%01000000000d' | format(1) }}",
        "{% for i in range(99999) %}{{ '%0999d' | format(i) }}{% endfor %}",
    ],
)
def test_a_template_that_grows_or_spins_is_ended(template: str) -> None:
    with pytest.raises(LimitExceededError, match="the chat template"):
        render(template)


def test_a_template_that_is_longer_than_any_is_refused_unread() -> None:
    with pytest.raises(LimitExceededError, match="has 1048577 characters"):
        render(" " * (chat.LARGEST_TEMPLATE + 1))


def test_a_tokenizer_without_a_template_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no chat template"):
        render_chat(TokenizerFacts(), HI)


def test_the_child_takes_nothing_from_the_directory_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jinja2.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert render("{{ messages[0].content }}") == "hi"


def test_without_jinja2_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert _chat_worker.render("x", {}, 10) == {"why": "missing"}
    monkeypatch.setattr(chat, "_ask", lambda request, seconds: {"why": "missing"})
    with pytest.raises(MissingDependencyError, match=r"dmexp\[text\]") as caught:
        render("x")
    assert caught.value.extra == "text"


def test_a_child_that_breaks_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('no such luck')")
    monkeypatch.setattr(chat, "_WORKER", broken)
    with pytest.raises(DmexpError, match="no such luck"):
        render("x")


def test_the_worker_loads_nothing_of_the_package() -> None:
    code = (
        f"import runpy, sys; runpy.run_path({str(chat._WORKER)!r}); print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
