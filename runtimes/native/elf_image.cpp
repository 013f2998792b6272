#include "elf_image.h"

#include <cstring>
#include <vector>

#include "refusal.h"

#if defined(__linux__)
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace xpr {

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
constexpr uint32_t kRelative = R_X86_64_RELATIVE;
#else
constexpr uint16_t kMachine = EM_AARCH64;
constexpr uint32_t kRelative = R_AARCH64_RELATIVE;
#endif

constexpr size_t kLargest = size_t{1} << 30;

template <typename T>
T read(Bytes file, size_t place) {
  require(place <= file.size && sizeof(T) <= file.size - place, "the machine code is cut off");
  T value;
  std::memcpy(&value, file.data + place, sizeof(T));
  return value;
}

}  // namespace

ElfImage::ElfImage(Bytes file) {
  try {
    load(file);
  } catch (...) {
    if (base_) munmap(base_, size_);
    throw;
  }
}

ElfImage::~ElfImage() { munmap(base_, size_); }

template <typename T>
T ElfImage::at(size_t place) const {
  require(place <= size_ && sizeof(T) <= size_ - place, "the machine code leads outside of it");
  T value;
  std::memcpy(&value, base_ + place, sizeof(T));
  return value;
}

bool ElfImage::holds(const void* place, size_t size) const {
  auto low = reinterpret_cast<uintptr_t>(place), base = reinterpret_cast<uintptr_t>(base_);
  return low >= base && low - base <= size_ && size <= size_ - (low - base);
}

void ElfImage::load(Bytes file) {
  auto header = read<Elf64_Ehdr>(file, 0);
  require(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0,
          "the machine code is of no known form");
  require(header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
              header.e_type == ET_DYN && header.e_phentsize == sizeof(Elf64_Phdr),
          "the machine code is of no known form");
  require(header.e_machine == kMachine, "the machine code is for another processor");

  std::vector<Elf64_Phdr> parts;
  Elf64_Phdr dynamic{};
  for (size_t i = 0; i < header.e_phnum; ++i) {
    auto part = read<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (part.p_type == PT_DYNAMIC) dynamic = part;
    require(part.p_type != PT_TLS && part.p_type != PT_INTERP, "the machine code needs the system");
    if (part.p_type != PT_LOAD) continue;
    require(part.p_memsz <= kLargest && part.p_vaddr <= kLargest - part.p_memsz &&
                part.p_filesz <= part.p_memsz && part.p_offset <= file.size &&
                part.p_filesz <= file.size - part.p_offset,
            "the machine code is cut off");
    require(!((part.p_flags & PF_W) && (part.p_flags & PF_X)),
            "the machine code could be written to");
    parts.push_back(part);
    size_ = std::max(size_, static_cast<size_t>(part.p_vaddr + part.p_memsz));
  }
  require(!parts.empty() && dynamic.p_type == PT_DYNAMIC, "the machine code is of no known form");

  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_ = (size_ + page - 1) & ~(page - 1);
  void* place = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<uint8_t*>(place);
  std::vector<int> rights(size_ / page, 0);
  for (const Elf64_Phdr& part : parts) {
    std::memcpy(base_ + part.p_vaddr, file.data + part.p_offset, part.p_filesz);
    if (!part.p_memsz) continue;
    int right =
        PROT_READ | (part.p_flags & PF_W ? PROT_WRITE : 0) | (part.p_flags & PF_X ? PROT_EXEC : 0);
    for (size_t p = part.p_vaddr / page; p <= (part.p_vaddr + part.p_memsz - 1) / page; ++p) {
      rights[p] |= right;
    }
  }

  size_t relocations = 0, relocations_size = 0, hash = 0;
  for (size_t i = dynamic.p_vaddr;; i += sizeof(Elf64_Dyn)) {
    auto entry = at<Elf64_Dyn>(i);
    if (entry.d_tag == DT_NULL) break;
    size_t value = entry.d_un.d_val;
    switch (entry.d_tag) {
      case DT_RELA:
        relocations = value;
        break;
      case DT_RELASZ:
        relocations_size = value;
        break;
      case DT_RELAENT:
        require(value == sizeof(Elf64_Rela), "a relocation is of no known form");
        break;
      case DT_SYMTAB:
        symbols_ = value;
        break;
      case DT_STRTAB:
        names_ = value;
        break;
      case DT_STRSZ:
        names_size_ = value;
        break;
      case DT_HASH:
        hash = value;
        break;
      case DT_SYMENT:
        require(value == sizeof(Elf64_Sym), "a symbol is of no known form");
        break;
      case DT_RELACOUNT:
      case DT_FLAGS:
      case DT_FLAGS_1:
      case DT_SONAME:
        break;
      default:
        throw Refusal("the machine code needs the system");
    }
  }
  require(hash && symbols_ && names_, "the machine code has no symbols");
  symbol_count_ = at<uint32_t>(hash + 4);
  require(symbol_count_ <= size_ / sizeof(Elf64_Sym) && names_ <= size_ &&
              names_size_ <= size_ - names_,
          "the machine code leads outside of it");
  relocate(relocations, relocations_size);
  query_ = find_symbol(kLibraryQuery);
  require(query_ && query_ < size_ && (rights[query_ / page] & PROT_EXEC),
          "the machine code has no entry");
  for (size_t p = 0, end = 0; p < rights.size(); p = end) {
    require((rights[p] & (PROT_WRITE | PROT_EXEC)) != (PROT_WRITE | PROT_EXEC),
            "the machine code could be written to");
    for (end = p + 1; end < rights.size() && rights[end] == rights[p];) ++end;
    if (rights[p] == (PROT_READ | PROT_WRITE)) continue;  // as it was mapped
    if (mprotect(base_ + p * page, (end - p) * page, rights[p]) != 0) {
      throw Refusal("the system does not let machine code be loaded");
    }
  }
}

