"""The page's file and how it is served; `test_page_in_browser.py` uses it."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest
from test_refusals import CHAT, HELLO, refused

ROOT = Path(__file__).parents[2]
FILE = ROOT / "src/hybridspec/serving/page/index.html"
TEXT = FILE.read_text()


class Elements(HTMLParser):
    """Start tags with their attributes, and the texts of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.texts, self._open = [], {"script": [], "style": []}, ""
        self.feed(TEXT)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data):
        if self._open in self.texts:
            self.texts[self._open].append(data)
        self._open = ""


def policy(response):
    parts = response.headers["content-security-policy"].split(";")
    return {name: values for name, *values in (part.split() for part in parts)}


def test_the_page_is_the_packages_file(client):
    response = client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.text == TEXT
    head = client.head("/")
    assert (head.status_code, head.text) == (200, "")
    assert head.headers["content-length"] == str(len(TEXT.encode()))


def test_the_policy_lets_only_the_pages_own_parts_run(client):
    rules = policy(client.get("/"))
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        (text,) = Elements().texts[tag]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == [f"'sha256-{digest}'"]
    assert rules["default-src"] == ["'none'"]
    assert rules["connect-src"] == ["'self'"]
    for name in ("base-uri", "form-action", "frame-ancestors", "trusted-types"):
        assert rules[name] == ["'none'"]
    assert rules["require-trusted-types-for"] == ["'script'"]


def test_other_headers_are_strict(client):
    headers = client.get("/").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-cache"


def test_nothing_comes_from_elsewhere():
    assert "//" not in re.sub(r"^\s*//.*|[;{,] // .*", "", TEXT, flags=re.MULTILINE)
    elements = Elements().tags
    assert {tag for tag, _ in elements}.isdisjoint({"img", "iframe", "object", "embed", "base"})
    links = [attrs.get("src") or attrs.get("href") for _, attrs in elements]
    assert [link for link in links if link] == ["data:,"]
    assert re.findall(r"@import|url\(|import\(", TEXT) == []
    assert set(re.findall(r"fetch\(\"([^\"]+)", TEXT)) == {"v1/models", "v1/chat/completions"}


def test_texts_only_ever_become_text():
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc"
    assert re.findall(ways, TEXT) == []
    attributes = {name for _, attrs in Elements().tags for name in attrs}
    assert "style" not in attributes
    assert not any(name.startswith("on") for name in attributes)


def test_every_field_has_a_label_and_every_button_a_text():
    tags = [tag for tag, _ in Elements().tags]
    assert tags.count("label") == len(
        [tag for tag in tags if tag in ("input", "textarea", "select")]
    )
    bodies = re.findall(r"<label[^>]*>(.*?)</label>", TEXT, re.DOTALL)
    assert all(re.sub(r"<[^>]*>", "", body).strip() for body in bodies)
    assert all(text.strip() for text in re.findall(r"<button[^>]*>(.*?)</button>", TEXT))


def test_a_key_is_asked_for_by_the_api_but_not_by_the_page(make_client):
    client = make_client(api_key="open sesame")
    assert client.get("/").text == TEXT
    body = {"messages": HELLO, "max_tokens": 1, "stream": True, "return_rounds": True}
    refused(client.post(CHAT, json=body), 401)
    refused(client.get("/v1/models"), 401)
    right = {"Authorization": "Bearer open sesame"}
    assert client.post(CHAT, json=body, headers=right).status_code == 200


def test_other_names_of_the_host_get_no_page(make_client):
    client = make_client(allowed_hosts=("localhost",))
    assert client.get("/", headers={"Host": "localhost:8000"}).status_code == 200
    refused(client.get("/", headers={"Host": "page.example"}), 403)


def test_the_page_is_no_part_of_the_api(client):
    assert "/" not in client.get("/openapi.json").json()["paths"]


def _colours(scheme):
    light, dark = re.findall(r":root \{(.*?)\}", TEXT, re.DOTALL)
    chosen = light if scheme == "light" else dark
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", chosen))


def _luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "back"),
    [
        ("ink", "page"),
        ("ink", "card"),
        ("ink", "rule"),
        ("faint", "page"),
        ("faint", "card"),
        ("page", "strong"),
        ("accepted", "accepted-back"),
        ("corrected", "corrected-back"),
        ("corrected", "page"),
        ("refused", "page"),
        ("skipped", "page"),
    ],
)
def test_texts_stand_out_from_what_is_behind_them(scheme, ink, back):
    """4.5 is what WCAG 2.2 AA asks of text of this size."""
    colours = _colours(scheme)
    low, high = sorted((_luminance(colours[ink]), _luminance(colours[back])))
    assert (high + 0.05) / (low + 0.05) >= 4.5


@pytest.fixture
def builder():
    """What builds the wheel."""
    return pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))


def test_the_wheel_has_the_page(builder):
    members = {file.distribution_path for file in builder.recurse_included_files()}
    assert "hybridspec/serving/page/index.html" in members


@pytest.mark.full
def test_an_installed_wheel_serves_the_page(builder, tmp_path):
    (wheel,) = builder.build(directory=str(tmp_path))
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.endswith((".py", ".html"))]
        archive.extractall(installed, members)
    program = (
        "import hybridspec.serving.page as page; from fastapi import FastAPI; "
        "from fastapi.testclient import TestClient; app = FastAPI(); "
        "app.include_router(page.page_route()); print(page.__file__); "
        "print(len(TestClient(app).get('/').content))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    at, size = ran.stdout.split()
    assert Path(at).is_relative_to(installed)
    assert int(size) == len(FILE.read_bytes())
