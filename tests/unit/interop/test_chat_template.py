"""Chat templates as texts between messages: the prompt is that of `apply_chat_template` of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from tests.browser_engine import in_node
from tests.parity.weights import shake
from tests.runtime.server.asking import served
from tests.system.toy import kept_signals
from tests.unit.interop.checkpoints import gpt2_tokenizer

from dikkat.interop.chat_template import chat_texts, template_settings
from dikkat.interop.importing import read_foreign, write_run
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.engine.contract import WritingEngine
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer, special_tokens_of

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)

TEMPLATES = {
    "chatml with a message of its own": (
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
        "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "brackets, the system within the first message": (
        "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
        "{% set system = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% endif %}"
        "{% for message in loop_messages %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' }}"
        "{% if loop.first and system is defined %}{{ '<<SYS>>' + system + '<</SYS>>' }}{% endif %}"
        "{{ message['content'] + ' [/INST]' }}{% else %}{{ ' ' + message['content'] + ' ' + eos_token }}{% endif %}"
        "{% endfor %}"
    ),
    "no system": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
        "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}"
    ),
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
TURNS = [("user", "Hello, you"), ("assistant", "Hi!"), ("user", "1 + 1 ?"), ("assistant", "2"), ("user", " so\n")]


def chat_tokenizer(folder: Path) -> tokenizers.Tokenizer:
    inner = gpt2_tokenizer()
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>", "<s>", "</s>"])
    inner.save(str(folder / "tokenizer.json"))
    return inner


class NoEngine:
    """Stands for an engine where none computes."""


def generator(folder: Path, template: str) -> Generator:
    chat_tokenizer(folder)
    tokenizer = ForeignTokenizer.load(folder / "tokenizer.json")
    chat = chat_texts({**TOKENS, "chat_template": template})
    engine: Any = NoEngine()
    own: WritingEngine = engine
    return Generator(own, tokenizer, 512, special_tokens=special_tokens_of(tokenizer, chat), chat=chat)


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("turns", [1, 3, 5])
def test_a_conversation_has_the_ids_of_transformers(kind: str, turns: int, tmp_path: Path) -> None:
    own = generator(tmp_path, TEMPLATES[kind])
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), **TOKENS)
    theirs.chat_template = TEMPLATES[kind]
    system = [] if kind == "no system" else [[("system", "Be short."), *TURNS[:turns]]]
    for messages in [TURNS[:turns], *system]:
        rows = [{"role": role, "content": content} for role, content in messages]
        rendered = theirs.apply_chat_template(rows, add_generation_prompt=True, tokenize=False)
        expected = theirs(rendered, add_special_tokens=False)["input_ids"]
        assert own.encode(messages) == expected


def test_special_tokens_of_a_message_are_text(tmp_path: Path) -> None:
    own = generator(tmp_path, TEMPLATES["chatml with a message of its own"])
    start = own.tokenizer.encode_marked(["<|im_start|>"])  # type: ignore[union-attr]
    assert len(start) == 1
    spoofed, plain = own.encode([("user", "<|im_start|>x")]), own.encode([("user", "x")])
    assert spoofed.count(start[0]) == plain.count(start[0]) == 3


def test_an_answer_ends_with_the_mark_behind_it(tmp_path: Path) -> None:
    ends = {kind: generator(tmp_path, template).special_tokens.end for kind, template in TEMPLATES.items()}
    ids = chat_tokenizer(tmp_path).get_vocab()
    assert list(ends.values()) == [ids["<|im_end|>"], ids["</s>"], ids["<|im_end|>"]]


def test_what_has_no_template_answers_no_message(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="this model has no chat template for messages of user"):
        generator(tmp_path, "").encode([("user", "x")])
    with pytest.raises(DataError, match="for messages of system, user"):
        generator(tmp_path, TEMPLATES["no system"]).encode([("system", "x"), ("user", "x")])


@pytest.mark.parametrize(
    "template",
    [
        "{% for message in messages %}{{ loop.index }}{{ message['content'] }}{% endfor %}",
        "{% for message in messages %}{{ message['content'] | trim }}{% endfor %}",
        "{% for message in messages %}{{ messages[0]['content'] }}{% endfor %}",
        "{{ messages[0].nothing.at.all }}",
        "{% for message in messages %}",
        "{{ ''.__class__.__mro__ }}",
    ],
)
def test_a_template_that_is_no_fixed_text_gives_none(template: str) -> None:
    assert chat_texts({"chat_template": template}) == {}


def test_the_template_of_a_folder_may_lie_next_to_its_settings(tmp_path: Path) -> None:
    assert template_settings(tmp_path) == {}
    settings = {"chat_template": "first", "bos_token": {"content": "<s>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert template_settings(tmp_path) == settings
    (tmp_path / "chat_template.jinja").write_text("second", encoding="utf-8")
    assert template_settings(tmp_path)["chat_template"] == "second"
    template = TEMPLATES["brackets, the system within the first message"]
    assert chat_texts({**settings, "chat_template": template, "eos_token": "</s>"})[" user"] == "<s>[INST] "


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with a chat template, imported."""
    folder = tmp_path_factory.mktemp("chatting")
    sizes = {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 40}
    (folder / "theirs").mkdir()
    entries = chat_tokenizer(folder / "theirs").get_vocab_size()
    config = transformers.LlamaConfig(**sizes, vocab_size=entries, max_position_embeddings=256)
    torch.manual_seed(5)
    theirs = transformers.LlamaForCausalLM(config)
    shake(theirs)
    theirs.eval().save_pretrained(folder / "theirs")
    template = TEMPLATES["chatml with a message of its own"]
    settings = json.dumps({**TOKENS, "chat_template": template})
    (folder / "theirs" / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    write_run(read_foreign(folder / "theirs"), folder / "run", folder / "theirs", "")
    return folder / "run"


def test_command_library_and_server_answer_alike(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, options = Generator.load(run), GenerationOptions(temperature=0, max_tokens=8)
    prompt = chat_texts({**TOKENS, "chat_template": TEMPLATES["chatml with a message of its own"]})
    ids = own.tokenizer.encode_marked([prompt[" user"], "Hello", prompt["user "]])  # type: ignore[union-attr]
    answer = "".join(text for text, _ in own.pieces(ids, options))
    assert answer
    assert "".join(own.stream([("user", "Hello")], options)) == answer
    assert own.generate([[("user", "Hello")]], options=options)[0][0].text == answer
    with kept_signals():
        assert run_command(["generate", str(run), "Hello", "--chat", "--greedy", "--max-tokens", "8"]) == 0
    assert capsys.readouterr().out == f"{answer}\n"
    ask: dict[str, Any] = {"model": "lm", "max_tokens": 8, "temperature": 0}
    with served(Catalog([f"lm={run}"])) as server:
        got = server.post("/v1/chat/completions", messages=[{"role": "user", "content": "Hello"}], **ask)
        assert got["choices"][0]["message"]["content"] == answer
        assert got["usage"]["prompt_tokens"] == len(ids)
        for role in ("developer", "system"):
            rows = [{"role": role, "content": "Be short."}, {"role": "user", "content": "Hello"}]
            got = server.post("/v1/chat/completions", messages=rows, **ask)
            expected = own.encode([("system", "Be short."), ("user", "Hello")])
            assert got["usage"]["prompt_tokens"] == len(expected)
        refused = server.client.post(
            "/v1/chat/completions", json={"messages": [{"role": "judge", "content": "x"}], **ask}
        )
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "messages"


def test_a_page_reads_a_message_as_the_runtime_does(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path)
    settings = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    parts = ["<|im_start|>user\n", "Hello <|im_end|>, you", "<|im_end|>\n<|im_start|>assistant\n", ""]
    code = "return new engine.Tokenizer(input.settings).encodeMarked(input.parts);"
    found = in_node(tmp_path / "node", code, {"settings": settings, "parts": parts})
    assert found == ForeignTokenizer.load(tmp_path / "tokenizer.json").encode_marked(parts)
