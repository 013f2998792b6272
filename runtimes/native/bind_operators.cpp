// `NativeOperators`: arithmetic, comparisons and indexing of concrete arrays, from Python's
// operator to NumPy's loop and back.
//
// The first time, an operation on given types goes through Python; if the result is what one of
// NumPy's loops computes, the next ones take that loop. Whatever is unusual goes through Python
// each time, by the methods of `Array`.
#include "bind_operators.h"

#include <cstring>

#include "eager_state.h"
#include "numbers.h"

namespace xpr {

namespace nb = nanobind;

namespace {

// Longer loops do not notice what Python costs, and should give up its lock.
constexpr npy_intp kMostElements = 1 << 14;
// Smaller parts of an array are copies, as `detached` of xpr/primitives/slicing.py has it.
constexpr npy_intp kSmallBytes = 4096;

enum Operation {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kAnd,
  kOr,
  kXor,
  kLess,
  kLessEqual,
  kEqual,
  kNotEqual,
  kGreater,
  kGreaterEqual,
  kNegative,
  kItem,
  kOperations
};  // comparisons in the order of Py_LT ... Py_GE

struct OperationInfo {
  const char* method;
  const char* reflected;
  const char* ufunc;
  const char* kinds;  // the dtypes that NumPy and `Array` treat alike
};
constexpr OperationInfo kInfo[kOperations] = {
    {"__add__", "__radd__", "add", "iuf"},         {"__sub__", "__rsub__", "subtract", "iuf"},
    {"__mul__", "__rmul__", "multiply", "iuf"},    {"__truediv__", "__rtruediv__", "divide", "f"},
    {"__and__", "__rand__", "bitwise_and", "biu"}, {"__or__", "__ror__", "bitwise_or", "biu"},
    {"__xor__", "__rxor__", "bitwise_xor", "biu"}, {"__lt__", nullptr, "less", "biuf"},
    {"__le__", nullptr, "less_equal", "biuf"},     {"__eq__", nullptr, "equal", "biuf"},
    {"__ne__", nullptr, "not_equal", "biuf"},      {"__gt__", nullptr, "greater", "biuf"},
    {"__ge__", nullptr, "greater_equal", "biuf"},  {"__neg__", nullptr, "negative", "if"},
    {"__getitem__", nullptr, nullptr, "biuf"},
};

// The operators of Python and the loops of NumPy, and what was found of them.
struct Learned {
  PyObject* methods[kOperations] = {};
  PyObject* reflected[kOperations] = {};
  PyUFuncObject* ufuncs[kOperations] = {};
  PlanTable* plans = nullptr;
};
Learned learned;

// ---- operands

// One operand of an elementwise operation: an array or a Python number.
struct Operand : HostOperand {
  alignas(16) char number[16];

  bool is_array() const { return host != nullptr; }
};

constexpr std::uintptr_t kIntOperand = 1, kFloatOperand = 3, kNoOperand = 5;

bool read_operand(PyObject* object, Operand& operand) {
  if (is_array(object)) return read_array(object, operand);
  operand.object = object;
  if (PyFloat_CheckExact(object)) {
    operand.type = kFloatOperand;
  } else if (PyLong_CheckExact(object)) {
    operand.type = kIntOperand;
  } else {
    return false;
  }
  return true;
}

// Half precision is left out: its reference rules compute in single precision.
bool is_kind(int type, const char* kinds) {
  char kind = '?';
  if (type == NPY_BOOL) {
    kind = 'b';
  } else if (type == NPY_FLOAT || type == NPY_DOUBLE) {
    kind = 'f';
  } else if (PyTypeNum_ISUNSIGNED(type)) {
    kind = 'u';
  } else if (PyTypeNum_ISSIGNED(type)) {
    kind = 'i';
  }
  return std::strchr(kinds, kind) != nullptr;
}

// ---- operations by Python code

PyObject* in_python(Operation operation, PyObject* first, PyObject* second) {
  if (eager_state.base == nullptr) Py_RETURN_NOTIMPLEMENTED;
  if (PyObject_IsInstance(first, eager_state.base) == 1) {
    PyObject* args[] = {first, second};
    return call_python([&] {
      return PyObject_Vectorcall(learned.methods[operation], args, second == nullptr ? 1 : 2,
                                 nullptr);
    });
  }
  if (learned.reflected[operation] == nullptr) Py_RETURN_NOTIMPLEMENTED;
  PyObject* args[] = {second, first};
  return call_python(
      [&] { return PyObject_Vectorcall(learned.reflected[operation], args, 2, nullptr); });
}

// ---- elementwise operations

// Finds NumPy's loop for one or two operands of `type`; leaves the plan without one otherwise.
void plan_loop(PyUFuncObject* ufunc, int type, int result_type, Plan& plan) {
  for (int i = 0; i < ufunc->ntypes; ++i) {
    const char* types = ufunc->types + ptrdiff_t{i} * ufunc->nargs;
    bool fits = types[ufunc->nin] == result_type;
    for (int k = 0; k < ufunc->nin; ++k) fits = fits && types[k] == type;
    if (fits) {
      plan.loop = ufunc->functions[i];
      plan.loop_data = ufunc->data == nullptr ? nullptr : ufunc->data[i];
      return;
    }
  }
}

bool same_shape(PyArrayObject* a, PyArrayObject* b) {
  return PyArray_NDIM(a) == PyArray_NDIM(b) &&
         PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a));
}

