#!/usr/bin/env python3
"""Plants one violation of each rule and expects scripts/lint.py to name it."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import lint  # noqa: E402
import lint_classes  # noqa: E402
import lint_joined  # noqa: E402
import lint_sentences  # noqa: E402

GUARD = "#ifndef WINNOW_X_H_\n#define WINNOW_X_H_\n"


def findings(name: str, text: str) -> str:
    return "\n".join(lint.findings_in(lint.ROOT / name, text))


def class_findings(texts: dict[str, str], many=(), cut=()) -> str:
    return "\n".join(lint_classes.check_classes(
        {lint.ROOT / name: lint.blank_comments(text)
         for name, text in texts.items()}, lint.module_of,
        dict.fromkeys(many, "why"), dict.fromkeys(cut, "why")))


def faults(name: str, text: str) -> list[str]:
    """Line and fault of each faulty sentence."""
    return [f"{finding.sentence.line}: {finding.fault}" for finding in
            lint_sentences.findings_of(Path(name), text)]


def plant(folder: str, name: str, line: str,
          target: str = "LICENSE") -> Path:
    """A mutant that wants `line` second of the licence's first three."""
    first, _, third = (lint.ROOT / "LICENSE").read_text().splitlines()[:3]
    path = Path(folder) / f"{name}.patch"
    path.write_text(f"# test: a_test *\n# A bug.\n--- a/{target}\n"
                    f"+++ b/{target}\n@@ -1,3 +1,3 @@\n {first}\n-{line}\n"
                    f"+A bug.\n {third}\n")
    return path


