// What operations that are like earlier ones have in common, on one device and on several.
#pragma once

#include "eager_state.h"

namespace xpr {

inline constexpr Py_ssize_t kMostOperands = 4;
inline constexpr Py_ssize_t kMostParameters = 12;

// The operations that were done lately: one takes the place of another where their keys collide.
inline constexpr std::size_t kApplications = 1024;
inline std::size_t application_place(std::uintptr_t mixed) { return mixed >> 54; }

inline std::uintptr_t mix(std::uintptr_t mixed, std::uintptr_t word) {
  return (mixed ^ word) * 0x9E3779B97F4A7C15u;
}
inline std::uintptr_t mix(std::uintptr_t mixed, const PyObject* object) {
  return mix(mixed, reinterpret_cast<std::uintptr_t>(object));
}

// Mixes the values of parameters into a hash; false where one has none.
bool mix_parameters(std::uintptr_t& mixed, PyObject* parameters);

// Whether two dictionaries have the same names in the same order, and equal values of equal types.
bool same_parameters(PyObject* one, PyObject* other);

// A scalar of NumPy's whose type does not depend on settings, as those of 64 bits do. `made` holds
// an array of it. The number of its class is made odd, so that it is no aval's.
bool read_scalar(PyObject* scalar, HostOperand& operand, PyRef& made);

// Has NumPy say nothing of overflows and the like, as `numpy.errstate` does.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  bool is_set() const { return static_cast<bool>(before_); }  // if not, an exception is set

  static void by(PyObject* set, PyObject* value, PyObject* reset);

 private:
  PyRef before_;
};

// `result` as a NumPy array of that dtype; null with an exception set.
PyRef as_host(PyRef result, PyObject* dtype);

// Nobody may write to an array any more, nor to what it is a view of.
void freeze(PyObject* array);

// The same for operations on arrays of several devices: a new reference to the result; null where
// Python has to do it, without an exception, or with one.
PyObject* apply_on_devices(PyObject* primitive, PyObject* settings, PyObject* arguments,
                           PyObject* parameters);

// Whether one of the arguments is an array of several devices.
bool has_sharded(PyObject* arguments);

void bind_apply_on_devices(nanobind::module_& module);

}  // namespace xpr
