// `NativeCall`: what a call of a jitted function does before, and mostly instead of, Python code.
//
// The types and the place of the arguments are looked up in a `CallCache`. Its entries are made by
// the Python path after the first call of a kind; what has none goes there.
#include "bind_call.h"

#include <memory>
#include <unordered_map>
#include <vector>

#include "arrays.h"
#include "bind_devices.h"
#include "bind_interruption.h"
#include "block_object.h"
#include "call_key.h"
#include "call_state.h"
#include "numpy_arrays.h"
#include "result_tree.h"

namespace xpr {

namespace nb = nanobind;

namespace {

// How a call is answered.
enum class Way {
  kPython,      // by the Python path, from the beginning
  kProgram,     // by a function that takes the leaves and returns a list of arrays
  kExecutable,  // by a function that takes buffers and returns a list of buffers
  kDirect,      // by a `Program`, here
  kDevices,     // by `DevicePrograms`, here
};

struct Entry {
  Entry(const CallKey& call, ResultTree results) : key(call), tree(std::move(results)) {}

  StoredKey key;
  ResultTree tree;
  Way way = Way::kPython;
  PyRef function;
  std::vector<PyRef> first;             // buffers that come before those of the arguments
  std::vector<std::uint32_t> operands;  // the leaves that the function takes, by the key's number
  std::vector<PyRef> avals;             // of the results
  std::vector<int> types;               // kDirect: the operands' type numbers of NumPy's
  std::vector<PyRef> kinds;             // kDirect: shape and dtype of each result
  std::vector<std::uint32_t> donated;   // kDirect: the operands that the program may write to
  PyRef device;                         // kDirect: where the results are
  bool is_default = false;              // whether uncommitted work belongs on its device, too
  bool commits = false;                 // whether its results are committed

  int traverse(visitproc visit, void* arg) const {
    if (int stop = key.traverse(visit, arg)) return stop;
    if (int stop = tree.traverse(visit, arg)) return stop;
    Py_VISIT(function.get());
    for (const PyRef& buffer : first) Py_VISIT(buffer.get());
    for (const PyRef& aval : avals) Py_VISIT(aval.get());
    for (const PyRef& kind : kinds) Py_VISIT(kind.get());
    Py_VISIT(device.get());
    return 0;
  }
};

using EntryPointer = std::shared_ptr<const Entry>;

// More kinds of calls than this are forgotten, so that keys that never come again do not pile up.
constexpr std::size_t kMostEntries = 4096;

class CallTable {
 public:
  // The entry for the key, or none. With an exception set when comparing static values failed.
  EntryPointer find(const CallKey& key) const {
    auto range = entries_.equal_range(key.hash());
    if (!key.has_values()) {
      for (auto at = range.first; at != range.second; ++at) {
        if (at->second->key.matches_quickly(key)) return at->second;
      }
      return nullptr;
    }
    std::vector<EntryPointer> candidates;  // comparing values may change the table
    for (auto at = range.first; at != range.second; ++at) {
      if (at->second->key.matches_quickly(key)) candidates.push_back(at->second);
    }
    for (const EntryPointer& candidate : candidates) {
      int same = candidate->key.matches_values(key);
      if (same < 0) return nullptr;
      if (same) return candidate;
    }
    return nullptr;
  }

  // Puts `entry` in the place of `old`, which may be none.
  void replace(const EntryPointer& old, EntryPointer entry) {
    std::uint64_t hash = entry->key.hash();
    auto range = entries_.equal_range(hash);
    for (auto at = range.first; at != range.second; ++at) {
      if (old && at->second == old) {
        at->second = std::move(entry);
        return;
      }
    }
    if (entries_.size() >= kMostEntries) clear();
    entries_.emplace(hash, std::move(entry));
  }

  void clear() {
    // What is dropped may run Python code, which must find the table as it will be.
    auto dropped = std::move(entries_);
    entries_.clear();
  }

  std::size_t size() const { return entries_.size(); }

