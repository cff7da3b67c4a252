#!/usr/bin/env python3
"""rewrite.py on small sources, against what they must become."""

from __future__ import annotations

import unittest

import rewrite


class RewriteTest(unittest.TestCase):
    def test_launch_of_a_template(self) -> None:
        self.assertEqual(
            rewrite.rewrite("  Add<T, f<U>>\n      <<<g(a, b), 32, 0, s>>>(x);"),
            "  ::winnow::emulated::Configure(Add<T, f<U>>\n      , g(a, b), "
            "32, 0, s)(x);")

    def test_launch_of_a_pointer(self) -> None:
        self.assertEqual(
            rewrite.rewrite("{ kernel<<<n, 32, 0, q.s()>>>({a, b}); }"),
            "{ ::winnow::emulated::Configure(kernel, n, 32, 0, q.s())"
            "({a, b}); }")

    def test_shared_memory(self) -> None:
        self.assertEqual(
            rewrite.rewrite("\n__shared__ float of[kWarps][2 * kRows];"),
            "\nauto& of = ::winnow::emulated::DeclaredShared<"
            "float[kWarps][2 * kRows]>(2);")
        self.assertEqual(
            rewrite.rewrite("extern __shared__ __align__(128) std::byte b[];"),
            "auto* b = ::winnow::emulated::DynamicShared<std::byte>();")

    def test_shared_memory_that_is_not_understood(self) -> None:
        with self.assertRaises(rewrite.Unknown):
            rewrite.rewrite("__shared__ float a, b = 2;")

    def test_instruction(self) -> None:
        self.assertEqual(
            rewrite.rewrite('asm volatile("a.b::c {%0, %1}, {%2, %0}, [%3], 8;"'
                            '\n: "+f"(c[0]), "=f"(c[f(1, 2)]) : "r"(x), '
                            '"l"(n::y) : "memory");'),
            "::winnow::emulated::ptx::a_b__c({&(c[0]), &(c[f(1, 2)])}, "
            "{(x), (c[0])}, (n::y), 8)\n;")

    def test_instruction_without_targets(self) -> None:
        self.assertEqual(rewrite.rewrite('asm("wait %0;" ::"n"(kLeft));'),
                         "::winnow::emulated::ptx::wait((kLeft));")
        self.assertEqual(rewrite.rewrite('asm("commit;" ::: "memory");'),
                         "::winnow::emulated::ptx::commit();")

    def test_instructions_that_are_not_understood(self) -> None:
        with self.assertRaises(rewrite.Unknown):
            rewrite.rewrite('asm("one %0; two %0;" ::"r"(x));')
        with self.assertRaises(rewrite.Unknown):
            rewrite.rewrite('asm("one %0;" ::"r" x);')


if __name__ == "__main__":
    unittest.main()
