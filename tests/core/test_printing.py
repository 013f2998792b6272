"""What `pretty_print` shows of a jaxpr on request; the golden texts are those of JAX 0.10.2."""

from __future__ import annotations

import re
from typing import Any

import xpr
import xpr.numpy as jnp


def inner(x: Any) -> Any:
    return jnp.sin(x)


def outer(x: Any) -> Any:
    return xpr.jit(inner)(x) * 2


CLOSED = xpr.make_jaxpr(outer)(1.0)
BLUE, PLAIN = "\x1b[34;1m", "\x1b[39;22m"
TYPE = "\x1b[35m:f32[]\x1b[39m"


def test_colors_on_one_line() -> None:
    closed = xpr.make_jaxpr(lambda x: jnp.sin(x) + 1)(1.0)
    assert closed.jaxpr.pretty_print(use_color=True) == (
        f"{{ {BLUE}lambda {PLAIN}; a{TYPE}. {BLUE}let{PLAIN} b{TYPE} = sin a; "
        f"c{TYPE} = add b 1.0:f32[] {BLUE}in {PLAIN}(c,) }}"
    )


def test_colors_on_several_lines() -> None:
    text = xpr.make_jaxpr(lambda x: jnp.sin(x) + 1)(1.0).pretty_print(use_color=True, width=20)
    assert f"{BLUE}let\n    {PLAIN}b{TYPE} = sin a\n" in text
    assert text.endswith(f"\n  {BLUE}in {PLAIN}(c,) }}")


def test_types_left_out() -> None:
    assert CLOSED.pretty_print(print_shapes=False) == (
        "{ lambda ; a. let\n"
        "    b = jit[name=inner jaxpr={ lambda ; a. let b = sin a in (b,) }] a\n"
        "    c = mul b 2.0:f32[]\n"
        "  in (c,) }"
    )


def test_all_parameters() -> None:
    # JAX's names for what its `jit` shows too; the inner program has letters of its own then.
    text = CLOSED.pretty_print(custom_pp_eqn_rules=False)
    assert "donated_invars=(False,)\n" in text
    assert "jaxpr={ lambda ; c:f32[]. let d:f32[] = sin" in text
    assert "donated_invars" not in CLOSED.pretty_print()


def test_scopes() -> None:
    def scoped(x: Any) -> Any:
        with xpr.named_scope("there"):
            return x + 1

    line = xpr.make_jaxpr(scoped)(1.0).pretty_print(name_stack=True)
    assert line == "{ lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) } # [there]"


def test_notes_stand_in_a_column() -> None:
    """As JAX 0.10.2 prints them."""

    def f(x: Any) -> Any:
        with xpr.named_scope("here"):
            return jnp.sin(jnp.cos(x))

    def g(x: Any) -> Any:
        y = f(x)
        with xpr.named_scope("loop"):
            return xpr.lax.scan(lambda c, a: (c * a + jnp.sin(a), c), y.sum(), y)[0]

    short = xpr.make_jaxpr(f)(1.0)
    text = "{ lambda ; a:f32[]. let b:f32[] = cos a; c:f32[] = sin b in (c,) }"
    gap = " " * len(text)
    assert short.pretty_print(name_stack=True) == f"{text} # [here]\n{gap} # [here]"
    colored = short.pretty_print(name_stack=True, use_color=True)
    assert colored.split("\n")[1] == f"\x1b[2m{gap} # [here]\x1b[22m"
    place, names = short.pretty_print(name_stack=True, source_info=True).split("\n")[:2]
    assert re.search(r"} # .*test_printing\.py:\d+:\d+ \(.*f\)$", place)
    assert names == f"{gap} # [here]"
    lines = xpr.make_jaxpr(g)(jnp.ones(4)).pretty_print(name_stack=True).split("\n")
    assert lines[1:8] == [
        "    b:f32[4] = cos a                                    # [here]",
        "    c:f32[4] = sin b                                    # [here]",
        "    d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c # [loop]",
        "    e:f32[] _:f32[4] = scan[                            # [loop]",
        "      jaxpr={ lambda ; f:f32[] g:f32[]. let",
        "          h:f32[] = mul f g                             # []",
        "          i:f32[] = sin g                               # []",
    ]