  int traverse(visitproc visit, void* arg) const {
    for (const auto& item : entries_) {
      if (int stop = item.second->traverse(visit, arg)) return stop;
    }
    return 0;
  }

 private:
  std::unordered_multimap<std::uint64_t, EntryPointer> entries_;
};

// ---- CallCache

struct CallCache {
  PyObject_HEAD CallTable* table;
};

PyTypeObject* cache_type = nullptr;

void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

CallTable& table_of(PyObject* cache) { return *reinterpret_cast<CallCache*>(cache)->table; }

PyObject* cache_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (self != nullptr) reinterpret_cast<CallCache*>(self)->table = new CallTable();
  return self;
}

void cache_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  delete reinterpret_cast<CallCache*>(self)->table;
  free_object(self);
}

int cache_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  CallTable* table = reinterpret_cast<CallCache*>(self)->table;
  return table == nullptr ? 0 : table->traverse(visit, arg);
}

int cache_clear(PyObject* self) {
  table_of(self).clear();
  return 0;
}

PyObject* cache_forget(PyObject* self, PyObject*) {
  table_of(self).clear();
  Py_RETURN_NONE;
}

Py_ssize_t cache_length(PyObject* self) { return static_cast<Py_ssize_t>(table_of(self).size()); }

PyMethodDef cache_methods[] = {
    {"clear", cache_forget, METH_NOARGS, "Forgets all programs."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot cache_slots[] = {
    {Py_tp_doc, const_cast<char*>("How calls of one function find their programs.")},
    {Py_tp_new, reinterpret_cast<void*>(cache_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(cache_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(cache_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(cache_clear)},
    {Py_sq_length, reinterpret_cast<void*>(cache_length)},
    {Py_tp_methods, cache_methods},
    {0, nullptr},
};

PyType_Spec cache_spec = {"xpr.runtimes._native.CallCache", sizeof(CallCache), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, cache_slots};

// ---- NativeCall

struct Call {
  PyObject_HEAD PyObject* cache;
  StaticArguments* statics;
};

// Whether every program is to be called by the Python path, where profiles see it.
bool is_watched = false;

PyObject* call_new(PyTypeObject* type, PyObject*, PyObject*) {
  return PyType_GenericAlloc(type, 0);
}

int call_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* call = reinterpret_cast<Call*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(call->cache);
  if (call->statics != nullptr) Py_VISIT(call->statics->names.get());
  return 0;
}

int call_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Call*>(self)->cache);
  return 0;
}

void call_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  call_clear(self);
  delete reinterpret_cast<Call*>(self)->statics;
  free_object(self);
}

PyObject* call_method(PyObject* self, PyObject* name, PyObject* args, PyObject* kwargs) {
  PyRef method = PyRef::steal(PyObject_GetAttr(self, name));
  return method ? call_python([&] { return PyObject_Call(method.get(), args, kwargs); }) : nullptr;
}

PyObject* build_tree(const Entry& entry, PyObject* results, bool wrap, bool committed) {
  // A list, or whatever the function returned in its place.
  auto count = static_cast<Py_ssize_t>(entry.tree.leaf_count());
  if (!PyList_Check(results) || PyList_Size(results) != count) {
    PyErr_Format(PyExc_TypeError, "a program must return a list of %zd results, got %R", count,
                 results);
    return nullptr;
  }
  SmallVector<PyObject*, 16> leaves;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* result = PyList_GetItem(results, i);
    PyObject* leaf =
        wrap ? make_array(entry.avals[static_cast<std::size_t>(i)].get(), result, committed)
             : PyRef::borrow(result).release();
    if (leaf == nullptr) {
      for (PyObject* made : leaves) Py_DECREF(made);
      return nullptr;
    }
    leaves.push_back(leaf);
  }
  return entry.tree.build(leaves.data());
}

