"""The page of `sluice serve` in a real browser: pictures move, streams come and go, and what is dead looks dead."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_process import ServeProcess, corner_model

pytest.importorskip("selenium")
from selenium.webdriver import Chrome, ChromeOptions, ChromeService, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from waiting import until

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium: apt-get install chromium chromium-driver"),
    pytest.mark.timeout(240),
]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1440,1000",
)
CONFIG = """
streams:
  - {name: ball, source: 'test:ball?live=1&fps=25&size=320x240'}
  - {name: dead, source: 'rtsp://viewer:hunter22@127.0.0.1:9/stream'}
model: {name: none}
vlm: {backend: 'wise.py:Wise', every: 2}
directories: {media: [media], models: [models]}
http: {port: 0}
state: state.json
"""


WISE = """
class Wise:
    def answer(self, images, prompt):
        return f"I see {len(images)} pictures of <b>a ball</b>"
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    folder = tmp_path_factory.mktemp("serve")
    (folder / "media").mkdir()
    (folder / "models").mkdir()
    (folder / "models" / "corner.py").write_text(corner_model(side=50))
    (folder / "wise.py").write_text(WISE)
    (folder / "sluice.yaml").write_text(CONFIG)
    process = ServeProcess(folder / "sluice.yaml")
    yield process
    assert process.stop() == 0, process.output
    assert "Traceback" not in process.output
    assert "hunter22" not in process.output


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(DRIVER))
    driver.set_script_timeout(30)
    yield driver
    driver.quit()


PIXELS = """
const [canvas, video] = ["canvas", "video"].map((kind) => document.querySelector(arguments[0] + " " + kind));
if (video.hidden) return canvas.toDataURL();
const frame = Object.assign(document.createElement("canvas"), { width: video.videoWidth, height: video.videoHeight });
frame.getContext("2d").drawImage(video, 0, 0);
return frame.toDataURL();
"""


