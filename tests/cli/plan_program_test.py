"""`ebb plan` on files of the true shapes whose weights are a hole.

EBB_BINARY names the program, EBB_VECTORS_DIR the folder tests/vectors; the files are made by tools/make_sparse_model.py.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = os.environ["EBB_BINARY"]
VECTORS = pathlib.Path(os.environ["EBB_VECTORS_DIR"])
MAKER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "make_sparse_model.py"
GIB = 1 << 30


class Plan(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ebb-plan-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.files = {}

    def model(self, size, mix):
        path = self.folder / f"{size}-{mix}.gguf"
        if path not in self.files.values():
            subprocess.run([sys.executable, MAKER, size, mix, path], check=True)
            self.files[size, mix] = path
        return str(path)

    def ebb(self, *words, fake=None):
        kept = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
        environment = {**kept, "HOME": str(self.folder), **({"EBB_FAKE": json.dumps(fake)} if fake else {})}
        return subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60, env=environment, check=False)

    def plan(self, *words, fake=None):
        done = self.ebb("plan", "--json", *words, fake=fake)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refuses(self, says, *words):
        done = self.ebb("plan", *words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn(says, done.stderr)

    def on_device(self, plan, device):
        return [unit["name"] for unit in plan["units"] if unit["device"] == device]

    def test_json_has_the_agreed_fields(self):  # A35
        plan = self.plan("-m", self.model("12B", "q4_k_m"), "-dev", "fake:24GiB", "-c", "8192")
        self.assertEqual(list(plan), ["fits", "context", "devices", "host", "units", "remedies"])
        self.assertEqual(list(plan["devices"][0]),
                         ["index", "total_bytes", "free_bytes", "limit_bytes", "planned_bytes", "kinds"])
        self.assertEqual(list(plan["host"]), ["planned_bytes"])
        self.assertEqual(list(plan["units"][0]), ["name", "weight_bytes", "kv_bytes", "device"])
        self.assertEqual([unit["name"] for unit in plan["units"]],
                         [f"layer {layer}" for layer in range(48)] + ["output", "embedding"])
        self.assertIs(plan["fits"], True)
        self.assertEqual(plan["remedies"], [])
        self.assertEqual(plan["context"], 8192)

    def test_12b_on_one_card(self):  # B2, B3, D1
        path = self.model("12B", "q4_k_m")
        plan = self.plan("-m", path, "-dev", "fake:24GiB", "-c", "131072")
        device = plan["devices"][0]
        self.assertEqual(sum(device["kinds"].values()), device["planned_bytes"])
        self.assertEqual(device["kinds"]["kv_global"], 8 * GIB)  # spec/gemma3 1.4
        self.assertEqual(device["kinds"]["kv_local"], 320 << 20)
        self.assertEqual(sum(unit["kv_bytes"] for unit in plan["units"]), 8 * GIB + (320 << 20))
        self.assertEqual(self.on_device(plan, -1), ["embedding"])
        weights = sum(unit["weight_bytes"] for unit in plan["units"] if unit["device"] == 0)
        pages = 2 << 20
        self.assertLessEqual(weights, device["kinds"]["weights"])
        self.assertLess(device["kinds"]["weights"], weights + 49 * pages)  # each unit is rounded to whole pages
        self.assertLess(os.stat(path).st_blocks * 512, 1 << 20)

    def test_fill_is_even_over_unequal_cards(self):  # D2
        plan = self.plan("-m", self.model("12B", "bf16"), "-dev", "fake:24GiB,fake:8GiB", "-c", "8192")
        self.assertEqual(self.on_device(plan, -1), ["embedding"])
        fills = [device["planned_bytes"] / device["limit_bytes"] for device in plan["devices"]]
        self.assertLess(max(fills) - min(fills), 0.06)  # one layer (428 MiB) of the smaller card
        layers = [unit["device"] for unit in plan["units"] if unit["name"].startswith("layer")]
        self.assertEqual(layers, sorted(layers))

    def test_what_does_not_fit_goes_to_the_host_or_is_refused(self):  # D5, B10
        words = ("-m", self.model("12B", "bf16"), "-dev", "fake:16GiB", "-c", "4096")
        plan = self.plan(*words)
        self.assertIs(plan["fits"], True)
        self.assertIn("layer 0", self.on_device(plan, -1))
        self.assertNotIn("output", self.on_device(plan, -1))
        text = self.ebb("plan", *words).stdout
        self.assertIn("run on the CPU: every token reads", text)
        self.assertIn("layers 0-", text)
        refused = self.plan(*words, "-ngl", "all")
        self.assertIs(refused["fits"], False)
        self.assertGreater(refused["devices"][0]["planned_bytes"], refused["devices"][0]["limit_bytes"])
        self.assertTrue(refused["remedies"])

    def test_free_memory_counts_and_not_the_total(self):  # B4
        held = 24 * GIB * 8 // 10 >> 21 << 21
        plan = self.plan("-m", self.model("12B", "q4_k_m"), "-dev", "fake:24GiB", "-c", "8192", "-ngl", "all",
                         fake={"others_bytes": held})
        self.assertIs(plan["fits"], False)
        self.assertEqual(plan["devices"][0]["free_bytes"], 24 * GIB - held)
        self.assertEqual(plan["devices"][0]["limit_bytes"], 24 * GIB - held)
        self.assertTrue(any("more on the device" in remedy for remedy in plan["remedies"]), plan["remedies"])

    def test_under_a_limit_it_matters_not_what_else_is_open(self):  # B5
        words = ("-m", self.model("12B", "q4_k_m"), "-dev", "fake:24GiB", "-c", "0", "--memory-limit", "10GiB")
        alone = self.plan(*words)
        beside = self.plan(*words, fake={"others_bytes": 8 * GIB})
        self.assertLessEqual(alone["devices"][0]["planned_bytes"], 10 * GIB)
        self.assertEqual(beside["devices"][0].pop("free_bytes"), 16 * GIB)
        alone["devices"][0].pop("free_bytes")
        self.assertEqual(alone, beside)

    def test_context_of_zero_is_as_much_as_fits(self):
        path = self.model("12B", "q4_k_m")
        roomy = self.plan("-m", path, "-dev", "fake:24GiB", "-c", "0")
        self.assertEqual(roomy["context"], 131072)
        tight = self.plan("-m", path, "-dev", "fake:10GiB", "-c", "0")
        self.assertGreater(tight["context"], 8192)
        self.assertLess(tight["context"], 131072)
        self.assertEqual(self.on_device(tight, -1), ["embedding"])
        packed = self.plan("-m", path, "-dev", "fake:10GiB", "-c", "0", "-ctk", "q8_0", "-ctv", "q8_0")
        self.assertGreater(packed["context"], tight["context"])
        spare = self.plan("-m", path, "-dev", "fake:10GiB", "-c", "0", "-fitt", "512")
        self.assertLess(spare["context"], tight["context"])

    def test_flags_of_placement(self):  # C1
        path = self.model("1B", "q8_0")
        words = ("-m", path, "-dev", "fake:16GiB,fake:16GiB", "-c", "4096")
        self.assertEqual(self.on_device(self.plan(*words, "-mg", "1"), 0), [])
        self.assertEqual(self.on_device(self.plan(*words, "-sm", "none"), 1), [])
        some = self.on_device(self.plan(*words, "-ngl", "11"), -1)
        self.assertEqual(some, [f"layer {layer}" for layer in range(15)] + ["embedding"])
        self.assertEqual(len(self.on_device(self.plan(*words, "-ngl", "0"), -1)), 28)
        split = self.plan(*words, "-ts", "3,1")
        self.assertGreater(len(self.on_device(split, 0)), 2 * len(self.on_device(split, 1)))
        one = self.plan("-m", path, "-dev", "fake:16GiB", "-c", "4096")
        four = self.plan("-m", path, "-dev", "fake:16GiB", "-c", "4096", "-np", "4")
        for kind in ("kv_global", "kv_local"):
            self.assertEqual(four["devices"][0]["kinds"][kind], 4 * one["devices"][0]["kinds"][kind])

    def test_what_cannot_be_is_refused(self):
        path = self.model("1B", "q8_0")
        self.refuses("splitting single layers over devices does not exist yet", "-m", path, "-sm", "row")
        self.refuses("use a number of layers, auto", "-m", path, "-ngl", "most")
        self.refuses("device 3 is named as the main one", "-m", path, "-mg", "3", "-dev", "fake:1GiB")
        self.refuses("use -c 32768 or less", "-m", path, "-c", "40000", "-dev", "fake:1GiB")
        self.refuses("use numbers by device", "-m", path, "-ts", "a,b")

    def test_the_cpu_keeps_the_weights_in_the_file(self):
        model = str(VECTORS / "gguf" / "t0-base-f32.gguf")
        plan = self.plan("-m", model, "-dev", "cpu", "-c", "64")
        self.assertIs(plan["fits"], True)
        layers = [unit for unit in plan["units"] if unit["name"].startswith("layer")]
        self.assertEqual({unit["device"] for unit in layers}, {0})
        self.assertLess(plan["devices"][0]["kinds"].get("weights", 0), os.stat(model).st_size)
        self.assertEqual(plan["host"]["planned_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
