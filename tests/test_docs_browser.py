"""The site in headless Chromium, opened from files: nothing goes wrong, formulas can be seen,
search finds, and it can be read on a phone, in the dark, and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from attnspec.docs.building import build
from attnspec.docs.content import Register, register
from attnspec.spec import CLAIMS
from tests.browser import PHONE, WIDE, console, found, opened, preferring, sized
from tests.sites import broken_links, pages, small_register

PATIENCE = 20
"""Seconds to wait for what a page does by itself."""

UNSEEN = """
// every part is opened: what is folded away has no size
document.querySelectorAll("details").forEach((part) => { part.open = true; });
return [...document.querySelectorAll("math")].filter((node) => {
  const box = node.getBoundingClientRect();
  const style = getComputedStyle(node);
  return !(node instanceof MathMLElement) || box.width < 3 || box.height < 3
    || style.visibility !== "visible" || style.color === style.backgroundColor;
}).map((node) => node.closest("[data-of]").dataset.of);
"""
"""Where the formulas come from that a reader wouldn't see."""

LOADED = "return performance.getEntriesByType('resource').map((entry) => entry.name)"
TOO_WIDE = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
BACKGROUND = "return getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found()
    return built(tmp_path_factory.mktemp("small") / "site", small_register())


@pytest.fixture
def chrome() -> Iterator[Chrome]:
    with opened() as browser:
        sized(browser, WIDE)
        yield browser


def built(directory: Path, table: Register) -> Path:
    build(directory, lambda label, done, total: None, workers=1, table=table)
    return directory


def visit(chrome: Chrome, directory: Path, name: str) -> None:
    chrome.get((directory / name).as_uri())


@pytest.mark.slow
def test_every_page_of_the_whole_site(tmp_path: Path) -> None:
    found()
    directory = built(tmp_path / "site", register())
    site = pages(directory)
    assert broken_links(site) == []
    formulas = 0
    with opened() as chrome:
        for page in site:
            assert page.tree.errors == []
            name = page.path.name
            for size in (WIDE, PHONE):
                sized(chrome, size)
                visit(chrome, directory, name)
                assert console(chrome) == [], name
                assert chrome.execute_script(UNSEEN) == [], name
                assert chrome.execute_script(TOO_WIDE) == 0, (name, size)
                loaded = chrome.execute_script(LOADED)
                assert all(str(url).startswith(directory.as_uri()) for url in loaded), loaded
            formulas += len(chrome.find_elements(By.TAG_NAME, "math"))
    assert formulas >= sum(bool(claim.latex) for claim in CLAIMS)


def test_a_formula_that_cannot_be_seen_is_found(chrome: Chrome, small: Path) -> None:
    visit(chrome, small, "softmax.html")
    assert chrome.execute_script(UNSEEN) == []
    chrome.execute_script("document.querySelector('math').style.display = 'none'")
    assert len(chrome.execute_script(UNSEEN)) == 1


def test_what_goes_wrong_is_in_the_console(chrome: Chrome, small: Path) -> None:
    visit(chrome, small, "index.html")
    assert console(chrome) == []
    chrome.execute_script("setTimeout(() => { throw new Error('broken'); })")
    WebDriverWait(chrome, PATIENCE).until(console)


def test_search_finds_a_claim_by_keyboard(chrome: Chrome, small: Path) -> None:
    visit(chrome, small, "index.html")
    keys = ActionChains(chrome)
    keys.send_keys("/").perform()
    box = chrome.switch_to.active_element
    assert box.get_attribute("id") == "search"
    box.send_keys("gradient never zero")
    first = WebDriverWait(chrome, PATIENCE).until(
        lambda c: c.find_element(By.CSS_SELECTOR, "#found li")
    )
    assert first.is_displayed()
    assert "softmax.gradient_never_zero" in first.text
    assert box.get_attribute("aria-expanded") == "true"
    box.send_keys(Keys.ARROW_DOWN)
    assert first.get_attribute("aria-selected") == "true"
    assert box.get_attribute("aria-activedescendant") == first.get_attribute("id")
    box.send_keys(Keys.ENTER)
    WebDriverWait(chrome, PATIENCE).until(
        lambda c: c.current_url.endswith("softmax.html#claim-softmax.gradient_never_zero")
    )
    (target,) = chrome.find_elements(By.CSS_SELECTOR, "article:target")
    assert "gradient_never_zero" in target.text
    assert console(chrome) == []