PyObject* run(const Entry& entry, const CallKey& key) {
  bool wrap = entry.way == Way::kExecutable;
  bool committed = key.is_committed() || entry.commits;
  // All are held before the list is made: that may collect garbage, and so run Python code.
  SmallVector<PyObject*, 128> held;
  for (const PyRef& buffer : entry.first) held.push_back(PyRef(buffer).release());
  for (std::uint32_t index : entry.operands) {
    PyObject* leaf = key.leaf(index);
    held.push_back(PyRef::borrow(wrap ? host_buffer_of(leaf) : leaf).release());
  }
  PyRef operands = PyRef::steal(PyList_New(static_cast<Py_ssize_t>(held.size())));
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (operands) {
      PyList_SetItem(operands.get(), static_cast<Py_ssize_t>(i), held[i]);
    } else {
      Py_DECREF(held[i]);
    }
  }
  if (!operands) return nullptr;
  PyRef results = PyRef::steal(call_with(entry.function.get(), operands.get()));
  return results ? build_tree(entry, results.get(), wrap, committed) : nullptr;
}

// ---- kDirect

// The operands, if all arrays have blocks already. Runs no Python code, so nothing has to be held.
Ran read_ready(const Entry& entry, const Program& program, const CallKey& key, Block* blocks) {
  std::size_t place = 0;
  auto read = [&](PyObject* buffer) {
    PyObject* block = slot(buffer, classes.block);
    if (block == nullptr || block == Py_None) return false;
    blocks[place++] = *nb::inst_ptr<Block>(nb::handle(block));
    return true;
  };
  for (const PyRef& buffer : entry.first) {
    if (!read(buffer.get())) return Ran::kNot;
  }
  for (std::uint32_t index : entry.operands) {
    PyObject* leaf = key.leaf(index);
    if (!is_array(leaf)) {
      place++;  // numbers come last: what they depend on is an attribute, which Python looks up
    } else if (!read(host_buffer_of(leaf))) {
      return Ran::kNot;
    }
  }
  for (std::size_t i = 0; i < entry.operands.size(); ++i) {
    PyObject* leaf = key.leaf(entry.operands[i]);
    std::size_t at = entry.first.size() + i;
    if (is_array(leaf)) continue;
    if (!read_number(leaf, entry.types[at], program.input_bytes(at), blocks[at])) return Ran::kNot;
  }
  return Ran::kWell;
}

// Has blocks made for the arrays that have none.
Ran make_ready(const Entry& entry, const CallKey& key) {
  SmallVector<PyObject*, 128> buffers;  // held, because this runs Python code
  for (const PyRef& buffer : entry.first) buffers.push_back(PyRef(buffer).release());
  for (std::uint32_t index : entry.operands) {
    PyObject* leaf = key.leaf(index);
    if (is_array(leaf)) buffers.push_back(PyRef::borrow(host_buffer_of(leaf)).release());
  }
  Ran ran = Ran::kWell;
  for (PyObject* held : buffers) {
    PyRef buffer = PyRef::steal(held);
    if (ran == Ran::kWell && !block_object(buffer.get())) ran = Ran::kFailed;
  }
  return ran;
}

// Replaces the blocks of donated operands by ones that nobody else sees.
Ran take_donated(const Entry& entry, const CallKey& key, Block* blocks, Donations& donations) {
  // What waits there may still have to read what is donated: the Python path waits for it.
  int waiting = has_programs_waiting(entry.device.get());
  if (waiting != 0) return waiting < 0 ? Ran::kFailed : Ran::kNot;
  std::vector<PyRef> taken;
  for (std::uint32_t place : entry.donated) {
    PyObject* leaf = key.leaf(entry.operands[place - entry.first.size()]);
    if (!is_array(leaf)) return Ran::kNot;
    taken.push_back(PyRef::borrow(host_buffer_of(leaf)));
    int count = 0;
    for (std::uint32_t index : entry.operands) {
      PyObject* other = key.leaf(index);
      count += is_array(other) && host_buffer_of(other) == taken.back().get();
    }
    if (count != 1) return Ran::kNot;  // the Python path refuses that
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (!take_block(taken[i].get(), blocks[entry.donated[i]])) return Ran::kFailed;
  }
  for (PyRef& buffer : taken) donations.add(std::move(buffer));
  return Ran::kWell;
}

