"""The page in a real browser: every view used as a person would, at three widths, light and dark."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import table

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = (files(pytest.importorskip("axe_playwright_python")) / "axe.min.js").read_text("utf-8")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
WIDTHS = (390, 820, 1400)
VIEWS = ("read?model=series&example=3", "read?model=strings&input=0110", "machine?string=011&kind=pa", "sure", "file")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="NO BROWSER: the page is NOT tested; install chromium (apt-get install chromium)"
    ),
]


@pytest.fixture(scope="module")
def address(models: Path) -> Iterator[str]:
    """The address of a server in a thread."""
    import uvicorn

    from sttau.serve import Settings, create_app

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app([models], Settings()), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


class Page:
    """A page of the browser that keeps what went wrong: errors in the console, and requests to other hosts."""

    def __init__(self, browser: Any, address: str, width: int = 1400) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900})
        self.page, self.address, self.problems = self.context.new_page(), address, list[str]()
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda r: None if r.url.startswith((address, "blob:")) else self.problems.append(r.url))

    def open(self, view: str) -> Any:
        self.page.goto("about:blank")
        self.problems.clear()
        self.page.goto(f"{self.address}#/{view}")
        self.page.wait_for_selector("main .card")
        self.page.wait_for_load_state("networkidle")
        return self.page


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Page]:
    made = Page(browser, address)
    yield made
    assert made.problems == []
    made.context.close()


def serious(page: Any) -> list[str]:
    """What axe-core finds that is serious or critical."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes.map(n => n.html)]))")
    return [json.dumps(one) for one in found if one[0] in ("serious", "critical")]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_fits_has_no_error_and_is_accessible(browser: Any, address: str, width: int) -> None:
    made = Page(browser, address, width)
    for view in VIEWS:
        page = made.open(view)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(20)  # figures follow the colors
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} is wider than {width}"
            assert page.locator(".error").count() == 0, view
            if (width, scheme) in ((390, "light"), (1400, "dark")):
                assert serious(page) == [], view
    assert made.problems == []
    made.context.close()


def test_reading_moves_back_and_forth_by_keyboard_and_the_address_keeps_it(opened: Page) -> None:
    page = opened.open("read?model=series&example=3")
    slider, sentence = page.get_by_role("slider", name="Element"), page.locator(".sentence")
    assert "After 4 of 4 elements" in sentence.inner_text()
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert "After 2 of 4 elements" in sentence.inner_text()
    page.get_by_label("Forward").click()
    assert "After 3 of 4 elements" in sentence.inner_text()
    shown, url = sentence.inner_text(), page.url
    assert "step=2" in url
    page.goto("about:blank")
    page.goto(url)
    page.wait_for_selector(".sentence")
    assert page.locator(".sentence").inner_text() == shown


def test_the_prediction_on_the_page_is_that_of_the_server(opened: Page) -> None:
    page = opened.open("read?model=strings&input=0110")
    body = {"model": "strings", "inputs": "0110"}
    row = page.request.post(opened.address + "api/predict", data=body).json()["predictions"][0]
    assert f"{row['label']} with probability {row['confidence']:.2f}" in page.locator(".sentence").inner_text()
    assert page.locator(".word").all_inner_texts() == ["^", "0", "1", "1", "0"]


def test_own_input_is_read_and_mistakes_are_explained(opened: Page) -> None:
    page = opened.open("read?model=strings&input=01")
    page.get_by_label("Or type").fill("111")
    page.get_by_role("button", name="Read").click()
    page.locator(".word").nth(3).wait_for()
    page.get_by_label("Or type").fill("12")
    page.get_by_role("button", name="Read").click()
    page.wait_for_selector("main [role=alert]")
    assert "2" in page.locator("[role=alert]").inner_text()
    opened.problems.clear()  # the browser reports the 422
    page.get_by_role("combobox", name="Model").select_option("series")
    page.get_by_label("Or paste a series").fill("0.5, 1\n-1, 2\n0, 0")
    page.get_by_role("button", name="Read").click()
    page.wait_for_selector(".sentence:has-text('of 3 elements')")


def test_probability_flows_through_the_machine_and_sums_to_one(opened: Page) -> None:
    page = opened.open("machine?string=0110&kind=pa&step=0")
    for _ in range(3):
        page.get_by_label("Forward").click()
    assert "After “011”" in page.locator(".sentence").inner_text()
    shares = page.eval_on_selector_all(".machine .fill", "all => all.map(c => Number(c.getAttribute('fill-opacity')))")
    assert sum(shares) == pytest.approx(1, abs=0.01)
    body = {"model": "strings", "inputs": "011"}
    row = page.request.post(opened.address + "api/predict", data=body).json()["predictions"][0]
    shown = float(page.locator(".sentence").inner_text().rstrip(".").split()[-1])
    assert shown == pytest.approx(row["p_accept"], abs=0.05)  # states within 0.01 of each other are merged
    before = page.locator(".machine").get_attribute("viewBox")
    page.locator(".machine").focus()
    page.keyboard.press("+")
    assert page.locator(".machine").get_attribute("viewBox") != before
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save DOT").click()
    assert Path(saved.value.path()).read_text().startswith("digraph")


def test_the_threshold_moves_coverage_and_error(opened: Page) -> None:
    page = opened.open("sure?model=series")
    found = page.request.post(opened.address + "api/evaluate?model=series").json()["risk_coverage"]
    slider = page.get_by_label("Abstention threshold")
    slider.focus()
    page.keyboard.press("Home")
    text = page.locator("section", has_text="Abstention").locator(".sentence").inner_text()
    assert f"{100 * found['coverage'][0]:.1f} % accepted" in text
    page.keyboard.press("End")
    text = page.locator("section", has_text="Abstention").locator(".sentence").inner_text()
    assert "100.0 % accepted" in text
    assert f"error {100 * found['risk'][-1]:.1f} %" in text
    page.get_by_role("combobox", name="Predictions").select_option("yes")
    assert "class=1" in page.url


def test_a_file_is_understood_predicted_and_downloaded(opened: Page, tmp_path: Path) -> None:
    page = opened.open("file?model=series")
    path = tmp_path / "mine.csv"
    path.write_text(table(7, labels=False))
    page.set_input_files("input[type=file]", str(path))
    page.wait_for_selector("text=What was understood")
    assert "7 series of 4 steps" in page.locator("pre").inner_text()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download as CSV").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("id,label,confidence")


def test_the_description_of_the_interface_needs_no_other_host(opened: Page) -> None:
    page = opened.page
    page.goto(opened.address + "docs")
    page.wait_for_selector("text=POST /api/predict")
    assert serious(page) == []


def test_the_views_are_reached_by_links_and_work_without_the_network_afterwards(opened: Page) -> None:
    page = opened.open("read?model=series&example=0")
    for name in ("The machine", "How sure is sure", "Try your file", "Read along"):
        page.get_by_role("link", name=name).click()
        page.wait_for_selector(f"h1:has-text('{name}')")
        page.wait_for_load_state("networkidle")
    assert page.get_by_role("link", name="Read along").get_attribute("aria-current") == "page"
