// Operations on arrays of several devices, whose like was done before, from the primitive to its
// reference rule and back.
//
// The first time, Python partitions the operation (xpr/dispatch/spmd_eager.py). Where each device
// then does one operation on its own parts, and nothing else, it tells so to
// `learn_apply_on_devices`; later ones call the reference rule for each device directly.
#include <nanobind/stl/vector.h>

#include <vector>

#include "applications.h"
#include "call_key.h"

namespace xpr {

namespace nb = nanobind;

namespace {

// An operand: an array of several devices, or a scalar that is the same on each.
struct SpreadOperand {
  std::uintptr_t type = 0;    // of the whole: its aval, or an odd number for a scalar
  PyRef sharding;             // the one that stands for equal ones
  PyObject* parts = nullptr;  // a tuple of buffers
  HostOperand scalar;
  PyRef made;  // an array of the scalar
};

struct SpreadOperands {
  SpreadOperand of[kMostOperands];
  Py_ssize_t count = 0;
  Py_ssize_t devices = 0;
};

// What belongs to one operation. Its addresses stay those of the same objects: it holds them.
struct SpreadApplication {
  PyRef primitive, settings, parameters;
  std::uintptr_t types[kMostOperands] = {};
  PyRef avals[kMostOperands], shardings[kMostOperands];
  Py_ssize_t operands = 0;
  PyRef reference, names, values;     // of each device, as its parameters are
  PyRef aval, sharding, dtype;        // of the result
  std::vector<std::uint32_t> source;  // for each device the one that computes its part
};
std::vector<SpreadApplication>* applications = nullptr;

bool read_spread(PyObject* array, SpreadOperand& operand) {
  PyObject* sharding = slot(array, classes.sharding);
  PyObject* parts = slot(array, classes.buffers);
  if (slot(array, classes.deleted) != Py_False || is_none(sharding) || is_none(parts)) return false;
  if (!PyTuple_CheckExact(parts) || !is_committed(array)) return false;
  operand.type = reinterpret_cast<std::uintptr_t>(aval_of(array));
  operand.sharding = PyRef::borrow(known_sharding(sharding));
  operand.parts = parts;
  return static_cast<bool>(operand.sharding);
}

// Has the shardings of all arrays known, which may run Python code; false where that fails.
bool learn_shardings(PyObject* arguments) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(arguments); ++i) {
    PyObject* argument = PyTuple_GetItem(arguments, i);
    if (!is_sharded_array(argument)) continue;
    PyRef sharding = PyRef::borrow(slot(argument, classes.sharding));
    if (known_sharding(sharding.get()) != nullptr || learn_sharding(sharding)) continue;
    PyErr_Clear();  // one without a hash: the Python path says so
    return false;
  }
  return true;
}

bool read_operands(PyObject* arguments, SpreadOperands& operands) {
  operands.count = PyTuple_Size(arguments);
  if (operands.count > kMostOperands) return false;
  for (Py_ssize_t i = 0; i < operands.count; ++i) {
    PyObject* argument = PyTuple_GetItem(arguments, i);
    SpreadOperand& operand = operands.of[i];
    if (!is_sharded_array(argument)) {
      if (!read_scalar(argument, operand.scalar, operand.made)) return false;
      operand.type = operand.scalar.type;
      continue;
    }
    if (!read_spread(argument, operand)) return false;
    Py_ssize_t devices = PyTuple_Size(operand.parts);
    if (operands.devices != 0 && devices != operands.devices) return false;
    operands.devices = devices;
  }
  return operands.devices != 0;
}

bool find_place(PyObject* primitive, PyObject* settings, const SpreadOperands& operands,
                PyObject* parameters, std::size_t& place) {
  std::uintptr_t mixed = mix(mix(0, primitive), settings);
  for (Py_ssize_t i = 0; i < operands.count; ++i) {
    mixed = mix(mix(mixed, operands.of[i].type), operands.of[i].sharding.get());
  }
  if (!mix_parameters(mixed, parameters)) return false;
  place = application_place(mixed);
  return true;
}