// Whether the operand can be walked through with one stride, beside a result of that shape.
bool is_walkable(const Operand& operand, PyArrayObject* shape) {
  if (!operand.is_array() || PyArray_NDIM(operand.host) == 0) return true;
  return same_shape(operand.host, shape) &&
         (PyArray_NDIM(operand.host) == 1 || PyArray_IS_C_CONTIGUOUS(operand.host));
}

npy_intp step_of(const Operand& operand) {
  if (!operand.is_array() || PyArray_NDIM(operand.host) == 0) return 0;
  if (PyArray_NDIM(operand.host) == 1) return PyArray_STRIDE(operand.host, 0);
  return PyArray_ITEMSIZE(operand.host);
}

// The plan for operations of these types, from the result that Python has computed.
bool make_plan(Operation operation, const Operand* operands, int count, PyObject* result,
               Plan& plan) {
  Operand found;
  if (!is_array(result) || !read_array(result, found)) return true;
  const Operand& whole = operands[0].is_array() ? operands[0] : operands[1];
  int type = PyArray_TYPE(whole.host);
  if (!is_kind(type, kInfo[operation].kinds)) return true;
  for (int i = 0; i < count; ++i) {
    const Operand& operand = operands[i];
    if (operand.is_array()) {
      bool fits = PyArray_NDIM(operand.host) == 0 || same_shape(operand.host, found.host);
      if (PyArray_TYPE(operand.host) != type || !fits) return true;
    } else if (operand.type == kFloatOperand && !is_kind(type, "f")) {
      return true;
    } else if (type == NPY_BOOL) {
      return true;
    }
  }
  if (!begin_plan(result, plan)) return false;
  plan.dtype = PyRef::borrow(reinterpret_cast<PyObject*>(PyArray_DESCR(found.host)));
  if (plan.aval) plan_loop(learned.ufuncs[operation], type, PyArray_TYPE(found.host), plan);
  return true;
}

// The result by NumPy's loop; null without an exception where it is not as planned.
PyObject* run_loop(const Plan& plan, Operand* operands, int count) {
  const Operand* shape = nullptr;
  bool committed = false;
  PyObject* device = nullptr;
  int type = -1;
  for (int i = 0; i < count; ++i) {
    const Operand& operand = operands[i];
    if (!operand.is_array()) continue;
    if (device != nullptr && operand.device != device) return nullptr;
    device = operand.device;
    committed |= operand.committed;
    type = PyArray_TYPE(operand.host);
    if (shape == nullptr || PyArray_NDIM(shape->host) == 0) shape = &operand;
  }
  if (!committed && device != plan.device.get()) return nullptr;
  npy_intp length = PyArray_SIZE(shape->host);
  if (length > kMostElements) return nullptr;
  char* pointers[3];
  npy_intp steps[3];
  for (int i = 0; i < count; ++i) {
    Operand& operand = operands[i];
    if (operand.is_array()) {
      if (!is_walkable(operand, shape->host)) return nullptr;
      pointers[i] = PyArray_BYTES(operand.host);
    } else {
      if (!write_number(operand.object, type, operand.number)) return nullptr;
      pointers[i] = operand.number;
    }
    steps[i] = step_of(operand);
  }
  auto* dtype = reinterpret_cast<PyArray_Descr*>(PyRef(plan.dtype).release());
  PyObject* made = PyArray_NewFromDescr(&PyArray_Type, dtype, PyArray_NDIM(shape->host),
                                        PyArray_DIMS(shape->host), nullptr, nullptr, 0, nullptr);
  if (made == nullptr) return nullptr;
  auto* host = reinterpret_cast<PyArrayObject*>(made);
  pointers[count] = PyArray_BYTES(host);
  steps[count] = PyArray_ITEMSIZE(host);
  if (length != 0) plan.loop(pointers, &length, steps, plan.loop_data);
  return finish(plan.aval.get(), made, device, committed);
}

