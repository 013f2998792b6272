// Reads a compiled module's file: what functions it has and imports, its data and its byte code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memory.h"

namespace xpr {

// Bytes inside of a module's file.
struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
  std::string_view text() const { return {reinterpret_cast<const char*>(data), size}; }
};

struct ImportedFunction {
  std::string name;     // with the module's name before a dot
  std::string calling;  // IREE's calling convention, such as "0rI_r"
};

struct ByteCodeFunction {
  Bytes code;
  uint32_t blocks = 0;
  uint32_t integer_registers = 0;  // of 32 bits
  uint32_t reference_registers = 0;
  std::string calling;
};

struct ExportedFunction {
  std::string name;
  uint32_t ordinal = 0;
};

// A module's file, of which every offset has been checked. The bytes belong to somebody else, who
// keeps them as long as the file is in use.
struct ModuleFile {
  std::vector<ImportedFunction> imports;
  std::vector<ExportedFunction> exports;
  std::vector<ByteCodeFunction> functions;
  std::vector<Bytes> constants;  // .rodata
  uint32_t global_bytes = 0;
  uint32_t global_references = 0;

  // Throws Refusal for what is not a module of the version that is known here.
  static ModuleFile read(Bytes file);
};

}  // namespace xpr