@pytest.mark.parametrize(
    ("words", "found_id"),
    [
        ("A17", "softmax.gradient_never_zero"),
        ("softmax.shift_invariance", "softmax.shift_invariance"),
        ("clamps the logits", "softmax.logits_clamped"),
        ("T5_BUCKET", "t5_bucket"),
    ],
)
def test_search_knows_numbers_ids_and_words(
    chrome: Chrome, small: Path, words: str, found_id: str
) -> None:
    visit(chrome, small, "softmax.html")
    chrome.find_element(By.ID, "search").send_keys(words)
    first = WebDriverWait(chrome, PATIENCE).until(
        lambda c: c.find_element(By.CSS_SELECTOR, "#found li a")
    )
    assert first.text.split()[0] == found_id


def test_a_search_can_be_left(chrome: Chrome, small: Path) -> None:
    visit(chrome, small, "index.html")
    box = chrome.find_element(By.ID, "search")
    box.send_keys("softmax")
    WebDriverWait(chrome, PATIENCE).until(
        lambda c: c.find_element(By.CSS_SELECTOR, "#found li").is_displayed()
    )
    count = chrome.find_element(By.ID, "found-count")
    assert "found, the first 12 are listed" in str(count.get_attribute("textContent"))
    box.send_keys(Keys.ESCAPE)
    assert not chrome.find_element(By.ID, "found").is_displayed()
    box.send_keys("zzz qqq")
    assert count.get_attribute("textContent") == "0 found"


def test_light_and_dark(chrome: Chrome, small: Path) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        preferring(chrome, scheme)
        visit(chrome, small, "softmax.html")
        shades[scheme] = chrome.execute_script(BACKGROUND)
    assert shades["light"] != shades["dark"]
    button = chrome.find_element(By.ID, "theme")
    assert button.text == "Theme: auto"
    button.send_keys(Keys.ENTER)
    assert (button.text, chrome.execute_script(BACKGROUND)) == ("Theme: light", shades["light"])
    # the choice is kept, and is there before anything is painted
    visit(chrome, small, "index.html")
    assert chrome.execute_script(BACKGROUND) == shades["light"]
    button = chrome.find_element(By.ID, "theme")
    button.send_keys(Keys.SPACE)
    assert button.text == "Theme: dark"
    preferring(chrome, "light")
    assert chrome.execute_script(BACKGROUND) == shades["dark"]


def test_pictures_follow_the_theme(chrome: Chrome, small: Path) -> None:
    ink = "return getComputedStyle(document.querySelector('svg.plot text')).fill"
    colors = set()
    for scheme in ("light", "dark"):
        preferring(chrome, scheme)
        visit(chrome, small, "softmax.html")
        colors.add(chrome.execute_script(ink))
    assert len(colors) == 2


def test_a_link_opens_the_part_that_it_leads_to(chrome: Chrome, small: Path) -> None:
    visit(chrome, small, "t5_bucket.html")
    part = chrome.find_element(By.CSS_SELECTOR, ".definition > details > details")
    assert not part.is_displayed()
    chrome.execute_script("arguments[0].id = 'inside'; location.hash = 'inside'", part)
    WebDriverWait(chrome, PATIENCE).until(lambda _: part.is_displayed())


def test_the_keyboard_reaches_formulas_that_scroll(chrome: Chrome, small: Path) -> None:
    wide = """return [...document.querySelectorAll('.formula, .equations')]
        .filter((node) => node.scrollWidth > node.clientWidth + 1).map((node) => node.tabIndex)"""
    sized(chrome, PHONE)
    visit(chrome, small, "softmax.html")
    assert set(chrome.execute_script(wide)) == {0}
    chrome.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    WebDriverWait(chrome, PATIENCE).until(lambda c: set(c.execute_script(wide)) == {0})


def test_the_keyboard_reaches_the_content_first(chrome: Chrome, small: Path) -> None:
    visit(chrome, small, "softmax.html")
    ActionChains(chrome).send_keys(Keys.TAB).perform()
    skip = chrome.switch_to.active_element
    assert skip.text == "Skip to the content"
    assert skip.is_displayed()
    assert chrome.execute_script("return arguments[0].getBoundingClientRect().top >= 0", skip)
