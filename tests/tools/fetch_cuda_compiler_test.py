"""fetch_cuda_compiler.py acts on what the driver says, unpacks a whole compiler or none, and is quiet without a card. No network."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fetch_cuda_compiler  # noqa: E402
import wheels  # noqa: E402


def make_wheel(folder, name, members):
    """A zip file with {path: (mode, text)}; its line of the manifest."""
    path = folder / f"{name}-13.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, (mode, text) in members.items():
            info = zipfile.ZipInfo(member)
            info.external_attr = (0o100000 | mode) << 16
            wheel.writestr(info, text)
    content = path.read_bytes()
    return {"package": name, "version": "13.0", "wheel": path.name, "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest()}


class FetchCudaCompiler(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.links = self.root / "links"
        self.links.mkdir()
        self.compiler = self.root / "build" / "cuda"
        parts = [make_wheel(self.links, "sample-nvcc", {"nvidia/cu13/bin/nvcc": (0o755, "run me"), "nvidia/cu13/bin/profile": (0o644, "x")}),
                 make_wheel(self.links, "sample-nvvm", {"nvidia/cu13/nvvm/bin/cicc": (0o755, "run me too")})]
        self.manifest = {"driver": 13000, "machine": "x86_64", "unpacked_bytes": 100, "parts": parts}
        self.fetched = []
        self.patch(wheels, "run_pip", self.copy_part)
        self.patch(fetch_cuda_compiler, "cards", lambda: (13000, [90]))
        self.patch(fetch_cuda_compiler, "toolkit_on_path", lambda manifest: False)
        self.patch(fetch_cuda_compiler.platform, "machine", lambda: "x86_64")

    def patch(self, owner, name, value):
        patched = mock.patch.object(owner, name, value)
        patched.start()
        self.addCleanup(patched.stop)

    def copy_part(self, part, parts_folder, watch, origin):
        self.fetched.append(part["package"])
        try:
            (parts_folder / part["wheel"]).write_bytes((self.links / part["wheel"]).read_bytes())
        except FileNotFoundError:
            raise wheels.Refusal(wheels.explain_pip("no such package", part, origin)) from None
        watch(part["bytes"])

    def run_tool(self, *arguments):
        """Exit code, stdout, stderr."""
        manifest_path = self.root / "manifest.json"
        manifest_path.write_text(json.dumps(self.manifest), encoding="utf-8")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = fetch_cuda_compiler.main(["--manifest", str(manifest_path), "--folder", str(self.compiler), *arguments])
        return code, out.getvalue(), err.getvalue()

    def test_brings_a_compiler_that_can_be_run(self):
        code, out, err = self.run_tool()
        self.assertEqual((code, out), (0, "90a\n"), err)
        self.assertTrue(os.access(self.compiler / "nvidia/cu13/bin/nvcc", os.X_OK))
        self.assertTrue(os.access(self.compiler / "nvidia/cu13/nvvm/bin/cicc", os.X_OK))
        self.assertEqual(sorted(path.name for path in self.compiler.parent.iterdir()), ["cuda", "cuda.lock"])

    def test_fetches_nothing_the_second_time(self):
        self.run_tool()
        self.fetched.clear()
        self.assertEqual(self.run_tool("--offline")[:2], (0, "90a\n"))
        self.assertEqual(self.fetched, [])

    def test_another_pin_brings_it_anew(self):
        self.run_tool()
        self.manifest["parts"][1] = make_wheel(self.links, "sample-nvvm", {"nvidia/cu13/nvvm/bin/cicc": (0o755, "newer")})
        self.assertEqual(self.run_tool()[0], 0)
        self.assertEqual((self.compiler / "nvidia/cu13/nvvm/bin/cicc").read_text(encoding="utf-8"), "newer")

    def test_goes_on_after_the_parts_that_are_finished(self):
        second = self.links / self.manifest["parts"][1]["wheel"]
        second.rename(self.root / "away")
        code, out, err = self.run_tool()
        self.assertEqual((code, out), (1, ""))
        self.assertIn("sample-nvvm==13.0", err)
        self.assertIn("built for the CPU alone", err)
        self.assertFalse(self.compiler.exists())
        (self.root / "away").rename(second)
        self.fetched.clear()
        self.assertEqual(self.run_tool()[0], 0)
        self.assertEqual(self.fetched, ["sample-nvvm"])

    def test_no_card_is_no_failure_and_no_word(self):
        for found in (None, (13000, [])):
            self.patch(fetch_cuda_compiler, "cards", lambda found=found: found)
            self.assertEqual(self.run_tool(), (0, "", ""))
        self.assertEqual(self.fetched, [])

    def test_an_old_driver_or_card_is_a_note(self):
        for found, words in (((12040, [90]), "speaks CUDA 12.4, and Ebb's GPU code needs CUDA 13.0"), ((13000, [61]), "older than")):
            self.patch(fetch_cuda_compiler, "cards", lambda found=found: found)
            code, out, err = self.run_tool()
            self.assertEqual((code, out), (0, ""))
            self.assertIn(words, err)
        self.assertEqual(self.fetched, [])

    def test_every_usable_card_is_compiled_for(self):
        self.patch(fetch_cuda_compiler, "cards", lambda: (13020, [61, 75, 90, 120]))
        self.assertEqual(self.run_tool()[1], "75;90a;120\n")

    def test_a_toolkit_on_the_path_is_used(self):
        self.patch(fetch_cuda_compiler, "toolkit_on_path", lambda manifest: True)
        self.assertEqual(self.run_tool()[:2], (0, "90a\n"))
        self.assertEqual(self.fetched, [])

    def test_offline_says_what_is_missing(self):
        code, out, err = self.run_tool("--offline")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("2 of 2 parts are missing", err)
        self.assertEqual(self.fetched, [])

    def test_a_full_disk_is_said_before_anything_is_fetched(self):
        with mock.patch.object(fetch_cuda_compiler.shutil, "disk_usage", return_value=mock.Mock(free=1 << 10)):
            code, _, err = self.run_tool()
        self.assertEqual(code, 1)
        self.assertIn("The disk is full", err)
        self.assertEqual(self.fetched, [])

    def test_another_kind_of_machine_is_a_note(self):
        self.patch(fetch_cuda_compiler.platform, "machine", lambda: "aarch64")
        code, out, err = self.run_tool()
        self.assertEqual((code, out), (0, ""))
        self.assertIn("x86_64 alone", err)

    def test_the_real_manifest_names_all_five_parts(self):
        manifest = json.loads((fetch_cuda_compiler.TOOLS / "cuda_compiler.json").read_text(encoding="utf-8"))
        self.assertEqual([part["package"] for part in manifest["parts"]],
                         ["nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl"])
        for part in manifest["parts"]:
            self.assertRegex(part["sha256"], "^[0-9a-f]{64}$")


if __name__ == "__main__":
    unittest.main()
