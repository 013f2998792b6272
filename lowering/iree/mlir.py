"""The few functions of MLIR that change a program half way through a compile.

They are those of MLIR's C interface (`mlir-c/IR.h`, `mlir-c/BuiltinTypes.h`), in the compiler's
library. Its handles are structures of one pointer, which are passed as pointers are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

_POINTER = ctypes.c_void_p
_INDEX = ctypes.c_ssize_t


class _Text(ctypes.Structure):
    """`MlirStringRef`."""

    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _State(ctypes.Structure):
    """`MlirOperationState`: an operation that is to be made."""

    _fields_ = (
        ("name", _Text),
        ("location", _POINTER),
        ("n_results", _INDEX),
        ("results", ctypes.POINTER(_POINTER)),
        ("n_operands", _INDEX),
        ("operands", ctypes.POINTER(_POINTER)),
        ("n_regions", _INDEX),
        ("regions", _POINTER),
        ("n_successors", _INDEX),
        ("successors", _POINTER),
        ("n_attributes", _INDEX),
        ("attributes", _POINTER),
        ("infers_types", ctypes.c_bool),
    )


class _NamedAttribute(ctypes.Structure):
    """`MlirNamedAttribute`."""

    _fields_ = (("name", _POINTER), ("attribute", _POINTER))


_ON_TEXT = ctypes.CFUNCTYPE(None, _Text, _POINTER)

Declarations = dict[str, tuple[Any, list[Any]]]
"""For each function its result's type and those of its arguments."""

_FUNCTIONS: Declarations = {
    "AttributeParseGet": (_POINTER, [_POINTER, _Text]),
    "AttributePrint": (None, [_POINTER, _ON_TEXT, _POINTER]),
    "DenseElementsAttrGetRawData": (_POINTER, [_POINTER]),
    "ElementsAttrGetNumElements": (ctypes.c_int64, [_POINTER]),
    "OpPrintingFlagsCreate": (_POINTER, []),
    "OpPrintingFlagsDestroy": (None, [_POINTER]),
    "OpPrintingFlagsUseLocalScope": (None, [_POINTER]),
    "OpPrintingFlagsAssumeVerified": (None, [_POINTER]),
    "OperationPrintWithFlags": (None, [_POINTER, _POINTER, _ON_TEXT, _POINTER]),
    "OperationGetAttributeByName": (_POINTER, [_POINTER, _Text]),
    "OperationSetAttributeByName": (None, [_POINTER, _Text, _POINTER]),
    "OperationGetNumDiscardableAttributes": (_INDEX, [_POINTER]),
    "OperationGetDiscardableAttribute": (_NamedAttribute, [_POINTER, _INDEX]),
    "OperationSetDiscardableAttributeByName": (None, [_POINTER, _Text, _POINTER]),
    "ContextEnableMultithreading": (None, [_POINTER, ctypes.c_bool]),
    "ContextGetNumLoadedDialects": (_INDEX, [_POINTER]),
    "OperationGetContext": (_POINTER, [_POINTER]),
    "OperationGetLocation": (_POINTER, [_POINTER]),
    "LocationPrint": (None, [_POINTER, _ON_TEXT, _POINTER]),
    "OperationGetName": (_POINTER, [_POINTER]),
    "OperationGetNumRegions": (_INDEX, [_POINTER]),
    "OperationGetFirstRegion": (_POINTER, [_POINTER]),
    "OperationGetRegion": (_POINTER, [_POINTER, _INDEX]),
    "OperationGetNumOperands": (_INDEX, [_POINTER]),
    "OperationGetNumResults": (_INDEX, [_POINTER]),
    "OperationGetOperand": (_POINTER, [_POINTER, _INDEX]),
    "OperationSetOperand": (None, [_POINTER, _INDEX, _POINTER]),
    "OperationSetOperands": (None, [_POINTER, _INDEX, ctypes.POINTER(_POINTER)]),
    "OperationGetResult": (_POINTER, [_POINTER, _INDEX]),
    "OperationGetNumSuccessors": (_INDEX, [_POINTER]),
    "OperationGetSuccessor": (_POINTER, [_POINTER, _INDEX]),
    "OperationGetBlock": (_POINTER, [_POINTER]),
    "OperationGetNextInBlock": (_POINTER, [_POINTER]),
    "OperationCreate": (_POINTER, [ctypes.POINTER(_State)]),
    "OperationCreateParse": (_POINTER, [_POINTER, _Text, _Text]),
    "OperationStateAddResults": (
        None,
        [ctypes.POINTER(_State), _INDEX, ctypes.POINTER(_POINTER)],
    ),
    "OperationStateAddOperands": (
        None,
        [ctypes.POINTER(_State), _INDEX, ctypes.POINTER(_POINTER)],
    ),
    "OperationStateAddOwnedRegions": (
        None,
        [ctypes.POINTER(_State), _INDEX, ctypes.POINTER(_POINTER)],
    ),
    "OperationClone": (_POINTER, [_POINTER]),
    "OperationDestroy": (None, [_POINTER]),
    "RegionCreate": (_POINTER, []),
    "RegionTakeBody": (None, [_POINTER, _POINTER]),
    "RegionGetNextInOperation": (_POINTER, [_POINTER]),
    "RegionGetFirstBlock": (_POINTER, [_POINTER]),
    "BlockGetNextInRegion": (_POINTER, [_POINTER]),
    "BlockGetFirstOperation": (_POINTER, [_POINTER]),
    "BlockGetTerminator": (_POINTER, [_POINTER]),
    "BlockGetNumArguments": (_INDEX, [_POINTER]),
    "BlockGetArgument": (_POINTER, [_POINTER, _INDEX]),
    "BlockAddArgument": (_POINTER, [_POINTER, _POINTER, _POINTER]),
    "BlockInsertArgument": (_POINTER, [_POINTER, _INDEX, _POINTER, _POINTER]),
    "BlockEraseArgument": (None, [_POINTER, ctypes.c_uint]),
    "BlockInsertOwnedOperation": (None, [_POINTER, _INDEX, _POINTER]),
    "BlockInsertOwnedOperationAfter": (None, [_POINTER, _POINTER, _POINTER]),
    "BlockInsertOwnedOperationBefore": (None, [_POINTER, _POINTER, _POINTER]),
    "IdentifierStr": (_Text, [_POINTER]),
    "OperationVerify": (ctypes.c_bool, [_POINTER]),
    "ParsePassPipeline": (ctypes.c_int8, [_POINTER, _Text, _ON_TEXT, _POINTER]),
    "PassManagerCreate": (_POINTER, [_POINTER]),
    "PassManagerDestroy": (None, [_POINTER]),
    "PassManagerEnableVerifier": (None, [_POINTER, ctypes.c_bool]),
    "PassManagerGetAsOpPassManager": (_POINTER, [_POINTER]),
    "PassManagerRunOnOp": (ctypes.c_int8, [_POINTER, _POINTER]),
    "IntegerTypeGet": (_POINTER, [_POINTER, ctypes.c_uint]),
    "ShapedTypeGetElementType": (_POINTER, [_POINTER]),
    "TypeIsAComplex": (ctypes.c_bool, [_POINTER]),
    "TypeIsATensor": (ctypes.c_bool, [_POINTER]),
    "TypeEqual": (ctypes.c_bool, [_POINTER, _POINTER]),
    "ValueGetType": (_POINTER, [_POINTER]),
    "ValueReplaceAllUsesOfWith": (None, [_POINTER, _POINTER]),
}


