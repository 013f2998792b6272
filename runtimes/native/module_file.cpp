// The layout is that of IREE's bytecode_module_def.fbs: a FlatBuffer, perhaps as the first file of
// a ZIP archive. A FlatBuffer's table begins with the distance back to a list that says where in
// the table each field lies; vectors, strings and tables inside of it are distances forward.
#include "module_file.h"

#include <cstring>

#include "refusal.h"

namespace xpr {
namespace {

constexpr uint32_t kVersion = 17u << 16;
constexpr size_t kFunctionSize = 20;

enum ModuleField {
  kImports = 6,
  kExports = 7,
  kSignatures = 8,
  kConstants = 9,
  kState = 11,
  kFunctions = 12,
  kByteCodeVersion = 13,
  kByteCode = 14,
};

class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}

  template <typename T>
  T at(size_t place) const {
    require(place <= bytes_.size && sizeof(T) <= bytes_.size - place, "it is cut off");
    T value;
    std::memcpy(&value, bytes_.data + place, sizeof(T));
    return value;
  }

  Bytes part(size_t place, size_t size) const {
    require(place <= bytes_.size && size <= bytes_.size - place, "it is cut off");
    return {bytes_.data + place, size};
  }

  // Where the distance at `place` leads.
  size_t follow(size_t place) const { return place + at<uint32_t>(place); }

 private:
  Bytes bytes_;
};

// One table of the FlatBuffer.
class Table {
 public:
  Table(const Reader& reader, size_t place) : reader_(reader), place_(place) {
    int64_t fields = static_cast<int64_t>(place) - reader.at<int32_t>(place);
    require(fields >= 0, "a table has no fields");
    fields_ = static_cast<size_t>(fields);
    count_ = reader.at<uint16_t>(fields_);
    require(count_ >= 4, "a table has no fields");
    count_ = (count_ - 4) / 2;
  }

  // Where the field lies, or 0 when it is left out.
  size_t field(size_t index) const {
    if (index >= count_) return 0;
    size_t distance = reader_.at<uint16_t>(fields_ + 4 + 2 * index);
    return distance ? place_ + distance : 0;
  }

  template <typename T>
  T scalar(size_t index) const {
    size_t place = field(index);
    return place ? reader_.at<T>(place) : T{};
  }

  // The elements of a vector of things that take `size` bytes each.
  struct Vector {
    size_t start = 0;
    size_t count = 0;
  };
  Vector vector(size_t index, size_t size) const {
    size_t place = field(index);
    if (!place) return {};
    place = reader_.follow(place);
    size_t count = reader_.at<uint32_t>(place);
    reader_.part(place + 4, count * size);
    return {place + 4, count};
  }

  Bytes bytes(size_t index) const {
    Vector found = vector(index, 1);
    return reader_.part(found.start, found.count);
  }
  std::string text(size_t index) const { return std::string(bytes(index).text()); }

  Table table(size_t index) const {
    size_t place = field(index);
    require(place != 0, "a table is missing");
    return {reader_, reader_.follow(place)};
  }

  std::vector<Table> tables(size_t index) const {
    Vector found = vector(index, 4);
    std::vector<Table> all;
    all.reserve(found.count);
    for (size_t i = 0; i < found.count; ++i) {
      all.emplace_back(reader_, reader_.follow(found.start + 4 * i));
    }
    return all;
  }

 private:
  Reader reader_;
  size_t place_;
  size_t fields_;
  size_t count_;
};

// Where the FlatBuffer begins: behind the header of a ZIP archive's first file, if there is one.
size_t flat_buffer_start(const Reader& file) {
  if (std::memcmp(file.part(0, 4).data, "PK\x03\x04", 4) != 0) return 0;
  require(file.at<uint16_t>(8) == 0, "it is compressed");
  return size_t{30} + file.at<uint16_t>(26) + file.at<uint16_t>(28);
}

void read_functions(const Reader& data, const Table& root, ModuleFile& module) {
  Bytes code = root.bytes(kByteCode);
  Table::Vector functions = root.vector(kFunctions, kFunctionSize);
  std::vector<Table> signatures = root.tables(kSignatures);
  require(signatures.size() == functions.count, "signatures are missing");
  for (size_t i = 0; i < functions.count; ++i) {
    size_t place = functions.start + i * kFunctionSize;
    auto start = data.at<uint32_t>(place);
    auto length = data.at<uint32_t>(place + 4);
    ByteCodeFunction function;
    function.code = Reader(code).part(start, length);
    function.blocks = data.at<uint16_t>(place + 14);
    function.integer_registers = data.at<uint16_t>(place + 16);
    function.reference_registers = data.at<uint16_t>(place + 18);
    require(function.integer_registers <= 0x4000 && function.reference_registers <= 0x4000,
            "it uses too many registers");
    function.calling = signatures[i].text(0);
    module.functions.push_back(std::move(function));
  }
}

}  // namespace

ModuleFile ModuleFile::read(Bytes file) {
  Reader whole(file);
  size_t start = flat_buffer_start(whole);
  auto size = whole.at<uint32_t>(start);
  Reader data(whole.part(start + 4, size));
  require(std::memcmp(data.part(4, 4).data, "IREE", 4) == 0, "it is no module of IREE's");
  Table root(data, data.follow(0));
  require(root.scalar<uint32_t>(kByteCodeVersion) == kVersion, "its version is not known");

  ModuleFile module;
  for (const Table& import : root.tables(kImports)) {
    module.imports.push_back({import.text(0), import.table(1).text(0)});
  }
  for (const Table& exported : root.tables(kExports)) {
    module.exports.push_back({exported.text(0), exported.scalar<uint32_t>(1)});
  }
  // What is too large to lie inside follows the FlatBuffer.
  size_t outside = start + ((size_t{4} + size + 63) & ~size_t{63});
  for (const Table& constant : root.tables(kConstants)) {
    if (constant.field(2)) {
      module.constants.push_back(constant.bytes(2));
    } else {
      auto offset = constant.scalar<uint64_t>(3);
      auto length = constant.scalar<uint64_t>(4);
      require(offset <= file.size && outside <= file.size, "it is cut off");
      module.constants.push_back(whole.part(outside + offset, length));
    }
  }
  if (root.field(kState)) {
    Table state = root.table(kState);
    module.global_bytes = state.scalar<uint32_t>(0);
    module.global_references = state.scalar<uint32_t>(1);
    require(module.global_bytes <= (1u << 20) && module.global_references <= (1u << 20),
            "it has too many variables");
  }
  read_functions(data, root, module);
  for (const ExportedFunction& exported : module.exports) {
    require(exported.ordinal < module.functions.size(), "an exported function is missing");
  }
  return module;
}

}  // namespace xpr