PyObject* elementwise(Operation operation, PyObject* first, PyObject* second) {
  Operand operands[2];
  int count = second == nullptr ? 1 : 2;
  PyRef settings = eager_settings();
  bool known = settings && read_operand(first, operands[0]) &&
               (count == 1 || read_operand(second, operands[1]));
  if (!known || !(operands[0].is_array() || operands[count - 1].is_array())) {
    return in_python(operation, first, second);
  }
  PlanKey key{static_cast<std::uintptr_t>(operation), operands[0].type,
              count == 1 ? kNoOperand : operands[1].type, settings.get()};
  if (const Plan* found = learned.plans->find(key)) {
    if (found->loop != nullptr) {
      Plan plan = *found;  // a garbage collection on the way may change the table
      PyObject* result = run_loop(plan, operands, count);
      if (result != nullptr || PyErr_Occurred()) return result;
    }
    return in_python(operation, first, second);
  }
  PyRef result = PyRef::steal(in_python(operation, first, second));
  if (!result || result.get() == Py_NotImplemented) return result.release();
  // Python code has run: an operand may have been given away meanwhile.
  bool there =
      read_operand(first, operands[0]) && (count == 1 || read_operand(second, operands[1]));
  Plan plan;
  if (there && !make_plan(operation, operands, count, result.get(), plan)) return nullptr;
  if (there) learned.plans->add(key, std::move(plan));
  return result.release();
}

// ---- parts of arrays

// `x[2]`, `x[1, 2]` and `x[3:5]`: consecutive elements of a contiguous array.
struct Part {
  npy_intp first = 0;   // the number of the first element
  npy_intp length = 0;  // how many rows a slice has
  int dropped = 0;      // leading axes that are gone
  bool is_slice = false;
};

bool read_integer(PyObject* index, npy_intp extent, npy_intp& value) {
  if (!PyLong_CheckExact(index)) return false;
  value = PyLong_AsSsize_t(index);
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  if (value < 0) value += extent;
  return value >= 0 && value < extent;
}

bool is_plain_bound(PyObject* slice, const char* name) {
  PyRef bound = PyRef::steal(PyObject_GetAttrString(slice, name));
  if (!bound) PyErr_Clear();
  return bound && (bound.get() == Py_None || PyLong_CheckExact(bound.get()));
}

bool read_part(PyArrayObject* host, PyObject* index, Part& part) {
  int ndim = PyArray_NDIM(host);
  if (ndim == 0 || !PyArray_IS_C_CONTIGUOUS(host)) return false;
  if (PyTuple_CheckExact(index)) {
    auto count = static_cast<int>(PyTuple_Size(index));
    if (count == 0 || count > ndim) return false;
    npy_intp number = 0;
    for (int axis = 0; axis < count; ++axis) {
      npy_intp value = 0;
      if (!read_integer(PyTuple_GetItem(index, axis), PyArray_DIM(host, axis), value)) return false;
      number = number * PyArray_DIM(host, axis) + value;
    }
    part.first = number;
    part.dropped = count;
    return true;
  }
  if (PySlice_Check(index)) {
    // Bounds of other types may be arrays, which run Python code.
    for (const char* name : {"start", "stop", "step"}) {
      if (!is_plain_bound(index, name)) return false;
    }
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (PySlice_Unpack(index, &start, &stop, &step) < 0) {
      PyErr_Clear();
      return false;
    }
    part.length = PySlice_AdjustIndices(PyArray_DIM(host, 0), &start, &stop, step);
    part.first = start;
    part.is_slice = true;
    return step == 1;
  }
  part.dropped = 1;
  return read_integer(index, PyArray_DIM(host, 0), part.first);
}

PyObject* copy_part(const Plan& plan, const Operand& x, const Part& part) {
  if (!x.committed && x.device != plan.device.get()) return nullptr;
  npy_intp extents[NPY_MAXDIMS];
  int ndim = PyArray_NDIM(x.host) - part.dropped;
  npy_intp row = PyArray_ITEMSIZE(x.host);
  int kept_from = part.is_slice ? 1 : part.dropped;
  for (int axis = kept_from; axis < PyArray_NDIM(x.host); ++axis) {
    row *= PyArray_DIM(x.host, axis);
  }
  for (int i = 0; i < ndim; ++i) extents[i] = PyArray_DIM(x.host, part.dropped + i);
  if (part.is_slice) extents[0] = part.length;
  npy_intp size = part.is_slice ? row * part.length : row;
  if (size > kSmallBytes) return nullptr;
  auto* dtype = reinterpret_cast<PyArray_Descr*>(PyRef(plan.dtype).release());
  PyObject* made =
      PyArray_NewFromDescr(&PyArray_Type, dtype, ndim, extents, nullptr, nullptr, 0, nullptr);
  if (made == nullptr) return nullptr;
  if (size != 0) {
    std::memcpy(PyArray_BYTES(reinterpret_cast<PyArrayObject*>(made)),
                PyArray_BYTES(x.host) + part.first * row, static_cast<std::size_t>(size));
  }
  return finish(plan.aval.get(), made, x.device, x.committed);
}

