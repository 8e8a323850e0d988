"""The dashboard in a real browser, who may look at it, metrics and logs."""

from __future__ import annotations

import json
import logging
import re

import httpx
import pytest
from fl_fleet import MODEL, Fleet, Killable, fleet_of, serving, task_settings
from fl_world import START

from fl_server.http.dashboard.charts import bars, lines
from fl_server.http.dashboard.view import _row
from fl_server.http.logs import _Json, _Text
from fl_server.secagg.run import Stage
from tests.examples.browser import chromium


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a task that is over, one with noise, and one that has begun."""
    folder = tmp_path_factory.mktemp("dashboard")
    with serving(folder, poll_s=0.5) as server, server.operator() as operator:
        # Of five one is lost and not waited for; the second round begins with four, at join_s.
        settings = task_settings(4, over_selection=0.25, rounds=2, join_s=4)
        operator.create_task("plain", MODEL, START, **settings)
        fleet_of(server, folder / "plain", 5, stop_after={4: Stage.SHARE}).run()
        noise = {"noise_multiplier": 2.0, "epsilon": 20.0, "clip_norm": 0.1, "clip_value": 1.0}
        operator.create_task("noisy", MODEL, START, **task_settings(3, **noise))
        fleet_of(server, folder / "noisy", 3).run()
        operator.create_task("open", MODEL, START, **task_settings(9, rounds=3))
        operator.create_token("reader", ["rounds:read"])
        yield server


@pytest.fixture(scope="module")
def token(server):
    with server.operator() as operator:
        return operator.create_token("looks", ["rounds:read"])


@pytest.fixture(scope="module")
def page(tmp_path_factory, server, token):
    """A browser that has logged in."""
    with chromium(tmp_path_factory.mktemp("browser")) as page:
        page.open(f"{server.url}/dashboard")
        page.until("document.getElementById('token')")
        form = "document.querySelector('.login form')"
        page.evaluate(f"{form}.token.value = 'wrong'; void setTimeout(() => {form}.submit())")
        page.until("document.querySelector('.error')")
        page.evaluate(f"{form}.token.value = '{token}'; void setTimeout(() => {form}.submit())")
        page.until("document.querySelector('.cards')")
        yield page


# A page is there before its style, which is asked for each time.
STYLED = "document.readyState === 'complete'"


def text(page, selector: str) -> list[str]:
    script = f"[...document.querySelectorAll('{selector}')].map((e) => e.innerText)"
    return page.evaluate(script)


def test_the_overview_shows_tasks_rounds_and_the_fleet(page, server):
    page.open(f"{server.url}/dashboard")
    page.until("document.querySelectorAll('.card.task').length === 3")
    assert text(page, ".card.task h2") == ["open", "noisy", "plain"]
    assert text(page, ".card.task .state") == ["running", "finished", "finished"]
    assert text(page, ".figures dd")[0] == "8"
    assert text(page, ".card.task:first-child .stage-count")[0] == "0 of 9"
    assert page.evaluate("document.querySelectorAll('.spark').length") == 1
    page.until(STYLED)
    cut = "[...document.querySelectorAll('.stage-name')].filter(e => e.scrollWidth > e.clientWidth)"
    assert page.evaluate(f"{cut}.length") == 0


def test_a_tasks_page_shows_its_rounds_charts_losses_and_settings(page, server):
    page.open(f"{server.url}/dashboard/tasks/plain")
    page.until("document.querySelector('.rounds')")
    rows = text(page, ".rounds tbody tr")
    assert [row.split()[:2] for row in rows] == [["2", "finished"], ["1", "finished"]]
    assert page.evaluate("document.querySelectorAll('.line').length") == 1
    assert page.evaluate("document.querySelectorAll('.chart .bar').length") == 2
    lost = {row.split("\t")[0]: row.split("\t")[1] for row in text(page, ".lost tr")}
    assert lost["shared keys, not uploaded"] == "1"
    assert "target_cohort" in "".join(text(page, ".settings"))


def test_a_rounds_row_says_which_shards_are_lost():
    why = "3 of 6 clients uploaded, 5 are needed"
    entry = {"number": 1, "stage": "finished", "opened_at": 0.0, "shards": 3, "lost": [why]}
    assert _row(entry)["error"] == f"1 of 3 shards lost: {why}"
    assert _row(entry | {"lost": []})["error"] == ""


def test_what_privacy_has_cost_is_shown_and_no_loss(page, server):
    page.open(f"{server.url}/dashboard/tasks/noisy")
    page.until("document.querySelector('.big')")
    assert re.match(r"ε 1\.99 of 20", text(page, ".big")[0])
    assert "Loss" not in "".join(text(page, ".card h2"))


def test_a_page_renews_itself_while_it_is_looked_at(page, server):
    page.open(f"{server.url}/dashboard/tasks/open")
    page.until("document.querySelector('.stages')")
    with server.operator() as operator:
        operator.stop("open")
    page.until("document.querySelector('.state.stopped')")  # nobody has loaded it again
    assert text(page, ".pulse") == ["live"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_pages_are_readable(page, server, scheme):
    """Text against its ground by the contrast of WCAG, the least that AA wants."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.call("Emulation.setEmulatedMedia", features=features)
    page.open(f"{server.url}/dashboard/tasks/plain")
    page.until(f"{STYLED} && document.querySelector('.rounds')")
    for what in ("h1", ".sub", ".figure dt", ".figure dd", "td", "th", ".state", "nav a", "small"):
        script = (
            f"(() => {{ const e = document.querySelector('{what}'); let g = e;"
            "const clear = (g) => getComputedStyle(g).backgroundColor === 'rgba(0, 0, 0, 0)';"
            "while (clear(g)) g = g.parentElement;"
            "return [getComputedStyle(e).color, getComputedStyle(g).backgroundColor]; })()"
        )
        ink, ground = (_luminance(colour) for colour in page.evaluate(script))
        assert (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05) >= 4.5, (what, scheme)