class Page:
    """The page as a person meets it."""

    def __init__(self, chrome: Chrome, url: str) -> None:
        self.chrome = chrome
        chrome.get("about:blank")  # an earlier page asks its server, which is gone, until it is left
        chrome.get_log("browser")
        chrome.get(url)

    def find(self, selector: str) -> WebElement:
        return self.chrome.find_element(By.CSS_SELECTOR, selector)

    def card(self, name: str) -> WebElement | None:
        found = self.chrome.find_elements(By.CSS_SELECTOR, f'[data-stream="{name}"]')
        return found[0] if found else None

    def state(self, name: str) -> str | None:
        card = self.card(name)
        return None if card is None else card.get_attribute("data-state")

    def transport(self, name: str) -> str | None:
        card = self.card(name)
        return None if card is None else card.get_attribute("data-transport")

    def choose(self, selector: str, value: str) -> None:
        self.chrome.execute_script(
            "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('change', {bubbles: true}))",
            selector,
            value,
        )

    def button(self, card: str, text: str) -> WebElement:
        return self.find(f'[data-stream="{card}"] button[aria-label="{text} {card}"]')

    def picture(self, name: str) -> str:
        """The pixels that are seen: those of the video where pictures come by WebRTC, else those of the canvas."""
        return str(self.chrome.execute_script(PIXELS, f'[data-stream="{name}"] .view'))

    def complaints(self) -> list[dict[str, Any]]:
        """What the browser's console says that is wrong."""
        return [entry for entry in self.chrome.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@pytest.fixture
def page(chrome: Chrome, service: ServeProcess) -> Iterator[Page]:
    page = Page(chrome, service.url)
    until(lambda: page.state("ball") == "playing")
    yield page
    assert page.complaints() == []


def test_a_live_picture_really_changes(page: Page) -> None:
    page.choose("#transport", "jpeg")
    until(lambda: page.transport("ball") == "jpeg")
    seen: set[str] = set()
    until(lambda: seen.add(page.picture("ball")) or len(seen) > 4)
    page.choose("#transport", "off")
    until(lambda: page.picture("ball") == page.picture("ball"))


def test_pictures_come_by_webrtc(page: Page, service: ServeProcess) -> None:
    if not service.get("/api/statistics")["webrtc"]:
        pytest.skip("no webrtcbin with ICE here: apt-get install gstreamer1.0-nice")
    page.choose("#transport", "webrtc")
    until(lambda: page.transport("ball") == "webrtc")
    video = page.find('[data-stream="ball"] video')
    first = float(page.chrome.execute_script("return arguments[0].currentTime", video))
    until(lambda: page.chrome.execute_script("return arguments[0].currentTime", video) > first + 0.5)
    assert page.chrome.execute_script("return arguments[0].videoWidth", video) == 320


def test_a_dead_camera_looks_dead_and_shows_no_password(page: Page) -> None:
    until(lambda: page.state("dead") == "refused")
    card = page.card("dead")
    assert card is not None
    assert "down" in str(card.get_attribute("class"))
    assert "refused" in card.text
    assert "No picture since" in card.text
    assert "0.0 fps" in card.text
    assert "hunter22" not in page.chrome.page_source


def test_what_helps_a_model_that_is_too_slow_is_shown_and_goes_away(page: Page) -> None:
    advice = page.find("#advice")
    assert not advice.is_displayed()
    page.chrome.execute_script(
        """
        window.toldFetch = window.fetch;
        window.fetch = async (address, options) => {
          const answer = await toldFetch(address, options);
          if (!String(address).endsWith("/api/statistics")) return answer;
          return new Response(JSON.stringify({ ...await answer.json(), advice: "a <b>smaller</b> model" }), answer);
        };
        """
    )
    until(lambda: advice.is_displayed() and advice.text == "a <b>smaller</b> model")
    page.chrome.execute_script("window.fetch = window.toldFetch")
    until(lambda: not advice.is_displayed())


def test_a_stream_is_added_by_keyboard_and_removed(page: Page, service: ServeProcess) -> None:
    httpx.delete(f"{service.url}/api/streams/snow", timeout=20)  # of an attempt that failed midway
    page.find("#add").send_keys(Keys.ENTER)
    until(lambda: page.find("#add-dialog").is_displayed())
    focused = page.chrome.switch_to.active_element
    assert focused.accessible_name == "Source"
    focused.send_keys("test:snow?live=1&fps=10&size=64x48", Keys.TAB)
    page.chrome.switch_to.active_element.send_keys("snow", Keys.ENTER)
    until(lambda: page.state("snow") == "playing")
    until(lambda: not page.find("#add-dialog").is_displayed())
    assert "snow" in service.streams()
    page.button("snow", "Remove").send_keys(Keys.ENTER)
    until(lambda: page.find("#remove-dialog").is_displayed())
    page.find("#remove-form .danger").send_keys(Keys.ENTER)
    until(lambda: page.card("snow") is None)
    assert "snow" not in service.streams()


def test_a_stream_that_cannot_be_added_says_why(page: Page) -> None:
    page.find("#add").click()
    page.find("#add-source").send_keys("/etc/passwd")
    page.find("#add-name").send_keys("passwords")
    page.find("#add-form .primary").click()
    until(lambda: "directories allowed" in page.find("#add-fault").text)
    page.chrome.switch_to.active_element.send_keys(Keys.ESCAPE)
    until(lambda: not page.find("#add-dialog").is_displayed())
    assert [entry for entry in page.complaints() if "403" not in entry["message"]] == []


def test_a_stream_is_restarted(page: Page, service: ServeProcess) -> None:
    before = service.streams()["ball"]
    page.button("ball", "Restart").click()
    until(lambda: service.streams()["ball"]["since"] > before["since"])
    until(lambda: page.state("ball") == "playing")
    assert service.streams()["ball"]["number"] == before["number"]


def test_the_model_is_swapped(page: Page, service: ServeProcess) -> None:
    page.find("#model-choice").send_keys("corner.py", Keys.ENTER)
    until(lambda: "corner.py" in page.find("#model-current").text, seconds=60)
    until(lambda: "corner.py" in page.find("#events").text)
    assert service.get("/api/models")["current"]["name"].endswith("corner.py")


def test_thresholds_are_set_and_go_back_to_the_model_s_own(page: Page, service: ServeProcess) -> None:
    until(lambda: service.get("/api/models")["current"]["state"] == "running")
    page.choose("#classes", "0")
    page.find("#thresholds button[type=submit]").click()
    until(lambda: service.get("/api/thresholds")["classes"] == [0])
    page.find("#thresholds button[type=reset]").click()
    until(lambda: all(value is None for value in service.get("/api/thresholds").values()))
    until(lambda: page.find("#classes").get_attribute("value") == "")
    assert page.find("#confidence-value").text == "default"


def test_events_counters_and_chart_are_shown(page: Page) -> None:
    until(lambda: len(page.chrome.find_elements(By.CSS_SELECTOR, "#events li")) > 1)
    until(lambda: "now" in str(page.find("#chart").get_attribute("aria-label")))
    assert "Frames in" in page.find("#counters").text
    assert "2 streams" in page.find("#summary").text


def test_answers_of_a_language_model_are_shown_as_text(page: Page, service: ServeProcess) -> None:
    until(lambda: service.get("/api/answers")["answers"])
    until(lambda: page.find("#answers-panel").is_displayed())
    until(lambda: "pictures of <b>a ball</b>" in page.find("#answers").text)
    assert page.find("#answers strong").text == "ball"
    assert page.chrome.find_elements(By.CSS_SELECTOR, "#answers b") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_and_can_be_read(page: Page, scheme: str) -> None:
    page.chrome.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    contrasts = page.chrome.execute_script(CONTRASTS)
    assert contrasts["ground"] > 0.5 if scheme == "light" else contrasts["ground"] < 0.1
    assert {text: ratio for text, ratio in contrasts["ratios"].items() if ratio < 4.5} == {}
    page.choose("#theme", "light" if scheme == "dark" else "dark")  # what is chosen wins
    chosen = page.chrome.execute_script(CONTRASTS)
    assert (chosen["ground"] > 0.5) is (scheme == "dark")
    page.choose("#theme", "auto")


# Relative luminance and contrast as WCAG 2 defines them, of every text against the nearest opaque ground.
CONTRASTS = """
const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] > 0.8) return colour;
  }
  return [255, 255, 255];
};
const ratios = {};
for (const element of document.querySelectorAll("body *")) {
  const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
  if (!text || !element.checkVisibility() || element.closest(".unseen, .skip, option")) continue;
  const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
  ratios[text.slice(0, 40)] = (a + 0.05) / (b + 0.05);
}
return { ground: light(ground(document.body)), ratios };
"""


def test_everything_that_can_be_used_has_a_name_and_can_be_reached_by_keyboard(page: Page) -> None:
    for control in page.chrome.find_elements(By.CSS_SELECTOR, "button, input, select, canvas, video, dialog"):
        if control.is_displayed():
            assert control.accessible_name, control.get_attribute("outerHTML")
    reached = set()
    for _ in range(60):
        page.chrome.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(page.chrome.switch_to.active_element.get_attribute("outerHTML"))
    shown = page.chrome.find_elements(By.CSS_SELECTOR, "button, input, select")
    missed = [
        found.accessible_name
        for found in shown
        if found.is_displayed() and found.get_attribute("outerHTML") not in reached
    ]
    assert missed == []


def test_what_a_stream_is_called_is_never_taken_for_html(page: Page, service: ServeProcess) -> None:
    source = "rtsp://127.0.0.1:9/<img src=x onerror=document.title='taken'>"
    added = httpx.post(f"{service.url}/api/streams", json={"source": source, "name": "html"}, timeout=20)
    assert added.status_code == 201, added.text
    try:
        until(lambda: page.state("html") is not None)
        until(lambda: "onerror" in page.find("#events").text)
        assert page.chrome.title == "Sluice"
        assert page.chrome.find_elements(By.CSS_SELECTOR, "#streams img, #events img") == []
    finally:
        removed = httpx.delete(f"{service.url}/api/streams/html", timeout=20)
    assert removed.status_code == 204


def test_the_page_asks_for_the_token_and_opens_with_it(chrome: Chrome, tmp_path: Path) -> None:
    token = "correct-horse-battery-staple"
    (tmp_path / "sluice.yaml").write_text(
        "streams: [{name: ball, source: 'test:ball?live=1&size=64x48'}]\n"
        f"model: {{name: none}}\nhttp: {{port: 0, token: {token}}}\n"
    )
    process = ServeProcess(tmp_path / "sluice.yaml")
    try:
        page = Page(chrome, process.url)
        until(lambda: page.find("#login-dialog").is_displayed())
        page.find("#login-token").send_keys("wrong", Keys.ENTER)
        until(lambda: "the token is wrong" in page.find("#login-fault").text)
        page.find("#login-token").clear()
        page.find("#login-token").send_keys(token, Keys.ENTER)
        until(lambda: page.state("ball") == "playing")
        assert not page.find("#login-dialog").is_displayed()
        assert token not in str(page.chrome.execute_script("return document.cookie + JSON.stringify(localStorage)"))
        chrome.refresh()
        until(lambda: page.state("ball") == "playing")
    finally:
        assert process.stop() == 0, process.output
    assert token not in process.output


@pytest.mark.parametrize("streams", [0, 30])
def test_none_and_thirty_streams(chrome: Chrome, tmp_path: Path, streams: int) -> None:
    entries = "".join(
        f"  - {{name: camera-{n}, source: 'test:{'snow' if n % 2 else 'ball'}?live=1&fps=1&size=64x48'}}\n"
        for n in range(streams)
    )
    head = f"streams:\n{entries}" if streams else ""
    (tmp_path / "sluice.yaml").write_text(f"{head}model: {{name: none}}\nhttp: {{port: 0}}\n")
    process = ServeProcess(tmp_path / "sluice.yaml")
    try:
        page = Page(chrome, process.url)
        until(lambda: f"{streams} streams" in page.find("#summary").text or not streams, seconds=60)
        until(
            lambda: len(page.chrome.find_elements(By.CSS_SELECTOR, "#streams [data-state=playing]")) == streams,
            seconds=90,
        )
        if streams:  # the last is out of sight until it is scrolled to
            page.chrome.execute_script("arguments[0].scrollIntoView()", page.card("camera-29"))
            until(lambda: page.transport("camera-29") is not None, seconds=90)
            seen: set[str] = set()
            until(lambda: seen.add(page.picture("camera-29")) or len(seen) > 4, seconds=90)
        else:
            assert page.find("#summary").text
        wide = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert page.chrome.execute_script(wide) is False
        assert page.complaints() == []
    finally:
        assert process.stop() == 0, process.output
    assert "Traceback" not in process.output
    assert ("there are no streams yet" in process.output) is (streams == 0)
