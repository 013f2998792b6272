"""A linker for what LLVM makes of dispatches: an object for x86-64, and those that it calls.

IREE's own way to the library that its loader reads goes through a program, `iree-lld`, which loads
the whole compiler once more. Such an object needs little of what a linker can do: the sections
that its one entry reaches are laid out as they come, and three kinds of relocations are applied.
Anything else raises `UnlinkableError`. What comes of it is a shared library as `lld` writes it,
without names of sections. (Formats: System V ABI, chapters 4 and 5, and its supplement for AMD64,
section 4.4.)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

ENTRY = "iree_hal_executable_library_query"
"""The one function of a library that the loader asks for."""

_PAGE = 0x1000

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_WORD = struct.Struct("<Q")

_IDENTITY = b"\x7fELF\x02\x01\x01" + bytes(9)  # 64 bits, little-endian, System V
_RELOCATABLE, _SHARED, _X86_64 = 1, 3, 62
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8
_WRITABLE, _IN_MEMORY, _EXECUTABLE, _THREAD_LOCAL = 1, 2, 4, 0x400
_SPECIAL = 0xFF00  # the first index that is no section's
_NOWHERE = 0

_ABSOLUTE_64, _RELATIVE_32, _CALL_32 = 1, 2, 4  # R_X86_64_64, _PC32, _PLT32
_SHIFTED = 8  # R_X86_64_RELATIVE

# Program headers and their flags, and the tags of the dynamic section.
_LOAD, _DYNAMIC, _STACK, _READ_ONLY_LATER = 1, 2, 0x6474E551, 0x6474E552
_X, _W, _R = 1, 2, 4
_HASH, _STRINGS, _TABLE, _RELA, _RELA_SIZE, _RELA_ENTRY = 4, 5, 6, 7, 8, 9
_STRINGS_SIZE, _TABLE_ENTRY, _FLAGS, _FLAGS_1, _RELA_COUNT = 10, 11, 30, 0x6FFFFFFB, 0x6FFFFFF9
_BIND_NOW, _NOW = 8, 1


class UnlinkableError(Exception):
    """The object needs what this linker does not do, or code that it does not hold."""


class UnwantedCallError(UnlinkableError):
    """The object's own code calls one of the functions that it should do without."""


@dataclass(eq=False)
class _Section:
    kind: int
    flags: int
    size: int
    alignment: int
    content: bytes
    relocations: list[tuple[int, int, int, int]] = field(default_factory=list)
    """The place, the kind, the symbol's index and the addend of each."""

    address: int = 0

    @property
    def permissions(self) -> int:
        writable = _W if self.flags & _WRITABLE else 0
        return _R | writable | (_X if self.flags & _EXECUTABLE else 0)


@dataclass(frozen=True)
class _Symbol:
    name: str
    section: int
    value: int
    size: int


def link(
    data: bytes,
    defining: Callable[[str], bytes | None] = lambda name: None,
    unwanted: Collection[str] = (),
) -> bytes:
    """The shared library of an object.

    `defining` gives another object that holds a function, which is linked in. Raises
    `UnlinkableError` if it calls functions that no object holds, or is of another kind, and
    `UnwantedCallError` if code outside of the functions called `unwanted` refers to one of them.
    """
    try:
        sections, symbols = _read(data)
        _refuse_calls(sections, symbols, unwanted)
        entry = _entry(symbols)
        _define(sections, symbols, defining)
        used = list(_reached(sections, symbols, entry))
        return _written(sections, symbols, used, entry)
    except (struct.error, IndexError, ValueError) as error:
        raise UnlinkableError(f"the object is damaged: {error}") from error


def _read(data: bytes) -> tuple[list[_Section], list[_Symbol]]:
    header = _HEADER.unpack_from(data)
    if not header[0].startswith(_IDENTITY[:7]) or header[1:3] != (_RELOCATABLE, _X86_64):
        raise UnlinkableError("this is no object for x86-64")
    at, count = header[6], header[12]
    raw = [_SECTION.unpack_from(data, at + i * _SECTION.size) for i in range(count)]
    sections: list[_Section] = []
    symbols: list[_Symbol] = []
    for _, kind, flags, _, offset, size, link_to, _, alignment, _ in raw:
        content = b"" if kind == _NO_BITS else data[offset : offset + size]
        sections.append(_Section(kind, flags, size, max(alignment, 1), content))
        if kind == _SYMBOLS:
            strings = raw[link_to]
            names = data[strings[4] : strings[4] + strings[5]]
            symbols = [
                _Symbol(names[s[0] : names.index(b"\0", s[0])].decode(), *s[3:])
                for s in _SYMBOL.iter_unpack(content)
            ]
    for (_, kind, *_, info, _, _), section in zip(raw, sections, strict=True):
        if kind == _RELOCATIONS:
            sections[info].relocations = [
                (place, both & 0xFFFFFFFF, both >> 32, addend)
                for place, both, addend in _RELOCATION.iter_unpack(section.content)
            ]
    return sections, symbols