void ElfImage::relocate(size_t table, size_t size) {
  require(size % sizeof(Elf64_Rela) == 0 && table <= size_ && size <= size_ - table,
          "the machine code leads outside of it");
  for (size_t i = 0; i < size; i += sizeof(Elf64_Rela)) {
    auto entry = at<Elf64_Rela>(table + i);
    require(ELF64_R_TYPE(entry.r_info) == kRelative, "a relocation is of no known form");
    require(entry.r_offset <= size_ - sizeof(uint64_t), "the machine code leads outside of it");
    uint64_t value = reinterpret_cast<uintptr_t>(base_) + static_cast<uint64_t>(entry.r_addend);
    std::memcpy(base_ + entry.r_offset, &value, sizeof(value));
  }
}

size_t ElfImage::find_symbol(const char* name) const {
  size_t length = std::strlen(name) + 1;
  size_t found = 0;
  for (size_t i = 1; i < symbol_count_; ++i) {
    auto symbol = at<Elf64_Sym>(symbols_ + i * sizeof(Elf64_Sym));
    require(symbol.st_shndx != SHN_UNDEF, "the machine code needs the system");
    if (symbol.st_name <= names_size_ && length <= names_size_ - symbol.st_name &&
        std::memcmp(base_ + names_ + symbol.st_name, name, length) == 0) {
      found = symbol.st_value;
    }
  }
  return found;
}

void ElfImage::open() {
  static const KernelEnvironment environment;
  using Query = const Library* const* (*)(uint32_t, const KernelEnvironment*);
  auto query = reinterpret_cast<Query>(base_ + query_);
  auto* header =
      reinterpret_cast<const LibraryHeader* const*>(query(kLibraryVersion, &environment));
  require(header && holds(header, sizeof(Library)), "its kernels are of a version not known");
  require(holds(*header, sizeof(LibraryHeader)) && (*header)->version == kLibraryVersion,
          "its kernels are of a version not known");
  require((*header)->features == 0 && (*header)->sanitizer == 0, "its kernels need something");
  auto* library = reinterpret_cast<const Library*>(header);
  require(library->import_count == 0 && library->constant_count == 0, "its kernels need something");
  size_t count = library->kernel_count;
  require(count <= size_ / sizeof(KernelAttributes) &&
              holds(library->kernels, count * sizeof(Kernel)) &&
              holds(library->attributes, count * sizeof(KernelAttributes)) &&
              holds(library->names, count * sizeof(char*)),
          "its kernels are not listed");
  for (size_t i = 0; i < count; ++i) {
    require(
        holds(reinterpret_cast<const void*>(library->kernels[i]), 1) && holds(library->names[i], 1),
        "its kernels are not listed");
    const KernelAttributes& attributes = library->attributes[i];
    require(attributes.local_memory_pages == 0 && attributes.flags == 0 && attributes.reserved == 0,
            "a kernel needs something");
  }
  library_ = library;
}

int64_t ElfImage::find(std::string_view name) const {
  for (size_t i = 0; i < kernel_count(); ++i) {
    const char* found = library_->names[i];
    size_t room = size_ - static_cast<size_t>(reinterpret_cast<const uint8_t*>(found) - base_);
    if (name.size() < room && std::memcmp(found, name.data(), name.size()) == 0 &&
        found[name.size()] == '\0') {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

#else  // Other systems are not tried.

ElfImage::ElfImage(Bytes) { throw Refusal("machine code is not loaded on this system"); }
ElfImage::~ElfImage() = default;
void ElfImage::open() {}
int64_t ElfImage::find(std::string_view) const { return -1; }

#endif

}  // namespace xpr
