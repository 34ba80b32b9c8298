"""A headless Chromium, where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDE, PHONE = (1100, 900), (390, 844)


def found() -> tuple[str, str]:
    """The browser and its driver. Without them the test is skipped, and in CI it fails."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        lacking = "Chromium" if browser is None else "chromedriver"
        reason = f"no {lacking} on the PATH: the site was not opened in a browser"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return browser, driver


@contextmanager
def opened() -> Iterator[Chrome]:
    """A browser without a window, which keeps what its console says."""
    browser, driver = found()
    options = ChromeOptions()
    options.binary_location = browser
    # a container's root has no sandbox and little shared memory
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=ChromeService(driver))
    try:
        yield chrome
    finally:
        chrome.quit()


def sized(chrome: Chrome, size: tuple[int, int]) -> None:
    """Give the page this width and height, as a phone does for a narrow one."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def preferring(chrome: Chrome, scheme: str) -> None:
    """Say that the reader prefers `light` or `dark`."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def console(chrome: Chrome) -> list[Any]:
    """What the console said since it was last read."""
    return list(chrome.get_log("browser"))  # type: ignore[no-untyped-call]