bool is_for(const SpreadApplication& found, PyObject* primitive, PyObject* settings,
            const SpreadOperands& operands) {
  if (found.primitive.get() != primitive || found.settings.get() != settings ||
      found.operands != operands.count ||
      static_cast<Py_ssize_t>(found.source.size()) != operands.devices) {
    return false;
  }
  for (Py_ssize_t i = 0; i < operands.count; ++i) {
    const SpreadOperand& operand = operands.of[i];
    if (found.types[i] != operand.type || found.shardings[i].get() != operand.sharding.get()) {
      return false;
    }
  }
  return true;
}

// The NumPy array of a buffer; none, without an exception, for one that is elsewhere or deleted.
PyRef host_of(PyObject* buffer) {
  if (Py_TYPE(buffer) != classes.buffer) return {};
  PyRef host = PyRef::borrow(slot(buffer, classes.host));
  if (!is_none(host.get())) return host;
  PyRef held = PyRef::borrow(buffer);
  host = PyRef::steal(call_python(
      [&] { return PyObject_CallMethodObjArgs(buffer, eager_state.host_view_name, nullptr); }));
  if (!host) PyErr_Clear();  // deleted: the Python path says so
  return host;
}

using Hosts = std::vector<PyRef>;  // for each device those of the operands

bool read_hosts(const SpreadOperands& operands, Hosts& hosts) {
  for (Py_ssize_t d = 0; d < operands.devices; ++d) {
    for (Py_ssize_t i = 0; i < operands.count; ++i) {
      const SpreadOperand& operand = operands.of[i];
      PyRef host =
          operand.parts == nullptr ? operand.made : host_of(PyTuple_GetItem(operand.parts, d));
      if (!host || !is_numpy_array(host.get())) return false;
      hosts.push_back(std::move(host));
    }
  }
  return true;
}

// Whether the memory of a result is its own.
bool is_own(PyObject* result, const PyRef* hosts, Py_ssize_t count) {
  if (PyArray_BASE(reinterpret_cast<PyArrayObject*>(result)) != nullptr) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (hosts[i].get() == result) return false;
  }
  return true;
}

// One device's part of the result; null with an exception set.
PyRef compute(const SpreadApplication& found, const PyRef* hosts, Py_ssize_t count) {
  PyObject* words[kMostOperands + kMostParameters];
  for (Py_ssize_t i = 0; i < count; ++i) words[i] = hosts[i].get();
  for (Py_ssize_t i = 0; i < PyTuple_Size(found.values.get()); ++i) {
    words[count + i] = PyTuple_GetItem(found.values.get(), i);
  }
  PyRef result = PyRef::steal(call_python([&] {
    return PyObject_Vectorcall(found.reference.get(), words, static_cast<std::size_t>(count),
                               found.names.get());
  }));
  if (!result) return {};
  result = as_host(std::move(result), found.dtype.get());
  if (result && !is_own(result.get(), hosts, count)) {
    result = PyRef::steal(
        PyArray_NewCopy(reinterpret_cast<PyArrayObject*>(result.get()), NPY_KEEPORDER));
  }
  if (result) freeze(result.get());
  return result;
}

}  // namespace

bool has_sharded(PyObject* arguments) {
  if (!PyTuple_CheckExact(arguments)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(arguments); ++i) {
    if (is_sharded_array(PyTuple_GetItem(arguments, i))) return true;
  }
  return false;
}