Ran run_directly(const Entry& entry, const CallKey& key, PyObject*& answer) {
  const Program& program = *nb::inst_ptr<Program>(nb::handle(entry.function.get()));
  constexpr std::size_t kFew = 16;
  Block few_operands[kFew], few_results[kFew];
  std::vector<Block> many_operands, many_results;
  Block *operands = few_operands, *results = few_results;
  if (program.argument_count() > kFew) {
    many_operands.resize(program.argument_count());
    operands = many_operands.data();
  }
  if (program.result_count() > kFew) {
    many_results.resize(program.result_count());
    results = many_results.data();
  }
  Donations donations;
  std::vector<PyRef> held;
  try {
    if (!entry.donated.empty() || program.may_run_long()) key.hold(held);
    if (read_ready(entry, program, key, operands) != Ran::kWell) {
      // Numbers that do not fit, or arrays that no program has used so far.
      key.hold(held);
      Ran ran = make_ready(entry, key);
      if (ran == Ran::kWell) ran = read_ready(entry, program, key, operands);
      if (ran != Ran::kWell) return ran;
    }
    if (!entry.donated.empty()) {
      Ran ran = take_donated(entry, key, operands, donations);
      if (ran != Ran::kWell) return ran;
    }
    if (program.may_run_long()) {
      run_without_lock(program, operands, results, false, nullptr);
    } else {
      program.run(operands, results, false);
    }
  } catch (nb::python_error& error) {
    error.restore();  // KeyboardInterrupt, say
    return Ran::kFailed;
  } catch (const std::exception& error) {
    if (entry.donated.empty()) return Ran::kNot;  // the Python path comes to the same
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return Ran::kFailed;
  }
  bool committed = key.is_committed() || entry.commits;
  SmallVector<PyObject*, 16> leaves;
  for (std::size_t k = 0; k < program.result_count(); ++k) {
    PyRef block =
        PyRef::steal(nb::cast(std::move(results[k]), nb::rv_policy::move).release().ptr());
    PyRef buffer = PyRef::steal(
        block ? make_block_buffer(block.get(), entry.kinds[k].get(), entry.device.get()) : nullptr);
    PyObject* array = buffer ? make_array(entry.avals[k].get(), buffer.get(), committed) : nullptr;
    if (array == nullptr) {
      for (PyObject* made : leaves) Py_DECREF(made);
      return Ran::kFailed;
    }
    leaves.push_back(array);
  }
  answer = entry.tree.build(leaves.data());
  return answer == nullptr ? Ran::kFailed : Ran::kWell;
}

Ran run_here(const Entry& entry, const CallKey& key, PyObject*& answer) {
  if (entry.way == Way::kDirect) return run_directly(entry, key, answer);
  const auto& programs = *nb::inst_ptr<DeviceCall>(nb::handle(entry.function.get()));
  return programs.run(key, entry.operands, entry.avals, entry.tree, answer);
}

// The entry for a call, if it can be answered here. Without one, `unusual` says whether the Python
// path is to look further before it makes one.
EntryPointer find(const Call& call, CallKey& key, PyObject* args, PyObject* kwargs,
                  std::vector<PyRef>& held, bool& unusual) {
  PyRef trace_key = PyRef::steal(PyObject_GetAttr(around.settings, around.trace_key_name));
  if (!trace_key) return nullptr;
  Walked walked = key.add_call(trace_key.get(), args, kwargs, *call.statics);
  unusual = walked != Walked::kUsual;
  if (unusual) {
    PyErr_Clear();  // a static value without a hash: the Python path names it
    return nullptr;
  }
  if (key.has_values()) key.hold(held);  // comparing them may run code that drops the arguments
  EntryPointer entry = table_of(call.cache).find(key);
  if (entry && (entry->way == Way::kPython || !(key.is_committed() || entry->is_default))) {
    unusual = true;
    return nullptr;
  }
  return entry;
}