def _luminance(colour: str) -> float:
    channels = [int(float(part)) / 255 for part in re.findall(r"[\d.]+", colour)[:3]]
    lit = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * lit[0] + 0.7152 * lit[1] + 0.0722 * lit[2]


def test_a_narrow_page_does_not_scroll_sideways(page, server):
    narrow = {"width": 380, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.call("Emulation.setDeviceMetricsOverride", **narrow)
    for path in ("", "/tasks/plain"):
        page.open(f"{server.url}/dashboard{path}")
        page.until(f"{STYLED} && document.querySelector('.figures')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_nobody_looks_without_a_token_that_may(server, token):
    with server.operator() as operator:
        other = operator.create_token("meter", ["metrics"])
    for cookies, code in (
        ({}, 401),
        ({"ms_dashboard": other}, 401),
        ({"ms_dashboard": token}, 200),
    ):
        for path in ("", "/tasks/plain"):
            headers = {"cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())}
            answer = httpx.get(f"{server.url}/dashboard{path}", headers=headers)
            assert answer.status_code == code
            assert ("plain" in answer.text) == (code == 200)
    answer = httpx.post(f"{server.url}/dashboard/login", data={"token": token})
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 303
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/dashboard"))


def test_pages_run_no_script_but_their_own_and_show_names_as_text(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, population="<b>x</b>", **task_settings(3))
        cookie = {"cookie": f"ms_dashboard={server.service.admin_token}"}
        answer = httpx.get(f"{server.url}/dashboard/tasks/t", headers=cookie)
        assert "&lt;b&gt;x&lt;/b&gt;" in answer.text
        assert "<b>x" not in answer.text
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert httpx.get(f"{server.url}/dashboard/static/..%2fview.py").status_code == 404
        missing = httpx.get(f"{server.url}/dashboard/tasks/none", headers=cookie)
        assert (missing.status_code, "there is no task none" in missing.text) == (404, True)


def test_a_tenant_looks_at_its_own_tasks_alone(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("ours", MODEL, START, tenant="a", **task_settings(3))
        operator.create_task("theirs", MODEL, START, tenant="b", **task_settings(3))
        token = operator.create_token("a", ["rounds:read"], "a")
        cookie = {"cookie": f"ms_dashboard={token}"}
        shown = httpx.get(f"{server.url}/dashboard", headers=cookie).text
        assert ("ours" in shown, "theirs" in shown) == (True, False)
        answer = httpx.get(f"{server.url}/dashboard/tasks/theirs", headers=cookie)
        assert answer.status_code == 404


def test_charts_hold_one_value_many_values_and_none():
    assert lines([]) == bars([]) == bars([(1, 0.0)]) == ""
    for points in ([(3, 0.0)], [(3, 5.0), (4, 5.0)], [(n, 1e-6 * n) for n in range(1, 200)]):
        for chart in (lines(points), bars([*points, (900, 1e9)])):
            numbers = [
                float(n) for n in re.findall(r'(?:x|y|cx|cy|width|height)="([-\d.]+)"', chart)
            ]
            assert numbers
            assert all(-1 <= number <= 641 for number in numbers)
    assert str(lines([(1, 2.0)], small=True)) == ""


def test_metrics_tell_of_tasks_rounds_devices_and_requests(server):
    with server.operator() as operator:
        token = operator.create_token("prometheus", ["metrics"])
    assert httpx.get(f"{server.url}/metrics").status_code == 401
    found = httpx.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {token}"}).text
    assert "mindspan_clients 8.0" in found
    assert 'mindspan_rounds{stage="finished",task="plain"} 2.0' in found
    assert 'mindspan_last_round{figure="survivors",task="plain"} 4.0' in found
    assert 'mindspan_weights_version{task="plain"} 2.0' in found
    assert re.search(r'mindspan_epsilon_spent{task="noisy"} 1\.99', found)
    counted = r'mindspan_request_seconds_count{code="200",method="POST",route="/checkin"} (\d+)'
    assert int(re.search(counted, found)[1]) > 10
    assert 'route="/sessions/{session}/{stage}"' in found


def test_what_callers_make_up_makes_no_new_series(server):
    with server.operator() as operator:
        token = operator.create_token("counts", ["metrics"])
    for i in range(5):
        httpx.request(f"MADEUP{i}", f"{server.url}/made/up/{i}")
    found = httpx.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {token}"}).text
    assert 'mindspan_request_seconds_count{code="404",method="other",route="none"} 5.0' in found
    assert "MADEUP" not in found


def test_workers_share_what_they_count(tmp_path, postgres):
    database = postgres.database("metrics")
    server = Killable(tmp_path / "server", "--database", database, "--workers", "2")
    try:
        url, admin = f"http://127.0.0.1:{server.port}", server.read("admin.token")
        headers = {"authorization": f"Bearer {admin}"}
        for _ in range(20):  # a connection each, so that both get some
            httpx.get(f"{url}/admin/tasks", headers=headers, timeout=60)
        found = httpx.get(f"{url}/metrics", headers=headers, timeout=60).text
    finally:
        server.process.terminate()
        server.process.wait()
        server.process.stderr.close()
    counted = 'mindspan_request_seconds_count{code="200",method="GET",route="/admin/tasks"} 20.0'
    assert counted in found


def test_logs_are_lines_of_json_or_text_with_what_was_given():
    made = logging.makeLogRecord(
        {"name": "x", "levelname": "INFO", "msg": "a %s", "args": ("round",), "task": "t\n", "n": 3}
    )
    entry = json.loads(_Json().format(made))
    assert entry.pop("at").endswith("+00:00")
    wanted = {"level": "info", "logger": "x", "message": "a round", "task": "t\n", "n": 3}
    assert entry == wanted
    assert _Text().format(made) == "ms-serve: a round task=t n=3"


def test_a_server_logs_requests_and_rounds_as_json_and_no_secret(tmp_path):
    server = Killable(tmp_path / "server", "--log", "json", "--log-level", "debug")
    with server.operator() as operator:
        token = operator.create_token("canary", ["rounds:read"])
        operator.create_task("t", MODEL, START, **task_settings(3))
        enrol, url = server.read("enrol.token"), f"http://127.0.0.1:{server.port}"
        fleet = Fleet(url, server.authority, enrol, tmp_path, 3)
        fleet.run()
    admin, key = server.read("admin.token"), (server.folder / "ca.key").read_bytes().hex()
    server.process.terminate()
    lines_ = server.process.stderr.read().splitlines()
    server.process.wait()
    server.process.stderr.close()
    entries = [json.loads(line) for line in lines_]
    assert "warning: the enrolment key" in entries[0]["message"]
    assert {"a round ended", "request"} <= {entry["message"] for entry in entries}
    assert any(entry.get("route") == "/checkin" and entry["code"] == 200 for entry in entries)
    for secret in (token, enrol, admin, key, *(d._identity.public.hex() for d in fleet.devices)):
        assert not any(secret in line for line in lines_)


@pytest.mark.parametrize("name", ["style.css", "live.js"])
def test_what_a_page_is_styled_by_is_that_of_the_server_that_runs(server, name):
    answer = httpx.get(f"{server.url}/dashboard/static/{name}")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
    assert answer.headers["etag"]
