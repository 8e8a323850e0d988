"""The commands ms-serve, ms-client and ms-simulate, and what the server imports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from fl_fleet import MODEL, serving
from fl_world import START

from fl_server.cli import serve, simulate
from fl_server.device.cli import client


@pytest.mark.parametrize("command", [serve, simulate, client])
def test_commands_have_help_with_examples_and_a_version(command, capsys):
    for flag, text in (("--help", "examples:"), ("--version", "ms-")):
        with pytest.raises(SystemExit) as caught:
            command([flag])
        assert caught.value.code == 0
        assert text in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        command(["--no-such-flag"])
    assert caught.value.code == 2


def test_a_command_that_fails_says_one_line_and_returns_one(tmp_path, capsys):
    missing = ["status", "--server", "http://127.0.0.1:9", "--folder", str(tmp_path)]
    assert serve(missing) == 1
    assert "admin.token: not there; want the server's --folder" in capsys.readouterr().err
    assert serve([*missing, "--token", "t"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("ms-serve status: http://127.0.0.1:9")
    assert error.count("\n") == 1
    data = tmp_path / "d.npz"
    data.write_bytes(b"not a zip file")
    options = ["--server", "http://127.0.0.1:9", "--folder", str(tmp_path)]
    assert client([*options, "--authority", "ab" * 32, "--data", str(data)]) == 1
    assert "d.npz: not an .npz file of arrays" in capsys.readouterr().err
    assert serve(["task", "t", "--model", str(data), "--folder", str(tmp_path)]) == 1
    assert "the model does not load" in capsys.readouterr().err
    np.savez(data, x=np.zeros((2, 2)))
    assert client([*options, "--authority", "no", "--data", str(data)]) == 1
    assert "64 hexadecimal digits" in capsys.readouterr().err
    np.save(tmp_path / "x.npy", np.zeros((2, 2)))
    assert client([*options, "--authority", "no", "--data", f"{tmp_path}/x.npy"]) == 1
    assert "x.npy: one array without a name" in capsys.readouterr().err
    assert serve(["task", "t", "--model", f"{tmp_path}/none.ms"]) == 1
    assert capsys.readouterr().err == (
        f"ms-serve task: {tmp_path}/none.ms: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "oops"], "want NAME=VALUE"),
        (["--set", "name=t"], "'name' is no setting that --set may give"),
        (["--set", "cls=t"], "'cls' is no setting that --set may give"),
        (["--set", "foo=1"], "no setting 'foo'; there are name, population, rounds, min_cohort"),
        (["--set", "min_cohort=1"], "setting min_cohort is 1, want greater than or equal to 2"),
        (["--set", "rounds=many"], "setting rounds is 'many', want"),
        (["--devices", "1"], "1 devices and 3 rounds, want"),
        (["--model", "m.ms"], "--model needs --data"),
    ],
)
def test_wrong_usage_of_simulate_exits_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        simulate(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_a_wrong_setting_of_a_task_is_refused_with_the_settings_there_are(tmp_path, capsys):
    model = tmp_path / "model.ms"
    model.write_bytes(MODEL)
    weights = tmp_path / "weights"
    weights.write_bytes(START.tobytes())
    with serving(tmp_path / "server") as server:
        options = ["--server", server.url, "--folder", str(server.service.settings.folder)]
        task = ["task", "t", "--model", str(model), "--weights", str(weights), *options]
        assert serve([*task, "--set", "foo=1"]) == 1
        assert capsys.readouterr().err.startswith("ms-serve task: no setting 'foo'; there are name")
        assert serve([*task, "--set", "clip_norm=-1"]) == 1
        message = "setting clip_norm is -1, want greater than or equal to 0.000000000001"
        assert capsys.readouterr().err == f"ms-serve task: {message}\n"


def test_every_option_is_explained(capsys):
    for command in (
        [serve],
        [serve, "task"],
        [serve, "status"],
        [serve, "token"],
        [serve, "audit"],
        [serve, "stop"],
        [serve, "revoke"],
        [serve, "ca"],
        [client],
        [simulate],
    ):
        with pytest.raises(SystemExit):
            command[0]([*command[1:], "--help"])
        options = capsys.readouterr().out.split("examples:")[0].split("options:")[1]
        entries = re.split(r"\n  (?=-)", options)[1:]
        assert len(entries) >= 4
        for entry in entries:
            explained = re.split(r" {2,}", entry.strip().replace("\n", "  "))[1:]
            assert "".join(explained), entry


def test_simulate_reports_figures_as_json(capsys):
    assert simulate(["--devices", "4", "--rounds", "1", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["status"]["state"] == "finished"
    assert [device[0]["outcome"] for device in figures["devices"]] == ["done"] * 4


@pytest.mark.parametrize(
    "small",
    [
        ["--set", "min_cohort=3", "--set", "target_cohort=6"],
        ["--set", "shard_size=3"],
    ],
)
def test_simulated_devices_take_part_in_cohorts_and_shards_as_small_as_a_task_says(small, capsys):
    assert simulate(["--devices", "6", "--rounds", "1", *small]) == 0
    told = capsys.readouterr()
    assert told.err.startswith("warning: a cohort of 3 hides nobody; 20 is the floor\n")
    assert "round 1: finished" in told.out


def test_the_server_imports_neither_ir_nor_cloud_nor_converter():
    root = Path(__file__).parents[2]
    code = (
        "import sys, fl_server.http.app, fl_server.cli, fl_server.device, fl_server.simulation;"
        "print([m for m in ('ir','cloud','converter','lite_runtime') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_protocol_works_without_the_web_framework():
    root = Path(__file__).parents[2]
    code = (
        "import sys, fl_server.secagg.run;"
        "print([m for m in ('fastapi','sqlalchemy','httpx','uvicorn') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--port", "99999"], 2, "'99999': want a number from 0 to 65535"),
        (["--database", "nope://x:secret@h"], 1, "the database cannot be used: "),
        (["--database", "sqlite:////proc/none"], 1, "unable to open database file"),
        (["--tls-cert", "none.pem"], 1, "none.pem: no certificate with its key in PEM (No such"),
        (["--workers", "2"], 1, "2 workers need --database postgresql://…; SQLite is for one"),
        (["--workers", "0"], 1, "workers is 0, want 1 or more"),
        (["--files", "nowhere://x"], 1, "files at nowhere://…: Protocol not known: nowhere"),
        (["--tls-key", "k.pem"], 1, "--tls-key k.pem needs --tls-cert"),
        (["--ca-pub", "ab" * 32, "--attest", "true"], 1, "give it to ca sign"),
        (["--attest", "/none/hook"], 1, "attestation: /none/hook: no command that can be run"),
        (["--attest", "'hook"], 1, '--attest "\'hook": No closing quotation'),
        (["--tenant", "\udcff"], 1, "want 1 to 64 bytes of text"),
        (["--set", "body_s=0"], 1, "body_s is 0.0, want seconds above 0, a day at the most"),
        (["--set", "retry_s=1e9"], 1, "retry_s is 1000000000.0, want seconds above 0, a day"),
        (["--set", "rate_per_s=nan"], 1, "rate_per_s is nan, want 0 or more"),
        (["--set", "max_model_bytes=1.5"], 1, "max_model_bytes is '1.5', want a whole number"),
        (["--set", "max_connections=0"], 1, "max_connections is 0, want 1 to 1000000"),
        (["--set", "clock=1"], 1, "no setting 'clock'; there are attest_s, retry_s, certificate"),
        (["--set", "workers=2"], 1, "no setting 'workers'; there are"),
        (["evaluate", "a", "b", "--set", "of=c"], 2, "'of' is no setting that --set may give"),
        (["token", "create", "t", "--token", "t", "--days", "nan"], 1, "Out of range float"),
        (["ca", "sign", "--server", "http://h", "--watch", "nan"], 1, "--watch nan: want seconds"),
        (["ca", "sign", "--server", "http://h", "--watch", "0"], 1, "--watch 0: want seconds"),
        (["ca", "sign", "--server", "http://h", "--days", "0"], 1, "--days 0: want 1 to 36500"),
        (["ca", "sign", "--server", "http://h", "--attest", "'x"], 1, "No closing quotation"),
        (["ca", "init", "--passphrase-file", "/dev/zero"], 1, "no passphrase of 1 to 1023 bytes"),
        (["status", "--token", "t", "--server", "http://[::1"], 1, "want http://HOST:PORT"),
        (["status", "--token", "t", "--server", "ftp://x"], 1, "want http://HOST:PORT"),
        (["status", "--token", "a\nb"], 1, "the admin token is not printable ASCII"),
    ],
)
def test_serve_says_in_one_line_what_it_cannot_use(arguments, code, message, tmp_path, capsys):
    place = ["--ca" if arguments[0] == "ca" else "--folder", f"{tmp_path}/place"]
    try:
        found = serve([*arguments, *place])
    except SystemExit as end:
        found = end.code
    error = capsys.readouterr().err
    assert (found, "secret" in error) == (code, False)
    assert message in error.splitlines()[-1]


def test_a_token_that_is_no_text_is_named(tmp_path, capsys):
    (tmp_path / "admin.token").write_bytes(b"\xff\xfe")
    place = ["--folder", str(tmp_path)]
    assert serve([*place, "--port", "0"]) == 1
    assert "admin.token: not a token" in capsys.readouterr().err
    assert serve(["status", *place]) == 1
    assert "admin.token: not text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-size", "0"], "1 epochs, batches of 0, seed 0; want 1, 1 and 0 or more"),
        (["--epochs", "-1"], "-1 epochs"),
        (["--seed", "-1"], "seed -1"),
        (["--learning-rate", "nan"], "learning_rate is nan, want a number above 0"),
        (["--proximal", "-1"], "proximal is -1.0, want a number of at least 0"),
        (["--most-memory-mb", "0"], "0 bytes and 300.0 s for a run"),
        (["--run-timeout-s", "inf"], "inf s for a run"),
        (["--population", "\udcff"], "is no text that UTF-8 can hold"),
        (["--server", "x"], "want http://HOST:PORT"),
        (["--rounds", "0"], "--rounds 0: want 1 or more"),
        (["--attest", "'hook"], '--attest "\'hook": No closing quotation'),
    ],
)
def test_a_client_that_could_never_train_says_so_at_once(arguments, message, tmp_path, capsys):
    np.savez(tmp_path / "d.npz", x=np.zeros((3, 2)))
    given = ["--server", "http://127.0.0.1:9", "--folder", str(tmp_path), "--authority", "ab" * 32]
    assert client([*given, "--data", f"{tmp_path}/d.npz", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_what_answers_like_no_server_of_ours_is_said(capsys):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"name": "\\u001b[2J"}')

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for name in ([], ["t"]):
            url = f"http://127.0.0.1:{server.server_port}"
            assert serve(["status", *name, "--token", "t", "--server", url]) == 1
            assert "not the answer of a federated server" in capsys.readouterr().err
        server.shutdown()
        thread.join()