class Functions:
    """Functions of a library as attributes, without their common prefix."""

    prefix: ClassVar[str]

    def bind(self, library: ctypes.CDLL, declared: Declarations) -> None:
        """Looks the functions up and gives them their types."""
        for name, (result, arguments) in declared.items():
            function = library[f"{self.prefix}{name}"]
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the function {self.prefix}{name} is not declared")


class Mlir(Functions):
    """MLIR's functions in the compiler's library."""

    prefix = "mlir"

    def __init__(self, library: ctypes.CDLL) -> None:
        self.bind(library, _FUNCTIONS)

    def name(self, operation: int) -> str:
        """The name of an operation, such as `func.return`."""
        text = self.IdentifierStr(self.OperationGetName(operation))
        return ctypes.string_at(text.data, text.length).decode()

    def blocks(self, operation: int) -> Iterator[int]:
        """The blocks in the regions of an operation."""
        region = self.OperationGetFirstRegion(operation)
        while region:
            block = self.RegionGetFirstBlock(region)
            while block:
                following = self.BlockGetNextInRegion(block)
                yield block
                block = following
            region = self.RegionGetNextInOperation(region)

    def operations(self, operation: int) -> Iterator[int]:
        """The operations in the blocks of another one, which may be taken out on the way."""
        for block in self.blocks(operation):
            inner = self.BlockGetFirstOperation(block)
            while inner:
                following = self.OperationGetNextInBlock(inner)
                yield inner
                inner = following

    def vm_functions(self, module: int) -> Iterator[int]:
        """The functions and initializers of a module that is code of IREE's virtual machine."""
        for inner in self.operations(module):
            if self.name(inner) == "vm.module":
                for function in self.operations(inner):
                    if self.name(function) in ("vm.func", "vm.initializer"):
                        yield function

    def parsed(self, near: int, text: str) -> int:
        """A new operation without operands, in the context of another one."""
        context = self.OperationGetContext(near)
        made = self.OperationCreateParse(context, _text(text), _text(""))
        if not made:
            raise RuntimeError(f"the compiler does not know {text[:1000]}")
        return made

    def printed(self, operation: int) -> str:
        """An operation as text that can be read without what is around it; places are left out."""
        flags = self.OpPrintingFlagsCreate()
        self.OpPrintingFlagsUseLocalScope(flags)
        self.OpPrintingFlagsAssumeVerified(flags)
        parts: list[bytes] = []
        try:
            self.OperationPrintWithFlags(operation, flags, _collector(parts), None)
        finally:
            self.OpPrintingFlagsDestroy(flags)
        return b"".join(parts).decode()

    def pass_manager(self, context: int, passes: str) -> int | str:
        """What runs these passes over modules, unchecked; or why there are no such passes."""
        manager = self.PassManagerCreate(context)
        self.PassManagerEnableVerifier(manager, False)
        parts: list[bytes] = []
        inner = self.PassManagerGetAsOpPassManager(manager)
        text = _text(f"builtin.module({passes})")
        if self.ParsePassPipeline(inner, text, _collector(parts), None):
            return manager
        self.PassManagerDestroy(manager)
        return b"".join(parts).decode("utf-8", "replace")

    def attribute(self, operation: int, name: str) -> int | None:
        """An attribute of an operation."""
        return self.OperationGetAttributeByName(operation, _text(name))

    def attribute_text(self, operation: int, name: str) -> str:
        """An attribute as text."""
        found = self.attribute(operation, name)
        if not found:
            raise RuntimeError(f"{self.name(operation)} has no {name}")
        parts: list[bytes] = []
        self.AttributePrint(found, _collector(parts), None)
        return b"".join(parts).decode()

    def set_attribute(self, operation: int, name: str, text: str) -> None:
        """Gives an operation an attribute that is written in `text`."""
        attribute = self.AttributeParseGet(self.OperationGetContext(operation), _text(text))
        if not attribute:
            raise RuntimeError(f"the compiler does not know the attribute {text}")
        self.OperationSetAttributeByName(operation, _text(name), attribute)

    def location_text(self, operation: int) -> str:
        """The place of an operation as text: of several, where it was made of several."""
        parts: list[bytes] = []
        self.LocationPrint(self.OperationGetLocation(operation), _collector(parts), None)
        return b"".join(parts).decode()

    def data(self, operation: int, name: str) -> bytes:
        """The bytes of an attribute that holds 8-bit integers."""
        found = self.attribute(operation, name)
        if not found:
            raise RuntimeError(f"{self.name(operation)} has no {name}")
        size = self.ElementsAttrGetNumElements(found)
        return ctypes.string_at(self.DenseElementsAttrGetRawData(found), size)

    def copy_attributes(self, source: int, to: int) -> None:
        """Gives an operation what another one has of attributes that are no part of it."""
        for i in range(self.OperationGetNumDiscardableAttributes(source)):
            named = self.OperationGetDiscardableAttribute(source, i)
            name = self.IdentifierStr(named.name)
            self.OperationSetDiscardableAttributeByName(to, name, named.attribute)

    def walk(self, operation: int) -> Iterator[int]:
        """All operations inside of another one."""
        for inner in self.operations(operation):
            yield inner
            yield from self.walk(inner)

    def operands(self, operation: int) -> list[int]:
        """The values that an operation takes."""
        count = self.OperationGetNumOperands(operation)
        return [self.OperationGetOperand(operation, i) for i in range(count)]

    def set_operands(self, operation: int, operands: Sequence[int]) -> None:
        """Gives an operation other values to take, in any number."""
        self.OperationSetOperands(operation, len(operands), _list(operands))

    def arguments(self, block: int) -> list[int]:
        """The values that a block begins with."""
        return [self.BlockGetArgument(block, i) for i in range(self.BlockGetNumArguments(block))]

    def unary(self, name: str, operand: int, result_type: int, near: int) -> int:
        """A new operation of one operand and one result, at the location of another one."""
        return self.created(name, [operand], [result_type], near=near)

    def created(
        self, name: str, operands: Sequence[int], result_types: Sequence[int], *, near: int
    ) -> int:
        """A new operation without attributes and regions, at the location of another one."""
        return self._created(name, operands, result_types, self.OperationGetLocation(near), [])

    def with_regions_of(
        self, other: int, name: str, operands: Sequence[int], result_types: Sequence[int]
    ) -> int:
        """A new operation that takes the regions of another one, which is left without."""
        regions = []
        for i in range(self.OperationGetNumRegions(other)):
            regions.append(self.RegionCreate())
            self.RegionTakeBody(regions[-1], self.OperationGetRegion(other, i))
        location = self.OperationGetLocation(other)
        return self._created(name, operands, result_types, location, regions)

    def _created(
        self,
        name: str,
        operands: Sequence[int],
        result_types: Sequence[int],
        location: int,
        regions: Sequence[int],
    ) -> int:
        data = name.encode()
        state = _State(name=_Text(data, len(data)), location=location)
        # MLIR gives back the memory of these lists, so it has to be MLIR's own.
        here = ctypes.byref(state)
        self.OperationStateAddResults(here, len(result_types), _list(result_types))
        self.OperationStateAddOperands(here, len(operands), _list(operands))
        if regions:
            self.OperationStateAddOwnedRegions(here, len(regions), _list(regions))
        return self.OperationCreate(here)


def _text(text: str) -> _Text:
    data = text.encode()
    return _Text(data, len(data))


def _collector(parts: list[bytes]) -> Any:
    """What MLIR prints to: it adds the pieces of the text to `parts`."""
    return _ON_TEXT(lambda piece, _: parts.append(ctypes.string_at(piece.data, piece.length)))


def _list(pointers: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (_POINTER * len(pointers))(*pointers)