PyObject* call_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  auto* call = reinterpret_cast<Call*>(self);
  bool unusual = true;
  if (call->cache != nullptr && around.context != nullptr) {
    PyRef trace = PyRef::steal(PyObject_GetAttr(around.context, around.trace_name));
    if (!trace) return nullptr;
    if (trace.get() == around.eager) {
      CallKey key;
      std::vector<PyRef> held;
      EntryPointer entry = find(*call, key, args, kwargs, held, unusual);
      if (PyErr_Occurred()) return nullptr;
      if (entry && (entry->way == Way::kDirect || entry->way == Way::kDevices)) {
        PyObject* answer = nullptr;
        if (!is_watched && run_here(*entry, key, answer) != Ran::kNot) return answer;
        unusual = true;
      } else if (entry) {
        return run(*entry, key);
      }
    }
  }
  if (unusual) return call_method(self, around.python_call_name, args, kwargs);
  PyRef named = kwargs == nullptr ? PyRef::steal(PyDict_New()) : PyRef::borrow(kwargs);
  if (!named) return nullptr;
  return call_python([&] {
    return PyObject_CallMethodObjArgs(self, around.first_call_name, args, named.get(), nullptr);
  });
}

void prepare(nb::handle self, nb::handle cache, nb::sequence positions, nb::handle names) {
  auto* call = reinterpret_cast<Call*>(self.ptr());
  if (Py_TYPE(cache.ptr()) != cache_type) throw nb::type_error("prepare takes a CallCache");
  auto statics = std::make_unique<StaticArguments>();
  for (nb::handle position : positions) {
    statics->positions.push_back(nb::cast<Py_ssize_t>(position));
  }
  if (nb::len(names) != 0) statics->names = PyRef::borrow(names.ptr());
  delete call->statics;
  call->statics = statics.release();
  PyRef old = PyRef::steal(std::exchange(call->cache, PyRef::borrow(cache.ptr()).release()));
}

