// What operations on arrays of given types come down to.
#pragma once

#include <array>
#include <cstdint>

#include "numpy_arrays.h"
#include "python_objects.h"

namespace xpr {

// The operation, its operands' types and the settings. Operands are avals, or odd numbers that
// stand for something else; addresses are even.
struct PlanKey {
  std::uintptr_t operation = 0;
  std::uintptr_t first = 0;
  std::uintptr_t second = 0;
  PyObject* settings = nullptr;

  bool operator==(const PlanKey& other) const = default;
};

// A loop of NumPy's and the type of its result.
struct Plan {
  PyRef aval;  // none: only Python code knows what to do
  PyRef dtype;
  PyRef device;  // that of uncommitted work
  PyUFuncGenericFunction loop = nullptr;
  void* loop_data = nullptr;
};

// The plans that were used lately. One takes the place of another where their keys collide, so the
// table never grows.
class PlanTable {
 public:
  // The plan, or null when there is none yet.
  const Plan* find(const PlanKey& key) const {
    const Line& line = lines_[place(key)];
    return line.key == key ? &line.plan : nullptr;
  }
  void add(const PlanKey& key, Plan plan) {
    Line line{key, std::move(plan), PyRef(), PyRef(), PyRef::borrow(key.settings)};
    // The addresses in the key must not come to mean something else.
    if (key.first % 2 == 0) line.first = PyRef::borrow(reinterpret_cast<PyObject*>(key.first));
    if (key.second % 2 == 0) line.second = PyRef::borrow(reinterpret_cast<PyObject*>(key.second));
    std::swap(lines_[place(key)], line);
  }

 private:
  static constexpr std::size_t kLines = 1024;
  struct Line {
    PlanKey key;
    Plan plan;
    PyRef first, second, settings;
  };
  static std::size_t place(const PlanKey& key) {
    auto hash = key.operation * 0x9E3779B97F4A7C15u;
    hash = (hash ^ key.first) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ key.second) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ reinterpret_cast<std::uintptr_t>(key.settings)) * 0x9E3779B97F4A7C15u;
    return hash >> 54;
  }
  std::array<Line, kLines> lines_;
};

}  // namespace xpr
