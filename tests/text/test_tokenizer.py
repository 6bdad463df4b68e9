import json
import sys
import threading
import time

import pytest
import tokenizers
from small_tokenizer import CONFIG, SPECIAL, small_bpe, write
from tokenizers import AddedToken, decoders, models, processors
from transformers import AutoTokenizer

from hybridspec import assets
from hybridspec.errors import CheckpointError, RequestError
from hybridspec.text.tokenizer import LONG, Tokenizer

TEXTS = [
    "",
    " ",
    "The quick brown fox.",
    "<|im_start|>user\nHello<|im_end|>\n<think>\n\n</think>",
    "two words, Ġodd and ÿ",
    "Köln 中文 🎉\r\n\ttabs",
    "e\u0301 is normalised",
]


@pytest.fixture(scope="module")
def reference(tokenizer_dir):
    return AutoTokenizer.from_pretrained(tokenizer_dir)


@pytest.mark.parametrize("text", TEXTS)
def test_encode_and_decode_as_transformers(tokenizer, reference, text):
    ids = tokenizer.encode(text)
    assert ids == reference(text)["input_ids"]
    assert tokenizer.decode(ids) == reference.decode(ids, skip_special_tokens=True)
    assert tokenizer.decode(ids, skip_special_tokens=False) == reference.decode(ids)


@pytest.mark.parametrize("length", [LONG - 1, LONG, 3 * LONG])
@pytest.mark.parametrize("special", [True, False])
def test_a_long_text_has_the_same_ids(tmp_path, length, special):
    backend = small_bpe()
    start = backend.token_to_id("<|endoftext|>")
    backend.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", start)]
    )
    made = Tokenizer.from_dir(write(tmp_path, backend))
    text = ("".join(TEXTS) * length)[:length]
    expected = backend.encode(text, add_special_tokens=special).ids
    assert made.encode(text, add_special_tokens=special) == expected


def test_a_long_text_lets_other_threads_go_on(tokenizer):
    """Seen by what runs in the meantime: a thread that counts, and counts on."""
    counted, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    interval = sys.getswitchinterval()
    try:
        sys.setswitchinterval(60)  # only who lets go of the interpreter makes room
        before = counted[0]
        tokenizer.encode("The quick brown fox. " * LONG)
        assert counted[0] > before
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()


def test_special_tokens_in_text_are_single_ids(tokenizer):
    assert [len(tokenizer.encode(text)) for text in SPECIAL] == [1, 1, 1]
    assert tokenizer.encode("<|im_end|>") == [tokenizer.eos_token_id]
    assert tokenizer.decode(tokenizer.encode("a<|im_end|>b")) == "ab"


def test_sizes_and_names(tokenizer, reference):
    assert tokenizer.eos_token_id == reference.eos_token_id
    assert tokenizer.vocab_size == len(reference)


def test_only_the_post_processor_adds_tokens(tmp_path, tokenizer):
    backend = small_bpe()
    start = backend.token_to_id("<|endoftext|>")
    backend.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", start)]
    )
    adding = Tokenizer.from_dir(write(tmp_path, backend))
    plain = tokenizer.encode("the fox")
    assert adding.encode("the fox") == [start, *plain]
    assert adding.encode("the fox", add_special_tokens=False) == plain


def test_saved_truncation_and_padding_are_ignored(tmp_path, tokenizer):
    backend = small_bpe()
    backend.enable_truncation(4)
    backend.enable_padding(length=50)
    text = "the quick brown fox jumps over the lazy dog"
    assert Tokenizer.from_dir(write(tmp_path, backend)).encode(text) == tokenizer.encode(text)


def test_what_the_configuration_calls_special_is_hidden(tmp_path):
    """As in transformers: `eos_token` is special even where tokenizer.json says it is not."""
    backend = small_bpe()
    backend.add_tokens([AddedToken("<|stop|>", normalized=False)])
    directory = write(tmp_path, backend, CONFIG | {"eos_token": "<|stop|>"})
    ours, theirs = Tokenizer.from_dir(directory), AutoTokenizer.from_pretrained(directory)
    ids = ours.encode("fox<|stop|>")
    assert ids == theirs("fox<|stop|>")["input_ids"]
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True) == "fox"
    assert ours.detokenizer().push(ids) == "fox"


def test_a_lone_surrogate_is_refused(tokenizer):
    with pytest.raises(RequestError, match="not valid Unicode at character 3"):
        tokenizer.encode("abc\ud800")


# ---- files