def _refuse_calls(
    sections: Sequence[_Section], symbols: Sequence[_Symbol], unwanted: Collection[str]
) -> None:
    theirs = [s for s in symbols if s.name in unwanted and s.section != _NOWHERE]
    for i, section in enumerate(sections):
        if not section.flags & _IN_MEMORY:
            continue
        inside = [range(s.value, s.value + s.size) for s in theirs if s.section == i]
        for place, _, symbol, _ in section.relocations:
            name = symbols[symbol].name
            if name in unwanted and not any(place in one for one in inside):
                raise UnwantedCallError(f"the object calls {name}")


def _entry(symbols: Sequence[_Symbol]) -> int:
    return _defined(symbols, ENTRY)


def _defined(symbols: Sequence[_Symbol], name: str) -> int:
    for i, symbol in enumerate(symbols):
        if symbol.name == name and symbol.section != _NOWHERE:
            return i
    raise UnlinkableError(f"the object has no {name}")


def _define(
    sections: list[_Section],
    symbols: list[_Symbol],
    defining: Callable[[str], bytes | None],
) -> None:
    """Adds the objects that hold what an object calls, and has its symbols mean theirs."""
    added: dict[bytes, int] = {}
    for i, symbol in enumerate(symbols.copy()):
        if symbol.section != _NOWHERE or not symbol.name:
            continue
        other = defining(symbol.name)
        if other is None:
            continue
        if other not in added:
            found, theirs = _read(other)
            first, shift = len(sections), len(symbols)
            for section in found:
                section.relocations = [
                    (place, kind, index + shift, addend)
                    for place, kind, index, addend in section.relocations
                ]
            sections += found
            for own in theirs:
                inside = own.section != _NOWHERE and own.section < _SPECIAL
                symbols.append(replace(own, section=own.section + first) if inside else own)
            added[other] = shift
        at = _defined(symbols[added[other] :], symbol.name)
        symbols[i] = symbols[added[other] + at]


def _reached(
    sections: Sequence[_Section], symbols: Sequence[_Symbol], entry: int
) -> Iterator[_Section]:
    """What the entry refers to, and what that refers to, in the order of the object."""
    found: set[int] = set()
    pending = [entry]
    while pending:
        index = symbols[pending.pop()].section
        if index == _NOWHERE or index >= _SPECIAL:
            raise UnlinkableError("the object refers to something outside of it")
        if index not in found:
            found.add(index)
            section = sections[index]
            if not section.flags & _IN_MEMORY or section.flags & _THREAD_LOCAL:
                raise UnlinkableError("the object refers to memory of an unknown kind")
            pending += [symbol for _, _, symbol, _ in section.relocations]
    for index in sorted(found):
        yield sections[index]


