"""./start and ./check say what is missing and what to do, before they touch anything."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, path=None):
    """The finished process, with `path` in front of PATH."""
    environment = dict(os.environ)
    if path is not None:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


class SetUp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.stubs = pathlib.Path(folder.name)

    def stub(self, name, body):
        path = self.stubs / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def bash(self, script, path=None):
        return run("bash", "-c", f"set -euo pipefail; cd '{ROOT}'; source tools/setup.sh; {script}", path=path)

    def test_help_is_an_answer(self):
        for script in ("start", "check"):
            done = run(str(ROOT / script), "--help")
            self.assertEqual(done.returncode, 0)
            self.assertTrue(done.stdout.startswith(f"Usage: ./{script}"))

    def test_check_refuses_an_unknown_argument_as_wrong_use(self):
        self.assertEqual(run(str(ROOT / "check"), "--what").returncode, 2)

    def test_offline_names_the_missing_packages_and_the_command(self):
        self.stub("dpkg-query", "exit 1")
        for script in ("start", "check"):
            done = run(str(ROOT / script), "--offline", path=self.stubs)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("packages are missing: ca-certificates cmake g++", done.stderr)
            self.assertIn("apt-get install ca-certificates cmake g++", done.stderr)

    def test_calls_no_apt_when_all_is_installed(self):
        self.stub("dpkg-query", "printf installed")
        self.stub("apt-get", "echo apt was called >&2; exit 1")
        done = self.bash("install_packages start check", path=self.stubs)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("are installed", done.stderr)

    def test_one_alternative_is_enough(self):
        self.stub("dpkg-query", 'case "$*" in *libclang-rt-18-dev) printf installed ;; *) exit 1 ;; esac')
        done = self.bash("missing_packages check", path=self.stubs)
        self.assertNotIn("libclang-rt", done.stdout)
        self.assertIn("libgtest-dev", done.stdout)

    def test_without_root_and_sudo_gives_the_command_to_run_as_root(self):
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            if run(*command, "test", "-r", str(ROOT / "tools/setup.sh")).returncode != 0:
                self.skipTest("cannot become an ordinary user here")
        else:
            command = []
        self.stub("dpkg-query", "exit 1")
        self.stubs.chmod(0o755)
        script = (f"cd '{ROOT}'; source tools/setup.sh; "
                  'command() { [[ $2 != sudo ]] && builtin command "$@"; }; install_packages start')
        done = run(*command, "bash", "-c", script, path=self.stubs)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no sudo", done.stderr)
        self.assertIn("As root: apt-get update && apt-get install ca-certificates", done.stderr)

    def test_progress_is_a_line_at_each_tenth_when_it_is_no_terminal(self):
        done = self.bash("for i in $(seq 0 200); do show_progress build $i 200; done")
        self.assertEqual(done.stderr.splitlines(), [f"build: {tenth}0%" if tenth else "build: 0%" for tenth in range(11)])


if __name__ == "__main__":
    unittest.main()
