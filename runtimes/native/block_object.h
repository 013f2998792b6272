// The Python class of blocks of memory: `_native.Block`.
#pragma once

#include <nanobind/nanobind.h>

#include "program.h"

namespace xpr {

// The block of a Python object; TypeError when it is none.
inline Block& block_of(nanobind::handle object) {
  Block* block = nullptr;
  if (!nanobind::try_cast(object, block, false) || !block) {
    throw nanobind::type_error("a program takes blocks of memory");
  }
  return *block;
}

void bind_blocks(nanobind::module_& module);
void bind_programs(nanobind::module_& module);

}  // namespace xpr