class LintTest(unittest.TestCase):

    def test_clean_code_passes(self):
        text = GUARD + "struct A {\n  int b() const { return 1; }\n};\n#endif\n"
        self.assertEqual(findings("src/kv/a.h", text), "")

    def test_arrows(self):
        text = '#include "tensor/view.h"\n'
        self.assertIn("kv must not include tensor",
                      findings("src/kv/a.cc", text))
        self.assertIn("backend must not include backend/cpu", findings(
            "src/backend/a.cc", '#include "backend/cpu/attend/attend.h"\n'))
        self.assertIn("kv must not include tensor", findings(
            "src/kv/a.cc", "#include <tensor/view.h>\n"))

    def test_folders(self):
        text = '#include "serve/api/page.h"\n'
        self.assertIn("serve/http must not include serve/api",
                      findings("src/serve/http/a.cc", text))
        self.assertEqual(findings("src/serve/http/a_test.cc", text), "")
        self.assertIn("is no folder of serve",
                      findings("src/serve/a.cc", "int a;\n"))
        flat = [lint.ROOT / f"src/kv/a{i}.cc" for i in range(61)]
        self.assertEqual(lint.check_flat(flat[1:]), [])
        self.assertIn("61 files, at most 60", lint.check_flat(flat)[0])

    def test_long_function(self):
        body = "  x = 1;\n" * 60
        text = f"namespace a {{\nvoid F(int x) {{\n{body}}}\n}}\n"
        self.assertIn(":2: F has 62 lines, at most 60",
                      findings("src/kv/a.cc", text))

    def test_long_method_of_a_class(self):
        body = "    x = 1;\n" * 60
        text = f"class A {{\n public:\n  void G() {{\n{body}  }}\n}};\n"
        self.assertIn("G has 62 lines", findings("src/kv/a.cc", text))

    def test_long_lambda_counts_for_its_function_alone(self):
        text = ("void F() {\n  auto g = [&](int a) {\n"
                + "    a;\n" * 30 + "  };\n}\n")
        self.assertEqual(findings("src/kv/a.cc", text), "")

    def test_parameters(self):
        text = "void F(int a, int b, int c, int d, int e, int f, int g) {\n}\n"
        self.assertIn("F takes 7 parameters", findings("src/kv/a.cc", text))
        text = "void F(std::map<int, int> a, int b, P<int, int> c) {\n}\n"
        self.assertEqual(findings("src/kv/a.cc", text), "")

    def test_names(self):
        self.assertIn("says nothing", findings("src/kv/page_utils.cc", ""))
        self.assertIn("PathFast: a name", findings(
            "src/kv/a.cc", "class PathFast {};\n"))
        self.assertIn("FastPath: a name", findings(
            "src/kv/a.cc", "class FastPath {};\n"))
        self.assertIn("says nothing", findings("src/kv/fast/a.cc", ""))

    def test_model_names(self):
        self.assertIn("a model's name below",
                      findings("src/kv/a.cc", "int llama = 1;\n"))
        self.assertIn("a model's name below",
                      findings("src/kv/a.cc", 'auto a = "qwen3";\n'))
        self.assertEqual(findings("src/model/config/a.cc", "int llama = 1;\n"),
                         "")
        self.assertEqual(
            findings("src/kv/a.cc", "// As in Llama.\nint a = 1;\n"), "")

    def test_selector_names(self):
        self.assertIn("a selector's name below",
                      findings("src/backend/a.cc", "bool quest = true;\n"))
        for name, text in [("src/backend/a.cc", "int request = 1;\n"),
                           ("src/backend/a.cc", "// As Quest does.\n"),
                           ("src/sparse/spec/a.cc", "int quest = 1;\n")]:
            self.assertEqual(findings(name, text), "")

    def test_preprocessor(self):
        text = GUARD + "#ifdef WINNOW_CUDA\n#endif\n#endif\n"
        self.assertIn("no #if in a header", findings("src/kv/a.h", text))
        self.assertIn("no #if in a header",
                      findings("src/backend/cuda/device/a.cuh", text))
        self.assertIn("no include guard", findings("src/kv/a.h", "int a;\n"))

    def test_names_of_joined_sources(self):
        def found(first: str, second: str) -> str:
            bodies = [f"namespace {{\n\n{text}\n\n}}  // namespace\n"
                      for text in (first, second)]
            return "\n".join(lint_joined.said_twice(
                {Path("kv/a.cc"): bodies[0], Path("kv/b.cc"): bodies[1]}))

        for text in ["constexpr int kMost = 3;", "struct A {\n};",
                     "class A : public B {\n};", "enum class A { kOne };",
                     "int F(int a,\n      int b) {\n}"]:
            self.assertIn("kv/b.cc:1: ", found(text, text), text)
        for text in ["using A = B;", "namespace http = boost::http;",
                     "static_assert(kOne == 1);"]:
            self.assertEqual(found(text, text), "")
        self.assertEqual(found("int F(int a) {\n}", "int F(A a) {\n}"), "")
        self.assertEqual(found("Status A::Run() {\n}", "Status B::Run() {\n}"),
                         "")

    def test_joined_sources(self):
        def joined(text: str) -> list[list[str]]:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "CMakeLists.txt").write_text(text)
                return [[str(path.relative_to(folder)) for path in sources]
                        for sources in lint.joined_sources(Path(folder))]

        self.assertEqual(joined(
            "set(entry c.cc d.cc)\nset_source_files_properties(\n"
            "  b.cc PROPERTIES COMPILE_OPTIONS -O3)\nwinnow_module(\n"
            "  NAME kv\n  SOURCES a.cc b.cc ${entry}\n  DEPS winnow_base\n"
            "  TESTS ../e.cc f/g.cc\n  TEST_DEPS winnow_base)\n"),
            [["a.cc", "c.cc", "d.cc"], ["../e.cc", "f/g.cc"]])
        self.assertEqual(joined(
            "winnow_module(\n  NAME kv ALONE\n  SOURCES a.cc\n"
            "  DEPS winnow_base\n  TESTS b_test.cc)\n"), [["b_test.cc"]])
        self.assertEqual(joined("add_executable(a a.cc)\n"), [])

    def test_methods_of_a_class(self):
        methods = """
 public:
  explicit A(int a, std::function<void(int)> f = {}) : a_{a}, f_(f) {}
  A(const A&) = delete;
  ~A() = default;
  template <typename T>
  [[nodiscard]] T Get() const { return T(a_); }
  A& operator=(A&& other);
  bool operator()(int a) const;
  operator bool() const { return true; }
  static int B(std::vector<int> a = {1, 2});
  virtual void C() = 0;
  friend class D;
  using E = void(int);
  enum class F { kOne };
  struct G {
    int H() const;
  };

 private:
  int a_ = B({});
  std::array<int, 3> b_{};
  std::function<void(int)> f_;
"""
        for opening in ("class A {", "struct A final : public B<int> {"):
            self.assertEqual(
                lint_classes.methods_of_classes(f"{opening}{methods}}};\n"),
                [("A", 1, 7), ("G", 16, 1)])
        text = GUARD + "class A {\n" + "".join(
            f"  void F{i}();\n" for i in range(31)) + "};\n#endif\n"
        self.assertIn("a.h:3: A has 31 methods, at most 30",
                      class_findings({"src/kv/a.h": text}))
        self.assertEqual(class_findings({"src/kv/a.h": text}, [("kv", "A")]),
                         "")
        self.assertIn("A of cache needs no exception", class_findings(
            {"src/kv/a.h": text}, [("kv", "A"), ("cache", "A")]))
        self.assertEqual(
            class_findings({"src/kv/a.h": text.replace("  void F0();\n", "")}),
            "")

    def test_sources_of_a_class(self):
        texts = {"src/kv/a.h": "class A {\n  void F();\n  int G();\n};\n",
                 "src/kv/a.cc": "void A::F() {\n  B::F();\n}\n",
                 "src/kv/a_test.cc": "int A::G() {\n}\n",
                 "src/cache/b.cc": "int A::G() {\n}\n"}
        self.assertEqual(class_findings(texts), "")
        for definition in ("int A::G() {", "std::vector<int>\nA::G() {",
                           "A::A(int a)\n    : a_(a) {", "A::~A() {",
                           "bool A::operator<(int a) const {",
                           "void A::Part::F() {", "A::Part A::G() {"):
            more = texts | {"src/kv/b.cc": definition + "\n}\n"}
            self.assertIn("A is defined in 2 sources, one at most: a.cc, b.cc",
                          class_findings(more), definition)
            self.assertEqual(class_findings(more, cut=[("kv", "A")]), "")

    def test_length_of_sentences(self):
        long = " ".join(["word"] * 31)
        self.assertEqual(faults("a.h", f"// Fine.\n// {long}.\nint a;\n"),
                         ["2: 31 words, at most 30"])
        self.assertEqual(faults("a.h", f"int a;  // {long}\n"),
                         ["1: 31 words, at most 30"])
        half = " ".join(["word"] * 16)
        self.assertEqual(  # Goes on in its column; then a comment of its own.
            len(faults("a.h", f"int a;  // {half}\n        // {half}\n")), 1)
        for text in (f"int a;  // {half}\n  // {half}\n",
                     f"// {half}.\n// {half}\n", f"// {half}.)\n// {half}\n",
                     f"// {half}\n//\n// {half}\n",
                     f"// - {half}\n// - {half}\n",
                     f"// {half}. REQUIRES: {half}.\n",
                     f'auto a = "// {long}";\n',
                     f"//     {long};\n", "// `" + long + "` is code.\n"):
            self.assertEqual(faults("a.h", text), [], text)
        for text in (f"// {half}, e.g. {half}, i.e. a b.\n",
                     f"// {half} (L. A. {half}).\n"):
            self.assertEqual(len(faults("a.h", text)), 1, text)
        self.assertEqual(faults("a.h", f"// {half} V. {half}.\n"), [])

    def test_length_of_sentences_in_pages(self):
        half, long = " ".join(["word"] * 16), " ".join(["word"] * 31)
        self.assertEqual(faults("a.md", f"# A\n\n{half}\n{half}.\n"),
                         ["3: 32 words, at most 30"])
        self.assertEqual(faults("a.md", f"| a | b |\n|---|---|\n| {long} |\n"),
                         ["3: 31 words, at most 30"])
        for text in (f"- {half}\n- {half}\n", f"| {half} | {half} |\n",
                     f"```\n{long}\n```\n", f"# {long}\n", f"`{long}`\n",
                     f"**{half}.** {half}.\n", f"<!-- {long} -->\n",
                     f"[{half}](a.md). {half}.\n"):
            self.assertEqual(faults("a.md", text), [], text)

    def test_beginnings_of_sentences(self):
        for text in ("What it holds.", "Fine. Who asks gets it.",
                     "what it holds", "Whoever asks.", "Those that ask.",
                     "Those of a page.", "REQUIRES: a. Those are b.",
                     "Those named here.", "those"):
            self.assertEqual(len(faults("a.h", f"// {text}\n")), 1, text)
            self.assertEqual(len(faults("a.md", f"- {text}\n")), 1, text)
        for text in ("Those rows wait.", "What is it?", "It is what it is.",
                     "Those shared pages stay.", "What's new?",
                     "Where is it?", "Whole pages.", "what_it_holds is it."):
            self.assertEqual(faults("a.h", f"// {text}\n"), [], text)
        self.assertEqual(faults("a.py", "a = 1  # What is 1\n"),
                         ["1: begins with What as a noun"])
        self.assertEqual(
            faults("a.py", 'def f():\n    """Fine.\n\n    Who asks.\n    """\n'),
            ["4: begins with Who as a noun"])
        self.assertEqual(faults("a.cmake", "# Who asks.\nset(a # Who\n)\n"),
                         ["1: begins with Who as a noun"])

    def test_sentences_that_are_checked(self):
        for name, is_whole in (
                ("src/kv/a.h", True), ("src/kv/a.cc", False),
                ("src/kv/testing/a.h", False), ("docs/a.md", True),
                ("docs/decisions/a.md", True), ("README.md", True),
                ("src/backend/cuda/device/a.h", False),
                ("src/cache/device/a.h", True),
                ("tests/oracle/README.md", False), ("src/text/a.h", False),
                ("docs/b.md", False)):
            self.assertEqual(lint_sentences.is_held_whole(
                lint.ROOT / name, lint.ROOT, {"src/text", "docs/b.md"}),
                is_whole, name)

    def test_sentences_that_a_change_touches(self):
        with tempfile.TemporaryDirectory() as folder:
            def git(*arguments: str) -> None:
                subprocess.run(["git", "-c", "user.name=a", "-c",
                                "user.email=a@b.c", *arguments], cwd=folder,
                               check=True, capture_output=True)

            root = Path(folder)
            git("init", "-q")
            (root / "a.cc").write_text("// What is\n// old.\n\nint a;\n")
            git("add", ".")
            git("commit", "-qm", "A")
            check = lint_sentences.check_sentences
            self.assertEqual(check(root, "HEAD", set()), [])
            (root / "a.cc").write_text("// What is\n// old.\n\nint b;\n")
            (root / "b.cc").write_text("// Who is new.\n")
            self.assertEqual(len(check(root, "HEAD", set())), 1)
            (root / "a.cc").write_text("// What is\n// new.\n\nint b;\n")
            self.assertEqual(len(check(root, "HEAD", set())), 2)

    def test_sources_in_no_list(self):
        kv, cli = lint.ROOT / "src/kv", lint.ROOT / "src/cli"
        lists = {
            kv: "set(case case.cc)\nset_source_files_properties(\n"
                "  b_test.cc PROPERTIES COMPILE_OPTIONS -O3)\n"
                "foreach(format one two)\n  winnow_fuzzer(NAME ${format}_fuzz"
                " SOURCES ${format}_fuzz.cc ${case})\nendforeach()\n",
            cli: "  # not c_test.cc\n  TESTS ../kv/d_test.cc a_test.cc\n"
                 "  ${PROJECT_SOURCE_DIR}/tests/e.cc"}
        listed = [kv / "case.cc", kv / "one_fuzz.cc", kv / "two_fuzz.cc",
                  kv / "d_test.cc", cli / "a_test.cc", cli / "h.h",
                  lint.ROOT / "tests/e.cc"]
        self.assertEqual(lint.check_listed(listed, lists), [])
        # Of another folder, with properties alone, in a comment, of no loop.
        lost = [kv / "a_test.cc", kv / "b_test.cc", cli / "c_test.cc",
                kv / "three_fuzz.cc", cli / "f.cu"]
        self.assertEqual(lint.check_listed(lost, lists), [
            f"{path}:1: in no CMakeLists.txt" for path in lost])

    def test_long_file(self):
        self.assertIn("at most 800 lines",
                      findings("src/kv/a.cc", "int a;\n" * 801))

    def test_device_code(self):
        self.assertIn("device code lives", findings("src/kv/a.cu", ""))
        self.assertIn("device code lives in .cu", findings(
            "src/backend/cuda/a.cc", "__global__ void F() {}\n"))
        self.assertIn("device/ includes only", findings(
            "src/backend/cuda/device/a.cuh", '#include "tensor/view.h"\n'))

    def test_mutants(self):
        line = (lint.ROOT / "LICENSE").read_text().splitlines()[1]
        with tempfile.TemporaryDirectory() as folder:
            # Each is for the tree alone, not for what another one leaves.
            one = plant(folder, "one", line)
            two = plant(folder, "two", line)
            self.assertEqual(lint.check_mutants([one, two]), [])
            self.assertEqual(lint.check_mutants([]), [])
            gone = plant(folder, "gone", "Says nothing that is there.")
            lost = plant(folder, "lost", line, "LICENSE.gone")
            found = lint.check_mutants([gone, one, lost, two])
            self.assertEqual([text.split(":")[0] for text in found],
                             [str(gone), str(lost)])
            self.assertIn("does not apply", found[0])


if __name__ == "__main__":
    unittest.main()