PyObject* apply_on_devices(PyObject* primitive, PyObject* settings, PyObject* arguments,
                           PyObject* parameters) {
  SpreadOperands operands;
  std::size_t place = 0;
  if (applications == nullptr || !learn_shardings(arguments) ||
      !read_operands(arguments, operands) ||
      !find_place(primitive, settings, operands, parameters, place)) {
    return nullptr;
  }
  if (!is_for((*applications)[place], primitive, settings, operands)) return nullptr;
  // What follows runs Python code, which may change the table.
  SpreadApplication found = (*applications)[place];
  if (!same_parameters(found.parameters.get(), parameters)) return nullptr;
  Hosts hosts;
  if (!read_hosts(operands, hosts)) return nullptr;
  PyObject* some = nullptr;  // an operand's parts, which say on which devices the result's are
  for (Py_ssize_t i = 0; i < operands.count; ++i) {
    if (operands.of[i].parts != nullptr) some = operands.of[i].parts;
  }
  Quiet quiet;
  PyRef parts = PyRef::steal(PyTuple_New(operands.devices));
  if (!quiet.is_set() || !parts) return nullptr;
  for (Py_ssize_t d = 0; d < operands.devices; ++d) {
    auto from = static_cast<Py_ssize_t>(found.source[static_cast<std::size_t>(d)]);
    PyRef host = from == d ? compute(found, &hosts[static_cast<std::size_t>(d * operands.count)],
                                     operands.count)
                           : PyRef::borrow(slot(PyTuple_GetItem(parts.get(), from), classes.host));
    if (!host) return nullptr;
    PyObject* buffer = make_host_buffer(host.get(), device_of(PyTuple_GetItem(some, d)));
    if (buffer == nullptr) return nullptr;
    PyTuple_SetItem(parts.get(), d, buffer);
  }
  return make_sharded_array(found.aval.get(), parts.release(), found.sharding.get());
}

namespace {

// `rule` and `local` are the reference rule and the parameters of what each device does with its
// parts of the operands; `source` says for each device which one computes its part.
void learn_apply_on_devices(nb::handle primitive, nb::handle rule, nb::tuple arguments,
                            nb::dict parameters, nb::dict local, nb::handle result,
                            std::vector<std::uint32_t> source) {
  SpreadOperands operands;
  PyRef settings = eager_settings();
  std::size_t place = 0;
  if (!settings || PyDict_Size(local.ptr()) > kMostParameters || !is_sharded_array(result.ptr())) {
    return;
  }
  if (!learn_shardings(arguments.ptr()) || !read_operands(arguments.ptr(), operands) ||
      static_cast<Py_ssize_t>(source.size()) != operands.devices ||
      !find_place(primitive.ptr(), settings.get(), operands, parameters.ptr(), place)) {
    return;
  }
  for (std::size_t d = 0; d < source.size(); ++d) {
    if (source[d] > d || source[source[d]] != source[d]) throw nb::value_error("no such device");
  }
  SpreadApplication made;
  made.primitive = PyRef::borrow(primitive.ptr());
  made.settings = std::move(settings);
  made.parameters = PyRef::borrow(parameters.ptr());
  made.operands = operands.count;
  for (Py_ssize_t i = 0; i < operands.count; ++i) {
    made.types[i] = operands.of[i].type;
    if (operands.of[i].parts == nullptr) continue;  // a scalar, whose class stays
    made.avals[i] = PyRef::borrow(aval_of(PyTuple_GetItem(arguments.ptr(), i)));
    made.shardings[i] = operands.of[i].sharding;
  }
  made.reference = PyRef::borrow(rule.ptr());
  made.names = PyRef::borrow(nb::tuple(local.keys()).ptr());
  made.values = PyRef::borrow(nb::tuple(local.values()).ptr());
  made.aval = PyRef::borrow(aval_of(result.ptr()));
  made.sharding = PyRef::borrow(slot(result.ptr(), classes.sharding));
  made.dtype = PyRef::borrow(nb::object(nb::handle(made.aval.get()).attr("dtype")).ptr());
  made.source = std::move(source);
  if (applications == nullptr) applications = new std::vector<SpreadApplication>(kApplications);
  std::swap((*applications)[place], made);
}

}  // namespace

void bind_apply_on_devices(nb::module_& module) {
  module.def("learn_apply_on_devices", &learn_apply_on_devices,
             "Takes note of an operation on arrays of several devices that Python did: what it is, "
             "its operands, what each device did, its result, and who computed each part.");
}

}  // namespace xpr