def test_configuration_and_template_may_be_absent(tmp_path):
    small_bpe().save(str(tmp_path / "tokenizer.json"))
    bare = Tokenizer.from_dir(tmp_path)
    assert bare.eos_token_id is None
    assert not bare.has_chat_template
    with pytest.raises(RequestError, match="no chat template"):
        bare.render_chat([{"role": "user", "content": "Hello"}])


def test_missing_tokenizer(tmp_path):
    for directory in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match=r"tokenizer\.json is missing"):
            Tokenizer.from_dir(directory)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"model": {"type": "Nonsense"}}', "\x00\x01"])
def test_damaged_tokenizer(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        Tokenizer.from_dir(tmp_path)


def test_truncated_tokenizer(tmp_path):
    path = write(tmp_path) / "tokenizer.json"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        Tokenizer.from_dir(tmp_path)


def damaged(directory, **changes):
    path = write(directory) / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return directory


def test_a_tokenizer_that_makes_the_library_panic(tmp_path):
    """A panic in Rust is no Exception of Python's, and comes while reading or only in use."""
    broken = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        Tokenizer.from_dir(damaged(tmp_path, normalizer=broken))
    single = [{"SpecialToken": {"id": "gone", "type_id": 0}}]
    lacking = {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": {}}
    reader = Tokenizer.from_dir(damaged(tmp_path, post_processor=lacking))
    with pytest.raises(CheckpointError, match="tokenizer fails on this text"):
        reader.encode("fox")


def test_a_text_that_makes_the_library_panic(tokenizer, monkeypatch):
    """Then the tokenizer's files are right, and another download would not help."""

    class PanicException(BaseException):
        pass

    class Backend:
        def encode(self, text, *, add_special_tokens):
            if len(text) > 100:
                raise PanicException("retry-limit-in-match over")
            return backend.encode(text, add_special_tokens=add_special_tokens)

    backend = tokenizer._backend
    monkeypatch.setattr(tokenizer, "_backend", Backend())
    told = r"fails on this text: retry-limit-in-match over\. It takes others, so give a shorter one"
    with pytest.raises(RequestError, match=told):
        tokenizer.encode(" " * 101)
    assert tokenizer.encode("fox")


@pytest.mark.full
def test_millions_of_spaces_are_told_as_the_texts_fault():
    with pytest.raises(RequestError, match="give a shorter one"):
        Tokenizer.from_dir(assets.TARGET).encode(" " * 15_000_000)


NESTED = (b'{"a":' + b"[" * 100_000, b'{"a":' + b"[" * 500 + b"]" * 500 + b"}")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe\x00", *NESTED])
def test_damaged_configuration(tmp_path, content):
    (write(tmp_path) / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json"):
        Tokenizer.from_dir(tmp_path)


def test_an_eos_token_without_an_id(tmp_path):
    with pytest.raises(CheckpointError, match="'<gone>' as the eos token"):
        Tokenizer.from_dir(write(tmp_path, config=CONFIG | {"eos_token": "<gone>"}))


@pytest.mark.parametrize("decoder", [decoders.WordPiece(), decoders.Metaspace(), None])
def test_another_kind_of_tokenizer_is_refused(tmp_path, decoder):
    backend = tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    if decoder is not None:
        backend.decoder = decoder
    with pytest.raises(CheckpointError, match="expected ByteLevel"):
        Tokenizer.from_dir(write(tmp_path, backend))


# ---- where the template comes from


def rendered(directory):
    return Tokenizer.from_dir(directory).render_chat([{"role": "user", "content": "x"}])


def test_the_template_file_wins(tmp_path):
    (write(tmp_path) / "chat_template.jinja").write_text("file {{ messages[0].content }} ü")
    messages = [{"role": "user", "content": "x"}]
    theirs = AutoTokenizer.from_pretrained(tmp_path).apply_chat_template(messages, tokenize=False)
    assert rendered(tmp_path) == theirs == "file x ü"


def test_of_named_templates_the_default_is_taken(tmp_path):
    named = [{"name": "other", "template": "other"}, {"name": "default", "template": "this one"}]
    assert rendered(write(tmp_path, config=CONFIG | {"chat_template": named})) == "this one"


def test_a_broken_template_is_a_broken_checkpoint(tmp_path):
    broken = CONFIG | {"chat_template": "{% for %}"}
    with pytest.raises(CheckpointError, match="chat template cannot be read"):
        Tokenizer.from_dir(write(tmp_path, config=broken))


def test_an_unreadable_template_file(tmp_path):
    (write(tmp_path) / "chat_template.jinja").write_bytes(b"\xff\xff")
    with pytest.raises(CheckpointError, match="cannot be read as text"):
        Tokenizer.from_dir(tmp_path)
