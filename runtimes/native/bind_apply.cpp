// `apply_again`: an operation whose like was done before, from the primitive to its reference rule
// and back.
//
// The first time, Python checks the operands, finds the type of the result and tells it to
// `learn_apply`. Operations of the same primitive, on arrays of the same types in the host's memory
// and with the same parameters, then call the reference rule directly.
#include "bind_apply.h"

#include <vector>

#include "eager_state.h"

namespace xpr {

namespace nb = nanobind;

namespace {

constexpr Py_ssize_t kMostOperands = 4;
constexpr Py_ssize_t kMostParameters = 12;

// What belongs to one operation. Its addresses stay those of the same objects: it holds them.
struct Application {
  PyRef primitive, settings, parameters;
  std::uintptr_t types[kMostOperands] = {};
  PyRef avals[kMostOperands];
  Py_ssize_t operands = 0;
  Plan plan;
  PyRef reference;
  PyRef names;  // of the parameters
};

struct Operands {
  HostOperand of[kMostOperands];
  PyRef made[kMostOperands];  // of NumPy's scalars
  Py_ssize_t count = 0;
  PyObject* device = nullptr;
  bool committed = false;
};

// The operations that were done lately: one takes the place of another where their keys collide.
constexpr std::size_t kLines = 1024;
std::vector<Application>* applications = nullptr;

// Has NumPy say nothing of overflows and the like, as `numpy.errstate` does.
PyObject* set_quiet = nullptr;
PyObject* quiet = nullptr;
PyObject* reset_quiet = nullptr;

// A scalar of NumPy's whose type does not depend on settings, as those of 64 bits do. The number of
// its class is made odd, so that it is no aval's.
bool read_scalar(PyObject* scalar, HostOperand& operand, PyRef& made) {
  if (!PyArray_IsScalar(scalar, Float32) && !PyArray_IsScalar(scalar, Int32)) return false;
  made = PyRef::steal(PyArray_FromScalar(scalar, nullptr));
  if (!made) {
    PyErr_Clear();
    return false;
  }
  operand.type = reinterpret_cast<std::uintptr_t>(Py_TYPE(scalar)) | 1;
  operand.host = reinterpret_cast<PyArrayObject*>(made.get());
  return true;
}

// False where an operand is neither an array of one device in the host's memory nor a scalar.
bool read_operands(PyObject* arguments, Operands& operands) {
  if (!PyTuple_CheckExact(arguments)) return false;
  operands.count = PyTuple_Size(arguments);
  if (operands.count == 0 || operands.count > kMostOperands) return false;
  for (Py_ssize_t i = 0; i < operands.count; ++i) {
    PyObject* argument = PyTuple_GetItem(arguments, i);
    HostOperand& operand = operands.of[i];
    if (!is_array(argument)) {
      if (!read_scalar(argument, operand, operands.made[i])) return false;
      continue;
    }
    if (!read_array(argument, operand)) return false;
    if (operands.device != nullptr && operand.device != operands.device) return false;
    operands.device = operand.device;
    operands.committed |= operand.committed;
  }
  return operands.device != nullptr;
}

// The place of an operation in the table; false for parameters that cannot be hashed.
bool find_place(PyObject* primitive, PyObject* settings, const Operands& operands,
                PyObject* parameters, std::size_t& place) {
  constexpr std::uintptr_t kFactor = 0x9E3779B97F4A7C15u;
  auto mixed = reinterpret_cast<std::uintptr_t>(primitive) * kFactor;
  mixed = (mixed ^ reinterpret_cast<std::uintptr_t>(settings)) * kFactor;
  for (Py_ssize_t i = 0; i < operands.count; ++i) mixed = (mixed ^ operands.of[i].type) * kFactor;
  Py_ssize_t position = 0;
  PyObject *name = nullptr, *value = nullptr;
  while (PyDict_Next(parameters, &position, &name, &value)) {
    Py_hash_t hash = PyObject_Hash(value);
    if (hash == -1) {
      PyErr_Clear();
      return false;
    }
    mixed = (mixed ^ static_cast<std::uintptr_t>(hash)) * kFactor;
  }
  place = mixed >> 54;
  return true;
}

// Whether two dictionaries have the same names in the same order, and equal values of equal types.
bool same_parameters(PyObject* one, PyObject* other) {
  if (PyDict_Size(one) != PyDict_Size(other)) return false;
  Py_ssize_t here = 0, there = 0;
  PyObject *name = nullptr, *value = nullptr, *other_name = nullptr, *other_value = nullptr;
  while (PyDict_Next(one, &here, &name, &value)) {
    if (!PyDict_Next(other, &there, &other_name, &other_value) || name != other_name) return false;
    if (value == other_value) continue;
    if (Py_TYPE(value) != Py_TYPE(other_value)) return false;
    int equal = PyObject_RichCompareBool(value, other_value, Py_EQ);
    if (equal < 0) PyErr_Clear();
    if (equal != 1) return false;
  }
  return true;
}

bool is_for(const Application& application, PyObject* primitive, PyObject* settings,
            const Operands& operands) {
  if (application.primitive.get() != primitive || application.settings.get() != settings ||
      application.operands != operands.count) {
    return false;
  }
  for (Py_ssize_t i = 0; i < operands.count; ++i) {
    if (application.types[i] != operands.of[i].type) return false;
  }
  return true;
}

// Nobody may write to an array any more, nor to what it is a view of.
void freeze(PyObject* array) {
  while (array != nullptr && PyArray_Check(array)) {
    auto* host = reinterpret_cast<PyArrayObject*>(array);
    PyArray_CLEARFLAGS(host, NPY_ARRAY_WRITEABLE);
    array = PyArray_BASE(host);
  }
}

PyRef call_reference(const PyRef& reference, const PyRef& names, const Operands& operands,
                     PyObject* parameters) {
  PyRef hosts[kMostOperands];  // an operand may be given away meanwhile
  PyObject* words[kMostOperands + kMostParameters];
  Py_ssize_t count = 0;
  for (; count < operands.count; ++count) {
    words[count] = reinterpret_cast<PyObject*>(operands.of[count].host);
    hosts[count] = PyRef::borrow(words[count]);
  }
  Py_ssize_t position = 0;
  PyObject *name = nullptr, *value = nullptr;
  while (PyDict_Next(parameters, &position, &name, &value)) words[count++] = value;
  PyRef before = PyRef::steal(call_with(set_quiet, quiet));
  if (!before) return {};
  PyRef result = PyRef::steal(PyObject_Vectorcall(
      reference.get(), words, static_cast<std::size_t>(operands.count), names.get()));
  if (result) {
    PyRef done = PyRef::steal(call_with(reset_quiet, before.get()));
    return done ? result : PyRef();
  }
  PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &error, &trace);
  PyRef done = PyRef::steal(call_with(reset_quiet, before.get()));
  if (!done) PyErr_Clear();
  PyErr_Restore(type, error, trace);
  return {};
}

// The result, or None where Python has to do it.
nb::object apply_again(nb::handle primitive, nb::handle arguments, nb::handle parameters) {
  Operands operands;
  PyRef settings = eager_settings();
  std::size_t place = 0;
  if (!settings || applications == nullptr || !read_operands(arguments.ptr(), operands) ||
      !find_place(primitive.ptr(), settings.get(), operands, parameters.ptr(), place)) {
    return nb::none();
  }
  const Application& found = (*applications)[place];
  if (!is_for(found, primitive.ptr(), settings.get(), operands)) return nb::none();
  // To compare parameters runs Python code, which may change the table.
  PyRef known = found.parameters, reference = found.reference, names = found.names;
  PyRef aval = found.plan.aval, dtype = found.plan.dtype, device = found.plan.device;
  if (!same_parameters(known.get(), parameters.ptr())) return nb::none();
  if (!operands.committed && operands.device != device.get()) return nb::none();
  PyRef result = call_reference(reference, names, operands, parameters.ptr());
  if (!result) throw nb::python_error();
  bool is_plain = is_numpy_array(result.get()) &&
                  reinterpret_cast<PyObject*>(
                      PyArray_DESCR(reinterpret_cast<PyArrayObject*>(result.get()))) == dtype.get();
  if (!is_plain) {
    auto* wanted = reinterpret_cast<PyArray_Descr*>(PyRef(dtype).release());
    result = PyRef::steal(PyArray_FromAny(result.get(), wanted, 0, 0, 0, nullptr));
    if (!result) throw nb::python_error();
  }
  freeze(result.get());
  PyObject* made = finish(aval.get(), result.release(), operands.device, operands.committed);
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

void learn_apply(nb::handle primitive, nb::handle reference, nb::handle arguments,
                 nb::dict parameters, nb::handle result) {
  Operands operands;
  HostOperand found;
  PyRef settings = eager_settings();
  std::size_t place = 0;
  if (!settings || applications == nullptr || PyDict_Size(parameters.ptr()) > kMostParameters ||
      !read_operands(arguments.ptr(), operands) || !is_array(result.ptr()) ||
      !read_array(result.ptr(), found) ||
      !find_place(primitive.ptr(), settings.get(), operands, parameters.ptr(), place)) {
    return;
  }
  Application made;
  if (!begin_plan(result.ptr(), made.plan)) throw nb::python_error();
  if (!made.plan.aval) return;
  made.plan.dtype = PyRef::borrow(reinterpret_cast<PyObject*>(PyArray_DESCR(found.host)));
  made.primitive = PyRef::borrow(primitive.ptr());
  made.reference = PyRef::borrow(reference.ptr());
  made.parameters = PyRef::borrow(parameters.ptr());
  PyRef list = PyRef::steal(PyDict_Keys(parameters.ptr()));
  if (!list) throw nb::python_error();
  made.names = PyRef::steal(PyList_AsTuple(list.get()));
  if (!made.names) throw nb::python_error();
  made.operands = operands.count;
  for (Py_ssize_t i = 0; i < operands.count; ++i) {
    made.types[i] = operands.of[i].type;
    if (operands.of[i].object == nullptr) continue;  // a scalar, whose class stays
    made.avals[i] = PyRef::borrow(aval_of(operands.of[i].object));
  }
  made.settings = std::move(settings);
  std::swap((*applications)[place], made);
}

void be_quiet_by(nb::object set, nb::object value, nb::object reset) {
  set_quiet = set.release().ptr();
  quiet = value.release().ptr();
  reset_quiet = reset.release().ptr();
  applications = new std::vector<Application>(kLines);
}

}  // namespace

void bind_apply(nb::module_& module) {
  module.def("apply_again", &apply_again,
             "The result of an operation like one that `learn_apply` was told of, or None.");
  module.def(
      "learn_apply", &learn_apply,
      "Takes note of an operation that Python did: what it is, its operands and its result.");
  module.def("be_quiet_by", &be_quiet_by,
             "Says how NumPy's warnings are switched off: a function, its argument, and one that "
             "takes back what the first has returned.");
}

}  // namespace xpr
