// What operations outside of programs depend on, and what they have in common.
#pragma once

#include "arrays.h"
#include "numpy_arrays.h"
#include "operator_plans.h"

namespace xpr {

// What `learn_operators` was told; held for as long as the process lives.
struct EagerState {
  PyObject* base = nullptr;  // the class `Array`; null until then
  PyObject* context = nullptr;
  PyObject* eager = nullptr;
  PyObject* settings = nullptr;
  PyObject* is_plain = nullptr;  // whether the settings leave results alone
  PyObject* default_device = nullptr;
  PyObject* trace_name = nullptr;
  PyObject* trace_key_name = nullptr;
  PyObject* host_view_name = nullptr;
};
inline EagerState eager_state;

// A new reference to the key of the settings outside of all transformations, or null.
PyRef eager_settings();

// An array that lies in the host's memory.
struct HostOperand {
  PyObject* object = nullptr;
  std::uintptr_t type = 0;  // for keys
  PyArrayObject* host = nullptr;
  PyObject* device = nullptr;
  bool committed = false;
};

// Reads an array, for which `is_array` holds; false for one that is elsewhere or deleted.
bool read_array(PyObject* array, HostOperand& operand);

// Fills in what does not depend on the operation; false with an exception set.
bool begin_plan(PyObject* result, Plan& plan);

// A new array over a NumPy array, whose reference it takes.
PyObject* finish(PyObject* aval, PyObject* host, PyObject* device, bool committed);

}  // namespace xpr
