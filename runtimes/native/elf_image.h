// Loads the machine code of a module: an ELF file that needs nothing of the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernel.h"
#include "memory.h"
#include "module_file.h"

namespace xpr {

// A file of machine code, mapped into memory.
class ElfImage {
 public:
  // Maps the file and applies its relocations; throws Refusal for what is not known.
  explicit ElfImage(Bytes file);
  ~ElfImage();
  ElfImage(const ElfImage&) = delete;
  ElfImage& operator=(const ElfImage&) = delete;

  // Asks the code for its kernels; throws Refusal for versions and needs that are not known.
  void open();

  size_t kernel_count() const { return library_ ? library_->kernel_count : 0; }
  const Library& library() const { return *library_; }

  // The number of the kernel of that name, or -1.
  int64_t find(std::string_view name) const;

 private:
  struct Segments;
  void load(Bytes file);
  void relocate(size_t table, size_t size);
  size_t find_symbol(const char* name) const;
  bool holds(const void* place, size_t size) const;
  template <typename T>
  T at(size_t place) const;

  uint8_t* base_ = nullptr;
  size_t size_ = 0;
  size_t symbols_ = 0, symbol_count_ = 0, names_ = 0, names_size_ = 0;
  size_t query_ = 0;
  const Library* library_ = nullptr;
};

}  // namespace xpr