def _aligned(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def _written(
    sections: Sequence[_Section], symbols: Sequence[_Symbol], used: Sequence[_Section], entry: int
) -> bytes:
    constants = [s for s in used if s.permissions == _R]
    code = [s for s in used if s.permissions == _R | _X]
    # What has no bytes in the file comes last.
    data = sorted((s for s in used if s.permissions == _R | _W), key=lambda s: s.kind == _NO_BITS)
    if len(constants) + len(code) + len(data) != len(used):
        raise UnlinkableError("a section is both written and executed")
    shifted = [
        (section, place, symbol, addend)
        for section in used
        for place, kind, symbol, addend in section.relocations
        if kind == _ABSOLUTE_64
    ]
    if any(section not in data for section, *_ in shifted):
        raise UnlinkableError("an address is written into what is not writable")

    # The file begins with headers and tables, which are in memory together with the constants.
    segments = 6
    table = _HEADER.size + segments * _SEGMENT.size
    hashes = table + 2 * _SYMBOL.size
    strings = hashes + 6 * 4
    text = b"\0" + ENTRY.encode() + b"\0"
    rela = _aligned(strings + len(text), 8)
    rela_size = len(shifted) * _RELOCATION.size
    constants_end = _placed(constants, rela + rela_size)
    # Each group is in pages of its own, and in the file behind the one before.
    alignment = max((s.alignment for s in (*code, *data)), default=1)
    code_at = _aligned(constants_end, max(alignment, 16))
    code_end = _placed(code, code_at + _PAGE)
    data_at = _aligned(code_end - _PAGE, max(alignment, 16))
    in_file = [s for s in data if s.kind != _NO_BITS]
    dynamic_at = _aligned(_placed(in_file, data_at + 2 * _PAGE), 8)
    tags = _tags(table, hashes, strings, len(text), rela, rela_size)
    file_end = dynamic_at + len(tags) - 2 * _PAGE
    data_end = _placed([s for s in data if s.kind == _NO_BITS], dynamic_at + len(tags))

    at = symbols[entry]
    address = sections[at.section].address + at.value
    sections_at = _aligned(file_end, 8)
    image = bytearray(sections_at + _SECTION.size)
    # IREE's loader wants a table of sections, if only of the empty one that each begins with.
    header = (_IDENTITY, _SHARED, _X86_64, 1, 0, _HEADER.size, sections_at, 0, _HEADER.size)
    _HEADER.pack_into(image, 0, *header, _SEGMENT.size, segments, _SECTION.size, 1, 0)
    data_page = data_at + 2 * _PAGE
    # The last page is made read-only when addresses are in place, but for variables.
    end = data_end if len(in_file) != len(data) else _aligned(data_end, _PAGE)
    sealed = 0 if len(in_file) != len(data) else 1
    data_sizes = (file_end - data_at, end - data_page)
    headers = (
        (_LOAD, _R, 0, 0, constants_end, constants_end, _PAGE),
        (_LOAD, _R | _X, code_at, code_at + _PAGE, *(code_end - _PAGE - code_at,) * 2, _PAGE),
        (_LOAD, _R | _W, data_at, data_page, *data_sizes, _PAGE),
        (_DYNAMIC, _R | _W, dynamic_at - 2 * _PAGE, dynamic_at, len(tags), len(tags), 8),
        (_READ_ONLY_LATER, _R, data_at, data_page, *(sealed * size for size in data_sizes), 1),
        (_STACK, _R | _W, 0, 0, 0, 0, 0),
    )
    for i, (kind, flags, offset, start, *rest) in enumerate(headers):
        place = _HEADER.size + i * _SEGMENT.size
        _SEGMENT.pack_into(image, place, kind, flags, offset, start, start, *rest)
    function = 0x12  # global, a function
    _SYMBOL.pack_into(image, table + _SYMBOL.size, 1, function, 0, 1, address, at.size)
    # One chain of one symbol.
    struct.pack_into("<6I", image, hashes, 1, 2, 1, 0, 0, 0)
    image[strings : strings + len(text)] = text
    for i, (section, place, symbol, addend) in enumerate(shifted):
        target = _address(sections, symbols[symbol]) + addend
        record = section.address + place, _SHIFTED, target
        _RELOCATION.pack_into(image, rela + i * _RELOCATION.size, *record)
    for group, shift in ((constants, 0), (code, _PAGE), (in_file, 2 * _PAGE)):
        for section in group:
            content = _relocated(section, sections, symbols)
            start = section.address - shift
            image[start : start + len(content)] = content
    image[dynamic_at - 2 * _PAGE : file_end] = tags
    return bytes(image)


def _placed(sections: Sequence[_Section], at: int) -> int:
    """Gives sections their addresses from `at` on; where they end."""
    for section in sections:
        section.address = _aligned(at, section.alignment)
        at = section.address + section.size
    return at


def _tags(table: int, hashes: int, strings: int, size: int, rela: int, rela_size: int) -> bytes:
    tags = {
        **{_FLAGS: _BIND_NOW, _FLAGS_1: _NOW},
        **{_RELA: rela, _RELA_SIZE: rela_size, _RELA_ENTRY: _RELOCATION.size},
        **{_RELA_COUNT: rela_size // _RELOCATION.size},
        **{_TABLE: table, _TABLE_ENTRY: _SYMBOL.size},
        **{_STRINGS: strings, _STRINGS_SIZE: size, _HASH: hashes, 0: 0},
    }
    return b"".join(_WORD.pack(tag) + _WORD.pack(value) for tag, value in tags.items())


def _address(sections: Sequence[_Section], symbol: _Symbol) -> int:
    return sections[symbol.section].address + symbol.value


def _relocated(
    section: _Section, sections: Sequence[_Section], symbols: Sequence[_Symbol]
) -> bytearray:
    content = bytearray(section.content)
    for place, kind, symbol, addend in section.relocations:
        value = _address(sections, symbols[symbol]) + addend
        if kind == _ABSOLUTE_64:
            _WORD.pack_into(content, place, value)  # the loader adds where the library lies
        elif kind in (_RELATIVE_32, _CALL_32):
            struct.pack_into("<i", content, place, value - section.address - place)
        else:
            raise UnlinkableError(f"a relocation of the kind {kind}")
    return content
