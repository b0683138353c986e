"""The real `ebb` on tiny models: results on stdout alone, exit codes, every kind of bad input, Ctrl-C and dead pipes.

EBB_BINARY names the program, EBB_VECTORS_DIR the folder tests/vectors.
"""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

BINARY = os.environ["EBB_BINARY"]
VECTORS = pathlib.Path(os.environ["EBB_VECTORS_DIR"])
BASE = VECTORS / "text" / "t0-base"
GGUF = VECTORS / "gguf" / "t0-base-f32.gguf"
PROJECTOR = VECTORS / "gguf" / "mmproj-v0-56-f16.gguf"


class Folder(unittest.TestCase):
    """Gives each test a folder of its own, which is also its home."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ebb-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def environment(self, **more):
        kept = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
        return {**kept, "HOME": str(self.folder), "TERM": "xterm", **more}

    def ebb(self, *words, stdin=None, model=GGUF, timeout=60, **variables):
        """Runs ebb with EBB_MODEL set to `model`; `stdin` text goes through a pipe, None means none at all."""
        if model is not None:
            variables["EBB_MODEL"] = str(model)
        pipe = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin.encode()}
        done = subprocess.run([BINARY, *words], capture_output=True, timeout=timeout, env=self.environment(**variables),
                              check=False, **pipe)
        done.out, done.err = done.stdout.decode(), done.stderr.decode("utf-8", "replace")
        return done

    def refuses(self, code, *words, says, **options):
        done = self.ebb(*words, **options)
        self.assertEqual(done.returncode, code, done.err)
        self.assertEqual(done.out, "")
        self.assertEqual(done.err.count("error: "), 1, done.err)
        self.assertIn("ebb: error: ", done.err)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, done.err)
        return done


class Run(Folder):
    GREEDY = ("run", "-n", "8", "--temp", "0")

    def test_answer_alone_is_on_stdout(self):
        done = self.ebb(*self.GREEDY, "-p", "abc")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIn("tok/s", done.err)
        self.assertNotIn("tok/s", done.out)
        quiet = self.ebb(*self.GREEDY, "-p", "abc", "-lv", "0")
        self.assertEqual(quiet.err, "")
        self.assertEqual(quiet.out, done.out)

    def test_json_is_one_object(self):
        done = self.ebb(*self.GREEDY, "-p", "abc", "--json", "--log-probs", "3")
        answer = json.loads(done.out)
        self.assertEqual(done.returncode, 0, done.err)
        self.assertLessEqual(len(answer["tokens"]), 8)
        self.assertEqual(answer["usage"]["completion_tokens"], len(answer["tokens"]))
        self.assertEqual(len(answer["log_probs"]), len(answer["tokens"]))
        self.assertEqual(len(answer["log_probs"][0]["top"]), 3)
        self.assertIn(answer["finish_reason"], ("stop", "length"))
        self.assertEqual(answer["log_probs"][0]["top"][0]["id"], answer["tokens"][0])  # greedy takes the best

    def test_pipe_file_and_flag_are_one_prompt(self):
        file = self.folder / "p.txt"
        file.write_text("abc\n")
        texts = {self.ebb(*self.GREEDY, "-p", "abc").out, self.ebb(*self.GREEDY, "-f", str(file)).out,
                 self.ebb(*self.GREEDY, stdin="abc\n").out, self.ebb(*self.GREEDY, "-f", "-", stdin="abc").out}
        self.assertEqual(len(texts), 1)
        joined = self.ebb("run", "-n", "1", "--json", "-p", "abc", stdin="def\n")
        whole = self.ebb("run", "-n", "1", "--json", "-p", "abc\n\ndef")
        prompt_tokens = [json.loads(done.out)["usage"]["prompt_tokens"] for done in (joined, whole)]
        self.assertEqual(prompt_tokens[0], prompt_tokens[1])

    def test_open_pipe_that_stays_silent_does_not_hang(self):
        reading, writing = os.pipe()
        self.addCleanup(os.close, writing)
        with os.fdopen(reading, "rb") as silent:
            done = subprocess.run([BINARY, *self.GREEDY, "-p", "abc"], stdin=silent, capture_output=True, timeout=60,
                                  env=self.environment(EBB_MODEL=str(GGUF)), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"silent", done.stderr)

    def test_same_seed_gives_the_same_text_and_the_seed_is_reported(self):  # T12
        first = json.loads(self.ebb("run", "-p", "abc", "-n", "12", "--json").out)
        again = json.loads(self.ebb("run", "-p", "abc", "-n", "12", "--json", "-s", str(first["seed"])).out)
        self.assertEqual(first["tokens"], again["tokens"])

    def test_folder_and_gguf_of_one_model_agree(self):
        words = (*self.GREEDY, "-p", "abc", "--raw", "--exact", "--json")
        folder, gguf = (json.loads(self.ebb(*words, model=model).out) for model in (BASE, GGUF))
        self.assertEqual(folder["tokens"], gguf["tokens"])

    def test_raw_text_with_bos_has_one_bos(self):  # T3
        plain = json.loads(self.ebb("run", "-n", "1", "--json", "--raw", "-p", "abc").out)
        spelled = json.loads(self.ebb("run", "-n", "1", "--json", "--raw", "-p", "<bos>abc").out)
        self.assertEqual(plain["usage"]["prompt_tokens"], spelled["usage"]["prompt_tokens"])

    def test_stop_text_is_not_printed(self):  # T9
        text = json.loads(self.ebb(*self.GREEDY, "-p", "abc", "--json").out)["text"]
        stop = text[1:3]
        if len(stop) < 2:
            self.skipTest("the tiny model said too little")
        done = json.loads(self.ebb(*self.GREEDY, "-p", "abc", "--json", "-r", stop).out)
        self.assertEqual(done["text"], text[:text.index(stop)])
        self.assertEqual(done["stop_string"], stop)

    def test_context_that_fills_up_ends_the_answer_visibly(self):  # S2
        done = self.ebb("run", "-p", "abc", "-c", "24", "--json")
        self.assertEqual(done.returncode, 0, done.err)
        answer = json.loads(done.out)
        if answer["finish_reason"] == "context":
            self.assertIn("context of 24 tokens is full", done.err)

    def test_ctrl_c_stops_it_with_130(self):
        process = subprocess.Popen([BINARY, "run", "-f", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.PIPE, env=self.environment(EBB_MODEL=str(GGUF)))
        time.sleep(0.5)  # it waits for the pipe
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
        out, err = process.communicate()
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(out, b"")

    def test_endless_file_is_refused(self):
        self.refuses(2, "run", "-f", "/dev/zero", says="/dev/zero")

    def test_dead_pipe_ends_quietly(self):  # C7
        process = subprocess.Popen([BINARY, "run", "-p", "abc", "-n", "200", "-lv", "0"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   env=self.environment(EBB_MODEL=str(GGUF)))
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        process.wait(timeout=60)
        self.assertEqual(err, b"")

    def test_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BINARY, *self.GREEDY, "-p", "abc", "--json"], stdout=full, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, env=self.environment(EBB_MODEL=str(GGUF)), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"No space left", done.stderr)


class BadInput(Folder):
    def test_missing_model(self):
        self.refuses(1, "run", "-p", "x", model="/nowhere/m.gguf", says="/nowhere/m.gguf")
        self.refuses(1, "run", "-p", "x", model="no-such-name", says="no-such-name")
        self.refuses(2, "run", "-p", "x", model=None, says=["no model", "-m", "EBB_MODEL"])

    def test_folder_that_holds_no_model(self):
        self.refuses(1, "run", "-p", "x", model=self.folder, says=str(self.folder))

    def test_truncated_at_every_twentieth(self):
        whole = GGUF.read_bytes()
        for part in range(20):
            file = self.folder / "cut.gguf"
            file.write_bytes(whole[: len(whole) * part // 20])
            self.refuses(1, "run", "-p", "x", model=file, says="cut.gguf")

    def test_wrong_magic(self):
        file = self.folder / "odd.gguf"
        file.write_bytes(b"ODD!" + GGUF.read_bytes()[4:])
        self.refuses(1, "run", "-p", "x", model=file, says="odd.gguf")

    def test_unknown_architecture_is_named(self):
        file = self.folder / "other.gguf"
        key = b"general.architecture" + struct.pack("<I", 8)
        old = key + struct.pack("<Q", 6) + b"gemma3"
        data = GGUF.read_bytes()
        self.assertEqual(data.count(old), 1)
        file.write_bytes(data.replace(old, key + struct.pack("<Q", 6) + b"zebra9"))
        self.refuses(1, "run", "-p", "x", model=file, says="zebra9")

    def test_projector_given_as_the_model(self):
        self.refuses(1, "run", "-p", "x", model=PROJECTOR, says="projector")

    def test_empty_prompt(self):
        self.refuses(2, "run", "-p", "", says="empty")
        self.refuses(2, "run", stdin="", says="empty")
        self.refuses(2, "run", says="no prompt")

    def test_prompt_longer_than_the_context(self):
        self.refuses(1, "run", "-p", "a b c d e f g h " * 20, "-c", "16", says=["16", "-c"])

    def test_context_larger_than_the_models(self):
        done = self.ebb("run", "-p", "x", "-c", "1000000000")
        self.assertIn(done.returncode, (1, 2))
        self.assertIn("1000000000", done.err)

    def test_threads(self):
        for threads in ("0", "10000", "-1", "two"):
            self.refuses(2, "run", "-p", "x", "-t", threads, says=[f"'{threads}'", "1 to 1024"])

    def test_unknown_flag_names_the_nearest(self):
        self.refuses(2, "run", "--tmp", "0", says=["--tmp", "--temp"])
        self.refuses(2, "rum", says="run")
        self.refuses(2, says="command")

    def test_sampling_out_of_range(self):
        for words in (("--temp", "-1"), ("--top-p", "2"), ("--min-p", "nan"), ("--top-k", "-5"), ("-n", "-2")):
            self.refuses(2, "run", "-p", "x", *words, says=words[1])

    def test_config_file(self):
        config = self.folder / "config.yaml"
        config.write_text("model: x\nctxsize: 5\n")
        self.refuses(2, "run", "-p", "x", "--config", str(config), says=[f"{config}, line 2", "ctxsize", "ctx_size"])
        self.refuses(1, "run", "-p", "x", "--config", str(self.folder / "none.yaml"), says="none.yaml")


class Other(Folder):
    def test_tokenize_there_and_back(self):
        text = "a  b\n\tünï 世界 <bos>"
        ids = self.ebb("tokenize", text)
        self.assertEqual(ids.returncode, 0, ids.err)
        self.assertEqual(ids.err, "")
        self.assertEqual(self.ebb("tokenize", "--decode", stdin=ids.out).out, text)
        tokens = json.loads(self.ebb("tokenize", text, "--json").out)
        self.assertEqual([token["id"] for token in tokens], [int(word) for word in ids.out.split()])
        self.assertEqual(bytes(byte for token in tokens for byte in token["bytes"]).decode(), text)
        pieces = self.ebb("tokenize", text, "--pieces").out.splitlines()
        self.assertEqual(len(pieces), len(tokens))
        self.assertEqual(self.ebb("tokenize", "--bos", "--parse-special", "<bos>").out.split(), ["2"])
        self.refuses(2, "tokenize", "--decode", "1 x", says="'x'")
        self.refuses(2, "tokenize", "--decode", "999999999", says="999999999")

    def test_perplexity(self):
        file = self.folder / "t.txt"
        file.write_text("the quick brown fox " * 40)
        done = self.ebb("perplexity", "-f", str(file), "-c", "16")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertRegex(done.out, r"^perplexity [0-9.]+ \+/- [0-9.]+ "
                                   r"\([0-9]+ windows of 16, [0-9]+ tokens scored\)\n$")
        self.assertGreater(json.loads(self.ebb("perplexity", "-f", str(file), "-c", "16", "--json").out)["windows"], 0)
        file.write_text("short")
        self.assertIn(self.ebb("perplexity", "-f", str(file), "-c", "64").returncode, (1, 2))

    def test_bench_speed_in_every_form(self):
        words = ("bench", "speed", "-p", "8", "-n", "4", "-r", "2")
        self.assertIn("| prompt 8 |", self.ebb(*words).out)
        self.assertEqual(len(self.ebb(*words, "-o", "csv").out.splitlines()), 3)
        report = json.loads(self.ebb(*words, "-o", "json").out)
        self.assertEqual([row["test"] for row in report["rows"]], ["prompt 8", "answer 4"])
        self.assertGreater(report["peak_bytes"], 0)

    def test_config_block_about_memory(self):
        config = self.folder / "config.yaml"
        config.write_text("memory_management:\n  gc_threshold: 0.8\n  gc_intervall: 5\n")
        self.refuses(2, "run", "-p", "x", "--config", str(config),
                     says=[f"{config}, line 3", "memory_management.gc_intervall", "gc_interval"])
        config.write_text("memory_management:\n  memory_limit: [1GiB, nothing]\n")
        self.refuses(2, "run", "-p", "x", "--config", str(config), says=[f"{config}, line 2", "memory_limit", "20GiB"])
        self.refuses(2, "run", "-p", "x", "--gc-interval", "0", says=["--gc-interval", "1 to"])

    def test_doctor_and_listing(self):
        done = self.ebb("doctor", OLLAMA_HOST="x", LLAMA_ARG_CTX_SIZE="5", EBB_TMP="1")
        self.assertEqual(done.returncode, 0, done.out)
        for part in ("OLLAMA_HOST", "EBB_CTX_SIZE", "EBB_TEMP", "memory"):
            self.assertIn(part, done.out)
        self.assertEqual(self.ebb("doctor", model="/nowhere/m").returncode, 1)
        self.assertEqual(self.ebb("--list-devices").returncode, 0)
        self.assertIn("16.00 GiB", self.ebb("--list-devices", "-dev", "fake:16GiB").out)
        self.assertRegex(self.ebb("--version").out, r"^ebb [0-9.]+\n$")

    def test_help(self):
        for words in (("-h",), ("run", "-h"), ("chat", "-h"), ("bench", "speed", "-h"), ("tokenize", "--help")):
            done = self.ebb(*words)
            self.assertEqual(done.returncode, 0)
            self.assertIn("ebb", done.out)


class SavedChat(Folder):
    def chat(self, *lines, words=(), model=GGUF):
        done = self.ebb("chat", "-lv", "2", "--temp", "0", "-n", "8", "--chat-template", "gemma", *words, model=model,
                        stdin="\n".join((*lines, "/exit", "")))
        self.assertEqual(done.returncode, 0, done.err)
        return done

    def test_another_process_goes_on_without_evaluating_again(self):  # S3
        file = self.folder / "chat"
        one = self.chat("/system Be terse", "Hello", "Go on", f"/save {file}", "And then?")
        self.assertIn("4 messages saved", one.err)
        other = self.chat(f"/load {file}", "And then?")
        self.assertIn("4 messages loaded, with ", other.err)
        told = re.compile(r"prompt \d+ tokens \(\d+ kept from before\)")
        self.assertEqual(told.findall(one.err)[-1], told.findall(other.err)[-1])
        self.assertTrue(one.out.endswith(other.out), (one.out, other.out))

    def test_refusals_are_clear_and_the_chat_goes_on(self):  # S3, X8
        file = self.folder / "chat"
        self.chat("Hello", f"/save {file}")
        whole = file.read_bytes()
        file.with_name("damaged").write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
        file.with_name("short").write_bytes(whole[:-1])
        done = self.chat("Hello", f"/load {self.folder}/damaged", f"/load {self.folder}/short", "/load /dev/zero",
                         "/save /proc/chat", f"/save {self.folder}/no/chat", "Go on")
        for part in ("damaged: its checksum is", "cut short or damaged: it has", "/dev/zero: not a saved chat",
                     "/proc/chat: cannot be written", "no/chat: cannot be written", "kept from before"):
            self.assertIn(part, done.err)
        self.assertIn("saved with KV type f16; this model runs with bf16",
                      self.chat(f"/load {file}", words=("-ctk", "bf16", "-ctv", "bf16")).err)
        self.assertIn("saved with another model", self.chat(f"/load {file}", model=VECTORS / "text" / "t1-rope8").err)
        self.assertEqual(file.read_bytes(), whole)


class Memory(Folder):
    FAKE = ("-dev", "fake:64MiB", "--fake-page", "64KiB")

    def test_devices_of_the_machine(self):
        done = self.ebb("memory", "-dev", "fake:24GiB,fake:8GiB")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIn("GPU 0: 0.0/24.0 GB (0.0%)", done.out)
        self.assertIn("GPU 1: 0.0/8.0 GB (0.0%)", done.out)
        self.assertIn("-m", done.err)
        self.assertNotIn("\033", done.out)  # no terminal, no colours
        status = json.loads(self.ebb("memory", "--json", "-dev", "fake:24GiB").out)
        self.assertEqual(status["devices"][0]["total_bytes"], 24 << 30)
        self.assertEqual(status["conversations"], [])

    def test_with_a_model_the_parts_add_up(self):  # M19, M20
        done = self.ebb("memory", "-m", str(GGUF), "--json", *self.FAKE)
        self.assertEqual(done.returncode, 0, done.err)
        device = json.loads(done.out)["devices"][0]
        self.assertGreater(device["kinds"]["weights"], 0)
        self.assertEqual(sum(device["kinds"].values()), device["mapped_bytes"] + device["retired_bytes"])
        self.assertEqual(device["mapped_bytes"] + device["pool_bytes"] + device["retired_bytes"], device["held_bytes"])
        self.assertEqual(device["used_by_us_bytes"], device["held_bytes"])
        self.assertEqual(device["untracked_bytes"], 0)
        self.assertEqual(device["free_bytes"] + device["used_by_us_bytes"] + device["others_bytes"],
                         device["total_bytes"])
        table = self.ebb("memory", "-m", str(GGUF), *self.FAKE).out
        for part in ("W weights", "planned", "fragmentation", "ours by the device's own count"):
            self.assertIn(part, table)

    def test_what_the_program_holds_has_labels_too(self):  # M16; the sum is held to the system's in the real model's test
        done = self.ebb("memory", "-m", str(GGUF), "--json", "-dev", "cpu", "--host-limit", "64MiB")
        self.assertEqual(done.returncode, 0, done.err)
        host = json.loads(done.out)["host"]
        self.assertEqual(list(host["program"]), ["heap", "heap_free", "stacks", "data"])
        self.assertGreater(host["program"]["stacks"], 0)
        self.assertGreater(host["program"]["data"], 0)
        self.assertLess(host["used_bytes"], host["limit_bytes"])
        self.assertEqual(host["touched_bytes"], json.loads(done.out)["devices"][0]["used_by_us_bytes"])
        self.assertIn("variables of program and libraries", self.ebb("memory", "-m", str(GGUF), "-dev", "cpu").out)

    def test_watch_goes_on_until_ctrl_c(self):
        process = subprocess.Popen([BINARY, "memory", "--watch", *self.FAKE], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=self.environment())
        first, second = process.stdout.readline(), process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, err)
        for line in (first, second):
            self.assertRegex(line.decode(), r"^GPU 0: 0\.0/0\.1 GB \([0-9.]+%\); held 0 B, 0 chats\n$")

    def test_bench_memory_in_every_form(self):
        svg = self.folder / "chart.svg"
        words = ("bench", "memory", "--turns", "3", "-p", "40", "-n", "4", "-r", "2", *self.FAKE)
        done = self.ebb(*words, "-o", "json", "--svg", str(svg))
        self.assertEqual(done.returncode, 0, done.err)
        report = json.loads(done.out)
        names = ["none", "after each answer", "+ every 5 turns", "three levels"]
        self.assertEqual([strategy["name"] for strategy in report["strategies"]], names)
        for strategy in report["strategies"]:
            self.assertEqual(len(strategy["turns"]), 3)
            self.assertGreater(strategy["turns"][-1]["device_bytes"], strategy["floor_bytes"])
        held = {strategy["name"]: strategy["turns"][-1]["device_bytes"] for strategy in report["strategies"]}
        self.assertLess(held["three levels"], held["none"])
        for reset in report["resets"]:
            self.assertEqual(reset["released_share"], 1.0, reset)
            self.assertTrue(reset["confirmed"])
            self.assertEqual(len(reset["ms"]), 2)
        tokens = [reset["tokens"] for reset in report["resets"]]
        self.assertEqual(tokens, [1 + 44 * turns for turns in (2, 3, 6)])
        self.assertIn("three levels", svg.read_text())
        self.assertIn("| three levels |", self.ebb(*words).out)
        self.assertIn("reset,short chat,2,tokens,89", self.ebb(*words, "-o", "csv").out)
        self.refuses(2, "bench", "memory", "--turns", "1000", "-p", "1000", says=["context", "--turns"])
        self.refuses(2, "bench", "memry", says="bench memory")

    def soak(self, *words):
        """A sanitizer keeps what is freed for a while, which is a rise of its own; here it may not."""
        options = os.environ.get("ASAN_OPTIONS", "")
        quiet = f"{options}:quarantine_size_mb=0:thread_local_quarantine_size_kb=0"
        return self.ebb("soak", *words, *self.FAKE, timeout=300, ASAN_OPTIONS=quiet)

    def test_soak_is_flat(self):  # C6
        done = self.soak("--turns", "50")
        self.assertEqual(done.returncode, 0, done.out + done.err)
        self.assertIn("the floor is flat over", done.out)
        lines = done.out.splitlines()
        self.assertRegex(lines[0], r"time +turns +device +host")
        self.assertGreater(len(lines), 10)
        floors = {" ".join(line.split()[3:5]) for line in lines[4:-1]}
        self.assertEqual(len(floors), 1, done.out)

    def test_soak_takes_no_memory_of_its_own(self):  # a list of floors and threads' caches were once 657 bytes a cycle
        if json.loads(self.ebb("memory", "-m", str(GGUF), "--json").out)["host"]["program"]["heap"] == 0:
            self.skipTest("a sanitizer's allocator keeps what is freed")
        done = self.soak("--turns", "400", "-t", "1")
        self.assertLess(int(re.search(r"host ([+-]\d+) bytes a cycle", done.out)[1]), 200, done.out)

    def test_soak_for_a_time_with_chats_side_by_side(self):
        done = self.soak("--time", "1", "-np", "3")
        self.assertEqual(done.returncode, 0, done.out + done.err)
        self.assertIn("cycles", done.out)


class Chat(Folder):
    def test_lines_of_a_pipe_are_messages(self):
        file = self.folder / "c.json"
        lines = ("Hello", "Go\\", "on", "/regen", f"/save {file}", "/system Be terse", "/memory", "/help", "/rset",
                 "/reset", f"/load {file}", "/load /nowhere", "/exit", "")
        done = self.ebb("chat", "-n", "4", "--temp", "0", stdin="\n".join(lines))
        self.assertEqual(done.returncode, 0, done.err)
        saved = json.loads(file.read_text())
        self.assertEqual([message["role"] for message in saved["messages"]], ["user", "assistant"] * 2)
        self.assertEqual(saved["messages"][2]["content"], "Go\non")
        for part in ("prompt style", "4 messages saved", "given back", "4 messages loaded", "did you mean /reset",
                     "/nowhere"):
            self.assertIn(part, done.err)
        self.assertIn("/regen", done.out)

    def test_clear_gives_memory_back_and_the_chat_goes_on(self):
        lines = ("Hello", "/clear", "Again", "/clear all", "And again", "/clear now", "/reset", "/memory", "")
        done = self.ebb("chat", "-n", "4", "--temp", "0", *Memory.FAKE, stdin="\n".join(lines))
        self.assertEqual(done.returncode, 0, done.err)
        self.assertEqual(done.out.count("reclaim level 3 (user): "), 2, done.out)
        self.assertIn("kept weights", done.out)
        self.assertRegex(done.err, r"new conversation; reset of chat 1: .* given back in [0-9.]+ ms.*, confirmed")
        self.assertIn("the word all", done.err)
        self.assertNotIn("error:", done.err)
        self.assertIn("last: reset of chat 1", done.out)

    def test_typed_on_a_terminal(self):
        process, terminal = pty.fork()
        if process == 0:
            environment = self.environment(EBB_MODEL=str(GGUF), NO_COLOR="1", LC_ALL="C.UTF-8")
            os.execve(BINARY, [BINARY, "chat", "-n", "3", "--temp", "0"], environment)
        self.addCleanup(os.close, terminal)
        self.wait_for(terminal, b"> ")
        os.write(terminal, "世界 hello\n".encode())
        self.wait_for(terminal, b"> ", after=b"hello")
        os.write(terminal, b"half a line")
        self.wait_for(terminal, b"half a line")
        os.write(terminal, b"\x03")  # drops it
        self.wait_for(terminal, b"> ")
        os.write(terminal, b"\x03")  # and on an empty line it leaves
        self.wait_for(terminal, None)
        _, status = os.waitpid(process, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        history = self.folder / ".local" / "state" / "ebb" / "chat_history"
        self.assertEqual(history.stat().st_mode & 0o777, 0o600)

    def wait_for(self, terminal, wanted, after=b""):
        """Reads until `wanted` comes after `after`; None waits for the end."""
        seen, end = b"", time.monotonic() + 60
        while time.monotonic() < end:
            ready, _, _ = select.select([terminal], [], [], 1)
            if not ready:
                continue
            try:
                part = os.read(terminal, 4096)
            except OSError:  # the other side is gone
                part = b""
            if not part:
                self.assertIsNone(wanted, seen)
                return
            seen += part
            if wanted is not None and after in seen and wanted in seen[seen.index(after) + len(after):]:
                return
        self.fail(f"waited in vain for {wanted!r} in {seen!r}")


if __name__ == "__main__":
    unittest.main()