PyType_Slot call_slots[] = {
    {Py_tp_doc, const_cast<char*>("A function whose calls are looked up in a CallCache.")},
    {Py_tp_new, reinterpret_cast<void*>(call_new)},
    {Py_tp_call, reinterpret_cast<void*>(call_call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(call_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(call_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(call_clear)},
    {0, nullptr},
};

PyType_Spec call_spec = {"xpr.runtimes._native.NativeCall", sizeof(Call), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, call_slots};

// ---- entries, which the Python path makes

// `kind` is "python", "program", "executable", "devices" or "direct"; then `kinds` are the types of
// the operands, those of the results, and the places of the donated operands. `kept` are the
// leaves, in the order of the arguments' pytree, that the function takes after the buffers `first`.
void remember(nb::handle self, nb::handle args, nb::handle kwargs, const char* kind,
              nb::handle function, nb::sequence first, nb::sequence kept, nb::sequence avals,
              nb::tuple results, nb::handle device, bool is_default, bool commits,
              nb::tuple kinds) {
  auto* call = reinterpret_cast<Call*>(self.ptr());
  PyRef trace_key = PyRef::steal(PyObject_GetAttr(around.settings, around.trace_key_name));
  if (!trace_key) throw nb::python_error();
  CallKey key;
  Walked walked = key.add_call(trace_key.get(), args.ptr(), kwargs.ptr(), *call->statics);
  if (walked == Walked::kFailed) throw nb::python_error();
  if (walked != Walked::kUsual) return;
  std::vector<PyRef> held;
  key.hold(held);
  auto entry = std::make_shared<Entry>(
      key, ResultTree(results[0].ptr(), nb::cast<std::size_t>(results[1]), results[2].ptr()));
  std::string_view way = kind;
  bool here = key.device() == nullptr || key.device() == device.ptr();
  if (way == "executable" && key.has_foreign()) {
    throw nb::value_error("remember: an executable takes arrays only");
  }
  if (here && way == "program") entry->way = Way::kProgram;
  if (here && way == "executable") entry->way = Way::kExecutable;
  if (here && way == "direct") {
    if (!nb::isinstance<Program>(function)) throw nb::type_error("remember takes a Program");
    entry->way = Way::kDirect;
    entry->device = PyRef::borrow(device.ptr());
    for (nb::handle type : nb::borrow<nb::sequence>(kinds[0])) {
      entry->types.push_back(type_number(nb::object(type[1]).ptr()));
    }
    for (nb::handle place : nb::borrow<nb::sequence>(kinds[2])) {
      entry->donated.push_back(nb::cast<std::uint32_t>(place));
    }
    for (nb::handle type : nb::borrow<nb::sequence>(kinds[1])) {
      entry->kinds.push_back(PyRef::borrow(type.ptr()));
    }
  }
  if (way == "devices") {
    if (!nb::isinstance<DeviceCall>(function)) throw nb::type_error("remember: no DevicePrograms");
    const DeviceCall& programs = *nb::inst_ptr<DeviceCall>(function);
    if (programs.leaf_count() != nb::len(kept) || programs.result_count() != nb::len(avals)) {
      throw nb::value_error("remember: the programs take or return another number of arrays");
    }
    if (key.device() == nullptr) entry->way = Way::kDevices;
  }
  entry->function = PyRef::borrow(function.ptr());
  entry->is_default = is_default;
  entry->commits = commits;
  for (nb::handle buffer : first) entry->first.push_back(PyRef::borrow(buffer.ptr()));
  for (nb::handle aval : avals) entry->avals.push_back(PyRef::borrow(aval.ptr()));
  std::vector<std::uint32_t> order = leaf_order(args.ptr(), kwargs.ptr(), *call->statics);
  for (nb::handle leaf : kept) {
    auto index = nb::cast<std::uint32_t>(leaf);
    if (index >= key.leaf_count()) throw nb::value_error("remember: there is no such leaf");
    entry->operands.push_back(order.empty() ? index : order[index]);
  }
  CallTable& table = table_of(call->cache);
  EntryPointer old = table.find(key);
  if (PyErr_Occurred()) throw nb::python_error();
  table.replace(old, std::move(entry));
}

PyObject* intern(const char* text) {
  PyObject* found = PyUnicode_InternFromString(text);
  if (found == nullptr) throw nb::python_error();
  return found;
}

void learn_calls(nb::object context, nb::object eager, nb::object settings) {
  // For as long as the process lives.
  Surroundings found;
  found.context = context.release().ptr();
  found.eager = eager.release().ptr();
  found.settings = settings.release().ptr();
  found.trace_name = intern("trace");
  found.trace_key_name = intern("trace_key");
  found.first_call_name = intern("_answer_first_call");
  found.python_call_name = intern("_call_in_python");
  found.native_block_name = intern("native_block");
  found.private_block_name = intern("private_block");
  found.host_view_name = intern("host_view");
  found.alias_name = intern("alias");
  found.delete_name = intern("delete");
  found.queue_name = intern("queue");
  found.is_idle_name = intern("is_idle");
  found.guard_name = intern("transfer_guard_host_to_device");
  around = found;
}

PyTypeObject* make_type(nb::module_& module, PyType_Spec& spec, const char* name) {
  nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  module.attr(name) = type;
  return as_type(type.release().ptr());
}

}  // namespace

void bind_call(nb::module_& module) {
  cache_type = make_type(module, cache_spec, "CallCache");
  make_type(module, call_spec, "NativeCall");
  module.def("prepare", &prepare, "Gives a NativeCall its cache and its static arguments.");
  module.def("remember", &remember, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg("function").none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg("device").none(), nb::arg(), nb::arg(), nb::arg(),
             "Enters a program into the cache of a NativeCall.");
  module.def("learn_calls", &learn_calls, "Says where the trace and the settings are found.");
  module.def("forget_shardings", &forget_shardings,
             "Lets go of the shardings that stand for equal ones.");
  module.def(
      "watch_calls", [](bool watched) { is_watched = watched; }, nb::arg("watched"),
      "Says whether executables are to be called for every program, or `Program`s by themselves.");
}

}  // namespace xpr
