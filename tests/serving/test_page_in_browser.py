"""The page in a headless Chromium, against a real server with the embedded pair."""

from __future__ import annotations

import json

import pytest
from browser import CHROMIUM, Browser, browser

from hybridspec.core import SamplingParams
from hybridspec.serving import Settings, create_app
from hybridspec.serving.tokens import token_text
from scripted_text import RIGHT
from served import serve, until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
POEM = "Write a poem about autumn."
ENDED = "document.querySelector('#stop').hidden"
KINDS = ("accepted", "corrected", "own", "refused", "skipped")


class Page:
    """What a person sees of the page and does with it."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.browser, self.run, self.url = browser, browser.run, url
        browser.complaints.clear()
        browser.requests.clear()
        browser.look(1100, 900)
        browser.open(f"{url}/")
        self.run("(localStorage.clear(), sessionStorage.clear())")
        browser.open(f"{url}/?again")
        browser.until("document.querySelector('#state').textContent !== '…'")

    def send(self, question: str, **settings: object) -> None:
        """By the keyboard, with fields of the settings filled in."""
        for name, value in settings.items():
            self.run(f"document.querySelector('#{name}').value = {json.dumps(str(value))}")
        self.run("document.querySelector('#question').focus()")
        self.browser.write(question)
        self.browser.press("Enter")

    def ask(self, question: str, **settings: object) -> None:
        """And wait for the end of the answer."""
        self.send(question, **settings)
        self.browser.until(ENDED)

    def texts(self, selector: str) -> list[str]:
        """Of the elements."""
        found = f"document.querySelectorAll({json.dumps(selector)})"
        return self.run(f"Array.from({found}, (element) => element.textContent)")

    def rounds(self) -> list[dict[str, object]]:
        """Rounds of the last answer: the badge, and the tokens of each kind, as they are shown."""
        kinds = ", ".join(f"{kind}: texts(round, '.t.{kind}')" for kind in KINDS)
        return self.run(
            "(() => { const texts = (at, s) => Array.from(at.querySelectorAll(s), (e) => "
            "e.textContent); const all = document.querySelectorAll('.answer'); return Array.from("
            "all[all.length - 1].querySelectorAll('.round'), (round) => "
            f"({{w: texts(round, '.w')[0], {kinds}}})); }})()"
        )

    def view(self, name: str) -> None:
        self.run(f"document.querySelector('#views [value={name}]').click()")

    def seen(self, selector: str) -> bool:
        """Whether it takes any room."""
        return self.run(f"document.querySelector({json.dumps(selector)}).offsetHeight > 0")

    @property
    def bodies(self) -> list[dict[str, object]]:
        return [json.loads(body) for _, body in self.browser.requests if body]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("chromium")) as made:
        yield made


@pytest.fixture
def page(chromium, served) -> Page:
    return Page(chromium, served.url)


def told(engine, generation) -> list[dict[str, object]]:
    """What the page is to show of an answer's rounds: the paper's convention, counted here anew."""

    def texts(ids) -> list[str]:
        return [token_text(engine.tokenizer, i).replace("\n", "↵") for i in ids]

    start, wanted = 1, []
    for r in generation.stats.rounds:
        tokens, drafts = generation.token_ids[start : start + r.committed], r.drafts.tolist()
        start += r.committed
        verified, more = drafts[: r.w - 1], tokens[r.accepted :]
        corrects = r.accepted < len(verified)
        wanted.append(
            {
                "w": f"w {r.w} {r.accepted}/{r.w - 1}" if r.w > 1 else "w 1",
                "accepted": texts(tokens[: r.accepted]),
                "corrected": texts(more if corrects else ()),
                "own": texts(() if corrects else more),
                "refused": texts(verified[r.accepted :]),
                "skipped": texts(drafts[r.w - 1 :]),
            }
        )
    return wanted


def test_an_answer_streams_with_its_rounds(page, engine):
    """Every token, whether it was drafted, accepted, corrected, refused or skipped, and each w."""
    params, chat = SamplingParams(max_tokens=60), [{"role": "user", "content": POEM}]
    wanted = engine.generate(chat, params, system="hybridspec", keep_drafts=True)
    page.ask(POEM, temperature=0, most=60, system="hybridspec")
    assert page.texts(".answer .text") == [wanted.text]
    first, *rounds = page.rounds()
    assert (first["w"], len(first["own"])) == ("prompt", 1)
    assert rounds == told(engine, wanted)
    for kind in KINDS:
        assert any(shown[kind] for shown in rounds), kind
    assert len({shown["w"].split()[1] for shown in rounds}) > 1
    (stats,) = page.texts(".stats")
    lengths = [r.w for r in wanted.stats.rounds]
    assert f"acceptance length {wanted.stats.mean_acceptance_length:.2f} ·" in stats
    assert f"mean w {sum(lengths) / len(lengths):.2f} ·" in stats
    assert "60 tokens ·" in stats
    assert f"0 of {wanted.prompt_tokens} prompt tokens cached" in stats
    assert "system hybridspec · ended at the token limit" in stats


def test_nothing_is_refused_by_the_policy_and_nobody_else_is_asked(page):
    page.ask("Hello", most=3)
    assert page.browser.complaints == []
    assert {url.startswith(f"{page.url}/") for url, _ in page.browser.requests} == {True}


@pytest.mark.parametrize(
    ("way", "rule"),
    [
        ("document.body.innerHTML = '<b>'", "require-trusted-types-for"),
        ("document.body.append(document.createElement('style'))", "style-src-elem"),
        ("new Image().src = '/x.png'", "img-src"),
        ("fetch('//[::1]:1/')", "connect-src"),
        ("document.querySelector('form').submit()", "form-action"),
    ],
)
def test_what_the_page_does_not_do_its_policy_forbids(page, way, rule):
    broken = page.run(
        "new Promise((tell) => { document.addEventListener('securitypolicyviolation', (event) => "
        f"tell(event.effectiveDirective)); try {{ {way} }} catch {{}} }})"
    )
    assert broken == rule


def test_every_token_has_its_kind(page, script):
    """Of three drafts two are right in one round and all in the next."""
    script("one two three four five six seven eight", plan=(2, RIGHT))
    page.ask("Count", system="static:4")
    first, corrected, agreed, *_ = page.rounds()
    assert [len(first[kind]) for kind in KINDS] == [0, 0, 1, 0, 0]
    assert corrected["w"] == "w 4 2/3"
    assert [len(corrected[kind]) for kind in KINDS] == [2, 1, 0, 1, 0]
    assert agreed["w"] == "w 4 3/3"
    assert [len(agreed[kind]) for kind in KINDS] == [3, 0, 1, 0, 0]
    tokens = [t for r in page.rounds() for kind in KINDS[:3] for t in r[kind]]
    assert "".join(tokens).startswith("one two three four five")


def test_plain_decoding_has_neither_drafts_nor_corrections(page):
    page.ask("Hello", most=5, system="ar")
    assert [r["w"] for r in page.rounds()] == ["prompt"] + ["w 1"] * 4
    assert all(len(r["own"]) == 1 for r in page.rounds())
    assert page.texts(".answer :is(.accepted, .corrected, .refused, .skipped)") == []


def test_what_looks_like_markup_is_text(page, script):
    said = '<img src=x onerror="alert(1)"><b>bold</b> <script>alert(2)</script> &amp;'
    script(said)
    page.ask(said)
    assert page.texts(".said") == page.texts(".answer .text") == [said]
    assert page.run("document.querySelectorAll('#talk :is(img, b, script)').length") == 0
    shown = "".join(t for r in page.rounds() for kind in KINDS[:3] for t in r[kind])
    assert shown.startswith(said)


def test_a_character_of_several_tokens_is_put_together(page, script, engine):
    said = "Zürich 🌱 漢字\n\nend"
    ids = script(said)
    page.ask("Hello", system="static:2")
    shown = "".join(t for r in page.rounds() for kind in KINDS[:3] for t in r[kind])
    assert any(token_text(engine.tokenizer, i).startswith("bytes:") for i in ids)
    assert shown.replace("…", "").startswith(said.replace("\n", "↵"))
    assert page.texts(".answer .text") == [said]


def test_a_thought_is_apart_from_the_answer(chromium, engine, script):
    script("It grows.\n</think>\n\nSlowly.")
    with serve(create_app(engine, Settings(thinking=True))) as thinking:
        page = Page(chromium, thinking.url)
        page.ask("Hello")
        assert page.texts(".answer .thought") == ["It grows."]
        assert page.texts(".answer .text") == ["Slowly."]
        page.ask("And?")
        assert page.bodies[-1]["messages"][1]["content"] == "Slowly."


def test_a_conversation_goes_on_with_its_history_and_settings(page, script):
    page.ask("Hello", most=6, temperature=0, system="static:2", prompt="Be brief.")
    page.ask("And then?", most=7, temperature=0.5, system="", prompt="")
    first, second = page.bodies
    hello = {"role": "user", "content": "Hello"}
    assert first["messages"] == [{"role": "system", "content": "Be brief."}, hello]
    assert (first["max_tokens"], first["temperature"], first["system"]) == (6, 0, "static:2")
    said = page.texts(".answer .text")[0]
    question = {"role": "user", "content": "And then?"}
    assert second["messages"] == [hello, {"role": "assistant", "content": said}, question]
    assert (second["max_tokens"], second["temperature"]) == (7, 0.5)
    assert "system" not in second
    page.run("document.querySelector('#fresh').click()")
    assert page.texts("#talk > *") == []
    script("It ends.")  # without a limit a drawn answer may be as long as the context
    page.ask("New", most="", temperature="")
    assert page.bodies[-1]["messages"] == [{"role": "user", "content": "New"}]
    assert page.bodies[-1].keys().isdisjoint({"max_tokens", "temperature", "system"})


@pytest.mark.parametrize("way", ["button", "Escape"])
def test_an_answer_can_be_stopped(page, served, script, way):
    """The engine is free again, and what was said by then is part of the conversation."""
    script([1000] * 3000)
    page.send("Go on")
    page.browser.until("document.querySelectorAll('.round').length > 3")
    if way == "button":
        page.run("document.querySelector('#stop').click()")
    else:
        page.browser.press("Escape")
    page.browser.until(ENDED)
    assert page.texts("#state") == ["Stopped."]
    assert page.texts(".stats")[0].endswith("· stopped")
    script("Yes.")
    page.ask("Still there?")
    assert page.texts(".answer .text")[1] == "Yes."
    assert page.bodies[-1]["messages"][1]["content"] == page.texts(".answer .text")[0]
    until(served.idle)


def test_a_server_with_a_key_asks_for_it(chromium, engine):
    with serve(create_app(engine, Settings(api_key="schlüssel"))) as locked:
        page = Page(chromium, locked.url)
        page.browser.until("document.querySelector('#settings').open")
        page.ask("Hello", most=3, key="wrong")
        (error,) = page.texts(".error")
        assert error.startswith("The API key is missing or wrong")
        assert page.run("document.querySelector('#question').value") == "Hello"
        page.run("document.querySelector('#question').value = ''")
        page.ask("Hello", key="schlüssel")
        assert len(page.rounds()) > 1
        assert page.bodies[-1]["messages"] == [{"role": "user", "content": "Hello"}]


def test_a_model_that_loads_is_waited_for(chromium, served, monkeypatch):
    with monkeypatch.context() as loading:
        loading.setattr(served.app.state.worker, "_engine", None)
        page = Page(chromium, served.url)
        assert page.texts("#state") == ["The model is still loading. Try again."]
    page.browser.until("document.querySelector('#state').textContent === 'Ready.'")
    assert page.texts("#model") == ["embedded, context 32768"]


def test_what_the_server_refuses_is_said_and_may_be_sent_again(page):
    page.ask("long " * 40_000)
    (error,) = page.texts(".error")
    assert "context" in error
    page.run("document.querySelector('#question').value = ''")
    page.ask("short", most=2)
    assert page.bodies[-1]["messages"] == [{"role": "user", "content": "short"}]


def test_a_field_that_cannot_be_sent_is_shown(page):
    page.send("Hello", temperature=-1)
    assert page.run("document.querySelector('#settings').open")
    assert page.bodies == []


def test_views_show_rounds_or_tokens_or_text_and_are_remembered(page):
    page.ask(POEM, most=20, system="hybridspec", temperature=0)
    assert page.seen(".answer .skipped")
    assert not page.seen(".answer .text")
    page.run("document.querySelector('#views :checked').focus()")
    page.browser.press("ArrowRight")
    assert page.run("document.querySelector('#views :checked').value") == "tokens"
    assert page.seen(".answer .accepted")
    assert not page.seen(".answer .skipped")
    page.view("text")
    assert page.seen(".answer .text")
    assert not page.seen(".answer .rounds")
    page.browser.open(f"{page.url}/?later")
    assert page.run("document.querySelector('#talk').dataset.view") == "text"


@pytest.mark.parametrize("width", [320, 1100])
def test_nothing_is_wider_than_the_window(page, width):
    page.browser.look(width, 640)
    page.ask("o" * 400, most=40, system="static:8")
    for view in ("rounds", "tokens", "text"):
        page.view(view)
        for element in ("document.documentElement", "document.querySelector('#talk')"):
            assert page.run(f"{element}.scrollWidth <= {element}.clientWidth")
    assert page.seen("#send")


@pytest.mark.parametrize("size", [(420, 800), (420, 600), (768, 900), (1280, 800)])
def test_with_settings_open_all_parts_are_within_the_window(page, size):
    page.browser.look(*size)
    page.run("document.querySelector('#settings').open = true")
    page.ask(POEM, most=30, system="static:4")
    box = "document.querySelector('{}').getBoundingClientRect()"
    assert page.run("document.documentElement.scrollHeight") == size[1]
    assert page.run("document.documentElement.scrollWidth") == size[0]
    for part in ("header", "#settings .fields", "#talk", "#send"):
        top, bottom = (page.run(f"{box.format(part)}.{edge}") for edge in ("top", "bottom"))
        assert 0 <= top < bottom <= size[1], part
    assert page.run(f"{box.format('#talk')}.height") >= 80  # three rounds and more
    assert page.run(
        "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)"
        "(document.querySelector('#settings .fields'))"
    )


def test_a_reader_of_dark_pages_gets_one(page):
    colour = "getComputedStyle(document.body).backgroundColor"
    assert page.run(colour) == "rgb(251, 251, 250)"
    page.browser.look(1100, 900, "dark")
    assert page.run(colour) == "rgb(22, 24, 27)"
