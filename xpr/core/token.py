"""The type of tokens, which stand for the order of what has an effect and hold no values."""

from __future__ import annotations


class AbstractToken:
    """The type of a token; there is one, `abstract_token`.

    >>> abstract_token
    Tok
    """

    __slots__ = ()

    def str_short(self, short_dtypes: bool = False) -> str:
        """How a printed jaxpr shows it."""
        del short_dtypes
        return "Tok"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractToken)

    def __hash__(self) -> int:
        return hash(AbstractToken)

    def __repr__(self) -> str:
        return "Tok"


abstract_token = AbstractToken()
