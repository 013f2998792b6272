// `apply_again`: an operation whose like was done before, from the primitive to its reference rule
// and back.
//
// The first time, Python checks the operands, finds the type of the result and tells it to
// `learn_apply`. Operations of the same primitive, on arrays of the same types in the host's memory
// and with the same parameters, then call the reference rule directly.
#include "bind_apply.h"

#include <vector>

#include "applications.h"

namespace xpr {

namespace nb = nanobind;

namespace {

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

std::vector<Application>* applications = nullptr;

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
  std::uintptr_t mixed = mix(mix(0, primitive), settings);
  for (Py_ssize_t i = 0; i < operands.count; ++i) mixed = mix(mixed, operands.of[i].type);
  if (!mix_parameters(mixed, parameters)) return false;
  place = application_place(mixed);
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
  Quiet quiet;
  if (!quiet.is_set()) return {};
  return PyRef::steal(call_python([&] {
    return PyObject_Vectorcall(reference.get(), words, static_cast<std::size_t>(operands.count),
                               names.get());
  }));
}

// The result, or None where Python has to do it.
nb::object apply_again(nb::handle primitive, nb::handle arguments, nb::handle parameters) {
  Operands operands;
  PyRef settings = eager_settings();
  std::size_t place = 0;
  if (!settings || applications == nullptr) return nb::none();
  if (has_sharded(arguments.ptr())) {
    PyObject* made =
        apply_on_devices(primitive.ptr(), settings.get(), arguments.ptr(), parameters.ptr());
    if (made == nullptr && PyErr_Occurred()) throw nb::python_error();
    return made == nullptr ? nb::object(nb::none()) : nb::steal(made);
  }
  if (!read_operands(arguments.ptr(), operands) ||
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
  result = as_host(std::move(result), dtype.get());
  if (!result) throw nb::python_error();
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
  Quiet::by(set.release().ptr(), value.release().ptr(), reset.release().ptr());
  applications = new std::vector<Application>(kApplications);
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
  bind_apply_on_devices(module);
}

}  // namespace xpr