bool make_part_plan(const Operand& x, PyObject* result, Plan& plan) {
  Operand found;
  if (!is_array(result) || !read_array(result, found)) return true;
  if (PyArray_TYPE(found.host) != PyArray_TYPE(x.host)) return true;
  plan.dtype = PyRef::borrow(reinterpret_cast<PyObject*>(PyArray_DESCR(found.host)));
  return begin_plan(result, plan);
}

PyObject* item(PyObject* self, PyObject* index) {
  Operand x;
  Part part;
  PyRef settings = eager_settings();
  bool known = settings && is_array(self) && read_array(self, x) &&
               is_kind(PyArray_TYPE(x.host), kInfo[kItem].kinds) && read_part(x.host, index, part);
  if (!known) return in_python(kItem, self, index);
  auto number = part.is_slice ? 4 * part.length + 3 : 4 * part.dropped + 1;
  PlanKey key{kItem, x.type, static_cast<std::uintptr_t>(number), settings.get()};
  if (const Plan* found = learned.plans->find(key)) {
    if (found->aval) {
      Plan plan = *found;  // a garbage collection on the way may change the table
      PyObject* result = copy_part(plan, x, part);
      if (result != nullptr || PyErr_Occurred()) return result;
    }
    return in_python(kItem, self, index);
  }
  PyRef result = PyRef::steal(in_python(kItem, self, index));
  if (!result) return nullptr;
  Plan plan;
  if (read_array(self, x)) {
    if (!make_part_plan(x, result.get(), plan)) return nullptr;
    learned.plans->add(key, std::move(plan));
  }
  return result.release();
}

// ---- the class

template <Operation operation>
PyObject* binary(PyObject* first, PyObject* second) {
  return elementwise(operation, first, second);
}

PyObject* negative(PyObject* x) { return elementwise(kNegative, x, nullptr); }

PyObject* compare(PyObject* first, PyObject* second, int how) {
  // Python's numbers of the comparisons are < <= == != > >=, as those here.
  return elementwise(static_cast<Operation>(kLess + how), first, second);
}

template <typename Function>
PyType_Slot entry(int slot_number, Function function) {
  return {slot_number, reinterpret_cast<void*>(function)};
}

PyType_Slot operator_slots[] = {
    {Py_tp_doc, const_cast<char*>("The operators of concrete arrays.")},
    entry(Py_nb_add, &binary<kAdd>),
    entry(Py_nb_subtract, &binary<kSubtract>),
    entry(Py_nb_multiply, &binary<kMultiply>),
    entry(Py_nb_true_divide, &binary<kDivide>),
    entry(Py_nb_and, &binary<kAnd>),
    entry(Py_nb_or, &binary<kOr>),
    entry(Py_nb_xor, &binary<kXor>),
    entry(Py_nb_negative, &negative),
    entry(Py_tp_richcompare, &compare),
    entry(Py_tp_hash, &PyObject_HashNotImplemented),
    entry(Py_mp_subscript, &item),
    {0, nullptr},
};

PyType_Spec operator_spec = {"xpr.runtimes._native.NativeOperators", sizeof(PyObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, operator_slots};

void learn_operators(nb::object base, nb::object context, nb::object eager, nb::object settings,
                     nb::object is_plain, nb::object default_device) {
  Learned found;
  nb::module_ numpy = nb::module_::import_("numpy");
  for (int i = 0; i < kOperations; ++i) {
    const OperationInfo& info = kInfo[i];
    found.methods[i] = nb::object(base.attr(info.method)).release().ptr();
    if (info.reflected != nullptr) {
      found.reflected[i] = nb::object(base.attr(info.reflected)).release().ptr();
    }
    if (info.ufunc == nullptr) continue;
    found.ufuncs[i] =
        reinterpret_cast<PyUFuncObject*>(nb::object(numpy.attr(info.ufunc)).release().ptr());
  }
  found.plans = new PlanTable();
  learned = found;
  EagerState state;
  state.context = context.release().ptr();
  state.eager = eager.release().ptr();
  state.settings = settings.release().ptr();
  state.is_plain = is_plain.release().ptr();
  state.default_device = default_device.release().ptr();
  state.trace_name = PyUnicode_InternFromString("trace");
  state.trace_key_name = PyUnicode_InternFromString("trace_key");
  state.host_view_name = PyUnicode_InternFromString("host_view");
  state.base = base.release().ptr();
  eager_state = state;
}

}  // namespace

void bind_operators(nb::module_& module) {
  nb::object type = nb::steal(PyType_FromSpec(&operator_spec));
  if (!type.is_valid()) throw nb::python_error();
  module.attr("NativeOperators") = type;
  module.def("learn_operators", &learn_operators,
             "Says what the operators do in Python, and what they depend on.");
}

}  // namespace xpr
